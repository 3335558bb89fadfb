// The session of OpenAI's Agents SDK.

import type { AgentInputItem, Session } from "@openai/agents";
import type { MemoryClient } from "../client.js";
import type { Message } from "../gen/memoryd/v1/memory_pb.js";
import { jsonValue, ownMessage, ownValues } from "../ownForms.js";
import * as list from "../sessionList.js";
import { FORM } from "./items.js";

/** Options of a MemorydSession, for a session that it creates. An existing session keeps its own. */
export interface SessionOptions {
  /** The name of a configuration on the server. */
  readonly template?: string | undefined;
  /** The user whose data the items are. */
  readonly subject?: string | undefined;
}

/**
 * Keeps the items of a conversation in a session of memoryd. Any number of objects and processes may share it.
 *
 * Items come back as they were added, as JSON. Texts, calls, results, reasoning and images are parts of memoryd's messages,
 * so other clients of the session read them and Query finds them. Messages that another framework put into the session, or
 * the Agents SDK for Python, are read as items.
 */
export class MemorydSession implements Session {
  private isBegun: boolean;

  /** `sessionId` is memoryd's. `memory` is a client, over gRPC or HTTP. It stays the caller's, who closes it. */
  constructor(
    readonly sessionId: string,
    private readonly memory: MemoryClient,
    private readonly options: SessionOptions = {},
  ) {
    this.isBegun = options.template === undefined && options.subject === undefined;
  }

  getSessionId(): Promise<string> {
    return Promise.resolve(this.sessionId);
  }

  /** Returns all items, oldest first, or the newest `limit`. */
  async getItems(limit?: number): Promise<AgentInputItem[]> {
    if (limit === undefined) return valuesOf(await list.every(this.memory, this.sessionId));
    if (limit <= 0) return [];
    const back = new list.Backwards(this.memory, this.sessionId, limit);
    let found: AgentInputItem[] = [];
    while (found.length < limit && !back.isOver) {
      await back.read(back.count + limit - found.length);
      found = valuesOf(back.messages);
    }
    return found.slice(-limit);
  }

  /** Appends the items, all or none. Throws TypeError for what JSON does not have. */
  async addItems(items: AgentInputItem[]): Promise<void> {
    const messages = items.map((item) => ownMessage(FORM, jsonValue(item)));
    if (messages.length === 0) return;
    const { template = "", subject } = this.options;
    if (!this.isBegun) {
      await list.begun(this.memory, this.sessionId, template, subject === undefined ? undefined : { subject });
      this.isBegun = true;
    }
    await list.appended(this.memory, this.sessionId, messages);
  }

  /** Removes the last item and returns it; undefined if there is none. Of several callers each gets another item. */
  async popItem(): Promise<AgentInputItem | undefined> {
    const found = await list.popped(this.memory, this.sessionId, (messages) =>
      ownValues(FORM, messages).map((values) => values.length),
    );
    if (found === undefined) return undefined;
    const [message, index] = found;
    return ownValues(FORM, [message])[0]?.[index] as AgentInputItem | undefined;
  }

  /** Removes all items. The session's configuration, and the knowledge of its blocks, stay. */
  async clearSession(): Promise<void> {
    await list.cleared(this.memory, this.sessionId);
  }
}

function valuesOf(messages: readonly Message[]): AgentInputItem[] {
  const read = ownValues(FORM, messages);
  const left = list.left(messages, read.map((values) => values.length));
  return read.flatMap((values, at) => values.slice(0, left[at])) as AgentInputItem[];
}
