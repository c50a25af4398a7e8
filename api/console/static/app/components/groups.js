// @ts-check
// The nodes of a layout of the API: tasks, and groups of tasks that are drawn as one until they are opened.

/** @typedef {import("./graph.js").Node} Node */
/** @typedef {import("../../../types/openapi").components["schemas"]["LayoutNode"]} LayoutNode */
/** @typedef {{ nodes: Node[], layers: string[][], members: Map<string, string[]>, holder: Map<string, string> }} Grouped */

/** What a group is, if its members differ: the first of these that one of them is. */
const RANK = ["failed", "suspended", "running", "upstream_failed", "not_run", "stopped", "waiting", "skipped", "succeeded"];

/** How many nodes to ask a layout for: of more tasks than can be looked at, the few that say how the flow is built. @param {number} tasks */
export const mostOf = (tasks) => (tasks > 1500 ? 150 : 1500);

/**
 * @param {Node[]} nodes the tasks
 * @param {LayoutNode[][]} layers
 * @param {ReadonlySet<string>} open groups that are drawn as their tasks
 * @returns {Grouped}
 */
export function grouped(nodes, layers, open) {
  /** @type {Map<string, string[]>} */
  const members = new Map();
  /** @type {Map<string, string>} */
  const holder = new Map();
  const names = new Map(layers.flat().map(({ name, label }) => [name, label]));
  const shown = layers.map((layer) =>
    layer.flatMap(({ name, tasks }) => {
      if (!tasks.length) return [name];
      if (open.has(name)) return tasks;
      members.set(name, tasks);
      for (const task of tasks) holder.set(task, name);
      return [name];
    }),
  );
  const byName = new Map(nodes.map((node) => [node.name, node]));
  /** @param {string} name */
  const drawn = (name) => holder.get(name) ?? name;
  return {
    layers: shown,
    members,
    holder,
    nodes: shown.flat().flatMap((name) => {
      const parts = (members.get(name) ?? [name]).flatMap((part) => byName.get(part) ?? []);
      if (!parts.length) return [];
      const upstream = [...new Set(parts.flatMap((part) => part.upstream.map(drawn)))].filter((before) => before !== name);
      if (!members.has(name)) return [{ ...parts[0], upstream }];
      return [{ name, upstream, state: worst(parts), note: names.get(name) || name }];
    }),
  };
}

/** @param {Node[]} parts */
const worst = (parts) => RANK.find((state) => parts.some((part) => part.state === state)) ?? parts[0]?.state;
