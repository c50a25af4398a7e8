// @ts-check
// The pages of a list that is asked for by their numbers, which stand in the address as `page`.
import { html } from "../lib.js";
import { call } from "../client.js";
import { query, setQuery } from "../router.js";
import { t } from "../messages.js";

export const PAGE_SIZE = 50;

/** The page that the address asks for. */
export const pageNumber = () => Math.max(1, Number.parseInt(query.value.get("page") ?? "1", 10) || 1);

/**
 * @param {string} path
 * @param {Record<string, string>} filters
 * @param {number} page
 * @param {AbortSignal} signal
 * @returns {Promise<{ rows: any[], total: number, exact: boolean }>}
 */
export async function readPage(path, filters, page, signal) {
  const { payload, headers } = await call("GET", path, { query: { ...filters, pageNumber: page, pageSize: PAGE_SIZE }, signal });
  return { rows: payload, total: Number(headers.get("X-Total-Count")), exact: headers.get("X-Total-Count-Exact") !== "false" };
}

/** @param {{ page: number, total: number }} props */
export function NumberedPages({ page, total }) {
  const last = Math.max(1, Math.ceil(total / PAGE_SIZE));
  if (last === 1 && page === 1) return null;
  /** @param {number} to */
  const open = (to) => setQuery({ page: to > 1 ? String(to) : "" });
  return html`<nav class="pager" aria-label=${t("pagesOfList")}>
    <span class="muted">${t("pageOf", { page, last })}</span>
    <button type="button" disabled=${page <= 1} onClick=${() => open(page - 1)}>${t("before")}</button>
    <button type="button" disabled=${page >= last} onClick=${() => open(page + 1)}>${t("after")}</button>
  </nav>`;
}
