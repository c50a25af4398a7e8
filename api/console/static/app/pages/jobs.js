// @ts-check
// The list of jobs: filters in the address, pages by cursor, states that change in place, and several stopped or resumed at once.
import { html, useEffect, useMemo, useState } from "../lib.js";
import { call } from "../client.js";
import { changeOf } from "../job-changes.js";
import { onEvents } from "../live.js";
import { query, setQuery } from "../router.js";
import { may } from "../session.js";
import { useResource } from "../resource.js";
import { ErrorNotice } from "../components/notice.js";
import { ReasonDialog } from "../components/reason-dialog.js";
import { JobTable } from "./jobs/table.js";
import { Filters } from "./jobs/filters.js";
import { t } from "./jobs/messages.js";

const PAGE_SIZE = 50;
const FILTERS = ["state", "userID", "kind", "name", "stage", "suspendedBy"];

/** @typedef {import("../../../types/openapi").components["schemas"]["JobSummary"]} Job */

export function Page() {
  const filters = useFilters();
  const cursor = query.value.get("cursor") ?? "";
  const key = JSON.stringify(filters);
  const list = useResource(
    (abort) => readPage(filters, cursor, abort),
    [key, cursor],
    // The first page gains and loses rows as jobs come and change; on later ones rows only change in place.
    (event) => cursor === "" && event.kind === "state",
  );
  const { data, error, loading } = list.state.value;
  const [chosen, setChosen] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const [dialog, setDialog] = useState(/** @type {"stop" | "resume" | null} */ (null));
  useChangesInPlace(list);
  useEffect(() => setChosen(new Set()), [key, cursor]);
  useEffect(() => void (document.title = `${t("title")} · Pipeline`), []);

  const jobs = data?.jobs ?? [];
  const picked = jobs.filter((job) => chosen.has(job.jobID));
  const stoppable = picked.filter((job) => ["waiting", "suspended", "running"].includes(job.state));
  const resumable = picked.filter((job) => job.state === "suspended");
  return html`
    <div class="page-head">
      <h1>${t("title")}</h1>
      ${data && html`<span class="count">${data.exact ? data.total : `${data.total}+`}</span>`}
      <div class="actions">
        ${picked.length > 0 && html`<span class="muted" role="status">${t("chosen", { count: picked.length })}</span>`}
        ${may("write_job") &&
        html`<button type="button" class="danger" disabled=${!stoppable.length} onClick=${() => setDialog("stop")}>${t("stop")}</button>`}
        ${(may("write_job") || may("approve_job")) &&
        html`<button type="button" disabled=${!resumable.length} onClick=${() => setDialog("resume")}>${t("resume")}</button>`}
      </div>
    </div>
    <${Filters} filters=${filters} />
    <${ErrorNotice} error=${error} onRetry=${list.reload} />
    <section class="panel" aria-busy=${loading}>
      <${JobTable} jobs=${jobs} chosen=${chosen} onChoose=${setChosen} loading=${loading} filtered=${key !== "{}"} />
      ${data && (cursor || data.next) && html`<${Pager} cursor=${cursor} next=${data.next} />`}
    </section>
    ${dialog &&
    html`<${ReasonDialog}
      title=${t(dialog === "stop" ? "stopTitle" : "resumeTitle", { count: (dialog === "stop" ? stoppable : resumable).length })}
      confirm=${t(dialog)}
      danger=${dialog === "stop"}
      act=${changeOf(dialog, dialog === "stop" ? stoppable : resumable)}
      onClose=${() => {
        setDialog(null);
        list.reload();
      }}
    >
      <ul class="names">${(dialog === "stop" ? stoppable : resumable).slice(0, 8).map((job) => html`<li key=${job.jobID}>${job.jobName} <code class="muted">${job.jobID}</code></li>`)}</ul>
    <//>`}
  `;
}

function useFilters() {
  const text = query.value.toString();
  return useMemo(
    () => Object.fromEntries(FILTERS.map((name) => [name, query.value.get(name) ?? ""]).filter(([, value]) => value)),
    [text],
  );
}

/** @param {Record<string, string>} filters @param {string} cursor @param {AbortSignal} abort */
async function readPage(filters, cursor, abort) {
  const { payload, headers } = await call("GET", "/v1/job/list", { query: { ...filters, cursor, pageSize: PAGE_SIZE }, signal: abort });
  return {
    jobs: /** @type {Job[]} */ (payload),
    total: Number(headers.get("X-Total-Count")),
    exact: headers.get("X-Total-Count-Exact") !== "false",
    next: headers.get("X-Next-Cursor") ?? "",
  };
}

/** Show a job's new state as soon as its event comes. @param {import("../resource.js").Resource<any>} list */
function useChangesInPlace(list) {
  useEffect(
    () =>
      onEvents((events) => {
        /** @type {Map<string, Partial<Job>>} */
        const changes = new Map();
        for (const { kind, jobID, state, stage, reason } of events) {
          if (!jobID || (kind !== "state" && kind !== "stage")) continue;
          changes.set(jobID, { ...changes.get(jobID), ...(kind === "state" ? { state } : { stage }), reason });
        }
        const { data } = list.state.peek();
        if (!data?.jobs.some((/** @type {Job} */ job) => changes.has(job.jobID))) return;
        const jobs = data.jobs.map((/** @type {Job} */ job) => ({ ...job, ...changes.get(job.jobID) }));
        list.state.value = { ...list.state.peek(), data: { ...data, jobs } };
      }),
    [list],
  );
}

/** @param {{ cursor: string, next: string }} props */
function Pager({ cursor, next }) {
  return html`<nav class="pager" aria-label=${t("pages")}>
    ${cursor && html`<button type="button" onClick=${() => setQuery({ cursor: "" })}>${t("first")}</button>`}
    ${next && html`<button type="button" onClick=${() => setQuery({ cursor: next })}>${t("next")}</button>`}
  </nav>`;
}
