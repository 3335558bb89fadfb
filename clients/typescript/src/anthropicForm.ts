// Messages of Anthropic's API, into parts and out of them.

import { clone, create } from "@bufbuild/protobuf";
import { base64Encode } from "@bufbuild/protobuf/wire";
import { Crossing, textsOf } from "./crossing.js";
import type { Media, Message, Part, ToolCall, ToolResult } from "./gen/memoryd/v1/memory_pb.js";
import { ToolResultSchema } from "./gen/memoryd/v1/memory_pb.js";
import { isAssistant, isSystem, isTool } from "./roles.js";
import type { Dict } from "./templates.js";
import { heldBy, isDict, Taking } from "./templates.js";

const IMAGE_TYPES = ["image/jpeg", "image/png", "image/gif", "image/webp"];
const IMAGE_BEGINS: readonly (readonly [readonly number[], string])[] = [
  [[0xff, 0xd8, 0xff], "image/jpeg"],
  [[0x89, 0x50, 0x4e, 0x47], "image/png"],
  [[0x47, 0x49, 0x46, 0x38], "image/gif"],
  [[0x52, 0x49, 0x46, 0x46], "image/webp"],
];
const PDF = [0x25, 0x50, 0x44, 0x46];

/** The parts of a message, and its template. */
export function taken(message: Dict): [Taking, Dict] {
  const { content } = message;
  const blocks = Array.isArray(content) ? (content as Dict[]) : [];
  const taking = new Taking(blocks.filter(({ type }) => type === "tool_use" || type === "tool_result").length);
  const made = { ...message };
  if (typeof content === "string") made["content"] = taking.text(content);
  else if (Array.isArray(content)) made["content"] = blocks.map((block) => takeBlock(taking, block));
  return [taking, made];
}

/**
 * The messages that the parts say. Of the role `system` one that belongs in `system`. Without content, which the API
 * refuses, there is none.
 */
export function canonical(message: Message, parts: readonly Part[], crossing: Crossing): Dict[] {
  const { role } = message;
  if (isSystem(role)) return messageOf("system", textsOf(parts).filter(hasWords).map(text));
  let results = parts.flatMap(({ kind }) => (kind.case === "toolResult" ? [kind.value] : []));
  let others = parts.filter((part) => part.kind.case !== "toolResult");
  if (isTool(role)) {
    if (results.length === 0) results = [create(ToolResultSchema, { name: message.name })];
    const last = clone(ToolResultSchema, results.at(-1) ?? create(ToolResultSchema));
    last.text += textsOf(others).join("");
    results = [...results.slice(0, -1), last];
    others = others.filter(({ kind }) => kind.case === "image" || kind.case === "document");
  }
  // The API takes results only ahead of anything else.
  const answers = resultsFirst(results.map((one) => resultOf(one, crossing)));
  if (isAssistant(role)) {
    return [...messageOf("assistant", blocksIn(others, crossing, true)), ...messageOf("user", answers)];
  }
  return messageOf("user", [...answers, ...blocksIn(others, crossing, false)]);
}

/** The blocks that say what these parts say. */
export function blocksOf(parts: readonly Part[]): Dict[] {
  return blocksIn(parts, new Crossing(), false);
}

/** The blocks with results ahead of all others. */
export function resultsFirst(blocks: readonly Dict[]): Dict[] {
  const isResult = (block: Dict): boolean => block["type"] === "tool_result";
  return [...blocks.filter(isResult), ...blocks.filter((block) => !isResult(block))];
}

