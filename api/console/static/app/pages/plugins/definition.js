// @ts-check
// A feature as it is registered.

/** What a registered feature shows that no registration takes. */
const SHOWN_ONLY = ["owner", "createdAt", "updatedAt"];
const SHOWN_OF_PLUGINS = ["key", "feature", "owner", "enabled", "sequence", "effectiveJobSelector", "createdAt", "updatedAt"];

/** The registration that would make a feature what it is. @param {Record<string, any>} feature */
export function definitionOf(feature) {
  return { ...without(feature, SHOWN_ONLY), plugins: feature.plugins.map((/** @type {any} */ plugin) => without(plugin, SHOWN_OF_PLUGINS)) };
}

/** @param {Record<string, any>} object @param {string[]} names */
const without = (object, names) =>
  Object.fromEntries(Object.entries(object).filter(([name, value]) => !names.includes(name) && value !== null && value !== ""));

/** What the form begins with. */
export const EXAMPLE = {
  name: "quota",
  author: "platform",
  description: "Lets nobody run more than their share.",
  enabled: false,
  jobSelector: { conditions: [{ name: "batch", key: "type", expect: "batch" }], expression: "batch" },
  plugins: [{ pluginType: "AccessGate", callAddress: "http://quota.plugins.svc/gate", resume: "approver" }],
};
