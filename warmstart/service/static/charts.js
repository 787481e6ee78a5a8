// Charts as SVG; each has a table beside it that says the same.
import { element, number, svg } from "./elements.js";

const W = 640, H = 300, M = 44;
const scale = (low, high, from, to) => (value) => (high > low ? from + ((value - low) / (high - low)) * (to - from) : (from + to) / 2);

function titled(label, ...children) {
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label }, ...children);
}

export function mapOf(map, near) {
  const points = map.datasets.map((each) => each.position);
  const all = map.own ? [...points, map.own] : points;
  const x = scale(Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0])), M, W - M);
  const y = scale(Math.min(...all.map((p) => p[1])), Math.max(...all.map((p) => p[1])), H - M, M);
  const dots = map.datasets.map((each) => {
    const isNear = near.includes(each.name);
    return svg("circle", { cx: x(each.position[0]), cy: y(each.position[1]), r: isNear ? 6 : 4, class: isNear ? "dot near" : "dot" },
      Object.assign(svg("title"), { textContent: each.name }));
  });
  const own = map.own ? [svg("circle", { cx: x(map.own[0]), cy: y(map.own[1]), r: 9, class: "own" }, Object.assign(svg("title"), { textContent: "your dataset" }))] : [];
  return element("figure", {}, titled("Datasets of the history and yours; near means alike", ...dots, ...own),
    element("figcaption", { class: "hint" }, `Near means alike in how configurations fare. The large dot is your dataset, the full ones its neighbours; the plane shows ${Math.round(100 * map.share)} % of all differences.`));
}

export function bestSoFar(trials) {
  const ended = trials.filter((each) => each.error !== null && each.state !== "running");
  if (!ended.length) return element("p", { class: "hint" }, "No trial has an error yet.");
  let best = Infinity;
  const line = ended.map((each) => [each.number, (best = Math.min(best, each.error))]);
  const errors = ended.map((each) => each.error);
  const x = scale(0, Math.max(1, trials[trials.length - 1].number), M, W - 12);
  const y = scale(Math.min(...errors), Math.max(...errors), H - M, 16);
  const steps = line.map(([n, e], i) => `${i ? `H${x(n)}V` : `M${x(n)},`}${y(e)}`).join("");
  return element("figure", {}, titled(`Best error ${number(best)} after ${ended.length} trials`,
    svg("path", { class: "line", d: steps }),
    ...ended.map((each) => svg("circle", { class: "dot", cx: x(each.number), cy: y(each.error), r: 3.5 })),
    ...[[Math.min(...errors), H - M], [Math.max(...errors), 16]].map(([value, at]) => Object.assign(svg("text", { x: 4, y: at + 4 }), { textContent: number(value) })),
    Object.assign(svg("text", { x: W / 2 - 20, y: H - 10 }), { textContent: "trial" })),
    element("figcaption", { class: "hint" }, `Error of each trial, and the best so far: ${number(best)}.`));
}

export function parallel(trials, names) {
  const ended = trials.filter((each) => each.error !== null && each.state !== "running");
  if (ended.length < 2) return "";
  const axes = [...names, "error"];
  const values = (each, axis) => (axis === "error" ? each.error : each.config[axis]);
  const scales = axes.map((axis) => {
    const kinds = [...new Set(ended.map((each) => values(each, axis)).filter((value) => value !== undefined))];
    if (kinds.every((value) => typeof value === "number")) {
      const low = Math.min(...kinds), high = Math.max(...kinds);
      if (low <= 0 || high / low < 100) return scale(low, high, H - M, 24);
      const log = scale(Math.log(low), Math.log(high), H - M, 24);
      return (value) => log(Math.log(value));
    }
    kinds.sort();
    const at = scale(0, Math.max(1, kinds.length - 1), H - M, 24);
    return (value) => at(kinds.indexOf(value));
  });
  const x = (i) => M + (i * (W - 2 * M)) / Math.max(1, axes.length - 1);
  const least = ended.reduce((a, b) => (b.error < a.error ? b : a));
  const paths = [...ended.filter((each) => each !== least), least].map((each) => {
    const points = axes.map((axis, i) => [x(i), values(each, axis)]).map(([at, value], i) => (value === undefined ? null : `${at},${scales[i](value)}`)).filter(Boolean);
    return svg("polyline", { class: each === least ? "path best" : "path", points: points.join(" ") });
  });
  return element("figure", {}, titled("Configurations of all trials as lines, the best one marked",
    ...axes.map((_, i) => svg("line", { class: "axis", x1: x(i), x2: x(i), y1: 24, y2: H - M })), ...paths,
    ...axes.map((axis, i) => Object.assign(svg("text", { x: x(i), y: H - (i % 2 ? 8 : 24), "text-anchor": i === 0 ? "start" : i === axes.length - 1 ? "end" : "middle" }), { textContent: axis.replace("log10_", "") }))),
    element("figcaption", { class: "hint" }, "Each line is a trial; the strong one has the least error."));
}

// Bars of the share that each hyperparameter has of the error's variance; the thin line is where the share may lie.
export function importanceOf(found) {
  const shares = found.hyperparameters, row = 30, left = 190, height = shares.length * row + 34;
  const x = scale(0, 1, left, W - 16);
  const made = svg("svg", { viewBox: `0 0 ${W} ${height}`, role: "img", "aria-label": "How much of the error's variance each hyperparameter explains" },
    ...shares.flatMap((each, i) => {
      const y = i * row + 8;
      return [
        Object.assign(svg("text", { x: left - 8, y: y + 15, "text-anchor": "end" }), { textContent: each.name.replace("log10_", "") }),
        svg("rect", { class: "bar", x: left, y, width: Math.max(1, x(each.total) - left), height: row - 10 }),
        svg("rect", { class: "bar alone", x: left, y, width: Math.max(0, x(each.alone) - left), height: row - 10 }),
        svg("line", { class: "range", x1: x(each.low), x2: x(each.high), y1: y + (row - 10) / 2, y2: y + (row - 10) / 2 }),
      ];
    }),
    ...[0, 0.5, 1].map((at) => Object.assign(svg("text", { x: x(at), y: height - 8, "text-anchor": at === 1 ? "end" : "middle" }), { textContent: `${100 * at} %` })));
  return element("figure", {}, made,
    element("figcaption", { class: "hint" }, `Share of the variance of the predicted error, by the study's surrogate (${found.surrogate}) after ${found.n_trials} trials: dark by itself, light with others, the line from 5 % to 95 %.`));
}
