// @ts-check
// What a model would be given now: by Get, and by UpdateContext for a question, beside each other.
import { fill, h, said } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { count, counted, number } from "../lib/format.js";
import { link } from "../lib/router.js";
import { bar } from "../parts/bar.js";
import { gaps, jobsOf } from "../parts/gaps.js";
import { empty, failure, loaded, loading } from "../parts/states.js";
import { messageNode, toolsOf } from "../parts/message.js";
import { steps } from "../parts/steps.js";
import { contentNode } from "./contents.js";

const FIRST_MESSAGES = 50;

/** @param {import("./session.js").TabContext} context */
export function contextTab({ id, session, place, signal }) {
  const question = h("input", {
    id: "question",
    type: "search",
    dir: "auto",
    autocomplete: "off",
    placeholder: "What does the user ask next?",
    value: place.query.get("question") ?? "",
  });
  const beside = h("div");
  const ask = () => void showQuestion(beside, id, question.value.trim(), signal);
  const form = h(
    "form.filters",
    {
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        history.replaceState(null, "", link(["session", id, "context"], { question: question.value.trim() }));
        ask();
      },
    },
    h("div.field.grow", null, h("label", { for: "question" }, "A question"), question),
    h("button", { type: "submit" }, "Show what memory adds"),
  );
  const now = loaded(() => showGet(id, session, signal), signal);
  if (question.value) ask();
  else
    fill(
      beside,
      empty(
        "Type a question.",
        "It shows what memory adds for it, as UpdateContext does: what stands before every question, and what is recalled for this one. No model answers it.",
      ),
    );
  return h(
    "div.columns",
    null,
    h(
      "div",
      null,
      h(
        "div.column-head",
        null,
        h("h2", null, "What a Get returns now"),
        h("button", { type: "button", onclick: () => void now.reload() }, "Again"),
      ),
      now.node,
    ),
    h("div", null, h("div.column-head", null, h("h2", null, "For a question")), form, beside),
  );
}

/** Why a message of short-term memory is left out. @type {Record<string, string>} */
const LEFT_OUT = {
  TOKEN_LIMIT: "beside what the blocks say, they exceed the token limit",
  RESULT_WITHOUT_CALL: "the calls of these tool results are not in short-term memory",
  CALL_WITHOUT_RESULT: "tool calls of which results are missing, and their results",
  BEFORE_HUMAN: "they come before the first message of the human side",
  EXPIRED: "their time is over; a sweep removes them",
};

/** @param {string} id @param {any} session @param {AbortSignal} signal */
async function showGet(id, session, signal) {
  const hasBlocks = (session.config?.blocks ?? []).length > 0;
  const [reply, jobs] = await Promise.all([
    call("MemoryService/Get", { sessionId: id, explain: true }, { signal }),
    hasBlocks ? jobsOf(id, signal) : [],
  ]);
  const messages = reply.messages ?? [];
  const why = reply.explanation ?? {};
  const tools = toolsOf(messages);
  return h(
    "div.stack",
    null,
    budget(reply, session, jobs, id),
    number(reply.overLimitTokens) > 0 &&
      h(
        "p.note.warn",
        null,
        `${counted(reply.overLimitTokens, "token")} over the limit: pinned messages and the newest turn are always shown.`,
      ),
    leftOut(why, id, session),
    messages.length === 0
      ? empty("Nothing.", "A model would be given no message and no memory.")
      : steps(
          messages,
          FIRST_MESSAGES,
          (message) => messageNode(message, { sessionId: id, signal, tools, extra: insertedNote(message) }),
          "message",
        ),
  );
}

/** @param {any} message of a Get */
function insertedNote(message) {
  const first = message.text ?? message.parts?.[0]?.text ?? "";
  if (!message.messageId) return h("p.inserted", null, "Made by memory");
  return first.startsWith("<memory>") ? h("p.inserted", null, "Memory stands before its own text") : null;
}

