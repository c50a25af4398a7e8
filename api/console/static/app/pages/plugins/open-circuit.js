// @ts-check
// A plugin that is not called because it failed too often: why, what waits on it, and what would be without it.
import { html } from "../../lib.js";
import { get } from "../../client.js";
import { duration } from "../../clock.js";
import { may } from "../../session.js";
import { useResource } from "../../resource.js";
import { Link } from "../../components/link.js";
import { StateMark } from "../../components/state.js";
import { counted } from "../decisions/grouping.js";
import { STAGE_OF } from "./order.js";
import { t } from "./messages.js";

/** @typedef {import("../../../../types/openapi").components["schemas"]["JobSummary"]} Job */

/** As many jobs of the stage are looked at. */
const MOST = 500;
const SHOWN = 8;
const POLICY = /** @type {const} */ ({ Fail: "policyFail", Ignore: "policyIgnore", Suspend: "policySuspend" });

/** Whether a plugin is not called, or called only to see whether it is back. @param {string | undefined} circuit */
export const isBroken = (circuit) => circuit === "open" || circuit === "half-open";

/**
 * @param {{ plugin: import("../plugins.js").Plugin, circuit: { cause: string, failures: number } | undefined, deliveries: { plugin: string, count: number, oldestSeconds: number }[], linked?: boolean }} props
 */
export function OpenCircuit({ plugin, circuit, deliveries, linked = true }) {
  const waiting = deliveries.find((part) => part.plugin === plugin.key);
  return html`<section class="panel broken" aria-label=${t("notCalled", { name: plugin.feature })}>
    <header>
      <h2>${t("notCalled", { name: plugin.feature })}</h2>
      <code class="muted">${plugin.key}</code>
      ${linked && html`<div class="actions"><${Link} class="button" to=${`/features/${encodeURIComponent(plugin.feature)}`}>${t("whatWithout")}<//></div>`}
    </header>
    <div class="broken-body">
      <p class="cause">${t("failures", { count: circuit?.failures ?? 0 })}: ${circuit?.cause}</p>
      ${STAGE_OF[plugin.pluginType] && html`<p class="muted">${t(POLICY[/** @type {keyof typeof POLICY} */ (plugin.failurePolicy)], { time: duration(plugin.patienceSeconds * 1000) })}</p>`}
      ${STAGE_OF[plugin.pluginType] && may("read_job") && html`<${WaitingJobs} plugin=${plugin} />`}
      ${waiting &&
      html`<p><${Link} to="/operations" filters=${{ view: "deliveries", plugin: plugin.key, status: "waiting" }}>${t("deliveriesWait", { count: waiting.count })}<//></p>`}
    </div>
  </section>`;
}

/** @param {{ plugin: import("../plugins.js").Plugin }} props */
function WaitingJobs({ plugin }) {
  const stage = STAGE_OF[plugin.pluginType];
  const list = useResource(
    (signal) => get("/v1/job/list", { query: { state: "waiting", stage, order: "asc", pageSize: MOST }, signal }),
    [plugin.key],
    (event) => event.kind === "state" || (event.kind === "stage" && event.stage === stage),
  );
  // The reason of a job that waits for a plugin begins with the plugin's key.
  const jobs = /** @type {Job[]} */ (list.state.value.data ?? []).filter((job) => job.reason.startsWith(`${plugin.key} `));
  if (!list.state.value.data) return null;
  if (!jobs.length) return html`<p>${t("noJobsWait")}</p>`;
  return html`<div>
    <p><strong>${t("jobsWait", { count: jobs.length })}</strong> <span class="muted">${counted(jobs.map((job) => job.userID)).map(([user, count]) => `${user} ${count}`).join(", ")}</span></p>
    <ul class="waiting-jobs">
      ${jobs.slice(0, SHOWN).map((job) => html`<li key=${job.jobID}><${StateMark} state=${job.state} quiet /> <${Link} to=${`/jobs/${encodeURIComponent(job.jobID)}`}>${job.jobName}<//> <span class="muted">${job.userID}</span></li>`)}
      ${jobs.length > SHOWN && html`<li><${Link} to="/jobs" filters=${{ state: "waiting", stage }}>${t("allOfStage", { stage: stage ?? "" })}<//></li>`}
    </ul>
  </div>`;
}
