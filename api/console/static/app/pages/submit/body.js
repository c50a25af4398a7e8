// @ts-check
// The body of a submission, from a manifest and what stands beside it.

/** @typedef {{ user: string, name: string, namespace: string, header: string }} Fields */
/** @typedef {import("../../components/json-editor.js").Fault} Fault */

/**
 * A text with `job` and no `kind` is a whole submission, another is the job, as for `pipeline submit`. Fields that are filled in go before
 * what a whole submission says.
 *
 * @param {any} value
 * @param {Fields} fields
 * @param {string} self whose job it is if nothing else says so
 */
export function bodyOf(value, fields, self) {
  const whole = value !== null && typeof value === "object" && "job" in value && !("kind" in value);
  const header = headerOf(fields.header);
  const name = fields.name.trim();
  const namespace = fields.namespace.trim();
  const begun = whole ? { ...value } : { jobName: value?.metadata?.name, jobKind: value?.kind, job: value };
  return {
    whole,
    value: {
      ...begun,
      userID: fields.user.trim() || begun.userID || self,
      ...(name ? { jobName: name } : {}),
      ...(namespace ? { jobNameSpace: namespace } : {}),
      ...(Object.keys(header).length ? { header: { ...begun.header, ...header } } : {}),
    },
  };
}

/** The first line that is neither empty nor `KEY=VALUE`, if any. @param {string} text */
export const wrongLineOf = (text) => text.split("\n").find((line) => line.trim() && line.indexOf("=") < 1);

/** `KEY=VALUE` in each line. @param {string} text @returns {Record<string, string>} */
export function headerOf(text) {
  const pairs = text.split("\n").flatMap((line) => {
    const at = line.indexOf("=");
    return at > 0 ? [[line.slice(0, at).trim(), line.slice(at + 1).trim()]] : [];
  });
  return Object.fromEntries(pairs);
}

/** The first parts of paths that are of the submission; those of a TaskSet begin within it. */
const OF_THE_SUBMISSION = /^(userID|jobName|jobKind|jobNameSpace|cluster|header)\b/;

/** Faults with the paths that the text has: where it is the job alone, those within `job`. @param {Fault[]} faults @param {boolean} whole */
export function ownFaults(faults, whole) {
  return faults.map(({ path, text }) => {
    if (!whole && OF_THE_SUBMISSION.test(path)) return { path: "", text: `${path}: ${text}` };
    const within = path.replace(/^job(\.|$)/, "");
    if (whole && !OF_THE_SUBMISSION.test(path)) return { path: within ? `job.${within}` : "job", text };
    return { path: whole ? path : within, text };
  });
}
