// @ts-check
// A link to a page of the console.
import { html } from "../lib.js";
import { href } from "../router.js";

/** @param {{ to: string, filters?: Record<string, string | undefined>, children?: any, [attribute: string]: any }} props */
export function Link({ to, filters, children, ...attributes }) {
  return html`<a ...${attributes} href=${href(to, filters)}>${children}</a>`;
}
