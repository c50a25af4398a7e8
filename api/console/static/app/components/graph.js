// @ts-check
// A DAG as a drawing: the layers of the API's layout from left to right, moved and zoomed by mouse, touch and keys. Only what is in
// view is drawn. A press on a group opens it.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib.js";
import { shapeOf, word } from "./state.js";
import { grouped } from "./groups.js";
import { NODE, placed } from "./places.js";
import { t } from "./graph-messages.js";

/** @typedef {{ name: string, upstream: string[], state?: string, note?: string }} Node */
/** @typedef {{ x: number, y: number, scale: number }} View where the drawing's origin is, in pixels of the window */

const MOST_ZOOM = 2;
/** Below this zoom names could not be read, and are left out. */
const READABLE = 0.45;
const STEP = 80;
const KEYS_ZOOM = /** @type {Record<string, number>} */ ({ "+": 1.25, "=": 1.25, "-": 0.8 });

/**
 * @param {{ nodes: Node[], layers: import("./groups.js").LayoutNode[][], label: string, chosen?: string, onChoose?: (name: string) => void, focus?: string }} props
 * focus: the node that is in view at first
 */
export function Graph({ nodes, layers, label, chosen = "", onChoose, focus = "" }) {
  const [open, setOpen] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const shape = useMemo(() => placed(grouped(nodes, layers, open)), [nodes.length, layers, open]);
  const now = useMemo(() => grouped(nodes, layers, open).nodes, [nodes, layers, open]);
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [view, setView] = useState(/** @type {View | null} */ (null));
  const drag = useRef(/** @type {{ x: number, y: number, moved: boolean } | null} */ (null));

  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (size.width && !view) setView(firstView(shape, size, chosen || focus));
  }, [size.width > 0]);
  useEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    // Preact's listeners are passive: the page would scroll too.
    /** @param {WheelEvent} event */
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const at = element.getBoundingClientRect();
      setView((old) => old && zoomed(old, Math.exp(-event.deltaY / 300), event.clientX - at.left, event.clientY - at.top));
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, []);

  const { x, y, scale } = view ?? { x: 0, y: 0, scale: 1 };
  const left = -x / scale;
  const top = -y / scale;
  const right = left + size.width / scale;
  const bottom = top + size.height / scale;
  const inView = view ? now.filter(({ name }) => isIn(shape.places.get(name), left, top, right, bottom)) : [];
  const selected = shape.places.has(chosen) ? chosen : (shape.holder.get(chosen) ?? "");

  /** @param {string} name */
  function press(name) {
    const group = shape.members.get(name);
    if (group) setOpen(new Set([...open, name]));
    else onChoose?.(name);
  }

  /** Choose another node and bring it into view. @param {string | undefined} name */
  function walk(name) {
    const place = name !== undefined && shape.places.get(name);
    if (!place || !view) return;
    onChoose?.(/** @type {string} */ (name));
    const inside = isIn(place, left + 10, top + 10, right - NODE.width, bottom - NODE.height);
    if (!inside) setView({ ...view, x: size.width / 2 - (place.x + NODE.width / 2) * scale, y: size.height / 2 - place.y * scale });
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    const factor = KEYS_ZOOM[event.key];
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!view || event.ctrlKey || event.metaKey || event.altKey) return;
    if (factor) setView(zoomed(view, factor, size.width / 2, size.height / 2));
    else if (event.key === "0") setView(whole(shape, size));
    else if (arrow && event.shiftKey) setView({ ...view, x: x - arrow[0] * STEP, y: y - arrow[1] * STEP });
    else if (arrow) walk(next(shape, selected, arrow[0], arrow[1], (left + right) / 2, (top + bottom) / 2));
    else if (event.key === "Enter" && selected) press(selected);
    else return;
    event.preventDefault();
  }

  const lines = useMemo(() => linesIn(shape, left, top, right, bottom), [shape, left, top, right, bottom]);
  const hidden = nodes.length - now.length;
  return html`<div class="graph">
    <div
      class="graph-box"
      ref=${box}
      tabindex="0"
      role="application"
      aria-label=${`${label}. ${t("keys")}`}
      onKeyDown=${key}
      onPointerDown=${(/** @type {PointerEvent} */ event) => {
        if (event.button) return;
        drag.current = { x: event.clientX, y: event.clientY, moved: false };
      }}
      onPointerMove=${(/** @type {PointerEvent} */ event) => {
        const from = drag.current;
        if (!from || !view) return;
        if (!from.moved && Math.hypot(event.clientX - from.x, event.clientY - from.y) < 4) return;
        if (!from.moved) box.current?.setPointerCapture(event.pointerId);
        setView({ ...view, x: x + event.clientX - from.x, y: y + event.clientY - from.y });
        drag.current = { x: event.clientX, y: event.clientY, moved: true };
      }}
      onPointerUp=${() => (drag.current = null)}
      onPointerCancel=${() => (drag.current = null)}
    >
      <svg aria-hidden="true" width=${size.width} height=${size.height} data-nodes=${inView.length}>
        <g transform=${`translate(${x} ${y}) scale(${scale})`}>
          <path class="graph-lines" d=${lines} />
          ${inView.map((node) => html`<${Box} key=${node.name} node=${node} place=${shape.places.get(node.name)} group=${shape.members.get(node.name)} chosen=${node.name === selected} small=${scale < READABLE} onPress=${press} />`)}
        </g>
      </svg>
    </div>
    <div class="graph-tools">
      <button type="button" aria-label=${t("closer")} title=${t("closer")} onClick=${() => view && setView(zoomed(view, 1.25, size.width / 2, size.height / 2))}>+</button>
      <button type="button" aria-label=${t("farther")} title=${t("farther")} onClick=${() => view && setView(zoomed(view, 0.8, size.width / 2, size.height / 2))}>−</button>
      <button type="button" onClick=${() => setView(whole(shape, size))}>${t("all")}</button>
      ${open.size > 0 && html`<button type="button" onClick=${() => setOpen(new Set())}>${t("fold")}</button>`}
    </div>
    <p class="graph-note muted">${hidden > 0 ? t("inGroups", { count: nodes.length, shown: now.length }) : t("help")}</p>
    <p class="unseen" role="status">${selected && describe(now.find(({ name }) => name === selected))}</p>
  </div>`;
}

