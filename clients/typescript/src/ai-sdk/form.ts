// Messages of the AI SDK, into parts and out of them.
//
// A message is packed into JSON first: bytes as base64, addresses as text, and what a tool returned as JSON text, so that
// it is the text of a result's part. `unpacked` undoes it.

import type { LanguageModelV4Message, LanguageModelV4Prompt } from "@ai-sdk/provider";
import { base64Encode } from "@bufbuild/protobuf/wire";
import type { Crossing } from "../crossing.js";
import { textsOf } from "../crossing.js";
import type { FormRules, MessageFields } from "../forms.js";
import { inForm, messageOf, plainOf } from "../forms.js";
import type { Media, Message, Part, ToolCall, ToolResult } from "../gen/memoryd/v1/memory_pb.js";
import { isAssistant, isSystem, isTool } from "../roles.js";
import type { Dict, MediaKind } from "../templates.js";
import { heldBy, isDict, Taking } from "../templates.js";

const FORM = "ai-sdk";
const MEDIA: readonly string[] = ["image", "audio", "video"];
const ERRORS = ["error-text", "error-json", "execution-denied"];
const RULES: FormRules = { taken, canonical, blocksOf };

/** What has a role and a content: a message of a prompt, or a ModelMessage. */
export interface SdkMessage {
  readonly role: string;
  readonly content: unknown;
}

/** The message as memoryd's. Throws TypeError for what is no message, and names the place. */
export function fromSdk(message: SdkMessage, fields: MessageFields = {}): Message {
  return messageOf(plainOf(packed(message), "message") as Dict, FORM, [RULES], fields);
}

/** Stored messages as a prompt has them. */
export function toPrompt(messages: Iterable<Message>): LanguageModelV4Prompt {
  const made = inForm(messages, FORM, RULES).map(({ message }) => unpacked(message));
  const names = new Map<unknown, unknown>();
  for (const part of made.flatMap(partsOf)) {
    if (part["type"] === "tool-call") names.set(part["toolCallId"], part["toolName"]);
    // Other forms name a result by its call alone.
    if (part["type"] === "tool-result" && part["toolName"] === "") part["toolName"] = names.get(part["toolCallId"]) ?? "tool";
  }
  return made as unknown as LanguageModelV4Message[];
}

function partsOf(message: Dict): Dict[] {
  const { content } = message;
  return Array.isArray(content) ? content.filter(isDict) : [];
}

// Packing.

function packed(message: SdkMessage): Dict {
  const made: Dict = { ...message };
  const { content } = message;
  if (message.role === "system") return made;
  if (typeof content === "string") made["content"] = [textPart(content)];
  // A prompt has no place for what asks the user.
  else made["content"] = partsOf(made).filter(({ type }) => type !== "tool-approval-request").map(packedPart);
  return made;
}

function packedPart(part: Dict): Dict {
  const { type, image, output, ...rest } = part;
  if (type === "image") return { type: "file", data: packedData(image), ...rest, mediaType: rest["mediaType"] ?? "image" };
  if (type === "file" || type === "reasoning-file") return { ...part, data: packedData(part["data"]) };
  if (type === "tool-result" && isDict(output)) return { ...part, output: packedOutput(output) };
  return part;
}

function packedData(data: unknown): Dict {
  if (data instanceof URL) return { type: "url", url: data.href };
  if (typeof data === "string") return /^(https?|data):/i.test(data) ? { type: "url", url: data } : { type: "data", data };
  if (data instanceof Uint8Array) return { type: "data", data: base64Encode(data) };
  if (data instanceof ArrayBuffer) return { type: "data", data: base64Encode(new Uint8Array(data)) };
  if (!isDict(data)) throw new TypeError("message.content: a file must have data");
  if (data["type"] === "data") return { ...data, ...packedData(data["data"]) };
  if (data["type"] === "url") return { ...data, url: String(data["url"]) };
  return "type" in data ? data : { type: "reference", reference: data };
}

