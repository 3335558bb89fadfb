// Messages in the forms of OpenAI's and Anthropic's packages. They are stored, and returned unchanged.
//
// The first rule that matches decides which form an object has:
//
// 1. OpenAI's: the role `developer`, `tool` or `function`, or one of the keys of OPENAI_KEYS.
// 2. Anthropic's: a block of ANTHROPIC_BLOCKS, or of a type that ends with `tool_use` or `tool_result`.
// 3. OpenAI's: a part of OPENAI_PARTS.
// 4. Anthropic's: the key `type` with `message`, `cache_control` or `citations` in a text, an empty list as `content`, or
//    an empty text in a list of an assistant's message.
// 5. OpenAI's: any other empty text, which Anthropic's API refuses, or a `content` of null.
// 6. Anything else, such as `{ role: "user", content: "hi" }`, is the same in both forms.

import { create, isMessage } from "@bufbuild/protobuf";
import * as anthropic from "./anthropicForm.js";
import { Crossing } from "./crossing.js";
import type { Message, Part } from "./gen/memoryd/v1/memory_pb.js";
import { MessageSchema } from "./gen/memoryd/v1/memory_pb.js";
import * as openai from "./openaiForm.js";
import { isAssistant, isSystem, isTool } from "./roles.js";
import type { Dict, Taking } from "./templates.js";
import { BOTH, isDict, sameJson, Stored, write } from "./templates.js";
import { isUtf8 } from "./wireText.js";

/** A message of OpenAI's or Anthropic's form, or memoryd's own. */
export type AnyMessage = Message | ProviderMessage;

/** A message as OpenAI's and Anthropic's packages have it. */
export interface ProviderMessage {
  readonly role: string;
  readonly content?: unknown;
}

/** A message in the form of OpenAI's chat completions. */
export type OpenAIMessage = Record<string, unknown> & { role: string };

/** Messages in Anthropic's form: spread them into `messages.create`. */
export interface AnthropicMessages {
  readonly messages: (Record<string, unknown> & { role: "user" | "assistant" })[];
  /** The system messages: the content of a single one, else a list of text blocks. */
  readonly system?: string | Record<string, unknown>[];
}

const OPENAI = "openai";
const ANTHROPIC = "anthropic";
const FORMS = { [OPENAI]: openai, [ANTHROPIC]: anthropic } as const;
type Form = keyof typeof FORMS;

/** How messages of a form become parts, and are made of them. */
export interface FormRules {
  readonly taken: (message: Dict) => [Taking, Dict];
  readonly canonical: (message: Message, parts: readonly Part[], crossing: Crossing) => Dict[];
  readonly blocksOf: (parts: readonly Part[]) => Dict[];
}

const OPENAI_KEYS = [
  "tool_calls",
  "tool_call_id",
  "function_call",
  "name",
  "refusal",
  "audio",
  "annotations",
  "reasoning",
  "reasoning_content",
  "reasoning_details",
];
const OPENAI_ROLES = ["developer", "tool", "function"];
const OPENAI_PARTS = ["image_url", "video_url", "input_audio", "file", "refusal", "input_text", "output_text"];
const ANTHROPIC_BLOCKS = [
  "image",
  "document",
  "thinking",
  "redacted_thinking",
  "search_result",
  "container_upload",
];
// What a message may have in place of a content.
const CONTENTS = ["content", "tool_calls", "function_call", "refusal", "audio", "reasoning_content", "reasoning"];
// Forms in which what a model says at once is several messages.
const OF_ITEMS = ["openai-responses", "openai-agents-js"];

/** Other fields of memoryd's message, and its metadata, which filters see. */
export type MessageFields = Partial<Pick<Message, "messageId" | "threadId" | "createTime" | "expireTime" | "tokenCount">> & {
  readonly metadata?: Readonly<Record<string, unknown>>;
};

/** Converts a message in the form of OpenAI's chat completions to memoryd's. Throws TypeError, which names the place. */
export function fromOpenAI(message: ProviderMessage, fields: MessageFields = {}): Message {
  return ofForm(message, OPENAI, "message", fields);
}

/** Converts a message in Anthropic's form to memoryd's. Throws TypeError, which names the place. */
export function fromAnthropic(message: ProviderMessage, fields: MessageFields = {}): Message {
  return ofForm(message, ANTHROPIC, "message", fields);
}

/** Returns stored messages in the form of OpenAI's chat completions. One that was put in that form is unchanged. */
export function toOpenAI(messages: Iterable<Message>): OpenAIMessage[] {
  return inForm(messages, OPENAI, openai).map(({ message }) => message as OpenAIMessage);
}

/**
 * Returns stored messages in Anthropic's form. One that was put in that form is unchanged. Messages of the roles `system`
 * and `developer` go into `system`. Results that were put one by one in OpenAI's form are joined. Messages without content
 * are left out.
 */
