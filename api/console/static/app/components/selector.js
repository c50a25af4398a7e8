// @ts-check
// Which jobs: a selector as it was registered, and, of one that was tried, what each condition found.
import { html } from "../lib.js";
import { t } from "../messages.js";

/** @typedef {import("../../../types/openapi").components["schemas"]["SelectorPart"]} SelectorPart */

/** @param {{ selector: { expression?: string | null, conditions?: any[] | null, states?: string[] | null } | null | undefined }} props */
export function Selector({ selector }) {
  const expression = selector?.expression;
  if (!expression || expression === "*") return html`<span class="muted">${t("allJobs")}</span>`;
  return html`<span class="selector"><code>${expression}</code>${selector?.conditions?.map(
    (condition) => html`<span class="muted" key=${condition.name}> <code>${condition.name}: ${condition.key} = ${condition.expect}</code></span>`,
  )}</span>`;
}

/** The truth table of a selector. @param {{ selector: SelectorPart }} props */
export function TruthTable({ selector }) {
  return html`<div class="truth">
    <p><code>${selector.expression || "*"}</code> ${t(selector.matched ? "matches" : "matchesNot")}</p>
    ${selector.conditions.length > 0 &&
    html`<div class="table" tabindex="0" role="region" aria-label=${t("conditions")}><table>
      <thead><tr><th>${t("condition")}</th><th>${t("headerKey")}</th><th>${t("expected")}</th><th>${t("found")}</th><th></th></tr></thead>
      <tbody>
        ${selector.conditions.map(
          (condition) => html`<tr key=${condition.name}>
            <td><code>${condition.name}</code></td>
            <td><code>${condition.key}</code></td>
            <td>${condition.expect === null ? html`<span class="muted">${t("anything")}</span>` : html`<code>${condition.expect}</code>`}</td>
            <td>${condition.found ? html`<code>${condition.found}</code>` : html`<span class="muted">${t("nothing")}</span>`}</td>
            <td class=${condition.matched ? "yes" : "no"}>${condition.matched ? "✓" : "✗"} ${t(condition.matched ? "yes" : "no")}</td>
          </tr>`,
        )}
      </tbody>
    </table></div>`}
  </div>`;
}
