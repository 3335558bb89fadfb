// @ts-check
// All that is remembered of one user, on one page; and how to take it along, or to erase it.
import { fill, h, said } from "../lib/dom.js";
import { call, callAll } from "../lib/api.js";
import { exported, knowledgeOf } from "../lib/export.js";
import { count, counted, number } from "../lib/format.js";
import { needs, ownSubject } from "../lib/caller.js";
import { go, link } from "../lib/router.js";
import { confirmTyped, during, notify } from "../parts/dialog.js";
import { empty, failure, loaded, loading } from "../parts/states.js";
import { evidence, origin } from "../parts/evidence.js";
import { meter } from "../parts/bar.js";
import { prose, save } from "../parts/text.js";
import { row } from "./sessions.js";

const MOST = 1_000;

/** Where a subject is chosen. @param {import("../lib/router.js").Place} _place @param {AbortSignal} signal */
export function subjectsView(_place, signal) {
  const field = h("input", {
    type: "search",
    id: "whose",
    dir: "auto",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "The user, team or agent",
    value: ownSubject(),
    dataset: { search: "" },
  });
  const found = loaded(async () => {
    const { entries, isCut } = await callAll("SessionService/ListSessions", { pageSize: 1000 }, "sessions", {
      signal,
      most: MOST,
    });
    /** @type {Map<string, number>} */
    const subjects = new Map();
    for (const session of entries) {
      const subject = session.config?.subject;
      if (subject) subjects.set(subject, (subjects.get(subject) ?? 0) + 1);
    }
    if (subjects.size === 0)
      return empty(
        "No session has a subject.",
        "Give a session the `subject` it is about, and all that is known of a user comes together here.",
      );
    return [
      h(
        "ul.folders",
        null,
        [...subjects]
          .sort()
          .map(([subject, sessions]) =>
            h(
              "li",
              null,
              h(
                "a.folder",
                { href: link(["subject", subject]) },
                said(subject),
                " ",
                h("span.faint", null, counted(sessions, "session")),
              ),
            ),
          ),
      ),
      isCut &&
        h("p.note", null, `Subjects of the first ${count(MOST)} sessions. Others are found by their name.`),
    ];
  }, signal);
  return {
    title: "Subjects",
    node: h(
      "section",
      null,
      h("h1", { tabindex: "-1" }, "Subjects"),
      h("p.lead", null, "A subject is whom sessions and items are about: a user, mostly."),
      h(
        "form.filters",
        {
          role: "search",
          onsubmit: (/** @type {Event} */ event) => {
            event.preventDefault();
            if (field.value.trim()) go(link(["subject", field.value]));
          },
        },
        h("div.field.grow", null, h("label", { for: "whose" }, "Subject"), field),
        h("button", { type: "submit" }, "Open"),
      ),
      found.node,
    ),
  };
}

/** @param {import("../lib/router.js").Place} place @param {AbortSignal} signal */
export function subjectView(place, signal) {
  const subject = place.path[1] ?? "";
  const body = h("div.stack");
  const title = h("h1", { tabindex: "-1" }, said(subject));
  const show = async () => {
    fill(body, loading());
    try {
      const [sessions, namespaces] = await Promise.all([
        sessionsOf(subject, signal),
        callAll("ItemService/ListNamespaces", { subject, pageSize: 1000, includeEmpty: true }, "namespaces", {
          signal,
          most: MOST,
        }),
      ]);
      fill(body, page(subject, sessions, namespaces, signal, show));
    } catch (error) {
      if (!signal.aborted)
        fill(
          body,
          failure(error, () => void show()),
        );
    }
  };
  void show();
  return {
    title: `About ${subject}`,
    node: h(
      "section",
      null,
      h("p.trail", null, h("a", { href: link(["subjects"]) }, "All subjects")),
      title,
      body,
    ),
  };
}

/** Those that changed last come first. @param {string} subject @param {AbortSignal} signal */
async function sessionsOf(subject, signal) {
  const reply = await call(
    "SessionService/ListSessions",
    { subject, pageSize: MOST, order: "SESSION_ORDER_LAST_CHANGE" },
    { signal },
  );
  return { entries: reply.sessions ?? [], isCut: Boolean(reply.nextPageToken) };
}

/** @param {string} subject @param {{entries: any[], isCut: boolean}} sessions @param {{entries: any[], isCut: boolean}} namespaces
 * @param {AbortSignal} signal @param {() => Promise<void>} again */
