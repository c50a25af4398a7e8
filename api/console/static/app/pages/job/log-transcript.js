// @ts-check
// A log as lines of text, made of the records that the API answers with format=json. No DOM here.

/** @typedef {{ cursor: string } | { source: string, text: string, open: boolean }} LogRecord */

/** Lines begin with their source as soon as there is more than one. A line is there once it has ended. */
export class Transcript {
  constructor() {
    /** Another list when lines that were there are others now. @type {string[]} */
    this.lines = [];
    /** Whether the last record was a cursor. */
    this.isAtCursor = false;
    /** Where to go on after a break; empty: from the first line. */
    this.cursor = "";
    /** How many lines there were at the cursor. */
    this.reached = 0;
    this.source = "";
    this.isMerged = false;
    /** The pieces of lines that have not ended, by source. @type {Map<string, string[]>} */
    this.open = new Map();
  }

  /** @param {LogRecord} record */
  add(record) {
    this.isAtCursor = "cursor" in record;
    if ("cursor" in record) {
      this.cursor = record.cursor;
      this.reached = this.lines.length;
      return;
    }
    const { source, text, open } = record;
    const pieces = this.open.get(source);
    if (open) {
      if (pieces) pieces.push(text);
      else this.open.set(source, [text]);
      return;
    }
    this.open.delete(source);
    this.push(source, pieces ? pieces.join("") + text : text);
  }

  /** Leave out what comes again when reading goes on from `cursor`: what came after the cursor, and lines that have not ended. */
  rewind() {
    const kept = this.cursor ? this.reached : 0;
    if (kept < this.lines.length) this.lines = this.lines.slice(0, kept);
    this.open.clear();
  }

  /** Nothing more comes: a line that has not ended is one. */
  end() {
    for (const [source, pieces] of this.open) this.push(source, pieces.join(""));
    this.open.clear();
  }

  /** @param {string} source @param {string} text */
  push(source, text) {
    this.source ||= source;
    if (!this.isMerged && source !== this.source) {
      this.isMerged = true;
      this.lines = this.lines.map((line) => `${this.source} | ${line}`);
    }
    this.lines.push(this.isMerged ? `${source} | ${text}` : text);
  }
}
