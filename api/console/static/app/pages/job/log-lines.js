// @ts-check
// The lines of a log as rows of equal height: long lines are cut into several rows when they are wrapped. No DOM here.

/** How many characters of a line are shown when it is not wrapped. */
export const SHOWN = 2000;

/** Escape sequences of terminals; those for colours end in `m`. */
// eslint-disable-next-line no-control-regex
const ESCAPES = /\x1b(?:\[([0-9;]*)([A-Za-z])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f]/g;

/** @typedef {{ text: string, colour: string }} Segment colour: a class, or empty */

/** The text of a line as people see it. @param {string} line */
export const plain = (line) => (line.includes("\x1b") ? line.replace(ESCAPES, "") : line).replace(CONTROLS, "");

/**
 * A line as pieces of one colour each.
 *
 * @param {string} line @returns {Segment[]}
 */
export function segments(line) {
  if (!line.includes("\x1b")) return [{ text: line.replace(CONTROLS, ""), colour: "" }];
  /** @type {Segment[]} */
  const found = [];
  let state = { bold: false, colour: "" };
  let last = 0;
  /** @param {number} end */
  const keep = (end) => {
    const text = line.slice(last, end).replace(CONTROLS, "");
    if (text) found.push({ text, colour: [state.colour, state.bold && "ansi-bold"].filter(Boolean).join(" ") });
  };
  for (const match of line.matchAll(ESCAPES)) {
    keep(match.index);
    last = match.index + match[0].length;
    if (match[2] === "m") state = after(state, match[1] ?? "");
  }
  keep(line.length);
  return found;
}

/** @param {{ bold: boolean, colour: string }} state @param {string} codes */
function after(state, codes) {
  let { bold, colour } = state;
  for (const code of codes.split(";").map(Number)) {
    if (code === 0) [bold, colour] = [false, ""];
    else if (code === 1) bold = true;
    else if (code === 22) bold = false;
    else if (code === 39) colour = "";
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) colour = `ansi-${code % 10}`;
  }
  return { bold, colour };
}

/** The part of segments between two positions of their whole text. @param {Segment[]} whole @param {number} from @param {number} to */
export function cut(whole, from, to) {
  const found = [];
  let at = 0;
  for (const { text, colour } of whole) {
    if (at >= to) break;
    if (at + text.length > from) found.push({ text: text.slice(Math.max(0, from - at), to - at), colour });
    at += text.length;
  }
  return found;
}

/** Rows of lines: which line a row is of. Appending costs only what is appended. */
export class Rows {
  /** @param {number} columns characters of a row; 0: lines are not wrapped */
  constructor(columns) {
    this.columns = columns;
    /** How many rows there are before each line. @type {number[]} */
    this.before = [];
    this.count = 0;
  }

  /** @param {string[]} lines all lines, of which those that are new are added */
  extend(lines) {
    for (let index = this.before.length; index < lines.length; index++) {
      this.before.push(this.count);
      this.count += this.columns ? Math.max(1, Math.ceil(width(lines[index]) / this.columns)) : 1;
    }
  }

  /** The line of a row, and which row of it. @param {number} row */
  at(row) {
    let low = 0;
    let high = this.before.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.before[middle] <= row) low = middle;
      else high = middle - 1;
    }
    return { line: low, part: row - this.before[low] };
  }
}

/** The length without what is not seen; of a line without escapes it is its length. @param {string} line */
const width = (line) => (line.includes("\x1b") ? plain(line).length : line.length);

/** Takes text as it comes and gives whole lines. */
export class Splitter {
  constructor() {
    /** Pieces of the line that has not ended: joined once, so that a long line costs no more than its length. @type {string[]} */
    this.pieces = [];
  }

  /** @param {string} text @returns {string[]} */
  push(text) {
    const lines = text.split("\n");
    if (lines.length === 1) {
      if (text) this.pieces.push(text);
      return [];
    }
    lines[0] = this.pieces.join("") + lines[0];
    const rest = /** @type {string} */ (lines.pop());
    this.pieces = rest ? [rest] : [];
    return lines;
  }
}
