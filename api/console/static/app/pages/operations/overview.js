// @ts-check
// How the service stands: what is wrong first, then what its parts do.
import { html, useEffect } from "../../lib.js";
import { get } from "../../client.js";
import { duration } from "../../clock.js";
import { useResource } from "../../resource.js";
import { Link } from "../../components/link.js";
import { ErrorNotice } from "../../components/notice.js";
import { StateMark } from "../../components/state.js";
import { featureOf } from "../../plugin-keys.js";
import { t } from "./messages.js";

/** @typedef {import("../../../../types/openapi").components["schemas"]["Status"]} Status */

const EVERY_MS = 5000;
/** From these ages on the service calls a heartbeat, a probe or a report late, in seconds. */
const LATE = { worker: 30, beat: 45, probe: 120, report: 60 };

/** @param {number | null} seconds */
const ages = (seconds) => (seconds === null ? t("never") : duration(Math.max(0, seconds) * 1000));

export function Overview() {
  const status = useResource((signal) => get("/v1/status", { signal }), []);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || status.reload(), EVERY_MS);
    return () => clearInterval(timer);
  }, [status]);
  const { data, error } = status.state.value;
  if (!data) return html`<${ErrorNotice} error=${error} onRetry=${status.reload} />`;
  const now = /** @type {Status} */ (data);
  return html`
    <${ErrorNotice} error=${error} onRetry=${status.reload} />
    <section class=${`verdict ${now.problems.length ? "verdict-bad" : "verdict-good"}`} aria-label=${t("problems")}>
      <h2>${now.problems.length ? t("wrong", { count: now.problems.length }) : t("well")}</h2>
      <ul>${now.problems.map((problem) => html`<li key=${problem}>${problem}</li>`)}</ul>
      <div class="counts">
        ${["waiting", "suspended", "running"].map((state) => html`<${Link} key=${state} to="/jobs" filters=${{ state }}><strong class="number">${now.jobs[state] ?? 0}</strong> <${StateMark} state=${state} /><//>`)}
      </div>
    </section>
    <div class="columns">
      <${Table} title=${t("undelivered")} none=${t("allDelivered")} head=${[t("subscriber"), t("count"), t("oldest")]}
        rows=${now.deliveries.map((part) => ({
          key: part.plugin,
          cells: [html`<${Link} to="/operations" filters=${{ view: "deliveries", plugin: part.plugin, status: "waiting" }}>${part.plugin}<//>`, part.count, ages(part.oldestSeconds)],
        }))} />
      <${Table} title=${t("steps")} none=${t("noSteps")} head=${[t("stage"), t("condition"), t("count"), t("dueFor"), t("worker")]}
        rows=${now.steps.map((part) => ({
          key: `${part.stage} ${part.condition} ${part.worker}`,
          bad: part.condition === "overdue",
          cells: [html`<${Link} to="/jobs" filters=${{ stage: part.stage, state: "waiting" }}>${part.stage}<//>`, t(part.condition), part.count, ages(part.oldestSeconds), part.worker],
        }))} />
      <${Table} title=${t("failedJobs")} none=${t("noFailedJobs")} head=${[t("plugin"), t("count"), t("lastReason")]}
        rows=${now.failedJobs.map((part) => ({ key: part.plugin, bad: true, cells: [html`<${Link} to=${`/features/${encodeURIComponent(featureOf(part.plugin))}`}>${part.plugin}<//>`, part.count, part.reason] }))} />
      <${Table} title=${t("queues")} none=${t("redisAway")} head=${[t("queue"), t("messages"), t("lastProbe")]}
        rows=${Object.entries(now.queues ?? {}).map(([queue, messages]) => {
          const probe = now.queueProbes.find((part) => part.queue === queue);
          return { key: queue, bad: (probe?.ageSeconds ?? 0) > LATE.probe, cells: [queue, messages, probe ? ages(probe.ageSeconds) : "–"] };
        })} />
      <${Table} title=${t("workers")} none=${t("noWorkers")} head=${[t("worker"), t("lastHeartbeat")]}
        rows=${[
          ...now.workers.map((part) => ({ key: part.worker, bad: part.heartbeatAgeSeconds > LATE.worker, cells: [part.worker, ages(part.heartbeatAgeSeconds)] })),
          { key: "beat", bad: (now.beatHeartbeatAgeSeconds ?? 0) > LATE.beat, cells: ["beat", ages(now.beatHeartbeatAgeSeconds)] },
        ]} />
      <${Table} title=${t("cluster")} none="" head=${[now.cluster.name, now.cluster.usable ? t("usable") : t("unusable")]}
        rows=${[
          ...(now.cluster.problem ? [{ key: "problem", bad: true, cells: [t("problem"), now.cluster.problem] }] : []),
          { key: "report", bad: (now.cluster.reportAgeSeconds ?? 0) > LATE.report, cells: [t("lastReport"), ages(now.cluster.reportAgeSeconds)] },
          { key: "lag", cells: [t("lag"), ages(now.cluster.lagSeconds)] },
          { key: "observation", cells: [t("oldestObservation"), ages(now.observationAgeSeconds)] },
          { key: "cleanups", cells: [t("cleanups"), now.cleanups] },
        ]} />
    </div>
  `;
}

/**
 * @param {{ title: string, none: string, head: string[], rows: { key: string, bad?: boolean, cells: any[] }[] }} props bad: it is late, or
 * has failed
 */
function Table({ title, none, head, rows }) {
  return html`<section class="panel" aria-label=${title}>
    <header><h2>${title}</h2></header>
    ${rows.length
      ? html`<div class="table" tabindex="0" role="region" aria-label=${`${title}: ${head.join(", ")}`}><table>
          <thead><tr>${head.map((text) => html`<th key=${text}>${text}</th>`)}</tr></thead>
          <tbody>${rows.map(({ key, bad, cells }) => html`<tr key=${key} class=${bad ? "late" : ""}>${cells.map((cell) => html`<td class=${typeof cell === "number" ? "number" : ""}>${cell}</td>`)}</tr>`)}</tbody>
        </table></div>`
      : html`<p class="empty">${none}</p>`}
  </section>`;
}
