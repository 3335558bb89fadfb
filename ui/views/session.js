// @ts-check
// One session: its header, and a tab for each thing that it holds.
import { fill, h, said } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { bytes, count, counted, number, when } from "../lib/format.js";
import { link } from "../lib/router.js";
import { failureBadge, failuresOf } from "../parts/gaps.js";
import { failure, loading } from "../parts/states.js";
import { copyable, facts, json } from "../parts/text.js";
import { badge } from "../parts/message.js";
import { messagesTab } from "./messages.js";
import { contextTab } from "./context.js";
import { memoryTab } from "./memory.js";
import { queryTab } from "./query.js";
import { activityTab } from "./activity.js";
import { jobsTab } from "./jobs.js";
import { contentsTab } from "./contents.js";

/** @typedef {{id: string, session: any, place: import("../lib/router.js").Place, signal: AbortSignal,
 *   refresh: () => Promise<void>}} TabContext */

/** @type {[string, string, (context: TabContext) => Node][]} */
const TABS = [
  ["messages", "Messages", messagesTab],
  ["context", "Context", contextTab],
  ["memory", "Memory", memoryTab],
  ["search", "Search", queryTab],
  ["activity", "Activity", activityTab],
  ["jobs", "Jobs", jobsTab],
  ["contents", "Contents", contentsTab],
  ["config", "Settings", configTab],
];

/** @param {import("../lib/router.js").Place} place @param {AbortSignal} signal */
export function sessionView(place, signal) {
  const id = place.path[1] ?? "";
  const head = h("div.session-head");
  const panel = h("div.tab-panel", { role: "tabpanel", id: "panel", tabindex: "-1" });
  const tabs = h("div.tabs", { role: "tablist", "aria-label": "Parts of the session" });
  const node = h(
    "section.session",
    null,
    h("p.trail", null, h("a", { href: link(["sessions"]) }, "All sessions")),
    h("h1", { tabindex: "-1" }, said(id)),
    head,
    tabs,
    panel,
  );
  /** @type {any} */
  let session = null;
  let failures = 0;
  let current = new AbortController();
  signal.addEventListener("abort", () => current.abort());

  const refresh = async () => {
    session = (await call("SessionService/GetSession", { sessionId: id }, { signal })).session ?? {};
    fill(head, header(session, failures));
    void countFailures(session);
  };
  /** @param {any} asked */
  const countFailures = async (asked) => {
    const found = await failuresOf(asked, signal).catch(() => failures); // Jobs says what can't be read.
    if (signal.aborted || found === failures) return;
    failures = found;
    fill(head, header(session, failures));
  };
  /** @param {import("../lib/router.js").Place} to @param {boolean} [isFresh] the session was read just now */
  const showTab = async (to, isFresh = false) => {
    const name = to.path[2] ?? "messages";
    const [key, title, make] = TABS.find(([one]) => one === name) ?? TABS[0];
    current.abort();
    current = new AbortController();
    fill(
      tabs,
      TABS.map(([one, label]) =>
        h(
          "a",
          {
            role: "tab",
            id: `tab-${one}`,
            href: link(["session", id, one]),
            "aria-selected": one === key ? "true" : "false",
            "aria-controls": "panel",
            tabindex: one === key ? "0" : "-1",
          },
          label,
        ),
      ),
    );
    panel.setAttribute("aria-labelledby", `tab-${key}`);
    node.classList.toggle("has-chat", key === "messages");
    tabs.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    document.title = `${id} · ${title} · memoryd`;
    const mine = current.signal;
    try {
      if (!isFresh) await refresh();
      if (!mine.aborted) fill(panel, make({ id, session, place: to, signal: mine, refresh }));
    } catch (error) {
      if (!mine.aborted)
        fill(
          panel,
          failure(error, () => void showTab(to)),
        );
    }
  };
  tabs.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const all = /** @type {HTMLElement[]} */ ([...tabs.children]);
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    if (!step || at < 0) return;
    event.preventDefault();
    all[(at + step + all.length) % all.length].focus();
  });

  const begin = async () => {
    fill(head, loading());
    try {
      await refresh();
      if (!signal.aborted) await showTab(here, true);
    } catch (error) {
      if (!signal.aborted)
        fill(
          head,
          failure(error, () => void begin()),
        );
    }
  };
  let here = place;
  void begin();
  return {
    title: id,
    node,
    /** Shows another tab of the same session. @param {import("../lib/router.js").Place} to */
    accepts(to) {
      if (to.path[0] !== "session" || to.path[1] !== id) return false;
      here = to;
      if (session) void showTab(to);
      return true;
    },
  };
}

/** @param {any} session @param {number} failures */
function header(session, failures) {
  const config = session.config ?? {};
  const budget = Math.floor(number(config.tokenLimit) * number(config.chatHistoryTokenRatio));
  return [
    h(
      "p.chips",
      null,
      config.subject &&
        h("a.badge.chip", { href: link(["subject", config.subject]) }, "subject ", said(config.subject)),
      failureBadge(session.sessionId, failures),
      session.template && h("span.badge", null, "template ", said(session.template)),
      config.profile !== "default" && badge(config.profile ?? "", "The rules of a framework’s library"),
      session.expireTime && h("span.badge.warn", null, "expires ", when(session.expireTime)),
      h("span.faint", null, "changed ", when(session.updateTime), `, revision ${session.revision ?? 0}`),
    ),
    h(
      "ul.figures",
      null,
      figure(
        count(session.activeCount),
        "active",
        `${counted(session.activeTokenCount, "token")}${budget > 0 ? `; beyond ${count(budget)} the oldest leave` : ""}`,
      ),
      figure(count(session.archivedCount), "archived"),
      number(session.contentCount) > 0 &&
        figure(count(session.contentCount), number(session.contentCount) === 1 ? "content" : "contents"),
      session.storedBytes !== undefined && figure(bytes(session.storedBytes), "stored"),
      session.usage &&
        figure(
          count(session.usage.calls),
          number(session.usage.calls) === 1 ? "model call" : "model calls",
          number(session.usage.promptTokens) > 0 || number(session.usage.completionTokens) > 0
            ? `${count(session.usage.promptTokens)} tokens in, ${count(session.usage.completionTokens)} out`
            : "which reported no tokens",
        ),
    ),
  ];
}

/** @param {string} value @param {string} name @param {string} [small] */
function figure(value, name, small) {
  return h("li", null, h("b", null, value), h("span", null, name), small && h("small", null, small));
}

/** @param {TabContext} context */
function configTab({ session }) {
  const { blocks = [], ...rest } = session.config ?? {};
  return h(
    "div.stack",
    null,
    facts([
      ["Session", copyable(session.sessionId ?? "")],
      ["Created", when(session.createTime)],
      ["Template", session.template && said(session.template)],
      ["Generation", session.generation],
      ["Blocks", blocks.length ? counted(blocks.length, "block") : "none"],
    ]),
    h("h2", null, "Configuration in force"),
    json(JSON.stringify(rest)),
    blocks.map((/** @type {any} */ block) =>
      h(
        "div",
        null,
        h("h3", null, said(block.name), " ", h("span.badge", null, block.kind)),
        json(JSON.stringify(block)),
      ),
    ),
  );
}
