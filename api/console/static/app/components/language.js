// @ts-check
import { html } from "../lib.js";
import { LANGUAGES, choose, language } from "../i18n.js";
import { t } from "../messages.js";

export function LanguageChoice() {
  const names = /** @type {import("../i18n.js").Language[]} */ (Object.keys(LANGUAGES));
  return html`<select
    class="language"
    aria-label=${t("language")}
    value=${language.value}
    onChange=${(/** @type {any} */ event) => choose(event.currentTarget.value)}
  >
    ${names.map((name) => html`<option key=${name} value=${name} selected=${name === language.value}>${LANGUAGES[name]}</option>`)}
  </select>`;
}
