// @ts-check
// Reads the logs of a job, and goes on reading as long as there may be more; after a break, from where the last cursor was.
import { signal } from "../../lib.js";
import { ApiError, ask, wasAborted } from "../../client.js";
import { Splitter } from "./log-lines.js";
import { Transcript } from "./log-transcript.js";

const RETRY_MS = 2000;

/** @typedef {{ version: number, ended: boolean, error: string }} Progress version: how many lines there are */

export class LogStream {
  /**
   * @param {string} id @param {{ task?: string, replica?: number }} of @param {boolean} follow
   */
  constructor(id, of, follow) {
    this.transcript = new Transcript();
    /** @type {import("../../../vendor/signals.js").Signal<Progress>} */
    this.progress = signal({ version: 0, ended: false, error: "" });
    this.abort = new AbortController();
    this.path = `/v1/job/logs/${encodeURIComponent(id)}`;
    this.query = { ...of, format: "json", follow: follow || undefined };
    this.frame = 0;
    this.run();
  }

  /** Another list when lines that were there are others now. */
  get lines() {
    return this.transcript.lines;
  }

  end() {
    this.abort.abort();
    cancelAnimationFrame(this.frame);
  }

  async run() {
    while (!this.abort.signal.aborted) {
      try {
        await this.read();
        this.progress.value = { version: this.lines.length, ended: true, error: "" };
        return;
      } catch (error) {
        if (this.abort.signal.aborted || wasAborted(error)) return;
        const refused = error instanceof ApiError && error.status >= 400 && error.status < 500;
        this.progress.value = { ...this.progress.peek(), ended: refused, error: error instanceof ApiError ? error.message : "" };
        if (refused) return;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  async read() {
    const response = await ask("GET", this.path, { query: { ...this.query, cursor: this.transcript.cursor }, signal: this.abort.signal });
    if (!response.ok) {
      const answer = await response.json().catch(() => ({}));
      throw new ApiError(response.status, answer.code ?? "", answer.msg ?? "");
    }
    this.transcript.rewind();
    const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
    const decoder = new TextDecoder();
    const splitter = new Splitter();
    for (;;) {
      const { done, value } = await reader.read();
      for (const record of splitter.push(decoder.decode(value, { stream: !done }))) this.transcript.add(JSON.parse(record));
      this.changed();
      if (done) break;
    }
    // An answer that is whole ends with a cursor.
    if (!this.transcript.isAtCursor) throw new ApiError(0, "", "");
    this.transcript.end();
  }

  /** Once for each frame that is drawn, however many pieces come. */
  changed() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.progress.value = { version: this.lines.length, ended: this.progress.peek().ended, error: "" };
    });
  }
}
