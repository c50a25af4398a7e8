// @ts-check
// The bar at the top: pages, search, whether what is shown is of now, and who has signed in.
import { html, useEffect, useRef } from "../lib.js";
import { timeOfDay } from "../clock.js";
import { live } from "../live.js";
import { PAGES, find } from "../pages.js";
import { path } from "../router.js";
import { self, signOut } from "../session.js";
import { t } from "../messages.js";
import { LanguageChoice } from "./language.js";
import { Link } from "./link.js";
import { Search } from "./search.js";

export function Bar() {
  const current = find(path.value)?.page.link;
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  // On a narrow screen the entries of the navigation are more than fit.
  useEffect(() => nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [current]);
  return html`<header class="bar">
    <${Link} class="brand" to="/"><img src=${new URL("../../icon.svg", import.meta.url).href} alt="" width="22" height="22" /><span>Pipeline</span><//>
    <nav ref=${nav} aria-label=${t("navigation")}>
      ${PAGES.map(
        ({ nav, link }) => nav && html`<${Link} key=${nav} to=${link} aria-current=${link === current ? "page" : undefined}>${t(nav)}<//>`,
      )}
    </nav>
    <${Search} />
    <${LiveMark} />
    <${LanguageChoice} />
    <span class="who" title=${self.value?.privileges.join(", ")}>${self.value?.forwho}</span>
    <button type="button" class="plain" onClick=${signOut}>${t("signOut")}</button>
  </header>`;
}

function LiveMark() {
  const { state, heard } = live.value;
  const title = heard ? t("heard", { time: timeOfDay(new Date(heard).toISOString()) }) : undefined;
  const text = { live: t("live"), away: t("awayShort"), starting: t("starting") }[state];
  return html`<span class="live live-${state}" title=${title}><i aria-hidden="true"></i>${text}</span>`;
}
