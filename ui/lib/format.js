// @ts-check
// Numbers, times and bytes as people read them.
import { h } from "./dom.js";

const whole = new Intl.NumberFormat();
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "full" });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const both = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "long" });

/** A number of a reply; 64-bit ones are strings there, and absent ones 0. @param {any} value */
export function number(value) {
  return Number(value ?? 0);
}

/** @param {any} value */
export function count(value) {
  return whole.format(number(value));
}

/** @param {any} value */
export function short(value) {
  return compact.format(number(value));
}

/** "1 message", "3 messages". @param {any} value @param {string} noun @param {string} [plural] */
export function counted(value, noun, plural = `${noun}s`) {
  return `${count(value)} ${number(value) === 1 ? noun : plural}`;
}

/** @param {any} value */
export function bytes(value) {
  let size = number(value);
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    ++unit;
  }
  return `${unit === 0 ? whole.format(size) : size.toFixed(size < 10 ? 1 : 0)} ${units[unit]}`;
}

/** @param {any} value a share, 0 to 1 */
export function percent(value) {
  const share = number(value) * 100;
  return `${share > 0 && share < 1 ? "<1" : Math.round(share)} %`;
}

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

/** @param {Date} date */
export function ago(date) {
  const seconds = (date.getTime() - Date.now()) / 1000;
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return seconds > 10 ? "in a moment" : "just now";
}

/** The Date of a timestamp of a reply; null where there is none, or one no Date can be. @param {any} text */
export function dateOf(text) {
  if (!text) return null;
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? null : date;
}

/** "3 minutes ago", with the whole time where the pointer rests. @param {any} text @param {string} [absent] */
export function when(text, absent = "—") {
  const date = dateOf(text);
  if (!date) return h("span.faint", null, text ? String(text) : absent);
  return h("time.ago", { datetime: date.toISOString(), title: both.format(date) }, ago(date));
}

/** Says anew how long ago the times below `root` are. @param {ParentNode} root */
export function tellTimes(root) {
  root.querySelectorAll("time.ago").forEach((one) => {
    one.textContent = ago(new Date(/** @type {HTMLTimeElement} */ (one).dateTime));
  });
}

/** "14:05". @param {any} text */
export function atClock(text) {
  const date = dateOf(text);
  if (!date) return null;
  return h("time", { datetime: date.toISOString(), title: both.format(date) }, clock.format(date));
}

/** "Sunday, 29 November 2026"; empty for none. @param {any} text */
export function dayOf(text) {
  const date = dateOf(text);
  return date ? day.format(date) : "";
}

/** "MESSAGE_STATUS_ACTIVE" as "active". @param {string | undefined} name @param {string} prefix */
export function enumName(name, prefix) {
  return (name ?? "").replace(prefix, "").toLowerCase().replaceAll("_", " ");
}

/** Bytes of base64, as replies have them. @param {string} base64 */
export function decoded(base64) {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

/** The text of bytes that are UTF-8 without control characters; else null. @param {Uint8Array} data */
export function textOf(data) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(data);
    // eslint-disable-next-line no-control-regex
    return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** @param {Uint8Array} data @param {number} [most] */
export function hex(data, most = 512) {
  const shown = Array.from(data.subarray(0, most), (byte) => byte.toString(16).padStart(2, "0"));
  const lines = [];
  for (let at = 0; at < shown.length; at += 16) lines.push(shown.slice(at, at + 16).join(" "));
  return lines.join("\n") + (data.length > most ? `\n… ${bytes(data.length)} in all` : "");
}

/** What a block is configured with; nothing where that can't be read. @param {any} block @returns {any} */
export function optionsOf(block) {
  try {
    return JSON.parse(block.optionsJson || "{}") ?? {};
  } catch {
    return {};
  }
}
