// Suggestions as text, as `warmstart suggest --format` writes them.
import { inCsv, inLine, inPython, inYaml } from "./quoting.js";

export const FORMATS = ["json", "yaml", "csv", "optuna", "ray", "configspace"];

const dict = (config) => `{${Object.entries(config).map(([key, value]) => `${inPython(key)}: ${inPython(value)}`).join(", ")}}`;
const json = (value) => JSON.stringify(value, null, 2).split("\n").map(inLine).join("\n");

export function asText(format, answer) {
  const points = answer.suggestions.map((each) => each.config);
  if (format === "yaml") return points.map((point) => Object.entries(point).map(([name, value], i) => `${i ? "  " : "- "}${inYaml(name)}: ${inYaml(value)}`).join("\n")).join("\n");
  if (format === "csv") {
    const heads = [...new Set(points.flatMap((point) => Object.keys(point)))];
    return [["rank", ...heads].map(inCsv).join(","), ...points.map((point, i) => [i + 1, ...heads.map((head) => point[head])].map(inCsv).join(","))].join("\n");
  }
  if (format === "optuna")
    return `import optuna\n\n# warmstart, strategy ${inLine(answer.strategy)}: best first\npoints = [\n${points.map((point) => `    ${dict(point)},\n`).join("")}]\n\nstudy = optuna.create_study(direction="minimize")\nfor point in points:\n    study.enqueue_trial(point)\n`;
  if (format === "configspace") return json({ space: answer.space, configurations: points });
  return json(points);
}
