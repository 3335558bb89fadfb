// A message of a provider's form as parts, and a template of what stands around them.
//
// Texts, ids, arguments and media stand in parts, where the server and every client find them. The template is the
// message with a hole where each of them was. It stands in the metadata under KEY, or in a last part, opaque and of type
// KEY, where the server would refuse it as metadata. The Python client writes and reads the same.

import { create } from "@bufbuild/protobuf";
import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";
import type { Media, Message, Part } from "./gen/memoryd/v1/memory_pb.js";
import { MediaSchema, PartSchema, ThinkingSchema, ToolCallSchema, ToolResultSchema } from "./gen/memoryd/v1/memory_pb.js";
import type { Halves } from "./wireText.js";
import {
  bytesOf,
  callId,
  isJson,
  isText,
  isUtf8,
  MAX_METADATA_BYTES,
  MAX_PARTS,
  pieces,
  withHalves,
  withoutHalves,
} from "./wireText.js";

/** An object of JSON. */
export type Dict = Record<string, unknown>;
/** The kinds of part that are media. */
export type MediaKind = "image" | "audio" | "video" | "document";

/** The form of a message that is the same in both. */
export const BOTH = "both";
/** In the metadata: how many of the values that an adapter reads the message as were popped. */
export const POPPED = "memoryd_popped";
const KEY = "memoryd";
const HOLE = "$part";
const MAX_NAME_BYTES = 256;
// The server's limit of an opaque part's type.
const MAX_TYPE_BYTES = 64;
// At most so many parts are kept free for calls and results.
const MAX_TOOL_PARTS = MAX_PARTS / 2;
const DATA_URL = /^data:([^;,]*);base64,/;
const MEDIA: readonly string[] = ["image", "audio", "video", "document"];
// The kinds of part that have each field.
const KINDS: Readonly<Record<string, readonly string[]>> = {
  text: ["text"],
  thinking: ["thinking"],
  signature: ["thinking"],
  result: ["toolResult"],
  arguments: ["toolCall"],
  input: ["toolCall"],
  id: ["toolCall", "toolResult"],
  name: ["toolCall", "toolResult"],
  json: ["opaque"],
  data: MEDIA,
  data_url: MEDIA,
  encoded: MEDIA,
  url_safe: MEDIA,
  plain: MEDIA,
  url: MEDIA,
  path: MEDIA,
};

interface About {
  count?: number;
  halves?: Halves;
  slice?: [number, number, number];
}

/** Where a part's content was: the part's index, the field, and what else its reader needs. */
class Hole {
  constructor(
    readonly at: number | "name",
    readonly field?: string,
    readonly about: About = {},
  ) {}

  get list(): unknown[] {
    if (this.at === "name") return ["name"];
    return Object.keys(this.about).length === 0 ? [this.at, this.field] : [this.at, this.field, this.about];
  }
}

/** The parts are no longer those that the template was made with. */
class Stale extends Error {}

