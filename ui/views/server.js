// @ts-check
// The server: its version, its store and its limits, and who asks.
import { h, said } from "../lib/dom.js";
import { bytes, count, enumName, number, when } from "../lib/format.js";
import { loadServer } from "../lib/caller.js";
import { loaded } from "../parts/states.js";
import { facts } from "../parts/text.js";

/** @type {Record<string, string>} */
const SURVIVES = {
  none: "nothing: a crash may lose acknowledged writes",
  local: "a crash of the store’s machine",
  replicated: "the loss of the store’s machine",
};
const BYTES = new Set([
  "requestBytes",
  "sessionIdBytes",
  "pageBytes",
  "replyBytes",
  "pendingBytes",
  "cacheBytes",
  "indexBytes",
  "itemBytes",
]);

/** @param {import("../lib/router.js").Place} _place @param {AbortSignal} signal */
export function serverView(_place, signal) {
  const shown = loaded(async () => {
    const info = await loadServer(signal);
    const caller = info.caller ?? {};
    const store = info.store ?? {};
    return h(
      "div.stack",
      null,
      h(
        "div.card",
        null,
        h("h2", null, "Who asks"),
        facts([
          ["Tenant", said(caller.tenant)],
          ["Subject", caller.subject ? said(caller.subject) : "all of the tenant"],
          ["Rights", (caller.rights ?? []).join(", ") || "none"],
          [
            "Credentials",
            (info.authentication ?? [])
              .map((/** @type {string} */ one) => enumName(one, "AUTHENTICATION_METHOD_"))
              .join(", ") || "not wanted: every caller may do everything",
          ],
        ]),
      ),
      h(
        "div.card",
        null,
        h("h2", null, "Server"),
        facts([
          ["Version", `${info.version ?? ""} (${String(info.revision ?? "").slice(0, 12)})`],
          ["Started", when(info.startTime)],
          ["Word vectors", info.hasWordVectors ? "yes" : "none: Query compares equal words"],
          ["Templates", (info.templates ?? []).length ? said(info.templates.join(", ")) : "none"],
          [
            "Plain text beyond this machine",
            info.plaintextBeyondLoopback ? "yes: other machines reach it without TLS" : "no",
          ],
        ]),
      ),
      h(
        "div.card",
        null,
        h("h2", null, "Store"),
        facts([
          ["Kind", store.kind],
          ["Schema", String(store.schemaVersion ?? "")],
          ["Survives", SURVIVES[enumName(store.durability, "DURABILITY_CLASS_")] ?? "not known yet"],
          [
            "Written by",
            enumName(store.coherence, "COHERENCE_MODE_") === "exclusive"
              ? "this server alone"
              : "any number of servers",
          ],
        ]),
      ),
      h(
        "div.card",
        null,
        h("h2", null, "Limits"),
        facts(
          Object.entries(info.limits ?? {}).map(([name, value]) => [
            name.replace(/([A-Z])/g, " $1").toLowerCase(),
            BYTES.has(name)
              ? bytes(value)
              : /^-?\d+$/.test(String(value))
                ? count(number(value))
                : String(value),
          ]),
        ),
      ),
    );
  }, signal);
  return { title: "Server", node: h("section", null, h("h1", { tabindex: "-1" }, "Server"), shown.node) };
}
