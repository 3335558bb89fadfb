// @ts-check
// What the blocks of a session know, block by block.
import { fill, h, said } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { count, counted, decoded, number, optionsOf, when } from "../lib/format.js";
import { knowledgeOf } from "../lib/export.js";
import { link } from "../lib/router.js";
import { command, empty, failure, loaded, shellName } from "../parts/states.js";
import { partList } from "../parts/message.js";
import { binary, facts, json, prose } from "../parts/text.js";
import { evidence } from "../parts/evidence.js";
import { gaps, jobsOf } from "../parts/gaps.js";
import { meter } from "../parts/bar.js";
import { knownList } from "../parts/known.js";
import { factsPanel } from "./facts.js";

const RETRIEVAL = ".retrieval";
/** @type {Record<string, string>} */
const KINDS = {
  static: "a text that was written",
  "fact-extraction": "facts, with evidence",
  summary: "one summary",
  entity: "people, places and things",
  vector: "earlier texts that resemble the current ones",
  session: "what another session knows",
  worker: "what your own code makes of the messages",
};

/** @param {import("./session.js").TabContext} context */
export function memoryTab({ id, session, place, signal, refresh }) {
  const blocks = session.config?.blocks ?? [];
  const names = blocks.map((/** @type {any} */ block) => ({ name: block.name, kind: block.kind }));
  if (session.config?.retrieval?.embedder)
    names.push({ name: RETRIEVAL, kind: "embeddings of the messages" });
  if (names.length === 0) return noBlocks(id);
  const wanted = place.query.get("block");
  /** @type {Promise<any[]> | undefined} */
  let asked;
  const jobs = () =>
    (asked ??= jobsOf(id, signal).catch((error) => {
      asked = undefined;
      throw error;
    }));
  return h(
    "div.stack",
    null,
    names.map((/** @type {{name: string, kind: string}} */ { name, kind }) => {
      const head = h(
        "header",
        null,
        h("h2", null, said(name)),
        h("span.badge", null, kind),
        h("span.faint", null, KINDS[kind] ?? ""),
      );
      // The header says when the session changed.
      const changed = async () => {
        await Promise.all([block.reload(true), refresh()]);
      };
      const block = loaded(async () => {
        const reply = await call("BlockService/GetBlock", { sessionId: id, block: name }, { signal });
        const made = number(reply.jobsMade) > 0 ? await jobs() : [];
        return [progress(reply, made, id, name), knowledge(reply, id, signal, changed)];
      }, signal);
      const node = h("section.card.block", { dataset: { block: name } }, head, block.node);
      if (name === wanted) requestAnimationFrame(() => node.scrollIntoView({ block: "start" }));
      return node;
    }),
  );
}

/** @param {string} id */
function noBlocks(id) {
  return empty(
    "The session has no long-term memory.",
    "Blocks learn from messages that leave short-term memory: facts, a summary, people, earlier texts.",
    command(
      `curl -sS ${location.origin}/memoryd.v1.SessionService/UpdateSession -H 'Content-Type: application/json' \\\n` +
        `  -d '${JSON.stringify({ sessionId: shellName(id), config: { blocks: [{ name: "facts", kind: "fact-extraction", optionsJson: '{"model": "chat"}' }] } })}'`,
    ),
    h("p", null, "Here ", h("code", null, "chat"), " is a model of the server’s settings."),
  );
}

/** What is said of a block that nothing is missing in, by its kind. */
const FED = "Fed with all that left short-term memory";
/** @type {Record<string, string>} */
const FED_OTHERWISE = {
  session: "All messages were handed on to that session",
  [RETRIEVAL]: "All messages have vectors",
};

/** @param {any} reply a GetBlockResponse @param {any[]} jobs of the session @param {string} id @param {string} block */
function progress(reply, jobs, id, block) {
  const made = number(reply.jobsMade);
  if (made === 0) return null;
  const isReplaced = Boolean(reply.entries?.next ?? reply.embeddings?.next);
  const missing = gaps(jobs, id, block, isReplaced);
  // The server forgets how a job ended after a day.
  const isKnown = jobs.filter((job) => job.block === block).length >= made;
  return [
    missing.map(({ isError, text }) => h(`p.note.${isError ? "bad" : "warn"}`, null, text)),
    h(
      "p.faint",
      null,
      missing.length === 0 && isKnown && `${FED_OTHERWISE[reply.block?.kind || block] ?? FED} · `,
      counted(made, "job"),
      " in all · last change ",
      when(reply.updateTime),
    ),
  ];
}

/** @param {any} reply @param {string} id @param {AbortSignal} signal @param {() => Promise<void>} reload
 * @returns {import("../lib/dom.js").Child} */
function knowledge(reply, id, signal, reload) {
  const block = reply.block ?? {};
  if (reply.facts) return factsPanel({ id, block: block.name, known: reply.facts, reload });
  if (reply.summary) return summary(reply.summary, id);
  if (reply.entities) return entities(reply.entities, id);
  if (reply.entries) return entries(reply.entries, id, block.name, signal);
  if (reply.embeddings) return embeddings(reply.embeddings);
  if (reply.workerState !== undefined) {
    const state = decoded(reply.workerState);
    return state.length
      ? binary(state, `${block.name}.state`)
      : empty("The worker has returned no state yet.");
  }
  if (block.kind === "static")
    return (block.content ?? []).length ? partList(block.content, signal) : empty("The text is empty.");
  if (block.kind === "session") return otherSession(block, signal);
  // A field with its default is absent from a reply.
  /** @type {Record<string, object>} */
  const empties = {
    "fact-extraction": { facts: {} },
    summary: { summary: {} },
    entity: { entities: {} },
    vector: { entries: {} },
  };
  const nothing = empties[block.kind];
  return nothing ? knowledge({ ...reply, ...nothing }, id, signal, reload) : empty("It knows nothing yet.");
}

