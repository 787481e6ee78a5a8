// Elements and tables; every value becomes text, never markup.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function number(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(4))) : String(value);
}

export function table(caption, heads, rows) {
  const isNumber = (i) => rows.length > 0 && rows.every((row) => row[i] === "" || (typeof row[i] !== "object" && !Number.isNaN(Number(row[i]))));
  const numeric = heads.map((_, i) => isNumber(i));
  const cell = (value, i) => element("td", numeric[i] ? { class: "number" } : String(value).length > 40 ? { class: "wrap" } : {}, value instanceof Node ? value : String(value ?? ""));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {},
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...heads.map((head, i) => element("th", numeric[i] ? { scope: "col", class: "number" } : { scope: "col" }, head)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell))))));
}
