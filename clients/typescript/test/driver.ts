// The driver of tests/client_conformance, whose run.py says what it reads and writes.

import { createInterface } from "node:readline";
import type { DescMessage, JsonObject, Message } from "@bufbuild/protobuf";
import { fromJson, isMessage, toJson } from "@bufbuild/protobuf";
import { Client, MemorydError } from "memoryd";
import * as wire from "memoryd/wire";

interface Command {
  open?: { target: string; timeout: number; wait_for_ready: boolean; tokens?: string[] };
  call?: string;
  request?: JsonObject;
  requests?: JsonObject[];
  timeout?: number;
  cancel_after?: number;
  take?: number;
  close?: boolean;
}

interface Call {
  timeoutMs?: number;
  signal?: AbortSignal;
}

const SCHEMAS = new Map<string, DescMessage>();
for (const value of Object.values(wire)) {
  if (typeof value === "object" && "kind" in value && value.kind === "message") SCHEMAS.set(value.typeName, value);
}

function jsonOf(message: Message): unknown {
  const schema = SCHEMAS.get(message.$typeName);
  if (schema === undefined) throw new TypeError(message.$typeName);
  return toJson(schema, message);
}

async function taken(items: AsyncIterable<Message>, count = Infinity): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const item of items) {
    found.push(jsonOf(item));
    if (found.length === count) break;
  }
  return found;
}

async function imported(client: Client, command: Command, call: Call): Promise<Message> {
  const read = (command.requests ?? []).map((one) => fromJson(wire.ImportSessionRequestSchema, one));
  const messages = read.flatMap(({ step }) => (step.case === "items" ? step.value.messages : []));
  const begin = read[0]?.step;
  return client.importSession(begin?.case === "begin" ? begin.value.sessionId : "", messages, call);
}