function page(subject, sessions, namespaces, signal, again) {
  if (sessions.entries.length + namespaces.entries.length === 0) {
    if (erased.has(subject)) return empty("Nothing is remembered of this subject.", "It was erased.");
    return empty(
      "Nothing is remembered of this subject.",
      "Perhaps it is written otherwise: subjects are compared letter by letter. ",
      h("p.actions", null, eraseButton(subject, again)),
    );
  }
  const messages = sessions.entries.reduce(
    (sum, one) => sum + number(one.activeCount) + number(one.archivedCount),
    0,
  );
  const items = namespaces.entries.reduce((sum, one) => sum + number(one.itemCount), 0);
  const knowledge = loaded(
    async () => knownList(await knowledgeOf(sessions.entries.slice(0, 100), signal), sessions.entries.length),
    signal,
  );
  return [
    h(
      "ul.figures",
      null,
      [
        [sessions.entries.length, "session"],
        [messages, "message"],
        [namespaces.entries.length, "namespace"],
        [items, "item"],
      ].map(([value, noun]) =>
        h("li", null, h("b", null, count(value)), h("span", null, value === 1 ? noun : `${noun}s`)),
      ),
    ),
    h(
      "p.actions",
      null,
      exportButton(subject, sessions.entries, namespaces.entries, signal),
      knowledgeButton(subject, sessions.entries, signal),
      h("span.spring"),
      eraseButton(subject, again),
    ),
    h("section", null, h("h2", null, "What is known"), knowledge.node),
    sessions.entries.length > 0 &&
      h(
        "section",
        null,
        h("h2", null, "Sessions"),
        h(
          "table.wide.cards",
          null,
          h("caption.hidden", null, "Sessions"),
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              ["Session", "Subject", "Messages", "Tokens", "Size", "Last change"].map((name, at) =>
                h(at > 1 && at < 5 ? "th.amount" : "th", { scope: "col" }, name),
              ),
            ),
          ),
          h("tbody", null, sessions.entries.map(row)),
        ),
      ),
    namespaces.entries.length > 0 &&
      h(
        "section",
        null,
        h("h2", null, "Items"),
        h(
          "ul.folders",
          null,
          namespaces.entries.map((one) =>
            h(
              "li",
              null,
              h(
                "a.folder",
                { href: link(["items", ...one.namespace]) },
                said(one.namespace.join(" / ")),
                " ",
                h("span.faint", null, counted(one.itemCount, "item")),
              ),
            ),
          ),
        ),
      ),
    (sessions.isCut || namespaces.isCut) && h("p.note", null, `Only the first ${count(MOST)} are shown.`),
  ];
}

/** @param {any[]} known @param {number} sessions */
function knownList(known, sessions) {
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
  if (lines.length === 0)
    return empty("No block knows anything yet.", "The sessions below hold what was said.");
  return [h("ul.knowledge", null, lines), sessions > 100 && h("p.note", null, "Of the first 100 sessions.")];
}

/** @param {string} subject @param {any[]} sessions @param {any[]} namespaces @param {AbortSignal} signal */
function exportButton(subject, sessions, namespaces, signal) {
  const label = "Export conversations and items";
  const button = h(
    "button",
    {
      type: "button",
      title: "A file that memoryd import reads",
      onclick: () =>
        void during(button, async () => {
          try {
            save(
              await exported(sessions, namespaces, (text) => fill(button, text), signal),
              `${subject}.memoryd.jsonl`,
            );
            notify("Saved");
          } finally {
            fill(button, label);
          }
        }),
    },
    label,
  );
  return button;
}

/** @param {string} subject @param {any[]} sessions @param {AbortSignal} signal */
function knowledgeButton(subject, sessions, signal) {
  const button = h(
    "button",
    {
      type: "button",
      onclick: () =>
        void during(button, async () => {
          const known = await knowledgeOf(sessions, signal);
          save(new Blob([JSON.stringify(known, null, 2)]), `${subject}.knowledge.json`);
          notify("Saved");
        }),
    },
    "Export what is known",
  );
  return button;
}

/** @param {string} subject @param {() => Promise<void>} again */
function eraseButton(subject, again) {
  const button = h(
    "button.danger",
    {
      type: "button",
      ...needs("write"),
      onclick: () =>
        void during(button, async () => {
          const dry = await call("SessionService/EraseSubject", { subject, dryRun: true });
          confirmTyped({
            title: "Erase a subject",
            typed: subject,
            verb: "Erase for ever",
            warning: [
              h("p", null, "This removes for ever: ", h("b", null, countsText(dry)), "."),
              h("p", null, "Stop what still writes for the subject first."),
            ],
            act: (say) => erase(subject, say),
            after: () => void again(),
          });
        }),
    },
    "Erase…",
  );
  return button;
}

/** Subjects of which nothing was left. @type {Set<string>} */
const erased = new Set();

/** Again and again, until the server says that nothing is left. @param {string} subject @param {(text: string) => void} say */
async function erase(subject, say) {
  let reply;
  for (let turn = 1; turn <= 10; ++turn) {
    reply = await call("SessionService/EraseSubject", { subject });
    if (reply.purged) {
      erased.add(subject);
      return [
        h("p", null, h("b", null, "Erased."), " No row of the store has anything of the subject."),
        reply.leftElsewhere && h("p.note", null, reply.leftElsewhere),
      ];
    }
    say(`Still erasing: ${reply.leftReason ?? ""}`);
  }
  return h(
    "p.note.warn",
    null,
    `Deleted, but not purged yet (${reply?.leftReason ?? ""}). Erase again later.`,
  );
}

/** @param {any} reply an EraseSubjectResponse */
function countsText(reply) {
  const parts = [
    [reply.sessionCount, "session"],
    [reply.messageCount, "message"],
    [reply.contentCount, "content"],
    [reply.blockCount, "block with knowledge", "blocks with knowledge"],
    [reply.entryCount, "vector entry", "vector entries"],
    [reply.jobCount, "job"],
    [reply.namespaceCount, "namespace"],
    [reply.itemCount, "item"],
  ];
  const shown = parts
    .filter(([value]) => number(value) > 0)
    .map(([value, noun, plural]) => counted(value, noun, plural));
  return shown.length ? shown.join(", ") : "nothing";
}
