// @ts-check
// A document of which each part knows who put it there: JSON Patches are applied to it one after the other. No DOM here.

/** @typedef {{ op: string, path: string, value?: any }} Operation */
/** @typedef {{ author: number, text: string }} Part of a text: whose it is */
/** @typedef {{ kind: "object", author: number, entries: Map<string, Node> }} ObjectNode */
/** @typedef {{ kind: "list", author: number, items: Node[] }} ListNode */
/** @typedef {{ kind: "value", author: number, value: any, parts: Part[] }} ValueNode */
/** @typedef {ObjectNode | ListNode | ValueNode} Node */
/** @typedef {{ key: string, depth: number, name: string, text: string, author: number }} Line */

/** @param {any} value @param {number} author @returns {Node} */
export function authored(value, author) {
  if (Array.isArray(value)) return { kind: "list", author, items: value.map((item) => authored(item, author)) };
  if (value !== null && typeof value === "object") {
    return { kind: "object", author, entries: new Map(Object.entries(value).map(([key, item]) => [key, authored(item, author)])) };
  }
  return { kind: "value", author, value, parts: typeof value === "string" ? [{ author, text: value }] : [] };
}

/**
 * The document after a patch, which is the author's; the given one stays as it is.
 *
 * @param {Node | null} document @param {Operation[]} patch @param {number} author @returns {Node}
 */
export function patched(document, patch, author) {
  let result = document;
  for (const { op, path, value } of patch) result = changed(result, path.split("/").slice(1).map(unescape), op, value, author);
  return /** @type {Node} */ (result);
}

/** @param {string} part of a JSON Pointer */
const unescape = (part) => part.replaceAll("~1", "/").replaceAll("~0", "~");

/** @param {Node | null} node @param {string[]} path @param {string} op @param {any} value @param {number} author @returns {Node} */
function changed(node, path, op, value, author) {
  if (!path.length || !node || node.kind === "value") return replaced(node, value, author);
  const [key, ...rest] = path;
  if (node.kind === "object") {
    const entries = new Map(node.entries);
    if (rest.length) entries.set(key, changed(entries.get(key) ?? null, rest, op, value, author));
    else if (op === "remove") entries.delete(key);
    else entries.set(key, op === "replace" ? replaced(entries.get(key) ?? null, value, author) : authored(value, author));
    return { ...node, entries };
  }
  const items = [...node.items];
  const index = key === "-" ? items.length : Number(key);
  if (rest.length) items[index] = changed(items[index], rest, op, value, author);
  else if (op === "remove") items.splice(index, 1);
  else if (op === "add") items.splice(index, 0, authored(value, author));
  else items[index] = replaced(items[index], value, author);
  return { ...node, items };
}

/** Text in front of a text leaves the old text to whom it was. @param {Node | null} old @param {any} value @param {number} author @returns {Node} */
function replaced(old, value, author) {
  if (old?.kind === "value" && typeof value === "string" && typeof old.value === "string" && old.value && value.endsWith(old.value)) {
    const text = value.slice(0, value.length - old.value.length);
    return { kind: "value", author, value, parts: [{ author, text }, ...old.parts] };
  }
  return authored(value, author);
}

/** The plain document. @param {Node} node @returns {any} */
export function plainOf(node) {
  if (node.kind === "value") return node.value;
  if (node.kind === "list") return node.items.map(plainOf);
  return Object.fromEntries([...node.entries].map(([key, item]) => [key, plainOf(item)]));
}

/** The document in lines, in the form of YAML. @param {Node} node @returns {Line[]} */
export function linesOf(node) {
  /** @type {Line[]} */
  const lines = [];
  write(node, "", 0, "", lines);
  return lines;
}

/** @param {Node} node @param {string} path @param {number} depth @param {string} name dashes and a key @param {Line[]} lines */
function write(node, path, depth, name, lines) {
  /** @param {string} text */
  const line = (text) => lines.push({ key: `${path} ${lines.length}`, depth, name, text, author: node.author });
  const inner = innerOf(depth, name);
  if (node.kind === "value") return writeValue(node, path, depth, name, inner, lines);
  if (node.kind === "object" ? !node.entries.size : !node.items.length) return void line(node.kind === "object" ? "{}" : "[]");
  if (name.endsWith(": ")) line("");
  // What stands in a list begins on the line of its dash.
  let begun = name.endsWith(": ") ? "" : name;
  /** @param {string} key @param {Node} item @param {string} front */
  const part = (key, item, front) => {
    write(item, `${path}/${key}`, begun ? depth : inner, begun + front, lines);
    begun = "";
  };
  if (node.kind === "list") node.items.forEach((item, index) => part(String(index), item, "- "));
  else for (const [key, item] of node.entries) part(key, item, `${plainly(key)}: `);
}

/** How deep the parts of what has this name stand. @param {number} depth @param {string} name */
function innerOf(depth, name) {
  const dashes = /^(?:- )*/.exec(name)?.[0].length ?? 0;
  return depth + dashes / 2 + (name.endsWith(": ") ? 1 : 0);
}

const PLAIN = /^(?![-?:,[\]{}#&*!|>'"%@`=. ]|(?:true|false|null|yes|no|on|off|~)$|(?=.*\d)[\d_:.,eTZ+-]+$)(?:[^\n\r\t]*[^\s:])$/i;

/** A text as YAML has it on one line. @param {string} text */
const plainly = (text) =>
  PLAIN.test(text) && !text.includes(": ") && !text.includes(" #") && Number.isNaN(Number(text)) ? text : JSON.stringify(text);

/** @param {ValueNode} node @param {string} path @param {number} depth @param {string} name @param {number} inner @param {Line[]} lines */
function writeValue(node, path, depth, name, inner, lines) {
  const { value, parts, author } = node;
  if (typeof value !== "string" || !value.includes("\n") || value.includes("\r")) {
    lines.push({ key: `${path} ${lines.length}`, depth, name, text: typeof value === "string" ? plainly(value) : JSON.stringify(value), author });
    return;
  }
  // The first line shows how far all are indented, unless it is indented itself; what stands behind says which newlines are at the end.
  const begin = `|${/^\n* /.test(value) ? "2" : ""}${value.endsWith("\n\n") ? "+" : value.endsWith("\n") ? "" : "-"}`;
  lines.push({ key: `${path} ${lines.length}`, depth, name, text: begin, author: (parts.at(-1) ?? node).author });
  let at = 0;
  for (const text of value.replace(/\n$/, "").split("\n")) {
    lines.push({ key: `${path} ${lines.length}`, depth: inner, name: "", text, author: authorAt(parts, at) });
    at += text.length + 1;
  }
}

/** @param {Part[]} parts @param {number} position */
function authorAt(parts, position) {
  let end = 0;
  for (const { author, text } of parts) {
    end += text.length;
    if (position < end) return author;
  }
  return parts.at(-1)?.author ?? 0;
}