export function toAnthropic(messages: Iterable<Message>): AnthropicMessages {
  const given: Dict[] = [];
  const system: unknown[] = [];
  // Whether the last message is one of results that others may join.
  let isOpen = false;
  for (const { message, stored: one, isAsPut } of inForm(messages, ANTHROPIC, anthropic)) {
    const isResult = isTool(one.message.role) && !isAsPut;
    const last = given.at(-1);
    const { content } = message;
    if (isSystem(String(message["role"])) && !(last !== undefined && one.form === ANTHROPIC && isAsPut)) {
      system.push(content);
    } else if (isResult && isOpen && last !== undefined && Array.isArray(content)) {
      last["content"] = anthropic.resultsFirst([...(last["content"] as Dict[]), ...(content as Dict[])]);
    } else {
      given.push(message);
      isOpen = isResult && Array.isArray(content);
    }
  }
  const made = { messages: given as AnthropicMessages["messages"] };
  if (system.length === 0) return made;
  return { ...made, system: (system.length === 1 ? system[0] : system.flatMap(asBlocks)) as string | Dict[] };
}

/** A caller's messages as memoryd's; memoryd's own stay. Errors name the place, such as `messages[1].content`. */
export function stored(messages: Iterable<AnyMessage>): Message[] {
  checkList(messages);
  return Array.from(messages, (one, index) =>
    isMessage(one, MessageSchema) ? one : ofForm(one, undefined, `messages[${index}]`, {}),
  );
}

/** As `stored`, for a call that requires ids and positions. A message of another form gets an id, and the next position. */
export async function* placed(messages: Iterable<AnyMessage> | AsyncIterable<AnyMessage>): AsyncGenerator<Message> {
  checkList(messages);
  let position = 0n;
  let index = 0;
  for await (const one of messages) {
    let made: Message;
    if (isMessage(one, MessageSchema)) {
      made = one;
    } else {
      made = ofForm(one, undefined, `messages[${index}]`, {});
      made.messageId = globalThis.crypto.randomUUID().replaceAll("-", "");
      made.position = position + 1n;
    }
    position = made.position;
    ++index;
    yield made;
  }
}

function checkList(messages: unknown): void {
  const isList = typeof messages === "object" && messages !== null
    && (Symbol.iterator in messages || Symbol.asyncIterator in messages);
  if (!isList) throw new TypeError("messages: must be a list of messages. Give [message] for a single one");
}

function ofForm(given: ProviderMessage, form: Form | undefined, field: string, more: MessageFields): Message {
  const plain = plainOf(given, field) as Dict;
  check(plain, field);
  const found = form ?? formOf(plain);
  const role = String(plain["role"]);
  if (!isUtf8(role)) throw new TypeError(`${field}.role: holds half a character, which UTF-8 has not`);
  // What is the same in both is taken as OpenAI's.
  const first = FORMS[found === ANTHROPIC ? ANTHROPIC : OPENAI];
  return messageOf(plain, found, found === BOTH ? [openai, anthropic] : [first], more);
}

/** A message of JSON values in a form, as memoryd's. The first of `rules` takes it; all that are given restore it. */
export function messageOf(plain: Dict, form: string, rules: readonly [FormRules, ...FormRules[]], more: MessageFields): Message {
  const [taking, template] = rules[0].taken(plain);
  const { metadata = {}, ...fields } = more;
  const made = create(MessageSchema, { ...fields, role: String(plain["role"]), name: taking.name });
  const [first] = taking.parts;
  if (taking.parts.length === 1 && first?.kind.case === "text") made.text = first.kind.value;
  else made.parts = taking.parts;
  // Whether the parts alone restore the message.
  const saysAll = rules.every(({ canonical }) => sameJson(canonical(made, taking.parts, new Crossing()), [plain]));
  write(made, form, saysAll ? undefined : template, metadata);
  return made;
}

/** A message in a form. */
export interface Formed {
  readonly message: Dict;
  readonly stored: Stored;
  /** Whether it was put so. */
  readonly isAsPut: boolean;
}

/** Stored messages in a form. */
export function inForm(messages: Iterable<Message>, form: string, rules: FormRules): Formed[] {
  const found = whole(messages);
  const isOfBoth = form in FORMS;
  const put = found.map((one) => (one.form === form || (isOfBoth && one.form === BOTH) ? one.asPut() : undefined));
  const kept = new Set(found.flatMap((one, at) => (put[at] === undefined ? [] : idsOf(one))));
  const crossing = new Crossing(kept);
  return found.flatMap((one, at): Formed[] => {
    const as = put[at];
    if (as === undefined) {
      const made = rules.canonical(one.message, one.parts, crossing);
      return made.map((message) => ({ message, stored: one, isAsPut: false }));
    }
    const [message, ahead] = as;
    // The text of memory stands before a message's own content, but after results.
    if (ahead.length > 0) {
      message["content"] = anthropic.resultsFirst([...rules.blocksOf(ahead), ...asBlocks(message["content"])]);
    }
    return [{ message, stored: one, isAsPut: true }];
  });
}

