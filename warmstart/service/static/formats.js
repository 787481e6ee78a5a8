// Suggestions as text, as `warmstart suggest --format` writes them.
export const FORMATS = ["json", "yaml", "csv", "optuna", "ray", "configspace"];

const python = (value) => (value === true ? "True" : value === false ? "False" : JSON.stringify(value));
const dict = (config) => `{${Object.entries(config).map(([key, value]) => `${python(key)}: ${python(value)}`).join(", ")}}`;
// YAML 1.1 takes 1e-7 for a text: its numbers have a point.
const scalar = (value) => (typeof value === "number" ? String(value).replace(/^(-?\d+)e/, "$1.0e") : JSON.stringify(value));
const key = (name) => (/^[A-Za-z_]\w*$/.test(name) && !/^(y|n|yes|no|on|off|true|false|null)$/i.test(name) ? name : JSON.stringify(name));
const cell = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));

export function asText(format, answer) {
  const points = answer.suggestions.map((each) => each.config);
  if (format === "yaml") return points.map((point) => Object.entries(point).map(([name, value], i) => `${i ? "  " : "- "}${key(name)}: ${scalar(value)}`).join("\n")).join("\n");
  if (format === "csv") {
    const heads = [...new Set(points.flatMap((point) => Object.keys(point)))];
    return [["rank", ...heads].map(cell).join(","), ...points.map((point, i) => [i + 1, ...heads.map((head) => point[head])].map(cell).join(","))].join("\n");
  }
  if (format === "optuna")
    return `import optuna\n\n# warmstart, strategy ${answer.strategy}: best first\npoints = [\n${points.map((point) => `    ${dict(point)},\n`).join("")}]\n\nstudy = optuna.create_study(direction="minimize")\nfor point in points:\n    study.enqueue_trial(point)\n`;
  if (format === "configspace") return JSON.stringify({ space: answer.space, configurations: points }, null, 2);
  return JSON.stringify(points, null, 2);
}