/** @param {{ node: Node, place: import("./places.js").Place, group: string[] | undefined, chosen: boolean, small: boolean, onPress: (name: string) => void }} props */
function Box({ node, place, group, chosen, small, onPress }) {
  const { path, filled } = shapeOf(node.state ?? "");
  const kind = `graph-node node-${node.state ?? "none"}${chosen ? " node-chosen" : ""}${group ? " node-group" : ""}`;
  return html`<g class=${kind} data-node=${node.name} transform=${`translate(${place.x} ${place.y})`} onClick=${() => onPress(node.name)}>
    ${group && html`<rect class="node-behind" x="4" y="-4" width=${NODE.width} height=${NODE.height} rx="5" />`}
    <rect width=${NODE.width} height=${NODE.height} rx="5" />
    ${!small &&
    html`<title>${describe(node)}</title>
      ${node.state && html`<svg x="8" y="8" width="14" height="14" viewBox="0 0 16 16"><path d=${path} class=${filled ? "filled" : ""} /></svg>`}
      <text x=${node.state ? 28 : 10} y="19">${clip(group ? node.note || node.name : node.name, node.state ? 19 : 22)}</text>`}
  </g>`;
}

/** @param {Node | undefined} node */
const describe = (node) => (node ? [node.note || node.name, node.state ? word(node.state) : ""].filter(Boolean).join(": ") : "");

/** @param {string} text @param {number} most */
const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** @param {{ x: number, y: number } | undefined} place @param {number} left @param {number} top @param {number} right @param {number} bottom */
const isIn = (place, left, top, right, bottom) =>
  place !== undefined && place.x < right && place.x + NODE.width > left && place.y < bottom && place.y + NODE.height > top;

/** @param {View} view @param {number} factor @param {number} atX @param {number} atY @returns {View} */
function zoomed(view, factor, atX, atY) {
  const scale = Math.min(MOST_ZOOM, Math.max(0.01, view.scale * factor));
  const by = scale / view.scale;
  return { scale, x: atX - (atX - view.x) * by, y: atY - (atY - view.y) * by };
}

/** @param {import("./places.js").Shape} shape @param {{ width: number, height: number }} size @returns {View} */
function whole(shape, size) {
  const margin = 16;
  const scale = Math.min(1, (size.width - 2 * margin) / shape.width, (size.height - 2 * margin) / shape.height);
  return { scale, x: (size.width - shape.width * scale) / 2, y: (size.height - shape.height * scale) / 2 };
}

/** All of it, if names can be read then; otherwise what matters, in the middle. @param {import("./places.js").Shape} shape @param {{ width: number, height: number }} size @param {string} focus @returns {View} */
function firstView(shape, size, focus) {
  const all = whole(shape, size);
  if (all.scale >= 0.7) return all;
  const scale = Math.max(all.scale, 0.8);
  const place = shape.places.get(focus) ?? shape.places.get(shape.holder.get(focus) ?? "");
  const at = place ?? { x: 0, y: shape.height / 2 };
  return {
    scale,
    x: shift((at.x + NODE.width / 2) * scale, shape.width * scale, size.width),
    y: shift((at.y + NODE.height / 2) * scale, shape.height * scale, size.height),
  };
}

/** How far the drawing is moved, so that `middle` is in the middle if there is more on both sides. @param {number} middle @param {number} length @param {number} room */
function shift(middle, length, room) {
  if (length + 32 <= room) return (room - length) / 2;
  return Math.min(16, Math.max(room - length - 16, room / 2 - middle));
}

/** The node that an arrow key leads to. @param {import("./places.js").Shape} shape @param {string} from @param {number} across @param {number} down @param {number} middleX @param {number} middleY */
function next(shape, from, across, down, middleX, middleY) {
  const place = shape.places.get(from);
  const at = place ?? { layer: -1, x: middleX, y: middleY };
  /** @type {string | undefined} */
  let best;
  let least = Infinity;
  for (const [name, other] of shape.places) {
    if (name === from) continue;
    if (place && (across ? Math.sign(other.layer - at.layer) !== across : other.layer !== at.layer || Math.sign(other.y - at.y) !== down)) continue;
    const far = Math.abs(other.x - at.x) * 3 + Math.abs(other.y - at.y);
    if (far < least) [best, least] = [name, far];
  }
  return best;
}

/** The lines that cross the view, as one path. @param {import("./places.js").Shape} shape @param {number} left @param {number} top @param {number} right @param {number} bottom */
function linesIn(shape, left, top, right, bottom) {
  const parts = [];
  for (const [from, to] of shape.edges) {
    const x = from.x + NODE.width;
    const y = from.y + NODE.height / 2;
    const endY = to.y + NODE.height / 2;
    if (x > right || to.x < left || Math.min(y, endY) > bottom || Math.max(y, endY) < top) continue;
    const half = Math.max(20, Math.min(60, (to.x - x) / 2));
    parts.push(`M${x} ${y}C${x + half} ${y} ${to.x - half} ${endY} ${to.x} ${endY}`);
  }
  return parts.join("");
}