async function made(client: Client, command: Command, call: Call): Promise<unknown> {
  const given = command.request ?? {};
  const request = <S extends DescMessage>(schema: S) => {
    const message = fromJson(schema, given);
    return { ...message, ...call } as Omit<typeof message, "$typeName"> & Call;
  };
  switch (command.call) {
    case "Put": {
      const { sessionId, messages, wait, ...rest } = request(wire.PutRequestSchema);
      const waitMs = wait === undefined ? {} : { waitMs: Number(wait.seconds) * 1000 + wait.nanos / 1e6 };
      return client.put(sessionId, messages, { ...rest, ...waitMs });
    }
    case "Get": {
      const { sessionId, ...rest } = request(wire.GetRequestSchema);
      return (await client.get(sessionId, rest)).reply;
    }
    case "AllMessages": {
      const { sessionId, ...rest } = request(wire.GetAllRequestSchema);
      return taken(client.getAll(sessionId, rest), command.take);
    }
    case "StreamAll": {
      const { sessionId, ...rest } = request(wire.StreamAllRequestSchema);
      return taken(client.streamAll(sessionId, rest), command.take);
    }
    case "WatchSession": {
      const { sessionId, ...rest } = request(wire.WatchSessionRequestSchema);
      return taken(client.watchSession(sessionId, rest), command.take);
    }
    case "Set": {
      const { sessionId, messages, ...rest } = request(wire.SetRequestSchema);
      return client.set(sessionId, messages, rest);
    }
    case "Reset": {
      const { sessionId, scope, ...rest } = request(wire.ResetRequestSchema);
      return client.reset(sessionId, scope, rest);
    }
    case "UpdateMessage": {
      const { sessionId, messageId, ...rest } = request(wire.UpdateMessageRequestSchema);
      return client.updateMessage(sessionId, messageId, rest);
    }
    case "DeleteMessage": {
      const { sessionId, messageId, ...rest } = request(wire.DeleteMessageRequestSchema);
      return client.deleteMessage(sessionId, messageId, rest);
    }
    case "UpdateContent": {
      const { sessionId, contentId, ...rest } = request(wire.UpdateContentRequestSchema);
      return client.updateContent(sessionId, contentId, rest);
    }
    case "DeleteContent": {
      const { sessionId, contentId, ...rest } = request(wire.DeleteContentRequestSchema);
      return client.deleteContent(sessionId, contentId, rest);
    }
    case "Query": {
      const { sessionId, query, ...rest } = request(wire.QueryRequestSchema);
      return client.query(sessionId, query, rest);
    }
    case "CreateSession": {
      const { sessionId, config, ...rest } = request(wire.CreateSessionRequestSchema);
      return client.createSession(sessionId, config, rest);
    }
    case "GetSession":
      return client.getSession(request(wire.GetSessionRequestSchema).sessionId, call);
    case "UpdateSession": {
      const { sessionId, config, ...rest } = request(wire.UpdateSessionRequestSchema);
      return client.updateSession(sessionId, config, rest);
    }
    case "DeleteSession": {
      const { sessionId, ...rest } = request(wire.DeleteSessionRequestSchema);
      return client.deleteSession(sessionId, rest);
    }
    case "ForkSession": {
      const { sessionId, newSessionId, ...rest } = request(wire.ForkSessionRequestSchema);
      return client.forkSession(sessionId, newSessionId, rest);
    }
    case "ImportSession":
      return imported(client, command, call);
    case "RetryJob": {
      const { sessionId, jobId } = request(wire.RetryJobRequestSchema);
      return client.retryJob(sessionId, jobId, call);
    }
    case "CancelJob": {
      const { sessionId, jobId } = request(wire.CancelJobRequestSchema);
      return client.cancelJob(sessionId, jobId, call);
    }
    case "AddFact": {
      const { sessionId, block, text, ...rest } = request(wire.AddFactRequestSchema);
      return client.addFact(sessionId, block, text, rest);
    }
    case "UpdateFact": {
      const { sessionId, block, factId, text, ...rest } = request(wire.UpdateFactRequestSchema);
      return client.updateFact(sessionId, block, factId, text, rest);
    }
    case "DeleteFact": {
      const { sessionId, block, factId, ...rest } = request(wire.DeleteFactRequestSchema);
      return client.deleteFact(sessionId, block, factId, rest);
    }
    case "UndoBlockChange": {
      const { sessionId, block, change, ...rest } = request(wire.UndoBlockChangeRequestSchema);
      return client.undoBlockChange(sessionId, block, change, rest);
    }
    case "PutItem": {
      const { namespace, put, requestId } = request(wire.PutItemRequestSchema);
      const { key = "", value, expectedVersion } = put ?? {};
      const item: unknown = value?.case === "json" ? JSON.parse(value.value) : value?.value;
      return client.putItem(namespace, key, item, { expectedVersion, requestId, ...call });
    }
    case "GetItem": {
      const { namespace, get } = request(wire.GetItemRequestSchema);
      return (await client.getItem(namespace, get?.key ?? "", call)) ?? null;
    }
    case "DeleteItem": {
      const { namespace, delete: deleted } = request(wire.DeleteItemRequestSchema);
      return client.deleteItem(namespace, deleted?.key ?? "", call);
    }
    case "PutBatch": {
      const outcomes = await client.putBatch(
        request(wire.PutBatchRequestSchema).puts.map(({ sessionId, messages, requestId }) => ({ sessionId, messages, requestId })),
        call,
      );
      return { outcomes: outcomes.map(jsonOf) };
    }
    case "BatchItems": {
      const outcomes = await client.batchItems(request(wire.BatchItemsRequestSchema).batches, call);
      return { outcomes: outcomes.map(jsonOf) };
    }
    case "CopyNamespace": {
      const { namespace, newNamespace, recursive } = request(wire.CopyNamespaceRequestSchema);
      return client.copyNamespace(namespace, newNamespace, { recursive, ...call });
    }
    case "Remember":
      return client.remember(given["user"] as string, given["messages"] as string, call);
    case "Recall":
      return client.recall(given["user"] as string, given["query"] as string, call);
    default:
      return undefined;
  }
}

function opened(given: NonNullable<Command["open"]>): Client {
  const tokens = [...(given.tokens ?? [])];
  const token = (): string => (tokens.length > 1 ? tokens.shift() : tokens[0]) ?? "";
  return new Client(given.target, {
    timeoutMs: given.timeout * 1000,
    waitForReady: given.wait_for_ready,
    ...(tokens.length > 0 ? { token } : {}),
  });
}

async function answered(client: Client, command: Command): Promise<unknown> {
  const call: Call = {};
  if (command.timeout !== undefined) call.timeoutMs = command.timeout * 1000;
  if (command.cancel_after !== undefined) call.signal = AbortSignal.timeout(command.cancel_after * 1000);
  try {
    const result = await made(client, command, call);
    if (result === undefined) return { unsupported: true };
    return { ok: isMessage(result) ? jsonOf(result) : result };
  } catch (error) {
    if (!(error instanceof MemorydError)) throw error;
    const { code, reason, field, text, details, mayHaveBeenDone } = error;
    return { error: { code, reason, field, message: text, details, may_have_been_done: mayHaveBeenDone } };
  }
}

let client: Client | undefined;
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line) as Command;
  let answer: unknown = {};
  if (command.open !== undefined) {
    client?.close();
    client = opened(command.open);
  } else if (command.close === true) {
    client?.close();
  } else if (client !== undefined) {
    answer = await answered(client, command);
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
client?.close();
