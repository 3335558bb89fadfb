// Text and JSON as the server takes them, and what it does not take made fit.
//
// JavaScript's strings may hold lone halves of characters beyond U+FFFF (surrogates), which UTF-8 has not. Places in a
// text are counted in characters, as all clients count them.

import { sha256 } from "./sha256.js";

export const MAX_PARTS = 1000;
/** What the server takes as metadata. */
export const MAX_METADATA_BYTES = 256 << 10;
/** What the server takes in one text. */
const MAX_TEXT_BYTES = 1 << 20;
const MAX_CALL_ID_BYTES = 16 << 10;
const MAX_DEPTH = 64;
const MAX_OBJECT_KEYS = 1000;
const MAX_TOTAL_KEYS = 10_000;
const MAX_KEY_BYTES = 1024;
const LONE_HALF = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Where in a text a half stood, and which it was. */
export type Halves = [number, number][];

/** Whether UTF-8 holds the text. */
export function isUtf8(text: string): boolean {
  return text.search(LONE_HALF) < 0;
}

/** The bytes of a text in UTF-8. */
export function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** The text with U+FFFD in place of each lone half, and what withHalves needs to undo it. */
export function withoutHalves(text: string): [string, Halves] {
  if (isUtf8(text)) return [text, []];
  const halves: Halves = [];
  const characters = Array.from(text);
  for (const [at, one] of characters.entries()) {
    const code = one.charCodeAt(0);
    if (one.length === 1 && code >= 0xd800 && code <= 0xdfff) halves.push([at, code]);
  }
  return [text.replace(LONE_HALF, "\ufffd"), halves];
}

export function withHalves(text: string, halves: Halves): string {
  if (halves.length === 0) return text;
  const characters = Array.from(text);
  for (const [at, half] of halves) characters[at] = String.fromCharCode(half);
  return characters.join("");
}

/** Whether the server takes the text as it is. */
export function isText(text: string): boolean {
  return isUtf8(text) && (3 * text.length <= MAX_TEXT_BYTES || bytesOf(text) <= MAX_TEXT_BYTES);
}

/** The text in pieces that the server takes, at least one. */
export function pieces(text: string): string[] {
  if (isText(text)) return [text];
  const characters = Array.from(text);
  const size = MAX_TEXT_BYTES / 4;
  const made: string[] = [];
  for (let at = 0; at < characters.length; at += size) made.push(characters.slice(at, at + size).join(""));
  return made;
}

/** Whether the server takes `text`, which is the JSON of `value`, where it looks into JSON. */
export function isJson(value: unknown, text: string, maxBytes: number): boolean {
  if (text.length > maxBytes || bytesOf(text) > maxBytes) return false;
  let keys = 0;
  let depth = 0;
  for (let level: unknown[] = [value]; level.length > 0;) {
    const inside: unknown[] = [];
    let deeper = false;
    for (const item of level) {
      if (Array.isArray(item)) {
        deeper = true;
        inside.push(...(item as unknown[]));
      } else if (typeof item === "object" && item !== null) {
        deeper = true;
        const own = Object.keys(item);
        keys += own.length;
        if (own.length > MAX_OBJECT_KEYS || !own.every(isKey)) return false;
        inside.push(...(Object.values(item) as unknown[]));
      } else if (typeof item === "string" && !isString(item)) {
        return false;
      }
    }
    depth += deeper ? 1 : 0;
    if (depth > MAX_DEPTH || keys > MAX_TOTAL_KEYS) return false;
    level = inside;
  }
  return true;
}

function isKey(key: string): boolean {
  return isString(key) && (3 * key.length <= MAX_KEY_BYTES || bytesOf(key) <= MAX_KEY_BYTES);
}

function isString(text: string): boolean {
  return !text.includes("\0") && isUtf8(text);
}

/** The id of a tool's call as a part has it; undefined where there is none. */
export function callId(given: unknown): string | undefined {
  if ((typeof given !== "string" && typeof given !== "number") || given === "") return undefined;
  const text = String(given);
  if (isUtf8(text) && bytesOf(text) <= MAX_CALL_ID_BYTES) return text;
  // One that the server would refuse is told from others by its hash.
  return `sha256:${sha256(text)}`;
}
