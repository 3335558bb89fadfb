// Items of OpenAI's Agents SDK for JavaScript, into parts and out of them.

import { create } from "@bufbuild/protobuf";
import { base64Encode } from "@bufbuild/protobuf/wire";
import type { Crossing } from "../crossing.js";
import { textsOf } from "../crossing.js";
import type { Media, Message, Part, ToolResult } from "../gen/memoryd/v1/memory_pb.js";
import { ToolResultSchema } from "../gen/memoryd/v1/memory_pb.js";
import type { OwnForm } from "../ownForms.js";
import { isRole } from "../ownForms.js";
import { isAssistant, isSystem, isTool } from "../roles.js";
import type { Dict, MediaKind } from "../templates.js";
import { heldBy, isDict, Taking } from "../templates.js";

// Contents that are texts, and the key of each.
const TEXTS: Readonly<Record<string, string>> = {
  input_text: "text",
  output_text: "text",
  text: "text",
  reasoning_text: "text",
  refusal: "refusal",
};
// Contents that are media: the kind of part, and the key that has the medium.
const MEDIA: Readonly<Record<string, [MediaKind, string]>> = {
  input_image: ["image", "image"],
  image: ["image", "image"],
  input_file: ["document", "file"],
  file: ["document", "file"],
  audio: ["audio", "audio"],
  computer_screenshot: ["image", "data"],
};
// Calls that the program answers by another item, and the key of what each asks for.
const CALLS: Readonly<Record<string, string>> = {
  function_call: "arguments",
  computer_call: "action",
  shell_call: "action",
  apply_patch_call: "operation",
};
const RESULTS = ["function_call_result", "computer_call_result", "shell_call_output", "apply_patch_call_output"];
const FAILED = ["failed", "incomplete"];

/** The form of the items of a session. The Python SDK's items have another, `openai-responses`. */
export const FORM: OwnForm = {
  name: "openai-agents-js",

  role(value) {
    const kind = kindOf(value);
    if (kind !== "message") return RESULTS.includes(kind) ? "tool" : "assistant";
    const { role } = value as Dict;
    return isRole(role) ? role : "user";
  },

  taken(value) {
    const kind = kindOf(value);
    const taking = new Taking(kind in CALLS || RESULTS.includes(kind) ? 1 : 0);
    if (!isDict(value) || kind === "") return [taking, taking.opaque("json", value)];
    if (kind === "message") return [taking, takeContents(taking, value)];
    if (kind === "reasoning") return [taking, takeReasoning(taking, value)];
    if (kind in CALLS) return [taking, takeCall(taking, value, kind)];
    if (RESULTS.includes(kind)) return [taking, takeResult(taking, value, kind)];
    return [taking, taking.opaque(kind, value)];
  },

  saysAll(value) {
    // An assistant's items are joined by others with what it says at once.
    return !isAssistant(this.role(value));
  },

  canonical(message, parts, crossing) {
    const { role } = message;
    if (isSystem(role)) {
      const content = textsOf(parts).join("\n");
      return content === "" ? [] : [{ type: "message", role: "system", content }];
    }
    const results = parts.flatMap(({ kind }) => (kind.case === "toolResult" ? [kind.value] : []));
    const others = parts.filter(({ kind }) => kind.case !== "toolResult");
    if (isAssistant(role)) return [...said(others, crossing), ...results.map((one) => answer(one, crossing))];
    if (isTool(role)) return answered(message, results, others, crossing);
    return [...results.map((one) => answer(one, crossing)), ...asked(others)];
  },
};

// The type of an item; `message` for one that only has a role, empty for what is none.
function kindOf(value: unknown): string {
  if (!isDict(value)) return "";
  const { type = "message" } = value;
  if (type === "message") return typeof value["role"] === "string" ? "message" : "";
  return typeof type === "string" ? type : "";
}

