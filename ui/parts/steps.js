// @ts-check
// Many entries, of which the first are shown and more when they are wanted.
import { append, h } from "../lib/dom.js";
import { counted } from "../lib/format.js";

/**
 * @param {any[]} entries @param {number} size how many are shown at first, and with each step at least
 * @param {(entry: any, at: number) => import("../lib/dom.js").Child} render
 * @param {string} noun what one of them is called @param {string} [tag] of what holds them
 */
export function steps(entries, size, render, noun, tag = "div.stack") {
  const place = h(tag);
  let shown = 0;
  const more = h("button.link", { type: "button", onclick: () => show(Math.max(size, 100)) });
  const show = (/** @type {number} */ step) => {
    const next = entries.slice(shown, shown + step).map((entry, at) => render(entry, shown + at));
    shown += next.length;
    more.remove();
    append(place, next);
    if (shown === entries.length) return;
    more.textContent = `Show more: ${counted(entries.length - shown, noun)} left`;
    place.appendChild(more);
  };
  show(size);
  return place;
}
