// @ts-check
// A flow's document: what is wrong stands at its line while it is written, and beside it how the tasks are connected.
import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { ApiError, get, inAWhile, mayPass, post, put } from "../client.js";
import { lineAt, offsets, steps } from "../json-lines.js";
import { go, href, query } from "../router.js";
import { may } from "../session.js";
import { style } from "../styles.js";
import { CodeArea } from "../components/code-area.js";
import { mostOf } from "../components/groups.js";
import { Graph } from "../components/graph.js";
import { ErrorNotice } from "../components/notice.js";
import { nodesOf } from "./flow/nodes.js";
import { useResource } from "../resource.js";
import { t } from "./editor/messages.js";

await style("flows.css");

/** @typedef {import("../../../types/openapi").components["schemas"]["FlowCheck"]} Check */
/** @typedef {{ value: any, error: { line: number, text: string } | null, line: (path: string) => number }} Document line: of a path of the API's, or of the nearest thing around it */

const PAUSE_MS = 400;
const SHOWN = 50;
const EXAMPLE = {
  pipeline: { name: "my-flow", describe: "", dag_json: { load: {}, report: { upstream: ["load"] } }, global_env: "DAY={{execution_date[:10]}}" },
  tasks: [
    { job_templete: "customize", name: "load", args: { images: "busybox", command: "echo -n {{DAY}} > /output" } },
    { job_templete: "customize", name: "report", env: "LOADED={{load.output}}", args: { images: "busybox", command: 'echo "$LOADED"' } },
  ],
};

/** @param {{ name?: string }} props without a name: of a new flow */
export function Page({ name }) {
  const stored = useResource(async (signal) => (name ? get(`/v1/flows/${encodeURIComponent(name)}`, { signal }) : EXAMPLE), [name]);
  const { data, error } = stored.state.value;
  if (!data) return html`<${ErrorNotice} error=${error} onRetry=${stored.reload} />`;
  return html`<${Editor} name=${name} stored=${data} />`;
}

/** @param {{ name: string | undefined, stored: any }} props */
function Editor({ name, stored }) {
  const [text, setText] = useState(() => JSON.stringify(stored, null, 2));
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  const [saving, setSaving] = useState(false);
  const [jump, setJump] = useState(/** @type {{ line: number } | null} */ (null));
  const read = useMemo(() => readDocument(text), [text]);
  const { check, checked } = useCheck(text, read, setError);
  const marks = marksOf(read, check);
  const changed = text !== JSON.stringify(stored, null, 2);
  useEffect(() => void (document.title = `${name ?? t("newFlow")} · ${t("edit")} · Pipeline`), [name]);
  useEffect(() => {
    const task = query.peek().get("task");
    const index = stored.tasks.findIndex((/** @type {any} */ one) => one.name === task);
    if (index >= 0) setJump({ line: read.line(`tasks[${index}]`) });
  }, []);
  useEffect(() => {
    if (!changed) return;
    /** @param {BeforeUnloadEvent} event */
    const leave = (event) => event.preventDefault();
    addEventListener("beforeunload", leave);
    return () => removeEventListener("beforeunload", leave);
  }, [changed]);

  async function save() {
    if (saving || !read.value) return;
    setSaving(true);
    try {
      const saved = name ?? (await post("/v1/flows", read.value)).name;
      if (name) await put(`/v1/flows/${encodeURIComponent(name)}`, read.value);
      go(href(`/flows/${encodeURIComponent(saved)}`));
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
      setSaving(false);
    }
  }

  const savable = checked && check?.valid && !read.error;
  return html`
    <div class="page-head">
      <h1>${name ? t("editTitle", { name }) : t("newFlow")}</h1>
      <span role="status" class=${marks.length ? "bad-text" : savable ? "good-text" : "muted"}>${status(marks.length, Boolean(savable))}</span>
      <div class="actions">
        <button type="button" onClick=${() => setText(JSON.stringify(stored, null, 2))} disabled=${!changed}>${t("revert")}</button>
        <button type="button" class="primary" aria-disabled=${saving} disabled=${!savable || !may("write_job") || (Boolean(name) && !changed)} onClick=${save}>${t(name ? "save" : "create")}</button>
      </div>
    </div>
    <${ErrorNotice} error=${error} />
    <div class="editor">
      <section class="panel">
        <${CodeArea} id="document" label=${t("document")} value=${text} onInput=${setText} marks=${marks} jump=${jump} readOnly=${!may("write_job")} />
      </section>
      <div>
        ${marks.length > 0 &&
        html`<section class="callout callout-bad" aria-label=${t("errors")}><ul class="marks">
          ${marks.slice(0, SHOWN).map(({ line, path, text: why }) => html`<li key=${`${path} ${why}`}><button type="button" class="link number" onClick=${() => setJump({ line })}>${t("line", { line })}</button> <span>${path && html`<code>${path}</code> `}${why}</span></li>`)}
          ${marks.length > SHOWN && html`<li class="muted">+${marks.length - SHOWN}</li>`}
        </ul></section>`}
        ${check?.layout && read.value && html`<section class="panel"><header><h2>${t("graph")}</h2></header><${Graph} key=${check.layout.tasks} nodes=${nodesOf(read.value)} layers=${check.layout.layers} label=${t("graph")} onChoose=${(/** @type {string} */ task) => setJump({ line: lineOfTask(read, task) })} /></section>`}
      </div>
    </div>
  `;
}

