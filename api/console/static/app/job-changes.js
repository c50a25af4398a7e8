// @ts-check
// Stopping and resuming several jobs at once: each by its own request, so that one that is refused holds up no other.
import { ApiError, put } from "./client.js";
import { t } from "./messages.js";

/** @typedef {{ jobID: string, jobName: string, suspendedBy?: string | null }} Named */

/**
 * What makes the change to all these jobs, given the reason. It throws ApiError with the sentences of those that were refused; called
 * again, it leaves out the jobs that it has changed already.
 *
 * @param {"stop" | "resume"} action
 * @param {readonly Named[]} jobs
 */
export function changeOf(action, jobs) {
  /** @type {Set<string>} */
  const done = new Set();
  return async (/** @type {string} */ reason) => {
    const left = jobs.filter((job) => !done.has(job.jobID));
    const answers = await Promise.allSettled(left.map((job) => change(action, job, reason)));
    /** @type {{ job: Named, error: ApiError }[]} */
    const refused = [];
    answers.forEach((answer, index) => {
      if (answer.status === "fulfilled") done.add(left[index].jobID);
      else if (answer.reason instanceof ApiError) refused.push({ job: left[index], error: answer.reason });
      else throw answer.reason;
    });
    if (!refused.length) return;
    const [{ job, error }] = refused;
    const text = error.message || t("noAnswer");
    throw new ApiError(error.status, error.code, jobs.length === 1 ? text : t("refused", { count: refused.length, of: left.length, name: job.jobName, text }));
  };
}

/** A resume names the gate: a job that waits at another one by now is not let past that. @param {string} action @param {Named} job @param {string} reason */
function change(action, job, reason) {
  const gate = action === "resume" && job.suspendedBy ? { gate: job.suspendedBy } : {};
  return put(`/v1/job/${action}/${encodeURIComponent(job.jobID)}`, { reason, ...gate });
}
