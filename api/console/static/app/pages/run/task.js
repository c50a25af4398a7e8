// @ts-check
// One task of a run: why it is in its state, what it waits for, its output and log, and marking it.
import { html, useEffect, useRef, useState } from "../../lib.js";
import { put } from "../../client.js";
import { between, moment } from "../../clock.js";
import { may } from "../../session.js";
import { Link } from "../../components/link.js";
import { ReasonDialog } from "../../components/reason-dialog.js";
import { StateMark, word } from "../../components/state.js";
import { Logs } from "../job/logs.js";
import { why } from "./why.js";
import { t } from "./messages.js";

const NEIGHBOURS = 12;
/** States in which more lines may come. */
const LIVE = new Set(["waiting", "suspended", "running"]);

/** @typedef {import("../run.js").Run} Run */
/** @typedef {import("../run.js").RunTask} RunTask */

/** Whether the API lets a task be marked. @param {RunTask} task @param {Run} run */
export const canMark = (task, run) =>
  run.state !== "stopped" && run.state !== "succeeded" && (task.state === "failed" || (task.state === "waiting" && !task.jobID));

/** @param {{ run: Run, task: RunTask, upstream: import("../run.js").Upstream, onChoose: (name: string) => void, onChange: () => void }} props */
export function Task({ run, task, upstream, onChoose, onChange }) {
  const [marking, setMarking] = useState("");
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const states = new Map(run.tasks.map(({ name, state }) => [name, state]));
  const after = run.tasks.filter((one) => one.upstream.includes(task.name)).map(({ name }) => name);
  const reason = why(task, run, upstream, states);
  const narrow = () => matchMedia("(max-width: 1100px)").matches;
  useEffect(() => {
    if (narrow()) heading.current?.scrollIntoView({ block: "start" });
  }, []);
  return html`<section class="panel side" ref=${heading} aria-label=${task.name}>
    <header>
      <${StateMark} state=${task.state} />
      <h2>${task.name}</h2>
      <div class="actions"><button type="button" class="plain" aria-label=${t("close")} onClick=${() => onChoose(task.name)}>✕</button></div>
    </header>
    <div class="side-body">
      ${task.label && html`<p class="muted">${task.label}</p>`}
      ${reason && html`<p class="why">${reason}</p>`}
      <dl class="facts-list">
        ${task.startAt && html`<div><dt>${t("started")}</dt><dd>${moment(task.startAt)} <span class="muted number">${t(task.finishedAt ? "took" : "since", { time: between(task.startAt, task.finishedAt) })}</span></dd></div>`}
        ${task.attempts.length > 1 && html`<div><dt>${t("attempt")}</dt><dd><${Attempts} task=${task} /></dd></div>`}
        ${task.output !== null && html`<div><dt>${t("output")}</dt><dd><code class="output">${task.output}</code></dd></div>`}
        ${task.usage && html`<div><dt>${t("usage")}</dt><dd class="number">${t("cores", { count: task.usage.cpuCores })}, ${Math.round(task.usage.memoryBytes / 1048576)} MiB</dd></div>`}
        <div><dt>${t("after")}</dt><dd><${Neighbours} names=${upstream.get(task.name) ?? []} states=${states} onChoose=${onChoose} /></dd></div>
        <div><dt>${t("before")}</dt><dd><${Neighbours} names=${after} states=${states} onChoose=${onChoose} /></dd></div>
      </dl>
      <div class="actions">
        ${task.jobID && html`<${Link} class="button" to=${`/jobs/${encodeURIComponent(task.jobID)}`}>${t("openJob")}<//>`}
        ${may("write_job") && canMark(task, run) && ["succeeded", "skipped"].map((state) => html`<button type="button" key=${state} onClick=${() => setMarking(state)}>${t("markAs", { state: word(state) })}</button>`)}
      </div>
      ${task.jobID && html`<${Logs} key=${task.jobID} id=${task.jobID} live=${LIVE.has(task.state)} tasks=${[]} chosen=${null} onChoose=${() => {}} />`}
    </div>
    ${marking &&
    html`<${ReasonDialog}
      title=${t("markTitle", { task: task.name, state: word(marking) })}
      confirm=${t("markAs", { state: word(marking) })}
      act=${(/** @type {string} */ why) => put(`/v1/runs/${encodeURIComponent(run.id)}/tasks/${encodeURIComponent(task.name)}`, { mark: marking, reason: why })}
      onClose=${() => (setMarking(""), onChange())}
    ><p>${t("markNote")}</p><//>`}
  </section>`;
}

/** All tries, the last one first. @param {{ task: RunTask }} props */
function Attempts({ task }) {
  return html`<ol class="attempts">
    ${[...task.attempts].reverse().map((one) => html`<li key=${one.attempt}>
      <span class="number muted">${one.attempt}</span>
      <${StateMark} state=${one.state ?? "waiting"} />
      ${one.jobID && html`<${Link} to=${`/jobs/${encodeURIComponent(one.jobID)}`}>${t("job")}<//>`}
      <span class="muted number">${between(one.startAt, one.finishedAt)}</span>
      <span class="muted">${one.reason}</span>
    </li>`)}
  </ol>`;
}

/** @param {{ names: string[], states: Map<string, string>, onChoose: (name: string) => void }} props */
function Neighbours({ names, states, onChoose }) {
  if (!names.length) return html`<span class="muted">${t("nothing")}</span>`;
  return html`<ul class="neighbours">
    ${names.slice(0, NEIGHBOURS).map((name) => html`<li key=${name}><${StateMark} state=${states.get(name) ?? "waiting"} quiet /> <button type="button" class="link" onClick=${() => onChoose(name)}>${name}</button></li>`)}
    ${names.length > NEIGHBOURS && html`<li class="muted">+${names.length - NEIGHBOURS}</li>`}
  </ul>`;
}
