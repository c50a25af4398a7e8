// @ts-check
// The plugins of one type in running order: moved by buttons, or by dragging a row.
import { html, useRef, useState } from "../../lib.js";
import { Circuit } from "../../components/circuit.js";
import { Link } from "../../components/link.js";
import { Selector } from "../../components/selector.js";
import { Switch } from "./switch.js";
import { t } from "./messages.js";

/** @typedef {import("../plugins.js").Plugin} Plugin */

/**
 * @param {{ type: string, plugins: Plugin[], shadows: Plugin[], circuits: Map<string, import("../plugins.js").Circuit>, waitingOf: (feature: string) => number, movable: (plugin: Plugin) => boolean, onMove: (from: number, to: number) => void, onSwitched: () => void }} props
 */
export function TypeSection({ type, plugins, shadows, circuits, waitingOf, movable, onMove, onSwitched }) {
  const [dragged, setDragged] = useState(-1);
  const [over, setOver] = useState(-1);
  const list = useRef(/** @type {HTMLElement | null} */ (null));

  /** Move by a key or a button, which keeps the focus. @param {number} from @param {number} to @param {Event} event */
  function step(from, to, event) {
    const button = /** @type {HTMLElement} */ (event.currentTarget);
    const name = button.dataset.move;
    const key = plugins[from].key;
    onMove(from, to);
    requestAnimationFrame(() => {
      const row = [...(list.current?.children ?? [])].find((item) => /** @type {HTMLElement} */ (item).dataset.key === key);
      const same = /** @type {HTMLButtonElement | null | undefined} */ (row?.querySelector(`[data-move="${name}"]:not(:disabled)`) ?? row?.querySelector("[data-move]:not(:disabled)"));
      same?.focus();
    });
  }

  function drop() {
    if (dragged >= 0 && over >= 0 && over !== dragged) onMove(dragged, over);
    setDragged(-1);
    setOver(-1);
  }

  return html`<section class="panel" aria-label=${type}>
    <header><h2>${t(/** @type {any} */ (type))}</h2><code class="muted">${type}</code><span class="muted type-note">${t(/** @type {any} */ (`${type}Note`))}</span></header>
    <ol class="rows plugins" ref=${list} onDragOver=${(/** @type {Event} */ event) => dragged >= 0 && event.preventDefault()} onDrop=${(/** @type {Event} */ event) => {
        event.preventDefault();
        drop();
      }}>
      ${plugins.map((plugin, index) => {
        const circuit = circuits.get(plugin.key);
        const can = movable(plugin) && plugins.length > 1;
        return html`<li
          key=${plugin.key}
          data-key=${plugin.key}
          class=${`plugin${plugin.enabled ? "" : " plugin-off"}${dragged === index ? " dragged" : ""}${over === index && dragged >= 0 && dragged !== index ? (over < dragged ? " drop-before" : " drop-after") : ""}`}
          draggable=${can}
          onDragStart=${(/** @type {DragEvent} */ event) => {
            event.dataTransfer?.setData("text/plain", plugin.key);
            setDragged(index);
          }}
          onDragEnter=${(/** @type {Event} */ event) => {
            if (dragged < 0) return;
            event.preventDefault();
            setOver(index);
          }}
          onDragEnd=${() => (setDragged(-1), setOver(-1))}
        >
          <div class="place">
            ${can && html`<span class="grip" aria-hidden="true">⠿</span>`}
            <span class="number">${index + 1}</span>
            ${can &&
            html`<span class="moves">
              <button type="button" data-move="up" disabled=${index === 0} aria-label=${t("earlier", { name: plugin.feature })} title=${t("earlierNote")} onClick=${(/** @type {Event} */ event) => step(index, index - 1, event)}>↑</button>
              <button type="button" data-move="down" disabled=${index === plugins.length - 1} aria-label=${t("later", { name: plugin.feature })} title=${t("laterNote")} onClick=${(/** @type {Event} */ event) => step(index, index + 1, event)}>↓</button>
            </span>`}
          </div>
          <div class="what">
            <p><${Link} class="name" to=${`/features/${encodeURIComponent(plugin.feature)}`}>${plugin.feature}<//> <span class="muted">${plugin.description}</span></p>
            <p class="muted address"><code>${plugin.callAddress}</code></p>
            <p class="which"><${Selector} selector=${plugin.effectiveJobSelector} /></p>
          </div>
          <div class="health">
            <${Circuit} circuit=${circuit?.circuit} enabled=${plugin.enabled} />
            ${circuit && plugin.enabled && circuit.failures > 0 && html`<p class="muted">${t("failures", { count: circuit.failures })}: ${circuit.cause}</p>`}
          </div>
          <${Switch} feature=${plugin.feature} owner=${plugin.owner} enabled=${plugin.enabled} waiting=${waitingOf(plugin.feature)} onSwitched=${onSwitched} />
        </li>`;
      })}
    </ol>
    ${shadows.length > 0 &&
    html`<ul class="rows plugins" aria-label=${t("shadows")}>
      ${shadows.map(
        (plugin) => html`<li key=${plugin.key} class=${`plugin${plugin.enabled ? "" : " plugin-off"}`}>
          <div class="place"><span class="muted">${t("shadow")}</span></div>
          <div class="what">
            <p><${Link} class="name" to=${`/features/${encodeURIComponent(plugin.feature)}`}>${plugin.feature}<//> <span class="muted">${plugin.description}</span></p>
            <p class="muted address"><code>${plugin.callAddress}</code></p>
            ${plugin.shadowOf && html`<p class="muted">${t("shadowOf", { key: plugin.shadowOf })}</p>`}
          </div>
          <div class="health"></div>
          <${Switch} feature=${plugin.feature} owner=${plugin.owner} enabled=${plugin.enabled} waiting=${waitingOf(plugin.feature)} onSwitched=${onSwitched} />
        </li>`,
      )}
    </ul>`}
  </section>`;
}
