// Texts of others in what the page writes out: the rules of warmstart/history_store/quoting.py, one function a format.
// A test holds both files to one corpus.
const ACTING = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]|\p{Surrogate}/gu;
const FORMULA = /^'*[=+\-@\t\r\n＝＋－＠]/;
const SHORT = { "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r" };
const escaped = (char) => SHORT[char] ?? `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;

// On one line: of a comment, a message.
export const inLine = (text) => String(text).replace(ACTING, escaped);

// A text in double quotes, as JSON, Python and YAML read it.
const quoted = (text) => inLine(JSON.stringify(text));

export const inPython = (value) => (value === true ? "True" : value === false ? "False" : typeof value === "string" ? quoted(value) : String(value));

// Words stay plain but for those that YAML takes for another value. YAML 1.1 takes 1e-7 for a text: its numbers have a point.
const isWord = (text) => /^[A-Za-z_]\w*$/.test(text) && !/^(y|n|yes|no|on|off|true|false|null)$/i.test(text);
export const inYaml = (value) => (typeof value === "number" ? String(value).replace(/^(-?\d+)e/, "$1.0e") : typeof value === "string" && !isWord(value) ? quoted(value) : String(value));

// A cell of CSV; an apostrophe stands before a text that a spreadsheet takes for a formula.
export function inCsv(value) {
  const isFormula = typeof value === "string" && FORMULA.test(value) && (value.trim() === "" || Number.isNaN(Number(value)));
  const text = `${isFormula ? "'" : ""}${value ?? ""}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
