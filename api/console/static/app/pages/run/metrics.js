// @ts-check
// What the tasks wrote to /metric.json: lines and bars as pictures, tables as tables.
import { html } from "../../lib.js";
import { get } from "../../client.js";
import { useResource } from "../../resource.js";
import { ErrorNotice } from "../../components/notice.js";
import { Chart, readChart } from "../../components/chart.js";
import { t } from "./messages.js";

/** @param {{ run: import("../run.js").Run }} props */
export function Metrics({ run }) {
  const done = run.tasks.filter(({ finishedAt }) => finishedAt).length;
  const read = useResource((signal) => get(`/v1/runs/${encodeURIComponent(run.id)}/metrics`, { signal }), [run.id, done]);
  const { data, error } = read.state.value;
  if (error) return html`<${ErrorNotice} error=${error} onRetry=${read.reload} />`;
  if (!data) return html`<p class="empty"> </p>`;
  const found = Object.entries(data).filter(([, metrics]) => /** @type {any[]} */ (metrics).length);
  if (!found.length) return html`<p class="empty">${t("noMetrics")}</p>`;
  return html`<div class="metrics">
    ${found.map(([task, metrics]) => html`<section key=${task}><h2>${task}</h2>${/** @type {any[]} */ (metrics).map((metric, index) => html`<${Metric} key=${index} metric=${metric} label=${task} />`)}</section>`)}
  </div>`;
}

/** @param {{ metric: any, label: string }} props */
function Metric({ metric, label }) {
  const kind = metric?.metric_type;
  if (kind === "text") return html`<p class="metric-text">${String(metric.text)}</p>`;
  if (kind === "table" && Array.isArray(metric.table)) return html`<${Table} rows=${metric.table} label=${label} />`;
  const chart = readChart(kind === "echart" || kind === undefined ? (metric.option ?? metric) : null);
  if (chart) return html`<${Chart} chart=${chart} />`;
  return html`<p class="muted">${t("noMetricPicture")}</p><pre class="tail" tabindex="0" role="region" aria-label=${label}>${JSON.stringify(metric, null, 2)}</pre>`;
}

/** Rows of values, or of objects with the same names. @param {{ rows: any[], label: string }} props */
function Table({ rows, label }) {
  const names = rows.length && rows[0] && typeof rows[0] === "object" && !Array.isArray(rows[0]) ? Object.keys(rows[0]) : null;
  const head = names ?? (Array.isArray(rows[0]) ? rows[0] : []);
  const body = names ? rows.map((row) => names.map((name) => row?.[name])) : rows.slice(1);
  return html`<div class="table" tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr>${head.map((/** @type {unknown} */ text, /** @type {number} */ index) => html`<th key=${index}>${String(text)}</th>`)}</tr></thead>
    <tbody>${body.map((row, index) => html`<tr key=${index}>${(Array.isArray(row) ? row : [row]).map((value, column) => html`<td key=${column} class="number">${typeof value === "object" ? JSON.stringify(value) : String(value)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}
