// @ts-check
// The layers of a DAG that the API gives no layout of: each task stands right of all that it depends on.

/** @typedef {{ name: string, upstream: string[] }} Task */

const SWEEPS = 3;

/**
 * Names in layers, each ordered by the mean place of its neighbours, so that few lines cross.
 *
 * @param {Task[]} tasks each after those upstream of it, or in any order
 * @returns {string[][]}
 */
export function layersOf(tasks) {
  const depth = depths(tasks);
  /** @type {string[][]} */
  const layers = [];
  for (const { name } of tasks) (layers[depth.get(name) ?? 0] ??= []).push(name);
  const up = new Map(tasks.map(({ name, upstream }) => [name, upstream]));
  const down = downstream(tasks);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    order(layers, up);
    if (sweep < SWEEPS - 1) order([...layers].reverse(), down);
  }
  return layers;
}

/** @param {Task[]} tasks */
export function downstream(tasks) {
  /** @type {Map<string, string[]>} */
  const found = new Map(tasks.map(({ name }) => [name, []]));
  for (const { name, upstream } of tasks) for (const before of upstream) found.get(before)?.push(name);
  return found;
}

/** The length of the longest path to each task. @param {Task[]} tasks */
function depths(tasks) {
  const after = downstream(tasks);
  const missing = new Map(tasks.map(({ name, upstream }) => [name, upstream.length]));
  const depth = new Map(tasks.map(({ name }) => [name, 0]));
  const ready = tasks.filter(({ upstream }) => !upstream.length).map(({ name }) => name);
  for (const name of ready) {
    for (const next of after.get(name) ?? []) {
      depth.set(next, Math.max(depth.get(next) ?? 0, (depth.get(name) ?? 0) + 1));
      missing.set(next, (missing.get(next) ?? 0) - 1);
      if (missing.get(next) === 0) ready.push(next);
    }
  }
  return depth;
}

/** @param {string[][]} layers @param {Map<string, string[]>} neighbours */
function order(layers, neighbours) {
  /** @type {Map<string, number>} */
  const place = new Map();
  for (const layer of layers) {
    const mean = new Map(layer.map((name, index) => [name, average(neighbours.get(name) ?? [], place) ?? index / layer.length]));
    layer.sort((one, other) => (mean.get(one) ?? 0) - (mean.get(other) ?? 0));
    layer.forEach((name, index) => place.set(name, (index + 0.5) / layer.length));
  }
}

/** @param {string[]} names @param {Map<string, number>} place */
function average(names, place) {
  let sum = 0;
  let count = 0;
  for (const name of names) {
    const found = place.get(name);
    if (found === undefined) continue;
    sum += found;
    count += 1;
  }
  return count ? sum / count : undefined;
}