function packedOutput(output: Dict): Dict {
  const { type, value } = output;
  if (type === "json" || type === "error-json") return { ...output, value: JSON.stringify(value) };
  if (type === "content" && Array.isArray(value)) return { ...output, value: (value as Dict[]).map(packedPart) };
  return output;
}

function unpacked(message: Dict): Dict {
  return Array.isArray(message["content"]) ? { ...message, content: partsOf(message).map(unpackedPart) } : message;
}

function unpackedPart(part: Dict): Dict {
  const { data, output } = part;
  if (isDict(data) && data["type"] === "url") return { ...part, data: { ...data, url: new URL(String(data["url"])) } };
  if (!isDict(output)) return { ...part };
  const { type, value } = output;
  if (type === "json" || type === "error-json") return { ...part, output: { ...output, value: JSON.parse(String(value)) as unknown } };
  if (type === "content" && Array.isArray(value)) {
    return { ...part, output: { ...output, value: (value as Dict[]).map(unpackedPart) } };
  }
  return { ...part };
}

// Taking.

function taken(message: Dict): [Taking, Dict] {
  const parts = partsOf(message);
  const taking = new Taking(parts.filter(({ type }) => type === "tool-call" || type === "tool-result").length);
  const { content } = message;
  const made = typeof content === "string" ? taking.text(content) : parts.map((part) => takePart(taking, part));
  return [taking, { ...message, content: made }];
}

function takePart(taking: Taking, part: Dict): unknown {
  const { type, text, output } = part;
  if (type === "text" && typeof text === "string") return { ...part, text: taking.text(text) };
  if (type === "reasoning" && typeof text === "string") return { ...part, text: taking.thinking(text)[0] };
  if (type === "tool-call") {
    const [toolCallId, toolName, input] = taking.call(part["toolCallId"], part["toolName"], part["input"] ?? {});
    return { ...part, toolCallId, toolName, input };
  }
  if (type === "tool-result" && isDict(output)) return takeResult(taking, part, output);
  if (type === "file" || type === "reasoning-file") return takeFile(taking, part);
  return taking.opaque(type, part);
}

function takeResult(taking: Taking, part: Dict, output: Dict): Dict {
  const list = Array.isArray(output["value"]) ? (output["value"] as Dict[]) : [];
  const key = output["type"] === "execution-denied" ? "reason" : "value";
  const given = output[key];
  const texts = typeof given === "string" ? [given] : list.filter(isText).map((one) => one.text);
  const isError = ERRORS.includes(String(output["type"]));
  const [toolCallId, toolName, holes] = taking.result(part["toolCallId"], part["toolName"], texts, isError);
  const made = { ...output };
  if (typeof given === "string") made[key] = holes[0];
  else if (Array.isArray(given)) made[key] = list.map((one) => (isText(one) ? { ...one, text: holes.shift() } : takePart(taking, one)));
  return { ...part, toolCallId, toolName, output: made };
}

function isText(part: Dict): part is Dict & { text: string } {
  return part["type"] === "text" && typeof part["text"] === "string";
}

function takeFile(taking: Taking, part: Dict): unknown {
  const { data, mediaType, filename } = part;
  if (!isDict(data)) return taking.opaque(part["type"], part);
  const [top = ""] = String(mediaType).split("/");
  const kind = (MEDIA.includes(top) ? top : "document") as MediaKind;
  const about = { mimeType: mediaType, title: filename };
  if (data["type"] === "data" && typeof data["data"] === "string") {
    return { ...part, data: { ...data, data: taking.data(kind, data["data"], about) } };
  }
  if (data["type"] === "url" && typeof data["url"] === "string") {
    return { ...part, data: { ...data, url: taking.url(kind, data["url"], about) } };
  }
  if (data["type"] === "text" && typeof data["text"] === "string") {
    return { ...part, data: { ...data, text: taking.plain(kind, data["text"], about) } };
  }
  return taking.opaque(part["type"], part);
}