function takeBlock(taking: Taking, block: Dict): unknown {
  const kind = block["type"];
  const made = { ...block };
  if (kind === "text" && typeof block["text"] === "string") {
    made["text"] = taking.text(block["text"]);
  } else if ((kind === "image" || kind === "document") && takeSource(taking, kind, made)) {
    return made;
  } else if (kind === "tool_use" && isDict(block["input"])) {
    const [id, name, input] = taking.call(block["id"], block["name"], block["input"]);
    const values: Dict = { id, name, input };
    for (const key of Object.keys(values)) if (key in block) made[key] = values[key];
  } else if (kind === "tool_result") {
    takeResult(taking, made);
  } else if (kind === "thinking" && typeof block["thinking"] === "string") {
    const [thinking, signature] = taking.thinking(block["thinking"], block["signature"]);
    made["thinking"] = thinking;
    if ("signature" in block) made["signature"] = signature;
  } else if (kind === "search_result" && Array.isArray(block["content"])) {
    made["content"] = block["content"].map((inner: Dict) => takeBlock(taking, inner));
  } else {
    return taking.opaque(kind, block);
  }
  return made;
}

// Takes the source of an image or a document; false for one of an unknown kind.
function takeSource(taking: Taking, kind: "image" | "document", made: Dict): boolean {
  const { source } = made;
  if (!isDict(source)) return false;
  const about = kind === "document" ? { title: made["title"] } : {};
  const { type, data, url, file_id: file, content } = source;
  const typed = { ...about, mimeType: source["media_type"] };
  if (type === "base64" && typeof data === "string") {
    made["source"] = { ...source, data: taking.data(kind, data, typed) };
  } else if (type === "text" && typeof data === "string") {
    made["source"] = { ...source, data: taking.plain(kind, data, typed) };
  } else if (type === "url" && typeof url === "string") {
    made["source"] = { ...source, url: taking.url(kind, url, about) };
  } else if (type === "file" && typeof file === "string") {
    made["source"] = { ...source, file_id: taking.file(kind, file, about) };
  } else if (type === "content" && typeof content === "string") {
    made["source"] = { ...source, content: taking.plain(kind, content, { ...about, mimeType: "text/plain" }) };
  } else if (type === "content" && Array.isArray(content)) {
    made["source"] = { ...source, content: content.map((inner: Dict) => takeBlock(taking, inner)) };
  } else {
    return false;
  }
  return true;
}

function takeResult(taking: Taking, made: Dict): void {
  const { content } = made;
  const list = Array.isArray(content) ? (content as Dict[]) : [];
  const texts = typeof content === "string" ? [content] : list.flatMap(textsIn);
  const [id, , holes] = taking.result(made["tool_use_id"], undefined, texts, made["is_error"] === true);
  if ("tool_use_id" in made) made["tool_use_id"] = id;
  if (typeof content === "string") made["content"] = holes[0];
  else if (Array.isArray(content)) made["content"] = list.map((block) => inResult(taking, block, holes));
}

// The texts of a block of a result that belong to the answer's text.
function textsIn(block: Dict): string[] {
  if (block["type"] === "text" && typeof block["text"] === "string") return [block["text"]];
  if (block["type"] !== "search_result" || !Array.isArray(block["content"])) return [];
  return (block["content"] as Dict[]).flatMap(textsIn);
}

function inResult(taking: Taking, block: Dict, holes: unknown[]): unknown {
  if (textsIn(block).length === 0) return takeBlock(taking, block);
  if (block["type"] === "text") return { ...block, text: holes.shift() };
  return { ...block, content: (block["content"] as Dict[]).map((inner) => inResult(taking, inner, holes)) };
}

function messageOf(role: string, blocks: readonly Dict[]): Dict[] {
  const [first] = blocks;
  if (first === undefined) return [];
  if (blocks.length === 1 && first["type"] === "text") return [{ role, content: first["text"] }];
  return [{ role, content: blocks }];
}

function resultOf(result: ToolResult, crossing: Crossing): Dict {
  const answered = crossing.answered(result);
  if (answered === undefined) return text(`[${result.name === "" ? "tool" : result.name}] ${result.text}`);
  const made: Dict = { type: "tool_result", tool_use_id: answered, content: result.text };
  if (result.isError) made["is_error"] = true;
  return made;
}

