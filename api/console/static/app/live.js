// @ts-check
// Live updates: a long poll on the feed of events. One tab of the browser asks for all: the one that has the Web Lock. It passes
// on what it reads by a BroadcastChannel. A hidden tab asks for nothing; when it is shown again, its pages read all anew.
import { batch, effect, signal } from "./lib.js";
import { ApiError, ROOT, call, reachable, wasAborted } from "./client.js";
import { self } from "./session.js";

/** @typedef {Record<string, any> & { position: number, jobID?: string, runID?: string | null }} FeedEvent */
/** @typedef {{ state: "starting" | "live" | "away", heard: number }} Live heard: when the API last answered, in ms */

/** What pages show beside the states of jobs, too. */
const KINDS = "state,stage,run,delivery";
const WAIT_SECONDS = 20;
const LIMIT = 1000;
const RETRY_MS = 1000;
const POLL_MS = 2000;
/** An answer that takes longer than this will not come. */
const ANSWER_MS = (WAIT_SECONDS + 4) * 1000;
/** How often it is asked, while a request waits for news, whether the service is there at all, and how long that may take. */
const PULSE_MS = 2500;
const PULSE_ANSWER_MS = 2000;
const LOCK = "pipeline-feed";

/** @type {import("../vendor/signals.js").Signal<Live>} */
export const live = signal({ state: "starting", heard: 0 });

/** Grows when everything that is shown has to be read anew: events may have been missed. */
export const renewed = signal(0);

/** @type {Set<(events: FeedEvent[]) => void>} */
const readers = new Set();
const channel = new BroadcastChannel(LOCK);
/** The position up to which this tab knows all events; empty before the first answer. */
let cursor = "";
/** Set while this tab asks, or is in line for the lock. @type {AbortController | null} */
let leading = null;
let asking = false;

/**
 * Call a function with the events as they come, each once and in order. Returns what ends that.
 *
 * @param {(events: FeedEvent[]) => void} read
 */
export function onEvents(read) {
  readers.add(read);
  return () => void readers.delete(read);
}

/** Follow the feed as long as somebody has signed in and the tab is shown. */
export function start() {
  channel.addEventListener("message", ({ data }) => (data.type === "join" ? welcome() : receive(data)));
  addEventListener("visibilitychange", shown);
  setInterval(notice, 1000);
  effect(() => {
    const follow = self.value != null;
    if (follow) {
      channel.postMessage({ type: "join" });
      lead();
    } else stop();
  });
}

/** Let a tab that was opened know how it stands: the next answer may take a while. */
function welcome() {
  const { state, heard } = live.peek();
  if (asking && state === "live") channel.postMessage({ type: "answer", from: cursor, to: cursor, events: [], heard });
  else if (asking && state === "away") channel.postMessage({ type: "away" });
}

function shown() {
  if (document.hidden) return stop();
  if (self.peek() == null) return;
  renewed.value += 1;
  lead();
}

function stop() {
  leading?.abort();
  leading = null;
}

/** Ask for events, as soon as no other tab does. */
function lead() {
  if (leading || document.hidden) return;
  const abort = (leading = new AbortController());
  // Browsers offer locks to pages by HTTPS or of this machine only. Elsewhere each visible tab asks for itself.
  const begin = () => poll(abort.signal);
  const done = navigator.locks ? navigator.locks.request(LOCK, { signal: abort.signal }, begin) : begin();
  done.catch((error) => {
    if (!wasAborted(error)) throw error;
  });
}

/** @param {AbortSignal} abort */
async function poll(abort) {
  asking = true;
  try {
    await ask(abort);
  } finally {
    asking = false;
  }
}

/** @param {AbortSignal} abort */
async function ask(abort) {
  while (!abort.aborted) {
    try {
      const found = await read(abort);
      share({ type: "answer", ...found });
      if (found.pause) await pause(POLL_MS, abort);
    } catch (error) {
      if (abort.aborted) return;
      if (error instanceof ApiError && error.status === 401) return stop();
      share({ type: "away" });
      await pause(RETRY_MS, abort);
    }
  }
}

/**
 * The next events, or the present end of the feed at first. `pause`: the API has no place for one more who waits, so that it is asked
 * again later.
 *
 * @param {AbortSignal} abort
 */
async function read(abort) {
  const first = cursor === "";
  const late = new AbortController();
  const answering = live.peek().state === "live";
  const timer = setTimeout(() => late.abort(), ANSWER_MS);
  // A connection may stay open although nobody is there any more.
  const pulse = setInterval(() => {
    if (answering) fetch(`${ROOT}/healthz`, { cache: "no-store", signal: AbortSignal.timeout(PULSE_ANSWER_MS) }).catch(() => late.abort());
  }, PULSE_MS);
  const { payload, headers } = await call("GET", "/v1/events", {
    // While it was away the first answer has to come at once: it ends the banner.
    query: first ? { after: "latest" } : { after: cursor, kind: KINDS, wait: answering ? WAIT_SECONDS : undefined, limit: LIMIT },
    signal: AbortSignal.any([abort, late.signal]),
  })
    .catch((error) => {
      throw late.signal.aborted ? new ApiError(0, "", "") : error;
    })
    .finally(() => {
      clearTimeout(timer);
      clearInterval(pulse);
    });
  const next = headers.get("X-Next-Cursor") ?? cursor;
  return { from: cursor, to: next, events: /** @type {FeedEvent[]} */ (first ? [] : payload), pause: headers.has("X-Waiters-Full") };
}

/** Give this and all other tabs what the leading tab has learnt. @param {Record<string, any>} message */
function share(message) {
  channel.postMessage(message);
  receive(message);
}

/** @param {Record<string, any>} message */
function receive(message) {
  if (message.type === "away") {
    live.value = { ...live.peek(), state: "away" };
    return;
  }
  const missed = cursor !== "" && message.from !== cursor && BigInt(message.from || 0) > BigInt(cursor);
  const fresh = cursor === "" ? [] : message.events.filter((/** @type {FeedEvent} */ event) => event.position > Number(cursor));
  batch(() => {
    cursor = message.to;
    live.value = { state: "live", heard: message.heard ?? Date.now() };
    reachable.value = true;
    if (missed) renewed.value += 1;
    if (fresh.length) for (const reader of [...readers]) reader(fresh);
  });
}

/** Say so when nothing comes any more, or when another request found nobody. */
function notice() {
  const { state, heard } = live.peek();
  if (document.hidden || state !== "live") return;
  if (Date.now() - heard > ANSWER_MS + 2 * RETRY_MS) live.value = { state: "away", heard };
  else if (!reachable.peek() && leading) {
    // The poll that waits would notice only when it ends.
    stop();
    live.value = { state: "away", heard };
    lead();
  }
}

/** @param {number} ms @param {AbortSignal} abort */
function pause(ms, abort) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, undefined);
    abort.addEventListener("abort", () => (clearTimeout(timer), resolve(undefined)), { once: true });
  });
}
