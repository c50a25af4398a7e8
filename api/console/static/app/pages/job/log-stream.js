// @ts-check
// Reads the logs of a job, and goes on reading as long as there may be more.
import { signal } from "../../lib.js";
import { ApiError, ask, wasAborted } from "../../client.js";
import { Splitter } from "./log-lines.js";

const RETRY_MS = 2000;

/** @typedef {{ version: number, ended: boolean, error: string }} Progress version: grows with the lines */

export class LogStream {
  /**
   * @param {string} id @param {{ task?: string, replica?: number }} of @param {boolean} follow
   */
  constructor(id, of, follow) {
    /** @type {string[]} */
    this.lines = [];
    /** @type {import("../../../vendor/signals.js").Signal<Progress>} */
    this.progress = signal({ version: 0, ended: false, error: "" });
    this.abort = new AbortController();
    this.path = `/v1/job/logs/${encodeURIComponent(id)}`;
    this.query = { ...of, follow: follow || undefined };
    this.frame = 0;
    this.run();
  }

  end() {
    this.abort.abort();
    cancelAnimationFrame(this.frame);
  }

  async run() {
    while (!this.abort.signal.aborted) {
      try {
        await this.read();
        this.progress.value = { ...this.progress.peek(), version: this.lines.length, ended: true, error: "" };
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
    const response = await ask("GET", this.path, { query: this.query, signal: this.abort.signal });
    if (!response.ok) {
      const answer = await response.json().catch(() => ({}));
      throw new ApiError(response.status, answer.code ?? "", answer.msg ?? "");
    }
    const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
    const decoder = new TextDecoder();
    const splitter = new Splitter();
    // The stream begins with the first line each time: after a break, those that are known are left out.
    let known = this.lines.length;
    /** @param {string[]} lines */
    const keep = (lines) => {
      this.add(lines.slice(known));
      known = Math.max(0, known - lines.length);
    };
    for (;;) {
      const { done, value } = await reader.read();
      keep(splitter.push(decoder.decode(value, { stream: !done })));
      if (done) break;
    }
    keep(splitter.end());
  }

  /** @param {string[]} lines */
  add(lines) {
    if (!lines.length) return;
    for (const line of lines) this.lines.push(line);
    // Once for each frame that is drawn, however many pieces come.
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.progress.value = { ...this.progress.peek(), version: this.lines.length };
    });
  }
}
