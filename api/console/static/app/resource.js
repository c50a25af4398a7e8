// @ts-check
// What a page reads of the API, and reads anew when an event concerns it. The old value stays until the new one is there.
import { signal, useEffect, useMemo } from "./lib.js";
import { ApiError, mayPass } from "./client.js";
import { onEvents, renewed } from "./live.js";

/** @typedef {import("./live.js").FeedEvent} FeedEvent */

/** How soon something is read again after an event. */
const SOON_MS = 200;
/** While events keep coming, or reading fails, it is read no more often than this. */
const EVERY_MS = 2000;

/**
 * @template T
 * @typedef {object} Resource
 * @property {import("../vendor/signals.js").Signal<{ data: T | undefined, error: ApiError | null, loading: boolean }>} state
 * @property {() => void} reload
 */

/**
 * Read something for as long as the component is shown.
 *
 * @template T
 * @param {(abort: AbortSignal) => Promise<T>} load
 * @param {unknown[]} keys what it depends on: with other keys it is another thing, read at once
 * @param {(event: FeedEvent) => boolean} [concerns] whether it has to be read anew after an event; without it, it never is
 * @returns {Resource<T>}
 */
export function useResource(load, keys, concerns) {
  const resource = useMemo(() => new Reader(load), keys);
  useEffect(() => {
    resource.reload();
    let first = true;
    const ends = [
      () => resource.end(),
      onEvents((events) => concerns && events.some(concerns) && resource.later()),
      renewed.subscribe(() => (first ? (first = false) : resource.later())),
    ];
    return () => ends.forEach((end) => end());
  }, [resource]);
  return resource;
}

/** An answer that has another form than the page expects. @param {unknown} thrown */
function unforeseen(thrown) {
  reportError(thrown);
  return new ApiError(-1, "", String(thrown));
}

/** @template T */
class Reader {
  /** @param {(abort: AbortSignal) => Promise<T>} load */
  constructor(load) {
    this.load = load;
    /** @type {Resource<T>["state"]} */
    this.state = signal({ data: undefined, error: null, loading: true });
    /** @type {AbortController | null} */
    this.reading = null;
    this.again = false;
    this.readAt = 0;
    this.timer = 0;
    this.reload = this.reload.bind(this);
  }

  /** Read now. */
  async reload() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.reading) {
      this.again = true;
      return;
    }
    const abort = (this.reading = new AbortController());
    this.readAt = Date.now();
    this.again = false;
    try {
      const data = await this.load(abort.signal);
      if (!abort.signal.aborted) this.state.value = { data, error: null, loading: false };
    } catch (thrown) {
      if (abort.signal.aborted) return;
      const error = thrown instanceof ApiError ? thrown : unforeseen(thrown);
      this.state.value = { ...this.state.peek(), error, loading: false };
      this.again ||= mayPass(error);
    } finally {
      if (this.reading === abort) this.reading = null;
    }
    if (this.again && !abort.signal.aborted) this.later();
  }

  /** Read soon, once for all that happens meanwhile. A hidden tab reads when it is shown again. */
  later() {
    if (this.timer || document.hidden || !this.readAt) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      // It may have been hidden since.
      if (!document.hidden) this.reload();
    }, Math.max(SOON_MS, this.readAt + EVERY_MS - Date.now()));
  }

  end() {
    clearTimeout(this.timer);
    this.reading?.abort();
    this.reading = null;
  }
}
