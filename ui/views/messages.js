// @ts-check
// The messages of a session as a chat, from either end, however many there are.
import { fill, h, icon } from "../lib/dom.js";
import { call } from "../lib/api.js";
import { counted, dayOf, number } from "../lib/format.js";
import { changesOf, follow } from "../lib/live.js";
import { link, note } from "../lib/router.js";
import { command, empty, failure, shellName } from "../parts/states.js";
import { markArchived, messageNode, toolsOf } from "../parts/message.js";
import { PagedList, SIZE } from "../parts/paged_list.js";
import { notify } from "../parts/dialog.js";

const METHOD = "MemoryService/GetAll";
const NEWEST = "MESSAGE_ORDER_NEWEST_FIRST";
const OLDEST = "MESSAGE_ORDER_OLDEST_FIRST";
const MOST_PINNED = 8;
const MOST_ADDED = 100;
const TAIL = new Set(["MESSAGES_PUT", "MESSAGES_ARCHIVED"]);
const MOST_NEW = 300; // Beyond, the list is made again, so that it stays small.

/** @param {import("./session.js").TabContext} context */
export function messagesTab(context) {
  return new Chat(context).node;
}

class Chat {
  /** @param {import("./session.js").TabContext} context */
  constructor({ id, session, place, signal, refresh }) {
    this.id = id;
    this.total = number(session.activeCount) + number(session.archivedCount);
    this.archived = number(session.archivedCount);
    this.revision = String(session.revision ?? "0");
    this.signal = signal;
    this.refresh = refresh;
    this.lastPosition = 0;
    /** @type {Set<string>} */
    this.pinned = new Set();
    this.scroller = h("div.chat", { tabindex: "0", role: "region", "aria-label": "Messages" });
    this.status = h("p.chat-status", { role: "status" });
    this.fresh = h("div.fresh");
    /** @type {AbortController | null} */
    this.live = null;
    this.liveButton = h(
      "button",
      { type: "button", "aria-pressed": "false", onclick: () => this.toggleLive() },
      h("span.dot", { "aria-hidden": "true" }),
      "Live",
    );
    const goal = h("input", {
      id: "goal",
      size: "8",
      inputmode: "numeric",
      placeholder: "#",
      autocomplete: "off",
    });
    this.node = h(
      "div.chat-frame",
      null,
      h(
        "div.toolbar",
        null,
        h("button", { type: "button", onclick: () => this.show(OLDEST) }, icon("up"), "Beginning"),
        h("button", { type: "button", onclick: () => this.show(NEWEST) }, icon("down"), "Newest"),
        h(
          "form.inline",
          {
            onsubmit: (/** @type {Event} */ event) => {
              event.preventDefault();
              void this.seek(number(goal.value.replace("#", "")));
            },
          },
          h("label", { for: "goal" }, "Go to message"),
          goal,
          h("button", { type: "submit" }, "Go"),
        ),
        h("span.spring"),
        this.liveButton,
      ),
      this.status,
      this.scroller,
    );
    void this.start(place.query.get("at"), number(place.query.get("position")));
  }

  /** @param {string | null} at the id of a message to go to @param {number} position or its number */
  async start(at, position) {
    try {
      await this.findPinned();
      if (at) await this.seekId(at);
      else if (position) await this.seek(position);
      else await this.show(NEWEST);
    } catch (error) {
      if (!this.signal.aborted)
        fill(
          this.scroller,
          failure(error, () => void this.start(at, position)),
        );
    }
  }

  /** The messages that never leave: up to eight of the system's at the beginning. */
  async findPinned() {
    const reply = await this.read(OLDEST, "", MOST_PINNED);
    for (const message of reply.entries) {
      if (!["system", "developer"].includes(message.role ?? "")) break;
      this.pinned.add(message.messageId);
    }
  }

  /** @param {string} order @param {string} token @param {number} size */
  async read(order, token, size) {
    const reply = await call(
      METHOD,
      { sessionId: this.id, pageSize: size, pageToken: token, order },
      { signal: this.signal },
    );
    return { entries: reply.messages ?? [], next: reply.nextPageToken ?? "" };
  }

