// @ts-check
// Asks for the reason of a change, where it takes one, and makes it.
import { html, useEffect, useId, useRef, useState } from "../lib.js";
import { ApiError } from "../client.js";
import { t } from "../messages.js";

/**
 * @param {{ title: string, children?: any, confirm: string, danger?: boolean, reasoned?: boolean, act: (reason: string) => Promise<unknown>, onClose: () => void }} props
 */
export function ReasonDialog({ title, children, confirm, danger = false, reasoned = true, act, onClose }) {
  const id = useId();
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [reason, setReason] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);

  /** @param {SubmitEvent} event */
  async function submit(event) {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      await act(reason);
      dialog.current?.close();
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure.message || t("noAnswer"));
      setBusy(false);
    }
  }

  return html`<dialog ref=${dialog} aria-labelledby=${id} onClose=${onClose}>
    <form onSubmit=${submit}>
      <h2 id=${id}>${title}</h2>
      ${children}
      ${reasoned &&
      html`<label for="${id}-reason">${t("reason")}</label>
        <textarea id="${id}-reason" rows="3" maxlength="1000" aria-describedby="${id}-note" value=${reason} onInput=${(/** @type {any} */ event) => setReason(event.currentTarget.value)}></textarea>
        <p class="muted" id="${id}-note">${t("reasonNote")}</p>`}
      <p class="field-error" role="alert">${error}</p>
      <div class="actions">
        <button type="button" onClick=${() => dialog.current?.close()}>${t("cancel")}</button>
        <button type="submit" class=${danger ? "danger" : "primary"} aria-disabled=${busy}>${confirm}</button>
      </div>
    </form>
  </dialog>`;
}
