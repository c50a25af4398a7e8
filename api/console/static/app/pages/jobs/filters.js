// @ts-check
// Which jobs: the filters that stand in the address.
import { html, useEffect, useRef } from "../../lib.js";
import { setQuery } from "../../router.js";
import { STATES, StateMark } from "../../components/state.js";
import { t } from "./messages.js";

const TYPING_MS = 250;

/** @param {{ filters: Record<string, string> }} props */
export function Filters({ filters }) {
  const chosen = new Set((filters.state ?? "").split(",").filter(Boolean));
  /** @param {string} state */
  const toggle = (state) => {
    const next = chosen.symmetricDifference(new Set([state]));
    setQuery({ state: [...next].join(","), cursor: "" });
  };
  return html`<div class="filters">
    <div class="chips" role="group" aria-label=${t("state")}>
      <button type="button" aria-pressed=${chosen.size === 0} onClick=${() => setQuery({ state: "", cursor: "" })}>${t("allStates")}</button>
      ${[...STATES].map(
        (state) => html`<button type="button" key=${state} aria-pressed=${chosen.has(state)} onClick=${() => toggle(state)}><${StateMark} state=${state} /></button>`,
      )}
    </div>
    <${Typed} name="name" label=${t("namePrefix")} value=${filters.name ?? ""} />
    <${Typed} name="userID" label=${t("user")} value=${filters.userID ?? ""} />
    <${Typed} name="kind" label=${t("kind")} value=${filters.kind ?? ""} />
    ${["stage", "suspendedBy"].map((name) => filters[name] && html`<button type="button" key=${name} onClick=${() => setQuery({ [name]: "", cursor: "" })}>${filters[name]} ✕</button>`)}
    ${Object.keys(filters).length > 0 &&
    html`<button type="button" class="plain" onClick=${() => setQuery(Object.fromEntries([...Object.keys(filters), "cursor"].map((name) => [name, ""])))}>${t("clear")}</button>`}
  </div>`;
}

/** A filter that is typed; it counts once typing pauses. @param {{ name: string, label: string, value: string }} props */
function Typed({ name, label, value }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const timer = useRef(0);
  useEffect(() => {
    if (field.current && field.current !== document.activeElement) field.current.value = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return html`<input
    ref=${field}
    class="typed"
    aria-label=${label}
    placeholder=${label}
    spellcheck=${false}
    autocomplete="off"
    onInput=${() => {
      clearTimeout(timer.current);
      timer.current = window.setTimeout(() => setQuery({ [name]: field.current?.value.trim() ?? "", cursor: "" }), TYPING_MS);
    }}
  />`;
}
