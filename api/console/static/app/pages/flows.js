// @ts-check
// The flows: how their last runs went, when they run next, and which are paused or cannot run.
import { html, useEffect } from "../lib.js";
import { call } from "../client.js";
import { between, moment, now, shortDate } from "../clock.js";
import { query, setQuery } from "../router.js";
import { may } from "../session.js";
import { useResource } from "../resource.js";
import { style } from "../styles.js";
import { Link } from "../components/link.js";
import { ErrorNotice } from "../components/notice.js";
import { shapeOf, word } from "../components/state.js";
import { t } from "./flow/messages.js";

await style("flows.css");

/** @typedef {import("../../../types/openapi").components["schemas"]["FlowSummary"]} Flow */
/** @typedef {import("../../../types/openapi").components["schemas"]["RunSummary"]} Run */

const PAGE_SIZE = 50;
const RUNS_READ = 200;
const RUNS_SHOWN = 10;

export function Page() {
  const page = Number(query.value.get("page") ?? "1") || 1;
  const flows = useResource((signal) => readFlows(page, signal), [page], (event) => event.kind === "run");
  const runs = useResource(
    /** @returns {Promise<Run[]>} */ async (signal) => (await call("GET", "/v1/runs", { query: { pageSize: RUNS_READ }, signal })).payload,
    [],
    (event) => event.kind === "run",
  );
  useEffect(() => void (document.title = `${t("flows")} · Pipeline`), []);
  const { data, error } = flows.state.value;
  const last = byFlow(runs.state.value.data ?? []);
  return html`
    <div class="page-head">
      <h1>${t("flows")}</h1>
      ${data && html`<span class="count">${data.total}</span>`}
      <div class="actions">
        <${Link} class="button" to="/templates">${t("templates")}<//>
        ${may("write_job") && html`<${Link} class="button" to="/flows/import">${t("newFlow")}<//>`}
      </div>
    </div>
    <${ErrorNotice} error=${error} onRetry=${flows.reload} />
    ${data &&
    html`<section class="panel">
      ${data.flows.length
        ? html`<div class="table" tabindex="0" role="region" aria-label=${t("flows")}><table>
            <thead><tr><th>${t("flow")}</th><th class="tight">${t("lastRuns")}</th><th>${t("schedule")}</th><th class="wide tight">${t("tasks")}</th><th class="wide">${t("creator")}</th></tr></thead>
            <tbody>
              ${data.flows.map((flow) => html`<tr key=${flow.name}>
                <td><${Link} class="name" to=${`/flows/${encodeURIComponent(flow.name)}`}>${flow.name}<//><div class="muted">${flow.describe}</div></td>
                <td class="tight"><${LastRuns} runs=${last.get(flow.name) ?? []} /></td>
                <td><${Schedule} flow=${flow} /></td>
                <td class="wide tight number">${flow.tasks}</td>
                <td class="wide">${flow.creator}</td>
              </tr>`)}
            </tbody>
          </table></div>`
        : html`<p class="empty">${t("noFlows")}</p>`}
      ${data.total > PAGE_SIZE &&
      html`<nav class="pager" aria-label=${t("pages")}>
        ${page > 1 && html`<button type="button" onClick=${() => setQuery({ page: page > 2 ? String(page - 1) : "" })}>${t("previous")}</button>`}
        ${page * PAGE_SIZE < data.total && html`<button type="button" onClick=${() => setQuery({ page: String(page + 1) })}>${t("next")}</button>`}
      </nav>`}
    </section>`}
  `;
}

/** @param {number} page @param {AbortSignal} signal */
async function readFlows(page, signal) {
  const { payload, headers } = await call("GET", "/v1/flows", { query: { pageNumber: page, pageSize: PAGE_SIZE }, signal });
  return { flows: /** @type {Flow[]} */ (payload), total: Number(headers.get("X-Total-Count")) };
}

/** @param {Run[]} runs */
function byFlow(runs) {
  /** @type {Map<string, Run[]>} */
  const found = new Map();
  for (const run of runs) {
    const list = found.get(run.flow);
    if (!list) found.set(run.flow, [run]);
    else if (list.length < RUNS_SHOWN) list.push(run);
  }
  return found;
}

/** @param {{ runs: Run[] }} props */
function LastRuns({ runs }) {
  if (!runs.length) return html`<span class="muted">${t("noRuns")}</span>`;
  return html`<ul class="last-runs">
    ${[...runs].reverse().map((run) => {
      const { path, filled } = shapeOf(run.state);
      const text = `${word(run.state)}, ${moment(run.executionDate ?? run.createdAt ?? "")}`;
      return html`<li key=${run.id}><${Link} class=${`square state-${run.state}`} to=${`/runs/${encodeURIComponent(run.id)}`} title=${text} aria-label=${text}><svg viewBox="0 0 16 16" aria-hidden="true"><path d=${path} class=${filled ? "filled" : ""} /></svg><//></li>`;
    })}
  </ul>`;
}

/** @param {{ flow: Flow }} props */
function Schedule({ flow }) {
  if (!flow.schedule) return html`<span class="muted">${t("byHand")}</span>`;
  const due = flow.nextAt ? Date.parse(flow.nextAt) - now.value : 0;
  return html`<span><code>${flow.schedule}</code> <span class="muted">${flow.timezone}</span></span>
    <div>
      ${flow.fault
        ? html`<span class="bad-text">${flow.fault}</span>`
        : flow.paused
          ? html`<span class="warn-text">${t("paused")}</span>`
          : flow.nextAt && html`<span class="muted" title=${moment(flow.nextAt)}>${due > 0 ? t("nextIn", { time: between(new Date(now.value).toISOString(), flow.nextAt), at: shortDate(flow.nextAt) }) : t("due")}</span>`}
    </div>`;
}
