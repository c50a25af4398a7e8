// @ts-check
// What the fields for texts of many lines share.
import { lineAt } from "../json-lines.js";

/** Lines that stay above the chosen one, where there are some. */
const ABOVE = 4;

/**
 * Choose what stands from an offset to the end of its line, and bring it into view.
 *
 * @param {HTMLTextAreaElement} field @param {number} from
 */
export function chooseLine(field, from) {
  const end = field.value.indexOf("\n", from);
  field.focus();
  field.setSelectionRange(from, end < 0 ? field.value.length : end);
  const height = field.scrollHeight / Math.max(1, field.value.split("\n").length);
  field.scrollTop = (lineAt(field.value, from) - 1 - ABOVE) * height;
}