function takeContents(taking: Taking, value: Dict): Dict {
  const { content } = value;
  if (typeof content === "string") return { ...value, content: taking.text(content) };
  if (Array.isArray(content)) return { ...value, content: content.map((one) => takeContent(taking, one)) };
  return value;
}

function takeContent(taking: Taking, content: unknown): unknown {
  if (!isDict(content)) return taking.opaque("json", content);
  const kind = String(content["type"]);
  const key = TEXTS[kind];
  if (key !== undefined && typeof content[key] === "string") return { ...content, [key]: taking.text(content[key]) };
  return takeMedium(taking, content) ?? taking.opaque(content["type"], content);
}

// The content with a hole for its medium; undefined where it has none.
function takeMedium(taking: Taking, content: Dict): Dict | undefined {
  const [kind, key] = MEDIA[String(content["type"])] ?? [];
  if (kind === undefined || key === undefined) return undefined;
  const { filename: title, detail, format } = content;
  const given = content[key];
  if (typeof given === "string") return { ...content, [key]: taken(taking, kind, given, { title, detail, format }) };
  if (!isDict(given)) return undefined;
  const about = { title: given["filename"] ?? title, detail, format, mimeType: given["mediaType"] };
  for (const name of ["data", "url"]) {
    const inside = given[name];
    if (typeof inside === "string") return { ...content, [key]: { ...given, [name]: taken(taking, kind, inside, about) } };
  }
  for (const name of ["id", "fileId"]) {
    const inside = given[name];
    if (typeof inside === "string") return { ...content, [key]: { ...given, [name]: taking.file(kind, inside, about) } };
  }
  return undefined;
}

// The SDK has URLs and data in one place.
function taken(taking: Taking, kind: MediaKind, text: string, about: Dict): unknown {
  return /^[a-z][a-z0-9+.-]*:/i.test(text) ? taking.url(kind, text, about) : taking.data(kind, text, about);
}

// Reasoning: its texts are parts, what is encrypted stays around them.
function takeReasoning(taking: Taking, value: Dict): Dict {
  const made = { ...value };
  for (const key of ["content", "rawContent"]) {
    const thoughts = made[key];
    if (!Array.isArray(thoughts)) continue;
    made[key] = thoughts.map((thought: unknown) =>
      isDict(thought) && typeof thought["text"] === "string"
        ? { ...thought, text: taking.thinking(thought["text"])[0] }
        : thought,
    );
  }
  return made;
}

function takeCall(taking: Taking, value: Dict, kind: string): Dict {
  const key = CALLS[kind] ?? "";
  const isNamed = kind === "function_call";
  const name = isNamed ? value["name"] : kind.slice(0, -"_call".length);
  const [id, named, asks] = taking.call(value["callId"], name, value[key] ?? "");
  return putBack(value, { callId: id, [key]: asks, ...(isNamed ? { name: named } : {}) });
}

function takeResult(taking: Taking, value: Dict, kind: string): Dict {
  const { callId, output } = value;
  const name = kind === "function_call_result" ? value["name"] : kind.replace(/_call_(?:result|output)$/, "");
  const isError = FAILED.includes(String(value["status"]));
  const contents: unknown[] = Array.isArray(output) ? output : [output];
  const isOfContents = contents.every((one) => isDict(one) && String(one["type"]) in { ...TEXTS, ...MEDIA });
  if (typeof output === "string" || isOfContents) {
    const texts = typeof output === "string" ? [output] : contents.filter(isText).map((one) => one.text);
    const [id, named, holes] = taking.result(callId, name, texts, isError);
    const made = contents.map((one) => {
      if (typeof one === "string") return holes.shift();
      return isText(one) ? { ...one, text: holes.shift() } : takeContent(taking, one);
    });
    const whole = Array.isArray(output) ? made : made[0];
    return putBack(value, { callId: id, output: whole, ...(kind === "function_call_result" ? { name: named } : {}) });
  }
  // Others read it as JSON; here it stays as it is.
  taking.result(callId, name, output === undefined ? [] : [JSON.stringify(output)], isError);
  return value;
}

