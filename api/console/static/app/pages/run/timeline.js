// @ts-check
// When each task ran. What is still to come stands below, without a bar.
import { html } from "../../lib.js";
import { between, duration, now } from "../../clock.js";
import { StateMark } from "../../components/state.js";
import { VirtualRows } from "../../components/virtual-rows.js";
import { t } from "./messages.js";

const ROW = 28;
const MARKS = 5;

/** @param {{ run: import("../run.js").Run, chosen: string, onChoose: (name: string) => void }} props */
export function Timeline({ run, chosen, onChoose }) {
  const rows = [...run.tasks].sort((one, other) => (one.startAt ?? "9").localeCompare(other.startAt ?? "9"));
  const started = rows.filter(({ startAt }) => startAt);
  const begin = Math.min(...started.map(({ startAt }) => Date.parse(startAt ?? "")), Date.parse(run.startAt ?? run.createdAt ?? ""));
  const open = started.some(({ finishedAt }) => !finishedAt);
  const end = Math.max(begin + 1000, open ? now.value : 0, ...started.map(({ finishedAt }) => (finishedAt ? Date.parse(finishedAt) : 0)));
  /** @param {number} at */
  const percent = (at) => `${((at - begin) / (end - begin)) * 100}%`;
  return html`<div class="timeline">
    <div class="time-head" aria-hidden="true">
      ${Array.from({ length: MARKS }, (_, mark) => html`<span key=${mark} style=${{ left: `${(mark / MARKS) * 100}%` }}>${mark ? duration(((end - begin) * mark) / MARKS) : "0"}</span>`)}
    </div>
    <${VirtualRows}
      rows=${rows}
      height=${ROW}
      label=${t("timeLineLabel")}
      class="time-rows"
      keyOf=${(/** @type {import("../run.js").RunTask} */ task) => task.name}
      draw=${(/** @type {import("../run.js").RunTask} */ task) => html`<button type="button" class="time-row" aria-pressed=${task.name === chosen} onClick=${() => onChoose(task.name)}>
        <span class="time-name"><${StateMark} state=${task.state} quiet /><span class="name">${task.name}</span></span>
        <span class="time-track">
          ${task.startAt
            ? html`<i class=${`time-bar part-${task.state}`} style=${{ left: percent(Date.parse(task.startAt)), right: `calc(100% - ${percent(task.finishedAt ? Date.parse(task.finishedAt) : end)})` }}></i>
                <span class=${Date.parse(task.startAt) - begin > (end - begin) / 2 ? "time-length time-left" : "time-length"} style=${Date.parse(task.startAt) - begin > (end - begin) / 2 ? { right: `calc(100% - ${percent(Date.parse(task.startAt))} + 6px)`, left: "auto" } : { left: `calc(${percent(task.finishedAt ? Date.parse(task.finishedAt) : end)} + 6px)`, right: "auto" }}>${between(task.startAt, task.finishedAt)}</span>`
            : html`<span class="time-none">${task.state === "waiting" ? t("toCome") : ""}</span>`}
        </span>
      </button>`}
    />
  </div>`;
}
