// The turns of a conversation, each message of which is stored once.
//
// A turn is what is said from a user's message on, up to the last answer to it. With an id of the turn its messages have
// ids of their own: TURN/0, TURN/1 and so on. The server takes an id once, so that whoever stores a turn again, after a
// failure, in another process or at the same time, doubles nothing.

import type { LanguageModelV4Message } from "@ai-sdk/provider";
import type { CallOptions } from "../calls.js";
import type { MemoryClient } from "../client.js";
import type { Context } from "../contexts.js";
import { MemorydError } from "../errors.js";
import type { Message } from "../gen/memoryd/v1/memory_pb.js";
import { MessageOrder } from "../gen/memoryd/v1/memory_service_pb.js";
import { sha256 } from "../sha256.js";
import { sameJson } from "../templates.js";
import type { ContextOptions } from "../users.js";
import { bytesOf } from "../wireText.js";
import type { SdkMessage } from "./form.js";
import { fromSdk, toPrompt } from "./form.js";

/** Where a conversation is remembered. */
export interface Conversation extends Pick<ContextOptions, "memory" | "memoryTemplate" | "config" | "template" | "timeoutMs"> {
  /** The session of the conversation. */
  readonly session: string;
  /** Who talks: the context then has what is known of the user. Without a user it has this conversation alone. */
  readonly user?: string | undefined;
  /**
   * The id of this turn, such as that of the user's message in the page. A turn that is begun again under its id, in any
   * process, goes on where it was. Without one, a message that was not answered is not stored again, but one that was is.
   */
  readonly turn?: string | undefined;
}

// Ids of messages have up to 128 bytes.
const MAX_TURN_BYTES = 100;

/** What a prompt says: instructions, what is known from before, and the turn. */
export interface Prompt<M extends SdkMessage> {
  readonly system: readonly M[];
  readonly earlier: readonly M[];
  readonly turn: readonly M[];
  /** The place in `turn` of the first message that no answer follows. */
  readonly fresh: number;
}

export function split<M extends SdkMessage>(messages: readonly M[]): Prompt<M> {
  const rest = messages.filter(({ role }) => role !== "system");
  let begin = rest.findLastIndex(({ role }) => role === "user");
  while (begin > 0 && rest[begin - 1]?.role === "user") --begin;
  const turn = rest.slice(Math.max(begin, 0));
  return {
    system: messages.filter(({ role }) => role === "system"),
    earlier: rest.slice(0, Math.max(begin, 0)),
    turn,
    fresh: turn.findLastIndex(({ role }) => role === "assistant") + 1,
  };
}

/** The id of the message at this place of the turn; undefined where the turn has none. */
export function idOf(conversation: Conversation, at: number | ""): string | undefined {
  const { turn } = conversation;
  if (turn === undefined) return undefined;
  return `${bytesOf(turn) <= MAX_TURN_BYTES ? turn : sha256(turn)}/${at}`;
}

/** The message as memoryd's, with the id of its place in the turn. */
export function placed(conversation: Conversation, message: SdkMessage, at: number): Message {
  const messageId = idOf(conversation, at);
  return fromSdk(message, messageId === undefined ? {} : { messageId });
}

/**
 * The prompt without what was stored in an earlier turn: a message that was not answered, ahead of the user's next one,
 * has its place there.
 */
export async function located<M extends SdkMessage>(
  client: MemoryClient,
  conversation: Conversation,
  prompt: Prompt<M>,
  call: CallOptions,
): Promise<Prompt<M>> {
  const { turn } = prompt;
  const other = turn.findIndex(({ role }) => role !== "user");
  const asked = turn.slice(0, Math.max((other < 0 ? turn.length : other) - 1, 0));
  if (conversation.turn === undefined || asked.length === 0) return prompt;
  const known = await endOf(client, conversation, asked, turn.length, call);
  const earlier = [...prompt.earlier, ...turn.slice(0, known)];
  return { ...prompt, earlier, turn: turn.slice(known), fresh: Math.max(prompt.fresh - known, 0) };
}

