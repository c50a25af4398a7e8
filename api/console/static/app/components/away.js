// @ts-check
// The banner that says that nothing comes any more.
import { html } from "../lib.js";
import { reachable } from "../client.js";
import { timeOfDay } from "../clock.js";
import { live } from "../live.js";
import { self } from "../session.js";
import { t } from "../messages.js";

export function AwayBanner() {
  const { state, heard } = live.value;
  const away = state === "away" || (self.value === undefined && !reachable.value);
  const text = heard ? t("away", { time: timeOfDay(new Date(heard).toISOString()) }) : t("noAnswer");
  return html`<div class="banner" role="status">${away && html`<p>${text}</p>`}</div>`;
}
