// @ts-check
// One flow: its schedule and what is wrong with it, its runs by task, its graph, its calendar and its backfills.
import { html, useEffect, useMemo } from "../lib.js";
import { get } from "../client.js";
import { go, href } from "../router.js";
import { useResource } from "../resource.js";
import { style } from "../styles.js";
import { Graph } from "../components/graph.js";
import { mostOf } from "../components/groups.js";
import { ErrorNotice } from "../components/notice.js";
import { Tabs, useView } from "../components/tabs.js";
import { Backfills } from "./flow/backfills.js";
import { Calendar } from "./flow/calendar.js";
import { Grid } from "./flow/grid.js";
import { Head } from "./flow/head.js";
import { nodesOf } from "./flow/nodes.js";
import { t } from "./flow/messages.js";

await style("flows.css");

/** @typedef {import("../../../types/openapi").components["schemas"]["ScheduleState"]} ScheduleState */
/** @typedef {import("../../../types/openapi").components["schemas"]["FlowLayout"]} Layout */

const VIEWS = /** @type {const} */ (["runs", "graph", "calendar", "backfills"]);
const POINTS = 200;

/** @param {{ name: string }} props */
export function Page({ name }) {
  const path = `/v1/flows/${encodeURIComponent(name)}`;
  /** @param {import("../live.js").FeedEvent} event */
  const concerns = (event) => event.kind === "run" && event.flow === name;
  const entry = useResource((signal) => get(path, { signal }), [name]);
  const schedule = useResource(
    /** @returns {Promise<ScheduleState>} */ (signal) => get(`${path}/schedule`, { query: { count: POINTS }, signal }),
    [name],
    concerns,
  );
  const view = useView(VIEWS);
  useEffect(() => void (document.title = `${name} · ${t("flow")} · Pipeline`), [name]);
  const { data, error } = entry.state.value;
  const state = schedule.state.value.data;
  if (!data) return html`<${ErrorNotice} error=${error} onRetry=${entry.reload} />`;
  const shown = VIEWS.filter((one) => state?.cron || (one !== "calendar" && one !== "backfills"));
  return html`
    <${Head} name=${name} entry=${data} schedule=${state} onChange=${schedule.reload} />
    <${ErrorNotice} error=${schedule.state.value.error} onRetry=${schedule.reload} />
    <section class="panel">
      <header class="tab-head"><${Tabs} views=${shown.map((one) => ({ name: one, text: t(one) }))} shown=${view} label=${t("views")} panel="flow-view" /></header>
      <div id="flow-view" role="tabpanel" aria-label=${t(view)}>
        ${view === "runs" && html`<${Grid} name=${name} concerns=${concerns} />`}
        ${view === "graph" && html`<${FlowGraph} name=${name} entry=${data} />`}
        ${view === "calendar" && state && html`<${Calendar} name=${name} schedule=${state} concerns=${concerns} />`}
        ${view === "backfills" && state && html`<${Backfills} name=${name} concerns=${concerns} />`}
      </div>
    </section>
  `;
}

/** @param {{ name: string, entry: any }} props */
function FlowGraph({ name, entry }) {
  const most = mostOf(entry.tasks.length);
  const layout = useResource(/** @returns {Promise<Layout>} */ (signal) => get(`/v1/flows/${encodeURIComponent(name)}/layout`, { query: { most }, signal }), [name, most]);
  const { data, error } = layout.state.value;
  const nodes = useMemo(() => nodesOf(entry), [entry]);
  if (error) return html`<${ErrorNotice} error=${error} onRetry=${layout.reload} />`;
  return data && html`<${Graph} nodes=${nodes} layers=${data.layers} label=${t("graph")} onChoose=${(/** @type {string} */ task) => go(href(`/flows/${encodeURIComponent(name)}/edit`, { task }))} />`;
}
