// @ts-check
// Which run, how it stands, and what can be done with it.
import { html, useState } from "../../lib.js";
import { call, post, put } from "../../client.js";
import { between, moment } from "../../clock.js";
import { go, href } from "../../router.js";
import { may } from "../../session.js";
import { Link } from "../../components/link.js";
import { ReasonDialog } from "../../components/reason-dialog.js";
import { StateMark } from "../../components/state.js";
import { ConfirmDialog } from "../../components/confirm-dialog.js";
import { t } from "./messages.js";

/** @typedef {import("../run.js").Run} Run */
/** @typedef {"retry" | "stop" | "dismiss" | "remove"} Action */

/** So many variables are open at first. */
const FEW = 4;
const ENDED = new Set(["succeeded", "failed", "stopped", "expired"]);

/** What can be done with a run. @param {Run} run @returns {Action[]} */
export function actionsOf({ state, trigger }) {
  /** @type {Action[]} */
  const found = [];
  if (state === "failed" || state === "stopped") found.push("retry");
  if (trigger === "schedule" && ENDED.has(state) && state !== "succeeded") found.push("dismiss");
  if (!ENDED.has(state)) found.push("stop");
  if (ENDED.has(state)) found.push("remove");
  return found;
}

/** @param {{ run: Run, onChange: () => void }} props */
export function Head({ run, onChange }) {
  const [action, setAction] = useState(/** @type {Action | null} */ (null));
  const path = `/v1/runs/${encodeURIComponent(run.id)}`;
  /** @type {Record<Exclude<Action, "stop">, () => Promise<unknown>>} */
  const acts = {
    retry: () => post(`${path}/retry`),
    dismiss: () => put(`${path}/dismiss`),
    remove: async () => {
      await call("DELETE", path);
      go(href(`/flows/${encodeURIComponent(run.flow)}`));
    },
  };
  const done = () => {
    setAction(null);
    onChange();
  };
  return html`
    <div class="page-head">
      <div>
        <h1><${Link} to=${`/flows/${encodeURIComponent(run.flow)}`}>${run.flow}<//> <span class="muted">${t("of", { date: moment(run.executionDate ?? run.createdAt ?? "") })}</span></h1>
        <p class="facts muted">
          <code>${run.id}</code>
          <span>${t(/** @type {any} */ (run.trigger))} ${t("by", { name: run.runner })}</span>
          ${run.startAt && html`<span class="number">${t(run.finishedAt ? "took" : "since", { time: between(run.startAt, run.finishedAt) })}</span>`}
          ${!run.startAt && !run.finishedAt && html`<span class="number">${t("waitsSince", { time: between(run.createdAt) })}</span>`}
        </p>
        <${Variables} values=${run.variables} />
      </div>
      <span class="big-state"><${StateMark} state=${run.state} /></span>
      <div class="actions">
        ${may("write_job") &&
        actionsOf(run).map(
          (name) => html`<button type="button" key=${name} class=${name === "retry" ? "primary" : name === "stop" ? "danger" : ""} onClick=${() => setAction(name)}>${t(name)}</button>`,
        )}
      </div>
    </div>
    ${action === "stop" && html`<${ReasonDialog} title=${t("stopTitle")} confirm=${t("stop")} danger act=${(/** @type {string} */ reason) => put(`${path}/stop`, { reason })} onClose=${done} />`}
    ${action && action !== "stop" && html`<${ConfirmDialog} title=${t(`${action}Title`)} confirm=${t(action)} danger=${action === "remove"} act=${acts[action]} onClose=${done} />`}
  `;
}

/** What all its tasks share. @param {{ values: Record<string, string> }} props */
function Variables({ values }) {
  const names = Object.keys(values);
  if (!names.length) return null;
  return html`<details class="run-variables" open=${names.length <= FEW}>
    <summary>${t("variables")} <span class="count">${names.length}</span></summary>
    <dl class="facts-list">${names.map((name) => html`<div key=${name}><dt><code>${name}</code></dt><dd><code class="output">${values[name]}</code></dd></div>`)}</dl>
  </details>`;
}
