// @ts-check
// What matters about a run, first: which task failed and why, which waits for a decision, what the run waits for; and how far it is.
import { html } from "../../lib.js";
import { query, setQuery } from "../../router.js";
import { Link } from "../../components/link.js";
import { StateMark, word } from "../../components/state.js";
import { LogTail } from "./log-tail.js";
import { t } from "./messages.js";

/** @typedef {import("../run.js").Run} Run */
/** @typedef {import("../run.js").RunTask} RunTask */

const SHOWN = 5;
const DONE = new Set(["succeeded", "skipped"]);
export const TASK_STATES = ["failed", "suspended", "running", "waiting", "stopped", "upstream_failed", "not_run", "succeeded", "skipped"];

/** The failed tasks, by when they failed. @param {Run} run @returns {RunTask[]} */
export const failures = (run) =>
  run.tasks
    .filter(({ state }) => state === "failed")
    .sort((one, other) => (one.finishedAt ?? "").localeCompare(other.finishedAt ?? ""));

/** @param {{ run: Run, onChoose: (name: string) => void }} props */
export function Verdict({ run, onChoose }) {
  const failed = failures(run);
  const suspended = run.tasks.filter(({ state }) => state === "suspended");
  return html`
    ${failed.length > 0 && html`<${Failed} run=${run} failed=${failed} onChoose=${onChoose} />`}
    ${!failed.length && run.state === "failed" && html`<section class="callout callout-bad"><h2><${StateMark} state="failed" /></h2><p>${run.reason}</p></section>`}
    ${suspended.length > 0 &&
    html`<section class="callout callout-warn">
      <ul>
        ${suspended.slice(0, SHOWN).map(
          ({ name, reason, jobID }) => html`<li key=${name}>
            <h2>${t("suspendedOne", { task: name })}</h2>
            <p>${reason}</p>
            ${jobID && html`<${Link} class="button" to=${`/jobs/${encodeURIComponent(jobID)}`}>${t("decide")}<//>`}
          </li>`,
        )}
      </ul>
    </section>`}
    ${run.state === "blocked" &&
    html`<section class="callout callout-warn"><h2>${t("blocked")}</h2><p>${run.reason} ${run.blockedBy && html`<${Link} to=${`/runs/${encodeURIComponent(run.blockedBy)}`}><code>${run.blockedBy}</code><//>`}</p></section>`}
    ${run.state === "waiting" && html`<section class="callout"><h2>${t("waitingRun")}</h2><p>${run.reason}</p></section>`}
    ${(run.state === "stopped" || run.state === "expired") && html`<section class="callout"><h2><${StateMark} state=${run.state} /></h2><p>${run.reason}</p></section>`}
    <${Progress} run=${run} />
  `;
}

/** @param {{ run: Run, failed: RunTask[], onChoose: (name: string) => void }} props */
function Failed({ run, failed, onChoose }) {
  const [first, ...others] = failed;
  const held = run.tasks.filter(({ state }) => state === "upstream_failed").length;
  return html`<section class="callout callout-bad">
    <header>
      <h2><button type="button" class="link" onClick=${() => onChoose(first.name)}>${t(others.length ? "failedFirst" : "failedOne", { task: first.name })}</button></h2>
      ${first.attempt > 1 && html`<span class="muted">${t("attempts", { count: first.attempt })}</span>`}
      ${first.jobID && html`<${Link} to=${`/jobs/${encodeURIComponent(first.jobID)}`}>${t("openJob")}<//>`}
    </header>
    <p class="why">${first.reason}</p>
    ${first.jobID && html`<${LogTail} key=${first.jobID} run=${run.id} task=${first.name} />`}
    ${held > 0 && html`<p class="muted">${t("held", { count: held })}</p>`}
    ${others.length > 0 &&
    html`<ul class="others">
      ${others.slice(0, SHOWN).map(({ name, reason }) => html`<li key=${name}><button type="button" class="link" onClick=${() => onChoose(name)}>${name}</button> <span class="muted">${reason}</span></li>`)}
      ${others.length > SHOWN && html`<li><button type="button" class="link" onClick=${() => setQuery({ state: "failed", view: "" })}>${t("moreFailed", { count: others.length - SHOWN })}</button></li>`}
    </ul>`}
  </section>`;
}

/** How many tasks are in each state; each choice filters the list. @param {{ run: Run }} props */
function Progress({ run }) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { state } of run.tasks) counts.set(state, (counts.get(state) ?? 0) + 1);
  const shown = TASK_STATES.filter((state) => counts.has(state));
  const done = run.tasks.filter(({ state }) => DONE.has(state)).length;
  const chosen = query.value.get("state") ?? "";
  return html`<section class="progress" aria-label=${t("progress")}>
    <p class="unseen">${t("done", { done, count: run.tasks.length })}</p>
    <div class="progress-bar" aria-hidden="true">
      ${[...shown].reverse().map((state) => html`<i key=${state} class=${`part-${state}`} style=${{ flexGrow: counts.get(state) }}></i>`)}
    </div>
    <div class="chips" role="group" aria-label=${t("state")}>
      <button type="button" aria-pressed=${!chosen} onClick=${() => setQuery({ state: "" })}>${t("allStates")} <span class="count">${run.tasks.length}</span></button>
      ${shown.map(
        (state) => html`<button type="button" key=${state} aria-pressed=${chosen === state} title=${word(state)} onClick=${() => setQuery({ state: chosen === state ? "" : state, view: "" })}>
          <${StateMark} state=${state} /> <span class="count">${counts.get(state)}</span>
        </button>`,
      )}
    </div>
  </section>`;
}
