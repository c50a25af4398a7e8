// @ts-check
// The frame: the bar at the top, the banner, and the page that the address is of.
import { html, useErrorBoundary } from "./lib.js";
import { useModule } from "./module.js";
import { find } from "./pages.js";
import { path } from "./router.js";
import { self } from "./session.js";
import { t } from "./messages.js";
import { AwayBanner } from "./components/away.js";
import { Bar } from "./components/bar.js";
import { Link } from "./components/link.js";
import { SignIn } from "./components/sign-in.js";
import { Loading, Notice } from "./components/notice.js";

export function App() {
  const who = self.value;
  if (who === undefined) return html`<${AwayBanner} /><${Loading} />`;
  if (who === null) return find(path.value) ? html`<${SignIn} />` : html`<main><${NoPage} /></main>`;
  return html`
    <a class="skip" href="#main">${t("skip")}</a>
    <${Bar} />
    <${AwayBanner} />
    <main id="main" tabindex="-1"><${Current} /></main>
  `;
}

function Current() {
  const found = find(path.value);
  if (!found) return html`<${NoPage} />`;
  return html`<${Loaded} key=${found.page.path.source} page=${found.page} parameters=${found.parameters} />`;
}

const NoPage = () => html`<${Notice} title=${t("noPage")}><${Link} to="/">${t("home")}<//><//>`;

/** @param {{ page: import("./pages.js").PageEntry, parameters: Record<string, string> }} props */
function Loaded({ page, parameters }) {
  const { module, failed } = useModule(page);
  const [broken] = useErrorBoundary((error) => reportError(error));
  if (failed || broken) return html`<${Notice} tone="bad" title=${t(failed ? "notLoaded" : "broken")} action=${t("reload")} onAction=${() => location.reload()} />`;
  if (!module) return html`<${Loading} />`;
  return html`<${module.Page} ...${parameters} key=${Object.values(parameters).join("/")} />`;
}
