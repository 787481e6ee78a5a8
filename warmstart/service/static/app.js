// The page of `warmstart serve`: no library, nothing loaded from elsewhere.
import { filesIn, zipOf } from "./zip.js";
import { picturesOf } from "./pictures.js";
import { mapOf } from "./charts.js";
import { asText, FORMATS } from "./formats.js";
import { element, table, number } from "./elements.js";
import { signIn } from "./session.js";

const $ = (id) => document.getElementById(id);
const base = document.baseURI.replace(/[#?].*$/, "").replace(/[^/]*$/, "");
const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

function say(text, isError = false) {
  $("status").textContent = text;
  $("status").className = isError ? "error" : "";
}

async function ask(path, options = {}) {
  const headers = new Headers(options.headers);
  if (options.json !== undefined) {
    headers.set("Content-Type", "application/json");
    options = { ...options, method: "POST", body: JSON.stringify(options.json) };
  }
  const response = await fetch(`${base}v1${path}`, { ...options, headers }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. See that `warmstart serve` runs, and try again.");
  });
  if (response.status === 401) $("token-form").hidden = false;
  const document_ = await response.json();
  if (!response.ok) throw new Error(document_.detail || response.statusText);
  return document_;
}

// All items of a list that comes in parts.
async function listed(path) {
  const items = [];
  let cursor = "";
  do {
    const part = await ask(`${path}?limit=1000${cursor}`);
    items.push(...part.items);
    cursor = part.next ? `&cursor=${encodeURIComponent(part.next)}` : "";
  } while (cursor);
  return items;
}

async function guarded(what, work) {
  say(`${what} …`);
  try {
    await work();
    say("");
  } catch (error) {
    say(error.message, true);
  }
}

// ---- suggestions

// The descriptor of what was given, and notes on what was left out of it.
async function described() {
  const pasted = $("descriptor").value.trim();
  if (pasted) return { descriptor: parsed(pasted), notes: [] };
  const file = dropped.length ? null : $("file").files[0];
  const folder = dropped.length ? dropped : [...$("folder").files];
  if (dropped.length === 1 && kindOf(dropped[0].name)) return upload(dropped[0], kindOf(dropped[0].name));
  if (!file && !folder.length) throw new Error("Choose a file or a folder, or paste a descriptor.");
  if (file && !kindOf(file.name)) throw new Error("Expected a ZIP, TAR or NPZ. Pack the folder of your classes as ZIP.");
  if (file) return upload(file, kindOf(file.name));
  const { pictures, notes } = picturesOf(folder);
  if (!pictures.length) throw new Error("Expected a folder that holds a folder of images for each class, found no image in it.");
  const made = await upload(() => zipOf(pictures), "application/zip");
  return { ...made, notes: [...notes, ...made.notes] };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("Expected a descriptor, the JSON that the line above prints. Paste all of it, from { to }.");
  }
}

const KINDS = { zip: "application/zip", npz: "application/x-npz", tar: "application/x-tar", tgz: "application/gzip", gz: "application/gzip" };

function kindOf(name) {
  return KINDS[name.toLowerCase().split(".").pop()];
}

async function upload(data, kind) {
  const question = "Your images will be sent to this server, looked at and then deleted. Send them?";
  if (!isLocal && !confirm(question)) throw new Error("Nothing was sent.");
  const body = typeof data === "function" ? await data() : data;
  const [extractor] = (await ask("")).extractors;
  const query = extractor ? `?extractor=${encodeURIComponent(extractor)}` : "";
  return ask(`/descriptors:upload${query}`, { method: "POST", body, headers: { "Content-Type": kind } });
}

let dropped = []; // files; those of a folder know their path in it
$("drop").addEventListener("dragover", (event) => { event.preventDefault(); $("drop").classList.add("over"); });
$("drop").addEventListener("dragleave", () => $("drop").classList.remove("over"));
$("drop").addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  const items = [...event.dataTransfer.items].filter((each) => each.kind === "file");
  const entries = items.map((each) => each.webkitGetAsEntry?.() || each.getAsFile()); // now: they are gone after this turn
  guarded("Reading the folder", async () => {
    chosen(null);
    dropped = (await Promise.all(entries.map((each) => (each instanceof File ? [each] : filesIn(each))))).flat();
    const names = entries.map((each) => each.name).join(", ");
    $("where").textContent = dropped.length > 1 ? `${names}: ${dropped.length} files` : names;
  });
});

// What was chosen last counts: the rest is emptied.
function chosen(id) {
  dropped = [];
  for (const other of ["file", "folder", "descriptor"]) if (other !== id) $(other).value = "";
}
for (const id of ["file", "folder", "descriptor"]) $(id).addEventListener(id === "descriptor" ? "input" : "change", () => chosen(id));
$("where").textContent = isLocal
  ? "They are looked at by the server on this machine, and not kept."
  : "This server is another machine: you are asked before anything is sent.";

$("suggest-form").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded("Looking at your images", async () => {
    const { descriptor, notes } = await described();
    const body = { descriptor, k: Number($("k").value), strategy: $("strategy").value || null, explain: true };
    const answer = await ask("/suggestions", { json: body });
    const map = await ask("/map", { json: { descriptor } }).catch(() => null);
    show({ ...answer, notes: [...notes, ...answer.notes] }, map);
  });
});

