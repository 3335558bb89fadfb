// The messages of a session as a list: read from its end, appended to, popped and cleared. A session that does not exist
// is an empty list. The Python client does the same, so both may work on one session.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { create, toBinary } from "@bufbuild/protobuf";
import type { MemoryClient } from "./client.js";
import { MemorydError } from "./errors.js";
import type { Message, Part } from "./gen/memoryd/v1/memory_pb.js";
import { MessageSchema, PartSchema } from "./gen/memoryd/v1/memory_pb.js";
import { MessageOrder, ResetScope } from "./gen/memoryd/v1/memory_service_pb.js";
import type { CreateSessionRequestSchema } from "./gen/memoryd/v1/session_service_pb.js";
import { isDict, POPPED } from "./templates.js";

const MAX_PAGE = 1000;
// Of the messages that a pop looks at.
const AT_END = 8;
// The server names no more messages that go with another.
const MOST_NAMED = 20;
const BYTES_OF_TOKEN = 4;
// More values than a message is read as.
const ALL = 2 ** 30;
const MAX_ITEMS = 1000;
// Every server takes so much in a request.
const UNASKED_BYTES = 3 << 20;
// What is around the items of a request takes less, and an item costs so much beside its own bytes.
const OTHER_BYTES = 1 << 20;
const ITEM_BYTES = 8;
// Codes of a call that may have been done.
const UNKNOWN = ["CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "UNKNOWN"];

/** How many values an adapter reads each of some messages as. */
export type Counts = (messages: readonly Message[]) => readonly number[];

/** The messages of a session from the newest on. */
export class Backwards {
  private newestFirst: Message[] = [];
  private rest: AsyncGenerator<Message> | undefined;
  /** Whether all messages were read. */
  isOver = false;

  constructor(
    private readonly memory: MemoryClient,
    private readonly sessionId: string,
    private readonly pageSize: number,
  ) {}

  /** The messages that were read, oldest first. */
  get messages(): Message[] {
    return this.newestFirst.toReversed();
  }

  get count(): number {
    return this.newestFirst.length;
  }

  /** Reads until there are so many, or all. Begins again when the session was replaced meanwhile. */
  async read(count: number): Promise<void> {
    while (this.count < count && !this.isOver) {
      this.rest ??= this.memory.getAll(this.sessionId, {
        order: MessageOrder.NEWEST_FIRST,
        pageSize: Math.max(1, Math.min(this.pageSize, MAX_PAGE)),
      });
      try {
        const next = await this.rest.next();
        if (next.done === true) this.isOver = true;
        else this.newestFirst.push(next.value);
      } catch (error) {
        this.rest = undefined;
        if (!(error instanceof MemorydError) || error.reason !== "SESSION_REPLACED") throw error;
        this.newestFirst = [];
      }
    }
  }
}

/** All messages, oldest first. */
export async function every(memory: MemoryClient, sessionId: string): Promise<Message[]> {
  const back = new Backwards(memory, sessionId, MAX_PAGE);
  await back.read(Infinity);
  return back.messages;
}

/** Makes the session from a template of the server or a configuration. One that exists keeps its own. */
export async function begun(
  memory: MemoryClient,
  sessionId: string,
  template: string,
  config: MessageInitShape<typeof CreateSessionRequestSchema>["config"],
): Promise<void> {
  try {
    await memory.createSession(sessionId, config, { template });
  } catch (error) {
    if (!(error instanceof MemorydError) || error.reason !== "SESSION_EXISTS") throw error;
  }
}

/**
 * Appends messages. All or none: what one request holds, at least 1,000 messages and 3 MiB, is one write. If a later
 * request of a longer list is refused, the messages before are popped again; if its outcome is unknown, they stay.
 */
export async function appended(memory: MemoryClient, sessionId: string, messages: readonly Message[]): Promise<void> {
  const sizes = messages.map((one) => toBinary(MessageSchema, one).length + ITEM_BYTES);
  let requests = split(messages, sizes, UNASKED_BYTES);
  if (requests.length > 1 && sizes.reduce((sum, one) => sum + one, 0) > UNASKED_BYTES) {
    const { limits } = await memory.serverInfo();
    requests = split(messages, sizes, Number(limits?.requestBytes ?? 0) - OTHER_BYTES);
  }
  const made: Message[] = [];
  for (const some of requests) {
    try {
      const { messageIds } = await put(memory, sessionId, some);
      for (const [at, { parts }] of some.entries()) {
        made.push(create(MessageSchema, { messageId: messageIds[at] ?? "", parts }));
      }
    } catch (error) {
      if (error instanceof MemorydError && !UNKNOWN.includes(error.code)) await takenBack(memory, sessionId, made);
      throw error;
    }
  }
}

/**
 * Takes the last value of the list away, and returns its message and its index among the message's values. Undefined: there
 * is none. No two callers get the same.
 *
 * A message goes with its last value. The server never parts a call from its results: a result whose call stays is emptied
 * and marked, and goes with its call. A message that keeps some of its values is marked too. `left` reads the marks.
 */
export async function popped(
  memory: MemoryClient,
  sessionId: string,
  counts: Counts,
): Promise<[Message, number] | undefined> {
  let revision: bigint | undefined;
  for (;;) {
    const back = new Backwards(memory, sessionId, AT_END);
    let found: readonly Message[] = [];
    let ofAll: readonly number[] = [];
    let leftOf: readonly number[] = [];
    while (!leftOf.some((one) => one > 0) && !back.isOver) {
      await back.read(back.count + AT_END);
      found = back.messages;
      ofAll = counts(found);
      leftOf = left(found, ofAll);
    }
    const at = leftOf.findLastIndex((one) => one > 0);
    const message = found[at];
    if (message === undefined) return undefined;
    const last = (leftOf[at] ?? 0) - 1;
    const hidden = new Set(found.slice(at + 1).map((one) => one.messageId));
    let isDone = false;
    try {
      if (last === 0) isDone = await deleted(memory, sessionId, message, hidden, revision, revision !== undefined);
      if (!isDone && revision !== undefined) {
        await mark(memory, sessionId, message, (ofAll[at] ?? 0) - last, last, revision);
        isDone = true;
      }
    } catch (error) {
      // Else another caller was faster.
      if (!(error instanceof MemorydError) || (error.code !== "ABORTED" && error.code !== "NOT_FOUND")) throw error;
    }
    if (isDone) return [message, last];
    revision = await revisionOf(memory, sessionId);
  }
}

/** Removes all messages. The session, its configuration and what its blocks know stay. */
export async function cleared(memory: MemoryClient, sessionId: string): Promise<void> {
  await memory.reset(sessionId, ResetScope.MESSAGES);
}

/** How many of the values of each message were not popped. */
export function left(messages: readonly Message[], counts: readonly number[]): number[] {
  return messages.map((message, at) => Math.max(0, (counts[at] ?? 0) - poppedOf(message)));
}

function poppedOf({ metadataJson }: Message): number {
  if (!metadataJson.includes(`"${POPPED}"`)) return 0;
  const metadata = JSON.parse(metadataJson) as unknown;
  const count = isDict(metadata) ? metadata[POPPED] : undefined;
  return typeof count === "number" ? count : 0;
}

function split(messages: readonly Message[], sizes: readonly number[], room: number): Message[][] {
  const made: Message[][] = [];
  let some: Message[] = [];
  let size = 0;
  for (const [at, message] of messages.entries()) {
    const added = sizes[at] ?? 0;
    if (some.length === 0 || some.length === MAX_ITEMS || size + added > room) {
      some = [];
      made.push(some);
      size = 0;
    }
    some.push(message);
    size += added;
  }
  return made;
}

// Puts the messages. Where the session's framework counts tokens by itself, as LlamaIndex does, they are estimated.
async function put(memory: MemoryClient, sessionId: string, messages: readonly Message[]): Promise<{ messageIds: string[] }> {
  try {
    return await memory.put(sessionId, messages);
  } catch (error) {
    if (!(error instanceof MemorydError) || !error.field.endsWith("token_count")) throw error;
  }
  const counted = messages.map((one) => ({ ...one, tokenCount: tokensOf(one) }));
  return memory.put(sessionId, counted);
}

function tokensOf(message: Message): bigint {
  return BigInt(Math.floor(toBinary(MessageSchema, message).length / BYTES_OF_TOKEN));
}

async function revisionOf(memory: MemoryClient, sessionId: string): Promise<bigint | undefined> {
  try {
    return (await memory.getSession(sessionId)).revision;
  } catch (error) {
    if (!(error instanceof MemorydError) || error.code !== "NOT_FOUND") throw error;
    return undefined;
  }
}

// Deletes messages of a list that was refused in the middle, or hides those that go with one that was there before.
async function takenBack(memory: MemoryClient, sessionId: string, taken: readonly Message[]): Promise<void> {
  const ids = new Set(taken.map((one) => one.messageId));
  for (const message of taken.toReversed()) {
    try {
      const isDone = await deleted(memory, sessionId, message, ids, undefined, true);
      if (!isDone) await mark(memory, sessionId, message, ALL, 0, undefined);
    } catch (error) {
      if (!(error instanceof MemorydError) || error.code !== "NOT_FOUND") throw error;
    }
  }
}

// Deletes the message, if `withOthers` together with those of the others that go with it. False, and nothing is done: more
// goes with it.
async function deleted(
  memory: MemoryClient,
  sessionId: string,
  { messageId }: Message,
  others: ReadonlySet<string>,
  expectedRevision: bigint | undefined,
  withOthers: boolean,
): Promise<boolean> {
  const given = expectedRevision === undefined ? {} : { expectedRevision };
  let tied: string[];
  try {
    await memory.deleteMessage(sessionId, messageId, given);
    return true;
  } catch (error) {
    if (!(error instanceof MemorydError) || error.reason !== "TOOL_PAIR") throw error;
    tied = (error.details["message_ids"] ?? "").split(", ").filter((one) => one !== "");
  }
  if (!withOthers || tied.length >= MOST_NAMED || !tied.every((one) => others.has(one))) return false;
  await memory.deleteMessage(sessionId, messageId, { ...given, withToolMessages: true });
  return true;
}

// Marks `count` values of the message as popped.
async function mark(
  memory: MemoryClient,
  sessionId: string,
  message: Message,
  count: number,
  leftOf: number,
  expectedRevision: bigint | undefined,
): Promise<void> {
  const about = leftOf > 0 && message.metadataJson !== "" ? (JSON.parse(message.metadataJson) as object) : {};
  const parts = leftOf > 0 ? message.parts : message.parts.flatMap(bare);
  const text = leftOf > 0 ? message.text : parts.length === 0 ? "" : undefined;
  await memory.updateMessage(sessionId, message.messageId, {
    ...(text === undefined ? {} : { text }),
    parts,
    metadataJson: JSON.stringify({ ...about, [POPPED]: count }),
    tokenCount: message.tokenCount ?? 0n,
    ...(expectedRevision === undefined ? {} : { expectedRevision }),
  });
}

// A tool's call or result without its content; none for another part.
function bare({ kind }: Part): Part[] {
  if (kind.case === "toolCall") {
    const { callId, name } = kind.value;
    return [create(PartSchema, { kind: { case: "toolCall", value: { callId, name, argumentsJson: "{}" } } })];
  }
  if (kind.case !== "toolResult") return [];
  const { callId, name } = kind.value;
  return [create(PartSchema, { kind: { case: "toolResult", value: { callId, name } } })];
}
