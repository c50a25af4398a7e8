// @ts-check
// The pages of the console. A page's module is loaded when it is opened, and exports `Page`, a component that is given the
// parameters of the path. To add one: a line here, its first path segment in api/console/pages.py, and its module in pages/.

/**
 * @typedef {object} PageEntry
 * @property {RegExp} path its groups are the parameters
 * @property {"home" | "jobs" | "decisions" | "flows" | "plugins" | "operations" | "submit" | null} nav the key of its name in the navigation bar; null: it has no place there
 * @property {string} link where the navigation leads
 * @property {() => Promise<{ Page: (parameters: any) => any }>} load
 */

/** @type {PageEntry[]} */
export const PAGES = [
  { path: /^\/$/, nav: "home", link: "/", load: () => import("./pages/home.js") },
  { path: /^\/jobs$/, nav: "jobs", link: "/jobs", load: () => import("./pages/jobs.js") },
  { path: /^\/decisions$/, nav: "decisions", link: "/decisions", load: () => import("./pages/decisions.js") },
  { path: /^\/submit$/, nav: "submit", link: "/submit", load: () => import("./pages/submit.js") },
  { path: /^\/plugins$/, nav: "plugins", link: "/plugins", load: () => import("./pages/plugins.js") },
  { path: /^\/plugins\/register$/, nav: null, link: "/plugins", load: () => import("./pages/feature-form.js") },
  { path: /^\/features\/(?<name>[^/]+)$/, nav: null, link: "/plugins", load: () => import("./pages/feature.js") },
  { path: /^\/features\/(?<name>[^/]+)\/replace$/, nav: null, link: "/plugins", load: () => import("./pages/feature-form.js") },
  { path: /^\/operations$/, nav: "operations", link: "/operations", load: () => import("./pages/operations.js") },
  { path: /^\/jobs\/(?<id>[^/]+)$/, nav: null, link: "/jobs", load: () => import("./pages/job.js") },
  { path: /^\/flows$/, nav: "flows", link: "/flows", load: () => import("./pages/flows.js") },
  // No flow can have this name.
  { path: /^\/flows\/import$/, nav: null, link: "/flows", load: () => import("./pages/editor.js") },
  { path: /^\/flows\/(?<name>[^/]+)$/, nav: null, link: "/flows", load: () => import("./pages/flow.js") },
  { path: /^\/flows\/(?<name>[^/]+)\/edit$/, nav: null, link: "/flows", load: () => import("./pages/editor.js") },
  { path: /^\/templates$/, nav: null, link: "/flows", load: () => import("./pages/templates.js") },
  { path: /^\/runs\/(?<id>[^/]+)$/, nav: null, link: "/flows", load: () => import("./pages/run.js") },
];

/** The page that a path is of, with the parameters in it. @param {string} path */
export function find(path) {
  try {
    return match(path);
  } catch (error) {
    // A part of the path that is no percent encoding.
    if (error instanceof URIError) return null;
    throw error;
  }
}

/** @param {string} path */
function match(path) {
  for (const page of PAGES) {
    const found = page.path.exec(path);
    if (found) {
      const values = Object.entries(found.groups ?? {}).map(([name, value]) => [name, decodeURIComponent(value)]);
      return { page, parameters: Object.fromEntries(values) };
    }
  }
  return null;
}
