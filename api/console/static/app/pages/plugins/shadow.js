// @ts-check
// What a shadow answered, beside what was decided; it is promoted here, after a question.
import { html, useState } from "../../lib.js";
import { get, put } from "../../client.js";
import { duration } from "../../clock.js";
import { may } from "../../session.js";
import { useResource } from "../../resource.js";
import { ConfirmDialog } from "../../components/confirm-dialog.js";
import { Link } from "../../components/link.js";
import { ErrorNotice } from "../../components/notice.js";
import { mayChange } from "./switch.js";
import { t } from "./messages.js";

/** @typedef {import("../../../../types/openapi").components["schemas"]["ShadowReport"]} Report */
/** @typedef {import("../../../../types/openapi").components["schemas"]["PluginAnswer"]} Answer */

const COUNTS = /** @type {const} */ (["agreed", "disagreed", "errors", "notCompared"]);

/** @param {{ plugin: { key: string, owner: string, enabled: boolean, shadowOf: string | null }, onPromoted: () => void }} props */
export function Shadow({ plugin, onPromoted }) {
  const [asking, setAsking] = useState(false);
  const path = encodeURIComponent(plugin.key);
  const found = useResource((signal) => (may("read_job") ? get(`/v1/plugins/shadow/${path}`, { signal }) : Promise.resolve(null)), [plugin.key]);
  const report = /** @type {Report | null | undefined} */ (found.state.value.data);
  const other = plugin.shadowOf;
  return html`<div class="shadow">
    <p class="muted">${t("shadowNote")} ${other && t("shadowOf", { key: other })}</p>
    <${ErrorNotice} error=${found.state.value.error} onRetry=${found.reload} />
    ${report && html`<${Counts} report=${report} />`}
    ${report && report.disagreements.length > 0 && html`<${Disagreements} report=${report} />`}
    ${other && plugin.enabled && mayChange(plugin.owner) && html`<div class="actions"><button type="button" onClick=${() => setAsking(true)}>${t("promote")}</button></div>`}
    ${asking &&
    html`<${ConfirmDialog}
      title=${t("promoteTitle", { key: plugin.key })}
      confirm=${t("promote")}
      act=${() => put(`/v1/plugins/promote/${path}`)}
      onClose=${() => {
        setAsking(false);
        onPromoted();
      }}
    >
      <p>${t("promoteNote", { key: other ?? "" })}</p>
    <//>`}
  </div>`;
}

/** @param {{ report: Report }} props */
function Counts({ report }) {
  const { shadow, decided } = report.latency;
  return html`<dl class="facts">
    ${COUNTS.map((name) => html`<dt>${t(name)}</dt><dd class="number">${t("ofAnswers", { count: report[name], answers: report.answers })}</dd>`)}
    ${shadow && decided && html`<dt>${t("bothTimes")}</dt><dd class="number">${duration(shadow.medianMs)} · ${duration(decided.medianMs)}</dd>`}
  </dl>`;
}

/** @param {{ report: Report }} props */
function Disagreements({ report }) {
  return html`<div class="table" tabindex="0" role="region" aria-label=${t("disagreements")}><table>
    <thead><tr><th>${t("inJob")}</th><th>${t("answered")}</th><th>${t("decided")}</th></tr></thead>
    <tbody>
      ${report.disagreements.map(
        (pair) => html`<tr key=${`${pair.jobID} ${pair.stage}`}>
          <td><${Link} to=${`/jobs/${pair.jobID}`}>${pair.jobID}<//></td>
          <td>${textOf(pair.shadow)}</td>
          <td>${pair.decided ? textOf(pair.decided) : ""}</td>
        </tr>`,
      )}
    </tbody>
  </table></div>`;
}

/** An answer in a few words, with its time. @param {Answer} answer */
function textOf(answer) {
  const words = answer.decision || JSON.stringify(answer.factors ?? answer.patch ?? answer.outcome);
  const reason = answer.reason ? `: ${answer.reason}` : "";
  return `${words.length > 200 ? `${words.slice(0, 200)}…` : words}${reason} (${duration(answer.durationMs)})`;
}