// The values of a suggestion, those on a logarithmic scale as they are set: learning_rate 0.001.
function inNaturalUnits({ config, natural }) {
  const named = (name) => name.replace(/^log10_/, "");
  const isBehind = (name) => named(name) !== name && named(name) in natural && !(named(name) in config);
  return Object.fromEntries(Object.entries(config).map(([name, value]) =>
    (isBehind(name) ? [named(name), natural[named(name)]] : [name, value])));
}

function show(answer, map) {
  const near = table("Nearest datasets, in how configurations fare", ["dataset", "distance", "best error"],
    answer.neighbours.map((each) => [each.name, number(each.distance), number(each.best_error)]));
  const configs = answer.suggestions.map(inNaturalUnits);
  const names = [...new Set(configs.flatMap((each) => Object.keys(each)))];
  const tried = table(`Best first (strategy ${answer.strategy})`,
    ["hyperparameter", ...answer.suggestions.map((_, i) => String(i + 1))],
    [...names.map((name) => [name, ...configs.map((each) => number(each[name]))]),
      ...(answer.suggestions.some((each) => each.expected_error) ? [["error expected", ...answer.suggestions.map((each) => number(each.expected_error?.value))]] : []),
      ["regret left", ...answer.suggestions.map((each) => number(each.expected_regret))]]);
  const why = element("ol", {}, ...answer.suggestions.map((each) => element("li", {}, each.why)));
  const shown = element("pre", { tabindex: "0" });
  const choose = element("select", { "aria-label": "Format" }, ...FORMATS.map((each) => element("option", {}, each)));
  const refresh = () => { shown.textContent = asText(choose.value, answer); };
  choose.addEventListener("change", refresh);
  refresh();
  const copy = element("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => { await navigator.clipboard.writeText(shown.textContent); say("Copied."); });
  const typical = answer.confidence.typical;
  $("answer").replaceChildren(
    element("h3", {}, "Try these first"), tried,
    element("div", { class: "row" }, choose, copy), shown,
    element("h3", {}, "What to expect"),
    element("p", { class: typical ? "note" : "note doubt" }, answer.confidence.note),
    ...expectation(answer),
    element("h3", {}, "Why"), why, ...(answer.neighbours.length ? [near] : []),
    ...(map ? [element("h3", {}, "The history, and your dataset"), mapOf(map, answer.neighbours.map((each) => each.name))] : []),
  );
  $("answer").hidden = false;
  $("answer").querySelector("h3").scrollIntoView({ block: "nearest" });
}

function expectation(answer) {
  const error = answer.expected_error, said = [];
  if (error) said.push(element("p", {}, `Expect the best of a search to reach an error of ${number(error.value)}, in ${Math.round(10 * error.level)} of 10 cases between ${number(error.low)} and ${number(error.high)}.`));
  if (answer.notes.length) said.push(element("ul", {}, ...answer.notes.map((each) => element("li", {}, each))));
  return said;
}

// ---- datasets

function opener(name, open) {
  const made = element("button", { type: "button", class: "link" }, name);
  made.addEventListener("click", open);
  return made;
}

async function listDatasets() {
  const rows = await listed("/history/datasets");
  $("dataset-list").replaceChildren(table(`${rows.length} datasets`, ["name", "group", "images", "classes", "runs", "best error"],
    rows.map((each) => [opener(each.name, () => showDataset(each.name)), each.group, each.n_train + each.n_val + each.n_test,
      each.n_classes, each.n_evaluations, number(each.best_error)])));
}

function showDataset(name) {
  guarded("Reading", async () => {
    const found = await ask(`/history/datasets/${encodeURIComponent(name)}`);
    const names = [...new Set(found.best_configs.flatMap((each) => Object.keys(each.config)))];
    $("dataset").replaceChildren(
      element("h3", {}, found.name), element("p", {}, found.what || "", found.licence ? ` Licence: ${found.licence}.` : ""),
      table("What did best on it", ["error", ...names], found.best_configs.map((each) => [number(each.error), ...names.map((key) => number(each.config[key]))])),
      table("What it resembles", ["dataset", "distance"], found.nearest.map((each) => [each.name, number(each.distance)])),
    );
    $("dataset").scrollIntoView({ block: "nearest" });
  });
}

// ---- navigation

function go() {
  if (location.hash.startsWith("#studies")) return location.replace("studies"); // their address in 0.2
  const wanted = location.hash === "#datasets" ? "datasets" : "suggest";
  for (const part of ["suggest", "datasets"]) $(part).hidden = part !== wanted;
  for (const link of document.querySelectorAll("nav a"))
    link.getAttribute("href") === `#${wanted}` ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  if (wanted === "datasets") guarded("Reading", listDatasets);
}

async function about() {
  const found = await ask("");
  $("about").textContent = `warmstart ${found.version}, ${found.history.name}: ${found.history.n_datasets} datasets, ${found.history.n_configs} configurations`;
}

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded("Asking", async () => {
    await signIn(base, $("token").value);
    $("token-form").hidden = true;
    start();
  });
});
function start() {
  go();
  about().catch((error) => say(error.message, true));
}
addEventListener("hashchange", go);
start();
