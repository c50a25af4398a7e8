// @ts-check
// The rail of stages: what each plugin decided and why, and beside it what the plugins of now would be asked (explain).
import { html } from "../../lib.js";
import { get } from "../../client.js";
import { duration, moment } from "../../clock.js";
import { useResource } from "../../resource.js";
import { ErrorNotice } from "../../components/notice.js";
import { t } from "./messages.js";

const STAGES = /** @type {const} */ (["translate", "factors", "gates", "decorate", "bind", "launch", "cluster"]);
const FINAL = new Set(["succeeded", "failed", "stopped"]);

/** @typedef {typeof STAGES[number]} Stage */
/** @typedef {import("../../../../types/openapi").components["schemas"]["TrailItem"]} Entry */
/** @typedef {import("../../../../types/openapi").components["schemas"]["PlannedStage"]} Planned */
/** @typedef {"passed" | "current" | "ahead" | "never" | "failedHere" | "stoppedHere" | "suspendedHere"} Mark */

/**
 * How a stage stands, by the job's state and the stage that it has come to.
 *
 * @param {Stage} stage @param {{ stage: string, state: string }} job @returns {Mark}
 */
export function markOf(stage, job) {
  const at = STAGES.indexOf(/** @type {Stage} */ (job.stage));
  const own = STAGES.indexOf(stage);
  if (own < at) return "passed";
  if (own > at) return FINAL.has(job.state) ? "never" : "ahead";
  if (job.state === "failed") return "failedHere";
  if (job.state === "stopped") return "stoppedHere";
  if (job.state === "suspended") return "suspendedHere";
  return job.state === "succeeded" ? "passed" : "current";
}

const SHAPES = {
  passed: "state-succeeded",
  current: "state-running",
  ahead: "",
  never: "",
  failedHere: "state-failed",
  stoppedHere: "state-stopped",
  suspendedHere: "state-suspended",
};

/**
 * @param {{ id: string, job: { stage: string, state: string }, trail: import("../../resource.js").Resource<Entry[]> }} props
 */
export function Rail({ id, job, trail }) {
  const plan = useResource(
    async (signal) => /** @type {Planned[]} */ ((await get(`/v1/job/explain/${encodeURIComponent(id)}`, { signal })).stages),
    [id],
  );
  const entries = trail.state.value.data ?? [];
  const foretold = plan.state.value.data ?? [];
  return html`<section class="panel">
    <header><h2>${t("decided")}</h2></header>
    <${ErrorNotice} error=${trail.state.value.error} onRetry=${trail.reload} />
    <ol class="rail">
      ${STAGES.map((stage) => {
        const mark = markOf(stage, job);
        const own = entries.filter((entry) => entry.stage === stage && entry.mode !== "shadow");
        const shadows = entries.filter((entry) => entry.stage === stage && entry.mode === "shadow");
        const planned = foretold.find((one) => one.stage === stage);
        return html`<li key=${stage} class=${`stop stop-${mark}`}>
          <i class=${`dot ${SHAPES[mark]}`} aria-hidden="true"></i>
          <div class="stop-head"><h3>${t(stage)}</h3><span class="muted">${t(mark)}</span></div>
          <${Decisions} entries=${own} />
          ${shadows.length > 0 && html`<p class="muted">${t("shadows")}</p><${Decisions} entries=${shadows} />`}
          <${Foretold} entries=${own} planned=${planned} mark=${mark} />
          ${stage === "cluster" && mark !== "ahead" && mark !== "never" && html`<p class="muted">${t("waitsForCluster")}</p>`}
        </li>`;
      })}
    </ol>
  </section>`;
}

