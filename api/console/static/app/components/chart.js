// @ts-check
// Lines, bars and points of an ECharts option, as a small drawing. Nothing of the option is run.
import { html } from "../lib.js";

/** @typedef {{ name: string, kind: "line" | "bar" | "scatter", points: [number, number][] }} Series */
/** @typedef {{ title: string, names: string[] | null, series: Series[] }} ChartData names: of the places across */

const WIDTH = 640;
const HEIGHT = 260;
const LEFT = 56;
const BOTTOM = 28;
const TOP = 12;
const KINDS = ["line", "bar", "scatter"];

/** What can be drawn of an option; null if nothing can. @param {any} option @returns {ChartData | null} */
export function readChart(option) {
  if (!option || typeof option !== "object") return null;
  const given = (Array.isArray(option.series) ? option.series : [option.series]).filter((/** @type {any} */ one) => KINDS.includes(one?.type) && Array.isArray(one.data));
  const axis = Array.isArray(option.xAxis) ? option.xAxis[0] : option.xAxis;
  const names = Array.isArray(axis?.data) ? axis.data.map(String) : null;
  const series = given.map((/** @type {any} */ one, /** @type {number} */ index) => ({ name: String(one.name ?? index + 1), kind: one.type, points: pointsOf(one.data) }));
  const drawn = series.filter((/** @type {Series} */ one) => one.points.length);
  const title = Array.isArray(option.title) ? option.title[0] : option.title;
  return drawn.length ? { title: typeof title?.text === "string" ? title.text : "", names, series: drawn } : null;
}

/** @param {any[]} data @returns {[number, number][]} */
function pointsOf(data) {
  return data.flatMap((item, index) => {
    const value = item && typeof item === "object" && !Array.isArray(item) ? item.value : item;
    const [x, y] = Array.isArray(value) ? value.map(Number) : [index, Number(value)];
    return value !== null && Number.isFinite(x) && Number.isFinite(y) ? [/** @type {[number, number]} */ ([x, y])] : [];
  });
}

/** @param {{ chart: ChartData }} props */
export function Chart({ chart: { title, names, series } }) {
  const all = series.flatMap(({ points }) => points);
  const bars = series.some(({ kind }) => kind === "bar");
  const across = range(all.map(([x]) => x), bars ? 0.5 : 0);
  const up = range(bars ? [0, ...all.map(([, y]) => y)] : all.map(([, y]) => y), 0);
  /** @param {number} value */
  const x = (value) => LEFT + ((value - across[0]) / (across[1] - across[0])) * (WIDTH - LEFT - 12);
  /** @param {number} value */
  const y = (value) => HEIGHT - BOTTOM - ((value - up[0]) / (up[1] - up[0])) * (HEIGHT - BOTTOM - TOP);
  const wide = bars ? Math.max(1, ((x(1) - x(0)) * 0.7) / series.length) : 0;
  return html`<figure class="chart">
    ${title && html`<figcaption>${title}</figcaption>`}
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${title} ${series.map(({ name }) => name).join(", ")}`}>
      ${steps(up).map((value) => html`<g key=${value}><line class="chart-line" x1=${LEFT} x2=${WIDTH - 12} y1=${y(value)} y2=${y(value)} /><text x=${LEFT - 6} y=${y(value) + 4} text-anchor="end">${short(value)}</text></g>`)}
      ${steps(across).filter((value) => !names || (Number.isInteger(value) && names[value] !== undefined)).map((value) => html`<text key=${`x${value}`} x=${x(value)} y=${HEIGHT - 8} text-anchor="middle">${names ? names[value].slice(0, 14) : short(value)}</text>`)}
      ${series.map(({ kind, points }, index) =>
        kind === "line"
          ? html`<path key=${index} class=${`chart-path colour-${index % 5}`} d=${points.map(([px, py], at) => `${at ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join("")} />`
          : html`<g key=${index} class=${`chart-fill colour-${index % 5}`}>${points.map(([px, py], at) => (kind === "bar" ? html`<rect key=${at} x=${x(px) - (wide * series.length) / 2 + wide * index} width=${wide} y=${Math.min(y(py), y(0))} height=${Math.abs(y(py) - y(0))} />` : html`<circle key=${at} cx=${x(px)} cy=${y(py)} r="3" />`))}</g>`,
      )}
    </svg>
    ${series.length > 1 && html`<ul class="legend">${series.map(({ name }, index) => html`<li key=${index}><i class=${`colour-${index % 5}`}></i>${name}</li>`)}</ul>`}
  </figure>`;
}

/** @param {number[]} values @param {number} margin @returns {[number, number]} */
function range(values, margin) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return low === high ? [low - 1, high + 1] : [low - margin, high + margin];
}

/** About five round values. @param {[number, number]} range */
function steps([low, high]) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(Number(value.toPrecision(12)));
  return found;
}

/** @param {number} value */
const short = (value) => (Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3) ? value.toExponential(1) : String(Number(value.toPrecision(5))));
