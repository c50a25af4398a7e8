// @ts-check
// Tokens: made here and shown once, and revoked.
import { html, useState } from "../../lib.js";
import { call, post } from "../../client.js";
import { may, self } from "../../session.js";
import { useResource } from "../../resource.js";
import { ErrorNotice } from "../../components/notice.js";
import { NumberedPages, pageNumber, readPage } from "../../components/numbered-pages.js";
import { ConfirmDialog } from "../../components/confirm-dialog.js";
import { Ago, Due } from "../../components/time.js";
import { t } from "./messages.js";

/** @typedef {import("../../../../types/openapi").components["schemas"]["TokenItem"]} Token */

const PRIVILEGES = ["read_job", "write_job", "approve_job", "read_feature", "write_feature", "read_token", "write_token"];

export function Tokens() {
  const page = pageNumber();
  const list = useResource((signal) => readPage("/v1/tokens", {}, page, signal), [page]);
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState(/** @type {{ token: string, id: string, forwho: string } | null} */ (null));
  const [revoked, setRevoked] = useState(/** @type {Token | null} */ (null));
  const { data, error } = list.state.value;
  const rows = /** @type {Token[]} */ (data?.rows ?? []);
  return html`
    <${ErrorNotice} error=${error} onRetry=${list.reload} />
    ${made && html`<${Made} made=${made} onClose=${() => setMade(null)} />`}
    <section class="panel">
      <header>
        <h2>${t("tokens")}</h2>${data && html`<span class="count">${data.total}</span>`}
        <div class="actions">${may("write_token") ? html`<button type="button" class="primary" onClick=${() => setMaking(true)}>${t("makeToken")}</button>` : html`<span class="muted">${t("needsWriteToken")}</span>`}</div>
      </header>
      ${data && !rows.length && html`<p class="empty">${t("noTokens")}</p>`}
      ${rows.length > 0 &&
      html`<div class="table" tabindex="0" role="region" aria-label=${t("tokens")}><table class="stacked">
        <thead><tr><th>${t("forwho")}</th><th>${t("privileges")}</th><th>${t("note")}</th><th class="tight">${t("made")}</th><th class="tight">${t("lastUsed")}</th><th class="tight">${t("expires")}</th><th><span class="unseen">${t("actions")}</span></th></tr></thead>
        <tbody>
          ${rows.map(
            (token) => html`<tr key=${token.id}>
              <td><span class="name">${token.forwho}</span>${token.ownOnly && html` <span class="count">ownOnly</span>`}<div class="muted"><code>${token.id}</code></div></td>
              <td>${token.privileges.map((name) => html`<code key=${name} class="privilege">${name}</code> `)}</td>
              <td>${token.note}</td>
              <td class="tight muted"><${Ago} at=${token.createdAt} /></td>
              <td class="tight muted">${token.lastUsedAt ? html`<${Ago} at=${token.lastUsedAt} />` : t("never")}</td>
              <td class="tight muted">${token.expiresAt ? html`<${Due} at=${token.expiresAt} />` : t("never")}</td>
              <td class="tight">${may("write_token") && html`<button type="button" class="danger" aria-label=${t("revokeOne", { name: token.forwho, id: token.id })} onClick=${() => setRevoked(token)}>${t("revoke")}</button>`}</td>
            </tr>`,
          )}
        </tbody>
      </table></div>`}
      ${data && html`<${NumberedPages} page=${page} total=${data.total} />`}
    </section>
    ${making && html`<${Make} onMade=${setMade} onClose=${() => (setMaking(false), list.reload())} />`}
    ${revoked &&
    html`<${ConfirmDialog} title=${t("revokeTitle", { name: revoked.forwho })} confirm=${t("revoke")} danger act=${() => call("DELETE", `/v1/tokens/${encodeURIComponent(revoked.id)}`)} onClose=${() => (setRevoked(null), list.reload())}>
      <p>${t("revokeNote")}</p>
    <//>`}
  `;
}

/** @param {{ onMade: (made: { token: string, id: string, forwho: string }) => void, onClose: () => void }} props */
function Make({ onMade, onClose }) {
  const own = Boolean(self.value?.ownOnly);
  /** @param {FormData} form */
  async function make(form) {
    const forwho = String(form.get("forwho"));
    const expires = String(form.get("expiresAt") ?? "");
    const made = await post("/v1/tokens", {
      privileges: form.getAll("privileges"),
      forwho,
      note: String(form.get("note") ?? ""),
      ownOnly: form.get("ownOnly") !== null || own,
      ...(expires ? { expiresAt: new Date(expires).toISOString() } : {}),
    });
    onMade({ ...made, forwho });
  }
  return html`<${ConfirmDialog} title=${t("makeToken")} confirm=${t("make")} act=${make} onClose=${onClose}>
    <label for="token-forwho">${t("forwho")}</label>
    <input id="token-forwho" name="forwho" required maxlength="255" autocomplete="off" defaultValue=${own ? self.value?.forwho : ""} />
    <fieldset class="privileges"><legend>${t("privileges")}</legend>
      ${PRIVILEGES.map((name) => html`<label key=${name}><input type="checkbox" name="privileges" value=${name} disabled=${!may(name)} /> <code>${name}</code></label>`)}
      <p class="muted">${t("privilegesNote")}</p>
    </fieldset>
    <label><input type="checkbox" name="ownOnly" defaultChecked=${own} disabled=${own} /> ${t("ownOnly")}</label>
    <label for="token-expires">${t("expiresOptional")}</label>
    <input id="token-expires" name="expiresAt" type="datetime-local" />
    <label for="token-note">${t("note")}</label>
    <input id="token-note" name="note" autocomplete="off" />
  <//>`;
}

/** @param {{ made: { token: string, id: string, forwho: string }, onClose: () => void }} props */
function Made({ made, onClose }) {
  const [copied, setCopied] = useState(false);
  return html`<section class="made-token" role="status">
    <p><strong>${t("madeFor", { name: made.forwho })}</strong> ${t("shownOnce")}</p>
    <div class="actions">
      <code class="value">${made.token}</code>
      <button type="button" onClick=${() => navigator.clipboard?.writeText(made.token).then(() => setCopied(true))}>${t(copied ? "copied" : "copy")}</button>
      <button type="button" class="plain" onClick=${onClose}>${t("hide")}</button>
    </div>
  </section>`;
}
