// @ts-check
// A sentence in place of what is not there, or about what went wrong.
import { html } from "../lib.js";
import { t } from "../messages.js";

/** @param {{ title: string, children?: any, action?: string, onAction?: () => void, tone?: "plain" | "bad" }} props */
export function Notice({ title, children, action, onAction, tone = "plain" }) {
  return html`<div class="notice notice-${tone}" role=${tone === "bad" ? "alert" : undefined}>
    <p>${title}</p>
    ${children}
    ${action && html`<button type="button" onClick=${onAction}>${action}</button>`}
  </div>`;
}

/** Stands where something will be; it is seen only when that takes a while. */
export const Loading = () => html`<p class="loading" role="status">${t("loading")}</p>`;

/** What the API said when something failed. @param {{ error: import("../client.js").ApiError | null, onRetry?: () => void }} props */
export function ErrorNotice({ error, onRetry }) {
  if (!error) return null;
  return html`<${Notice} tone="bad" title=${error.message || t("noAnswer")} action=${onRetry && t("retry")} onAction=${onRetry} />`;
}
