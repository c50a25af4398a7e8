// @ts-check
// Times as people read them. Ages count on each second, and stand still while the API is away.
import { computed, signal } from "./lib.js";
import { language } from "./i18n.js";
import { live } from "./live.js";

const SECOND = 1000;

/** The present, in ms, for everything that shows an age. */
export const now = signal(Date.now());

export function start() {
  setInterval(() => {
    if (!document.hidden && live.value.state !== "away") now.value = Date.now();
  }, SECOND);
}

const formats = computed(() => {
  const name = language.value === "zh" ? "zh-CN" : "en-GB";
  return {
    moment: new Intl.DateTimeFormat(name, { dateStyle: "medium", timeStyle: "medium" }),
    day: new Intl.DateTimeFormat(name, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }),
    time: new Intl.DateTimeFormat(name, { hour: "2-digit", minute: "2-digit", second: "2-digit" }),
  };
});

/** Date and time to the second. @param {string} text RFC 3339 */
export const moment = (text) => formats.value.moment.format(new Date(text));

/** Date, minute and zone, as clocks of a time zone show it. @param {string} text RFC 3339 @param {string} zone */
export const momentIn = (text, zone) =>
  new Intl.DateTimeFormat(language.value === "zh" ? "zh-CN" : "en-GB", {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    timeZone: zone,
    timeZoneName: "short",
  }).format(new Date(text));

/** The time of day. @param {string} text RFC 3339 */
export const timeOfDay = (text) => formats.value.time.format(new Date(text));

/** Date and minute. @param {string} text RFC 3339 */
export const shortDate = (text) => formats.value.day.format(new Date(text));

const UNITS = /** @type {const} */ ([
  [86_400, "d", "天"],
  [3_600, "h", "小时"],
  [60, "m", "分"],
  [1, "s", "秒"],
]);

/** A length of time by its two largest units: "3h 12m". @param {number} ms */
export function duration(ms) {
  const zh = language.value === "zh";
  const space = zh ? "" : " ";
  if (ms < SECOND) return `${Math.max(0, Math.round(ms))}${space}${zh ? "毫秒" : "ms"}`;
  let rest = Math.floor(ms / SECOND);
  const parts = [];
  for (const [size, en, chinese] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || parts.length) parts.push(count ? `${count}${space}${zh ? chinese : en}`.replace(" ", "") : "");
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join(space);
}

/** How long ago. @param {string | null | undefined} text RFC 3339 */
export const age = (text) => (text ? duration(Math.max(SECOND, now.value - Date.parse(text))) : "");

/** From one time to another, or to the present. @param {string | null} from @param {string | null} [to] */
export const between = (from, to) => (from ? duration(Math.max(0, (to ? Date.parse(to) : now.value) - Date.parse(from))) : "");