export function isDict(value: unknown): value is Dict {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Moves content into parts. Each method returns what takes the content's place: a hole, or the content itself. */
export class Taking {
  readonly parts: Part[] = [];
  name = "";
  private reserved: number;

  /** `toolParts` says how many calls and results will come; other parts leave them room. */
  constructor(toolParts: number) {
    this.reserved = Math.min(toolParts, MAX_TOOL_PARTS);
  }

  /** The name of who speaks. */
  speaker(name: unknown): unknown {
    if (typeof name !== "string" || name === "" || !isUtf8(name) || bytesOf(name) > MAX_NAME_BYTES) return name;
    this.name = name;
    return new Hole("name");
  }

  text(text: string): unknown {
    const [value, halves] = withoutHalves(text);
    return this.texts(pieces(value).map(textPart), "text", halves, text);
  }

  /** Reasoning, and the signature over it. */
  thinking(text: string, signature?: unknown): [unknown, unknown] {
    const [value, halves] = withoutHalves(text);
    const [first = "", ...others] = pieces(value);
    const thinking = create(ThinkingSchema, { text: first });
    const isKept = typeof signature === "string" && isUtf8(signature);
    if (isKept) thinking.signature = signature;
    const at = this.parts.length;
    const part = create(PartSchema, { kind: { case: "thinking", value: thinking } });
    const hole = this.texts([part, ...others.map(textPart)], "thinking", halves, text);
    return [hole, isKept && hole instanceof Hole ? new Hole(at, "signature") : signature];
  }

  /** A call: its id, name and arguments, which are text or any JSON value. */
  call(id: unknown, name: unknown, args: unknown): [unknown, unknown, unknown] {
    const isGiven = typeof args === "string";
    const written = isGiven ? args : JSON.stringify(args);
    const fits = isText(written);
    const value = create(ToolCallSchema, { argumentsJson: fits ? written : "{}" });
    const at = this.add([create(PartSchema, { kind: { case: "toolCall", value } })], true);
    if (at === undefined) return [id, name, args];
    const hole = fits ? new Hole(at, isGiven ? "arguments" : "input") : args;
    return [this.id(at, value, id), this.toolName(at, value, name), hole];
  }

  /** A result: its call's id, the tool's name, and the texts of the answer. */
  result(id: unknown, name: unknown, texts: readonly string[], isError = false): [unknown, unknown, unknown[]] {
    const [whole, halves] = withoutHalves(texts.join("\n"));
    const [first = "", ...others] = pieces(whole);
    const value = create(ToolResultSchema, { text: first, isError });
    const made = [create(PartSchema, { kind: { case: "toolResult", value } }), ...others.map(textPart)];
    const at = this.add(made, true);
    if (at === undefined) return [id, name, [...texts]];
    const holes: unknown[] = [];
    let start = 0;
    for (const text of texts) {
      const hole = textHole(at, "result", made.length, halves);
      const length = lengthOf(text);
      if (texts.length > 1) hole.about.slice = [start, length, lengthOf(whole)];
      holes.push(hole);
      start += length + 1;
    }
    return [this.id(at, value, id), this.toolName(at, value, name), holes];
  }

  /** The URL of a medium. A data URL becomes data. */
  url(kind: MediaKind, url: string, about: Dict = {}): unknown {
    if (!isUtf8(url)) return url;
    const found = DATA_URL.exec(url);
    const data = found === null ? undefined : decoded(url.slice(found[0].length));
    if (data !== undefined) {
      return this.media(kind, create(MediaSchema, { data, mimeType: found?.[1] ?? "" }), "data_url", about, url);
    }
    return this.media(kind, create(MediaSchema, { url }), "url", about, url);
  }

  /** Data in base64, of either alphabet. */
  data(kind: MediaKind, text: string, about: Dict = {}): unknown {
    let data = decoded(text);
    if (data !== undefined) return this.media(kind, create(MediaSchema, { data }), "data", about, text);
    data = /[+/]/.test(text) ? undefined : decoded(text.replaceAll("-", "+").replaceAll("_", "/"));
    if (data !== undefined) return this.media(kind, create(MediaSchema, { data }), "url_safe", about, text);
    if (!isUtf8(text)) return text;
    // Base64 of another make, which decoding and encoding would change.
    const given = about["mimeType"];
    const mimeType = typeof given === "string" && isUtf8(given) ? given : "";
    return this.media(kind, create(MediaSchema, { url: `data:${mimeType};base64,${text}` }), "encoded", about, text);
  }

  /** A medium that is text. */
  plain(kind: MediaKind, text: string, about: Dict = {}): unknown {
    if (!isUtf8(text)) return text;
    const data = new TextEncoder().encode(text);
    return this.media(kind, create(MediaSchema, { data }), "plain", about, text);
  }

  /** A file at the provider's, by its id. */
  file(kind: MediaKind, path: string, about: Dict = {}): unknown {
    return isUtf8(path) ? this.media(kind, create(MediaSchema, { path }), "path", about, path) : path;
  }

  /** Content of a kind that has no part, whole. */
  opaque(kind: unknown, value: unknown): unknown {
    const type = typeof kind === "string" && isKind(kind) ? kind : "json";
    const at = this.add([opaquePart(type, value)]);
    return at === undefined ? value : new Hole(at, "json");
  }

  // Where the parts begin; undefined when there is no room for them.
  private add(made: readonly Part[], isOfTool = false): number | undefined {
    if (isOfTool) this.reserved = Math.max(0, this.reserved - 1);
    if (this.parts.length + made.length > MAX_PARTS - 1 - this.reserved) return undefined;
    const at = this.parts.length;
    this.parts.push(...made);
    return at;
  }

  private texts(made: readonly Part[], field: string, halves: Halves, text: string): unknown {
    const at = this.add(made);
    return at === undefined ? text : textHole(at, field, made.length, halves);
  }

  private media(kind: MediaKind, media: Media, field: string, about: Dict, given: string): unknown {
    for (const name of ["mimeType", "format", "title", "detail"] as const) {
      const value = about[name];
      if (typeof value === "string" && value !== "" && isUtf8(value)) media[name] ??= value;
    }
    const at = this.add([create(PartSchema, { kind: { case: kind, value: media } })]);
    return at === undefined ? given : new Hole(at, field);
  }

  private id(at: number, part: { callId?: string | undefined }, given: unknown): unknown {
    const made = callId(given);
    if (made !== undefined) part.callId = made;
    return made !== undefined && made === given ? new Hole(at, "id") : given;
  }

  private toolName(at: number, part: { name: string }, given: unknown): unknown {
    if (typeof given !== "string" || given === "" || !isText(given)) return given;
    part.name = given;
    return new Hole(at, "name");
  }
}

/** Whether the two are the same JSON, with the same order of keys. */
export function sameJson(left: unknown, right: unknown): boolean {
  if (Array.isArray(left)) {
    return (
      Array.isArray(right) && left.length === right.length && left.every((item, at) => sameJson(item, right[at]))
    );
  }
  if (isDict(left)) {
    if (!isDict(right)) return false;
    const keys = Object.keys(left);
    const others = Object.keys(right);
    return keys.length === others.length && keys.every((key, at) => key === others[at] && sameJson(left[key], right[key]));
  }
  return left === right;
}

/** Gives the message its metadata, with the template unless that is undefined. */
export function write(made: Message, form: string, template: Dict | undefined, metadata: Dict): void {
  if (template !== undefined) {
    const count = made.parts.length + (made.text === undefined ? 0 : 1);
    const own = { form, parts: count, message: encoded(template) };
    const both = { ...metadata, [KEY]: own };
    const text = JSON.stringify(both);
    if (isJson(both, text, MAX_METADATA_BYTES)) {
      made.metadataJson = text;
      return;
    }
    if (made.text !== undefined) {
      made.parts.push(textPart(made.text));
      made.text = undefined;
    }
    made.parts.push(opaquePart(KEY, own));
  }
  if (Object.keys(metadata).length > 0) made.metadataJson = JSON.stringify(metadata);
}

/** A message as it is stored: its parts, and the template if it has one. */
export class Stored {
  readonly parts: Part[];
  private readonly about: { form: string; parts: number; message: Dict } | undefined;

  constructor(readonly message: Message) {
    this.parts = message.text === undefined ? [...message.parts] : [textPart(message.text)];
    let about: unknown;
    const last = this.parts.at(-1)?.kind;
    if (last?.case === "opaque" && last.value.type === KEY) {
      this.parts.pop();
      about = loaded(new TextDecoder().decode(last.value.data));
    } else if (message.metadataJson.includes(`"${KEY}"`)) {
      const metadata = loaded(message.metadataJson);
      about = isDict(metadata) ? metadata[KEY] : undefined;
    }
    this.about = isAbout(about) ? about : undefined;
  }

  /** The form in which the message was put; undefined where its parts say all. */
  get form(): string | undefined {
    return this.about?.form;
  }

  /**
   * The message as it was put, and the parts that a Get has put ahead of its own. Undefined where somebody has changed
   * its parts since.
   */
  asPut(): [Dict, Part[]] | undefined {
    const found = this.asTemplated();
    // The server knows the message by this role alone.
    return found?.[0]["role"] === this.message.role ? found : undefined;
  }

  /** As `asPut`, whatever role the template says, if it says one. */
  asTemplated(): [Dict, Part[]] | undefined {
    const ahead = this.parts.length - (this.about?.parts ?? 0);
    if (this.about === undefined || ahead < 0) return undefined;
    try {
      const message = filled(this.about.message, this.parts.slice(ahead), this.message.name);
      return isDict(message) ? [message, this.parts.slice(0, ahead)] : undefined;
    } catch {
      return undefined; // Stale, or of another program that writes what no client does.
    }
  }
}

/** MIME type and data of a medium, its own or those of its data URL; undefined where it lies elsewhere. */
export function heldBy(media: Media): [string, Uint8Array] | undefined {
  if (media.data !== undefined) return [media.mimeType ?? "", media.data];
  const found = /^data:([^;,]*)[^,]*;base64,/.exec(media.url ?? "");
  if (found === null) return undefined;
  const given = (media.url ?? "").slice(found[0].length).replace(/[^A-Za-z0-9+/=]/g, "");
  if (given.length % 4 !== 0) return undefined;
  try {
    return [found[1] ?? "", base64Decode(given)];
  } catch {
    return undefined;
  }
}

export function textPart(text: string): Part {
  return create(PartSchema, { kind: { case: "text", value: text } });
}

function opaquePart(type: string, value: unknown): Part {
  const data = new TextEncoder().encode(JSON.stringify(value));
  return create(PartSchema, { kind: { case: "opaque", value: { type, data } } });
}

function textHole(at: number, field: string, count: number, halves: Halves): Hole {
  return new Hole(at, field, { ...(count > 1 ? { count } : {}), ...(halves.length > 0 ? { halves } : {}) });
}

// A template as JSON has it.
function encoded(value: unknown): unknown {
  if (value instanceof Hole) return { [HOLE]: value.list };
  if (Array.isArray(value)) return value.map(encoded);
  if (!isDict(value)) return value;
  const made = Object.fromEntries(Object.entries(value).map(([key, item]) => [key, encoded(item)]));
  return isHole(made) ? { [HOLE]: made } : made;
}

function isHole(value: Dict): boolean {
  return HOLE in value && Object.keys(value).length === 1;
}

// What `encoded` was given, with what is in the parts. Throws where they don't fit.
function filled(value: unknown, parts: readonly Part[], name: string): unknown {
  if (Array.isArray(value)) return value.map((item) => filled(item, parts, name));
  if (!isDict(value)) return value;
  const inside = isHole(value) ? value[HOLE] : undefined;
  if (Array.isArray(inside)) return inside[0] === "name" ? name : contentOf(inside, parts);
  // A message that has such a key itself.
  const own = isDict(inside) ? inside : value;
  return Object.fromEntries(Object.entries(own).map(([key, item]) => [key, filled(item, parts, name)]));
}

function contentOf(hole: readonly unknown[], parts: readonly Part[]): unknown {
  const [at, field, third] = hole as [number, string, About | undefined];
  const about = third ?? {};
  const kind = parts[at]?.kind;
  if (kind?.case === undefined || KINDS[field]?.includes(kind.case) !== true) throw new Stale();
  switch (kind.case) {
    case "text":
      return restored([kind.value, ...following(parts, at, about)], about);
    case "thinking":
      if (field === "signature") return kind.value.signature ?? "";
      return restored([kind.value.text ?? "", ...following(parts, at, about)], about);
    case "toolResult":
      if (field === "result") return restored([kind.value.text, ...following(parts, at, about)], about);
      return field === "id" ? (kind.value.callId ?? "") : kind.value.name;
    case "toolCall":
      if (field === "arguments") return kind.value.argumentsJson;
      if (field === "input") return JSON.parse(kind.value.argumentsJson);
      return field === "id" ? (kind.value.callId ?? "") : kind.value.name;
    case "opaque":
      return JSON.parse(new TextDecoder().decode(kind.value.data));
    case "image":
    case "audio":
    case "video":
    case "document":
      return mediumOf(kind.value, field);
    default:
      throw new Stale();
  }
}

function mediumOf(media: Media, field: string): string {
  const data = media.data ?? new Uint8Array();
  switch (field) {
    case "data":
      return base64Encode(data);
    case "url_safe":
      return base64Encode(data).replaceAll("+", "-").replaceAll("/", "_");
    case "data_url":
      return `data:${media.mimeType ?? ""};base64,${base64Encode(data)}`;
    case "encoded":
      return (media.url ?? "").slice((media.url ?? "").indexOf(",") + 1);
    case "plain":
      return new TextDecoder().decode(data);
    default:
      return (field === "url" ? media.url : media.path) ?? "";
  }
}

function following(parts: readonly Part[], at: number, about: About): string[] {
  const count = (about.count ?? 1) - 1;
  const found = parts.slice(at + 1, at + 1 + count);
  if (found.length !== count) throw new Stale();
  return found.map((part) => (part.kind.case === "text" ? part.kind.value : ""));
}

function restored(texts: readonly string[], about: About): string {
  let text = texts.join("");
  const halves = about.halves ?? [];
  const characters = Array.from(text);
  if (halves.every(([at]) => characters[at] === "\ufffd")) text = withHalves(text, halves);
  if (about.slice === undefined) return text;
  const [start, length, whole] = about.slice;
  const now = Array.from(text);
  if (now.length !== whole) throw new Stale();
  return now.slice(start, start + length).join("");
}

// The characters of a text, as places in it are counted.
function lengthOf(text: string): number {
  let length = 0;
  for (const one of text) length += one === "" ? 0 : 1;
  return length;
}

// The data, if it is no other than what its base64 is made of.
function decoded(text: string): Uint8Array | undefined {
  try {
    const data = base64Decode(text);
    return base64Encode(data) === text ? data : undefined;
  } catch {
    return undefined;
  }
}

function loaded(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // Somebody else's.
  }
}

function isAbout(about: unknown): about is { form: string; parts: number; message: Dict } {
  if (!isDict(about) || !isDict(about["message"])) return false;
  return typeof about["form"] === "string" && Number.isInteger(about["parts"]) && (about["parts"] as number) >= 0;
}

function isKind(text: string): boolean {
  return /^[\x20-\x7e]+$/.test(text) && text.length <= MAX_TYPE_BYTES && text !== KEY;
}