  /** Shows the session from one end. @param {string} order */
  async show(order) {
    this.list?.stop();
    this.endList?.abort();
    this.endList = new AbortController();
    const ended = this.endList;
    this.signal.addEventListener("abort", () => ended.abort(), { once: true });
    this.order = order;
    this.fresh = h("div.fresh");
    const upwards = order === NEWEST;
    /** What stands beside a page on the side that is nearer to the beginning of the list. @type {Map<string, any>} */
    const neighbours = new Map();
    const list = (this.list = new PagedList({
      scroller: this.scroller,
      upwards,
      signal: ended.signal,
      end:
        this.total > 0 &&
        h("p.end", null, upwards ? "The session begins here." : "This is the newest message."),
      read: async (token, size) => {
        const page = await this.read(order, token, size);
        if (page.next && page.entries.length)
          neighbours.set(page.next, page.entries[page.entries.length - 1]);
        return page;
      },
      render: (entries, token, signal) => {
        const near = neighbours.get(token) ?? null;
        const run = upwards ? [...entries].reverse() : entries;
        return this.run(run, upwards ? null : near, upwards ? near : null, signal);
      },
    }));
    fill(this.scroller, list.node, this.fresh);
    note(link(["session", this.id, "messages"]));
    const first = await list.more();
    if (ended.signal.aborted || !first) return;
    if (first.length === 0) return fill(this.scroller, this.nothing());
    this.lastPosition = upwards ? number(first[0].position) : this.lastPosition;
    this.scroller.scrollTop = upwards ? this.scroller.scrollHeight : 0;
    void list.look();
  }

  nothing() {
    return empty(
      "No message yet.",
      "Put one; with Live on, it appears here as it comes:",
      command(`memoryd put ${shellName(this.id)} "My dog is called Bella."`),
    );
  }

  /** Messages with what separates them. @param {any[]} run from top to bottom @param {any} before @param {any} after
   * @param {AbortSignal} signal */
  run(run, before, after, signal) {
    const all = [before, ...run, after];
    const tools = toolsOf(all.filter(Boolean));
    return run.map((message, at) => [
      this.between(all[at], message),
      this.shown(message, tools, signal),
      at === run.length - 1 && after && this.between(message, after),
    ]);
  }

  /** @param {any} message @param {Map<string, string>} tools @param {AbortSignal} signal */
  shown(message, tools, signal) {
    const isPinned = this.pinned.has(message.messageId);
    return messageNode(message, { sessionId: this.id, isPinned, signal, tools });
  }

  /** @param {any} earlier @param {any} later */
  between(earlier, later) {
    if (!earlier || !later) return null;
    const from = dayOf(earlier.createTime ?? earlier.ingestTime);
    const to = dayOf(later.createTime ?? later.ingestTime);
    const enters = earlier.status === "MESSAGE_STATUS_ARCHIVED" && later.status === "MESSAGE_STATUS_ACTIVE";
    return [from !== to && to && h("p.day", null, to), enters && boundary()];
  }

  /** Goes to the message at a position, from the nearer end. @param {number} position */
  async seek(position) {
    if (!(position >= 1)) return notify("A message’s number is 1 or more", true);
    const newest = (await this.read(NEWEST, "", 1)).entries[0];
    const last = number(newest?.position);
    if (position > last) return notify(`The newest message is #${last}`, true);
    const upwards = position > last / 2;
    await this.show(upwards ? NEWEST : OLDEST);
    const isReached = (/** @type {any[]} */ entries) =>
      entries.some((entry) =>
        upwards ? number(entry.position) <= position : number(entry.position) >= position,
      );
    const list = this.list;
    const find = () => this.scroller.querySelector(`article.message[data-position="${position}"]`);
    let far = number(upwards ? last : 1);
    while (list && list === this.list && !list.isComplete && !find() && !this.signal.aborted) {
      // Pages far from it are passed; the one that has it is shown.
      const skips = Math.abs(far - position) > 4 * SIZE;
      const entries = await list.more(skips);
      if (!entries) break;
      if (entries.length) far = number(entries[entries.length - 1].position);
      if (!isReached(entries)) continue;
      if (skips) await list.showLast();
      break;
    }
    const found = find();
    if (!found) return notify(`There is no message #${position}; it was removed`, true);
    found.classList.add("is-sought");
    found.scrollIntoView({ block: "center" });
    found.tabIndex = -1;
    found.focus({ preventScroll: true });
    note(link(["session", this.id, "messages"], { at: found.dataset.id }));
  }

