// @ts-check
// Query, with the parts of each score drawn.
import { fill, h, said } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { number } from "../lib/format.js";
import { link, note } from "../lib/router.js";
import { empty, failure, loading } from "../parts/states.js";
import { messageNode, toolsOf } from "../parts/message.js";
import { prose } from "../parts/text.js";
import { contentNode } from "./contents.js";

/** The parts of a score: their fields, what they are called, and a color each. @type {[string, string, number][]} */
const PARTS = [
  ["words", "equal words", 1],
  ["vector", "similar words", 2],
  ["embedding", "like meaning", 3],
  ["author", "the speaker that the query names", 4],
  ["user", "being a user’s", 5],
  ["recency", "being new", 6],
  ["neighbours", "the messages around it", 7],
  ["length", "length", 8],
];

/** @type {Record<string, string>} */
const NOTICES = {
  NO_WORD_VECTORS: "The server has no table of word vectors, so only equal words are compared.",
  FILTER_LIMIT: "More items could pass the filter than were checked.",
  NO_EMBEDDING: "The session’s embedder did not answer, so meanings were not compared.",
  EMBEDDINGS_PENDING: "Some messages have no embedding yet.",
};

/** @param {import("./session.js").TabContext} context */
export function queryTab({ id, place, signal }) {
  const field = h("input", {
    type: "search",
    id: "query",
    dir: "auto",
    autocomplete: "off",
    required: true,
    placeholder: "Words or a question",
    value: place.query.get("q") ?? "",
    dataset: { search: "" },
  });
  const role = h("input", {
    id: "role",
    size: "10",
    autocomplete: "off",
    placeholder: "any",
    value: place.query.get("role") ?? "",
  });
  const results = h("div");
  let asked = new AbortController();
  signal.addEventListener("abort", () => asked.abort());
  const ask = async () => {
    const query = field.value.trim();
    if (!query) return fill(results, hint());
    asked.abort();
    asked = new AbortController();
    const mine = asked.signal;
    note(link(["session", id, "search"], { q: query, role: role.value.trim() }));
    fill(results, loading("Searching"));
    try {
      const filter = role.value.trim() ? { filter: { roles: [role.value.trim()] } } : {};
      const reply = await call(
        "MemoryService/Query",
        { sessionId: id, query, topK: 20, partsOfScore: true, ...filter },
        { signal: mine },
      );
      fill(results, found(reply, id, signal));
    } catch (error) {
      if (!mine.aborted)
        fill(
          results,
          failure(error, () => void ask()),
        );
    }
  };
  const form = h(
    "form.filters",
    {
      role: "search",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        void ask();
      },
    },
    h("div.field.grow", null, h("label", { for: "query" }, "Search messages, contents and knowledge"), field),
    h("div.field", null, h("label", { for: "role" }, "Role"), role),
    h("button.primary", { type: "submit" }, "Search"),
  );
  void ask();
  return h("div", null, form, results);
}

function hint() {
  return empty(
    "Ask what the session knows.",
    "Archived messages are found too. Each result shows what its score is made of.",
  );
}

/** @param {any} reply @param {string} id @param {AbortSignal} signal */
function found(reply, id, signal) {
  const results = reply.results ?? [];
  const notices = (reply.notices ?? []).map((/** @type {string} */ one) =>
    h("p.note", null, NOTICES[one] ?? one),
  );
  if (results.length === 0) {
    return [
      notices,
      empty("Nothing is found.", "Try other words: names, places, or what was said around it."),
    ];
  }
  const tools = toolsOf(results.map((/** @type {any} */ result) => result.message ?? {}));
  return [
    notices,
    legend(results),
    h(
      "ol.results",
      null,
      results.map((/** @type {any} */ result, /** @type {number} */ at) =>
        resultNode(result, results[at + 1], at, { id, signal, tools }),
      ),
    ),
  ];
}

