// @ts-check
// Finding jobs, runs, flows and features by how their ID or name begins. `/` leads here from anywhere.
import { html, useEffect, useId, useRef, useState } from "../lib.js";
import { ApiError, get, inAWhile, mayPass, wasAborted } from "../client.js";
import { go, href } from "../router.js";
import { t } from "../messages.js";
import { StateMark } from "./state.js";

const TYPING_MS = 150;

/** @typedef {{ key: string, kind: string, to: string, name: string, id: string, state?: string }} Hit */

/** What was found, in one list. @param {Record<string, any[]>} found @returns {Hit[]} */
export function hits({ jobs, runs, flows, features }) {
  return [
    ...jobs.map((job) => ({ key: job.jobID, kind: t("jobs"), to: `/jobs/${job.jobID}`, name: job.jobName, id: job.jobID, state: job.state })),
    ...runs.map((run) => ({ key: run.runID, kind: t("runs"), to: `/runs/${run.runID}`, name: run.flow ?? "", id: run.runID, state: run.state })),
    ...flows.map((flow) => ({ key: `flow ${flow.name}`, kind: t("flows"), to: `/flows/${flow.name}`, name: flow.name, id: "" })),
    ...features.map((feature) => ({ key: `feature ${feature.name}`, kind: t("features"), to: `/features/${encodeURIComponent(feature.name)}`, name: feature.name, id: "" })),
  ];
}

export function Search() {
  const id = useId();
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [text, setText] = useState("");
  const [found, setFound] = useState(/** @type {Hit[] | null} */ (null));
  const [chosen, setChosen] = useState(0);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const press = (event) => {
      const target = event.target;
      const writing = target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable], dialog");
      if (event.key !== "/" || writing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  useEffect(() => {
    const prefix = text.trim();
    if (!prefix) return setFound(null);
    const abort = new AbortController();
    const ask = async () => {
      try {
        const answer = await get("/v1/search", { query: { prefix, limit: 6 }, signal: abort.signal });
        setFound(hits(answer));
        setChosen(0);
      } catch (error) {
        if (wasAborted(error)) return;
        if (!(error instanceof ApiError)) throw error;
        if (mayPass(error)) inAWhile(ask, abort.signal);
      }
    };
    const timer = setTimeout(ask, TYPING_MS);
    return () => (clearTimeout(timer), abort.abort());
  }, [text]);

  /** @param {Hit} hit */
  function open(hit) {
    setText("");
    field.current?.blur();
    go(href(hit.to));
  }

  /** @param {KeyboardEvent} event */
  function press(event) {
    if (event.key === "Escape") return setText("");
    if (!found?.length) return;
    if (event.key === "Enter") open(found[chosen]);
    else if (event.key === "ArrowDown") setChosen((chosen + 1) % found.length);
    else if (event.key === "ArrowUp") setChosen((chosen + found.length - 1) % found.length);
    else return;
    event.preventDefault();
  }

  return html`<div class="search" role="search">
    <input
      ref=${field}
      type="search"
      role="combobox"
      aria-label=${t("searchNote")}
      aria-expanded=${found !== null}
      aria-controls=${id}
      aria-autocomplete="list"
      aria-activedescendant=${found?.length ? `${id}-${chosen}` : undefined}
      placeholder=${t("search")}
      title=${t("searchNote")}
      autocomplete="off"
      spellcheck=${false}
      value=${text}
      onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)}
      onKeyDown=${press}
    />
    <kbd aria-hidden="true">/</kbd>
    <div class="hits" hidden=${found === null}>
      <ul id=${id} role="listbox" aria-label=${t("search")}>
        ${found?.map(
          (hit, index) => html`<li
            key=${hit.key}
            id=${`${id}-${index}`}
            role="option"
            aria-selected=${index === chosen}
            onMouseDown=${(/** @type {Event} */ event) => event.preventDefault()}
            onClick=${() => open(hit)}
          >
            <span class="muted">${hit.kind}</span>
            <span class="hit-name">${hit.name}</span>
            ${hit.id && html`<code>${hit.id}</code>`}
            ${hit.state && html`<${StateMark} state=${hit.state} quiet />`}
          </li>`,
        )}
      </ul>
      ${found?.length === 0 && html`<p role="status">${t("nothingFound", { text: text.trim() })}</p>`}
    </div>
  </div>`;
}
