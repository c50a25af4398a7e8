// @ts-check
// The TaskSet with blame: who put each line there, and a slider that shows the TaskSet after each change.
import { html, useMemo, useState } from "../../lib.js";
import { get } from "../../client.js";
import { useResource } from "../../resource.js";
import { ErrorNotice } from "../../components/notice.js";
import { authored, linesOf, patched } from "./blame.js";
import { t } from "./messages.js";

/** @typedef {import("./blame.js").Node} Node */
/** @typedef {{ stage: string | null, plugin: string, at: string | null, patch: import("./blame.js").Operation[] }} Change */

/** At most so many lines are drawn before more are asked for. */
const LINES = 1500;
const HUES = 6;

/** @param {{ id: string, stage: string }} props stage: what the job has come to, since the TaskSet changes with it */
export function TaskSet({ id, stage }) {
  const blame = useResource((signal) => get(`/v1/job/blame/${encodeURIComponent(id)}`, { signal }), [id, stage]);
  const { data, error } = blame.state.value;
  const versions = useMemo(() => (data ? versionsOf(data) : []), [data]);
  return html`<section class="panel taskset">
    <header><h2>${t("taskset")}</h2></header>
    <${ErrorNotice} error=${error} onRetry=${blame.reload} />
    ${data && !versions.length && html`<p class="empty">${t("noTaskset")}</p>`}
    ${versions.length > 0 && html`<${Blame} versions=${versions} />`}
  </section>`;
}

/** @typedef {{ author: string, stage: string, document: Node }} Version */

/**
 * The TaskSet after each change. The author of a part is the index of its version.
 *
 * @param {{ first: any, changes: Change[] }} blame @returns {Version[]}
 */
export function versionsOf({ first, changes }) {
  /** @type {Version[]} */
  const versions = first ? [{ author: t("submitter"), stage: "", document: authored(first, 0) }] : [];
  for (const { stage, plugin, patch } of changes) {
    const document = patched(versions.at(-1)?.document ?? null, patch, versions.length);
    versions.push({ author: plugin || t("service"), stage: stage ?? "", document });
  }
  return versions;
}

/** @param {{ versions: Version[] }} props */
function Blame({ versions }) {
  const [chosen, setChosen] = useState(/** @type {number | null} */ (null));
  const [added, setAdded] = useState(false);
  const [shown, setShown] = useState(LINES);
  const at = Math.min(chosen ?? versions.length - 1, versions.length - 1);
  const version = versions[at];
  const lines = useMemo(() => linesOf(version.document), [version]);
  const kept = added ? lines.filter((line) => line.author === at) : lines;
  let before = -1;
  return html`
    <div class="versions">
      <label for="version">${t("after")}</label>
      <input id="version" type="range" min="0" max=${versions.length - 1} step="1" value=${at} disabled=${versions.length < 2} aria-valuetext=${version.author} onInput=${(/** @type {any} */ event) => setChosen(Number(event.currentTarget.value))} />
      <output for="version"><span class="plugin">${version.author}</span>${version.stage && html` <span class="muted">${version.stage}</span>`}</output>
      <label class="check"><input type="checkbox" checked=${added} onChange=${() => setAdded(!added)} /> ${t("changesOnly")}</label>
    </div>
    <div class="blame" tabindex="0" role="region" aria-label=${t("taskset")}>
      <table>
        <thead class="unseen"><tr><th>${t("blame")}</th><th>${t("taskset")}</th></tr></thead>
        <tbody>
          ${kept.slice(0, shown).map((line) => {
            const again = line.author === before;
            before = line.author;
            const { author } = versions[line.author];
            return html`<tr key=${line.key} class=${line.author === at && at > 0 ? "fresh" : ""}>
              <td class=${`author author-${line.author % HUES}`} title=${author}><span class=${again ? "unseen" : ""}>${author}</span></td>
              <td class="line"><span style=${{ paddingLeft: `${line.depth * 2}ch` }}><b>${line.name}</b>${line.text}</span></td>
            </tr>`;
          })}
        </tbody>
      </table>
      ${kept.length > shown && html`<p class="more"><button type="button" class="link" onClick=${() => setShown(shown + LINES)}>${t("ofReplicas", { count: shown, total: kept.length })}</button></p>`}
    </div>
  `;
}
