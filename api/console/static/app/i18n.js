// @ts-check
// English and Chinese. Each page has a catalogue of its own, with the same keys in both; sentences of the API stay English.
import { signal } from "./lib.js";

/** @typedef {"en" | "zh"} Language */
/** @typedef {string | number} Value */

const KEY = "pipeline.language";

/** The name of each language, in itself. @type {Record<Language, string>} */
export const LANGUAGES = { en: "English", zh: "中文" };

/** The language that is shown. @type {import("../vendor/signals.js").Signal<Language>} */
export const language = signal(initial());

/** @returns {Language} */
function initial() {
  const chosen = stored();
  if (chosen === "en" || chosen === "zh") return chosen;
  return navigator.languages.some((name) => name.startsWith("zh")) && !navigator.languages[0]?.startsWith("en") ? "zh" : "en";
}

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** @param {Language} chosen */
export function choose(chosen) {
  language.value = chosen;
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}

/**
 * A function that gives the text of a key in the present language, with `{name}` replaced by values, and `{name|job|jobs}` by the
 * first of its words where the value is 1, by the second otherwise.
 *
 * @template {string} Key
 * @param {{ en: Record<Key, string>, zh: Record<Key, string> }} catalogue
 * @returns {(key: Key, values?: Record<string, Value>) => string}
 */
export function translations(catalogue) {
  return (key, values = {}) =>
    catalogue[language.value][key].replace(/\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g, (whole, name, one, many) => {
      if (!(name in values)) return whole;
      const value = String(values[name]);
      return one === undefined ? value : value === "1" ? one : many;
    });
}