/** @param {string} text @returns {Document} */
function readDocument(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    // Browsers name the line or the position, each in its own words.
    const line = /line (\d+)/.exec(message)?.[1];
    const position = /position (\d+)/.exec(message)?.[1] ?? text.length;
    return { value, error: { line: line ? Number(line) : lineAt(text, Number(position)), text: message }, line: () => 1 };
  }
  const found = offsets(text);
  return {
    value,
    error: null,
    line(path) {
      let parts = steps(path);
      while (parts.length && !found.has(parts.join("\0"))) parts = parts.slice(0, -1);
      return lineAt(text, found.get(parts.join("\0")) ?? 0);
    },
  };
}

/** Ask the API what is wrong, once writing pauses. @param {string} text @param {Document} read @param {(error: ApiError | null) => void} onError */
function useCheck(text, read, onError) {
  const [found, setFound] = useState(/** @type {{ check: Check | null, text: string }} */ ({ check: null, text: "" }));
  const first = useRef(true);
  useEffect(() => {
    if (read.error || !may("write_job")) return;
    const over = new AbortController();
    const { signal } = over;
    async function ask() {
      try {
        const check = await post(`/v1/flows/check?most=${mostOf(read.value?.tasks?.length ?? 0)}`, read.value);
        if (signal.aborted) return;
        setFound({ check, text });
        onError(null);
      } catch (failure) {
        if (signal.aborted) return;
        if (!(failure instanceof ApiError)) throw failure;
        onError(failure);
        if (mayPass(failure)) inAWhile(ask, signal);
      }
    }
    const timer = setTimeout(ask, first.current ? 0 : PAUSE_MS);
    first.current = false;
    return () => (over.abort(), clearTimeout(timer));
  }, [text]);
  return { check: found.check, checked: found.text === text };
}

/** @param {Document} read @param {Check | null} check @returns {import("../components/code-area.js").Mark[]} */
function marksOf(read, check) {
  if (read.error) return [{ line: read.error.line, path: "", text: read.error.text }];
  const found = Object.entries(check?.errors ?? {}).flatMap(([path, texts]) => texts.map((text) => ({ line: read.line(path), path, text })));
  return found.sort((one, other) => one.line - other.line);
}

/** @param {Document} read @param {string} task */
function lineOfTask(read, task) {
  const index = read.value?.tasks?.findIndex((/** @type {any} */ one) => one?.name === task) ?? -1;
  return read.line(`tasks[${index}]`);
}

/** @param {number} wrong @param {boolean} valid */
const status = (wrong, valid) => (wrong ? t("wrong", { count: wrong }) : valid ? t("valid") : t("checking"));
