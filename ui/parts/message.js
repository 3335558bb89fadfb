// @ts-check
// A message as a part of a chat.
import { append, h, icon, said } from "../lib/dom.js";
import { atClock, bytes, count, decoded, when } from "../lib/format.js";
import { link } from "../lib/router.js";
import { binary, facts, json, prose } from "./text.js";
import { media } from "./media.js";
import { steps } from "./steps.js";

const FIRST_PARTS = 20;
const HUMAN = new Set([
  "user",
  "human",
  "customer",
  "client",
  "guest",
  "visitor",
  "caller",
  "person",
  "prompter",
  "end_user",
  "end-user",
  "end user",
  "human_message",
]);
const TOOL = new Set(["tool", "function"]);

/** The side of the chat that a role is on. @param {string} role */
export function sideOf(role) {
  const name = role.toLowerCase();
  if (HUMAN.has(name)) return "human";
  if (TOOL.has(name)) return "tool";
  return name === "system" || name === "developer" ? "system" : "model";
}

/**
 * @param {any} message a Message
 * @param {{sessionId?: string, isPinned?: boolean, signal: AbortSignal, extra?: import("../lib/dom.js").Child,
 *   tools?: Map<string, string>}} options `tools` are the names of tools by the ids of their calls
 */
export function messageNode(message, { sessionId, isPinned, signal, extra, tools = new Map() }) {
  const role = message.role ?? "";
  const isArchived = message.status === "MESSAGE_STATUS_ARCHIVED";
  const classes = [`is-${sideOf(role)}`, isArchived && "is-archived", extra && "is-inserted"]
    .filter(Boolean)
    .join(".");
  return h(
    `article.message.${classes}`,
    {
      dataset: { id: message.messageId ?? "", position: message.position ?? "" },
      "aria-label": `${role} ${message.position ? `, message ${message.position}` : ""}`,
    },
    header(message, sessionId, isPinned),
    body(message, signal, tools),
    details(message),
    extra,
  );
}

/** @param {any} message @param {string | undefined} sessionId @param {boolean | undefined} isPinned */
function header(message, sessionId, isPinned) {
  const place = message.position && `#${message.position}`;
  return h(
    "header",
    null,
    h("span.role", null, said(message.role)),
    message.name && h("span.name", null, said(message.name)),
    message.position &&
      (sessionId && message.messageId
        ? h(
            "a.place",
            { href: link(["session", sessionId], { at: message.messageId }), title: "Link to this message" },
            place,
          )
        : h("span.place", null, place)),
    atClock(message.createTime ?? message.ingestTime),
    message.tokenCount !== undefined && h("span.faint", null, `${count(message.tokenCount)} tokens`),
    h(
      "span.badges",
      null,
      isPinned && badge("pinned", "Never leaves short-term memory"),
      message.status === "MESSAGE_STATUS_ARCHIVED" && archivedBadge(sessionId),
      message.expireTime && h("span.badge.warn", null, "expires ", when(message.expireTime)),
      message.untrusted && badge("untrusted", "From a source that is not trusted", "warn"),
      message.sourceSessionId &&
        h(
          "span.badge",
          null,
          "from ",
          h(
            "a",
            { href: link(["session", message.sourceSessionId], { at: message.sourceMessageId }) },
            said(message.sourceSessionId),
          ),
        ),
    ),
  );
}

/** It leads to why. @param {string | undefined} sessionId */
function archivedBadge(sessionId) {
  const title = "Has left short-term memory; it can still be found";
  if (!sessionId) return badge("archived", title);
  return h("a.badge", { title, href: link(["session", sessionId, "context"]) }, "archived");
}

/** Shows a message as one that has left meanwhile. @param {Element} node made by `messageNode`
 * @param {string} sessionId */
export function markArchived(node, sessionId) {
  node.classList.add("is-archived");
  node.querySelector(".badges")?.append(archivedBadge(sessionId));
}

/** @param {string} text @param {string} title @param {string} [kind] */
export function badge(text, title, kind) {
  return h(kind ? `span.badge.${kind}` : "span.badge", { title }, text);
}

/** @param {any} result a ToolResult @param {Map<string, string>} tools the names of tools by the ids of their calls */
export function toolName(result, tools) {
  return result.name || tools.get(result.callId) || (result.callId ? `call ${result.callId}` : "a tool");
}

/** The names of the tools that messages call, by the ids of the calls: a result need not name its tool.
 * @param {any[]} messages @returns {Map<string, string>} */
export function toolsOf(messages) {
  const calls = messages.flatMap((message) => message.parts ?? []).map(({ toolCall }) => toolCall ?? {});
  return new Map(calls.map(({ callId, name }) => [callId, name]));
}

