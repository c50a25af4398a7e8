// @ts-check
// Suspended jobs by their gate, and who may decide about each.

/** @typedef {import("../../../../types/openapi").components["schemas"]["JobSummary"]} Job */
/** @typedef {import("../../../../types/openapi").components["schemas"]["TokenSelf"]} Self */
/** @typedef {{ gate: string, jobs: Job[], forMe: number }} Group forMe: how many of the jobs I may resume */

/** Gates at which I may decide first, then those with the most jobs. @param {Job[]} jobs @param {Self | null | undefined} who @returns {Group[]} */
export function byGate(jobs, who) {
  /** @type {Map<string, Job[]>} */
  const groups = Map.groupBy(jobs, (job) => job.suspendedBy ?? "");
  return [...groups]
    .map(([gate, those]) => ({ gate, jobs: those, forMe: those.filter((job) => mayResume(job, who) === "").length }))
    .sort((a, b) => Number(b.forMe > 0) - Number(a.forMe > 0) || b.jobs.length - a.jobs.length || a.gate.localeCompare(b.gate));
}

/**
 * Why somebody may not resume a job; empty when they may.
 *
 * @param {Job} job
 * @param {Self | null | undefined} who
 * @returns {"" | "needsApprover" | "ownJob" | "needsWriter"}
 */
export function mayResume(job, who) {
  if (who?.admin) return "";
  if (job.resume !== "approver") return holds(who, "write_job") ? "" : "needsWriter";
  if (!holds(who, "approve_job")) return "needsApprover";
  return who?.forwho === job.userID ? "ownJob" : "";
}

/** @param {Self | null | undefined} who @param {string} privilege */
const holds = (who, privilege) => Boolean(who?.privileges.some((held) => held === privilege));

/** How often each text is there, the most frequent first. @param {string[]} texts @returns {[string, number][]} */
export function counted(texts) {
  const counts = new Map();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts].sort(([a, many], [b, more]) => more - many || a.localeCompare(b));
}
