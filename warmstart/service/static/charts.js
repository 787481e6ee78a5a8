// Charts as SVG; each has a table beside it that says the same.
import { element, number, svg } from "./elements.js";

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

export function bestSoFar(trials) {
  const ended = trials.filter((each) => each.error !== null && each.state !== "running");
  if (!ended.length) return element("p", { class: "hint" }, "No trial has an error yet.");
  let best = Infinity;
  const line = ended.map((each) => [each.number, (best = Math.min(best, each.error))]);
  const errors = ended.map((each) => each.error);
  const x = scale(0, Math.max(1, trials[trials.length - 1].number), M, W - 12);
  const y = scale(minOf(errors), maxOf(errors), H - M, 16);
  const steps = line.map(([n, e], i) => `${i ? `H${x(n)}V` : `M${x(n)},`}${y(e)}`).join("");
  return element("figure", {}, titled(`Best error ${number(best)} after ${ended.length} trials`,
    svg("path", { class: "line", d: steps }),
    ...ended.map((each) => svg("circle", { class: "dot", cx: x(each.number), cy: y(each.error), r: 3.5 })),
    ...[[minOf(errors), H - M], [maxOf(errors), 16]].map(([value, at]) => Object.assign(svg("text", { x: 4, y: at + 4 }), { textContent: number(value) })),
    Object.assign(svg("text", { x: W / 2 - 20, y: H - 10 }), { textContent: "trial" })),
    element("figcaption", { class: "hint" }, `Error of each trial, and the best so far: ${number(best)}.`));
}

export function parallel(trials, names) {
  const ended = trials.filter((each) => each.error !== null && each.state !== "running");
  if (ended.length < 2) return "";
  const axes = [...names, "error"], bottom = H - M - 20, top = 30, ends = [];
  const values = (each, axis) => (axis === "error" ? each.error : each.config[axis]);
  const scales = axes.map((axis) => {
    const kinds = [...new Set(ended.map((each) => values(each, axis)).filter((value) => value !== undefined))];
    if (kinds.every((value) => typeof value === "number")) {
      const low = minOf(kinds), high = maxOf(kinds);
      ends.push([short(low), short(high)]);
      if (low <= 0 || high / low < 100) return scale(low, high, bottom, top);
      const log = scale(Math.log(low), Math.log(high), bottom, top);
      return (value) => log(Math.log(value));
    }
    kinds.sort();
    ends.push([kinds[0], kinds[kinds.length - 1]].map((value) => String(value).slice(0, 10)));
    const at = scale(0, Math.max(1, kinds.length - 1), bottom, top);
    return (value) => at(kinds.indexOf(value));
  });
  const x = (i) => M + (i * (W - 2 * M)) / Math.max(1, axes.length - 1);
  const least = ended.reduce((a, b) => (b.error < a.error ? b : a));
  const paths = [...ended.filter((each) => each !== least), least].map((each) => {
    const points = axes.map((axis, i) => [x(i), values(each, axis)]).map(([at, value], i) => (value === undefined ? null : `${at},${scales[i](value)}`)).filter(Boolean);
    return svg("polyline", { class: each === least ? "path best" : "path", points: points.join(" ") });
  });
  return element("figure", {}, titled("Configurations of all trials as lines, the best one marked",
    ...axes.map((_, i) => svg("line", { class: "axis", x1: x(i), x2: x(i), y1: top, y2: bottom })), ...paths,
    ...axes.flatMap((_, i) => [bottom + 18, top - 8].map((y, end) => label(x(i), y, i, axes.length, ends[i][end]))),
    ...axes.map((axis, i) => label(x(i), H - (i % 2 ? 6 : 24), i, axes.length, axis))),
    element("figcaption", { class: "hint" }, "Each line is a trial, from its hyperparameters to its error; the strong one has the least error."));
}

// A text under or over one of several axes, which stays within the chart.
function label(x, y, i, count, text) {
  return Object.assign(svg("text", { x, y, "text-anchor": i === 0 ? "start" : i === count - 1 ? "end" : "middle" }), { textContent: text });
}

const short = (value) => (Number.isInteger(value) && Math.abs(value) < 1e5 ? String(value) : String(Number(value.toPrecision(2))).replace(/^(-?)0\.000+[1-9]\d*$/, () => value.toExponential(1)));

// What trials reported on their way, those under way among them.
export function learningCurves(trials) {
  const told = trials.map((each) => ({ ...each, curve: each.curve.filter((point) => point[1] !== null) })).filter((each) => each.curve.length > 1);
  if (!told.length) return "";
  const points = told.flatMap((each) => each.curve);
  const steps = points.map((point) => point[0]), errors = points.map((point) => point[1]);
  const low = minOf(errors), high = maxOf(errors);
  const x = scale(minOf(steps), maxOf(steps), M + 12, W - 12), y = scale(low, high, H - M, 16);
  const least = told.reduce((a, b) => ((b.error ?? Infinity) < (a.error ?? Infinity) ? b : a));
  const lines = [...told.filter((each) => each !== least), least].map((each) =>
    svg("polyline", { class: each === least ? "path best" : each.state === "running" ? "path running" : "path", points: each.curve.map(([step, error]) => `${x(step)},${y(error)}`).join(" ") },
      Object.assign(svg("title"), { textContent: `trial ${each.number}, ${each.state}` })));
  return element("figure", {}, titled(`What ${told.length} trials reported, step by step`, ...lines,
    ...[[low, H - M], [high, 16]].map(([value, at]) => Object.assign(svg("text", { x: 4, y: at + 4 }), { textContent: number(value) })),
    label(x(minOf(steps)), H - 10, 0, 3, number(minOf(steps))), label(W / 2, H - 10, 1, 3, "step"), label(W - 12, H - 10, 2, 3, number(maxOf(steps)))),
    element("figcaption", { class: "hint" }, "Errors that trials reported on their way; the strong line is the best one, a dashed one still runs."));
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
