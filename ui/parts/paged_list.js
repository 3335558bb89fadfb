// @ts-check
// A list that comes in pages from one end and may be longer than a tab can hold: pages far from what is
// seen are dropped, with their height kept, and read again when they are near.
import { h, fill } from "../lib/dom.js";
import { failure } from "./states.js";

const KEPT = 6; // Pages with their elements beside the one that came last: some screens.
const NEAR = 1_200; // Pixels beyond what is seen.
export const SIZE = 50; // Entries of the first page.
const LATER_SIZE = 2 * SIZE; // Of those that scrolling brings: fewer calls on a long way.
const SKIPPED_SIZE = 4 * SIZE; // Of a page on the way to a place further on, which is not shown.
const GUESSED = 120; // The height of an entry that was never shown.

/** @typedef {{token: string, size: number, node: HTMLElement, height: number, isShown: boolean, abort: AbortController}} Page */

/**
 * `read(token, size)` gives a page of entries, as the server has them, and the token of the next;
 * `render(entries, token, signal)` their elements, from top to bottom. With `upwards` each page stands above the one before.
 */
export class PagedList {
  /** @param {{read: (token: string, size: number) => Promise<{entries: any[], next: string}>,
   *   render: (entries: any[], token: string, signal: AbortSignal) => import("../lib/dom.js").Child,
   *   scroller: HTMLElement, upwards: boolean, signal: AbortSignal, end: import("../lib/dom.js").Child}} options */
  constructor({ read, render, scroller, upwards, signal, end }) {
    this.read = read;
    this.render = render;
    this.scroller = scroller;
    this.upwards = upwards;
    this.signal = signal;
    this.end = end;
    /** @type {Page[]} */
    this.pages = [];
    this.edge = h("div.page-edge", { role: "status" });
    this.body = h("div.pages");
    this.node = h("div.paged", null, upwards ? [this.edge, this.body] : [this.body, this.edge]);
    this.busy = false;
    this.isComplete = false;
    this.next = "";
    /** Whether the end that was read first is what is seen, and stays it when an image grows. */
    this.isAtStart = true;
    const look = () => void this.look();
    scroller.addEventListener(
      "scroll",
      () => {
        this.isAtStart = upwards
          ? scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 40
          : scroller.scrollTop < 40;
        look();
      },
      { passive: true, signal },
    );
    if (upwards) {
      const grown = new ResizeObserver(() => {
        if (this.isAtStart) scroller.scrollTop = scroller.scrollHeight;
      });
      grown.observe(this.node);
      signal.addEventListener("abort", () => grown.disconnect(), { once: true });
    }
    window.addEventListener("resize", look, { passive: true, signal });
  }

  /** Reads the next page. Gives its entries; null at the end or after an error, which is shown.
   * @param {boolean} [skips] whether the page is only passed on the way to another */
  async more(skips = false) {
    if (this.busy || this.isComplete || this.signal.aborted) return null;
    this.busy = true;
    fill(this.edge, h("span.spinner", { "aria-hidden": "true" }));
    try {
      const token = this.next;
      const size = skips ? SKIPPED_SIZE : this.pages.length ? LATER_SIZE : SIZE;
      const { entries, next } = await this.read(token, size);
      if (this.signal.aborted) return null;
      const page = this.#put(token, size, entries, skips);
      this.next = next;
      this.isComplete = next === "";
      fill(this.edge, this.isComplete ? this.end : null);
      if (!skips) this.#drop(page);
      return entries;
    } catch (error) {
      if (!this.signal.aborted)
        fill(
          this.edge,
          failure(error, () => void this.more()),
        );
      return null;
    } finally {
      this.busy = false;
    }
  }

