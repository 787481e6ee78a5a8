// Pages of studies: they follow their study, copy texts, archive and delete. All that is shown comes from the server.
import { signIn } from "./session.js";

const main = document.getElementById("main");
const { root } = main.dataset;
let tag = null;
const FOCUSABLE = "a, button, summary, [tabindex]";

function say(text, isError = false) {
  const status = document.getElementById("status");
  status.textContent = text;
  status.className = isError ? "error" : "";
}

// Times in the reader's zone: the server writes its own.
function localTimes(part) {
  for (const each of part.querySelectorAll("time")) {
    const moment = new Date(each.dateTime);
    each.title = moment.toLocaleString();
    each.textContent = moment.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  }
  for (const each of part.querySelectorAll(".origin")) each.textContent = new URL(root, location.href).href.replace(/\/$/, "");
}

// Picture first, then its place: nothing flickers.
const loaded = (part) => Promise.allSettled([...part.querySelectorAll("img")].filter((each) => !each.closest("details:not([open])")).map((each) => {
  const made = new Image();
  made.src = each.getAttribute("src");
  return made.decode();
}));

async function replace(old, fresh) {
  for (const each of fresh.querySelectorAll("details[id]")) each.open = document.getElementById(each.id)?.open ?? each.open;
  await loaded(fresh);
  const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  const focused = [...old.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  old.replaceWith(fresh);
  if (focused >= 0) fresh.querySelectorAll(FOCUSABLE)[focused]?.focus({ preventScroll: true });
  [...fresh.querySelectorAll(".scroll")].forEach((each, i) => { each.scrollLeft = scrolled[i] ?? 0; });
}

async function look() {
  const response = await fetch(location.href, { headers: tag ? { "If-None-Match": tag, Accept: "text/html" } : { Accept: "text/html" }, cache: "no-store" });
  if (response.status === 304) return say("");
  if (!response.ok) throw new Error(response.status === 404 ? "This study is gone." : `The server answers ${response.status}.`);
  const first = tag === null;
  tag = response.headers.get("ETag");
  if (first) return say(""); // what came with the page
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  localTimes(fresh);
  for (const old of document.querySelectorAll(".live[id]")) {
    const next = fresh.getElementById(old.id);
    if (next && next.outerHTML !== old.outerHTML) await replace(old, document.importNode(next, true));
  }
  say("");
}

// The next look waits longer where one takes long: a page takes little of the server's time.
async function follow(seconds) {
  for (;;) {
    const began = performance.now();
    if (!document.hidden) await look().catch((error) => say(`${error instanceof TypeError ? "The server does not answer." : error.message} This page tries again by itself.`, true));
    await new Promise((later) => { setTimeout(later, Math.max(1000 * seconds, 5 * (performance.now() - began))); });
  }
}

async function copy(button) {
  const text = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(text.textContent);
  } catch { // a page without TLS has no clipboard: the text is shown and selected
    text.hidden = false;
    getSelection().selectAllChildren(text);
    return say("Press Ctrl-C to copy.");
  }
  const label = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = label; }, 1500);
}

async function change(path, options) {
  const response = await fetch(root + path, options);
  if (!response.ok) throw new Error((await response.json()).detail);
}

async function act({ archive, archived, delete: gone, question }) {
  if (archive) await change(`${archive}/archive`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ archived: archived === "true" }) });
  if (gone) {
    if (!confirm(question)) return;
    await change(gone, { method: "DELETE" });
  }
  location.assign(`${root}studies`);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy], button[data-archive], button[data-delete]");
  if (!button) return;
  (button.dataset.copy ? copy(button) : act(button.dataset)).catch((error) => say(error.message, true));
});
for (const each of document.querySelectorAll(".filter select")) each.addEventListener("change", () => each.form.requestSubmit());
document.getElementById("token-form")?.addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(root, document.getElementById("token").value).then(() => location.reload()).catch((error) => say(error.message, true));
});
localTimes(document);
if (main.dataset.live) follow(Number(main.dataset.live));
