// @ts-check
// A gate, and the jobs that it has suspended.
import { html, useState } from "../../lib.js";
import { may, self } from "../../session.js";
import { featureOf } from "../../plugin-keys.js";
import { Link } from "../../components/link.js";
import { Ago } from "../../components/time.js";
import { counted, mayResume } from "./grouping.js";
import { t } from "./messages.js";

/** @typedef {import("./grouping.js").Job} Job */

/** @param {{ gate: string, jobs: Job[], forMe: number, onChange: (action: "stop" | "resume", jobs: Job[]) => void }} props */
export function Gate({ gate, jobs, forMe, onChange }) {
  const [chosen, setChosen] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const picked = jobs.filter((job) => chosen.has(job.jobID));
  const resumable = picked.filter((job) => mayResume(job, self.value) === "");
  const decide = forMe > 0 || may("write_job");
  const users = counted(jobs.map((job) => job.userID));
  const whole = picked.length === jobs.length;
  /** @param {Job} job */
  const toggle = (job) => setChosen(chosen.symmetricDifference(new Set([job.jobID])));

  return html`<section class="panel gate" aria-label=${gate}>
    <header>
      <h2>${may("read_feature") ? html`<${Link} to=${`/features/${encodeURIComponent(featureOf(gate))}`}>${featureOf(gate)}<//>` : featureOf(gate)}</h2>
      <code class="muted">${gate}</code>
      <span class=${forMe ? "decider decider-me" : "decider"}>${t(decider(jobs, forMe))}</span>
      ${picked.length > 0 &&
      html`<div class="actions">
        <span class="muted" role="status">${t("chosen", { count: picked.length })}</span>
        ${forMe > 0 && html`<button type="button" class="primary" disabled=${!resumable.length} onClick=${() => onChange("resume", resumable)}>${t("resume")}</button>`}
        ${may("write_job") && html`<button type="button" class="danger" onClick=${() => onChange("stop", picked)}>${t("stop")}</button>`}
      </div>`}
    </header>
    <div class="gate-top muted">
      ${decide && html`<label><input type="checkbox" checked=${whole} onClick=${() => setChosen(new Set(whole ? [] : jobs.map((job) => job.jobID)))} /> ${t("chooseAll")}</label>`}
      <span>${t("waits", { count: jobs.length })}: ${users.map(([user, count], index) => html`${index > 0 && ", "}<b>${user}</b> ${count}`)}</span>
    </div>
    <ul class="rows">
      ${jobs.map((job) => html`<${Row} key=${job.jobID} job=${job} decide=${decide} chosen=${chosen.has(job.jobID)} onChoose=${() => toggle(job)} onChange=${onChange} />`)}
    </ul>
  </section>`;
}

/** @param {{ job: Job, decide: boolean, chosen: boolean, onChoose: () => void, onChange: (action: "stop" | "resume", jobs: Job[]) => void }} props */
function Row({ job, decide, chosen, onChoose, onChange }) {
  const obstacle = mayResume(job, self.value);
  return html`<li class=${chosen ? "suspended chosen" : "suspended"}>
    ${decide && html`<input type="checkbox" aria-label=${t("choose", { name: job.jobName })} checked=${chosen} onClick=${onChoose} />`}
    <div class="what">
      <p class="said">${job.reason || html`<span class="muted">${t("noReason")}</span>`}</p>
      <p>
        <${Link} class="name" to=${`/jobs/${encodeURIComponent(job.jobID)}`}>${job.jobName}<//>
        <span class="muted"> ${job.jobKind} · ${t("of", { user: job.userID })} · <${Ago} at=${job.suspendedAt} /></span>
        ${job.runID && html`<span class="muted"> · <${Link} to=${`/runs/${encodeURIComponent(job.runID)}`}>${t("taskOfRun")}<//></span>`}
      </p>
      ${obstacle && html`<p class="muted obstacle">${t(obstacle)}</p>`}
    </div>
    <div class="actions">
      ${obstacle === "" && html`<button type="button" aria-label=${t("resumeOne", { name: job.jobName })} onClick=${() => onChange("resume", [job])}>${t("resume")}</button>`}
      ${may("write_job") && html`<button type="button" class="plain" aria-label=${t("stopOne", { name: job.jobName })} onClick=${() => onChange("stop", [job])}>${t("stop")}</button>`}
    </div>
  </li>`;
}

/** Who decides, as a key of a text. @param {Job[]} jobs @param {number} forMe @returns {"youDecide" | "approverDecides" | "writerDecides"} */
function decider(jobs, forMe) {
  if (forMe) return "youDecide";
  return jobs.some((job) => job.resume === "approver") ? "approverDecides" : "writerDecides";
}
