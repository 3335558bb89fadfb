// Messages of OpenAI's chat completions, into parts and out of them.

import { create } from "@bufbuild/protobuf";
import { base64Encode } from "@bufbuild/protobuf/wire";
import type { Crossing } from "./crossing.js";
import { textsOf } from "./crossing.js";
import type { Media, Message, Part, ToolResult } from "./gen/memoryd/v1/memory_pb.js";
import { ToolResultSchema } from "./gen/memoryd/v1/memory_pb.js";
import { isAssistant, isSystem, isTool } from "./roles.js";
import type { Dict, MediaKind } from "./templates.js";
import { heldBy, isDict, Taking, textPart } from "./templates.js";

// Where vendors put a model's reasoning.
const REASONING = ["reasoning_content", "reasoning"];
// The last two are of the Responses API, with whose other items messages have nothing in common.
const TEXT_KEYS: Readonly<Record<string, string>> = {
  text: "text",
  refusal: "refusal",
  input_text: "text",
  output_text: "text",
};
const MEDIA_KINDS: Readonly<Record<string, MediaKind>> = { image_url: "image", video_url: "video" };

/** The parts of a message, and its template. */
export function taken(message: Dict): [Taking, Dict] {
  const calls = message["tool_calls"];
  const taking = new Taking((Array.isArray(calls) ? calls.length : 0) + 2);
  const made = { ...message };
  if (isTool(String(message["role"]))) {
    takeResult(taking, made);
    return [taking, made];
  }
  if ("name" in made) made["name"] = taking.speaker(made["name"]);
  for (const key of REASONING) {
    const text = made[key];
    if (typeof text === "string" && text !== "") {
      [made[key]] = taking.thinking(text);
      break;
    }
  }
  if ("content" in made) made["content"] = takeContent(taking, made["content"]);
  if (typeof made["refusal"] === "string") made["refusal"] = taking.text(made["refusal"]);
  if (isDict(made["audio"])) made["audio"] = takeAudio(taking, made["audio"]);
  if (isDict(made["function_call"])) made["function_call"] = takeFunction(taking, made["function_call"]);
  if (Array.isArray(calls)) made["tool_calls"] = calls.map((call: Dict) => takeCall(taking, call));
  return [taking, made];
}

/** The messages that the parts say, in no other's words than theirs. */
export function canonical(message: Message, parts: readonly Part[], crossing: Crossing): Dict[] {
  const { role } = message;
  if (isSystem(role)) return [{ role, content: joined(textsOf(parts).map(textPart)) }];
  const results = parts.flatMap(({ kind }) => (kind.case === "toolResult" ? [kind.value] : []));
  const others = parts.filter((part) => part.kind.case !== "toolResult");
  if (isTool(role)) {
    const own = results.length > 0 ? results : [create(ToolResultSchema, { name: message.name })];
    const made = own.map((one) => resultOf(one, crossing));
    const last = made.at(-1);
    if (last !== undefined) last["content"] = String(last["content"]) + textsOf(others).join("");
    const media = others.filter(({ kind }) => kind.case === "image" || kind.case === "document");
    return media.length > 0 ? [...made, { role: "user", content: joined(media) }] : made;
  }
  const answers = results.map((one) => resultOf(one, crossing));
  if (isAssistant(role)) {
    const said = assistant(message, others, crossing);
    return Object.keys(said).length > 0 || answers.length === 0 ? [said, ...answers] : answers;
  }
  if (answers.length > 0 && blocksOf(others).length === 0) return answers;
  const user: Dict = { role: "user", content: joined(others) };
  if (message.name !== "") user["name"] = message.name;
  return [...answers, user];
}

/** The parts of content that say what these say. */
export function blocksOf(parts: readonly Part[]): Dict[] {
  return parts.map(block).filter((one) => one !== undefined);
}

function takeContent(taking: Taking, content: unknown): unknown {
  if (typeof content === "string") return taking.text(content);
  return Array.isArray(content) ? content.map((part: Dict) => takePart(taking, part)) : content;
}

function takePart(taking: Taking, part: Dict): unknown {
  const kind = part["type"];
  if (typeof kind !== "string") return taking.opaque(kind, part);
  const key = Object.hasOwn(TEXT_KEYS, kind) ? TEXT_KEYS[kind] : undefined;
  if (key !== undefined && typeof part[key] === "string") return { ...part, [key]: taking.text(part[key]) };
  const inside = part[kind];
  if (isDict(inside)) {
    const medium = Object.hasOwn(MEDIA_KINDS, kind) ? MEDIA_KINDS[kind] : undefined;
    if (medium !== undefined && typeof inside["url"] === "string") {
      const url = taking.url(medium, inside["url"], { detail: inside["detail"] });
      return { ...part, [kind]: { ...inside, url } };
    }
    if (kind === "input_audio" && typeof inside["data"] === "string") {
      const data = taking.data("audio", inside["data"], { format: inside["format"] });
      return { ...part, [kind]: { ...inside, data } };
    }
    if (kind === "file") {
      const about = { title: inside["filename"] };
      const given = inside["file_data"];
      if (typeof given === "string") {
        const isUrl = given.startsWith("data:");
        const data = isUrl ? taking.url("document", given, about) : taking.data("document", given, about);
        return { ...part, [kind]: { ...inside, file_data: data } };
      }
      if (typeof inside["file_id"] === "string") {
        return { ...part, [kind]: { ...inside, file_id: taking.file("document", inside["file_id"], about) } };
      }
    }
  }
  return taking.opaque(kind, part);
}

