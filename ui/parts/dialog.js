// @ts-check
// Questions: for a token, for a confirmation, and short notices at the edge.
import { h, fill } from "../lib/dom.js";
import { useToken } from "../lib/api.js";

/** Shows `body` as a modal dialog until it is closed. @param {string} title
 * @param {...import("../lib/dom.js").Child} body @returns {HTMLDialogElement & any} */
export function openDialog(title, ...body) {
  const id = `dialog-${Math.random().toString(36).slice(2)}`;
  const dialog = h("dialog", { "aria-labelledby": id }, h("h2", { id }, title), ...body);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.appendChild(dialog);
  dialog.showModal();
  return dialog;
}

/** Asks for a token. @param {{known: boolean, refused: boolean, done: () => void}} options */
export function askToken({ known, refused, done }) {
  const field = h("input", {
    type: "password",
    id: "token",
    autocomplete: "off",
    spellcheck: "false",
    required: !known,
    "aria-describedby": "token-help",
  });
  const keep = h("input", { type: "checkbox", id: "keep-token", checked: true });
  const form = h(
    "form.stack",
    { method: "dialog" },
    refused && known && h("p.failure-title", { role: "alert" }, "The server does not know this token."),
    h(
      "p",
      { id: "token-help" },
      refused
        ? "This server wants to know who asks. The page shows what the token’s owner may see."
        : "The page shows what the token’s owner may see. Without a token it forgets the one it has.",
    ),
    h("label", { for: "token" }, "Token"),
    field,
    h("label.check", { for: "keep-token" }, keep, "Keep it in this tab until the tab is closed"),
    h(
      "p.actions",
      null,
      h("button.primary", { type: "submit" }, "Use it"),
      h("button", { type: "button", onclick: () => dialog.close() }, "Not now"),
    ),
  );
  const dialog = openDialog(refused ? "Who are you?" : "Change the token", form);
  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    useToken(field.value.trim(), keep.checked);
    dialog.close();
    done();
  });
  field.focus();
  return dialog;
}

/**
 * Asks for a confirmation that has to be typed. `act` runs once it is; its result is shown, or its error.
 * @param {{title: string, warning: import("../lib/dom.js").Child, typed: string, verb: string,
 *   act: (say: (text: string) => void) => Promise<import("../lib/dom.js").Child>, after?: () => void}} question
 */
export function confirmTyped({ title, warning, typed, verb, act, after }) {
  const field = h("input", { id: "typed", autocomplete: "off", spellcheck: "false", dir: "auto" });
  const button = h("button.danger", { type: "submit", disabled: true }, verb);
  const outcome = h("div", { role: "status" });
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  field.addEventListener("input", () => {
    button.disabled = field.value !== typed;
  });
  const form = h(
    "form.stack",
    null,
    h("div", null, warning),
    h("label", { for: "typed" }, "Type ", h("code", null, h("bdi", { dir: "auto" }, typed)), " to confirm"),
    field,
    outcome,
    h("p.actions", null, button, close),
  );
  const dialog = openDialog(title, form);
  let isDone = false;
  dialog.addEventListener("close", () => {
    if (isDone) after?.();
  });
  form.addEventListener("submit", async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (field.value !== typed || button.disabled) return;
    button.disabled = true;
    field.disabled = true;
    fill(outcome, "Working…");
    try {
      const result = await act((text) => fill(outcome, text));
      isDone = true;
      fill(outcome, result);
      button.remove();
      fill(close, "Close");
      close.focus();
    } catch (error) {
      fill(
        outcome,
        h("p.failure-title", { role: "alert" }, String(/** @type {any} */ (error).message ?? error)),
      );
      button.disabled = false;
      field.disabled = false;
    }
  });
  field.focus();
}

/** Asks for one line of text. Gives null when the dialog is closed.
 * @param {{title: string, label: string, value?: string, verb: string}} question @returns {Promise<string | null>} */
export function askText({ title, label, value = "", verb }) {
  return new Promise((resolve) => {
    const field = h("textarea", { id: "asked", rows: "3", dir: "auto", required: true, value });
    const form = h(
      "form.stack",
      null,
      h("label", { for: "asked" }, label),
      field,
      h(
        "p.actions",
        null,
        h("button.primary", { type: "submit" }, verb),
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      ),
    );
    const dialog = openDialog(title, form);
    /** @type {string | null} */
    let answer = null;
    form.addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      answer = field.value.trim();
      if (answer) dialog.close();
    });
    dialog.addEventListener("close", () => resolve(answer));
    field.focus();
  });
}

/** A line at the edge that leaves by itself and is read aloud. @param {import("../lib/dom.js").Child} text
 * @param {boolean} [isError] */
export function notify(text, isError = false) {
  const shelf = /** @type {HTMLElement} */ (document.getElementById("notices"));
  const line = h(isError ? "p.notice.is-error" : "p.notice", null, text);
  shelf.appendChild(line);
  setTimeout(() => line.remove(), isError ? 10_000 : 4_000);
}

/** Runs what a button begins: disabled meanwhile, and errors are told.
 * @param {HTMLButtonElement} button @param {() => Promise<void>} act */
export async function during(button, act) {
  if (button.disabled) return;
  button.disabled = true;
  try {
    await act();
  } catch (error) {
    const { message, reason } = /** @type {any} */ (error);
    notify(reason ? `${message} (${reason})` : String(message ?? error), true);
  } finally {
    button.disabled = false;
  }
}
