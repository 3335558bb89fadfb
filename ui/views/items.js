// @ts-check
// Items: namespaces as folders, and the values in them.
import { debounced, fill, h, said } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { bytes, counted, number, when } from "../lib/format.js";
import { link, note } from "../lib/router.js";
import { empty, command, failure, loading } from "../parts/states.js";
import { badge, contentValue } from "../parts/message.js";
import { copyable, facts } from "../parts/text.js";

const PAGE = 100;

/** @param {import("../lib/router.js").Place} place @param {AbortSignal} signal */
export function itemsView(place, signal) {
  const path = place.path.slice(1);
  const below = h("div");
  const items = h("div");
  const query = h("input", {
    type: "search",
    id: "item-query",
    dir: "auto",
    autocomplete: "off",
    value: place.query.get("q") ?? "",
    placeholder: path.length ? "Words, or the beginning of a key" : "Words",
    dataset: { search: "" },
  });
  let asked = new AbortController();
  signal.addEventListener("abort", () => asked.abort());
  const show = () => {
    asked.abort();
    asked = new AbortController();
    const text = query.value.trim();
    note(link(["items", ...path], { q: text }));
    if (text) void search(items, path, text, asked.signal);
    else if (path.length) void list(items, path, asked.signal);
    else fill(items);
  };
  query.addEventListener("input", debounced(300, show));
  void folders(below, path, signal);
  show();
  return {
    title: ["Items", ...path].join(" / "),
    node: h(
      "section",
      null,
      h("h1", { tabindex: "-1" }, "Items"),
      trail(path),
      h(
        "form.filters",
        {
          role: "search",
          onsubmit: (/** @type {Event} */ event) => {
            event.preventDefault();
            show();
          },
        },
        h(
          "div.field.grow",
          null,
          h("label", { for: "item-query" }, path.length ? "Search below this path" : "Search all items"),
          query,
        ),
      ),
      below,
      items,
    ),
  };
}

/** @param {string[]} path */
function trail(path) {
  return h(
    "nav.trail",
    { "aria-label": "Path" },
    h("a", { href: link(["items"]) }, "all namespaces"),
    path.map((name, at) => [" / ", h("a", { href: link(["items", ...path.slice(0, at + 1)]) }, said(name))]),
  );
}

/** The names that come next. @param {HTMLElement} below @param {string[]} path @param {AbortSignal} signal */
async function folders(below, path, signal) {
  const list = h("ul.folders");
  const more = h("div");
  let pageToken = "";
  fill(below, loading());
  const read = async () => {
    try {
      const matches = path.length ? [{ end: "END_PREFIX", names: path }] : [];
      const reply = await call(
        "ItemService/ListNamespaces",
        { matches, maxDepth: Math.min(16, path.length + 1), pageSize: 200, pageToken },
        { signal },
      );
      pageToken = reply.nextPageToken ?? "";
      const next = (reply.namespaces ?? []).filter(
        (/** @type {any} */ one) => (one.namespace ?? []).length > path.length,
      );
      list.append(
        ...next.map((/** @type {any} */ one) =>
          h(
            "li",
            null,
            h("a.folder", { href: link(["items", ...one.namespace]) }, said(one.namespace[path.length])),
          ),
        ),
      );
      fill(
        more,
        pageToken &&
          h(
            "p.actions",
            null,
            h("button", { type: "button", onclick: () => void read() }, "More namespaces"),
          ),
      );
      if (list.firstChild || pageToken) fill(below, list, more);
      else fill(below, path.length === 0 && noItems());
    } catch (error) {
      if (!signal.aborted)
        fill(
          below,
          failure(error, () => void read()),
        );
    }
  };
  await read();
}

function noItems() {
  return empty(
    "No items.",
    "Items are values under keys, in namespaces: a LangGraph store, ADK’s state, files of Claude’s memory tool.",
    command('memoryd items put users/ada profile \'{"city": "Lisbon"}\' --subject ada'),
  );
}

