// @ts-check
// The end of a task's log.
import { html } from "../../lib.js";
import { ApiError, ask, wasAborted } from "../../client.js";
import { useResource } from "../../resource.js";
import { t } from "./messages.js";

const LINES = 12;
/** Colours and other sequences of a terminal. */
const SEQUENCES = /\u001b\[[0-9;?]*[A-Za-z]/g;

/** @param {{ run: string, task: string }} props */
export function LogTail({ run, task }) {
  const tail = useResource((signal) => read(run, task, signal), [run, task]);
  const { data, error } = tail.state.value;
  if (error) return html`<p class="muted">${error.message}</p>`;
  if (data === undefined) return html`<pre class="tail"> </pre>`;
  return data ? html`<pre class="tail" tabindex="0" role="region" aria-label=${t("lastLines")}>${data}</pre>` : html`<p class="muted">${t("noLines")}</p>`;
}

/** @param {string} run @param {string} task @param {AbortSignal} signal */
async function read(run, task, signal) {
  const response = await ask("GET", `/v1/runs/${encodeURIComponent(run)}/logs`, { query: { task, tail: LINES }, signal });
  const text = await response.text().catch((error) => {
    // What was cut off is no answer.
    throw wasAborted(error) ? error : new ApiError(0, "", "");
  });
  if (response.ok) return text.replace(SEQUENCES, "").trimEnd();
  let message = response.statusText;
  try {
    message = JSON.parse(text).msg ?? message;
  } catch {
    // A proxy's page.
  }
  throw new ApiError(response.status, "", message);
}
