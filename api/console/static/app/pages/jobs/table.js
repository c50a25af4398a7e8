// @ts-check
// Jobs in rows; with `onChoose`, rows can be chosen.
import { html, useRef } from "../../lib.js";
import { between } from "../../clock.js";
import { Link } from "../../components/link.js";
import { Loading } from "../../components/notice.js";
import { StateMark } from "../../components/state.js";
import { Ago } from "../../components/time.js";
import { t } from "./messages.js";

/** @typedef {import("../jobs.js").Job} Job */

/**
 * @param {{ jobs: Job[], loading?: boolean, filtered?: boolean, chosen?: ReadonlySet<string>, onChoose?: (chosen: ReadonlySet<string>) => void }} props
 */
export function JobTable({ jobs, loading = false, filtered = false, chosen = new Set(), onChoose }) {
  const last = useRef(-1);
  if (!jobs.length) return loading ? html`<${Loading} />` : html`<p class="empty">${t(filtered ? "none" : "noneYet")}</p>`;

  /** With shift, all between this row and the last one. @param {number} index @param {MouseEvent} event */
  function choose(index, event) {
    const from = event.shiftKey && last.current >= 0 ? Math.min(last.current, index) : index;
    const to = event.shiftKey && last.current >= 0 ? Math.max(last.current, index) : index;
    const next = new Set(chosen);
    const add = !chosen.has(jobs[index].jobID);
    for (const job of jobs.slice(from, to + 1)) add ? next.add(job.jobID) : next.delete(job.jobID);
    last.current = index;
    onChoose?.(next);
  }

  const all = jobs.every((job) => chosen.has(job.jobID));
  return html`<div class="table" tabindex="0" role="region" aria-label=${t("title")}><table class="jobs">
    <thead>
      <tr>
        ${onChoose &&
        html`<th class="tight"><input type="checkbox" aria-label=${t("chooseAll")} checked=${all} onClick=${() => onChoose(new Set(all ? [] : jobs.map((job) => job.jobID)))} /></th>`}
        <th class="tight">${t("state")}</th>
        <th>${t("job")}</th>
        <th class="wide">${t("user")}</th>
        <th class="wide">${t("stage")}</th>
        <th class="wide">${t("reason")}</th>
        <th class="tight wide">${t("submitted")}</th>
        <th class="tight wide">${t("took")}</th>
      </tr>
    </thead>
    <tbody>
      ${jobs.map(
        (job, index) => html`<tr key=${job.jobID} class=${chosen.has(job.jobID) ? "chosen" : ""}>
          ${onChoose &&
          html`<td class="tight"><input type="checkbox" aria-label=${t("choose", { name: job.jobName })} checked=${chosen.has(job.jobID)} onClick=${(/** @type {MouseEvent} */ event) => choose(index, event)} /></td>`}
          <td class="tight"><${StateMark} state=${job.state} /></td>
          <td>
            <${Link} class="name" to=${`/jobs/${encodeURIComponent(job.jobID)}`}>${job.jobName}<//>
            <div class="muted"><code>${job.jobID}</code> ${job.jobKind} <span class="narrow"><${Ago} at=${job.createdAt} /></span></div>
            ${job.reason && html`<div class="muted narrow">${job.reason}</div>`}
          </td>
          <td class="wide">${job.userID}</td>
          <td class="wide tight">${job.stage}</td>
          <td class="wide reason muted" title=${job.reason}>${job.reason}</td>
          <td class="tight wide muted"><${Ago} at=${job.createdAt} /></td>
          <td class="tight wide muted number">${between(job.startAt, job.finishedAt)}</td>
        </tr>`,
      )}
    </tbody>
  </table></div>`;
}
