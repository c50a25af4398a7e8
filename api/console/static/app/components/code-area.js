// @ts-check
// A text with numbered lines, of which some are marked with what is wrong there. Tab leaves it, as from any other field.
import { html, useEffect, useLayoutEffect, useRef } from "../lib.js";
import { chooseLine } from "./text-field.js";

/** @typedef {{ line: number, path: string, text: string }} Mark line: from 1 */

/**
 * @param {{ id: string, label: string, value: string, onInput: (text: string) => void, marks: Mark[], readOnly?: boolean, jump?: { line: number } | null }} props
 * jump: a line that the cursor is put into whenever this is another object
 */
export function CodeArea({ id, label, value, onInput, marks, readOnly = false, jump = null }) {
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const gutter = useRef(/** @type {HTMLDivElement | null} */ (null));
  const lines = value.split("\n").length;
  const wrong = new Set(marks.map(({ line }) => line));
  // The field keeps what is typed: it is written only when the text comes from elsewhere.
  useLayoutEffect(() => {
    if (area.current && area.current.value !== value) area.current.value = value;
  }, [value]);
  useEffect(() => {
    const field = area.current;
    if (!jump || !field) return;
    const before = field.value.split("\n").slice(0, jump.line - 1);
    chooseLine(field, before.reduce((sum, line) => sum + line.length + 1, 0));
  }, [jump]);
  const height = Math.min(Math.max(lines + 1, 12), 36);
  return html`<div class="code" style=${{ height: `${height * 20 + 18}px` }}>
    <div class="code-gutter" ref=${gutter} aria-hidden="true"><${Numbers} lines=${lines} wrong=${wrong} /></div>
    <textarea
      id=${id}
      ref=${area}
      class="code-text"
      aria-label=${label}
      aria-invalid=${marks.length > 0}
      spellcheck=${false}
      autocomplete="off"
      autocapitalize="off"
      wrap="off"
      readonly=${readOnly}
      onInput=${(/** @type {any} */ event) => onInput(event.currentTarget.value)}
      onScroll=${(/** @type {any} */ event) => gutter.current && (gutter.current.scrollTop = event.currentTarget.scrollTop)}
    ></textarea>
  </div>`;
}

/** The numbers are one text; a wrong line is an element of its own. @param {{ lines: number, wrong: ReadonlySet<number> }} props */
function Numbers({ lines, wrong }) {
  const parts = [];
  let text = "";
  for (let line = 1; line <= lines; line++) {
    if (!wrong.has(line)) text += `${line}\n`;
    else {
      parts.push(text, html`<b key=${line}>${line}</b>`, "\n");
      text = "";
    }
  }
  return html`<pre>${parts}${text}</pre>`;
}
