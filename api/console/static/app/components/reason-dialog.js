// @ts-check
// Asks for the reason of a change, and makes it.
import { html, useId } from "../lib.js";
import { t } from "../messages.js";
import { ConfirmDialog } from "./confirm-dialog.js";

/**
 * @param {{ title: string, children?: any, confirm: string, danger?: boolean, act: (reason: string) => Promise<unknown>, onClose: () => void }} props
 */
export function ReasonDialog({ children, act, ...shown }) {
  const id = useId();
  return html`<${ConfirmDialog} ...${shown} act=${(/** @type {FormData} */ form) => act(String(form.get("reason")))}>
    ${children}
    <label for="${id}-reason">${t("reason")}</label>
    <textarea id="${id}-reason" name="reason" rows="3" maxlength="1000" aria-describedby="${id}-note"></textarea>
    <p class="muted" id="${id}-note">${t("reasonNote")}</p>
  <//>`;
}
