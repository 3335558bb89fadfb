// @ts-check
// Amounts as parts of a bar, with a table beside it for who can't see it.
import { h, said } from "../lib/dom.js";
import { count } from "../lib/format.js";

/** @typedef {{name: string, value: number, note?: import("../lib/dom.js").Child, cut?: boolean, color?: number, where?: string}} Segment */

/**
 * A bar of segments and its legend. `whole` is what the full width stands for.
 * @param {Segment[]} segments @param {number} whole @param {string} label @param {string} unit
 */
export function bar(segments, whole, label, unit) {
  const sum = segments.reduce((total, segment) => total + segment.value, 0);
  const width = Math.max(whole, sum, 1);
  const colored = segments.map((segment, index) => ({ color: (index % 8) + 1, ...segment }));
  return h(
    "div.bar-block",
    null,
    h(
      "div.bar",
      { role: "img", "aria-label": `${label}: ${count(sum)} of ${count(whole)} ${unit}` },
      colored
        .filter((segment) => segment.value > 0)
        .map((segment) =>
          h(`span.segment.c${segment.color}${segment.cut ? ".is-cut" : ""}`, {
            width: `${(100 * segment.value) / width}%`,
            title: `${segment.name}: ${count(segment.value)} ${unit}`,
          }),
        ),
    ),
    h(
      "table.legend",
      null,
      h("caption.hidden", null, label),
      h(
        "tbody",
        null,
        colored.map((segment) =>
          h(
            "tr",
            null,
            h(
              "td",
              null,
              h(`span.swatch.c${segment.color}${segment.cut ? ".is-cut" : ""}`, { "aria-hidden": "true" }),
            ),
            h(
              "th",
              { scope: "row" },
              segment.where ? h("a", { href: segment.where }, said(segment.name)) : said(segment.name),
            ),
            h("td.amount", null, segment.value > 0 || !segment.cut ? `${count(segment.value)} ${unit}` : ""),
            h("td", null, segment.note ?? ""),
          ),
        ),
      ),
    ),
  );
}

/** A share as a short bar with its number. @param {number} share 0 to 1 @param {string} label */
export function meter(share, label) {
  const clipped = Math.min(1, Math.max(0, share));
  return h(
    "span.meter",
    { title: `${label}: ${share.toFixed(2)}` },
    h("span.meter-track", { "aria-hidden": "true" }, h("span.meter-fill", { width: `${clipped * 100}%` })),
    h("span", null, `${label} ${share.toFixed(2)}`),
  );
}
