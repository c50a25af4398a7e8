// @ts-check
// Switches a feature on or off, after a question.
import { html, useState } from "../../lib.js";
import { put } from "../../client.js";
import { may, self } from "../../session.js";
import { t as common } from "../../messages.js";
import { ConfirmDialog } from "../../components/confirm-dialog.js";
import { t } from "./messages.js";

/** Whether I may change a feature. @param {string} owner */
export const mayChange = (owner) => may("write_feature") && Boolean(self.value?.admin || self.value?.forwho === owner);

/** How many deliveries wait for these plugins. @param {{ key: string }[]} plugins @param {{ plugin: string, count: number }[]} deliveries */
export const deliveriesTo = (plugins, deliveries) =>
  deliveries.filter((part) => plugins.some(({ key }) => key === part.plugin)).reduce((sum, { count }) => sum + count, 0);

/** @param {{ feature: string, owner: string, enabled: boolean, waiting: number, onSwitched: () => void }} props waiting: how many deliveries wait for its subscribers */
export function Switch({ feature, owner, enabled, waiting, onSwitched }) {
  const [asking, setAsking] = useState(false);
  const can = mayChange(owner);
  const reason = can ? undefined : may("write_feature") ? t("ownerOnly", { owner }) : t("needsWriteFeature");
  return html`<div class="switch">
    <button type="button" role="switch" aria-checked=${enabled} aria-label=${feature} aria-disabled=${!can} title=${reason} onClick=${() => can && setAsking(true)}>
      <i aria-hidden="true"></i><span>${common(enabled ? "on" : "off")}</span>
    </button>
    ${asking &&
    html`<${ConfirmDialog}
      title=${t(enabled ? "turnOff" : "turnOn", { name: feature })}
      confirm=${t(enabled ? "turnOffShort" : "turnOnShort")}
      danger=${enabled}
      act=${() => put(`/v1/features/${enabled ? "turn-off" : "turn-on"}/${encodeURIComponent(feature)}`)}
      onClose=${() => {
        setAsking(false);
        onSwitched();
      }}
    >
      <p>${t(enabled ? "turnOffNote" : "turnOnNote")}</p>
      ${waiting > 0 && html`<p>${t(enabled ? "turnOffDeliveries" : "turnOnDeliveries", { count: waiting })}</p>`}
    <//>`}
  </div>`;
}
