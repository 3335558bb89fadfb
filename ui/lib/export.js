// @ts-check
// Files of what is remembered, in the format that `memoryd import` reads (docs/EXPORT.md).
import { call, callAll, stream } from "./api.js";

/** Names as the format has them. All objects of replies are messages of protos, so all keys are names of
 * fields. @param {any} value @returns {any} */
function inSnakeCase(value) {
  if (Array.isArray(value)) return value.map(inSnakeCase);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [
      key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      inSnakeCase(one),
    ]),
  );
}

/** @param {string} kind @param {any} value */
function line(kind, value) {
  return `${JSON.stringify({ [kind]: inSnakeCase(value) })}\n`;
}

/**
 * The sessions and namespaces as a file.
 * @param {any[]} sessions @param {any[]} namespaces @param {(text: string) => void} say told how far it is
 * @param {AbortSignal} signal @returns {Promise<Blob>}
 */
export async function exported(sessions, namespaces, say, signal) {
  const counts = { sessions: 0, messages: 0, contents: 0, namespaces: 0, items: 0 };
  /** @type {BlobPart[]} */
  const pieces = [];
  let lines = `{"memoryd_export":${namespaces.length ? 2 : 1}}\n`;
  const put = (/** @type {string} */ text) => {
    lines += text;
    if (lines.length < 1 << 20) return;
    // The browser may keep a Blob on disk, but no text.
    pieces.push(new Blob([lines]));
    lines = "";
  };
  for (const { sessionId, config, createTime, template } of sessions) {
    put(line("session", { sessionId, config, createTime, template }));
    ++counts.sessions;
    for await (const page of stream(
      "MemoryService/StreamAll",
      { sessionId, includeContents: true },
      { signal },
    )) {
      for (const message of page.messages ?? []) put(line("message", message));
      for (const content of page.contents ?? []) put(line("content", content));
      counts.messages += (page.messages ?? []).length;
      counts.contents += (page.contents ?? []).length;
      say(`${counts.sessions} of ${sessions.length} sessions, ${counts.messages} messages…`);
    }
  }
  for (const { namespace, config, createTime } of namespaces) {
    put(line("namespace", { namespace, config, createTime }));
    ++counts.namespaces;
    const { entries } = await callAll(
      "ItemService/ListItems",
      { namespace, order: "ITEM_ORDER_OLDEST_FIRST", withVectors: true, refreshTtl: false, pageSize: 1000 },
      "items",
      { signal, most: Infinity },
    );
    for (const { namespace: _namespace, version: _version, ...item } of entries) put(line("item", item));
    counts.items += entries.length;
    say(`${counts.namespaces} of ${namespaces.length} namespaces, ${counts.items} items…`);
  }
  const { namespaces: spaces, items, ...others } = counts;
  put(line("end", namespaces.length ? counts : others));
  pieces.push(lines);
  return new Blob(pieces);
}

/** What all blocks of the sessions know. @param {any[]} sessions @param {AbortSignal} signal */
export async function knowledgeOf(sessions, signal) {
  const known = [];
  for (const session of sessions) {
    for (const block of session.config?.blocks ?? []) {
      if (block.kind === "static" || block.kind === "session") continue;
      const reply = await call(
        "BlockService/GetBlock",
        { sessionId: session.sessionId, block: block.name },
        { signal },
      );
      known.push({ sessionId: session.sessionId, block: block.name, kind: block.kind, reply });
    }
  }
  return known;
}
