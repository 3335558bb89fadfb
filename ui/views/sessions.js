// @ts-check
// All sessions: by the beginning of their id, or of one subject.
import { debounced, fill, h, said } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { bytes, count, number, when } from "../lib/format.js";
import { go, link, note } from "../lib/router.js";
import { ownSubject } from "../lib/caller.js";
import { markFailures } from "../parts/gaps.js";
import { command, empty, failure, loading } from "../parts/states.js";

const PAGE = 50;

/** @param {import("../lib/router.js").Place} place @param {AbortSignal} signal */
export function sessionsView(place, signal) {
  const prefix = h("input", {
    type: "search",
    id: "prefix",
    dir: "auto",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "Begins with…",
    value: place.query.get("prefix") ?? "",
    dataset: { search: "" },
  });
  const subject = h("input", {
    type: "search",
    id: "subject",
    dir: "auto",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "Any",
    value: place.query.get("subject") ?? "",
    disabled: ownSubject() !== "",
  });
  if (ownSubject()) subject.value = ownSubject();
  const list = h("div");
  let search = new AbortController();
  signal.addEventListener("abort", () => search.abort());

  const show = () => {
    search.abort();
    search = new AbortController();
    note(link(["sessions"], { prefix: prefix.value, subject: ownSubject() ? "" : subject.value }));
    void showSessions(list, prefix.value, subject.value, search.signal);
  };
  const soon = debounced(150, show);
  prefix.addEventListener("input", soon);
  subject.addEventListener("input", soon);
  const form = h(
    "form.filters",
    {
      role: "search",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        if (prefix.value) go(link(["session", prefix.value]));
      },
    },
    h("div.field.grow", null, h("label", { for: "prefix" }, "Session id"), prefix),
    h("div.field", null, h("label", { for: "subject" }, "Subject"), subject),
    h("button", { type: "submit", title: "Opens the session with exactly this id" }, "Open"),
  );
  show();
  return { title: "Sessions", node: h("section", null, h("h1", { tabindex: "-1" }, "Sessions"), form, list) };
}

/** @param {HTMLElement} list @param {string} prefix @param {string} subject @param {AbortSignal} signal */
async function showSessions(list, prefix, subject, signal) {
  let pageToken = "";
  let shown = 0;
  const rows = h("tbody");
  const more = h("div");
  const table = h(
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
    rows,
  );

  const read = async () => {
    // All sessions of a subject can be sorted; those of a tenant are too many.
    const order = subject ? { order: "SESSION_ORDER_LAST_CHANGE" } : {};
    const reply = await call(
      "SessionService/ListSessions",
      { pageSize: PAGE, pageToken, subject, idPrefix: prefix, ...order },
      { signal },
    );
    pageToken = reply.nextPageToken ?? "";
    const found = reply.sessions ?? [];
    shown += found.length;
    const added = found.map(row);
    rows.append(...added);
    void markFailures(found, added, signal);
    fill(
      more,
      pageToken &&
        h("p.actions", null, h("button", { type: "button", onclick: () => void attempt() }, "Show more")),
    );
    const ordered = subject
      ? "What changed last comes first."
      : "Listed by id. With a subject, what changed last comes first.";
    if (shown || pageToken) return fill(list, table, h("p.faint", null, ordered), more);
    return fill(list, nothing(prefix, subject));
  };
  const attempt = async () => {
    try {
      await read();
    } catch (error) {
      if (!signal.aborted)
        fill(
          shown ? more : list,
          failure(error, () => void attempt()),
        );
    }
  };
  if (!list.firstChild) fill(list, loading());
  await attempt();
}

/** @param {string} prefix @param {string} subject */
function nothing(prefix, subject) {
  if (prefix || subject) {
    return empty(
      "No session fits.",
      h(
        "p",
        null,
        "Ids are compared letter by letter, with their case. ",
        prefix && h("a", { href: link(["session", prefix]) }, "Open “", said(prefix), "” as it is"),
        prefix && ".",
      ),
    );
  }
  return empty(
    "Nothing is remembered yet.",
    "Store a first message; it appears here at once:",
    command('memoryd put s1 "My dog is called Bella."'),
    command(
      `curl -sS ${location.origin}/memoryd.v1.MemoryService/Put -H 'Content-Type: application/json' \\\n` +
        '  -d \'{"sessionId": "s1", "messages": [{"role": "user", "text": "I live in Lisbon."}]}\'',
    ),
  );
}

/** @param {any} session */
export function row(session) {
  const archived = number(session.archivedCount);
  const subject = session.config?.subject;
  const size = session.storedBytes;
  return h(
    "tr",
    null,
    h(
      "th",
      { scope: "row" },
      h("a.main-link", { href: link(["session", session.sessionId]) }, said(session.sessionId)),
    ),
    h(
      "td",
      { dataset: { label: "Subject", ...(subject ? {} : { empty: "" }) } },
      subject ? h("a", { href: link(["subject", subject]) }, said(subject)) : "—",
    ),
    h(
      "td.amount",
      { dataset: { label: "Messages" } },
      count(number(session.activeCount) + archived),
      archived > 0 && h("span.faint", null, ` (${count(session.activeCount)} active)`),
    ),
    h("td.amount", { dataset: { label: "Tokens" } }, count(session.activeTokenCount)),
    h(
      "td.amount",
      { dataset: { label: "Size", ...(size === undefined ? { empty: "" } : {}) } },
      size === undefined ? "—" : bytes(size),
    ),
    h("td", { dataset: { label: "Last change" } }, when(session.updateTime)),
  );
}
