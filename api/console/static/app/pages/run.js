// @ts-check
// One run of a flow: what failed and why, its tasks as list, graph and time line, their logs and metrics, and what can be done.
import { html, useEffect, useMemo } from "../lib.js";
import { get } from "../client.js";
import { query, setQuery } from "../router.js";
import { useResource } from "../resource.js";
import { style } from "../styles.js";
import { Graph } from "../components/graph.js";
import { mostOf } from "../components/groups.js";
import { ErrorNotice } from "../components/notice.js";
import { stateOfTask } from "../components/state.js";
import { Tabs, useView } from "../components/tabs.js";
import { Head } from "./run/head.js";
import { Metrics } from "./run/metrics.js";
import { Task } from "./run/task.js";
import { TaskList } from "./run/tasks.js";
import { Timeline } from "./run/timeline.js";
import { Verdict } from "./run/verdict.js";
import { t } from "./run/messages.js";

// The logs are those of the job's page.
await Promise.all([style("flows.css"), style("job.css")]);

/** @typedef {import("../../../types/openapi").components["schemas"]["RunDetail"]} StoredRun */
/** @typedef {import("../../../types/openapi").components["schemas"]["TaskOfRun"]} StoredTask */
/** @typedef {Omit<StoredRun, "tasks"> & { tasks: RunTask[] }} Run */
/** @typedef {Omit<StoredTask, "state"> & { state: StoredTask["state"] | "not_run" }} RunTask */
/** @typedef {import("../../../types/openapi").components["schemas"]["FlowLayout"]} Layout */
/** @typedef {Map<string, string[]>} Upstream the tasks that each task waits for, by name */

const VIEWS = /** @type {const} */ (["tasks", "graph", "timeline", "metrics"]);

/** @param {{ id: string }} props */
export function Page({ id }) {
  const of = encodeURIComponent(id);
  /** @param {import("../live.js").FeedEvent} event */
  const concerns = (event) => event.runID === id && event.kind === "run";
  const detail = useResource((signal) => readRun(of, signal), [id], concerns);
  const { data, error } = detail.state.value;
  const flow = data?.flow;
  const upstream = useMemo(() => new Map((data?.tasks ?? []).map((one) => [one.name, one.upstream])), [data]);
  useEffect(() => void (document.title = `${flow ?? id} · ${t("run")} · Pipeline`), [flow]);
  const view = useView(VIEWS);
  const named = query.value.get("task") ?? "";
  if (!data) return html`<${ErrorNotice} error=${error} onRetry=${detail.reload} />`;
  const task = data.tasks.find(({ name }) => name === named);
  /** @param {string} name */
  const choose = (name) => setQuery({ task: name === named ? "" : name });
  return html`
    <${Head} run=${data} onChange=${detail.reload} />
    <${ErrorNotice} error=${error} onRetry=${detail.reload} />
    <${Verdict} run=${data} upstream=${upstream} onChoose=${choose} />
    <div class=${task ? "with-side" : ""}>
      <section class="panel">
        <header class="tab-head"><${Tabs} views=${VIEWS.map((name) => ({ name, text: t(name) }))} shown=${view} label=${t("views")} panel="run-view" /></header>
        <div id="run-view" role="tabpanel" aria-label=${t(view)}>
          ${view === "tasks" && html`<${TaskList} run=${data} upstream=${upstream} chosen=${named} onChoose=${choose} />`}
          ${view === "graph" && html`<${RunGraph} run=${data} chosen=${named} onChoose=${choose} />`}
          ${view === "timeline" && html`<${Timeline} run=${data} chosen=${named} onChoose=${choose} />`}
          ${view === "metrics" && html`<${Metrics} run=${data} />`}
        </div>
      </section>
      ${task && html`<${Task} key=${task.name} run=${data} task=${task} upstream=${upstream} onChoose=${choose} onChange=${detail.reload} />`}
    </div>
  `;
}

/** @param {string} of @param {AbortSignal} signal @returns {Promise<Run>} */
async function readRun(of, signal) {
  const run = await get(`/v1/runs/${of}`, { signal });
  return { ...run, tasks: run.tasks.map((/** @type {StoredTask} */ task) => ({ ...task, state: stateOfTask(task) })) };
}

/** @param {{ run: Run, chosen: string, onChoose: (name: string) => void }} props */
function RunGraph({ run, chosen, onChoose }) {
  const most = mostOf(run.tasks.length);
  const layout = useResource(/** @returns {Promise<Layout>} */ (signal) => get(`/v1/runs/${encodeURIComponent(run.id)}/layout`, { query: { most }, signal }), [run.id, most]);
  const { data, error } = layout.state.value;
  const focus = ["failed", "suspended", "running"].map((state) => run.tasks.find((task) => task.state === state)?.name).find(Boolean);
  if (!data) return html`<${ErrorNotice} error=${error} onRetry=${layout.reload} />`;
  return html`<${Graph} key=${run.id} nodes=${run.tasks} layers=${data.layers} label=${t("graphLabel")} chosen=${chosen} focus=${focus} onChoose=${onChoose} />`;
}
