// @ts-check
// Who changed what, when, and from where.
import { html } from "../../lib.js";
import { useResource } from "../../resource.js";
import { moment } from "../../clock.js";
import { ErrorNotice } from "../../components/notice.js";
import { NumberedPages, pageNumber, readPage } from "../../components/numbered-pages.js";
import { Ago } from "../../components/time.js";
import { t } from "./messages.js";

/** @typedef {import("../../../../types/openapi").components["schemas"]["AuditItem"]} AuditItem */

export function Audit() {
  const page = pageNumber();
  // Changes of features and tokens are no events; those of jobs are.
  const list = useResource((signal) => readPage("/v1/audit", {}, page, signal), [page], () => page === 1);
  const { data, error } = list.state.value;
  const rows = /** @type {AuditItem[]} */ (data?.rows ?? []);
  return html`
    <${ErrorNotice} error=${error} onRetry=${list.reload} />
    <section class="panel" aria-label=${t("audit")}>
      <header><h2>${t("audit")}</h2>${data && html`<span class="count">${data.total}${data.exact ? "" : "+"}</span>`}<div class="actions"><button type="button" onClick=${list.reload}>${t("readAnew")}</button></div></header>
      <ul class="rows">
        ${rows.map(
          (one) => html`<li key=${one.id} class="audit-row">
            <div class="row-top"><code class="action">${one.action}</code><span class="name">${one.target}</span><span class="end muted" title=${moment(one.at ?? "")}><${Ago} at=${one.at} /></span></div>
            <p class="muted">${one.actor} · ${one.address}${one.tokenID && html` · <code>${one.tokenID}</code>`}${one.reason && html` · “${one.reason}”`}</p>
            ${(one.before !== null || one.after !== null) && html`<details><summary>${t("beforeAfter")}</summary><div class="before-after"><pre tabindex="0" aria-label=${t("before")}>${JSON.stringify(one.before, null, 1)}</pre><pre tabindex="0" aria-label=${t("after")}>${JSON.stringify(one.after, null, 1)}</pre></div></details>`}
          </li>`,
        )}
      </ul>
      ${data && html`<${NumberedPages} page=${page} total=${data.total} />`}
    </section>
  `;
}
