// @ts-check
// Registers a feature, or replaces one, from JSON. What it would change about the jobs of the last days is shown before it is sent.
import { html, useEffect, useState } from "../lib.js";
import { ApiError, get, inAWhile, mayPass, post, wasAborted } from "../client.js";
import { go, href } from "../router.js";
import { may } from "../session.js";
import { style } from "../styles.js";
import { useResource } from "../resource.js";
import { JsonEditor, faultsOf, parsed } from "../components/json-editor.js";
import { Link } from "../components/link.js";
import { ErrorNotice, Notice } from "../components/notice.js";
import { WhatIf, whatIf } from "../components/what-if.js";
import { EXAMPLE, definitionOf } from "./plugins/definition.js";
import { t } from "./plugins/messages.js";

await style("plugins.css");

/** @typedef {import("../components/json-editor.js").Fault} Fault */

const DAYS = 7;

/** @param {{ name?: string }} props name: the feature to replace */
export function Page({ name }) {
  const stored = useResource((signal) => (name ? get(`/v1/features/detail/${encodeURIComponent(name)}`, { signal }) : Promise.resolve(EXAMPLE)), [name]);
  const { data, error } = stored.state.value;
  const title = name ? t("replaceTitle", { name }) : t("register");
  useEffect(() => void (document.title = `${title} · Pipeline`), [title]);
  return html`
    <p class="crumb"><${Link} to="/plugins">${t("title")}<//>${name && html` / <${Link} to=${`/features/${encodeURIComponent(name)}`}>${name}<//>`}</p>
    <h1>${title}</h1>
    ${may("write_feature") ? null : html`<${Notice} title=${t("needsWriteFeature")} />`}
    <${ErrorNotice} error=${error} onRetry=${stored.reload} />
    ${data && html`<${Form} name=${name} begin=${JSON.stringify(name ? definitionOf(data) : data, null, 2)} />`}
  `;
}

/** @param {{ name?: string, begin: string }} props */
function Form({ name, begin }) {
  const [first] = useState(begin);
  const [text, setText] = useState(begin);
  const [faults, setFaults] = useState(/** @type {Fault[]} */ ([]));
  const [found, setFound] = useState(/** @type {import("../components/what-if.js").FeatureWhatIf | null} */ (null));
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const { value, fault } = parsed(text);
    if (fault) return setFaults([fault]);
    if (!may("read_job")) return setFaults([]);
    const abort = new AbortController();
    async function foretell() {
      try {
        setFound(await whatIf(value, DAYS, abort.signal));
        setFaults([]);
      } catch (refusal) {
        if (wasAborted(refusal)) return;
        if (!(refusal instanceof ApiError)) throw refusal;
        setFound(null);
        setFaults(faultsOf(refusal));
        if (mayPass(refusal)) inAWhile(foretell, abort.signal);
      }
    }
    foretell();
    return () => abort.abort();
  }, [text]);

  async function send() {
    const { value, fault } = parsed(text);
    if (fault || busy) return;
    setBusy(true);
    try {
      await post("/v1/features", value);
      go(href(`/features/${encodeURIComponent(value.name)}`));
    } catch (refusal) {
      if (!(refusal instanceof ApiError)) throw refusal;
      setFaults(faultsOf(refusal));
      setBusy(false);
    }
  }

  return html`<div class="form-columns">
    <section>
      <${JsonEditor} label=${t("definition")} text=${first} faults=${faults} onPause=${setText} />
      <p class="muted">${t("secretNote")}</p>
      <div class="actions form-actions">
        <button type="button" class="primary" disabled=${!may("write_feature")} aria-disabled=${busy || faults.length > 0} onClick=${send}>${t(name ? "replace" : "registerShort")}</button>
      </div>
    </section>
    <section class="panel" aria-label=${t("before")}>
      <header><h2>${t("before")}</h2><span class="muted">${t("lastDays", { count: DAYS })}</span></header>
      <div class="impact-body" aria-live="polite">${found ? html`<${WhatIf} found=${found} comparing />` : html`<p class="muted">${t("beforeNote")}</p>`}</div>
    </section>
  </div>`;
}
