// @ts-check
// Waiting for a decision: suspended jobs by the gate that suspended them, who may decide, and whom it stops meanwhile.
import { html, useEffect, useState } from "../lib.js";
import { call } from "../client.js";
import { query, setQuery } from "../router.js";
import { self } from "../session.js";
import { changeOf } from "../job-changes.js";
import { useResource } from "../resource.js";
import { style } from "../styles.js";
import { Choices } from "../components/choices.js";
import { ErrorNotice, Notice } from "../components/notice.js";
import { ReasonDialog } from "../components/reason-dialog.js";
import { Gate } from "./decisions/gate.js";
import { byGate, counted } from "./decisions/grouping.js";
import { t } from "./decisions/messages.js";

await style("decisions.css");

/** @typedef {import("../../../types/openapi").components["schemas"]["JobSummary"]} Job */
/** @typedef {{ action: "stop" | "resume", jobs: Job[] }} Change */

/** As many as one answer of the API has. */
const MOST = 500;

export function Page() {
  const userID = query.value.get("userID") ?? "";
  const gate = query.value.get("gate") ?? "";
  const list = useResource(
    (abort) => read(gate, abort),
    [gate],
    (event) => event.kind === "state" && (event.state === "suspended" || event.previousState === "suspended"),
  );
  const [change, setChange] = useState(/** @type {Change | null} */ (null));
  const [done, setDone] = useState("");
  useEffect(() => void (document.title = `${t("title")} · Pipeline`), []);
  const { data, error } = list.state.value;
  const all = data?.jobs ?? [];
  const jobs = userID ? all.filter((job) => job.userID === userID) : all;
  const users = counted(all.map((job) => job.userID));
  const who = self.value;

  return html`
    <div class="page-head">
      <h1>${t("title")}</h1>
      ${data && html`<span class="count">${data.total}</span>`}
      <p class="done" role="status">${done}</p>
    </div>
    <${ErrorNotice} error=${error} onRetry=${list.reload} />
    ${(users.length > 1 || userID) &&
    html`<div class="filters"><span class="muted">${t("stopsMeanwhile")}</span>
      <${Choices} label=${t("user")} chosen=${userID} values=${users.map(([value, count]) => ({ value, text: value, count }))} onChoose=${(/** @type {string} */ value) => setQuery({ userID: value })} />
    </div>`}
    ${gate && html`<div class="filters"><button type="button" onClick=${() => setQuery({ gate: "" })}>${t("onlyGate", { gate })} ✕</button></div>`}
    ${data && !jobs.length && html`<${Notice} title=${t(userID || gate ? "noneOfThese" : "none")}><p class="muted">${t(who?.ownOnly ? "noneOwn" : "noneNote")}</p><//>`}
    ${data && data.total > all.length && html`<p class="muted more">${t("more", { shown: all.length, total: data.total })}</p>`}
    ${byGate(jobs, who).map(
      (group) => html`<${Gate} key=${group.gate} ...${group} onChange=${(/** @type {"stop" | "resume"} */ action, /** @type {Job[]} */ chosen) => setChange({ action, jobs: chosen })} />`,
    )}
    ${change &&
    html`<${Decision}
      change=${change}
      onClose=${() => {
        setChange(null);
        list.reload();
      }}
      onDone=${() => setDone(t(change.action === "stop" ? "stopped" : "resumed", { what: named(change.jobs) }))}
    />`}
  `;
}

/** @param {{ change: Change, onClose: () => void, onDone: () => void }} props */
function Decision({ change: { action, jobs }, onClose, onDone }) {
  const [act] = useState(() => changeOf(action, jobs));
  return html`<${ReasonDialog}
    title=${t(action === "stop" ? "stopTitle" : "resumeTitle", { what: named(jobs) })}
    confirm=${t(action)}
    danger=${action === "stop"}
    act=${async (/** @type {string} */ reason) => {
      await act(reason);
      onDone();
    }}
    onClose=${onClose}
  >
    <ul class="names">
      ${jobs.map((job) => html`<li key=${job.jobID}><span class="name">${job.jobName}</span> <span class="muted">${job.userID}</span><p class="muted">${job.reason}</p></li>`)}
    </ul>
  <//>`;
}

/** @param {Job[]} jobs */
const named = (jobs) => (jobs.length === 1 ? jobs[0].jobName : t("countOfJobs", { count: jobs.length }));

/** The longest waiting first. @param {string} gate @param {AbortSignal} abort */
async function read(gate, abort) {
  const query = { state: "suspended", suspendedBy: gate, order: "asc", pageSize: MOST };
  const { payload, headers } = await call("GET", "/v1/job/list", { query, signal: abort });
  return { jobs: /** @type {Job[]} */ (payload), total: Number(headers.get("X-Total-Count")) };
}