/** @param {{ entries: Entry[] }} props */
function Decisions({ entries }) {
  return html`<ul class="decisions">
    ${entries.map(
      (entry) => html`<li key=${`${entry.plugin} ${entry.asking} ${entry.startedAt} ${entry.outcome}`} class=${`decision decision-${kindOf(entry)}`}>
        <div class="decision-head">
          <strong>${wordOf(entry)}</strong>
          <span class="plugin">${entry.plugin}</span>
          <span class="muted number" title=${entry.startedAt ? moment(entry.startedAt) : ""}>${timing(entry)}</span>
        </div>
        ${entry.reason && html`<p>${entry.reason}</p>`}
        ${entry.factors !== null && html`<${Factors} factors=${entry.factors} />`}
      </li>`,
    )}
  </ul>`;
}

/** What a generator said, a line for each factor. @param {{ factors: { topic: string, advice: unknown, reason: string }[] }} props */
function Factors({ factors }) {
  return html`<ul class="factors" tabindex="0">
    ${factors.map(
      ({ topic, advice, reason }, index) => html`<li key=${index}>
        <span class="plugin">${topic}</span> <strong>${typeof advice === "string" ? advice : JSON.stringify(advice)}</strong> ${reason}
      </li>`,
    )}
  </ul>`;
}

/** @param {Entry} entry */
function kindOf({ outcome, decision }) {
  if (outcome === "failed" || outcome === "rejected" || decision === "stop") return "bad";
  if (outcome === "suspended" || decision === "suspend" || outcome === "ignored") return "warn";
  return "good";
}

/** @param {Entry} entry */
function wordOf(entry) {
  const { outcome, decision, patch, actor } = entry;
  if (outcome === "resumed") return t("resumedBy", { actor });
  if (outcome === "ask_again") return t("askAgain");
  if (outcome !== "answered") return outcome in OUTCOMES ? t(OUTCOMES[/** @type {keyof typeof OUTCOMES} */ (outcome)]) : outcome;
  if (decision === "pass") return t("pass");
  if (decision === "suspend") return t("suspend");
  if (decision === "stop") return t("stopDecision");
  if (entry.stage === "translate" && patch) return t("translated");
  if (Array.isArray(patch)) return t("changed", { count: patch.length });
  return t(entry.factors === null ? "answered" : "gaveFactors");
}

const OUTCOMES = /** @type {const} */ ({ ignored: "ignored", suspended: "suspended", failed: "failed", rejected: "rejected" });

/** @param {Entry} entry */
function timing({ durationMs, attempts, asking }) {
  const parts = [duration(durationMs)];
  if (attempts > 1) parts.push(t("attempts", { count: attempts }));
  if (asking > 1) parts.push(t("asking", { number: asking }));
  return parts.join(" · ");
}

/** What explain says of the stage, where it differs from what happened or is still to come. */
/** @param {{ entries: Entry[], planned: Planned | undefined, mark: Mark }} props */
function Foretold({ entries, planned, mark }) {
  if (!planned || planned.pluginType === null) return null;
  const asked = new Set(entries.filter((entry) => entry.outcome !== "resumed").map((entry) => entry.plugin));
  const runs = planned.plugins.filter((plugin) => plugin.runs).map((plugin) => plugin.key);
  const missing = runs.filter((key) => !asked.has(key));
  const surprising = [...asked].filter((key) => !runs.includes(key));
  if (mark === "ahead" || mark === "current" || mark === "suspendedHere") {
    if (!missing.length) return asked.size ? null : html`<p class="muted">${planned.fails ? planned.outcome : t("nobodyAhead")}</p>`;
    return html`<ul class="foretold">${missing.map((key) => html`<li key=${key}><span class="plugin">${key}</span> <span class="muted">${t("willBeAsked")}</span></li>`)}</ul>`;
  }
  if (mark === "never") return null;
  if (!missing.length && !surprising.length) {
    return html`<p class="muted">${t(asked.size ? "asForetold" : "nobody")}</p>`;
  }
  return html`<ul class="foretold">
    ${missing.map((key) => html`<li key=${key}><span class="plugin">${key}</span> <span class="differs">${t("foretoldOnly")}</span></li>`)}
    ${surprising.map((key) => html`<li key=${key}><span class="plugin">${key}</span> <span class="differs">${t("notForetold")}</span></li>`)}
  </ul>`;
}
