// @ts-check
// Whether a plugin is called: the state of its circuit, with a shape and a colour of its own.
import { html } from "../lib.js";
import { t } from "../messages.js";

/** @param {{ circuit: string | undefined, enabled?: boolean }} props circuit: undefined when it is not known */
export function Circuit({ circuit, enabled = true }) {
  if (!enabled) return html`<span class="state">${t("off")}</span>`;
  if (circuit === "open") return html`<span class="state state-failed"><span aria-hidden="true">✕</span>${t("circuitOpen")}</span>`;
  if (circuit === "half-open") return html`<span class="state state-suspended"><span aria-hidden="true">◐</span>${t("circuitHalfOpen")}</span>`;
  if (circuit === "closed") return html`<span class="state state-succeeded"><span aria-hidden="true">●</span>${t("circuitClosed")}</span>`;
  return html`<span class="state">${t("circuitUnknown")}</span>`;
}