  /** @param {string} messageId */
  async seekId(messageId) {
    const reply = await call(
      METHOD,
      { sessionId: this.id, filter: { messageIds: [messageId] } },
      { signal: this.signal },
    );
    const position = number(reply.messages?.[0]?.position);
    if (position) return this.seek(position);
    await this.show(NEWEST);
    notify("The message is not there any more", true);
  }

  toggleLive() {
    if (this.live) {
      this.live.abort();
      this.live = null;
      this.liveButton.setAttribute("aria-pressed", "false");
      fill(this.status);
      return;
    }
    const live = (this.live = new AbortController());
    this.signal.addEventListener("abort", () => live.abort(), { once: true });
    this.liveButton.setAttribute("aria-pressed", "true");
    void this.show(NEWEST);
    void follow(this.id, this.revision, {
      signal: live.signal,
      changed: (event) => this.takeChange(event),
      state: (state) =>
        fill(
          this.status,
          state === "away"
            ? "The server does not answer. Live goes on when it is back."
            : state === "asks"
              ? "Live, by asking every two seconds: the tenant watches as many sessions as it may."
              : "Live. New messages appear at the end.",
        ),
      gone: (error) => {
        this.toggleLive();
        fill(this.status, failure(error));
      },
    });
  }

  /** @param {any} event a WatchSessionResponse */
  async takeChange(event) {
    const changes = changesOf(event);
    await this.refresh();
    const isSeen = (/** @type {string} */ one) =>
      one.startsWith("MESSAGES_") || one === "ITEMS_EDITED" || one === "RELOAD";
    if (!changes.some(isSeen)) return;
    // Who reads further up stays there: new messages come below, and those that left are marked.
    const isTail = changes.filter(isSeen).every((one) => TAIL.has(one));
    const added = isTail ? await this.added() : null;
    if (!added) return this.order === NEWEST ? this.show(NEWEST) : undefined;
    if (this.lastPosition <= MOST_PINNED) await this.findPinned();
    if (added.length) this.append(added);
    this.archive(number(event.watermark));
  }

  /** What was put since; null where it can't be appended. */
  async added() {
    if (this.order !== NEWEST || !this.lastPosition) return null;
    const { entries } = await this.read(NEWEST, "", MOST_ADDED);
    const added = entries
      .filter((/** @type {any} */ entry) => number(entry.position) > this.lastPosition)
      .reverse();
    const isWhole = added.length < MOST_ADDED && this.fresh.children.length + added.length < MOST_NEW;
    return isWhole ? added : null;
  }

  /** @param {any[]} added */
  append(added) {
    this.lastPosition = number(added[added.length - 1].position);
    const tools = toolsOf(added);
    this.fresh.append(...added.map((message) => this.shown(message, tools, this.signal)));
    if (this.list?.isAtStart) this.scroller.scrollTop = this.scroller.scrollHeight;
    else notify(`${counted(added.length, "new message")} below`);
  }

  /** Marks what has left short-term memory since it was shown. @param {number} watermark */
  archive(watermark) {
    const all = [...this.scroller.querySelectorAll("article.message")];
    const left = all.filter(
      (node) =>
        Number(node.dataset.position) <= watermark &&
        !node.classList.contains("is-archived") &&
        !this.pinned.has(node.dataset.id),
    );
    if (left.length === 0) return;
    left.forEach((node) => markArchived(node, this.id));
    this.scroller.querySelectorAll(".boundary").forEach((/** @type {Element} */ one) => one.remove());
    const first = all.find((node) => Number(node.dataset.position) > watermark);
    if (first && first !== all[0]) first.before(boundary());
  }
}

function boundary() {
  return h("p.boundary", null, "Short-term memory begins here");
}
