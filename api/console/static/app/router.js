// @ts-check
// The address: which page is open, and its filters. A page is left and entered without loading the document again.
import { computed, signal } from "./lib.js";
import { ROOT } from "./client.js";

const address = signal(location.pathname + location.search);

/** The path below the console's root, such as "/jobs/j01…". */
export const path = computed(() => {
  const whole = address.value.split("?")[0];
  const below = whole.startsWith(ROOT) ? whole.slice(ROOT.length) : whole;
  return below.replace(/\/+$/, "") || "/";
});

/** What stands after the `?`. */
export const query = computed(() => new URLSearchParams(address.value.split("?")[1] ?? ""));

/**
 * The address of a page, for links.
 *
 * @param {string} page such as "/jobs"
 * @param {Record<string, string | undefined>} [filters] what is empty is left out
 */
export function href(page, filters = {}) {
  const kept = Object.entries(filters).filter(([, value]) => value);
  const text = new URLSearchParams(/** @type {[string, string][]} */ (kept)).toString();
  return ROOT + page + (text ? `?${text}` : "");
}

/**
 * Open an address that `href` made.
 *
 * @param {string} target
 * @param {{ replace?: boolean }} [options] replace: the way back does not lead here
 */
export function go(target, { replace = false } = {}) {
  if (target === address.peek()) return;
  history[replace ? "replaceState" : "pushState"](null, "", target);
  const other = target.split("?")[0] !== address.peek().split("?")[0];
  address.value = target;
  if (other) {
    scrollTo(0, 0);
    document.querySelector("main")?.focus({ preventScroll: true });
  }
}

/** Change some of the page's filters; an empty one is removed. @param {Record<string, string>} changes */
export function setQuery(changes) {
  const next = new URLSearchParams(query.peek());
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  go(href(path.peek(), Object.fromEntries(next)), { replace: true });
}

/** Follow links to pages of the console without loading a document. */
export function start() {
  addEventListener("popstate", () => (address.value = location.pathname + location.search));
  addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || link.target || link.origin !== location.origin || link.hasAttribute("download")) return;
    if (!link.pathname.startsWith(`${ROOT}/`) || link.dataset.external !== undefined || link.hash) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
