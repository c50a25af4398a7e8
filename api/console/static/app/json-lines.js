// @ts-check
// Where in a JSON text a path of the API's, such as `plugins[0].callAddress`, stands.

/** A key, or an index in brackets. */
const STEP = /\[(?:(\d+)|"((?:[^"\\]|\\.)*)")\]|([^.[\]]+)/g;

/** @param {string} path @returns {(string | number)[]} */
export function steps(path) {
  return [...path.matchAll(STEP)].map(([, index, quoted, key]) => (index !== undefined ? Number(index) : (quoted ?? key)));
}

/**
 * The offset of each value's beginning by its path, as the keys and indices in it, joined by NUL. Keys stand for their values. The text
 * has to be JSON.
 *
 * @param {string} text
 * @returns {Map<string, number>}
 */
export function offsets(text) {
  const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
  /** @type {Map<string, number>} */
  const found = new Map([["", 0]]);
  /** @type {{ list: boolean, key: string | number }[]} */
  const open = [];
  let wantsKey = false;
  for (const match of text.matchAll(TOKEN)) {
    const [token] = match;
    const inner = open.at(-1);
    if (token === "}" || token === "]") {
      open.pop();
      wantsKey = false;
    } else if (token === ",") {
      if (inner?.list) inner.key = Number(inner.key) + 1;
      else wantsKey = true;
    } else if (token === ":") wantsKey = false;
    else if (wantsKey && inner) {
      inner.key = JSON.parse(token);
      found.set(key(open), match.index);
      wantsKey = false;
    } else {
      if (inner?.list) found.set(key(open), match.index);
      if (token === "{" || token === "[") {
        open.push({ list: token === "[", key: 0 });
        wantsKey = token === "{";
      }
    }
  }
  return found;
}

/** @param {{ key: string | number }[]} open */
const key = (open) => open.map((level) => level.key).join("\0");

/**
 * The offset in a JSON text of what a path means, or of the nearest that is there around it.
 *
 * @param {string} text
 * @param {string} path
 */
export function offsetOf(text, path) {
  let found;
  try {
    JSON.parse(text);
    found = offsets(text);
  } catch {
    return 0;
  }
  for (let parts = steps(path); parts.length; parts = parts.slice(0, -1)) {
    const offset = found.get(parts.join("\0"));
    if (offset !== undefined) return offset;
  }
  return 0;
}

/** The number of the line, from 1. @param {string} text @param {number} offset */
export const lineAt = (text, offset) => text.slice(0, offset).split("\n").length;
