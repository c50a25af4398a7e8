// @ts-check
// A feature: on or off, how its plugins do, and which jobs it takes part in, so that one sees what switching it off would do.
import { html, useEffect, useState } from "../lib.js";
import { call, get } from "../client.js";
import { duration } from "../clock.js";
import { go, href } from "../router.js";
import { may } from "../session.js";
import { useResource } from "../resource.js";
import { style } from "../styles.js";
import { Choices } from "../components/choices.js";
import { Circuit } from "../components/circuit.js";

import { Link } from "../components/link.js";
import { ErrorNotice, Notice } from "../components/notice.js";
import { ConfirmDialog } from "../components/confirm-dialog.js";
import { Selector } from "../components/selector.js";
import { Ago } from "../components/time.js";
import { WhatIf, whatIf } from "../components/what-if.js";
import { OpenCircuit, isBroken } from "./plugins/open-circuit.js";
import { Shadow } from "./plugins/shadow.js";
import { Switch, deliveriesTo, mayChange } from "./plugins/switch.js";
import { t } from "./plugins/messages.js";

await style("plugins.css");

/** @typedef {import("../../../types/openapi").components["schemas"]["FeatureItem"]} Feature */
/** @typedef {import("../../../types/openapi").components["schemas"]["PluginDetail"]} PluginDetail */

const HEALTH_MS = 5000;
const SPANS = [1, 7, 30];
const DAYS_OF_BROKEN = 7;