function isText(content: unknown): content is Dict & { text: string } {
  return isDict(content) && typeof content["text"] === "string" && TEXTS[String(content["type"])] === "text";
}

// Gives the keys that there are their values.
function putBack(value: Dict, values: Dict): Dict {
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, key in values ? values[key] : one]));
}

// What an assistant of another framework said and called: its texts as one message ahead of the calls.
function said(parts: readonly Part[], crossing: Crossing): Dict[] {
  const content: Dict[] = [];
  const calls: Dict[] = [];
  for (const part of parts) {
    const { kind } = part;
    if (kind.case === "toolCall") {
      const { name, argumentsJson } = kind.value;
      calls.push({
        type: "function_call",
        callId: crossing.callId(kind.value),
        name: crossing.toolName(name),
        status: "completed",
        arguments: argumentsJson === "" ? "{}" : argumentsJson,
      });
      continue;
    }
    const text = isMedium(part) ? `[${String(kind.case)}]` : textsOf([part]).join("");
    if (text !== "") content.push({ type: "output_text", text });
  }
  return content.length === 0 ? calls : [{ type: "message", role: "assistant", status: "completed", content }, ...calls];
}

function answered(message: Message, results: ToolResult[], others: readonly Part[], crossing: Crossing): Dict[] {
  const given = results.length > 0 ? results : [create(ToolResultSchema, { name: message.name })];
  const more = textsOf(others).join("");
  const answers = given.map((one, at) => answer(one, crossing, at === given.length - 1 ? more : ""));
  const media = others.filter(({ kind }) => kind.case === "image" || kind.case === "document");
  return [...answers, ...asked(media)];
}

function answer(result: ToolResult, crossing: Crossing, more = ""): Dict {
  const callId = crossing.answered(result);
  const name = crossing.toolOf(result);
  const text = result.text + more;
  if (callId === undefined) return { type: "message", role: "user", content: `[${name}] ${text}` };
  return { type: "function_call_result", name, callId, status: "completed", output: { type: "text", text } };
}

function asked(parts: readonly Part[]): Dict[] {
  const content = parts.map(input).filter((one) => one !== undefined);
  const [first] = content;
  if (first === undefined) return [];
  const isPlain = content.length === 1 && first["type"] === "input_text";
  return [{ type: "message", role: "user", content: isPlain ? first["text"] : content }];
}

function input(part: Part): Dict | undefined {
  const { kind } = part;
  if (kind.case === "image") {
    const { url = "", path = "", detail } = kind.value;
    const held = heldBy(kind.value);
    if (held === undefined && url === "") return textOf(`[image ${path}]`.replace(" ]", "]"));
    const image = held === undefined ? url : dataUrl(held, "image/png");
    return { type: "input_image", image, ...(detail === undefined ? {} : { detail }) };
  }
  if (kind.case === "document") return file(kind.value);
  if (isMedium(part)) return textOf(`[${String(kind.case)}]`);
  const text = textsOf([part]).join("");
  return text === "" ? undefined : textOf(text);
}

function file(document: Media): Dict {
  const { title = "", url = "", path = "" } = document;
  const held = heldBy(document);
  if (held !== undefined) {
    return { type: "input_file", file: dataUrl(held, "application/octet-stream"), filename: title === "" ? "document" : title };
  }
  if (/^https?:\/\//.test(url)) return { type: "input_file", file: { url } };
  const named = [title, path === "" ? url : path].filter((one) => one !== "").join(" ");
  return textOf(`[document ${named}]`.replace(" ]", "]"));
}

function isMedium({ kind }: Part): boolean {
  return kind.case === "image" || kind.case === "audio" || kind.case === "video" || kind.case === "document";
}

function dataUrl([mimeType, data]: [string, Uint8Array], usual: string): string {
  return `data:${mimeType === "" ? usual : mimeType};base64,${base64Encode(data)}`;
}

function textOf(text: string): Dict {
  return { type: "input_text", text };
}
