// @ts-check
// One job: what was decided about it by whom, its TaskSet, replicas, logs, events and deliveries; and what can be done with it.
import { html, useEffect, useState } from "../lib.js";
import { get } from "../client.js";
import { useResource } from "../resource.js";
import { style } from "../styles.js";
import { ErrorNotice, Loading } from "../components/notice.js";
import { Head } from "./job/head.js";
import { Rail } from "./job/rail.js";
import { Logs } from "./job/logs.js";
import { Replicas } from "./job/replicas.js";
import { TaskSet } from "./job/taskset.js";
import { Events } from "./job/events.js";

await style("job.css");

/** @typedef {import("../../../types/openapi").components["schemas"]["Detail"]} Detail */

const LIVE_STATES = new Set(["waiting", "suspended", "running"]);
/** What replicas do is in no event: it is read again as long as the job runs. */
const REPLICAS_MS = 3000;

/** @param {{ id: string }} props */
export function Page({ id }) {
  const of = encodeURIComponent(id);
  /** @param {import("../live.js").FeedEvent} event */
  const concerns = (event) => event.jobID === id;
  const detail = useResource(
    /** @returns {Promise<Detail>} */ (signal) => get(`/v1/job/detail/${of}`, { signal }),
    [id],
    concerns,
  );
  const trail = useResource((signal) => get(`/v1/job/trail/${of}`, { signal }), [id], concerns);
  const [chosen, setChosen] = useState(/** @type {{ task: string, replica: number } | null} */ (null));
  const { data, error } = detail.state.value;
  const running = data?.job.state === "running";
  useEffect(() => {
    document.title = `${data?.job.name ?? id} · Pipeline`;
  }, [data?.job.name]);
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => document.hidden || detail.reload(), REPLICAS_MS);
    return () => clearInterval(timer);
  }, [running, detail]);

  if (!data && !error) return html`<${Loading} />`;
  if (!data) return html`<${ErrorNotice} error=${error} onRetry=${detail.reload} />`;
  return html`
    <${Head} detail=${data} onChange=${() => (detail.reload(), trail.reload())} />
    <${ErrorNotice} error=${error} onRetry=${detail.reload} />
    <div class="job-columns">
      <div>
        <${Rail} id=${id} job=${data.job} trail=${trail} />
        <${Events} id=${id} />
      </div>
      <div>
        <${Replicas} tasks=${data.tasks} chosen=${chosen} onChoose=${setChosen} />
        ${data.platformSpecificInfo && html`<${Logs} id=${id} live=${LIVE_STATES.has(data.job.state)} chosen=${chosen} onChoose=${setChosen} tasks=${data.tasks} />`}
        <${TaskSet} id=${id} stage=${data.job.stage} />
      </div>
    </div>
  `;
}