/** @param {{ name: string }} props */
export function Page({ name }) {
  const found = useResource((signal) => readFeature(name, signal), [name]);
  const [asking, setAsking] = useState(false);
  useEffect(() => void (document.title = `${name} · Pipeline`), [name]);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || found.reload(), HEALTH_MS);
    return () => clearInterval(timer);
  }, [found]);
  const { data, error } = found.state.value;
  if (!may("read_feature")) return html`<h1>${name}</h1><${Notice} title=${t("needsReadFeature")} />`;
  if (!data) return html`<h1>${name}</h1><${ErrorNotice} error=${error} onRetry=${found.reload} />`;
  const { feature, plugins, deliveries } = data;
  const broken = plugins.filter((plugin) => feature.enabled && isBroken(plugin.health?.circuit));
  return html`
    <p class="crumb"><${Link} to="/plugins">${t("title")}<//></p>
    <div class="page-head">
      <h1>${feature.name}</h1>
      <${Switch} feature=${feature.name} owner=${feature.owner} enabled=${feature.enabled} waiting=${deliveriesTo(plugins, deliveries)} onSwitched=${found.reload} />
      <span class="muted">${t("by", { author: feature.author, owner: feature.owner })} · ${t("changed")} <${Ago} at=${feature.updatedAt} /></span>
      <div class="actions">
        ${mayChange(feature.owner)
          ? html`<${Link} class="button" to=${`/features/${encodeURIComponent(name)}/replace`}>${t("replace")}<//><button type="button" class="danger" onClick=${() => setAsking(true)}>${t("delete")}</button>`
          : html`<span class="muted">${t(may("write_feature") ? "ownerOnly" : "needsWriteFeature", { owner: feature.owner })}</span>`}
      </div>
    </div>
    ${feature.description && html`<p class="lead">${feature.description}</p>`}
    <${ErrorNotice} error=${error} onRetry=${found.reload} />
    ${broken.map((plugin) => html`<${OpenCircuit} key=${plugin.key} plugin=${plugin} circuit=${{ cause: plugin.health?.cause ?? "", failures: plugin.health?.failuresInARow ?? 0 }} deliveries=${deliveries} linked=${false} />`)}
    ${may("read_job") && html`<${Impact} feature=${feature} broken=${broken.length > 0} />`}
    ${plugins.map((plugin) => html`<${PluginPanel} key=${plugin.key} plugin=${plugin} onChange=${found.reload} />`)}
    ${asking &&
    html`<${ConfirmDialog} title=${t("deleteTitle", { name })} confirm=${t("delete")} danger act=${async () => {
      await call("DELETE", `/v1/features/${encodeURIComponent(name)}`);
      go(href("/plugins"));
    }} onClose=${() => setAsking(false)}><p>${t("deleteNote")}</p><//>`}
  `;
}

/** @param {string} name @param {AbortSignal} signal */
async function readFeature(name, signal) {
  const feature = /** @type {Feature} */ (await get(`/v1/features/detail/${encodeURIComponent(name)}`, { signal }));
  const [status, ...plugins] = await Promise.all([
    may("read_job") ? get("/v1/status", { signal }) : null,
    ...feature.plugins.map((plugin) => get(`/v1/plugins/detail/${encodeURIComponent(plugin.key)}`, { signal })),
  ]);
  return { feature, plugins: /** @type {PluginDetail[]} */ (plugins), deliveries: status?.deliveries ?? [] };
}

/** Which jobs the feature takes part in: those that would do without it. @param {{ feature: Feature, broken: boolean }} props */
function Impact({ feature, broken }) {
  const [chosen, setDays] = useState(/** @type {number | null} */ (null));
  const days = chosen ?? (broken ? DAYS_OF_BROKEN : 0);
  const found = useResource((signal) => (days ? whatIf(feature, days, signal) : Promise.resolve(undefined)), [feature.name, feature.updatedAt, days]);
  const { data, error, loading } = found.state.value;
  return html`<section class="panel impact" aria-label=${t("impact")} aria-busy=${Boolean(days) && loading}>
    <header>
      <h2>${t(feature.enabled ? "impact" : "impactOn")}</h2>
      <div class="actions">
        <${Choices} label=${t("span")} chosen=${String(days)} values=${SPANS.map((count) => ({ value: String(count), text: t(count === 1 ? "lastDay" : "lastDays", { count }) }))} onChoose=${(/** @type {string} */ value) => setDays(Number(value))} />
      </div>
    </header>
    <div class="impact-body">
      <p class="muted">${t(feature.enabled ? "impactNote" : "impactOnNote")}</p>
      <${ErrorNotice} error=${error} onRetry=${found.reload} />
      ${data && html`<${WhatIf} found=${data} comparing=${false} />`}
    </div>
  </section>`;
}

const AFTER_PATIENCE = /** @type {const} */ ({ Fail: "fails", Ignore: "ignored", Suspend: "suspends" });

/** @param {{ plugin: PluginDetail, onChange: () => void }} props */
function PluginPanel({ plugin, onChange }) {
  const { health } = plugin;
  return html`<section class="panel" aria-label=${plugin.key}>
    <header><h2>${plugin.pluginType}</h2><${Circuit} circuit=${health?.circuit} enabled=${plugin.enabled} /><code class="muted">${plugin.key}</code>${plugin.mode === "shadow" && html`<strong>${t("shadow")}</strong>`}</header>
    ${plugin.mode === "shadow" && html`<${Shadow} plugin=${plugin} onPromoted=${onChange} />`}
    <dl class="facts">
      <dt>${t("address")}</dt><dd><code>${plugin.callAddress}</code></dd>
      <dt>${t("jobsAsked")}</dt><dd><${Selector} selector=${plugin.effectiveJobSelector} /></dd>
      ${plugin.pluginType === "LifeHook" && html`<dt>${t("states")}</dt><dd>${plugin.effectiveJobSelector.states?.join(", ") || t("allStates")}</dd>`}
      ${plugin.resume && html`<dt>${t("whoResumes")}</dt><dd>${t(plugin.resume === "approver" ? "approver" : "writer")}</dd>`}
      <dt>${t("calls")}</dt><dd>${plugin.pluginType === "LifeHook"
        ? t("deliveryRules", { timeout: plugin.timeoutSeconds })
        : html`${t("callRules", { timeout: plugin.timeoutSeconds, attempts: plugin.maxAttempts, patience: duration(plugin.patienceSeconds * 1000) })} ${t(AFTER_PATIENCE[/** @type {keyof typeof AFTER_PATIENCE} */ (plugin.failurePolicy)])}`}</dd>
      ${health
        ? html`<dt>${t("latency")}</dt><dd class="number">${health.latencyMs === null ? t("noCalls") : duration(health.latencyMs)}</dd>
            <dt>${t("failuresInARow")}</dt><dd class="number">${health.failuresInARow}${health.cause && health.failuresInARow > 0 ? html` · ${health.cause}` : ""}</dd>
            <dt>${t("underWay")}</dt><dd class="number">${health.callsUnderWay}</dd>`
        : html`<dt>${t("health")}</dt><dd>${t("healthUnknown")}</dd>`}
    </dl>
    ${health && health.recent.length > 0 && html`<${Calls} calls=${health.recent} />`}
  </section>`;
}

/** @param {{ calls: NonNullable<PluginDetail["health"]>["recent"] }} props */
function Calls({ calls }) {
  return html`<div class="table calls" tabindex="0" role="region" aria-label=${t("lastCalls")}><table>
    <thead><tr><th>${t("lastCalls")}</th><th>${t("outcome")}</th><th class="tight">${t("took")}</th></tr></thead>
    <tbody>
      ${calls.map(
        (one, index) => html`<tr key=${`${one.at} ${index}`}>
          <td class="tight muted"><${Ago} at=${one.at} /></td>
          <td class=${one.outcome === "answered" ? "yes" : "no"}>${one.outcome === "answered" ? "✓" : "✗"} ${one.outcome}</td>
          <td class="tight number">${duration(one.durationMs)}</td>
        </tr>`,
      )}
    </tbody>
  </table></div>`;
}
