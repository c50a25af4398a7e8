// @ts-check
// The running order of plugins of one type, and the requests that change it.

/** The types in the order of their stages. */
export const TYPES = /** @type {const} */ (["TemplateTranslator", "FactorGenerator", "AccessGate", "TemplateDecorator", "SchedulerBinder", "LifeHook"]);

/** The stage in which the plugins of a type are called; LifeHooks are called in none. @type {Record<string, string | undefined>} */
export const STAGE_OF = {
  TemplateTranslator: "translate",
  FactorGenerator: "factors",
  AccessGate: "gates",
  TemplateDecorator: "decorate",
  SchedulerBinder: "bind",
};

/** @template T @param {readonly T[]} list @param {number} from @param {number} to @returns {T[]} */
export function moved(list, from, to) {
  const next = list.toSpliced(from, 1);
  return next.toSpliced(to, 0, list[from]);
}

/**
 * Pairs of which the first is to run before the second, one request each. The API moves a plugin forward alone: one that is to run later
 * is passed by those that follow it, one by one.
 *
 * @template T
 * @param {readonly T[]} list
 * @param {number} from
 * @param {number} to
 * @returns {[T, T][]}
 */
export function movesFor(list, from, to) {
  if (to < from) return [[list[from], list[to]]];
  return list.slice(from + 1, to + 1).map((other) => [other, list[from]]);
}