// The messages, with what an assistant said at once as one message.
function whole(messages: Iterable<Message>): Stored[] {
  const made: Stored[] = [];
  let run: Stored[] = [];
  const end = (): void => {
    const last = run.at(-1);
    if (last !== undefined) made.push(run.length === 1 ? last : joinedOf(run, last));
    run = [];
  };
  for (const message of messages) {
    const one = new Stored(message);
    if (isAssistant(message.role) && OF_ITEMS.includes(one.form ?? "")) {
      run.push(one);
    } else {
      end();
      made.push(one);
    }
  }
  end();
  return made;
}

function joinedOf(run: readonly Stored[], last: Stored): Stored {
  const { $typeName: _, $unknown: __, ...fields } = last.message;
  const parts: Part[] = run.flatMap((one) => one.parts);
  return new Stored(create(MessageSchema, { ...fields, text: undefined, metadataJson: "", parts }));
}

function idsOf(one: Stored): string[] {
  return one.parts.flatMap(({ kind }) =>
    kind.case === "toolCall" || kind.case === "toolResult" ? [kind.value.callId ?? ""] : [],
  );
}

function asBlocks(content: unknown): Dict[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  return Array.isArray(content) ? [...(content as Dict[])] : [];
}

function formOf(message: Dict): Form | typeof BOTH {
  const { role, content } = message;
  if (OPENAI_ROLES.includes(String(role)) || OPENAI_KEYS.some((key) => key in message)) return OPENAI;
  const blocks = Array.isArray(content) ? (content as Dict[]) : [];
  const kinds = blocks.map(({ type }) => type).filter((type) => typeof type === "string");
  const isAnthropics = (kind: string): boolean =>
    ANTHROPIC_BLOCKS.includes(kind) || kind.endsWith("tool_use") || kind.endsWith("tool_result");
  if (kinds.some(isAnthropics)) return ANTHROPIC;
  if (kinds.some((kind) => OPENAI_PARTS.includes(kind))) return OPENAI;
  if (message["type"] === "message") return ANTHROPIC;
  const texts = blocks.filter(({ type }) => type === "text");
  if (Array.isArray(content) && content.length === 0) return ANTHROPIC;
  if (texts.some((block) => "cache_control" in block || "citations" in block)) return ANTHROPIC;
  const said = typeof content === "string" ? [content] : texts.map(({ text }) => text);
  if (said.some((text) => typeof text === "string" && text.trim() === "")) {
    return texts.length > 0 && role === "assistant" ? ANTHROPIC : OPENAI;
  }
  return content === undefined || content === null ? OPENAI : BOTH;
}

// Throws TypeError if the message has neither form.
function check(message: Dict, field: string): void {
  if (!isDict(message)) {
    throw new TypeError(`${field}: must be a message of OpenAI's or Anthropic's form, or memoryd's own`);
  }
  const { role, content } = message;
  if (typeof role !== "string" || role === "") {
    throw new TypeError(`${field}.role: must be a text such as "user"; got ${JSON.stringify(role)}`);
  }
  if (!CONTENTS.some((key) => key in message)) {
    throw new TypeError(`${field}.content: is missing. Give a text, a list of parts, or null`);
  }
  if (content !== undefined && content !== null && typeof content !== "string" && !Array.isArray(content)) {
    throw new TypeError(`${field}.content: must be a text, a list of parts or null`);
  }
  for (const key of ["content", "tool_calls"]) {
    const items = message[key];
    if (Array.isArray(items)) checkItems(items, `${field}.${key}`);
  }
}

function checkItems(items: readonly unknown[], field: string): void {
  for (const [index, item] of items.entries()) {
    const at = `${field}[${index}]`;
    if (!isDict(item)) {
      throw new TypeError(`${at}: must be an object with a "type", such as {"type": "text", "text": "hi"}`);
    }
    const { type } = item;
    const inside = type === "document" && isDict(item["source"]) ? item["source"] : item;
    const isOfBlocks = type === "document" || type === "tool_result" || type === "search_result";
    if (isOfBlocks && Array.isArray(inside["content"])) checkItems(inside["content"], `${at}.content`);
  }
}

/** The value as JSON values, a copy. Throws TypeError, which names the place, for anything else. */
export function plainOf(value: unknown, field: string): unknown {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (Array.isArray(value)) return value.map((item, at) => plainOf(item, `${field}[${at}]`));
  if (typeof value === "object" && !ArrayBuffer.isView(value) && !(value instanceof ArrayBuffer)) {
    let own = Object.entries(value).filter(([, item]) => item !== undefined && typeof item !== "function");
    const answer = value as Dict;
    // Anthropic's answer: a request has no place for its id, model and usage.
    if (answer["type"] === "message" && "usage" in answer) {
      own = own.filter(([key]) => key === "role" || key === "content");
    }
    return Object.fromEntries(own.map(([key, item]) => [key, plainOf(item, `${field}.${key}`)]));
  }
  throw new TypeError(`${field}: must be a value of JSON; got ${typeof value}. Give bytes as a text in base64`);
}
