// @ts-check
// The tasks of a run in rows, each after those it waits for.
import { html } from "../../lib.js";
import { between, timeOfDay } from "../../clock.js";
import { query, setQuery } from "../../router.js";
import { StateMark } from "../../components/state.js";
import { VirtualRows } from "../../components/virtual-rows.js";
import { why } from "./why.js";
import { t } from "./messages.js";

const ROW = 38;

/** @param {{ run: import("../run.js").Run, upstream: import("../run.js").Upstream, chosen: string, onChoose: (name: string) => void }} props */
export function TaskList({ run, upstream, chosen, onChoose }) {
  const state = query.value.get("state") ?? "";
  const name = (query.value.get("name") ?? "").toLowerCase();
  const shown = run.tasks.filter((task) => (!state || task.state === state) && (!name || `${task.name} ${task.label}`.toLowerCase().includes(name)));
  const states = new Map(run.tasks.map((task) => [task.name, task.state]));
  return html`<div>
    ${run.tasks.length > 12 &&
    html`<div class="list-tools"><input type="search" aria-label=${t("namePrefix")} placeholder=${t("namePrefix")} value=${query.value.get("name") ?? ""} onInput=${(/** @type {any} */ event) => setQuery({ name: event.currentTarget.value })} /></div>`}
    ${shown.length
      ? html`<${VirtualRows}
          rows=${shown}
          height=${ROW}
          label=${t("taskList")}
          class="task-rows"
          keyOf=${(/** @type {import("../run.js").RunTask} */ task) => task.name}
          draw=${(/** @type {import("../run.js").RunTask} */ task) => html`<button type="button" class="task-row" aria-pressed=${task.name === chosen} onClick=${() => onChoose(task.name)}>
            <${StateMark} state=${task.state} />
            <span class="name">${task.name}</span>
            <span class="muted task-why" title=${task.reason || task.label}>${why(task, run, upstream, states) || task.label}</span>
            ${task.attempt > 1 && html`<span class="count" title=${t("attempt")}>×${task.attempt}</span>`}
            <span class="muted number task-time">${task.startAt ? timeOfDay(task.startAt) : ""}</span>
            <span class="number task-time">${between(task.startAt, task.finishedAt)}</span>
          </button>`}
        />`
      : html`<p class="empty">${t(run.tasks.length ? "none" : "noTasks")}</p>`}
  </div>`;
}
