// @ts-check
// What a view shows while it waits, when there is nothing, and after an error.
import { h, fill } from "../lib/dom.js";
import { CallError } from "../lib/api.js";
import { go, link } from "../lib/router.js";

/** @param {string} [what] */
export function loading(what = "Loading") {
  return h("p.loading", { role: "status" }, h("span.spinner", { "aria-hidden": "true" }), `${what}…`);
}

/** Nothing is there: what that means, and what to do next.
 * @param {string} title @param {...import("../lib/dom.js").Child} next */
export function empty(title, ...next) {
  return h(
    "div.empty",
    null,
    h("p.empty-title", null, title),
    ...next.map((part) => (part instanceof Node ? part : h("p", null, part))),
  );
}

/** A command to type, to be copied. @param {string} text */
export function command(text) {
  return h("pre.command", { tabindex: "0" }, h("code", null, text));
}

/** A name as a command may have it; one that a shell would read otherwise is left to be filled in.
 * @param {string} name */
export function shellName(name) {
  return /^[A-Za-z0-9][A-Za-z0-9_.@:-]*$/.test(name) ? name : "SESSION";
}

/** @type {Record<string, string>} */
const ADVICE = {
  UNREACHABLE: "Check that the server still runs. This page tries again when you do.",
  UNAUTHENTICATED: "Give a token that the server knows.",
  RIGHT_MISSING: "Give a token with this right, or ask who runs the server for one.",
  SUBJECT_NOT_GRANTED: "Your credential is of one subject. Ask for one of the whole tenant.",
  SESSION_NOT_FOUND: "It was deleted, has expired, or belongs to another subject.",
  REVISION_MISMATCH: "Somebody changed the session meanwhile. Reload, look, and try again.",
  CHANGE_NOT_FOUND: "It was undone already, perhaps in another tab. Reload to see the block as it is.",
  FACT_NOT_FOUND: "It was changed or removed meanwhile. Reload to see the block as it is.",
  JOB_OBSOLETE: "Its messages or its block no longer exist, so there is nothing to feed.",
  TENANT_RATE: "The tenant calls too often. Wait a moment.",
  ACTIVE_BYTES: "The session is too large for a Get; its messages can still be read.",
};

/** An error with its reason and a way on. @param {any} error @param {() => void} [again] */
export function failure(error, again) {
  const isCall = error instanceof CallError;
  if (!isCall) console.error(error);
  const reason = isCall ? error.reason : "FAULT_OF_THE_PAGE";
  return h(
    "div.failure",
    { role: "alert" },
    h("p.failure-title", null, isCall ? error.message || error.code : `The page failed: ${String(error)}`),
    ADVICE[reason] && h("p", null, ADVICE[reason]),
    h(
      "p.faint",
      null,
      h("code", null, reason),
      isCall && error.requestId && [" · request ", h("code", null, error.requestId)],
    ),
    h(
      "p.actions",
      null,
      again && h("button", { type: "button", onclick: again }, "Try again"),
      reason === "UNAUTHENTICATED" && h("button", { type: "button", onclick: askForToken }, "Give a token"),
      reason === "SESSION_NOT_FOUND" &&
        h("button", { type: "button", onclick: () => go(link(["sessions"])) }, "All sessions"),
    ),
  );
}

function askForToken() {
  window.dispatchEvent(new CustomEvent("memoryd:token"));
}

/**
 * A place that shows what `load` gives, and its errors. Loads at once; the function in the result
 * loads again.
 * @param {(signal: AbortSignal) => Promise<import("../lib/dom.js").Child>} load
 * @param {AbortSignal} signal @param {{label?: string, tag?: string}} [options]
 * @returns {{node: HTMLElement, reload: (quietly?: boolean) => Promise<void>}}
 */
export function loaded(load, signal, { label = "Loading", tag = "div" } = {}) {
  const node = h(tag);
  let turn = 0;
  const reload = async (quietly = false) => {
    const mine = ++turn;
    if (!quietly) fill(node, loading(label));
    try {
      const shown = await load(signal);
      if (mine === turn && !signal.aborted) fill(node, shown);
    } catch (error) {
      if (mine === turn && !signal.aborted)
        fill(
          node,
          failure(error, () => void reload()),
        );
    }
  };
  void reload();
  return { node, reload };
}