/** @param {any} message @param {AbortSignal} signal @param {Map<string, string>} tools */
function body(message, signal, tools) {
  if (message.text !== undefined) return prose(message.text);
  const parts = message.parts ?? [];
  if (parts.length === 0) return h("p.faint", null, "No content.");
  return partList(parts, signal, tools);
}

/** @param {any[]} parts @param {AbortSignal} signal @param {Map<string, string>} [tools] */
export function partList(parts, signal, tools = new Map()) {
  return steps(parts, FIRST_PARTS, (one) => part(one, signal, tools), "part", "div.parts");
}

/** @param {any} one a Part @param {AbortSignal} signal @param {Map<string, string>} tools */
function part(one, signal, tools) {
  if (one.text !== undefined) return prose(one.text);
  for (const kind of ["image", "audio", "video", "document"]) {
    if (one[kind]) return media(one[kind], kind, signal);
  }
  if (one.toolCall) return toolCall(one.toolCall);
  if (one.toolResult) return toolResult(one.toolResult, tools);
  if (one.thinking) return thinking(one.thinking);
  if (one.citation) return citation(one.citation);
  if (one.json !== undefined) return folded("file", "JSON", preview(one.json), () => json(one.json));
  if (one.opaque) {
    const data = decoded(one.opaque.data ?? "");
    return folded("file", said(one.opaque.type), bytes(data.length), () => binary(data));
  }
  return h("p.faint", null, "A part of a kind that this page does not know.");
}

/** @param {string} name of an icon @param {import("../lib/dom.js").Child} title @param {string} line
 * @param {() => import("../lib/dom.js").Child} inside made when it is opened: a conversation has thousands */
function folded(name, title, line, inside) {
  const place = h("div.fold-body");
  const fold = h(
    "details.fold",
    {
      ontoggle: () => {
        if (fold.open && !place.firstChild) append(place, [inside()]);
      },
    },
    h("summary", null, icon(name), h("b", null, title), " ", said(line, "span")),
    place,
  );
  return fold;
}

/** @param {string} text */
function preview(text) {
  const line = text.slice(0, 200).replace(/\s+/g, " ");
  return line.length > 90 ? `${line.slice(0, 90)}…` : line;
}

/** @param {any} call */
function toolCall(call) {
  if (!call.name && !call.argumentsJson) return null; // A mark for a framework.
  return folded("tool", said(call.name || "a tool"), preview(call.argumentsJson ?? ""), () => [
    json(call.argumentsJson ?? ""),
    call.callId && facts([["Call", said(call.callId, "code")]]),
  ]);
}

/** @param {any} result @param {Map<string, string>} tools */
function toolResult(result, tools) {
  if (!result.name && !result.text) return null;
  const name = toolName(result, tools);
  const fold = folded(
    "result",
    [said(name), result.isError ? " failed" : " returned"],
    preview(result.text ?? ""),
    () => [json(result.text ?? ""), result.callId && facts([["Call", said(result.callId, "code")]])],
  );
  if (result.isError) fold.classList.add("is-error");
  return fold;
}

/** @param {any} thought */
function thinking(thought) {
  const text = thought.text ?? "";
  return folded("thought", "Reasoning", preview(text) || "without its text", () => [
    prose(text),
    facts([
      ["Tokens", thought.tokenCount && count(thought.tokenCount)],
      ["Signature", thought.signature && prose(thought.signature, "pre.code")],
    ]),
    thought.additionalJson && json(thought.additionalJson),
  ]);
}

/** @param {any} one a Citation */
function citation(one) {
  return h(
    "blockquote.citation",
    null,
    prose(one.citedText ?? ""),
    h("footer", null, said(one.title), one.title && one.source && " · ", said(one.source)),
    one.locationJson && json(one.locationJson),
  );
}

/** What a message has besides its content. @param {any} message */
function details(message) {
  const known = [message.metadataJson, message.writer, message.threadId].some(Boolean);
  if (!known) return null;
  return h(
    "details.meta",
    null,
    h("summary", null, "Details"),
    facts([
      ["Id", message.messageId && said(message.messageId, "code")],
      ["Thread", message.threadId && said(message.threadId)],
      ["Written by", message.writer && said(message.writer)],
      ["Accepted", message.ingestTime && when(message.ingestTime)],
      ["Metadata", message.metadataJson && json(message.metadataJson)],
    ]),
  );
}

/** The value of a Content or of an Item. @param {any} content @param {AbortSignal} signal */
export function contentValue(content, signal) {
  if (content.text !== undefined) return prose(content.text);
  if (content.json !== undefined) return json(content.json);
  if (content.image) return media(content.image, "image", signal);
  if (content.bytesValue !== undefined) {
    return media({ data: content.bytesValue, mimeType: content.mimeType }, "content", signal);
  }
  return h("p.faint", null, "No value.");
}