/** @param {HTMLElement} place @param {string[]} path @param {AbortSignal} signal */
async function list(place, path, signal) {
  const rows = h("ul.items");
  const more = h("div");
  const head = h("div");
  let pageToken = "";
  fill(place, loading());
  const read = async () => {
    try {
      const reply = await call(
        "ItemService/ListItems",
        { namespace: path, pageSize: PAGE, pageToken, order: "ITEM_ORDER_KEY", refreshTtl: false },
        { signal },
      );
      pageToken = reply.nextPageToken ?? "";
      rows.append(...(reply.items ?? []).map((/** @type {any} */ item) => itemNode(item, signal)));
      fill(
        more,
        pageToken &&
          h("p.actions", null, h("button", { type: "button", onclick: () => void read() }, "Show more")),
      );
      fill(place, rows.firstChild && head, rows, more);
    } catch (error) {
      if (!signal.aborted)
        fill(
          place,
          failure(error, () => void list(place, path, signal)),
        );
    }
  };
  await read();
  if (!rows.firstChild || signal.aborted) return;
  try {
    const found = (await call("ItemService/GetNamespace", { namespace: path }, { signal })).namespace ?? {};
    fill(
      head,
      h(
        "p.faint",
        null,
        counted(found.itemCount, "item"),
        ` · ${bytes(found.itemBytes)}`,
        found.config?.subject && [
          " · subject ",
          h("a", { href: link(["subject", found.config.subject]) }, said(found.config.subject)),
        ],
        found.config?.defaultTtl && ` · kept for ${found.config.defaultTtl}`,
        " · last change ",
        when(found.updateTime),
      ),
    );
  } catch {
    /* The items themselves are shown. */
  }
}

/** @param {HTMLElement} place @param {string[]} path @param {string} query @param {AbortSignal} signal */
async function search(place, path, query, signal) {
  fill(place, loading("Searching"));
  try {
    /** @type {any[]} */
    const [byKey, byWords] = await Promise.all([
      path.length
        ? call(
            "ItemService/ListItems",
            { namespace: path, keyPrefix: query, pageSize: 20, refreshTtl: false },
            { signal },
          )
        : {},
      call(
        "ItemService/SearchItems",
        { namespacePrefix: path, query, limit: 20, refreshTtl: false },
        { signal },
      ),
    ]);
    const answering = (byWords.results ?? []).filter((/** @type {any} */ one) => one.score !== undefined);
    const keys = byKey.items ?? [];
    if (keys.length + answering.length === 0)
      return fill(place, empty("No item answers.", "Try a word of its value, or the beginning of its key."));
    fill(
      place,
      keys.length > 0 && [
        h("h2", null, "By key"),
        h(
          "ul.items",
          null,
          keys.map((/** @type {any} */ item) => itemNode(item, signal)),
        ),
      ],
      answering.length > 0 && [
        h("h2", null, "By words"),
        h(
          "ul.items",
          null,
          answering.map((/** @type {any} */ one) => itemNode(one.item ?? {}, signal, one.score, path)),
        ),
      ],
    );
  } catch (error) {
    if (!signal.aborted)
      fill(
        place,
        failure(error, () => void search(place, path, query, signal)),
      );
  }
}

/** @param {any} item @param {AbortSignal} signal @param {number} [score] @param {string[]} [path] */
export function itemNode(item, signal, score, path) {
  const own = item.namespace ?? [];
  const place = h("div.fold-body");
  const fold = h(
    "details.fold.item",
    {
      ontoggle: () => {
        if (!fold.open || place.firstChild) return;
        fill(
          place,
          contentValue(item, signal),
          facts([
            ["Key", copyable(item.key ?? "")],
            ["Namespace", said(own.join(" / "))],
            ["Type", said(item.mimeType)],
            ["Version", item.version],
            ["Created", when(item.createTime)],
            ["Kept for", item.ttl],
            ["Written by", item.writer && said(item.writer)],
          ]),
        );
      },
    },
    h(
      "summary",
      null,
      h("b", null, said(item.key)),
      " ",
      path && own.length > path.length && h("span.faint", null, said(own.slice(path.length).join(" / "))),
      " ",
      h("span.faint", null, score !== undefined && `${number(score).toFixed(2)} · `, when(item.updateTime)),
      item.expireTime && h("span.badge.warn", null, "expires ", when(item.expireTime)),
      item.untrusted && badge("untrusted", "From a source that is not trusted", "warn"),
      item.json !== undefined && [
        " ",
        said(item.json.length > 80 ? `${item.json.slice(0, 80)}…` : item.json, "span"),
      ],
    ),
    place,
  );
  return h("li", null, fold);
}