/** @param {any} reply @param {any} session @param {any[]} jobs of the session @param {string} id */
function budget(reply, session, jobs, id) {
  const limit = number(reply.limit || session.config?.tokenLimit);
  const total = number(reply.tokenCount);
  return h(
    "div",
    null,
    h("p.big", null, h("b", null, count(total)), ` of ${count(limit)} tokens`),
    bar(explained(reply.explanation ?? {}, reply, jobs, id), limit, "Tokens of the context", "tokens"),
  );
}

/** @param {any} why @param {any} reply @param {any[]} jobs @param {string} id
 * @returns {import("../parts/bar.js").Segment[]} */
function explained(why, reply, jobs, id) {
  const blocks = (why.blocks ?? []).map((/** @type {any} */ block) => ({
    name: block.block,
    where: link(["session", id, "memory"], { block: block.block }),
    value: number(block.tokenCount),
    ...outcomeOf(block, number(reply.tokenCount), number(why.tokenLimit), gaps(jobs, id, block.block)),
  }));
  const inBlocks = blocks.reduce(
    (/** @type {number} */ sum, /** @type {any} */ block) => sum + block.value,
    0,
  );
  const around = number(why.blockTokenCount) - inBlocks;
  const pinned = number(why.pinnedTokenCount);
  const shown = (reply.messages ?? []).filter((/** @type {any} */ one) => one.messageId).length;
  return [
    ...blocks,
    ...(around > 0 ? [{ name: "tags", value: around, note: "around the blocks" }] : []),
    ...(pinned > 0 ? [{ name: "pinned messages", value: pinned, note: "never leave" }] : []),
    {
      name: "messages",
      value: number(why.messageTokenCount) - pinned,
      note: pinned ? `${counted(shown, "message")} with the pinned` : counted(shown, "message"),
    },
  ];
}

/** @param {any} block an ExplainedBlock @param {number} total tokens that are returned @param {number} limit
 * @param {ReturnType<typeof gaps>} missing @returns {{cut?: boolean, note: import("../lib/dom.js").Child}} */
function outcomeOf(block, total, limit, missing) {
  const { note, ...rest } = outcome(block, total, limit);
  if (missing.length === 0) return { note, ...rest };
  const lines = missing.map(({ isError, text }) => h(isError ? "span.bad-text" : "span", null, text, " "));
  const isEmpty = block.outcome === "BLOCK_OUTCOME_EMPTY";
  return { note: isEmpty ? ["has nothing to say. ", lines] : [note, ". ", lines], ...rest };
}

/** @param {any} block an ExplainedBlock @param {number} total @param {number} limit
 * @returns {{cut?: boolean, note: import("../lib/dom.js").Child}} */
function outcome(block, total, limit) {
  const uncut = counted(block.uncutTokenCount, "token");
  const whole = total - number(block.tokenCount) + number(block.uncutTokenCount);
  // Beside other blocks that were left out later, it would fit now.
  const why = whole > limit ? `whole, the context would have ${count(whole)} of ${count(limit)}` : "";
  switch (block.outcome) {
    case "BLOCK_OUTCOME_CUT":
      return { note: `cut: it has ${uncut}; ${why || "the others leave it this room"}` };
    case "BLOCK_OUTCOME_DROPPED":
      return { cut: true, note: `left out: it has ${uncut}; ${why || "the others left it no room"}` };
    case "BLOCK_OUTCOME_EMPTY":
      return { cut: true, note: "has nothing to say yet" };
    case "BLOCK_OUTCOME_MISSING":
      return { cut: true, note: ["could not answer: ", h("code", null, block.missingReason ?? "")] };
    default:
      return { note: number(block.priority) === 0 ? "whole; never cut" : "whole" };
  }
}

