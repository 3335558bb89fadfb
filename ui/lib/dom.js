// @ts-check
// Elements out of values. A text only ever becomes a text node, so no text of a user can become an
// element, an attribute's code or an address.

/** @typedef {Node | string | number | null | undefined | false | any[]} Child */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element: `h("button.quiet", {onclick: save, disabled: true}, "Save")`.
 * Properties that begin with `on` must be functions. `href` must lead within the page.
 * @param {string} tag a name, and classes behind dots
 * @param {Record<string, any> | null} [properties]
 * @param {...Child} children
 * @returns {HTMLElement & any}
 */
export function h(tag, properties, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties ?? {})) set(element, key, value);
  append(element, children);
  return element;
}

/** @param {any} element @param {string} key @param {any} value */
function set(element, key, value) {
  if (value === undefined || value === null || value === false) return;
  if (key.startsWith("on")) {
    if (typeof value !== "function") throw new TypeError(`${key} must be a function`);
    element.addEventListener(key.slice(2), value);
  } else if (key === "href") {
    if (!/^(#|blob:)/.test(value)) throw new TypeError("href must lead within the page");
    element.setAttribute("href", value);
  } else if (key === "width") {
    element.style.width = value;
  } else if (key === "dataset") {
    Object.assign(element.dataset, value);
  } else if (key === "value" || key === "checked" || key === "open") {
    element[key] = value;
  } else {
    element.setAttribute(key === "className" ? "class" : key, value === true ? "" : String(value));
  }
}

/** @param {Node} parent @param {Child[]} children */
export function append(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(parent, child);
    else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return parent;
}

/** Puts `children` in place of all that `parent` has. @param {Node} parent @param {...Child} children */
export function fill(parent, ...children) {
  while (parent.firstChild) parent.removeChild(parent.firstChild);
  return append(parent, children);
}

/**
 * A text that a person or a model wrote, in its own direction.
 * @param {string | undefined} text
 * @param {string} [tag]
 */
export function said(text, tag = "bdi") {
  return h(tag, { dir: "auto" }, text ?? "");
}

/** @type {Record<string, string>} */
const ICONS = {
  sessions: "M4 5h16v10H9l-5 4z",
  people:
    "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM3 20c0-3.5 2.5-6 6-6s6 2.5 6 6M16 4.5a3.5 3.5 0 0 1 0 6M18 14.5c2 .8 3 2.8 3 5.5",
  items: "M4 7l8-4 8 4v10l-8 4-8-4zM4 7l8 4 8-4M12 11v10",
  usage: "M4 20V10M10 20V4M16 20v-7M21 20H3",
  server: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
  key: "M14 10a4 4 0 1 1-8 0 4 4 0 0 1 8 0zM13 12l7 7M17 16l2-2",
  search: "M16 16l5 5M18 10.5a7.5 7.5 0 1 1-15 0 7.5 7.5 0 0 1 15 0z",
  tool: "M14 6a4 4 0 0 0 5 5l-9 9-4-4 9-9zM6 20l-2-2",
  result: "M9 14l-5-5 5-5M4 9h10a6 6 0 0 1 0 12h-3",
  thought: "M12 3a6 6 0 0 0-4 10.500V16h8v-2.500A6 6 0 0 0 12 3zM9 20h6",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  close: "M5 5l14 14M19 5L5 19",
  down: "M12 4v16M5 13l7 7 7-7",
  up: "M12 20V4M5 11l7-7 7 7",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
};

/** @param {string} name one of ICONS */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 24 24", "aria-hidden": "true", class: "icon" })) {
    svg.setAttribute(key, value);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.appendChild(path);
  return svg;
}

/** `action`, at most once in `ms`, with the last arguments. @param {number} ms @param {(...a: any[]) => void} action */
export function debounced(ms, action) {
  let timer = 0;
  return (/** @type {any[]} */ ...values) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => action(...values), ms);
  };
}