/** @param {any} block @param {AbortSignal} signal */
function otherSession(block, signal) {
  const other = optionsOf(block).session_id ?? "";
  if (!other) return h("p", null, "It shows what another session knows.");
  const known = loaded(async () => {
    const { session } = await call("SessionService/GetSession", { sessionId: other }, { signal });
    return knownList(
      await knowledgeOf([session ?? {}], signal),
      "That session’s messages hold what was said.",
    );
  }, signal);
  return h(
    "div.stack",
    null,
    h(
      "p",
      null,
      "It shows what ",
      h("a", { href: link(["session", other, "memory"]) }, said(other)),
      " knows:",
    ),
    known.node,
  );
}

/** @param {any} known @param {string} id */
function summary(known, id) {
  if (!known.text) return empty("No summary yet.", "It is written when messages leave short-term memory.");
  const ends = [known.firstMessageId, known.lastMessageId].filter(Boolean);
  return h(
    "div",
    null,
    prose(known.text, "div.prose.summary"),
    h(
      "p.faint",
      null,
      `Of ${counted(known.messageCount, "message")}, from `,
      h("a", { href: link(["session", id, "messages"], { at: ends[0] }) }, "the first"),
      " to ",
      h("a", { href: link(["session", id, "messages"], { at: ends[1] }) }, "the last"),
    ),
    (known.earlier ?? []).length > 0 &&
      h(
        "details.meta",
        null,
        h("summary", null, counted(known.earlier.length, "earlier summary", "earlier summaries")),
        [...known.earlier].reverse().map((/** @type {string} */ text) => prose(text, "div.prose.past")),
      ),
  );
}

/** @param {any} known @param {string} id */
function entities(known, id) {
  const all = [...(known.entities ?? [])].reverse();
  if (all.length === 0)
    return empty(
      "Nobody and nothing yet.",
      "A line for each person, place or thing is written when messages leave short-term memory.",
    );
  const line = (/** @type {any} */ entity, /** @type {import("../lib/dom.js").Child} */ note) =>
    h(
      "li",
      null,
      h("b", null, said(entity.name)),
      prose(entity.text ?? ""),
      h("p.faint", null, evidence(entity.messageIds, id), " · ", note),
    );
  return h(
    "div",
    null,
    h(
      "ul.knowledge",
      null,
      all.map((entity) => line(entity, ["seen ", when(entity.lastTime)])),
    ),
    (known.history ?? []).length > 0 &&
      h(
        "details.meta",
        null,
        h("summary", null, `${count(known.history.length)} before`),
        h(
          "ul.knowledge.past",
          null,
          [...known.history]
            .reverse()
            .map((/** @type {any} */ past) => line(past.entity ?? {}, ["until ", when(past.time)])),
        ),
      ),
  );
}

/** @param {any} source an EmbeddingSource */
function sourceText(source) {
  return [
    said(source.embedder),
    source.worker && [" of worker ", said(source.worker)],
    source.model && [" (", said(source.model), ")"],
    number(source.dimensions) > 0 && `, ${source.dimensions} numbers each`,
  ];
}

/** @param {any} known */
function embeddings(known) {
  const next = known.next;
  return h(
    "div",
    null,
    facts([
      ["Vectors by", known.source && sourceText(known.source)],
      ["To be replaced by", next && sourceText(next.source ?? {})],
    ]),
    next &&
      h(
        "p",
        null,
        meter(number(next.doneCount) / Math.max(1, number(next.totalCount)), "done"),
        ` ${count(next.doneCount)} of ${count(next.totalCount)}`,
      ),
  );
}

/** @param {any} known @param {string} id @param {string} block @param {AbortSignal} signal */
function entries(known, id, block, signal) {
  const list = h("ul.knowledge");
  const more = h("div");
  let pageToken = "";
  const read = async () => {
    try {
      const reply = await call(
        "BlockService/ListBlockEntries",
        { sessionId: id, block, pageSize: 50, pageToken },
        { signal },
      );
      pageToken = reply.nextPageToken ?? "";
      list.append(
        ...(reply.entries ?? []).map((/** @type {any} */ entry) =>
          h(
            "li",
            null,
            prose(entry.text ?? ""),
            h(
              "p.faint",
              null,
              `#${entry.position} · ${count(entry.dimensions)} numbers · `,
              when(entry.createTime),
              " · ",
              evidence(
                (entry.sources ?? []).map((/** @type {any} */ source) => source.messageId),
                id,
              ),
            ),
            entry.metadataJson &&
              h("details.meta", null, h("summary", null, "Metadata"), json(entry.metadataJson)),
          ),
        ),
      );
      fill(
        more,
        pageToken &&
          h("p.actions", null, h("button", { type: "button", onclick: () => void read() }, "Show more")),
      );
    } catch (error) {
      if (!signal.aborted)
        fill(
          more,
          failure(error, () => void read()),
        );
    }
  };
  if (number(known.entryCount) === 0)
    return empty("No texts yet.", "They come with messages that leave short-term memory.");
  void read();
  return h(
    "div",
    null,
    h(
      "p.faint",
      null,
      counted(known.entryCount, "text"),
      known.source && [" · vectors by ", sourceText(known.source)],
    ),
    embeddings({ next: known.next }),
    list,
    more,
  );
}
