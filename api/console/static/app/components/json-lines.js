// @ts-check
// On which line each value of a JSON text stands, by its path as the API writes it: `pipeline.cron_time`, `tasks[0].args.num`.

/**
 * Lines by path, and the line and the sentence of what is no JSON.
 *
 * @param {string} text @returns {{ lines: Map<string, number>, value: any, error: { line: number, text: string } | null }}
 */
export function readJSON(text) {
  const reader = new Reader(text);
  try {
    reader.value("");
    reader.blank();
    if (reader.at < text.length) throw new SyntaxError();
    return { lines: reader.lines, value: JSON.parse(text), error: null };
  } catch (error) {
    let sentence = "";
    try {
      JSON.parse(text);
    } catch (refused) {
      sentence = refused instanceof Error ? refused.message : "";
    }
    if (!(error instanceof SyntaxError)) throw error;
    return { lines: reader.lines, value: undefined, error: { line: reader.line(), text: sentence || "This is no JSON." } };
  }
}

/** The line of a path, or of the nearest thing that it is in. @param {Map<string, number>} lines @param {string} path */
export function lineOf(lines, path) {
  let part = path;
  while (part && !lines.has(part)) part = part.replace(/(\.[^.[\]]*|\[\d+\]|[^.[\]]+)$/, "");
  return lines.get(part) ?? 1;
}

class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
    /** @type {Map<string, number>} */
    this.lines = new Map();
    this.counted = 0;
    this.number = 1;
  }

  /** The line of the present place. */
  line() {
    for (; this.counted < this.at && this.counted < this.text.length; this.counted++) if (this.text[this.counted] === "\n") this.number += 1;
    return this.number;
  }

  blank() {
    while (this.at < this.text.length && " \t\r\n".includes(this.text[this.at])) this.at += 1;
  }

  /** @param {RegExp} pattern sticky */
  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (!found) throw new SyntaxError();
    this.at = pattern.lastIndex;
    return found[0];
  }

  /** @param {string} letter */
  expect(letter) {
    this.blank();
    if (this.text[this.at] !== letter) throw new SyntaxError();
    this.at += 1;
  }

  /** @param {string} path */
  value(path) {
    this.blank();
    if (!this.lines.has(path)) this.lines.set(path, this.line());
    const letter = this.text[this.at];
    if (letter === "{") this.object(path);
    else if (letter === "[") this.array(path);
    else if (letter === '"') this.string();
    else this.match(/-?\d+(\.\d+)?([eE][-+]?\d+)?|true|false|null/y);
  }

  string() {
    return JSON.parse(this.match(/"(?:[^"\\\u0000-\u001f]|\\.)*"/y));
  }

  /** @param {string} path */
  object(path) {
    this.expect("{");
    this.blank();
    if (this.text[this.at] === "}") return void (this.at += 1);
    for (;;) {
      this.blank();
      const line = this.line();
      const key = this.string();
      const inner = path ? `${path}.${key}` : key;
      this.lines.set(inner, line);
      this.expect(":");
      this.value(inner);
      this.blank();
      if (this.text[this.at] === "}") return void (this.at += 1);
      this.expect(",");
    }
  }

  /** @param {string} path */
  array(path) {
    this.expect("[");
    this.blank();
    if (this.text[this.at] === "]") return void (this.at += 1);
    for (let index = 0; ; index++) {
      this.value(`${path}[${index}]`);
      this.blank();
      if (this.text[this.at] === "]") return void (this.at += 1);
      this.expect(",");
    }
  }
}
