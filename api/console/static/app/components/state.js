// @ts-check
// A state: its word, with a shape and a colour of its own.
import { html } from "../lib.js";
import { t } from "../messages.js";

/** @typedef {"waiting" | "suspended" | "running" | "succeeded" | "failed" | "stopped"} State */

/** States that runs and tasks have besides. @typedef {"skipped" | "upstream_failed" | "not_run" | "blocked" | "expired"} FlowState */

/** @type {Record<State | FlowState, string>} */
const SHAPES = {
  waiting: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11Zm0 2v3.8l2.4 1.5",
  suspended: "M5.5 3v10M10.5 3v10",
  running: "M4.5 2.8v10.4L13 8Z",
  succeeded: "M2.8 8.6 6.3 12l7-8",
  failed: "m3.5 3.5 9 9m0-9-9 9",
  stopped: "M3.8 3.8h8.4v8.4H3.8Z",
  skipped: "M3 3.5 8.5 8 3 12.5M11.5 3.5v9",
  upstream_failed: "M2.5 8h6m2-3.5 3 7m0-7-3 7",
  not_run: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11ZM4.2 11.8l7.6-7.6",
  blocked: "M4 7.5h8v6H4ZM5.8 7.5V5.2a2.2 2.2 0 0 1 4.4 0v2.3",
  expired: "M4 2.5h8L4 13.5h8Z",
};

/**
 * The state of a task in a run as pages show it: where others failed, or the run was stopped, before it had a job, it was not run.
 *
 * @template {string} S
 * @param {{ state: S, attempt: number, jobID: string | null }} task
 */
export const stateOfTask = ({ state, attempt, jobID }) => (state === "stopped" && attempt < 2 && !jobID ? "not_run" : state);

/** Those of jobs. @type {ReadonlySet<string>} */
export const STATES = new Set(["waiting", "suspended", "running", "succeeded", "failed", "stopped"]);

/** The outline of a state's shape, in a square of 16, and whether it is filled. @param {string} state */
export const shapeOf = (state) => ({
  path: SHAPES[/** @type {State} */ (state)] ?? SHAPES.waiting,
  filled: state === "running" || state === "stopped",
});

/** The word of a state; words that this version does not know stay as they are. @param {string} state */
export const word = (state) => (state in SHAPES ? t(/** @type {State} */ (state)) : state);

/** @param {{ state: string, quiet?: boolean }} props quiet: the shape alone, with the word for those who do not see it */
export function StateMark({ state, quiet = false }) {
  const { path, filled } = shapeOf(state);
  return html`<span class="state state-${state}" title=${quiet ? word(state) : undefined}>
    <svg viewBox="0 0 16 16" aria-hidden="true"><path d=${path} class=${filled ? "filled" : ""} /></svg>
    <span class=${quiet ? "unseen" : ""}>${word(state)}</span>
  </span>`;
}
