// @ts-check
// Plugins by type in running order, which can be changed; those that are not called stand first, with what waits on them.
import { html, useEffect, useState } from "../lib.js";
import { ApiError, get, put } from "../client.js";
import { may, self } from "../session.js";
import { useResource } from "../resource.js";
import { style } from "../styles.js";
import { Link } from "../components/link.js";
import { ErrorNotice, Notice } from "../components/notice.js";
import { OpenCircuit, isBroken } from "./plugins/open-circuit.js";
import { deliveriesTo } from "./plugins/switch.js";
import { TypeSection } from "./plugins/type-section.js";
import { TYPES, moved, movesFor } from "./plugins/order.js";
import { t } from "./plugins/messages.js";

await style("plugins.css");

/** @typedef {import("../../../types/openapi").components["schemas"]["PluginItem"]} Plugin */
/** @typedef {import("../../../types/openapi").components["schemas"]["PluginCircuit"]} Circuit */

/** So often the health is read: no event says that it has changed. */
const HEALTH_MS = 5000;

export function Page() {
  const list = useResource((signal) => get("/v1/plugins/list/all", { signal }), []);
  const status = useResource((signal) => (may("read_job") ? get("/v1/status", { signal }) : Promise.resolve(null)), []);
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  const [said, setSaid] = useState("");
  useEffect(() => void (document.title = `${t("title")} · Pipeline`), []);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || (status.reload(), list.reload()), HEALTH_MS);
    return () => clearInterval(timer);
  }, [list, status]);
  const { data, error: failure } = list.state.value;
  const plugins = /** @type {Plugin[]} */ (data ?? []);
  const circuits = new Map(/** @type {Circuit[]} */ (status.state.value.data?.plugins ?? []).map((circuit) => [circuit.plugin, circuit]));
  const deliveries = status.state.value.data?.deliveries ?? [];
  /** @param {string} feature */
  const waitingOf = (feature) => deliveriesTo(plugins.filter((plugin) => plugin.feature === feature), deliveries);
  const open = plugins.filter((plugin) => plugin.enabled && isBroken(circuits.get(plugin.key)?.circuit));

  /** @param {Plugin[]} ofType in running order @param {number} from @param {number} to where it is to stand */
  async function move(ofType, from, to) {
    const plugin = ofType[from];
    setError(null);
    const order = moved(ofType, from, to);
    list.state.value = { ...list.state.peek(), data: plugins.map((other) => (ofType.includes(other) ? order[ofType.indexOf(other)] : other)) };
    try {
      for (const [before, after] of movesFor(ofType, from, to)) {
        await put("/v1/plugins/sequence", { beforeKey: before.key, afterKey: after.key, pluginType: plugin.pluginType });
      }
      setSaid(t("movedTo", { name: plugin.feature, place: to + 1, count: ofType.length }));
    } catch (refusal) {
      if (!(refusal instanceof ApiError)) throw refusal;
      setError(refusal);
    }
    list.reload();
  }

  if (!may("read_feature")) return html`<h1>${t("title")}</h1><${Notice} title=${t("needsReadFeature")} />`;
  return html`
    <div class="page-head">
      <h1>${t("title")}</h1>
      ${data && html`<span class="count">${plugins.length}</span>`}
      <p class="done" role="status">${said}</p>
      <div class="actions">
        ${may("write_feature") ? html`<${Link} class="button" to="/plugins/register">${t("register")}<//>` : html`<span class="muted">${t("needsWriteFeature")}</span>`}
      </div>
    </div>
    <${ErrorNotice} error=${failure ?? error} onRetry=${failure ? list.reload : undefined} />
    ${open.map((plugin) => html`<${OpenCircuit} key=${plugin.key} plugin=${plugin} circuit=${circuits.get(plugin.key)} deliveries=${deliveries} />`)}
    ${data && !plugins.length && html`<${Notice} title=${t("none")} />`}
    ${TYPES.map((type) => {
      const ofType = plugins.filter((plugin) => plugin.pluginType === type && plugin.mode === "active");
      const shadows = plugins.filter((plugin) => plugin.pluginType === type && plugin.mode === "shadow");
      return ofType.length + shadows.length > 0 && html`<${TypeSection} key=${type} type=${type} plugins=${ofType} shadows=${shadows} circuits=${circuits} waitingOf=${waitingOf} movable=${(/** @type {Plugin} */ plugin) => may("write_feature") && (!self.value?.ownOnly || plugin.owner === self.value.forwho)} onMove=${(/** @type {number} */ from, /** @type {number} */ to) => move(ofType, from, to)} onSwitched=${list.reload} />`;
    })}
  `;
}