function blocksIn(parts: readonly Part[], crossing: Crossing, isOfAssistant: boolean): Dict[] {
  return parts.map((part) => blockOf(part, crossing, isOfAssistant)).filter((one) => one !== undefined);
}

function blockOf(part: Part, crossing: Crossing, isOfAssistant: boolean): Dict | undefined {
  const { kind } = part;
  switch (kind.case) {
    case "toolCall":
      return isOfAssistant ? toolUse(kind.value, crossing) : undefined;
    case "thinking": {
      const { signature } = kind.value;
      // Without a signature the API refuses it.
      if (!isOfAssistant || signature === undefined || signature === "") return undefined;
      return { type: "thinking", thinking: kind.value.text ?? "", signature };
    }
    case "image":
    case "document": {
      const block = kind.case === "image" ? image(kind.value) : document(kind.value);
      // Only a user's message may have one.
      return block["type"] === "text" || !isOfAssistant ? block : text(`[${kind.case}]`);
    }
    case "audio":
    case "video":
      return text(`[${kind.case}]`);
    default: {
      const [first] = textsOf([part]).filter(hasWords);
      return first === undefined ? undefined : text(first);
    }
  }
}

function toolUse(call: ToolCall, crossing: Crossing): Dict {
  const id = crossing.callId(call);
  return { type: "tool_use", id, name: crossing.toolName(call.name), input: input(call.argumentsJson) };
}

// Arguments as the API takes them, an object.
function input(given: string): Dict {
  let value: unknown = given;
  try {
    value = JSON.parse(given === "" ? "{}" : given);
  } catch {
    // Of a stream that was cut, or of a tool that takes text.
  }
  return isDict(value) ? value : { arguments: value };
}

function image(given: Media): Dict {
  const held = heldBy(given);
  if (held === undefined) {
    const source = webSource(given);
    if (source !== undefined) return { type: "image", source };
    const place = given.path === undefined || given.path === "" ? (given.url ?? "") : given.path;
    return text(`[image ${place}]`.replace(" ]", "]"));
  }
  const [mimeType, data] = held;
  const named = IMAGE_TYPES.includes(mimeType) ? mimeType : IMAGE_BEGINS.find(([begin]) => beginsWith(data, begin))?.[1];
  if (named === undefined || data.length === 0) return text("[image]");
  return { type: "image", source: base64(named, data) };
}

function document(given: Media): Dict {
  const held = heldBy(given);
  const title = given.title ?? "";
  if (held === undefined) {
    const source = webSource(given);
    if (source !== undefined) return titled(title, source);
    const place = given.path === undefined || given.path === "" ? (given.url ?? "") : given.path;
    return text(`[document ${[title, place].filter((one) => one !== "").join(" ")}]`);
  }
  const [mimeType, data] = held;
  if (mimeType === "application/pdf" || beginsWith(data, PDF)) return titled(title, base64("application/pdf", data));
  let said = "";
  try {
    said = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    // Is no text.
  }
  if (!hasWords(said)) return text(`[document ${title}]`.replace(" ]", "]"));
  return titled(title, { type: "text", media_type: "text/plain", data: said });
}

function beginsWith(data: Uint8Array, begin: readonly number[]): boolean {
  return begin.every((byte, at) => data[at] === byte);
}

// The source of what the API fetches itself.
function webSource(media: Media): Dict | undefined {
  const url = media.url ?? "";
  return /^https?:\/\//.test(url) ? { type: "url", url } : undefined;
}

function titled(title: string, source: Dict): Dict {
  return title === "" ? { type: "document", source } : { type: "document", source, title };
}

function base64(mimeType: string, data: Uint8Array): Dict {
  return { type: "base64", media_type: mimeType, data: base64Encode(data) };
}

function hasWords(said: string): boolean {
  return said.trim() !== "";
}

function text(said: string): Dict {
  return { type: "text", text: said };
}
