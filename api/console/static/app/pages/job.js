// @ts-check
import { html } from "../lib.js";
import { get } from "../client.js";
import { useResource } from "../resource.js";
import { ErrorNotice } from "../components/notice.js";

/** @param {{ id: string }} props */
export function Page({ id }) {
  const detail = useResource((signal) => get(`/v1/job/detail/${encodeURIComponent(id)}`, { signal }), [id], (event) => event.jobID === id);
  const { data, error } = detail.state.value;
  if (error && !data) return html`<${ErrorNotice} error=${error} onRetry=${detail.reload} />`;
  return data && html`<h1>${data.job.name}</h1>`;
}
