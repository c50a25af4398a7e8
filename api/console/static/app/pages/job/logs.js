// @ts-check
// The logs: live, with search, wrapping and colours. Only the rows in view are in the document, however many there are.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../lib.js";
import { ROOT } from "../../client.js";
import { LogStream } from "./log-stream.js";
import { Rows, SHOWN, cut, plain, segments } from "./log-lines.js";
import { t } from "./messages.js";

const ROW = 18;
const AROUND = 30;
/** Chromium draws no element that is higher: beyond, rows are reached by the search alone. */
const HIGHEST = 30_000_000;
/** Lines that the search reads before it lets the browser draw. */
const AT_ONCE = 4000;

/**
 * @param {{ id: string, live: boolean, tasks: { name: string }[], chosen: { task: string, replica: number } | null, onChoose: (chosen: null) => void }} props
 */
export function Logs({ id, live, chosen, onChoose }) {
  const [wrap, setWrap] = useState(false);
  const [follow, setFollow] = useState(true);
  const [text, setText] = useState("");
  const stream = useMemo(() => new LogStream(id, chosen ?? {}, live), [id, chosen?.task, chosen?.replica]);
  useEffect(() => () => stream.end(), [stream]);
  const { version, ended, error } = stream.progress.value;
  const search = useSearch(stream, text, version);
  const download = `${ROOT}/v1/job/logs/${encodeURIComponent(id)}${chosen ? `?task=${encodeURIComponent(chosen.task)}&replica=${chosen.replica}` : ""}`;
  return html`<section class="panel logs">
    <header>
      <h2>${t("logs")}</h2>
      <span class="count">${t("lines", { count: version.toLocaleString() })}</span>
      ${chosen && html`<button type="button" onClick=${() => onChoose(null)}><span class="mono">${chosen.task}-${chosen.replica}</span> ✕<span class="unseen"> ${t("allReplicas")}</span></button>`}
      <div class="actions">
        <input type="search" aria-label=${t("find")} placeholder=${t("find")} value=${text} onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && (event.preventDefault(), search.go(event.shiftKey ? -1 : 1), setFollow(false))} />
        ${text && html`<span class="muted number" role="status">${search.hits.length ? t("found", { number: search.current + 1, count: search.hits.length }) : t("notFound")}</span>`}
        <label class="check"><input type="checkbox" checked=${wrap} onChange=${() => setWrap(!wrap)} /> ${t("wrap")}</label>
        ${!ended && html`<label class="check"><input type="checkbox" checked=${follow} onChange=${() => setFollow(!follow)} /> ${t("follow")}</label>`}
        <a class="button" href=${download} download=${`${id}.log`} data-external>${t("download")}</a>
      </div>
    </header>
    ${error && html`<p class="empty" role="status">${error}</p>`}
    ${!version && !error
      ? html`<p class="empty">${t(ended ? "noLinesEver" : "noLines")}</p>`
      : html`<${View} lines=${stream.lines} version=${version} wrap=${wrap} follow=${follow && !ended} onLeave=${() => setFollow(false)} needle=${text} target=${search.hits[search.current]} />`}
  </section>`;
}

/**
 * @param {{ lines: string[], version: number, wrap: boolean, follow: boolean, onLeave: () => void, needle: string, target: number | undefined }} props
 */
