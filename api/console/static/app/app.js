// @ts-check
// The frame: the bar at the top, the banner, and the page that the address is of.
import { html, useEffect, useState } from "./lib.js";
import { find } from "./pages.js";
import { path } from "./router.js";
import { self } from "./session.js";
import { t } from "./messages.js";
import { AwayBanner } from "./components/away.js";
import { Bar } from "./components/bar.js";
import { SignIn } from "./components/sign-in.js";
import { Loading, Notice } from "./components/notice.js";

export function App() {
  const who = self.value;
  if (who === undefined) return html`<${AwayBanner} />`;
  if (who === null) return html`<${SignIn} />`;
  return html`
    <a class="skip" href="#main">${t("skip")}</a>
    <${Bar} />
    <${AwayBanner} />
    <main id="main" tabindex="-1"><${Current} /></main>
  `;
}

function Current() {
  const found = find(path.value);
  if (!found) return html`<${Notice} title=${t("noPage")} />`;
  return html`<${Loaded} key=${found.page.path.source} page=${found.page} parameters=${found.parameters} />`;
}

/** @param {{ page: import("./pages.js").PageEntry, parameters: Record<string, string> }} props */
function Loaded({ page, parameters }) {
  const [module, setModule] = useState(/** @type {any} */ (null));
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    page.load().then(setModule, () => setFailed(true));
  }, [page]);
  // Files of another version are under another path: the document names those of the present one.
  if (failed) return html`<${Notice} title=${t("newVersion")} action=${t("reload")} onAction=${() => location.reload()} />`;
  if (!module) return html`<${Loading} />`;
  return html`<${module.Page} ...${parameters} key=${Object.values(parameters).join("/")} />`;
}