  /** @param {string} token @param {number} size @param {any[]} entries @param {boolean} skips @returns {Page} */
  #put(token, size, entries, skips) {
    const node = h("div.page");
    /** @type {Page} */
    const page = { token, size, node, height: 0, isShown: false, abort: new AbortController() };
    this.pages.push(page);
    this.#keepPlace(() => {
      if (this.upwards) this.body.prepend(node);
      else this.body.append(node);
      if (skips) node.style.height = `${entries.length * GUESSED}px`;
      else this.#show(page, entries);
    });
    return page;
  }

  /** Runs `change`, which adds or removes above, without moving what is seen. @param {() => void} change */
  #keepPlace(change) {
    const before = this.scroller.scrollHeight - this.scroller.scrollTop;
    change();
    if (this.upwards) this.scroller.scrollTop = this.scroller.scrollHeight - before;
  }

  /** @param {Page} page @param {any[]} entries */
  #show(page, entries) {
    page.abort = new AbortController();
    page.node.style.height = "";
    fill(page.node, this.render(entries, page.token, page.abort.signal));
    page.isShown = true;
  }

  /** Drops the elements of pages that are far from `near`. @param {Page} near */
  #drop(near) {
    const at = this.pages.indexOf(near);
    this.pages.forEach((page, index) => {
      if (!page.isShown || Math.abs(index - at) <= KEPT / 2) return;
      page.height = page.node.getBoundingClientRect().height;
      page.node.style.height = `${page.height}px`;
      page.abort.abort();
      fill(page.node);
      page.isShown = false;
    });
  }

  /** Reads what has come near. */
  async look() {
    if (this.busy || this.signal.aborted) return;
    const seen = this.scroller.getBoundingClientRect();
    const near = this.#firstNear(seen);
    if (near) await this.#restore(near);
    else if (this.#edgeIsNear(seen)) await this.more();
    else return;
    // There may be more room.
    if (!this.edge.querySelector(".failure")) requestAnimationFrame(() => void this.look());
  }

  /** The first page near what is seen that has no elements. Pages stand in order, so few are measured of thousands.
   * @param {DOMRect} seen */
  #firstNear(seen) {
    const [top, bottom] = [seen.top - NEAR, seen.bottom + NEAR];
    const isBefore = (/** @type {Page} */ { node }) =>
      this.upwards
        ? node.getBoundingClientRect().top >= bottom
        : node.getBoundingClientRect().bottom <= top;
    const isBehind = (/** @type {Page} */ { node }) =>
      this.upwards
        ? node.getBoundingClientRect().bottom <= top
        : node.getBoundingClientRect().top >= bottom;
    let [at, end] = [0, this.pages.length];
    while (at < end) {
      const middle = (at + end) >> 1;
      if (isBefore(this.pages[middle])) at = middle + 1;
      else end = middle;
    }
    for (; at < this.pages.length && !isBehind(this.pages[at]); ++at) {
      if (!this.pages[at].isShown) return this.pages[at];
    }
    return null;
  }

  /** @param {DOMRect} seen */
  #edgeIsNear(seen) {
    if (this.isComplete || this.edge.querySelector(".failure")) return false;
    const edge = this.edge.getBoundingClientRect();
    return edge.bottom > seen.top - NEAR && edge.top < seen.bottom + NEAR;
  }

  /** @param {Page} page */
  async #restore(page) {
    this.busy = true;
    try {
      const { entries } = await this.read(page.token, page.size);
      if (this.signal.aborted) return;
      const isAbove = page.node.getBoundingClientRect().bottom < this.scroller.getBoundingClientRect().top;
      const before = page.node.getBoundingClientRect().height;
      this.#show(page, entries);
      const grown = page.node.getBoundingClientRect().height - before;
      if (isAbove) this.scroller.scrollTop += grown;
      this.#drop(page);
    } catch (error) {
      if (!this.signal.aborted) {
        page.node.style.height = "";
        fill(
          page.node,
          failure(error, () => void this.#restore(page)),
        );
      }
    } finally {
      this.busy = false;
    }
  }

  /** Shows the page that was read last, if it was only passed. */
  async showLast() {
    const page = this.pages[this.pages.length - 1];
    if (page && !page.isShown) await this.#restore(page);
  }

  stop() {
    this.pages.forEach((page) => page.abort.abort());
  }
}
