// @ts-check
// Long texts, JSON, and bytes. Nothing here is ever read as HTML.
import { h, fill, said, icon } from "../lib/dom.js";
import { bytes, hex, textOf } from "../lib/format.js";
import { notify } from "./dialog.js";

const SHOWN = 4_000;
const MORE = 100_000;
const DEPTH = 24; // Of the indentation.
const MOST_TOKENS = 100_000;

/** Cuts between characters. @param {string} text @param {number} at */
function cut(text, at) {
  const code = text.charCodeAt(at - 1);
  return text.slice(0, code >= 0xd800 && code <= 0xdbff ? at - 1 : at);
}

/** A text with its line breaks; a long one in steps. @param {string} text @param {string} [tag] */
export function prose(text, tag = "div.prose") {
  // One that scrolls is scrolled by the keyboard too.
  const body = h(tag, { dir: "auto", tabindex: tag.startsWith("pre") ? "0" : undefined });
  if (text.length <= SHOWN * 1.2) return append(body, text);
  let shown = cut(text, SHOWN);
  const more = h("button.link", { type: "button" });
  const say = () => {
    fill(body, shown);
    if (shown.length === text.length) more.remove();
    else fill(more, `Show more (${bytes(text.length - shown.length)} left)`);
  };
  more.addEventListener("click", () => {
    const at = shown.length + MORE;
    shown = at >= text.length ? text : cut(text, at);
    say();
  });
  say();
  return h("div", null, body, more);
}

/** @param {HTMLElement} element @param {string} text */
function append(element, text) {
  fill(element, text);
  return element;
}

/** A JSON text, indented where it is JSON; else as it is. @param {string} text */
export function json(text) {
  try {
    JSON.parse(text);
  } catch {
    return prose(text, "pre.code");
  }
  return prose(indented(text), "pre.code");
}

/** The same JSON with a line for each value. Numbers stay as they are written: a Number has no 1.0, and no
 * 12345678901234567890. @param {string} text */
function indented(text) {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g) ?? [];
  if (tokens.length > MOST_TOKENS) return text;
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, DEPTH))}`;
  tokens.forEach((token, at) => {
    const isEmpty = (token === "[" && tokens[at + 1] === "]") || (token === "{" && tokens[at + 1] === "}");
    const closesEmpty =
      (token === "]" && tokens[at - 1] === "[") || (token === "}" && tokens[at - 1] === "{");
    if (isEmpty || closesEmpty) {
      out += token;
    } else if (token === "[" || token === "{") {
      ++depth;
      out += token + line();
    } else if (token === "]" || token === "}") {
      --depth;
      out += line() + token;
    } else {
      out += token === "," ? token + line() : token === ":" ? ": " : token;
    }
  });
  return out;
}

/** Bytes: as text where they are one, else in hexadecimal. @param {Uint8Array} data @param {string} [name] */
export function binary(data, name = "content.bin") {
  const text = textOf(data);
  return h(
    "div",
    null,
    h(
      "p.faint",
      null,
      bytes(data.length),
      text === null ? ", not a text " : " of text ",
      saveButton(data, name),
    ),
    text === null ? h("pre.code", { tabindex: "0" }, hex(data)) : prose(text, "pre.code"),
  );
}

/** A button that saves bytes as a file. @param {Uint8Array} data @param {string} name */
export function saveButton(data, name) {
  return h(
    "button.link",
    { type: "button", onclick: () => save(new Blob([/** @type {any} */ (data)]), name) },
    "Save",
  );
}

/** Saves a file. It comes from the page itself, and is opened by nobody. @param {Blob} blob @param {string} name */
export function save(blob, name) {
  // A type that a browser would show could run in the page's origin.
  const url = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
  const anchor = h("a", {
    href: url,
    download: name.replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 120) || "file",
  });
  document.body.appendChild(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** An identifier that can be copied. @param {string} id */
export function copyable(id) {
  return h(
    "span.copyable",
    null,
    h("code", null, said(id)),
    h(
      "button.icon-button",
      {
        type: "button",
        title: "Copy",
        "aria-label": `Copy ${id.slice(0, 60)}`,
        onclick: async () => {
          try {
            await navigator.clipboard.writeText(id);
            notify("Copied");
          } catch {
            notify("The browser does not let the page copy", true);
          }
        },
      },
      icon("copy"),
    ),
  );
}

/** A name and a value below each other. @param {[string, import("../lib/dom.js").Child][]} pairs */
export function facts(pairs) {
  return h(
    "dl.facts",
    null,
    pairs
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}