/** @param {any[]} results */
function legend(results) {
  const used = PARTS.filter(([key]) => results.some((result) => number(result.partsOfScore?.[key]) !== 0));
  return h(
    "ul.legend-row",
    { "aria-label": "Parts of the score" },
    used.map(([, name, color]) => h("li", null, h(`span.swatch.c${color}`, { "aria-hidden": "true" }), name)),
    h(
      "li",
      null,
      h("span.zero-mark", { "aria-hidden": "true" }),
      "0: what stands left of it lowers the score",
    ),
  );
}

/** @param {any} result @param {any} next the result behind it @param {number} at
 * @param {{id: string, signal: AbortSignal, tools: Map<string, string>}} context */
function resultNode(result, next, at, { id, signal, tools }) {
  const parts = result.partsOfScore;
  const where = result.sessionId || id;
  return h(
    "li.result",
    null,
    h(
      "div.score",
      null,
      h("b", null, number(result.score).toFixed(2)),
      parts && scoreBar(parts, number(result.score)),
      h("p.faint", null, parts && whyText(parts, at, next?.partsOfScore)),
    ),
    result.sessionId &&
      h(
        "p.faint",
        null,
        "in ",
        h("a", { href: link(["session", result.sessionId]) }, said(result.sessionId)),
      ),
    item(result, where, signal, tools),
  );
}

/** @param {any} result @param {string} where @param {AbortSignal} signal @param {Map<string, string>} tools */
function item(result, where, signal, tools) {
  if (result.message) return messageNode(result.message, { sessionId: where, signal, tools });
  if (result.content) return contentNode(result.content, signal);
  const block = result.blockItem ?? {};
  return h(
    "article.card",
    null,
    h(
      "header",
      null,
      h(
        "span.role",
        null,
        "known by ",
        h("a", { href: link(["session", where, "memory"], { block: block.block }) }, said(block.block)),
      ),
    ),
    block.fact
      ? prose(block.fact.text ?? "")
      : block.entity
        ? [h("b", null, said(block.entity.name)), prose(block.entity.text ?? "")]
        : prose(block.text ?? ""),
  );
}

/** The parts above 0 to the right of a line, those below to the left. @param {any} parts @param {number} score */
function scoreBar(parts, score) {
  const values = PARTS.map(([key, name, color]) => ({ name, color, value: number(parts[key]) })).filter(
    ({ value }) => value !== 0,
  );
  const below = values.filter(({ value }) => value < 0);
  const above = values.filter(({ value }) => value > 0);
  const label = values.map(({ name, value }) => `${name} ${value.toFixed(2)}`).join(", ");
  // A whole bar is 1.5: the best result has 1, and penalties take from more.
  const segment = (/** @type {{name: string, color: number, value: number}} */ { name, color, value }) =>
    h(`span.segment.c${color}`, {
      width: `${(100 * Math.abs(value)) / 1.5}%`,
      title: `${name}: ${value.toFixed(3)}`,
    });
  return h(
    "div.score-bar",
    { role: "img", "aria-label": `Score ${score.toFixed(2)}: ${label}` },
    h("span.score-below", null, below.map(segment)),
    h("span.score-above", null, above.map(segment)),
  );
}

/** @param {any} parts @param {number} at @param {any} next */
function whyText(parts, at, next) {
  const values = PARTS.map(([key, words]) => ({
    words,
    value: number(parts[key]),
    lead: number(parts[key]) - number(next?.[key]),
  }));
  const most = values
    .filter(({ value }) => value > 0)
    .sort((a, b) => b.value - a.value)
    .slice(0, 2);
  if (most.length === 0) return "";
  const shares = most.map(({ words, value }) => `${words} (${value.toFixed(2)})`).join(", then by ");
  const lead = next && at === 0 ? [...values].sort((a, b) => b.lead - a.lead)[0] : null;
  return `Found by ${shares}.${lead && lead.lead > 0 ? ` Ahead of the next by ${lead.words} (+${lead.lead.toFixed(2)}).` : ""}`;
}
