// @ts-check
// Which stored jobs a feature takes part in, by plugin: in all, by day, by kind and by user.
import { html } from "../lib.js";
import { call } from "../client.js";
import { Link } from "./link.js";
import { t } from "../messages.js";

/** @typedef {import("../../../types/openapi").components["schemas"]["FeatureWhatIf"]} FeatureWhatIf */
/** @typedef {import("../../../types/openapi").components["schemas"]["PluginWhatIf"]} PluginWhatIf */
/** @typedef {{ matched: number, gained: number, lost: number }} Change */

const DAY_SECONDS = 86_400;
const BUSY = 503;
const PAUSE_MS = 1000;

/**
 * What the API finds of the jobs of the last days. It answers one such question at a time: a refused one waits for its turn.
 *
 * @param {unknown} definition
 * @param {number} days
 * @param {AbortSignal} [signal]
 * @returns {Promise<FeatureWhatIf>}
 */
export async function whatIf(definition, days, signal) {
  const startAt = Math.floor(Date.now() / 1000) - days * DAY_SECONDS;
  for (let left = 5; ; left -= 1) {
    try {
      return (await call("POST", "/v1/features/what-if", { body: definition, query: { startAt }, signal })).payload;
    } catch (error) {
      if (!left || /** @type {any} */ (error).status !== BUSY) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

/** @param {{ found: FeatureWhatIf, comparing: boolean }} props comparing: a feature as it would be with the one that is registered */
export function WhatIf({ found, comparing }) {
  return html`<div class="what-if">
    ${found.plugins.map((plugin) => html`<${PluginPart} key=${plugin.pluginType} plugin=${plugin} jobs=${found.jobs} comparing=${comparing} />`)}
    ${!found.complete && html`<p class="muted">${t("whatIfPart", { count: found.jobs })}</p>`}
  </div>`;
}

/** @param {{ plugin: PluginWhatIf, jobs: number, comparing: boolean }} props */
function PluginPart({ plugin, jobs, comparing }) {
  const parts = /** @type {{ title: string, rows: (Change & { name: string })[] }[]} */ ([
    { title: t("byUser"), rows: plugin.byUser.map((part) => ({ ...part, name: part.userID })) },
    { title: t("byKind"), rows: plugin.byKind.map((part) => ({ ...part, name: part.kind })) },
    { title: t("byDay"), rows: plugin.byDay.map((part) => ({ ...part, name: part.day })) },
  ]);
  return html`<section class="what-if-plugin">
    <h3>${plugin.pluginType}</h3>
    <p class="what-if-sum">
      <strong class="number">${plugin.matched}</strong> ${t("ofJobs", { count: jobs })}
      ${comparing && html`<span class="gained">${t("gained", { count: plugin.gained })}</span> <span class="lost">${t("lost", { count: plugin.lost })}</span>`}
    </p>
    ${comparing && html`<${Some} title=${t("gainedJobs")} ids=${plugin.gainedJobs} /><${Some} title=${t("lostJobs")} ids=${plugin.lostJobs} />`}
    <div class="what-if-parts">${parts.map(({ title, rows }) => html`<${Bars} key=${title} title=${title} rows=${rows} comparing=${comparing} />`)}</div>
  </section>`;
}

/** @param {{ title: string, ids: string[] }} props */
function Some({ title, ids }) {
  if (!ids.length) return null;
  return html`<p class="some"><span class="muted">${title}</span> ${ids.slice(0, 5).map((id) => html`<${Link} key=${id} to=${`/jobs/${id}`}><code>${id}</code><//> `)}</p>`;
}

/** @param {{ title: string, rows: (Change & { name: string })[], comparing: boolean }} props */
function Bars({ title, rows, comparing }) {
  const shown = rows.filter((row) => row.matched || row.lost);
  if (!shown.length) return null;
  const most = Math.max(...shown.map((row) => row.matched));
  return html`<table class="bars">
    <caption>${title}</caption>
    <tbody>
      ${shown.slice(0, 14).map(
        (row) => html`<tr key=${row.name}>
          <th scope="row">${row.name}</th>
          <td class="bar-cell"><span class="bar-part" style=${{ width: `${most ? (100 * row.matched) / most : 0}%` }}></span></td>
          <td class="number tight">${row.matched}${comparing && (row.gained || row.lost) ? html` <span class="gained">+${row.gained}</span> <span class="lost">−${row.lost}</span>` : ""}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}
