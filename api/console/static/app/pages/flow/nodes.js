// @ts-check
// What a flow's document says of which task depends on which.

/** The tasks with those upstream of each. @param {any} entry a document, perhaps a wrong one @returns {import("../../components/graph.js").Node[]} */
export function nodesOf(entry) {
  /** @type {any[]} */
  const tasks = (Array.isArray(entry?.tasks) ? entry.tasks : []).filter((/** @type {any} */ task) => typeof task?.name === "string");
  const known = new Map(tasks.map(({ name }) => [identity(name), name]));
  const dag = new Map(Object.entries(entry?.pipeline?.dag_json || {}).map(([name, given]) => [identity(name), /** @type {any} */ (given)?.upstream]));
  return tasks.map(({ name }) => {
    const upstream = dag.get(identity(name));
    return { name, upstream: (Array.isArray(upstream) ? upstream : []).flatMap((before) => known.get(identity(String(before))) ?? []) };
  });
}

/** Two spellings of a name that are the same. @param {string} name */
const identity = (name) => name.toLowerCase().replaceAll("_", "-");
