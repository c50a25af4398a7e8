// @ts-check
// Requests to the REST API, by the cookie of the session. Paths are those of the API's document, such as "/v1/job/list".
import { signal } from "./lib.js";

/** The prefix of all paths, where a proxy serves the console below one. */
export const ROOT = document.documentElement.dataset.root ?? "";

/** Set when the API no longer knows the session: the page asks to sign in again. */
export const signedOut = signal(false);

/** Whether the last request reached the API. */
export const reachable = signal(true);

/** What the API answered in place of a payload; `message` is its sentence. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 when there was no answer
   * @param {string} code
   * @param {string} message
   * @param {Record<string, string[]>} [errors] what is wrong with which field of the body, by its path
   */
  constructor(status, code, message, errors = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.errors = errors;
  }
}

/** No answer, too many requests, and a service that is away or overloaded. */
const PASSING = new Set([0, 429, 502, 503, 504]);
const ASK_AGAIN_MS = 2000;

/** Whether asking again may help. @param {ApiError} error */
export const mayPass = (error) => PASSING.has(error.status);

/** Call a function in a while, unless that was aborted meanwhile; not while the tab is hidden. @param {() => unknown} act @param {AbortSignal} signal */
export function inAWhile(act, signal) {
  setTimeout(() => {
    if (signal.aborted) return;
    if (document.hidden) inAWhile(act, signal);
    else act();
  }, ASK_AGAIN_MS);
}

/** @param {unknown} error */
export const wasAborted = (error) => error instanceof DOMException && error.name === "AbortError";

/**
 * @typedef {object} Options
 * @property {unknown} [body] sent as JSON
 * @property {Record<string, string | number | boolean | undefined | null>} [query] what is empty is left out
 * @property {AbortSignal} [signal]
 */

/**
 * The answer to a request, whatever its status. Throws ApiError when there is none.
 *
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 */
export async function ask(method, path, { body, query, signal: abort } = {}) {
  const headers = new Headers({ Accept: "application/json", "X-Pipeline-Console": "1" });
  if (body !== undefined) headers.set("Content-Type", "application/json");
  let response;
  try {
    response = await fetch(ROOT + path + queryText(query), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: abort,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (wasAborted(error)) throw error;
    reachable.value = false;
    throw new ApiError(0, "", "");
  }
  // A proxy answers so while the API is away.
  reachable.value = response.status !== 502 && response.status !== 504;
  if (response.status === 401 && path !== "/v1/session") signedOut.value = true;
  return response;
}

/**
 * The payload of an answer, and its headers. Throws ApiError unless the request succeeded.
 *
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<{ payload: any, headers: Headers }>}
 */
export async function call(method, path, options) {
  const response = await ask(method, path, options);
  const answer = await response.json().catch((error) => {
    if (wasAborted(error)) throw error;
    // What was cut off is no answer; a proxy's refusal is no JSON.
    if (response.ok) throw new ApiError(0, "", "");
    return {};
  });
  if (!response.ok) throw new ApiError(response.status, answer.code ?? "", answer.msg ?? response.statusText, answer.errors);
  return { payload: answer.payload, headers: response.headers };
}

/**
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
export const get = async (path, options) => (await call("GET", path, options)).payload;

/**
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export const put = async (path, body) => (await call("PUT", path, { body })).payload;

/**
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export const post = async (path, body) => (await call("POST", path, { body })).payload;

/** @param {Options["query"]} query */
function queryText(query) {
  const entries = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return entries.length ? "?" + new URLSearchParams(entries.map(([name, value]) => [name, String(value)])) : "";
}
