// @ts-check
// Events of a job, the newest first, and how the delivery of each stands.
import { html } from "../../lib.js";
import { get } from "../../client.js";
import { moment, shortDate, timeOfDay } from "../../clock.js";
import { useResource } from "../../resource.js";
import { ErrorNotice } from "../../components/notice.js";
import { StateMark } from "../../components/state.js";
import { t } from "./messages.js";

/** @typedef {import("../../../../types/openapi").components["schemas"]["EventItem"]} Event */

/** @param {{ id: string }} props */
export function Events({ id }) {
  const events = useResource(
    /** @returns {Promise<Event[]>} */ (signal) => get(`/v1/job/events/${encodeURIComponent(id)}`, { signal }),
    [id],
    (event) => event.jobID === id,
  );
  const { data, error } = events.state.value;
  return html`<section class="panel">
    <header><h2>${t("events")}</h2></header>
    <${ErrorNotice} error=${error} onRetry=${events.reload} />
    <ol class="rows">
      ${data?.toReversed().map(
        (event) => html`<li key=${event.sequence}>
          <div class="row-top">
            <${StateMark} state=${event.state} />
            <span class="muted">${event.actor}</span>
            <time class="end muted" datetime=${event.occurredAt} title=${event.occurredAt && moment(event.occurredAt)}>${event.occurredAt && shortDate(event.occurredAt)}</time>
          </div>
          ${event.reason && html`<p class="row-text whole">${event.reason}</p>`}
          <${Deliveries} deliveries=${event.deliveries} />
        </li>`,
      )}
    </ol>
  </section>`;
}

/** @param {{ deliveries: Event["deliveries"] }} props */
function Deliveries({ deliveries }) {
  const waiting = deliveries.filter((delivery) => delivery.status === "waiting");
  const gone = deliveries.filter((delivery) => ["exception", "exhausted", "dropped"].includes(delivery.status));
  const total = deliveries.length;
  const summary = !total
    ? t("deliveriesNone")
    : waiting.length
      ? t("deliveriesWait", { count: waiting.length, total })
      : gone.length
        ? t("deliveriesGone", { count: gone.length, total })
        : t("deliveriesDone", { total });
  if (!total) return null;
  return html`<details class="deliveries">
    <summary class=${waiting.length || gone.length ? "differs" : "muted"}>${summary}</summary>
    <ul>
      ${deliveries.map(
        (delivery) => html`<li key=${delivery.id}>
          <span class="plugin">${delivery.plugin}</span> <strong>${delivery.status}</strong>
          <span class="muted"> ${t("attempts", { count: delivery.attempts })}${delivery.nextAt && ` · ${t("nextAttempt", { time: timeOfDay(delivery.nextAt) })}`}</span>
          ${delivery.lastAnswer && html`<p class="muted">${delivery.lastAnswer}</p>`}
        </li>`,
      )}
    </ul>
  </details>`;
}