/** Stores what the prompt says anew, unless it is stored. Returns the context. */
export async function tell(
  client: MemoryClient,
  conversation: Conversation,
  prompt: Prompt<LanguageModelV4Message>,
  call: CallOptions & { recalled?: number | undefined },
): Promise<Context> {
  let fresh = prompt.turn.slice(prompt.fresh);
  if (conversation.turn === undefined) fresh = fresh.slice(await endOf(client, conversation, fresh, 0, call));
  const messages = fresh.map((one, at) => placed(conversation, one, prompt.fresh + at));
  try {
    return await contextOf(client, conversation, messages, call);
  } catch (error) {
    if (!isThere(error)) throw error;
    return contextOf(client, conversation, [], call);
  }
}

/** Stores the messages, in their order, but for those that are there. */
export async function complete(
  client: MemoryClient,
  conversation: Conversation,
  messages: readonly Message[],
  call: CallOptions,
): Promise<void> {
  let missing = messages;
  for (;;) {
    if (missing.length === 0) return;
    try {
      await contextOf(client, conversation, missing, { ...call, recalled: 0 });
      return;
    } catch (error) {
      if (!isThere(error)) throw error;
    }
    const messageIds = messages.map(({ messageId }) => messageId);
    const found = new Set<string>();
    const filter = { messageIds } as const;
    for await (const { messageId } of client.getAll(conversation.session, { ...call, filter })) found.add(messageId);
    missing = messages.filter(({ messageId }) => !found.has(messageId));
  }
}

/** Stores an answer, unless it is stored. */
export async function answer(client: MemoryClient, { session, timeoutMs }: Conversation, message: Message): Promise<void> {
  try {
    await client.put(session, [message], { timeoutMs });
  } catch (error) {
    if (!isThere(error)) throw error;
  }
}

async function contextOf(
  client: MemoryClient,
  conversation: Conversation,
  messages: readonly Message[],
  call: CallOptions & { recalled?: number | undefined },
): Promise<Context> {
  const { session, user, config, template, memory, memoryTemplate, timeoutMs } = conversation;
  const options = { ...call, timeoutMs };
  if (user !== undefined) return client.context(user, session, messages, { ...options, config, template, memory, memoryTemplate });
  const { recalled: _, ...plain } = options;
  if (messages.length > 0) await client.put(session, messages, { ...plain, ...defined({ config, template }) });
  return client.get(session, plain);
}

function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}

// How many of these messages, from the first on, the session ends with. Messages of the turn itself don't count; there
// are `own` of them at most.
async function endOf(
  client: MemoryClient,
  conversation: Conversation,
  messages: readonly SdkMessage[],
  own: number,
  call: CallOptions,
): Promise<number> {
  const { session, timeoutMs } = conversation;
  const prefix = idOf(conversation, "");
  const options = { order: MessageOrder.NEWEST_FIRST, pageSize: messages.length + own, timeoutMs, signal: call.signal };
  const newest: Message[] = [];
  try {
    for await (const one of client.getAll(session, options)) {
      if (prefix === undefined || !one.messageId.startsWith(prefix)) newest.unshift(one);
      if (newest.length === messages.length) break;
    }
  } catch (error) {
    if (error instanceof MemorydError && error.code === "NOT_FOUND") return 0;
    throw error;
  }
  const stored = newest.map((one) => comparable(toPrompt([one])));
  const wanted = messages.map((one) => comparable(toPrompt([fromSdk(one)])));
  for (let count = stored.length; count > 0; --count) if (sameJson(stored.slice(-count), wanted.slice(0, count))) return count;
  return 0;
}

function comparable(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown;
}

function isThere(error: unknown): boolean {
  return error instanceof MemorydError && error.reason === "MESSAGE_ID_EXISTS";
}
