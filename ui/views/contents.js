// @ts-check
// The contents of a session: what it should know although nobody said it.
import { fill, h, said } from "../lib/dom.js";
import { callAll } from "../lib/api.js";
import { counted, number, when } from "../lib/format.js";
import { empty, loaded } from "../parts/states.js";
import { contentValue, badge } from "../parts/message.js";
import { steps } from "../parts/steps.js";
import { copyable, facts, json } from "../parts/text.js";

const MOST_MESSAGES = 5_000;

/** @param {import("./session.js").TabContext} context */
export function contentsTab({ id, session, signal }) {
  const messages = number(session.activeCount) + number(session.archivedCount);
  if (number(session.contentCount) === 0) {
    return empty(
      "No contents.",
      "A content is what the agent should know although nobody said it: a note, a JSON " +
        "object, an image. AutoGen’s memories are contents.",
    );
  }
  if (messages <= MOST_MESSAGES) return contentList(id, signal);
  // The list has the messages first.
  const place = h(
    "div",
    null,
    h("p", null, `The contents come after ${counted(messages, "message")}, which are read first.`),
    h(
      "p.actions",
      null,
      h("button", { type: "button", onclick: () => fill(place, contentList(id, signal)) }, "Read them"),
    ),
  );
  return place;
}

/** @param {string} id @param {AbortSignal} signal */
function contentList(id, signal) {
  return loaded(async () => {
    const { entries, isCut } = await callAll(
      "MemoryService/GetAll",
      { sessionId: id, pageSize: 1_000, includeContents: true },
      "contents",
      { signal, most: 1_000 },
    );
    return h(
      "div.stack",
      null,
      steps(entries, 50, (content) => contentNode(content, signal), "content"),
      isCut && h("p.note", null, "Only the first 1,000 are shown."),
    );
  }, signal).node;
}

/** @param {any} content @param {AbortSignal} signal */
export function contentNode(content, signal) {
  return h(
    "article.card",
    null,
    h(
      "header",
      null,
      h("span.role", null, said(content.mimeType)),
      h("span.faint", null, `#${content.position}`),
      when(content.ingestTime),
      content.untrusted && badge("untrusted", "From a source that is not trusted", "warn"),
      content.expireTime && h("span.badge.warn", null, "expires ", when(content.expireTime)),
    ),
    contentValue(content, signal),
    h(
      "details.meta",
      null,
      h("summary", null, "Details"),
      facts([
        ["Id", copyable(content.contentId ?? "")],
        ["Written by", content.writer && said(content.writer)],
        ["Metadata", content.metadataJson && json(content.metadataJson)],
      ]),
    ),
  );
}