// What parts say, of messages that were put in another form, or that need no template.

function canonical(message: Message, parts: readonly Part[], crossing: Crossing): Dict[] {
  const { role } = message;
  if (isSystem(role)) return [{ role: "system", content: textsOf(parts).join("\n") }];
  const results = parts.flatMap(({ kind }) => (kind.case === "toolResult" ? [kind.value] : []));
  const others = parts.filter(({ kind }) => kind.case !== "toolResult");
  const answers = results.map((one) => resultOf(one, crossing));
  const unasked = answers.filter(({ type }) => type === "text");
  const made: Dict[] = [];
  const add = (by: string, content: readonly Dict[]): void => {
    if (content.length > 0) made.push({ role: by, content });
  };
  const said = [...unasked, ...blocksOf(others)];
  if (isAssistant(role)) add("assistant", others.map((part) => blockOf(part, crossing)).filter((one) => one !== undefined));
  add("tool", answers.filter(({ type }) => type !== "text"));
  if (isAssistant(role)) add("user", unasked);
  else if (isTool(role) && results.length === 0) add("user", said.map((one) => named(message.name, one)));
  else add("user", said);
  return made;
}

function blocksOf(parts: readonly Part[]): Dict[] {
  return parts.map((part) => (part.kind.case === "toolCall" ? undefined : blockOf(part))).filter((one) => one !== undefined);
}

function blockOf(part: Part, crossing?: Crossing): Dict | undefined {
  const { kind } = part;
  switch (kind.case) {
    case "toolCall":
      return crossing === undefined ? undefined : callOf(kind.value, crossing);
    case "thinking": {
      const { text = "", signature = "" } = kind.value;
      const reasoning: Dict = { type: "reasoning", text };
      if (signature !== "") reasoning["providerOptions"] = { anthropic: { signature } };
      return crossing === undefined ? undefined : reasoning;
    }
    case "image":
    case "audio":
    case "video":
    case "document":
      return fileOf(kind.case, kind.value);
    default: {
      const [first = ""] = textsOf([part]);
      return first === "" ? undefined : textPart(first);
    }
  }
}

function callOf(call: ToolCall, crossing: Crossing): Dict {
  let input: unknown = call.argumentsJson;
  try {
    input = JSON.parse(call.argumentsJson === "" ? "{}" : call.argumentsJson);
  } catch {
    // Of a tool that takes text.
  }
  return { type: "tool-call", toolCallId: crossing.callId(call), toolName: crossing.toolName(call.name), input };
}

function resultOf(result: ToolResult, crossing: Crossing): Dict {
  const toolCallId = crossing.answered(result);
  // Of a call that nobody knows.
  if (toolCallId === undefined) return named(result.name, textPart(result.text));
  const output = { type: result.isError ? "error-text" : "text", value: result.text };
  const toolName = result.name === "" ? "" : crossing.toolName(result.name);
  return { type: "tool-result", toolCallId, toolName, output };
}

function named(name: string, block: Dict): Dict {
  return isText(block) ? textPart(`[${name === "" ? "tool" : name}] ${block.text}`) : block;
}

function fileOf(kind: MediaKind, media: Media): Dict {
  const held = heldBy(media);
  const { url = "", path = "", title = "" } = media;
  if (held === undefined && !/^https?:\/\//.test(url)) return textPart(`[${[kind, title, path === "" ? url : path].filter(Boolean).join(" ")}]`);
  const data = held === undefined ? { type: "url", url } : { type: "data", data: base64Encode(held[1]) };
  const given = held === undefined || held[0] === "" ? (media.mimeType ?? "") : held[0];
  const mediaType = given === "" ? (kind === "document" ? "application/octet-stream" : kind) : given;
  return title === "" ? { type: "file", data, mediaType } : { type: "file", filename: title, data, mediaType };
}

function textPart(text: string): Dict {
  return { type: "text", text };
}
