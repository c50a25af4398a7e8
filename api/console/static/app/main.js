// @ts-check
// The entry: starts what runs all the time, and draws the page.
import { effect, html, render } from "./lib.js";
import { App } from "./app.js";
import * as clock from "./clock.js";
import * as live from "./live.js";
import * as router from "./router.js";
import { language } from "./i18n.js";
import { load } from "./session.js";
import { signedOut } from "./client.js";
import { self } from "./session.js";

effect(() => {
  document.documentElement.lang = language.value === "zh" ? "zh-Hans" : "en";
});
// A session that has ended, or whose token was revoked: back to signing in.
effect(() => {
  if (signedOut.value) self.value = null;
});
router.start();
clock.start();
live.start();
begin();
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));

function begin() {
  load().catch(() => setTimeout(begin, 1000));
}
