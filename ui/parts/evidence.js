// @ts-check
// The messages that something rests on.
import { h } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { link } from "../lib/router.js";

/** @param {string[] | undefined} messageIds @param {string} id of the session */
export function evidence(messageIds, id) {
  if (!messageIds?.length) return h("span.faint", null, "no message");
  return h(
    "span.evidence",
    null,
    messageIds.map((messageId, at) =>
      h(
        "a.chip",
        { href: link(["session", id, "messages"], { at: messageId }), title: messageId },
        nameOf(messageId) ?? (messageIds.length === 1 ? "the message" : `message ${at + 1}`),
      ),
    ),
  );
}

/** What a fact rests on. @param {any} fact @param {string} id of the session */
export function origin(fact, id) {
  const isByHand = number(fact.change) > 0 || Boolean(fact.writer);
  return isByHand && !fact.messageIds?.length
    ? h("span.faint", null, "added by hand")
    : evidence(fact.messageIds, id);
}

/** An id that the server derived ends with the message's number. @param {string} messageId */
function nameOf(messageId) {
  const derived = /^[0-9a-f]{16}-(\d+)$/.exec(messageId);
  return derived ? `#${derived[1]}` : null;
}
