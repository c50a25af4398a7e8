// @ts-check
// Home: what is wrong, what waits for a decision, and the last jobs and runs.
import { html, useEffect } from "../lib.js";
import { get } from "../client.js";
import { self } from "../session.js";
import { useResource } from "../resource.js";
import { Link } from "../components/link.js";
import { ErrorNotice } from "../components/notice.js";
import { StateMark } from "../components/state.js";
import { Ago } from "../components/time.js";
import { t } from "./home/messages.js";

const SHOWN = 10;

/** @param {string} kind of an entry of the feed */
const isOf = (kind) => (/** @type {import("../live.js").FeedEvent} */ event) => event.kind === kind;

export function Page() {
  useEffect(() => void (document.title = "Pipeline"), []);
  return html`
    <h1 class="unseen">${t("title")}</h1>
    <${Problems} />
    <div class="columns">
      <${Waiting} />
      <${Mine} />
      <${Runs} />
    </div>
  `;
}

function Problems() {
  const status = useResource((signal) => get("/v1/status", { signal }), []);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || status.reload(), 10_000);
    return () => clearInterval(timer);
  }, [status]);
  const { data, error } = status.state.value;
  if (error) return html`<${ErrorNotice} error=${error} onRetry=${status.reload} />`;
  if (!data) return html`<div class="verdict" aria-busy="true"> </div>`;
  const problems = /** @type {string[]} */ (data.problems);
  return html`<section class=${`verdict ${problems.length ? "verdict-bad" : "verdict-good"}`} aria-label=${t("problems")}>
    <h2>${problems.length ? t("wrong", { count: problems.length }) : t("well")}</h2>
    <ul>${problems.map((problem) => html`<li key=${problem}>${problem}</li>`)}</ul>
    <div class="counts">
      ${["waiting", "suspended", "running"].map(
        (state) => html`<${Link} key=${state} to="/jobs" filters=${{ state }}><strong class="number">${data.jobs[state] ?? 0}</strong> <${StateMark} state=${state} /><//>`,
      )}
    </div>
  </section>`;
}

function Waiting() {
  const list = useResource((signal) => get("/v1/job/list", { query: { state: "suspended", pageSize: SHOWN }, signal }), [], isOf("state"));
  const jobs = list.state.value.data;
  return html`<section class="panel">
    <header><h2>${t("waiting")}</h2>${jobs?.length > 0 && html`<${Link} to="/decisions">${t("all")}<//>`}</header>
    <${ErrorNotice} error=${list.state.value.error} onRetry=${list.reload} />
    ${jobs && !jobs.length && html`<p class="empty">${t("nothingWaits")}</p>`}
    <ul class="rows">
      ${jobs?.map(
        (/** @type {any} */ job) => html`<li key=${job.jobID}>
          <div class="row-top"><${StateMark} state=${job.state} quiet /><${Link} class="name" to=${`/jobs/${job.jobID}`}>${job.jobName}<//><span class="muted">${job.userID}</span><span class="end muted"><${Ago} at=${job.createdAt} /></span></div>
          <p class="row-text">${job.reason}</p>
        </li>`,
      )}
    </ul>
  </section>`;
}

function Mine() {
  const who = self.value;
  const mine = who && !who.admin ? { userID: who.forwho } : {};
  const list = useResource((signal) => get("/v1/job/list", { query: { ...mine, pageSize: SHOWN }, signal }), [], isOf("state"));
  const jobs = list.state.value.data;
  return html`<section class="panel">
    <header><h2>${t(who?.admin ? "lastJobs" : "myJobs")}</h2><${Link} to="/jobs" filters=${mine}>${t("all")}<//></header>
    <${ErrorNotice} error=${list.state.value.error} onRetry=${list.reload} />
    ${jobs && !jobs.length && html`<p class="empty">${t("noJobs")}</p>`}
    <ul class="rows">
      ${jobs?.map(
        (/** @type {any} */ job) => html`<li key=${job.jobID}>
          <div class="row-top"><${StateMark} state=${job.state} quiet /><${Link} class="name" to=${`/jobs/${job.jobID}`}>${job.jobName}<//><span class="muted">${job.userID}</span><span class="end muted"><${Ago} at=${job.createdAt} /></span></div>
          ${job.reason && html`<p class="row-text muted">${job.reason}</p>`}
        </li>`,
      )}
    </ul>
  </section>`;
}

function Runs() {
  const list = useResource((signal) => get("/v1/runs", { query: { pageSize: SHOWN }, signal }), [], isOf("run"));
  const runs = list.state.value.data;
  return html`<section class="panel">
    <header><h2>${t("lastRuns")}</h2></header>
    <${ErrorNotice} error=${list.state.value.error} onRetry=${list.reload} />
    ${runs && !runs.length && html`<p class="empty">${t("noRuns")}</p>`}
    <ul class="rows">
      ${runs?.map(
        (/** @type {import("../../../types/openapi").components["schemas"]["RunSummary"]} */ run) => html`<li key=${run.id}>
          <div class="row-top"><${StateMark} state=${run.state} quiet /><${Link} class="name" to=${`/runs/${run.id}`}>${run.flow}<//><span class="end muted"><${Ago} at=${run.createdAt} /></span></div>
          ${run.reason && html`<p class="row-text muted">${run.reason}</p>`}
        </li>`,
      )}
    </ul>
  </section>`;
}
