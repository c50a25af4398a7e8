// @ts-check
// Very many nodes are drawn as groups first: those of a layer whose names differ only in their numbers.

/** @typedef {import("./graph.js").Node} Node */
/** @typedef {{ nodes: Node[], layers: string[][], members: Map<string, string[]>, holder: Map<string, string> }} Grouped */

/** More nodes than this are drawn in groups. */
export const MOST = 1500;
/** A group is made of at least so many. */
const LEAST = 4;
/** A layer has at most so many groups; those that do not fit are one. */
const MOST_OF_A_LAYER = 40;
/** What a group is, if its members differ: the first of these that one of them is. */
const RANK = ["failed", "suspended", "running", "upstream_failed", "stopped", "waiting", "skipped", "succeeded"];

/**
 * @param {Node[]} nodes
 * @param {string[][]} layers
 * @param {ReadonlySet<string>} open groups that are drawn as their nodes
 * @returns {Grouped}
 */
export function grouped(nodes, layers, open) {
  if (nodes.length <= MOST) return { nodes, layers, members: new Map(), holder: new Map() };
  const members = new Map(layers.flatMap((layer, index) => groupsOf(layer, index)).filter(([name]) => !open.has(name)));
  const holder = new Map([...members].flatMap(([group, names]) => names.map((name) => /** @type {[string, string]} */ ([name, group]))));
  const byName = new Map(nodes.map((node) => [node.name, node]));
  /** @param {string} name */
  const drawn = (name) => holder.get(name) ?? name;
  const shown = layers.map((layer) => [...new Set(layer.map(drawn))]);
  return {
    layers: shown,
    members,
    holder,
    nodes: shown.flat().map((name) => {
      const parts = (members.get(name) ?? [name]).map((part) => /** @type {Node} */ (byName.get(part)));
      const upstream = [...new Set(parts.flatMap((part) => part.upstream.map(drawn)))];
      if (!members.has(name)) return { ...parts[0], upstream };
      return { name, upstream, state: worst(parts), note: `${stem(parts[0].name)} × ${parts.length}` };
    }),
  };
}

/** @param {string[]} layer @param {number} index @returns {[string, string[]][]} */
function groupsOf(layer, index) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const name of layer) {
    const key = stem(name);
    const names = found.get(key);
    if (names) names.push(name);
    else found.set(key, [name]);
  }
  let groups = [...found].filter(([, names]) => names.length >= LEAST);
  const single = [...found].filter(([, names]) => names.length < LEAST).flatMap(([, names]) => names);
  if (groups.length > MOST_OF_A_LAYER) {
    single.push(...groups.slice(MOST_OF_A_LAYER).flatMap(([, names]) => names));
    groups = groups.slice(0, MOST_OF_A_LAYER);
  }
  if (single.length > MOST_OF_A_LAYER) groups.push(["…", single]);
  return groups.map(([key, names]) => [`${index}/${key}`, names]);
}

/** A name with its numbers as `*`. @param {string} name */
const stem = (name) => name.replace(/\d+/g, "*");

/** @param {Node[]} parts */
const worst = (parts) => RANK.find((state) => parts.some((part) => part.state === state)) ?? parts[0]?.state;
