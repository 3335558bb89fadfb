// @ts-check
// All that is remembered of one user, on one page; and how to take it along, or to erase it.
import { fill, h, said } from "../lib/dom.js";
import { call, callAll } from "../lib/api.js";
import { exported, knowledgeOf } from "../lib/export.js";
import { count, counted, number, optionsOf } from "../lib/format.js";
import { ownSubject } from "../lib/caller.js";
import { go, link } from "../lib/router.js";
import { during, notify } from "../parts/dialog.js";
import { eraseButton, isErased, namesakeList, namesakes } from "../parts/erase.js";
import { folderList, namespaceFolders } from "../parts/folders.js";
import { markFailures } from "../parts/gaps.js";
import { knownList } from "../parts/known.js";
import { empty, failure, loaded, loading } from "../parts/states.js";
import { save } from "../parts/text.js";
import { row } from "./sessions.js";

const MOST = 1_000;
const MOST_ASKED = 100; // Sessions whose blocks are asked.

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
      folderList(
        [...subjects].sort().map(([subject, sessions]) => ({
          path: ["subject", subject],
          name: subject,
          holds: counted(sessions, "session"),
        })),
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
      const [sessions, namespaces, others] = await Promise.all([
        sessionsOf(subject, signal),
        callAll("ItemService/ListNamespaces", { subject, pageSize: 1000, includeEmpty: true }, "namespaces", {
          signal,
          most: MOST,
        }),
        namesakes(subject, signal),
      ]);
      fill(body, page({ subject, sessions, namespaces, others, signal, again: show }));
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
    title: `Subject ${subject}`,
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

/** @typedef {{entries: any[], isCut: boolean}} Listed */

/** @param {{subject: string, sessions: Listed, namespaces: Listed, others: any[], signal: AbortSignal,
 *   again: () => Promise<void>}} all `others` are the namespaces that are only named so */
function page({ subject, sessions, namespaces, others, signal, again }) {
  if (sessions.entries.length + namespaces.entries.length === 0)
    return [nothing(subject, again), namesakeList(others)];
  const messages = sessions.entries.reduce(
    (sum, one) => sum + number(one.activeCount) + number(one.archivedCount),
    0,
  );
  const items = namespaces.entries.reduce((sum, one) => sum + number(one.itemCount), 0);
  const knowledge = loaded(
    async () => [
      knownList(
        await knowledgeOf(sessions.entries.slice(0, MOST_ASKED), signal),
        "The sessions below hold what was said.",
      ),
      sessions.entries.length > MOST_ASKED &&
        h("p.note", null, `Of the first ${count(MOST_ASKED)} sessions.`),
    ],
    signal,
  );
  const rows = sessions.entries.map(row);
  void markFailures(sessions.entries, rows, signal);
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
    copiesNote(sessions.entries),
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
          h("tbody", null, rows),
        ),
      ),
    namespaces.entries.length > 0 &&
      h(
        "section",
        null,
        h("h2", null, "Items"),
        namespaceFolders(namespaces.entries),
      ),
    namesakeList(others),
    (sessions.isCut || namespaces.isCut) && h("p.note", null, `Only the first ${count(MOST)} are shown.`),
  ];
}

/** @param {string} subject @param {() => Promise<void>} again */
function nothing(subject, again) {
  const title = "Nothing is remembered of this subject.";
  if (isErased(subject)) return empty(title, "It was erased.");
  return empty(
    title,
    "Perhaps it is written otherwise: subjects are compared letter by letter. ",
    h("p.actions", null, eraseButton(subject, again)),
  );
}

/** Sessions may hand their messages on, so that a message counts in two of them. @param {any[]} sessions */
function copiesNote(sessions) {
  const blocks = sessions.flatMap((one) => one.config?.blocks ?? []);
  const takers = new Set(
    blocks.filter(({ kind }) => kind === "session").map((block) => optionsOf(block).session_id),
  );
  const own = sessions.map((one) => one.sessionId).filter((id) => takers.has(id));
  if (own.length === 0) return null;
  return h(
    "p.faint",
    null,
    "Messages that other sessions handed on count there and in ",
    own.map((id, at) => [at > 0 && ", ", h("a", { href: link(["session", id]) }, said(id))]),
    ".",
  );
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
