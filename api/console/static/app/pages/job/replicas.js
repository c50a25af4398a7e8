// @ts-check
// Replicas by role: all at a glance as small marks, and a table of those that are worth a look.
import { html, useState } from "../../lib.js";
import { between } from "../../clock.js";
import { StateMark, word } from "../../components/state.js";
import { t } from "./messages.js";

/** At most so many rows of a role are in the table; the marks show all. */
const ROWS = 8;
/** What comes first in the table. */
const ORDER = ["failed", "running", "waiting", "stopped", "succeeded"];

/** @typedef {import("../../../../types/openapi").components["schemas"]["TaskPart"]} Task */
/** @typedef {{ task: string, replica: number } | null} Chosen */

/** @param {{ tasks: Task[], chosen: Chosen, onChoose: (chosen: Chosen) => void }} props */
export function Replicas({ tasks, chosen, onChoose }) {
  const any = tasks.some((task) => task.replicas.length);
  return html`<section class="panel">
    <header><h2>${t("replicas")}</h2></header>
    ${!any && html`<p class="empty">${t("noReplicas")}</p>`}
    ${tasks.map((task) => task.replicas.length > 0 && html`<${Role} key=${task.name} task=${task} chosen=${chosen} onChoose=${onChoose} />`)}
  </section>`;
}

/** @param {{ task: Task, chosen: Chosen, onChoose: (chosen: Chosen) => void }} props */
function Role({ task, chosen, onChoose }) {
  const [all, setAll] = useState(false);
  const counts = Map.groupBy(task.replicas, (replica) => replica.state);
  const sorted = task.replicas.toSorted((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.index - b.index);
  const rows = all ? sorted : sorted.slice(0, ROWS);
  return html`<div class="role">
    <div class="role-head">
      <strong>${task.name}</strong>
      ${[...counts].map(([state, of]) => html`<span key=${state}><span class="number">${of.length}</span> <${StateMark} state=${state} /></span>`)}
      <code class="muted image" title=${task.image}>${task.image}</code>
    </div>
    ${task.replicas.length > 3 &&
    html`<div class="marks" role="img" aria-label=${[...counts].map(([state, of]) => `${of.length} ${word(state)}`).join(", ")}>
      ${task.replicas.map((replica) => html`<i key=${replica.index} class=${`mark state-${replica.state}`} title=${`${task.name}-${replica.index} ${word(replica.state)}`}></i>`)}
    </div>`}
    <div class="table" tabindex="0" role="region" aria-label=${task.name}><table>
      <thead>
        <tr><th class="tight">${t("index")}</th><th class="tight">${t("state")}</th><th class="tight">${t("code")}</th><th class="tight wide">${t("took")}</th><th class="tight wide">${t("host")}</th><th>${t("diagnostics")}</th></tr>
      </thead>
      <tbody>
        ${rows.map((replica) => {
          const own = chosen?.task === task.name && chosen.replica === replica.index;
          return html`<tr key=${replica.index} class=${own ? "chosen" : ""}>
            <td class="tight"><button type="button" class="link number" aria-pressed=${own} aria-label=${t("showLogs", { name: `${task.name}-${replica.index}` })} onClick=${() => onChoose(own ? null : { task: task.name, replica: replica.index })}>${replica.index}</button></td>
            <td class="tight"><${StateMark} state=${replica.state} /></td>
            <td class="tight number">${replica.exitCode ?? ""}</td>
            <td class="tight wide number">${between(replica.startAt, replica.finishedAt)}</td>
            <td class="tight wide muted">${replica.containerHostIP}</td>
            <td class="muted">${[replica.exitDiagnostics, replica.retriedCount && t("tries", { count: replica.retriedCount })].filter(Boolean).join("; ")}</td>
          </tr>`;
        })}
      </tbody>
    </table></div>
    ${sorted.length > ROWS &&
    html`<p class="more"><button type="button" class="link" aria-expanded=${all} onClick=${() => setAll(!all)}>${t("ofReplicas", { count: rows.length, total: sorted.length })}</button></p>`}
  </div>`;
}
