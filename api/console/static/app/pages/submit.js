// @ts-check
// Submitting a job: what it would meet, with the truth table of every selector, before it is sent.
import { html, useEffect, useState } from "../lib.js";
import { ApiError, call, inAWhile, mayPass, post, wasAborted } from "../client.js";
import { go, href } from "../router.js";
import { may, self } from "../session.js";
import { style } from "../styles.js";
import { JsonEditor, faultsOf, parsed } from "../components/json-editor.js";
import { Notice } from "../components/notice.js";
import { EXAMPLES } from "./submit/examples.js";
import { Plan } from "./submit/plan.js";
import { bodyOf, headerOf, ownFaults, wrongLineOf } from "./submit/body.js";
import { t } from "./submit/messages.js";

await style("submit.css");

/** @typedef {import("../../../types/openapi").components["schemas"]["JobPlan"]} JobPlan */
/** @typedef {import("../components/json-editor.js").Fault} Fault */
/** @typedef {import("./submit/body.js").Fields} Fields */

const PAUSE_MS = 300;

export function Page() {
  const who = self.value;
  const [example, setExample] = useState("");
  const [text, setText] = useState("");
  const [fields, setFields] = useState(/** @type {Fields} */ ({ user: "", name: "", namespace: "", header: "" }));
  const [faults, setFaults] = useState(/** @type {Fault[]} */ ([]));
  const [plan, setPlan] = useState(/** @type {JobPlan | null} */ (null));
  const [busy, setBusy] = useState(false);
  useEffect(() => void (document.title = `${t("title")} · Pipeline`), []);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => explain(abort.signal), PAUSE_MS);
    return () => (clearTimeout(timer), abort.abort());
  }, [text, fields]);

  /** The body of the submission; null when there is none yet, or the text is no JSON. */
  function body() {
    if (!text.trim()) return { value: null, whole: false, fault: null };
    const { value, fault } = parsed(text);
    if (fault) return { value: null, whole: false, fault };
    return { ...bodyOf(value, fields, who?.forwho ?? ""), fault: null };
  }

  /** @param {AbortSignal} signal */
  async function explain(signal) {
    const { value, whole, fault } = body();
    if (!value) {
      setPlan(null);
      return setFaults(fault ? [fault] : []);
    }
    try {
      const answer = (await call("POST", "/v1/job/explain", { body: value, signal })).payload;
      setPlan(answer);
      setFaults([]);
    } catch (refusal) {
      if (wasAborted(refusal)) return;
      if (!(refusal instanceof ApiError)) throw refusal;
      setPlan(null);
      setFaults(ownFaults(faultsOf(refusal), whole));
      if (mayPass(refusal)) inAWhile(() => explain(signal), signal);
    }
  }

  async function submit() {
    const { value, whole } = body();
    if (!value || busy) return;
    setBusy(true);
    try {
      const { jobID } = await post("/v1/job", value);
      go(href(`/jobs/${encodeURIComponent(jobID)}`));
    } catch (refusal) {
      if (!(refusal instanceof ApiError)) throw refusal;
      setFaults(ownFaults(faultsOf(refusal), whole));
      setBusy(false);
    }
  }

  if (!may("write_job")) return html`<h1>${t("title")}</h1><${Notice} title=${t("needsWriteJob")} />`;
  const wrongLine = wrongLineOf(fields.header);
  const ready = plan && wrongLine === undefined;
  /** @param {keyof Fields} name */
  const typed = (name) => (/** @type {any} */ event) => setFields({ ...fields, [name]: event.currentTarget.value });
  return html`
    <div class="page-head">
      <h1>${t("title")}</h1>
      <div class="chips" role="group" aria-label=${t("examples")}>
        <span class="muted">${t("examples")}</span>
        ${Object.entries(EXAMPLES).map(
          ([name, value]) => html`<button
            type="button"
            key=${name}
            onClick=${() => {
              const next = JSON.stringify(value, null, 2);
              // The field takes a text that differs from the one before.
              setExample(example === next ? `${next}\n` : next);
              setText(next);
            }}
          >${name}</button>`,
        )}
      </div>
    </div>
    <div class="submit-columns">
      <section class="submit-form">
        <${JsonEditor} label=${t("manifest")} text=${example} faults=${faults} onPause=${setText} />
        <p class="muted">${t("manifestNote")}</p>
        <div class="submit-fields">
          <label>${t("user")}<input value=${fields.user} placeholder=${who?.forwho} disabled=${who?.ownOnly} autocomplete="off" onInput=${typed("user")} /></label>
          <label>${t("name")}<input value=${fields.name} placeholder="metadata.name" autocomplete="off" onInput=${typed("name")} /></label>
          <label>${t("namespace")}<input value=${fields.namespace} placeholder=${plan?.namespace ?? ""} autocomplete="off" onInput=${typed("namespace")} /></label>
        </div>
        <label for="submit-header">${t("header")}</label>
        <textarea id="submit-header" class="mono" rows="3" spellcheck=${false} placeholder="size=large" aria-describedby="submit-header-note" aria-invalid=${wrongLine !== undefined} value=${fields.header} onInput=${typed("header")}></textarea>
        <p class=${wrongLine === undefined ? "muted" : "field-error"} id="submit-header-note">${wrongLine === undefined ? t("headerNote", { count: Object.keys(headerOf(fields.header)).length }) : t("headerWrong", { line: wrongLine })}</p>
        <div class="actions"><button type="button" class="primary" aria-disabled=${busy || !ready} onClick=${() => ready && submit()}>${t("submit")}</button></div>
      </section>
      <section class="submit-plan" aria-label=${t("plan")} aria-live="polite">
        ${plan ? html`<${Plan} plan=${plan} />` : html`<${Notice} title=${t(faults.length ? "refused" : "nothingYet")} />`}
      </section>
    </div>
  `;
}
