// @ts-check
// Rows of one height, of which only those in view are in the document, however many there are.
import { html, useLayoutEffect, useRef, useState } from "../lib.js";

const AROUND = 12;

/**
 * @template Row
 * @param {{ rows: Row[], height: number, label: string, keyOf: (row: Row) => string, draw: (row: Row, index: number) => any, most?: string, class?: string }} props
 * height: of a row, in pixels; most: the highest that the list becomes, as a CSS length
 */
export function VirtualRows({ rows, height, label, keyOf, draw, most = "70vh", class: name = "" }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [view, setView] = useState({ top: 0, height: 800 });
  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    const observer = new ResizeObserver(() => setView((old) => ({ ...old, height: element.clientHeight })));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(view.top / height) - AROUND);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + AROUND);
  return html`<div
    class=${`virtual ${name}`}
    ref=${box}
    style=${{ maxHeight: most }}
    tabindex="0"
    role="region"
    aria-label=${label}
    onScroll=${(/** @type {any} */ event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}
  >
    <ul style=${{ height: `${rows.length * height}px` }}>
      ${rows.slice(first, last).map(
        (row, index) => html`<li
          key=${keyOf(row)}
          aria-setsize=${rows.length}
          aria-posinset=${first + index + 1}
          style=${{ transform: `translateY(${(first + index) * height}px)`, height: `${height}px` }}
        >${draw(row, first + index)}</li>`,
      )}
    </ul>
  </div>`;
}