/** @param {any} why @param {any} session */
function whyArchived(why, session) {
  const bound = number(why.shortTermTokenLimit);
  if (bound > 0)
    return `: it may have ${counted(bound, "token")} besides the pinned messages. When a Put makes it more, its oldest messages leave, at least ${counted(why.tokenFlushSize, "token")} of them`;
  return session.config?.profile === "default" ? ": it keeps the newest turn only" : "";
}

/** What is not shown, and why. @param {any} why @param {string} id @param {any} session */
function leftOut(why, id, session) {
  const archived = number(why.archivedCount);
  const runs = why.leftOut ?? [];
  if (archived === 0 && runs.length === 0)
    return h("p.note", null, "Nothing is cut: every message is shown.");
  return h(
    "div.note",
    null,
    h("b", null, "What is cut"),
    h(
      "ul.plain",
      null,
      archived > 0 &&
        h(
          "li",
          null,
          counted(archived, "message"),
          " up to ",
          place(id, { firstPosition: why.watermark, lastPosition: why.watermark }),
          ` ${archived === 1 ? "has" : "have"} left short-term memory${whyArchived(why, session)}. `,
          h("a", { href: link(["session", id, "search"]) }, "Search"),
          " still finds them.",
          number(why.openingPosition) > 0 &&
            ` #${why.openingPosition} is shown all the same: it opens the newest turn.`,
        ),
      runs.map((/** @type {any} */ run) =>
        h(
          "li",
          null,
          counted(run.messageCount, "message"),
          ", ",
          place(id, run),
          `, ${count(run.tokenCount)} tokens: `,
          LEFT_OUT[String(run.reason).replace("LEFT_OUT_REASON_", "")] ?? String(run.reason),
        ),
      ),
    ),
  );
}

/** @param {string} id @param {any} run a LeftOutMessages */
function place(id, run) {
  const first = h(
    "a",
    { href: link(["session", id], { position: run.firstPosition }) },
    `#${run.firstPosition}`,
  );
  return run.firstPosition === run.lastPosition ? first : [first, ` to #${run.lastPosition}`];
}

/** @param {HTMLElement} beside @param {string} id @param {string} text @param {AbortSignal} signal */
async function showQuestion(beside, id, text, signal) {
  if (!text) return fill(beside, empty("Type a question."));
  fill(beside, loading("Asking"));
  try {
    const reply = await call(
      "MemoryService/UpdateContext",
      { sessionId: id, messages: [{ role: "user", text }] },
      { signal },
    );
    fill(beside, answer(reply, id, signal));
  } catch (error) {
    if (!signal.aborted)
      fill(
        beside,
        failure(error, () => void showQuestion(beside, id, text, signal)),
      );
  }
}

/** @param {any} reply @param {string} id @param {AbortSignal} signal */
function answer(reply, id, signal) {
  const inserted = new Set((reply.insertions ?? []).map((/** @type {any} */ one) => number(one.index)));
  const results = reply.results ?? [];
  return h(
    "div.stack",
    null,
    reply.insertions?.length ? null : h("p.note", null, "Memory has nothing to add to this question."),
    (reply.blocksDropped ?? []).length > 0 &&
      h("p.note.warn", null, "No room for: ", said(reply.blocksDropped.join(", "))),
    number(reply.contentsLeftOut) > 0 &&
      h("p.note.warn", null, `${counted(reply.contentsLeftOut, "content")} left out for lack of room.`),
    steps(
      reply.messages ?? [],
      FIRST_MESSAGES,
      (message, at) =>
        messageNode(message, {
          signal,
          extra: inserted.has(at) && h("p.inserted", null, "Inserted by memory"),
        }),
      "message",
    ),
    results.length > 0 &&
      h(
        "details.fold",
        null,
        h("summary", null, `Recalled for it: ${counted(results.length, "item")}`),
        results.map((/** @type {any} */ result) =>
          result.message
            ? messageNode(result.message, { sessionId: id, signal })
            : result.content
              ? contentNode(result.content, signal)
              : null,
        ),
      ),
  );
}
