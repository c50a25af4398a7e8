// @ts-check
// Asks whether to make a change that the API keeps no reason for, and makes it; with children, it asks for what they ask.
import { html, useEffect, useId, useRef, useState } from "../lib.js";
import { ApiError } from "../client.js";
import { t } from "../messages.js";

/**
 * @param {{ title: string, children?: any, confirm: string, danger?: boolean, act: (form: FormData) => Promise<unknown>, onClose: () => void }} props
 */
export function ConfirmDialog({ title, children, confirm, danger = false, act, onClose }) {
  const id = useId();
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);

  /** @param {SubmitEvent} event */
  async function submit(event) {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      await act(new FormData(/** @type {HTMLFormElement} */ (event.currentTarget)));
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
      <p class="field-error" role="alert">${error}</p>
      <div class="actions">
        <button type="button" onClick=${() => dialog.current?.close()}>${t("cancel")}</button>
        <button type="submit" class=${danger ? "danger" : "primary"} aria-disabled=${busy}>${confirm}</button>
      </div>
    </form>
  </dialog>`;
}
