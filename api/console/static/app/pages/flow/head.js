// @ts-check
// Which flow, its schedule, and what can be done with it.
import { html, useState } from "../../lib.js";
import { get, post, put } from "../../client.js";
import { momentIn } from "../../clock.js";
import { go, href } from "../../router.js";
import { may } from "../../session.js";
import { ConfirmDialog } from "../../components/confirm-dialog.js";
import { Link } from "../../components/link.js";
import { t } from "./messages.js";

/** @param {{ name: string, entry: any, schedule: import("../flow.js").ScheduleState | undefined, onChange: () => void }} props */
export function Head({ name, entry, schedule, onChange }) {
  const [dialog, setDialog] = useState(/** @type {"run" | "pause" | "resume" | null} */ (null));
  const path = `/v1/flows/${encodeURIComponent(name)}`;
  const zone = schedule?.timezone ?? "UTC";
  const close = () => {
    setDialog(null);
    onChange();
  };
  return html`
    <div class="page-head">
      <div>
        <h1>${name}</h1>
        <p class="muted">${entry.pipeline.describe}</p>
        ${schedule && html`<${ScheduleLine} schedule=${schedule} />`}
      </div>
      <div class="actions">
        ${may("write_job") && schedule?.cron && html`<button type="button" onClick=${() => setDialog(schedule.paused ? "resume" : "pause")}>${t(schedule.paused ? "resume" : "pause")}</button>`}
        <button type="button" onClick=${() => download(name)}>${t("export")}</button>
        ${may("write_job") && html`<${Link} class="button" to=${`/flows/${encodeURIComponent(name)}/edit`}>${t("edit")}<//>`}
        ${may("write_job") && html`<button type="button" class="primary" onClick=${() => setDialog("run")}>${t("run")}</button>`}
      </div>
    </div>
    ${schedule?.fault && html`<section class="callout callout-bad"><h2>${t("fault")}</h2><p>${schedule.fault}</p></section>`}
    ${schedule?.paused && html`<section class="callout callout-warn"><h2>${t("isPaused")}</h2><p>${schedule.missed.count ? t(schedule.missed.exact ? "missedCount" : "missedLeast", { count: schedule.missed.count, first: momentIn(schedule.missed.first[0] ?? "", zone) }) : t("missedNone")}</p></section>`}
    ${dialog === "run" && html`<${RunDialog} name=${name} env=${entry.pipeline.global_env ?? ""} onClose=${() => setDialog(null)} />`}
    ${dialog === "pause" && html`<${ConfirmDialog} title=${t("pauseTitle", { name })} confirm=${t("pause")} act=${() => put(`${path}/schedule`, { paused: true })} onClose=${close}><p>${t("pauseNote")}</p><//>`}
    ${dialog === "resume" &&
    schedule &&
    html`<${ConfirmDialog} title=${t("resumeTitle", { name })} confirm=${t("resume")} act=${(/** @type {FormData} */ form) => put(`${path}/schedule`, { paused: false, replay: form.get("replay") === "on" })} onClose=${close}>
      <p>${schedule.missed.count ? t("resumeMissed", { count: schedule.missed.count }) : t("missedNone")}</p>
      ${schedule.missed.count > 0 && html`<label class="check"><input type="checkbox" name="replay" /> ${t("replay")}</label>`}
      ${schedule.missed.count > 0 && html`<${Points} points=${schedule.missed.first} zone=${zone} count=${schedule.missed.count} />`}
    <//>`}
  `;
}

/** @param {{ schedule: import("../flow.js").ScheduleState }} props */
function ScheduleLine({ schedule }) {
  if (!schedule.cron) return html`<p class="facts muted"><span>${t("byHand")}</span></p>`;
  return html`<p class="facts muted">
    <span><code>${schedule.cron}</code> ${schedule.timezone}</span>
    ${schedule.next[0] && html`<span>${t(schedule.paused ? "wouldRun" : "runsNext", { at: momentIn(schedule.next[0], schedule.timezone ?? "UTC") })}</span>`}
  </p>`;
}

/** Times as clocks of a zone show them, the first of `count`. @param {{ points: (string | null)[], zone: string, count?: number }} props */
export function Points({ points, zone, count = points.length }) {
  return html`<ul class="points" tabindex="0" aria-label=${t("points")}>
    ${points.map((at) => at && html`<li key=${at}><time datetime=${at} title=${at}>${momentIn(at, zone)}</time></li>`)}
    ${count > points.length && html`<li class="muted">+${count - points.length}</li>`}
  </ul>`;
}

/** Asks for other values of the variables, and starts a run. @param {{ name: string, env: string, onClose: () => void }} props */
function RunDialog({ name, env, onClose }) {
  const lines = env.split("\n").map((line) => line.trim()).filter((line) => line.includes("=") && !line.startsWith("#"));
  const variables = lines.map((line) => /** @type {[string, string]} */ ([line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1)]));
  /** @param {FormData} form */
  async function start(form) {
    const changed = variables.filter(([key, value]) => form.get(`variable ${key}`) !== value);
    const { runID } = await post(`/v1/flows/${encodeURIComponent(name)}/run`, {
      variables: Object.fromEntries(changed.map(([key]) => [key, String(form.get(`variable ${key}`))])),
      reason: String(form.get("reason") ?? ""),
    });
    go(href(`/runs/${encodeURIComponent(runID)}`));
  }
  return html`<${ConfirmDialog} title=${t("runTitle", { name })} confirm=${t("run")} act=${start} onClose=${onClose}>
    ${variables.map(([key, value]) => html`<label key=${key} class="field"><code>${key}</code><input name=${`variable ${key}`} defaultValue=${value} spellcheck=${false} autocomplete="off" /></label>`)}
    <label class="field">${t("reason")}<input name="reason" maxlength="1000" autocomplete="off" /></label>
  <//>`;
}

/** @param {string} name */
async function download(name) {
  const document_ = await get("/v1/flows/export", { query: { names: name } });
  const url = URL.createObjectURL(new Blob([`${JSON.stringify(document_, null, 2)}\n`], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${name}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
