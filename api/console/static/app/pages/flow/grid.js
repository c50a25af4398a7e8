// @ts-check
// Runs across, the newest at the right, and tasks down: one request for all that is shown.
import { html, useLayoutEffect, useRef } from "../../lib.js";
import { get } from "../../client.js";
import { between, moment } from "../../clock.js";
import { query, setQuery } from "../../router.js";
import { useResource } from "../../resource.js";
import { Link } from "../../components/link.js";
import { ErrorNotice } from "../../components/notice.js";
import { shapeOf, stateOfTask, word } from "../../components/state.js";
import { VirtualRows } from "../../components/virtual-rows.js";
import { t } from "./messages.js";

/** @typedef {import("../../../../types/openapi").components["schemas"]["Grid"]} GridData */
/** @typedef {import("../../../../types/openapi").components["schemas"]["GridRun"]} GridRun */

const RUNS = 25;
const TASKS = 200;
const ROW = 24;

/** @param {{ name: string, concerns: (event: import("../../live.js").FeedEvent) => boolean }} props */
export function Grid({ name, concerns }) {
  const offset = Number(query.value.get("from") ?? "0") || 0;
  const page = Number(query.value.get("page") ?? "1") || 1;
  const grid = useResource(
    /** @returns {Promise<GridData>} */ (signal) => get(`/v1/flows/${encodeURIComponent(name)}/grid`, { query: { pageSize: RUNS, pageNumber: page, taskLimit: TASKS, taskOffset: offset }, signal }),
    [name, offset, page],
    concerns,
  );
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const { data, error } = grid.state.value;
  useLayoutEffect(() => {
    if (box.current) box.current.scrollLeft = box.current.scrollWidth;
  }, [data?.runs.length]);
  if (!data) return html`<${ErrorNotice} error=${error} onRetry=${grid.reload} />`;
  if (!data.runs.length) return html`<p class="empty">${t("noRunsYet")}</p>`;
  const runs = [...data.runs].reverse();
  const rows = data.tasks.map((task, index) => ({ task, index }));
  const longest = Math.max(1, ...runs.map(seconds));
  return html`<div class="grid-scroll" ref=${box}>
    <div class="grid-inner">
      <div class="grid-head">
        <span class="grid-name muted">${data.taskCount > data.tasks.length ? t("tasksOf", { first: offset + 1, last: offset + data.tasks.length, count: data.taskCount }) : t("taskCount", { count: data.taskCount })}</span>
        ${runs.map((run) => {
          const text = [word(run.state), moment(run.executionDate ?? run.createdAt ?? ""), between(run.startAt, run.finishedAt), run.reason].filter(Boolean).join(", ");
          return html`<${Link} key=${run.id} class=${`grid-run state-${run.state}`} to=${`/runs/${encodeURIComponent(run.id)}`} title=${text} aria-label=${text}><i style=${{ height: `${6 + (seconds(run) / longest) * 42}px` }}></i><${Shape} state=${run.state} /><//>`;
        })}
      </div>
      <${VirtualRows}
        rows=${rows}
        height=${ROW}
        label=${t("gridLabel")}
        keyOf=${(/** @type {{ task: string }} */ row) => row.task}
        draw=${(/** @type {{ task: string, index: number }} */ { task, index }) => html`<div class="grid-row">
          <span class="grid-name" title=${task}>${task}</span>
          ${runs.map((run) => html`<${GridCell} key=${run.id} run=${run} task=${task} cell=${run.tasks[index]} />`)}
        </div>`}
      />
    </div>
    ${(data.taskCount > offset + data.tasks.length || offset > 0 || data.runs.length === RUNS || page > 1) &&
    html`<nav class="pager" aria-label=${t("pages")}>
      ${offset > 0 && html`<button type="button" onClick=${() => setQuery({ from: offset > TASKS ? String(offset - TASKS) : "" })}>${t("tasksBefore")}</button>`}
      ${data.taskCount > offset + data.tasks.length && html`<button type="button" onClick=${() => setQuery({ from: String(offset + TASKS) })}>${t("tasksAfter")}</button>`}
      ${data.runs.length === RUNS && html`<button type="button" onClick=${() => setQuery({ page: String(page + 1) })}>${t("older")}</button>`}
      ${page > 1 && html`<button type="button" onClick=${() => setQuery({ page: page > 2 ? String(page - 1) : "" })}>${t("newer")}</button>`}
    </nav>`}
  </div>`;
}

/** How long a run took, or has taken. @param {GridRun} run */
const seconds = (run) => (run.startAt ? ((run.finishedAt ? Date.parse(run.finishedAt) : Date.now()) - Date.parse(run.startAt)) / 1000 : 0);

/** A task in a run. The keyboard reaches it by the run, whose link is above. @param {{ run: GridRun, task: string, cell: GridRun["tasks"][number] }} props */
function GridCell({ run, task, cell }) {
  if (!cell) return html`<span class="grid-cell"></span>`;
  const state = stateOfTask(cell);
  const text = `${task}: ${word(state)}${cell.startAt ? `, ${between(cell.startAt, cell.finishedAt)}` : ""}`;
  return html`<${Link} class=${`grid-cell square state-${state}`} to=${`/runs/${encodeURIComponent(run.id)}`} filters=${{ task }} tabindex="-1" title=${text} aria-label=${text}><${Shape} state=${state} /><//>`;
}

/** @param {{ state: string }} props */
function Shape({ state }) {
  const { path, filled } = shapeOf(state);
  return html`<svg viewBox="0 0 16 16" aria-hidden="true"><path d=${path} class=${filled ? "filled" : ""} /></svg>`;
}