function View({ lines, version, wrap, follow, onLeave, needle, target }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const probe = useRef(/** @type {HTMLSpanElement | null} */ (null));
  const [top, setTop] = useState(0);
  const [size, setSize] = useState({ height: 400, columns: 120 });
  const pinned = useRef(0);
  const rows = useMemo(() => new Rows(wrap ? size.columns : 0), [lines, wrap, wrap && size.columns, version < 1]);
  rows.extend(lines);
  const cache = useMemo(() => new Map(), [lines]);

  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    const measure = () => {
      const width = (probe.current?.getBoundingClientRect().width ?? 80) / 10;
      const columns = Math.max(20, Math.floor((element.clientWidth - width * 8 - 28) / width));
      setSize((old) => (old.columns === columns && old.height === element.clientHeight ? old : { height: element.clientHeight, columns }));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (!follow || !box.current) return;
    pinned.current = Math.min(rows.count * ROW, HIGHEST) + 16 - size.height;
    box.current.scrollTop = box.current.scrollHeight;
  }, [version, follow, wrap, size]);
  useLayoutEffect(() => {
    if (target === undefined || !box.current) return;
    box.current.scrollTop = rows.before[target] * ROW - size.height / 2;
  }, [target, needle, wrap]);

  const first = Math.max(0, Math.floor(top / ROW) - AROUND);
  const last = Math.min(rows.count, Math.ceil((top + size.height) / ROW) + AROUND);
  const shown = [];
  for (let row = first; row < last; row++) shown.push(row);
  return html`<div
    class="log-box"
    ref=${box}
    style=${{ height: `min(${rows.count * ROW + 34}px, clamp(220px, 46vh, 560px))` }}
    tabindex="0"
    role="region"
    aria-label=${t("logText")}
    onScroll=${(/** @type {any} */ event) => {
      const at = event.currentTarget.scrollTop;
      if (follow && at < pinned.current - 2 * ROW) onLeave();
      setTop(at);
    }}
  >
    <span class="log-probe" ref=${probe} aria-hidden="true">0000000000</span>
    <div class="log-all" style=${{ height: `${Math.min(rows.count * ROW, HIGHEST)}px` }}>
      <div class="log-shown" style=${{ transform: `translateY(${first * ROW}px)` }}>
        ${shown.map((row) => {
          const { line, part } = rows.at(row);
          const pieces = piecesOf(lines, line, cache);
          const from = wrap ? part * size.columns : 0;
          const to = wrap ? from + size.columns : SHOWN;
          const left = wrap ? 0 : lengthOf(pieces) - SHOWN;
          return html`<div key=${row} class=${`log-row${line === target ? " log-target" : ""}`}>
            <span class="log-number">${part === 0 ? line + 1 : ""}</span><span class="log-text">${marked(cut(pieces, from, to), needle)}${left > 0 && html`<em> ${t("longLine", { count: left.toLocaleString() })}</em>`}</span>
          </div>`;
        })}
      </div>
    </div>
  </div>`;
}

/** @param {string[]} lines @param {number} line @param {Map<number, import("./log-lines.js").Segment[]>} cache */
function piecesOf(lines, line, cache) {
  let found = cache.get(line);
  if (!found) {
    if (cache.size > 1000) cache.clear();
    cache.set(line, (found = segments(lines[line] ?? "")));
  }
  return found;
}

/** @param {import("./log-lines.js").Segment[]} pieces */
const lengthOf = (pieces) => pieces.reduce((sum, { text }) => sum + text.length, 0);

/** Pieces with what is looked for marked. @param {import("./log-lines.js").Segment[]} pieces @param {string} needle */
function marked(pieces, needle) {
  const low = needle.toLowerCase();
  return pieces.map(({ text, colour }) => {
    const parts = [];
    let at = 0;
    if (low) {
      const lower = text.toLowerCase();
      for (let hit = lower.indexOf(low); hit >= 0; hit = lower.indexOf(low, hit + low.length)) {
        parts.push(text.slice(at, hit), html`<mark>${text.slice(hit, hit + low.length)}</mark>`);
        at = hit + low.length;
      }
    }
    parts.push(text.slice(at));
    return colour ? html`<span class=${colour}>${parts}</span>` : parts;
  });
}

/**
 * Lines in which a text stands, and which of them is looked at. It reads a part of the lines at a time.
 *
 * @param {LogStream} stream @param {string} text @param {number} version
 */
function useSearch(stream, text, version) {
  const [hits, setHits] = useState(/** @type {number[]} */ ([]));
  const [current, setCurrent] = useState(0);
  const read = useRef(0);
  useEffect(() => {
    setHits([]);
    setCurrent(0);
    read.current = 0;
  }, [stream.lines, text]);
  useEffect(() => {
    if (!text) return;
    const low = text.toLowerCase();
    let timer = 0;
    const go = () => {
      const until = Math.min(stream.lines.length, read.current + AT_ONCE);
      /** @type {number[]} */
      const found = [];
      for (; read.current < until; read.current++) if (plain(stream.lines[read.current]).toLowerCase().includes(low)) found.push(read.current);
      if (found.length) setHits((old) => [...old, ...found]);
      if (read.current < stream.lines.length) timer = window.setTimeout(go, 0);
    };
    timer = window.setTimeout(go, 120);
    return () => clearTimeout(timer);
  }, [stream.lines, text, version]);
  return { hits, current, go: (/** @type {number} */ step) => hits.length && setCurrent((current + step + hits.length) % hits.length) };
}
