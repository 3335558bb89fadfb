// @ts-check
// What blocks of several sessions know, in one list.
import { h, said } from "../lib/dom.js";
import { counted, number } from "../lib/format.js";
import { link } from "../lib/router.js";
import { meter } from "./bar.js";
import { evidence, origin } from "./evidence.js";
import { empty } from "./states.js";
import { prose } from "./text.js";

/** What blocks know, with the way to each. @param {any[]} known of `knowledgeOf` @param {string} where what was said stands
 * @returns {HTMLElement} */
export function knownList(known, where) {
  const lines = known.flatMap(({ sessionId, block, reply }) => {
    const from = () =>
      h(
        "a",
        { href: link(["session", sessionId, "memory"], { block }) },
        said(sessionId),
        " · ",
        said(block),
      );
    return [
      ...(reply.facts?.facts ?? []).map((/** @type {any} */ fact) =>
        h(
          "li.fact",
          null,
          h("p.fact-text", null, said(fact.text)),
          h(
            "p.faint",
            null,
            meter(number(fact.trust), "trust"),
            " · ",
            origin(fact, sessionId),
            " · ",
            from(),
          ),
        ),
      ),
      ...(reply.entities?.entities ?? []).map((/** @type {any} */ entity) =>
        h(
          "li",
          null,
          h("b", null, said(entity.name)),
          prose(entity.text ?? ""),
          h("p.faint", null, evidence(entity.messageIds, sessionId), " · ", from()),
        ),
      ),
      ...(reply.summary?.text
        ? [h("li", null, prose(reply.summary.text), h("p.faint", null, "a summary · ", from()))]
        : []),
      ...(number(reply.entries?.entryCount)
        ? [
            h(
              "li",
              null,
              h("p", null, `${counted(reply.entries.entryCount, "earlier text")} to be found again`),
              h("p.faint", null, from()),
            ),
          ]
        : []),
    ];
  });
  if (lines.length === 0) return empty("No block knows anything yet.", where);
  return h("ul.knowledge", null, lines);
}
