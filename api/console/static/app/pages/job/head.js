// @ts-check
// The head of a job's page: its state and why, what it is, and what can be done with it.
import { html, useMemo, useState } from "../../lib.js";
import { post, put } from "../../client.js";
import { between } from "../../clock.js";
import { go, href } from "../../router.js";
import { may } from "../../session.js";
import { Link } from "../../components/link.js";
import { ConfirmDialog } from "../../components/confirm-dialog.js";
import { ReasonDialog } from "../../components/reason-dialog.js";
import { StateMark } from "../../components/state.js";
import { Ago } from "../../components/time.js";
import { t } from "./messages.js";

/** @param {{ detail: import("../job.js").Detail, onChange: () => void }} props */
export function Head({ detail, onChange }) {
  const { job } = detail;
  const [dialog, setDialog] = useState(/** @type {"stop" | "resume" | "retry" | null} */ (null));
  // Another may decide while the dialog is open: it stays about what was there when it was opened.
  const asked = useMemo(() => job, [dialog]);
  const of = encodeURIComponent(job.id);
  const ended = ["succeeded", "failed", "stopped"].includes(job.state);
  const why = [job.reason, job.exitDiagnostics].filter((text, index, all) => text && all.indexOf(text) === index);
  const acts = {
    stop: (/** @type {string} */ reason) => put(`/v1/job/stop/${of}`, { reason }),
    resume: (/** @type {string} */ reason) => put(`/v1/job/resume/${of}`, { reason, gate: asked.suspendedBy }),
    retry: async () => {
      const { jobID } = await post(`/v1/job/retry/${of}`);
      go(href(`/jobs/${jobID}`));
    },
  };
  return html`<section class=${`job-head job-head-${job.state}`}>
    <div class="page-head">
      <${StateMark} state=${job.state} />
      <h1>${job.name}</h1>
      <code class="muted">${job.id}</code>
      <div class="actions">
        ${job.state === "suspended" && (may("write_job") || may("approve_job")) && html`<button type="button" class="primary" onClick=${() => setDialog("resume")}>${t("resume")}</button>`}
        ${!ended && may("write_job") && html`<button type="button" class="danger" onClick=${() => setDialog("stop")}>${t("stop")}</button>`}
        ${["failed", "stopped"].includes(job.state) && may("write_job") && html`<button type="button" onClick=${() => setDialog("retry")}>${t("retry")}</button>`}
      </div>
    </div>
    ${job.suspendedBy && html`<p class="why-who">${t("suspendedBy", { plugin: job.suspendedBy })} <${Ago} at=${job.suspendedAt} /></p>`}
    ${why.map((text) => html`<p class="why" key=${text}>${text}</p>`)}
    <dl class="facts">
      <div><dt>${t("user")}</dt><dd><${Link} to="/jobs" filters=${{ userID: job.userID }}>${job.userID}<//></dd></div>
      <div><dt>${t("kind")}</dt><dd>${job.type}</dd></div>
      <div><dt>${t("submitted")}</dt><dd><${Ago} at=${job.createdAt} /></dd></div>
      ${job.startAt && html`<div><dt>${t(ended ? "took" : "running")}</dt><dd class="number">${between(job.startAt, job.finishedAt)}</dd></div>`}
      ${job.exitCode !== null && html`<div><dt>${t("exitCode")}</dt><dd class="number">${job.exitCode}</dd></div>`}
      ${job.runID && html`<div><dt>${t("run")}</dt><dd><${Link} to=${`/runs/${job.runID}`}>${job.runID}<//></dd></div>`}
      ${job.retryOf && html`<div><dt>${t("retryOf")}</dt><dd><${Link} to=${`/jobs/${job.retryOf}`}>${job.retryOf}<//></dd></div>`}
    </dl>
    ${dialog &&
    html`<${dialog === "retry" ? ConfirmDialog : ReasonDialog}
      title=${t(`${dialog}Title`, { name: asked.name })}
      confirm=${t(dialog)}
      danger=${dialog === "stop"}
      act=${acts[dialog]}
      onClose=${() => (setDialog(null), onChange())}
    >
      ${dialog === "resume" && html`<p>${t("resumeNote", { plugin: asked.suspendedBy ?? "" })}</p><blockquote>${asked.reason}</blockquote>`}
      ${asked.state !== job.state && html`<p class="field-error" role="alert">${t("changedMeanwhile")} <${StateMark} state=${job.state} /></p>`}
    <//>`}
  </section>`;
}
