// @ts-check
// Backfills: which there were, and a new one, whose exact points are shown before it is started.
import { html, useState } from "../../lib.js";
import { ApiError, get, post, put } from "../../client.js";
import { momentIn } from "../../clock.js";
import { may } from "../../session.js";
import { useResource } from "../../resource.js";
import { Link } from "../../components/link.js";
import { ErrorNotice } from "../../components/notice.js";
import { StateMark, word } from "../../components/state.js";
import { Points } from "./head.js";
import { t } from "./messages.js";

/** @typedef {import("../../../../types/openapi").components["schemas"]["BackfillSummary"]} Backfill */
/** @typedef {import("../../../../types/openapi").components["schemas"]["BackfillPlan"]} Plan */

/** @param {{ name: string, concerns: (event: import("../../live.js").FeedEvent) => boolean }} props */
export function Backfills({ name, concerns }) {
  const path = `/v1/flows/${encodeURIComponent(name)}`;
  const read = useResource(/** @returns {Promise<Backfill[]>} */ (signal) => get(`${path}/backfills`, { query: { pageSize: 50 }, signal }), [name], concerns);
  const { data, error } = read.state.value;
  const [refused, setRefused] = useState(/** @type {ApiError | null} */ (null));
  /** @param {string} id @param {"stop" | "resume"} action */
  async function act(id, action) {
    try {
      await put(`/v1/backfills/${encodeURIComponent(id)}`, { action });
      setRefused(null);
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setRefused(failure);
    }
    read.reload();
  }
  return html`<div>
    ${may("write_job") && html`<${Plan} path=${path} onStart=${read.reload} />`}
    <${ErrorNotice} error=${error ?? refused} onRetry=${error ? read.reload : undefined} />
    ${data && !data.length && html`<p class="empty">${t("noBackfills")}</p>`}
    ${data &&
    data.length > 0 &&
    html`<div class="table" tabindex="0" role="region" aria-label=${t("backfills")}><table>
      <thead><tr><th class="tight">${t("state")}</th><th>${t("fromTo")}</th><th class="tight">${t("made")}</th><th>${t("reason")}</th><th class="tight"><span class="unseen">${t("change")}</span></th></tr></thead>
      <tbody>${data.map((one) => html`<tr key=${one.id}>
        <td class="tight"><${StateMark} state=${one.state} /></td>
        <td>${momentIn(one.from ?? "", one.timezone)} – ${momentIn(one.to ?? "", one.timezone)}<div class="muted"><code>${one.id}</code> ${one.runner}</div></td>
        <td class="tight number">${one.made} / ${one.total}</td>
        <td class="muted">${one.reason}</td>
        <td class="tight">${may("write_job") && (one.state === "running" ? html`<button type="button" class="danger" onClick=${() => act(one.id, "stop")}>${t("stop")}</button>` : (one.state === "failed" || one.state === "stopped") && html`<button type="button" onClick=${() => act(one.id, "resume")}>${t("resume")}</button>`)}</td>
      </tr>`)}</tbody>
    </table></div>`}
  </div>`;
}

/** @param {{ path: string, onStart: () => void }} props */
function Plan({ path, onStart }) {
  const [plan, setPlan] = useState(/** @type {{ plan: Plan, body: Record<string, unknown> } | null} */ (null));
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  /** @param {Record<string, unknown>} body @param {boolean} dryRun */
  async function ask(body, dryRun) {
    try {
      const found = await post(`${path}/backfill`, { ...body, dryRun });
      setPlan(dryRun ? { plan: found, body } : null);
      setError(null);
      if (!dryRun) onStart();
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    }
  }
  /** @param {SubmitEvent} event */
  function submit(event) {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.currentTarget));
    /** @param {string} name */
    const at = (name) => `${String(form.get(name)).replace("T", " ")}:00`.slice(0, 19);
    ask({ from: at("from"), to: at("to"), stopOnFailure: form.get("stop") === "on" }, true);
  }
  return html`<div class="plan">
    <form class="plan-form" onSubmit=${submit} onInput=${() => setPlan(null)}>
      <label class="field">${t("from")}<input type="datetime-local" name="from" required /></label>
      <label class="field">${t("to")}<input type="datetime-local" name="to" required /></label>
      <label class="check"><input type="checkbox" name="stop" /> ${t("stopOnFailure")}</label>
      <button type="submit">${t("showPoints")}</button>
    </form>
    <${ErrorNotice} error=${error} />
    ${plan &&
    html`<div class="plan-result" role="status">
      <h2>${t("pointsToRun", { count: plan.plan.points.length, zone: plan.plan.timezone })}</h2>
      <${Points} points=${plan.plan.points} zone=${plan.plan.timezone} />
      ${plan.plan.leftOut.length > 0 &&
      html`<h2>${t("leftOut", { count: plan.plan.leftOut.length })}</h2>
        <ul class="points" tabindex="0" aria-label=${t("leftOut", { count: plan.plan.leftOut.length })}>${plan.plan.leftOut.map((one) => html`<li key=${one.point}>${momentIn(one.point ?? "", plan.plan.timezone)} ${one.runID ? html`<${Link} to=${`/runs/${encodeURIComponent(one.runID)}`}>${word(one.state)}<//>` : t("due")}</li>`)}</ul>`}
      <button type="button" class="primary" disabled=${!plan.plan.points.length} onClick=${() => ask(plan.body, false)}>${t("startBackfill", { count: plan.plan.points.length })}</button>
    </div>`}
  </div>`;
}
