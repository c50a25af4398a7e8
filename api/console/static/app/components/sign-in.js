// @ts-check
// Signing in with a token or the admin's password. Neither is kept by the page.
import { html, useEffect, useRef, useState } from "../lib.js";
import { ApiError } from "../client.js";
import { signIn } from "../session.js";
import { t } from "../messages.js";
import { LanguageChoice } from "./language.js";

export function SignIn() {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => field.current?.focus(), []);

  /** @param {SubmitEvent} event */
  async function submit(event) {
    event.preventDefault();
    const token = field.current?.value.trim();
    if (!token || busy) return;
    setBusy(true);
    try {
      await signIn(token);
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure.status === 429 ? t("tooMany") : failure.message || t("noAnswer"));
      setBusy(false);
      field.current?.select();
    }
  }

  return html`<main class="sign-in" id="main">
    <form onSubmit=${submit}>
      <h1>${t("signInTitle")}</h1>
      <label for="token">${t("token")}</label>
      <input id="token" ref=${field} type="password" autocomplete="current-password" required aria-describedby="sign-in-error sign-in-note" />
      <p id="sign-in-error" class="field-error" role="alert">${error}</p>
      <button type="submit" class="primary" aria-disabled=${busy}>${t("signIn")}</button>
      <p id="sign-in-note" class="muted">${t("signInNote")}</p>
      <${LanguageChoice} />
    </form>
  </main>`;
}
