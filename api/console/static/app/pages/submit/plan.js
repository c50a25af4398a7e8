// @ts-check
// What a job would meet, stage by stage: each plugin, and why it would be called or not.
import { html } from "../../lib.js";
import { TruthTable } from "../../components/selector.js";
import { word } from "../../components/state.js";
import { t } from "./messages.js";

/** @typedef {import("../submit.js").JobPlan} JobPlan */
/** @typedef {JobPlan["stages"][number]["plugins"][number] & { states?: string[] }} Planned */

/** @param {{ plan: JobPlan }} props */
export function Plan({ plan }) {
  const failing = plan.stages.find((stage) => stage.fails);
  const called = plan.stages.flatMap((stage) => (stage.reached ? stage.plugins.filter((plugin) => plugin.runs) : []));
  return html`
    <div class=${`verdict ${failing ? "verdict-bad" : "verdict-good"}`}>
      <h2>${failing ? t("wouldFail", { stage: failing.stage }) : t("wouldGo", { count: called.length, namespace: plan.namespace })}</h2>
      ${failing && html`<p>${failing.outcome}</p>`}
    </div>
    <ol class="stages">
      ${plan.stages.map(
        (stage) => html`<li key=${stage.stage} class=${`panel stage${stage.fails ? " stage-fails" : ""}${stage.reached ? "" : " stage-off"}`}>
          <header><h3>${stage.stage}</h3><span class="muted">${stage.reached ? stage.outcome : t("notReached")}</span></header>
          <${Plugins} plugins=${stage.plugins} />
        </li>`,
      )}
      ${plan.lifeHooks.length > 0 && html`<li class="panel stage" key="lifeHooks"><header><h3>${t("subscribers")}</h3></header><${Plugins} plugins=${plan.lifeHooks} /></li>`}
    </ol>
    <details class="panel whole-header"><summary>${t("wholeHeader")}</summary><pre tabindex="0">${JSON.stringify(plan.header, null, 2)}</pre><p class="muted">${plan.standIn.note}</p></details>
  `;
}

/** @param {{ plugins: Planned[] }} props */
function Plugins({ plugins }) {
  if (!plugins.length) return null;
  return html`<ul class="rows">
    ${plugins.map(
      (plugin) => html`<li key=${plugin.key}>
        <details>
          <summary>
            <span class=${plugin.runs ? "yes" : "skipped"}>${plugin.runs ? "✓" : "–"} ${t(plugin.runs ? "called" : "notCalled")}</span>
            <span class="name">${plugin.feature}</span>
            <span class="muted">${plugin.reason}${plugin.states && plugin.runs ? plugin.states.map(word).join(", ") : ""}</span>
          </summary>
          <code class="muted">${plugin.key}</code>
          <${TruthTable} selector=${plugin.selector} />
        </details>
      </li>`,
    )}
  </ul>`;
}
