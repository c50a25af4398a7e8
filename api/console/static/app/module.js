// @ts-check
// The module of a page, loaded when the page is opened.
import { ROOT } from "./client.js";
import { useEffect, useState } from "./lib.js";

const ASK_MS = 1000;
const RELOADED_AT = "pipeline.reloaded-at";
/** A document that was loaded anew so lately is not loaded anew by itself again: that did not help. */
const LATELY_MS = 60_000;

/**
 * What a page's module exports; null until it is there.
 *
 * Where it cannot be loaded, the service is away, or has files of another version, which are under another path. Both are over in a
 * new document, which is loaded as soon as the service answers. `failed`: that did not help.
 *
 * @param {import("./pages.js").PageEntry} page
 */
export function useModule(page) {
  const [module, setModule] = useState(/** @type {any} */ (null));
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    const left = new AbortController();
    page.load().then(setModule, async () => {
      while (!left.signal.aborted && !(await answers())) await new Promise((resolve) => setTimeout(resolve, ASK_MS));
      if (left.signal.aborted) return;
      if (reloadedLately()) setFailed(true);
      else {
        sessionStorage.setItem(RELOADED_AT, String(Date.now()));
        location.reload();
      }
    });
    return () => left.abort();
  }, [page]);
  return { module, failed };
}

const answers = () =>
  fetch(`${ROOT}/healthz`, { cache: "no-store" }).then(
    ({ ok }) => ok,
    () => false,
  );

const reloadedLately = () => Date.now() - Number(sessionStorage.getItem(RELOADED_AT)) < LATELY_MS;
