// @ts-check
// A text of JSON, and what is wrong with it, each at its line. The field keeps the text itself, so that a long one stalls no typing:
// `onPause` is given it once typing pauses.
import { html, useEffect, useId, useRef } from "../lib.js";
import { lineAt, offsetOf } from "../json-lines.js";
import { t } from "../messages.js";
import { chooseLine } from "./text-field.js";

const PAUSE_MS = 400;

/**
 * @typedef {object} Fault
 * @property {string} path of the field; empty: of the whole
 * @property {string} text
 */

/**
 * @param {{ label: string, text: string, rows?: number, faults?: Fault[], onPause: (text: string) => void }} props
 * text is what the field begins with, and is replaced by when it changes
 */
export function JsonEditor({ label, text, rows = 24, faults = [], onPause }) {
  const id = useId();
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const timer = useRef(0);
  const read = useRef(onPause);
  read.current = onPause;
  useEffect(() => {
    if (field.current && field.current.value !== text) field.current.value = text;
  }, [text]);
  useEffect(() => () => clearTimeout(timer.current), []);

  function typed() {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => field.current && read.current(field.current.value), PAUSE_MS);
  }

  /** @param {string} path */
  function show(path) {
    if (field.current) chooseLine(field.current, offsetOf(field.current.value, path));
  }

  const now = field.current?.value ?? text;
  return html`<div class="json-editor">
    <label for=${id}>${label}</label>
    <textarea id=${id} ref=${field} class="mono" rows=${rows} spellcheck=${false} autocomplete="off" autocapitalize="off" wrap="off" aria-invalid=${faults.length > 0} aria-describedby="${id}-faults" onInput=${typed}></textarea>
    <div id="${id}-faults" role="status"><ul class="faults">
      ${faults.map(
        ({ path, text: said }) => html`<li key=${path + said}>
          ${path && html`<button type="button" class="link" onClick=${() => show(path)}>${t("line", { line: lineAt(now, offsetOf(now, path)) })} <code>${path}</code></button>`}
          <span>${said}</span>
        </li>`,
      )}
    </ul></div>
  </div>`;
}

/** The faults that an answer of the API names. @param {import("../client.js").ApiError} error @returns {Fault[]} */
export function faultsOf(error) {
  const faults = Object.entries(error.errors).flatMap(([path, texts]) => texts.map((text) => ({ path: path === "." ? "" : path, text })));
  return faults.length ? faults : [{ path: "", text: error.message || t("noAnswer") }];
}

/** The value of a JSON text, or why it has none. @param {string} text @returns {{ value: any, fault: Fault | null }} */
export function parsed(text) {
  try {
    return { value: JSON.parse(text), fault: null };
  } catch (error) {
    return { value: undefined, fault: { path: "", text: t("noJSON", { why: String(/** @type {Error} */ (error).message) }) } };
  }
}
