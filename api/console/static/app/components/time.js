// @ts-check
// A point in time, as its age; the whole of it is in the title.
import { html } from "../lib.js";
import { age, duration, moment, now } from "../clock.js";
import { t } from "../messages.js";

/** @param {{ at: string | null | undefined }} props RFC 3339 */
export function Ago({ at }) {
  if (!at) return null;
  return html`<time datetime=${at} title=${moment(at)}>${t("ago", { age: age(at) })}</time>`;
}

/** A point in time that is still to come, as how long that is. @param {{ at: string | null | undefined }} props RFC 3339 */
export function Due({ at }) {
  if (!at) return null;
  const left = Date.parse(at) - now.value;
  return html`<time datetime=${at} title=${moment(at)}>${left > 0 ? t("inTime", { age: duration(Math.max(left, 1000)) }) : t("isDue")}</time>`;
}
