// @ts-check
// What changed lately in a session, of all kinds in one line of time; and live.
import { fill, h, said } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { ago, count, counted, dateOf, enumName, number, when } from "../lib/format.js";
import { changesOf, follow } from "../lib/live.js";
import { link } from "../lib/router.js";
import { toolName, toolsOf } from "../parts/message.js";
import { empty, failure, loaded } from "../parts/states.js";

const MOST = 200;

/** @typedef {{time: Date, kind: string, text: import("../lib/dom.js").Child, where: string}} Happening */

/** @param {import("./session.js").TabContext} context */
export function activityTab({ id, session, signal, refresh }) {
  const status = h("p.chat-status", { role: "status" });
  const list = loaded(async () => {
    const all = (await happenings(id, session, signal))
      .sort((a, b) => b.time.getTime() - a.time.getTime())
      .slice(0, MOST);
    if (all.length === 0)
      return empty("Nothing has happened yet.", "Messages, facts and jobs appear here as they come.");
    return grouped(all);
  }, signal);
  void follow(id, String(session.revision ?? "0"), {
    signal,
    changed: async (event) => {
      if (changesOf(event).length) await Promise.all([refresh(), list.reload(true)]);
    },
    state: (state) =>
      fill(
        status,
        state === "away"
          ? "The server does not answer. This goes on when it is back."
          : state === "asks"
            ? "Live, by asking every two seconds: the tenant watches as many sessions as it may."
            : "Live: what changes appears at the top.",
      ),
    gone: (error) => fill(status, failure(error)),
  });
  return h("div.stack", null, status, list.node);
}

/** @param {Happening[]} all the newest first */
function grouped(all) {
  const nodes = [];
  let last = "";
  let rows = h("ul.activity");
  for (const one of all) {
    const group = sectionOf(one.time);
    if (group !== last) {
      rows = h("ul.activity");
      nodes.push(h("h2", null, group), rows);
      last = group;
    }
    rows.append(
      h(
        "li",
        null,
        h("span.badge", null, one.kind),
        h("a.activity-text", { href: one.where }, one.text),
        h("span.faint", null, when(one.time.toISOString())),
      ),
    );
  }
  return h("div.stack", null, nodes);
}

/** @param {Date} time */
function sectionOf(time) {
  const seconds = (Date.now() - time.getTime()) / 1000;
  if (seconds < 60) return "In the last minute";
  if (seconds < 3_600) return "In the last hour";
  return seconds < 86_400 ? "In the last day" : ago(time);
}

/** @param {string} id @param {any} session @param {AbortSignal} signal @returns {Promise<Happening[]>} */
async function happenings(id, session, signal) {
  const blocks = (session.config?.blocks ?? []).filter(
    (/** @type {any} */ one) => !["static", "session", "worker"].includes(one.kind),
  );
  const [messages, jobs, ...known] = await Promise.all([
    call(
      "MemoryService/GetAll",
      { sessionId: id, pageSize: 50, order: "MESSAGE_ORDER_NEWEST_FIRST" },
      { signal },
    ),
    call("JobService/ListJobs", { sessionId: id, pageSize: 1000 }, { signal }),
    ...blocks.map((/** @type {any} */ block) =>
      call("BlockService/GetBlock", { sessionId: id, block: block.name }, { signal }),
    ),
  ]);
  /** @type {Happening[]} */
  const all = [];
  const add = (
    /** @type {any} */ time,
    /** @type {string} */ kind,
    /** @type {import("../lib/dom.js").Child} */ text,
    /** @type {string} */ where,
  ) => {
    const date = dateOf(time);
    if (date) all.push({ time: date, kind, text, where });
  };
  const tools = toolsOf(messages.messages ?? []);
  for (const message of messages.messages ?? []) {
    add(
      message.ingestTime,
      "message",
      [`#${message.position} `, said(message.role), ": ", said(shortText(message, tools))],
      link(["session", id, "messages"], { at: message.messageId }),
    );
  }
  for (const job of jobs.jobs ?? []) {
    add(
      job.updateTime ?? job.createTime,
      "job",
      [
        enumName(job.state, "JOB_STATE_"),
        " for ",
        said(job.block),
        // A job that is done had its errors before.
        job.lastError &&
          (job.state === "JOB_STATE_DONE"
            ? `, after ${counted(job.attempts, "attempt")}`
            : [": ", said(job.lastError)]),
      ],
      link(["session", id, "jobs"]),
    );
  }
  known.forEach((reply, at) =>
    ofBlock(reply, link(["session", id, "memory"], { block: blocks[at].name }), add),
  );
  return all;
}

/** @param {any} message @param {Map<string, string>} tools their names by the ids of their calls */
function shortText(message, tools) {
  const text =
    message.text ?? (message.parts ?? []).map((/** @type {any} */ part) => partText(part, tools)).join(" ");
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}

/** @param {any} part @param {Map<string, string>} tools */
function partText({ toolCall, toolResult, ...part }, tools) {
  if (toolCall) return `${toolCall.name || "a tool"} ${toolCall.argumentsJson ?? ""}`;
  if (toolResult) {
    return `${toolName(toolResult, tools)} ${toolResult.isError ? "failed" : "returned"} ${toolResult.text ?? ""}`;
  }
  return part.text ?? `[${Object.keys(part)[0] ?? ""}]`;
}

/** @param {any} fact */
function factText(fact) {
  if (number(fact.seenCount) > 1) return `said again (${count(fact.seenCount)} times): `;
  return number(fact.change) > 0 ? "added by hand: " : "learnt: ";
}

/** @param {any} past a PastFact @param {any[]} facts that hold now */
function pastText(past, facts) {
  const undone = past.end === "FACT_END_UNDONE";
  const back = undone ? facts.filter((one) => (past.replacedBy ?? []).includes(one.factId)) : [];
  return [
    `${enumName(past.end, "FACT_END_")}: `,
    h("s", null, said(past.fact?.text)),
    back.map((one) => [", so again: ", said(one.text)]),
  ];
}

/** @param {any} reply a GetBlockResponse @param {string} where
 * @param {(time: any, kind: string, text: import("../lib/dom.js").Child, where: string) => void} add */
function ofBlock(reply, where, add) {
  const facts = reply.facts?.facts ?? [];
  for (const fact of facts) {
    const isNew = number(fact.seenCount) < 2;
    add(
      isNew ? (fact.firstTime ?? fact.lastTime) : fact.lastTime,
      "fact",
      [factText(fact), said(fact.text)],
      where,
    );
  }
  for (const past of reply.facts?.history ?? []) add(past.time, "fact", pastText(past, facts), where);
  for (const entity of reply.entities?.entities ?? []) {
    add(entity.lastTime, "entity", ["seen: ", said(entity.name)], where);
  }
  if (reply.summary?.text) add(reply.updateTime, "summary", "fed", where);
}
