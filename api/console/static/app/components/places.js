// @ts-check
// Where the nodes of a graph stand, in pixels before zooming.

export const NODE = { width: 170, height: 30 };
const GAP_ACROSS = 64;
const GAP_DOWN = 10;

/** @typedef {{ x: number, y: number, layer: number }} Place */
/**
 * @typedef {object} Shape
 * @property {Map<string, Place>} places
 * @property {[Place, Place][]} edges
 * @property {Map<string, string[]>} members the tasks of each group
 * @property {Map<string, string>} holder the group that a task is drawn in
 * @property {number} width
 * @property {number} height
 */

/** @param {import("./groups.js").Grouped} graph @returns {Shape} */
export function placed({ nodes, layers, members, holder }) {
  const height = Math.max(...layers.map((layer) => layer.length), 1) * (NODE.height + GAP_DOWN) - GAP_DOWN;
  /** @type {Map<string, Place>} */
  const places = new Map();
  layers.forEach((layer, index) => {
    const top = (height - (layer.length * (NODE.height + GAP_DOWN) - GAP_DOWN)) / 2;
    layer.forEach((name, row) => places.set(name, { x: index * (NODE.width + GAP_ACROSS), y: top + row * (NODE.height + GAP_DOWN), layer: index }));
  });
  /** @type {[Place, Place][]} */
  const edges = [];
  for (const { name, upstream } of nodes) {
    const to = places.get(name);
    for (const before of upstream) {
      const from = places.get(before);
      if (from && to) edges.push([from, to]);
    }
  }
  return { places, edges, members, holder, width: Math.max(1, layers.length) * (NODE.width + GAP_ACROSS) - GAP_ACROSS, height };
}
