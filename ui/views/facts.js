// @ts-check
// The facts of a block: their evidence, their trust, what they were before, and how to change them.
import { h, said } from "../lib/dom.js";
import { call, requestId } from "../lib/api.js";
import { counted, enumName, number, when } from "../lib/format.js";
import { may, needs } from "../lib/caller.js";
import { link } from "../lib/router.js";
import { empty } from "../parts/states.js";
import { meter } from "../parts/bar.js";
import { askText, during, notify } from "../parts/dialog.js";
import { origin } from "../parts/evidence.js";

/** @typedef {{id: string, block: string, known: any, reload: () => Promise<void>}} FactsContext */

/** @type {Record<string, string>} */
const ENDS = {
  replaced: "replaced",
  condensed: "condensed with others",
  evicted: "made room for better ones",
  undone: "undone",
  retired: "its evidence is gone",
  corrected: "corrected by hand",
  deleted: "removed by hand",
};

/** @param {FactsContext} context */
export function factsPanel(context) {
  const facts = context.known.facts ?? [];
  const history = [...(context.known.history ?? [])].reverse();
  return h(
    "div",
    null,
    !may("write") &&
      h("p.note", null, "Your credential may look and not change: it lacks the right “write”."),
    facts.length
      ? h(
          "ul.knowledge",
          null,
          facts.map((/** @type {any} */ fact) => factNode(fact, context)),
        )
      : empty(
          "No facts yet.",
          "A model finds them in messages that leave short-term memory. You may add one by hand.",
        ),
    h(
      "p.actions",
      null,
      h(
        "button",
        {
          type: "button",
          ...needs("write"),
          onclick: (/** @type {any} */ event) => void add(event.currentTarget, context),
        },
        "Add a fact",
      ),
    ),
    history.length > 0 &&
      h(
        "details.meta.history",
        null,
        h("summary", null, `History: ${counted(history.length, "former fact")}`),
        h(
          "ul.knowledge.past",
          null,
          history.map((past) => pastNode(past, context)),
        ),
      ),
  );
}

/** @param {any} fact @param {FactsContext} context */
function factNode(fact, context) {
  const act = (/** @type {string} */ name, /** @type {(button: any) => Promise<void>} */ action) =>
    h(
      "button.quiet",
      {
        type: "button",
        ...needs("write"),
        "aria-label": `${name} fact ${fact.factId}`,
        onclick: (/** @type {any} */ event) => void action(event.currentTarget),
      },
      name,
    );
  return h(
    "li.fact",
    { dataset: { fact: fact.factId } },
    h("p.fact-text", null, said(fact.text)),
    h(
      "p.faint",
      null,
      meter(number(fact.trust), "trust"),
      " · ",
      origin(fact, context.id),
      " · ",
      fact.firstTime ? ["since ", when(fact.firstTime)] : "from the settings",
      number(fact.seenCount) > 1 && ` · said ${fact.seenCount} times, last `,
      number(fact.seenCount) > 1 && when(fact.lastTime),
      fact.writer && [" · by ", said(fact.writer)],
    ),
    replaced(fact, context),
    h(
      "p.row-actions",
      null,
      act("Correct", (button) => correct(button, fact, context)),
      act("Remove", (button) =>
        during(button, async () => {
          await call("BlockService/DeleteFact", {
            ...place(context),
            factId: fact.factId,
            requestId: requestId(),
          });
          notify("Removed. The history can bring it back.");
          await context.reload();
        }),
      ),
      number(fact.change) > 0 && act("Undo", (button) => undo(button, fact.change, context)),
    ),
  );
}

/** The facts in whose place a fact stands, with the way back. @param {any} fact @param {FactsContext} context */
function replaced(fact, context) {
  const before = (context.known.history ?? []).filter(
    (/** @type {any} */ past) =>
      number(past.change) > 0 &&
      (past.end === "FACT_END_CORRECTED"
        ? past.fact?.factId === fact.factId
        : (past.replacedBy ?? []).includes(fact.factId)),
  );
  if (before.length === 0) return null;
  // Only the latest change can be undone without those after it.
  const change = Math.max(...before.map((/** @type {any} */ past) => number(past.change)));
  return h(
    "p.faint.replaced",
    null,
    h(
      "span",
      null,
      "replaced ",
      before
        .filter((/** @type {any} */ past) => number(past.change) === change)
        .map((/** @type {any} */ past, /** @type {number} */ at) => [at > 0 && ", ", quoted(past.fact)]),
    ),
    " ",
    undoButton(String(change), context),
  );
}

/** @param {any} fact */
function quoted(fact) {
  return ["“", said(fact?.text), "”"];
}

/** @param {string} change @param {FactsContext} context */
function undoButton(change, context) {
  return h(
    "button.quiet",
    {
      type: "button",
      ...needs("write"),
      "aria-label": `Undo change ${change}`,
      onclick: (/** @type {any} */ event) => void undo(event.currentTarget, change, context),
    },
    "Undo",
  );
}

/** @param {any} past @param {FactsContext} context */
function pastNode(past, context) {
  const fact = past.fact ?? {};
  const end = enumName(past.end, "FACT_END_");
  const now = (context.known.facts ?? []).filter((/** @type {any} */ one) =>
    (past.replacedBy ?? []).includes(one.factId),
  );
  return h(
    "li.fact",
    null,
    h("p.fact-text", null, h("s", null, said(fact.text))),
    h(
      "p.faint",
      null,
      ENDS[end] ?? end,
      " ",
      when(past.time),
      past.jobId && [" by ", h("a", { href: link(["session", context.id, "jobs"]) }, "a job")],
      past.writer && [" by ", said(past.writer)],
      " · ",
      origin(fact, context.id),
      now.map((/** @type {any} */ one) => h("span", null, " · now ", quoted(one))),
    ),
    number(past.change) > 0 && h("p.row-actions", null, undoButton(past.change, context)),
  );
}

/** @param {FactsContext} context */
function place({ id, block }) {
  return { sessionId: id, block };
}

/** @param {any} button @param {string} change @param {FactsContext} context */
function undo(button, change, context) {
  return during(button, async () => {
    try {
      await call("BlockService/UndoBlockChange", { ...place(context), change, requestId: requestId() });
      notify("Undone. The next Get shows it.");
    } finally {
      // Another tab may have undone it: what is shown is as it is now either way.
      await context.reload();
    }
  });
}

/** @param {any} button @param {any} fact @param {FactsContext} context */
async function correct(button, fact, context) {
  const text = await askText({
    title: "Correct a fact",
    label: "What is true",
    value: fact.text ?? "",
    verb: "Correct it",
  });
  if (!text || text === fact.text) return;
  await during(button, async () => {
    await call("BlockService/UpdateFact", {
      ...place(context),
      factId: fact.factId,
      text,
      requestId: requestId(),
    });
    notify("Corrected. The history has the former text.");
    await context.reload();
  });
}

/** @param {any} button @param {FactsContext} context */
async function add(button, context) {
  const text = await askText({ title: "Add a fact", label: "A sentence", verb: "Add it" });
  if (!text) return;
  await during(button, async () => {
    await call("BlockService/AddFact", { ...place(context), text, requestId: requestId() });
    notify("Added");
    await context.reload();
  });
}
