// The map of the history's datasets.
import { element, svg } from "./elements.js";

const W = 640, H = 300, M = 44;
const scale = (low, high, from, to) => (value) => (high > low ? from + ((value / 2 - low / 2) / (high / 2 - low / 2)) * (to - from) : (from + to) / 2);

// Math.min(...values) fails from some 120,000 values on.
const minOf = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const maxOf = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

function titled(label, ...children) {
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label }, ...children);
}

export function mapOf(map, near) {
  const points = map.datasets.map((each) => each.position);
  const all = map.own ? [...points, map.own] : points;
  const x = scale(minOf(all.map((p) => p[0])), maxOf(all.map((p) => p[0])), M, W - M);
  const y = scale(minOf(all.map((p) => p[1])), maxOf(all.map((p) => p[1])), H - M, M);
  const dots = map.datasets.map((each) => {
    const isNear = near.includes(each.name);
    return svg("circle", { cx: x(each.position[0]), cy: y(each.position[1]), r: isNear ? 6 : 4, class: isNear ? "dot near" : "dot" },
      Object.assign(svg("title"), { textContent: each.name }));
  });
  const own = map.own ? [svg("circle", { cx: x(map.own[0]), cy: y(map.own[1]), r: 9, class: "own" }, Object.assign(svg("title"), { textContent: "your dataset" }))] : [];
  return element("figure", {}, titled("Datasets of the history and yours; near means alike", ...dots, ...own),
    element("figcaption", { class: "hint" }, `Near means alike in how configurations fare. The large dot is your dataset, the full ones its neighbours; the plane shows ${Math.round(100 * map.share)} % of all differences.`));
}
