// @ts-check
// The style of a page, loaded with its module: `await style("job.css")` at its top.

/** @param {string} name a file of `style/` @returns {Promise<void>} once the browser has it */
export function style(name) {
  return new Promise((resolve, reject) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL(`../style/${name}`, import.meta.url).href;
    link.onload = () => resolve();
    link.onerror = () => reject(new Error(name));
    document.head.append(link);
  });
}
