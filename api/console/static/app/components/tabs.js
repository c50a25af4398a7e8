// @ts-check
// Views of one thing, of which the address says which is shown.
import { html } from "../lib.js";
import { query, setQuery } from "../router.js";

/**
 * Which of the views is shown: the first, unless the address names another.
 *
 * @template {string} View @param {readonly View[]} views @param {string} [parameter] @returns {View}
 */
export function useView(views, parameter = "view") {
  const named = query.value.get(parameter);
  return views.find((view) => view === named) ?? views[0];
}

/**
 * @param {{ views: { name: string, text: string }[], shown: string, label: string, parameter?: string, panel: string }} props panel: the ID of what the views are shown in
 */
export function Tabs({ views, shown, label, parameter = "view", panel }) {
  /** @param {KeyboardEvent} event */
  function press(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = views.findIndex(({ name }) => name === shown);
    const next = views[(at + step + views.length) % views.length];
    setQuery({ [parameter]: next.name === views[0].name ? "" : next.name });
    const list = /** @type {HTMLElement} */ (event.currentTarget);
    /** @type {HTMLElement | null} */ (list.querySelector(`[data-view="${next.name}"]`))?.focus();
  }
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${press}>
    ${views.map(
      ({ name, text }, index) => html`<button
        type="button"
        key=${name}
        role="tab"
        data-view=${name}
        aria-controls=${panel}
        aria-selected=${name === shown}
        tabindex=${name === shown ? 0 : -1}
        onClick=${() => setQuery({ [parameter]: index ? name : "" })}
      >${text}</button>`,
    )}
  </div>`;
}
