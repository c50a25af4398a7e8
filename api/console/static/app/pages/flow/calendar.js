// @ts-check
// The days of a month: what ran, what is blocked and by which run, what was missed, and what comes.
import { html } from "../../lib.js";
import { get } from "../../client.js";
import { momentIn } from "../../clock.js";
import { language } from "../../i18n.js";
import { query, setQuery } from "../../router.js";
import { useResource } from "../../resource.js";
import { Link } from "../../components/link.js";
import { ErrorNotice } from "../../components/notice.js";
import { StateMark } from "../../components/state.js";
import { t } from "./messages.js";

/** @typedef {import("../../../../types/openapi").components["schemas"]["RunSummary"]} Run */
/** @typedef {{ at: string, kind: "run" | "next" | "missed", run?: Run }} Point */

const RUNS_READ = 200;
const DAY = 86_400_000;

/** @param {{ name: string, schedule: import("../flow.js").ScheduleState, concerns: (event: import("../../live.js").FeedEvent) => boolean }} props */
export function Calendar({ name, schedule, concerns }) {
  const read = useResource(
    /** @returns {Promise<Run[]>} */ (signal) => get(`/v1/flows/${encodeURIComponent(name)}/runs`, { query: { trigger: "schedule,backfill", pageSize: RUNS_READ }, signal }),
    [name],
    concerns,
  );
  const { data, error } = read.state.value;
  if (!data) return html`<${ErrorNotice} error=${error} onRetry=${read.reload} />`;
  const zone = schedule.timezone ?? "UTC";
  const days = byDay(data, schedule, zone);
  const today = dayOf(new Date().toISOString(), zone);
  const month = query.value.get("month") ?? today.slice(0, 7);
  const chosen = query.value.get("day") ?? (month === today.slice(0, 7) ? today : "");
  const name_ = language.value === "zh" ? "zh-CN" : "en-GB";
  const title = new Intl.DateTimeFormat(name_, { month: "long", year: "numeric", timeZone: "UTC" }).format(new Date(`${month}-01T00:00:00Z`));
  const weekday = new Intl.DateTimeFormat(name_, { weekday: "short", timeZone: "UTC" });
  const shown = daysOf(month);
  return html`<div class="calendar">
    <header class="calendar-head">
      <button type="button" aria-label=${t("monthBefore")} onClick=${() => setQuery({ month: shifted(month, -1), day: "" })}>‹</button>
      <h2>${title}</h2>
      <button type="button" aria-label=${t("monthAfter")} onClick=${() => setQuery({ month: shifted(month, 1), day: "" })}>›</button>
      <span class="muted">${t("inZone", { zone })}</span>
    </header>
    <div class="calendar-days">
      ${shown.slice(0, 7).map((day) => html`<span key=${`w${day}`} class="muted weekday" aria-hidden="true">${weekday.format(new Date(`${day}T00:00:00Z`))}</span>`)}
      ${shown.map((day) => {
        const points = days.get(day) ?? [];
        return html`<button type="button" key=${day} class=${`day${day.startsWith(month) ? "" : " day-other"}${day === today ? " day-today" : ""}`} aria-pressed=${day === chosen} onClick=${() => setQuery({ day })}>
          <span class="number"><span class="unseen">${day.slice(0, 8)}</span>${day.slice(8)}</span>
          ${counted(points).map(({ kind, count }) => html`<span key=${kind} class=${`day-mark mark-${kind}`}>${kind === "next" || kind === "missed" ? html`<b>${t(kind)}</b>` : html`<${StateMark} state=${kind} quiet />`}${count > 1 && html`<small class="number">${count}</small>`}</span>`)}
        </button>`;
      })}
    </div>
    <${Day} day=${chosen} points=${days.get(chosen) ?? []} zone=${zone} />
    ${schedule.missed.count > 0 && html`<p class="calendar-note muted">${t(schedule.missed.exact ? "missedCount" : "missedLeast", { count: schedule.missed.count, first: momentIn(schedule.missed.first[0] ?? "", zone) })}</p>`}
  </div>`;
}

/** @param {{ day: string, points: Point[], zone: string }} props */
function Day({ day, points, zone }) {
  if (!day) return null;
  return html`<section class="calendar-day" aria-label=${day}>
    <h2>${day}</h2>
    ${points.length
      ? html`<ul>${points.map(({ at, kind, run }) => html`<li key=${`${at} ${run?.id ?? kind}`}>
          <time datetime=${at}>${momentIn(at, zone)}</time>
          ${run
            ? html`<${StateMark} state=${run.state} /> <${Link} to=${`/runs/${encodeURIComponent(run.id)}`}><code>${run.id}</code><//> <span class="muted">${run.reason}</span>
                ${run.blockedBy && html`<span>${t("blockedBy")} <${Link} to=${`/runs/${encodeURIComponent(run.blockedBy)}`}><code>${run.blockedBy}</code><//></span>`}`
            : html`<span class=${kind === "missed" ? "warn-text" : "muted"}>${t(kind)}</span>`}
        </li>`)}</ul>`
      : html`<p class="muted">${t("nothingThatDay")}</p>`}
  </section>`;
}

/** @param {Run[]} runs @param {import("../flow.js").ScheduleState} schedule @param {string} zone */
function byDay(runs, schedule, zone) {
  const taken = new Set(runs.map(({ executionDate }) => executionDate));
  /** @type {Point[]} */
  const points = [
    ...runs.flatMap((run) => (run.executionDate ? [/** @type {Point} */ ({ at: run.executionDate, kind: "run", run })] : [])),
    ...schedule.missed.first.flatMap((at) => (at && !taken.has(at) ? [/** @type {Point} */ ({ at, kind: "missed" })] : [])),
    ...schedule.next.flatMap((at) => (at && !taken.has(at) ? [/** @type {Point} */ ({ at, kind: "next" })] : [])),
  ].sort((one, other) => one.at.localeCompare(other.at));
  /** @type {Map<string, Point[]>} */
  const found = new Map();
  for (const point of points) {
    const day = dayOf(point.at, zone);
    found.set(day, [...(found.get(day) ?? []), point]);
  }
  return found;
}

/** How many of each kind. @param {Point[]} points */
function counted(points) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { kind, run } of points) {
    const key = run?.state ?? kind;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts].map(([kind, count]) => ({ kind, count }));
}

/** The date of a time in a zone. @param {string} at @param {string} zone */
const dayOf = (at, zone) => new Intl.DateTimeFormat("en-CA", { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit" }).format(new Date(at));

/** The days of the weeks that a month has days in, from Monday. @param {string} month */
function daysOf(month) {
  const first = Date.parse(`${month}-01T00:00:00Z`);
  const begin = first - ((new Date(first).getUTCDay() + 6) % 7) * DAY;
  const last = Date.parse(`${shifted(month, 1)}-01T00:00:00Z`);
  const weeks = Math.ceil((last - begin) / (7 * DAY));
  return Array.from({ length: weeks * 7 }, (_, index) => new Date(begin + index * DAY).toISOString().slice(0, 10));
}

/** @param {string} month @param {number} by */
function shifted(month, by) {
  const [year, number] = month.split("-").map(Number);
  return new Date(Date.UTC(year, number - 1 + by, 1)).toISOString().slice(0, 7);
}
