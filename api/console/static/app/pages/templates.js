// @ts-check
// The templates of tasks as forms: what can be filled in, and the task that comes of it, to be put into a flow.
import { html, useEffect, useState } from "../lib.js";
import { get } from "../client.js";
import { query, setQuery } from "../router.js";
import { useResource } from "../resource.js";
import { style } from "../styles.js";
import { ErrorNotice } from "../components/notice.js";
import { t } from "./templates/messages.js";

await style("flows.css");

/** @typedef {import("../../../types/openapi").components["schemas"]["TemplateForm"]} Template */

export function Page() {
  const read = useResource(/** @returns {Promise<Record<string, Template>>} */ (signal) => get("/v1/templates", { signal }), []);
  const { data, error } = read.state.value;
  useEffect(() => void (document.title = `${t("templates")} · Pipeline`), []);
  if (!data) return html`<${ErrorNotice} error=${error} onRetry=${read.reload} />`;
  const names = Object.keys(data);
  const named = query.value.get("template") ?? "";
  const chosen = named in data ? named : names[0];
  return html`
    <div class="page-head"><h1>${t("templates")}</h1><span class="count">${names.length}</span></div>
    <div class="templates">
      <nav class="panel" aria-label=${t("templates")}><ul>
        ${names.map((name) => html`<li key=${name}><button type="button" class="template" aria-pressed=${name === chosen} onClick=${() => setQuery({ template: name })}><span class="name">${name}</span><span class="muted">${textOf(data[name].job_template_describe)}</span></button></li>`)}
      </ul></nav>
      ${chosen && html`<${Form} key=${chosen} name=${chosen} template=${data[chosen]} />`}
    </div>
  `;
}

/** @param {{ name: string, template: Template }} props */
function Form({ name, template }) {
  const [values, setValues] = useState(/** @type {Record<string, any>} */ ({}));
  const [copied, setCopied] = useState(false);
  const groups = Object.entries(/** @type {Record<string, Record<string, any>>} */ (template.job_template_args || {}));
  const task = { job_templete: name, name: String(values[" name"] ?? "my-task"), args: Object.fromEntries(Object.entries(values).filter(([key]) => key !== " name")) };
  const text = JSON.stringify(task, null, 2);
  /** @param {string} key @param {unknown} value */
  const set = (key, value) => {
    const next = { ...values };
    if (value === undefined) delete next[key];
    else next[key] = value;
    setValues(next);
    setCopied(false);
  };
  return html`<section class="panel template-form">
    <header><h2>${name}</h2>${template.image_name && html`<code class="muted">${template.image_name}</code>`}</header>
    <div class="side-body">
      <label class="field">${t("taskName")}<input value=${values[" name"] ?? ""} placeholder="my-task" onInput=${(/** @type {any} */ event) => set(" name", event.currentTarget.value || undefined)} /></label>
      ${groups.map(([group, fields]) => html`<fieldset key=${group}>
        <legend>${group}</legend>
        ${Object.entries(fields || {}).map(([key, field]) => html`<${Field} key=${key} name=${key} field=${field ?? {}} onChange=${(/** @type {unknown} */ value) => set(key, value)} />`)}
      </fieldset>`)}
      ${!groups.length && html`<p class="muted">${t("noArguments")}</p>`}
      <h3>${t("task")}</h3>
      <pre class="tail" tabindex="0" role="region" aria-label=${t("task")}>${text}</pre>
      <div class="actions">
        <button type="button" onClick=${() => navigator.clipboard.writeText(text).then(() => setCopied(true))}>${t("copy")}</button>
        <span role="status" class="muted">${copied ? t("copied") : ""}</span>
      </div>
    </div>
  </section>`;
}

/** One argument, as its type asks. @param {{ name: string, field: any, onChange: (value: unknown) => void }} props */
function Field({ name, field, onChange }) {
  const fixed = String(field.editable ?? 1) === "0";
  const type = field.type ?? "str";
  const required = String(field.require ?? 1) !== "0" && (field.default === undefined || field.default === "");
  const note = [textOf(field.describe), field.range && t("range", { range: textOf(field.range) }), field.regex && t("regex", { regex: textOf(field.regex) })].filter(Boolean).join(" · ");
  /** @param {any} event */
  const typed = (event) => onChange(event.currentTarget.value === "" ? undefined : read(type, event.currentTarget.value));
  const shared = { disabled: fixed, placeholder: textOf(field.placeholder || field.default), required };
  return html`<label class="field">
    <span>${textOf(field.label) || name} <code class="muted">${name}</code> <span class="muted">${type}${required ? ` · ${t("required")}` : ""}</span></span>
    ${Array.isArray(field.choice) && field.choice.length
      ? html`<select ...${shared} onChange=${typed}><option value="">${textOf(field.default)}</option>${field.choice.map((/** @type {unknown} */ one) => html`<option key=${String(one)} value=${String(one)}>${String(one)}</option>`)}</select>`
      : type === "bool"
        ? html`<select ...${shared} onChange=${typed}><option value="">${textOf(field.default)}</option><option value="true">true</option><option value="false">false</option></select>`
        : type === "text" || type === "json" || type === "dict"
          ? html`<textarea ...${shared} rows="3" onInput=${typed}></textarea>`
          : html`<input ...${shared} type=${type === "date" ? "date" : type === "int" || type === "float" ? "number" : "text"} step=${type === "float" ? "any" : undefined} onInput=${typed} />`}
    ${note && html`<small class="muted">${note}</small>`}
  </label>`;
}

/** @param {string} type @param {string} text */
function read(type, text) {
  if (type === "int" || type === "float") return Number(text);
  if (type === "bool") return text === "true";
  return text;
}

/** @param {unknown} value */
const textOf = (value) => (value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
