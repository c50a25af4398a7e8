// @ts-check
// Events on their way to subscribers: those that have not arrived, unless others are asked for; they are sent again from here.
import { html, useState } from "../../lib.js";
import { call, get } from "../../client.js";
import { query, setQuery } from "../../router.js";
import { may } from "../../session.js";
import { useResource } from "../../resource.js";
import { Choices } from "../../components/choices.js";
import { Link } from "../../components/link.js";
import { ErrorNotice } from "../../components/notice.js";
import { NumberedPages, pageNumber, readPage } from "../../components/numbered-pages.js";
import { ConfirmDialog } from "../../components/confirm-dialog.js";
import { StateMark } from "../../components/state.js";
import { Ago, Due } from "../../components/time.js";
import { t } from "./messages.js";

/** @typedef {import("../../../../types/openapi").components["schemas"]["DeliveryItem"]} Delivery */

const STATUSES = /** @type {const} */ (["waiting", "exhausted", "exception", "delivered", "dropped"]);
const NOT_ARRIVED = "waiting,exhausted,exception";
/** Those that are sent again only when somebody says so. */
const ENDED = ["exhausted", "exception"];

export function Deliveries() {
  const status = query.value.get("status") ?? "";
  const plugin = query.value.get("plugin") ?? "";
  const jobID = query.value.get("jobID") ?? "";
  const page = pageNumber();
  const filters = { status: status === "all" ? "" : status || NOT_ARRIVED, plugin, jobID };
  const list = useResource((signal) => readPage("/v1/hooks/deliveries", filters, page, signal), [filters.status, plugin, jobID, page], (event) => event.kind === "delivery" || event.kind === "state");
  const hooks = useResource((signal) => get("/v1/plugins/list/LifeHook", { signal }), []);
  const [again, setAgain] = useState(/** @type {Delivery | "all" | null} */ (null));
  const [sent, setSent] = useState(/** @type {number | null} */ (null));
  const { data, error, loading } = list.state.value;
  const rows = /** @type {Delivery[]} */ (data?.rows ?? []);
  const keys = [...new Set([.../** @type {any[]} */ (hooks.state.value.data ?? []).map((hook) => hook.key), "alerts", ...(plugin ? [plugin] : [])])];
  return html`
    <div class="filters">
      <${Choices} label=${t("status")} chosen=${status || "open"} values=${[{ value: "open", text: t("notArrived") }, ...STATUSES.map((value) => ({ value, text: t(value) })), { value: "all", text: t("all") }]}
        onChoose=${(/** @type {string} */ value) => setQuery({ status: value === "open" ? "" : value, page: "" })} />
      <select aria-label=${t("subscriber")} value=${plugin} onChange=${(/** @type {any} */ event) => setQuery({ plugin: event.currentTarget.value, page: "" })}>
        <option value="" selected=${!plugin}>${t("allSubscribers")}</option>
        ${keys.map((key) => html`<option key=${key} value=${key} selected=${key === plugin}>${key}</option>`)}
      </select>
      ${jobID && html`<button type="button" onClick=${() => setQuery({ jobID: "", page: "" })}>${jobID} ✕</button>`}
      <div class="actions end">
        ${may("write_feature")
          ? html`<button type="button" disabled=${!plugin} title=${plugin ? undefined : t("chooseSubscriber")} onClick=${() => setAgain("all")}>${t("redeliverAll")}</button>`
          : html`<span class="muted">${t("needsWriteFeature")}</span>`}
      </div>
    </div>
    <p class="muted" role="status">${sent === null ? "" : sent ? t("sentAgain", { count: sent }) : t("noneToSend")}</p>
    <${ErrorNotice} error=${error} onRetry=${list.reload} />
    <section class="panel" aria-busy=${loading}>
      <header><h2>${t("deliveries")}</h2>${data && html`<span class="count">${data.total}${data.exact ? "" : "+"}</span>`}</header>
      ${data && !rows.length && html`<p class="empty">${t(status || plugin || jobID ? "noneOfThese" : "allDelivered")}</p>`}
      ${rows.length > 0 &&
      html`<div class="table" tabindex="0" role="region" aria-label=${t("deliveries")}><table class="stacked">
        <thead><tr><th class="tight">${t("status")}</th><th>${t("subscriber")}</th><th>${t("event")}</th><th>${t("attempts")}</th><th>${t("lastAnswer")}</th><th class="tight">${t("since")}</th><th class="tight">${t("next")}</th><th><span class="unseen">${t("actions")}</span></th></tr></thead>
        <tbody>
          ${rows.map(
            (one) => html`<tr key=${one.id}>
              <td class=${`tight status-${one.status}`}>${t(one.status)}</td>
              <td>${one.plugin}</td>
              <td><span class="event"><${StateMark} state=${one.state} /> ${one.jobID ? html`<${Link} to=${`/jobs/${one.jobID}`}><code>${one.jobID}</code><//>` : html`<${Link} to=${`/runs/${one.runID}`}><code>${one.runID}</code><//>`}</span></td>
              <td class="number">${one.attempts}</td>
              <td class="answer">${one.lastAnswer}</td>
              <td class="tight muted"><${Ago} at=${one.createdAt} /></td>
              <td class="tight muted">${one.status === "waiting" ? html`<${Due} at=${one.nextAt} />` : ""}</td>
              <td class="tight">${ENDED.includes(one.status) && may("write_feature") && html`<button type="button" aria-label=${t("redeliverOne", { id: one.id })} onClick=${() => setAgain(one)}>${t("redeliver")}</button>`}</td>
            </tr>`,
          )}
        </tbody>
      </table></div>`}
      ${data && html`<${NumberedPages} page=${page} total=${data.total} />`}
    </section>
    ${again &&
    html`<${ConfirmDialog}
      title=${again === "all" ? t("redeliverAllOf", { plugin }) : t("redeliverTitle")}
      confirm=${t("redeliver")}
      act=${async () => setSent(await sendAgain(again, plugin))}
      onClose=${() => {
        setAgain(null);
        list.reload();
      }}
    >
      <p>${again === "all" ? t("redeliverAllNote") : html`${again.plugin}: <${StateMark} state=${again.state} /> <code>${again.jobID ?? again.runID}</code>`}</p>
    <//>`}
  `;
}

/** Have one delivery sent again, or all of a subscriber that nobody sends any more. How many these are. @param {Delivery | "all"} what @param {string} plugin @returns {Promise<number>} */
async function sendAgain(what, plugin) {
  if (what === "all") return (await call("POST", "/v1/hooks/redeliver", { query: { plugin } })).payload.count;
  await call("POST", `/v1/hooks/redeliver/${what.id}`);
  return 1;
}
