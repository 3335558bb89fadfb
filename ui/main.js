// @ts-check
// The shell: the navigation, the place that is shown, who asks, and whether the server answers.
import { fill, h, icon, said } from "./lib/dom.js";
import { hasToken, whenBusy, whenReached, whenUnauthenticated } from "./lib/api.js";
import { tellTimes } from "./lib/format.js";
import { loadServer, ownSubject, serverInfo } from "./lib/caller.js";
import { go, link, placeOf } from "./lib/router.js";
import { askToken } from "./parts/dialog.js";
import { empty, failure } from "./parts/states.js";
import { sessionsView } from "./views/sessions.js";
import { sessionView } from "./views/session.js";
import { subjectView, subjectsView } from "./views/subject.js";
import { itemsView } from "./views/items.js";
import { usageView } from "./views/usage.js";
import { serverView } from "./views/server.js";

/** @typedef {{title: string, node: Node, accepts?: (place: import("./lib/router.js").Place) => boolean}} View */
/** @type {Record<string, (place: import("./lib/router.js").Place, signal: AbortSignal) => View>} */
const VIEWS = {
  sessions: sessionsView,
  session: sessionView,
  subjects: subjectsView,
  subject: subjectView,
  items: itemsView,
  usage: usageView,
  server: serverView,
};

/** @type {[string, string, string, string[]][]} */
const NAVIGATION = [
  ["sessions", "Sessions", "sessions", ["session"]],
  ["subjects", "Subjects", "people", ["subject"]],
  ["items", "Items", "items", []],
  ["usage", "Usage", "usage", []],
  ["server", "Server", "server", []],
];

const TIMES_MS = 20_000;
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const navigation = /** @type {HTMLElement} */ (document.getElementById("navigation"));
const caller = /** @type {HTMLElement} */ (document.getElementById("caller"));
const away = /** @type {HTMLElement} */ (document.getElementById("away"));
/** @type {View | null} */
let view = null;
let leaving = new AbortController();
/** @type {HTMLElement | null} */
let tokenDialog = null;
let isFirst = true;

function show() {
  const place = placeOf(location.hash);
  const name = place.path[0] ?? "sessions";
  showNavigation(name);
  if (view?.accepts?.(place)) return;
  leaving.abort();
  leaving = new AbortController();
  const make = VIEWS[name];
  try {
    view = make
      ? make(place, leaving.signal)
      : {
          title: "Nothing here",
          node: empty("There is no such place.", h("a", { href: link(["sessions"]) }, "All sessions")),
        };
  } catch (error) {
    view = { title: "A fault", node: failure(error, show) };
  }
  document.title = `${view.title} · memoryd`;
  fill(main, view.node);
  main.scrollTop = 0;
  // A screen reader reads where one has come to; the first page is read from its top.
  if (!isFirst) main.querySelector("h1")?.focus({ preventScroll: true });
  isFirst = false;
}

/** @param {string} current */
function showNavigation(current) {
  const own = ownSubject();
  fill(
    navigation,
    NAVIGATION.map(([key, name, picture, below]) => {
      const isOwn = own && key === "subjects";
      return h(
        "a",
        {
          href: isOwn ? link(["subject", own]) : link([key]),
          "aria-current": key === current || below.includes(current) ? "page" : undefined,
        },
        icon(picture),
        isOwn ? "Your memory" : name,
      );
    }),
  );
}

function showCaller() {
  const info = serverInfo();
  const rights = info.caller?.rights ?? [];
  const needsToken = (info.authentication ?? []).length > 0;
  fill(
    caller,
    info.caller &&
      h(
        "p",
        null,
        "Tenant ",
        h("b", null, said(info.caller.tenant)),
        info.caller.subject && [", subject ", h("b", null, said(info.caller.subject))],
      ),
    info.caller && h("p.faint", null, rights.length ? rights.join(", ") : "no rights"),
    (needsToken || hasToken()) &&
      h(
        "button.quiet",
        { type: "button", onclick: () => openToken(false) },
        icon("key"),
        hasToken() ? "Change token" : "Give a token",
      ),
    info.version && h("p.faint", null, `memoryd ${info.version}`),
  );
}

/** @param {boolean} refused */
function openToken(refused) {
  if (tokenDialog) return;
  tokenDialog = askToken({ known: hasToken(), refused, done: () => void begin() });
  tokenDialog?.addEventListener("close", () => {
    tokenDialog = null;
  });
}

async function begin() {
  view = null;
  try {
    await loadServer();
  } catch (error) {
    if (/** @type {any} */ (error).code !== "unauthenticated")
      fill(
        main,
        failure(error, () => void begin()),
      );
    else fill(main, h("section", null, h("h1", { tabindex: "-1" }, "Who are you?"), failure(error)));
    return;
  } finally {
    showCaller();
  }
  show();
}

whenUnauthenticated(() => openToken(true));
whenBusy((isBusy) => main.setAttribute("aria-busy", String(isBusy)));
whenReached((reached) => {
  away.hidden = reached;
});
window.addEventListener("memoryd:token", () => openToken(false));
window.addEventListener("hashchange", show);
setInterval(() => tellTimes(document), TIMES_MS);
document.addEventListener("visibilitychange", () => tellTimes(document));
window.addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const field = main.querySelector("[data-search]");
  event.preventDefault();
  if (field instanceof HTMLElement) field.focus();
  else go(link(["sessions"]));
});
document.getElementById("skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
void begin();
