// @ts-check
// Operations: how the service stands, deliveries, what was changed by whom, and tokens.
import { html, useEffect } from "../lib.js";
import { query } from "../router.js";
import { may, self } from "../session.js";
import { style } from "../styles.js";
import { Link } from "../components/link.js";
import { Notice } from "../components/notice.js";
import { Audit } from "./operations/audit.js";
import { Deliveries } from "./operations/deliveries.js";
import { Overview } from "./operations/overview.js";
import { Tokens } from "./operations/tokens.js";
import { t } from "./operations/messages.js";

await style("operations.css");

/** The views, and what shows each; `allowed` says whether I may see it, `needs` what that takes. */
const VIEWS = /** @type {const} */ ([
  { view: "overview", part: Overview, needs: "needsReadJob", allowed: () => may("read_job") },
  { view: "deliveries", part: Deliveries, needs: "needsReadFeature", allowed: () => may("read_feature") },
  { view: "audit", part: Audit, needs: "needsAdmin", allowed: () => Boolean(self.value?.admin) },
  { view: "tokens", part: Tokens, needs: "needsReadToken", allowed: () => may("read_token") },
]);

export function Page() {
  const asked = query.value.get("view");
  const current = VIEWS.find(({ view }) => view === asked) ?? VIEWS[0];
  useEffect(() => void (document.title = `${t(current.view)} · ${t("title")} · Pipeline`), [current]);
  return html`
    <div class="page-head">
      <h1>${t("title")}</h1>
      <nav class="chips views" aria-label=${t("title")}>
        ${VIEWS.map(({ view }) => html`<${Link} key=${view} class="button" to="/operations" filters=${{ view: view === VIEWS[0].view ? undefined : view }} aria-current=${view === current.view ? "page" : undefined}>${t(view)}<//>`)}
      </nav>
    </div>
    ${current.allowed() ? html`<${current.part} key=${current.view} />` : html`<${Notice} title=${t(current.needs)} />`}
  `;
}
