// @ts-check
// Erasing a subject, and what stays of the same name.
import { h, said } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { counted, number } from "../lib/format.js";
import { needs } from "../lib/caller.js";
import { confirmTyped, during } from "./dialog.js";
import { namespaceFolders } from "./folders.js";

const DEPTH = 4; // How many names of a path are looked at.
const MOST = 100; // Namespaces for each of them.

/** Namespaces with the subject's name in their path that are not the subject's: items that were put without a
 * subject. @param {string} subject @param {AbortSignal} [signal] @returns {Promise<any[]>} */
export async function namesakes(subject, signal) {
  const replies = await Promise.all(
    Array.from({ length: DEPTH }, (_, depth) =>
      call(
        "ItemService/ListNamespaces",
        {
          matches: [{ end: "END_PREFIX", names: [...Array(depth).fill("*"), subject] }],
          pageSize: MOST,
          includeEmpty: true,
        },
        { signal },
      ),
    ),
  );
  const found = replies.flatMap((reply) => reply.namespaces ?? []);
  // A name may be said twice in a path, and a subject may be called "*".
  const byPath = new Map(found.map((one) => [JSON.stringify(one.namespace), one]));
  return [...byPath.values()].filter(
    ({ namespace, config }) => config?.subject !== subject && namespace.includes(subject),
  );
}

/** The same as folders. @param {any[]} found of `namesakes` */
export function namesakeList(found) {
  if (found.length === 0) return null;
  return h(
    "div.stack",
    null,
    h("p.note.warn", null, "With the name in their path, and not the subject’s: erasing leaves them."),
    namespaceFolders(found),
  );
}

/** @param {any[]} found of `namesakes` */
function stays(found) {
  if (found.length === 0) return null;
  return h(
    "div.note.warn",
    null,
    h("p", null, "These stay. They have the name in their path, and another subject or none:"),
    h(
      "ul.plain",
      null,
      found
        .slice(0, 20)
        .map((one) =>
          h(
            "li",
            null,
            said(one.namespace.join("/")),
            ` (${counted(one.itemCount, "item")}`,
            one.config?.subject && [", subject ", said(one.config.subject)],
            ")",
          ),
        ),
      found.length > 20 && h("li", null, `and ${counted(found.length - 20, "other")}`),
    ),
    h("p", null, "Delete them by ", h("code", null, "memoryd items delete NAMESPACE"), "."),
  );
}

/** @param {string} subject @param {() => Promise<void>} again told when it is done */
export function eraseButton(subject, again) {
  const button = h(
    "button.danger",
    {
      type: "button",
      ...needs("write"),
      onclick: () =>
        void during(button, async () => {
          const [dry, stay] = await Promise.all([
            call("SessionService/EraseSubject", { subject, dryRun: true }),
            namesakes(subject),
          ]);
          confirmTyped({
            title: "Erase a subject",
            typed: subject,
            verb: "Erase for ever",
            warning: [
              h("p", null, "This removes for ever: ", h("b", null, countsText(dry)), "."),
              stays(stay),
              h("p", null, "Stop what still writes for the subject first."),
            ],
            act: async (say) => [await erase(subject, say), stays(stay)],
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

/** Whether this page erased it. @param {string} subject */
export function isErased(subject) {
  return erased.has(subject);
}

/** Again and again, until the server says that nothing is left. @param {string} subject @param {(text: string) => void} say */
async function erase(subject, say) {
  let reply;
  for (let turn = 1; turn <= 10; ++turn) {
    reply = await call("SessionService/EraseSubject", { subject });
    if (reply.purged) {
      erased.add(subject);
      return [
        h(
          "p",
          null,
          h("b", null, "Erased."),
          " The store has no row of the subject’s sessions and namespaces any more.",
        ),
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
    [reply.blockCount, "block and what it knows", "blocks and what they know"],
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