function takeAudio(taking: Taking, audio: Dict): Dict {
  const made = { ...audio };
  if (typeof made["transcript"] === "string") made["transcript"] = taking.text(made["transcript"]);
  if (typeof made["data"] === "string") made["data"] = taking.data("audio", made["data"]);
  return made;
}

function takeFunction(taking: Taking, given: Dict): Dict {
  const [, name, args] = taking.call(undefined, given["name"], given["arguments"] ?? "");
  return putBack({ ...given }, { name, arguments: args });
}

function takeCall(taking: Taking, call: Dict): Dict {
  const kind = call["type"] ?? "function";
  const inside = typeof kind === "string" ? call[kind] : undefined;
  if (typeof kind !== "string" || !isDict(inside)) {
    const [id] = taking.call(call["id"], undefined, "{}");
    return putBack({ ...call }, { id });
  }
  const key = kind === "custom" ? "input" : "arguments";
  const [id, name, value] = taking.call(call["id"], inside["name"], inside[key] ?? "");
  return { ...putBack({ ...call }, { id }), [kind]: putBack({ ...inside }, { name, [key]: value }) };
}

function takeResult(taking: Taking, made: Dict): void {
  const { content } = made;
  const list = Array.isArray(content) ? (content as Dict[]) : [];
  const texts = typeof content === "string" ? [content] : list.filter(isTextPart).map((part) => part.text);
  const [id, name, holes] = taking.result(made["tool_call_id"], made["name"], texts);
  putBack(made, { tool_call_id: id, name });
  if (typeof content === "string") {
    made["content"] = holes[0];
  } else if (Array.isArray(content)) {
    made["content"] = list.map((part) => (isTextPart(part) ? { ...part, text: holes.shift() } : takePart(taking, part)));
  }
}

function isTextPart(part: Dict): part is Dict & { text: string } {
  return part["type"] === "text" && typeof part["text"] === "string";
}

// Gives the keys that there are their values.
function putBack(made: Dict, values: Dict): Dict {
  for (const [key, value] of Object.entries(values)) {
    if (key in made) made[key] = value;
  }
  return made;
}

function assistant(message: Message, parts: readonly Part[], crossing: Crossing): Dict {
  const calls = parts.flatMap(({ kind }) =>
    kind.case === "toolCall"
      ? [
          {
            id: crossing.callId(kind.value),
            type: "function",
            function: { name: crossing.toolName(kind.value.name), arguments: kind.value.argumentsJson },
          },
        ]
      : [],
  );
  const texts = textsOf(parts).map(textPart);
  const made: Dict = {
    role: "assistant",
    content: calls.length > 0 && texts.length === 0 ? null : joined(texts),
  };
  if (message.name !== "") made["name"] = message.name;
  if (calls.length > 0) made["tool_calls"] = calls;
  return made;
}

function resultOf(result: ToolResult, crossing: Crossing): Dict {
  const answered = crossing.answered(result);
  if (answered !== undefined) return { role: "tool", tool_call_id: answered, content: result.text };
  return { role: "function", name: crossing.toolName(result.name), content: result.text };
}

// Content of these parts: a text where they are no more than that.
function joined(parts: readonly Part[]): unknown {
  const blocks = blocksOf(parts);
  const [first] = blocks;
  if (first === undefined) return "";
  return blocks.length === 1 && first["type"] === "text" ? first["text"] : blocks;
}

function block(part: Part): Dict | undefined {
  const { kind } = part;
  switch (kind.case) {
    case "image": {
      const image = kind.value;
      const mimeType = image.mimeType === undefined || image.mimeType === "" ? "image/png" : image.mimeType;
      const url = image.data === undefined ? (image.url ?? "") : dataUrl(mimeType, image.data);
      if (url === "") return text(`[image ${image.path ?? ""}]`);
      return { type: "image_url", image_url: image.detail === undefined ? { url } : { url, detail: image.detail } };
    }
    case "audio":
      return audio(kind.value);
    case "document":
      return document(kind.value);
    case "video": {
      const url = kind.value.url ?? "";
      return text(url.startsWith("data:") ? "[video]" : `[video ${url}]`);
    }
    default: {
      const [first] = textsOf([part]);
      return first === undefined ? undefined : text(first);
    }
  }
}

function audio(given: Media): Dict {
  const named = given.format === undefined || given.format === "" ? (given.mimeType ?? "").split("/").at(-1) : given.format;
  const format = named === "mpeg" ? "mp3" : named === "x-wav" ? "wav" : named;
  if (given.data === undefined || given.data.length === 0 || (format !== "wav" && format !== "mp3")) {
    return text("[audio]");
  }
  return { type: "input_audio", input_audio: { data: base64Encode(given.data), format } };
}

function document(given: Media): Dict {
  const held = heldBy(given);
  const title = given.title ?? "";
  if (held === undefined) {
    const place = given.url === undefined || given.url === "" ? (given.path ?? "") : given.url;
    return text(`[document ${[title, place].filter((one) => one !== "").join(" ")}]`);
  }
  const [mimeType, data] = held;
  if (mimeType.startsWith("text/") || mimeType === "" || mimeType === "application/json") {
    try {
      const said = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
      return text([title, said].filter((one) => one !== "").join("\n"));
    } catch {
      // Is no text.
    }
  }
  const type = mimeType === "" ? "application/octet-stream" : mimeType;
  const filename = title === "" ? "document" : title;
  return { type: "file", file: { filename, file_data: dataUrl(type, data) } };
}

function dataUrl(mimeType: string, data: Uint8Array): string {
  return `data:${mimeType};base64,${base64Encode(data)}`;
}

function text(said: string): Dict {
  return { type: "text", text: said };
}
