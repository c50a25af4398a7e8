// @ts-check
// The values of a filter as buttons, of which one may be pressed.
import { html } from "../lib.js";

/**
 * @param {{ label: string, chosen: string, values: { value: string, text: string, count?: number }[], onChoose: (value: string) => void }} props
 * onChoose is given "" when the pressed one is let go
 */
export function Choices({ label, chosen, values, onChoose }) {
  return html`<div class="chips" role="group" aria-label=${label}>
    ${values.map(
      ({ value, text, count }) => html`<button type="button" key=${value} aria-pressed=${value === chosen} onClick=${() => onChoose(value === chosen ? "" : value)}>
        ${text}${count !== undefined && html` <span class="number muted">${count}</span>`}
      </button>`,
    )}
  </div>`;
}
