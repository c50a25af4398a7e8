// @ts-check
// A point in time, as its age; the whole of it is in the title.
import { html } from "../lib.js";
import { age, moment } from "../clock.js";
import { t } from "../messages.js";

/** @param {{ at: string | null | undefined }} props RFC 3339 */
export function Ago({ at }) {
  if (!at) return null;
  return html`<time datetime=${at} title=${moment(at)}>${t("ago", { age: age(at) })}</time>`;
}
