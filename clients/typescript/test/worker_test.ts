// Workers against a server, and against one that the tests script.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { Client, message } from "memoryd";
import { WorkerCallSchema, WorkerService } from "memoryd/wire";
import type { AttachRequest, AttachResponseSchema, Message, WorkerResult } from "memoryd/wire";
import { Worker } from "memoryd/worker";
import type { Block, BytesBlock, WorkerOptions } from "memoryd/worker";

type Ask = MessageInitShape<typeof AttachResponseSchema>;

const memory = new Client(process.env["MEMORYD_TEST_TARGET"], { timeoutMs: 60_000 });
after(() => {
  memory.close();
});

function textOf(messages: readonly Message[]): string {
  return messages.map(({ text, parts }) => text ?? parts.map(({ kind }) => (kind.case === "text" ? kind.value : "")).join("")).join("\n");
}

const mentions: Block<number> = {
  put: (messages, state = 0) => state + textOf(messages).split("Logan").length - 1,
  get: (_, state = 0) => `Logan was mentioned ${state} times.`,
  truncate: () => undefined,
};
const bytes: BytesBlock = {
  stateIsBytes: true,
  put: (messages, state = new Uint8Array()) => new Uint8Array([...state, messages.length]),
  get: (_, state) => [`bytes: ${String(state)}`, message("user", "one more")],
};
const serves: Pick<WorkerOptions, "blocks" | "models" | "embedders"> = {
  blocks: { mentions, bytes, weather: { get: () => Promise.resolve("It rains.") } },
  models: {
    shout: (messages, maxTokens) => ({
      text: textOf(messages.slice(-1)).toUpperCase(),
      finishReason: maxTokens === 0n ? "stop" : "",
      usage: { promptTokens: 3 },
    }),
    slow: async (_, __, { signal }) => {
      await once(signal, "abort");
      return "too late";
    },
    deaf: () => new Promise<string>(() => undefined),
    broken: () => {
      throw new RangeError("out of order");
    },
    long: () => "x".repeat(5000),
    who: (_, __, { call }) => call.sessionId,
  },
  embedders: {
    lengths: (texts, purpose) => texts.map((text) => [text.length, purpose === "query" ? 1 : 0]),
  },
};

test("a session's block, model and embedder are the worker's", async () => {
  const name = `worker-${randomUUID()}`;
  await using worker = new Worker(process.env["MEMORYD_TEST_TARGET"], { name, ...serves });
  await worker.start();
  const session = randomUUID();
  const config = {
    tokenLimit: 1000n,
    tokenFlushSize: 1n,
    chatHistoryTokenRatio: 0,
    tokenizer: "whitespace",
    blocks: [
      { name: "mentions", kind: "worker", worker: name },
      { name: "bytes", kind: "worker", worker: name },
      { name: "weather", kind: "worker", worker: name },
      { name: "summary", kind: "summary", worker: name, optionsJson: JSON.stringify({ model: "shout" }) },
      { name: "entries", kind: "vector", worker: name, optionsJson: JSON.stringify({ embedder: "lengths" }) },
    ],
  };
  await memory.put(session, [message("user", "Logan and Logan."), message("assistant", "I see.")], { config });
  await memory.put(session, [message("user", "Logan again?"), message("assistant", "Yes.")], { waitMs: 25_000 });
  await memory.put(session, [message("user", "And now?")], { waitMs: 25_000 });
  const said = textOf((await memory.get(session)).messages);
  assert.match(said, /Logan was mentioned 3 times\./);
  assert.match(said, /bytes: 2/);
  assert.match(said, /one more/);
  assert.match(said, /It rains\./);
  assert.match(said, /LOGAN/);
  const entries = [];
  for await (const entry of memory.listBlockEntries(session, "entries")) entries.push(entry);
  assert.ok(entries.length > 0);
  const { usage } = await memory.getUsage();
  assert.ok((usage?.promptTokens ?? 0n) > 0n);
});

// A server whose answers are what `attach` yields.
async function scripted(attach: (requests: AsyncIterable<AttachRequest>) => AsyncIterable<Ask>): Promise<[string, () => void]> {
  const server = createServer(connectNodeAdapter({ routes: (router) => router.service(WorkerService, { attach }) }));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return [`127.0.0.1:${(server.address() as AddressInfo).port}`, () => server.close()];
}

const welcome: Ask = { kind: { case: "welcome", value: { maxConcurrentCalls: 8, maxMessageBytes: 4096n } } };

function asks(call: MessageInitShape<typeof WorkerCallSchema>, milliseconds = 5000): Ask {
  const value = create(WorkerCallSchema, call);
  value.callId = 7n;
  value.sessionId = "s1";
  if (value.block === "") value.block = "mentions";
  value.timeout = durationFromMs(milliseconds);
  return { kind: { case: "call", value } };
}

function completing(model: string, milliseconds = 5000): Ask {
  return asks({ call: { case: "complete", value: { model, messages: [message("user", "tea")] } } }, milliseconds);
}

// The result that each of these gets.
async function results(...given: readonly (readonly Ask[])[]): Promise<WorkerResult[]> {
  const found: WorkerResult[] = [];
  const stop = new AbortController();
  const [target, close] = await scripted(async function* (requests) {
    const received = requests[Symbol.asyncIterator]();
    const next = async () => {
      const { done, value } = (await received.next()) as IteratorResult<AttachRequest, undefined>;
      return done === true ? undefined : value.kind;
    };
    assert.equal((await next())?.case, "hello");
    yield welcome;
    for (const some of given) {
      yield* some;
      const kind = await next();
      assert.ok(kind?.case === "result");
      found.push(kind.value);
    }
    stop.abort();
    await next();
  });
  await new Worker(target, { name: "w", ...serves, log: () => undefined }).run({ signal: stop.signal });
  close();
  return found;
}

test("a worker serves blocks, models and embedders", async () => {
  const state = new TextEncoder().encode("3");
  const [put, get, complete, embed, who] = await results(
    [asks({ call: { case: "put", value: { state, messages: [message("user", "Logan and Logan")] } } })],
    [asks({ call: { case: "get", value: { state } } })],
    [completing("shout")],
    [asks({ call: { case: "embed", value: { embedder: "lengths", texts: ["a", "bcd"], purpose: 2 } } })],
    [completing("who")],
  );
  assert.equal(put?.callId, 7n);
  assert.equal(new TextDecoder().decode(put.result.case === "put" ? put.result.value.state : undefined), "5");
  assert.deepEqual(get?.result.value && "parts" in get.result.value && get.result.value.parts[0]?.kind.value,
    "Logan was mentioned 3 times.");
  assert.ok(complete?.result.case === "complete");
  assert.deepEqual([complete.result.value.text, complete.result.value.finishReason], ["TEA", "stop"]);
  assert.deepEqual([complete.usage?.calls, complete.usage?.promptTokenCount], [1n, 3n]);
  assert.ok(embed?.result.case === "embed");
  assert.deepEqual(embed.result.value.vectors.map(({ values }) => values), [[1, 1], [3, 1]]);
  assert.equal(who?.result.case === "complete" && who.result.value.text, "s1");
});

test("a failure of a worker's function is the answer", async () => {
  const cancel: Ask = { kind: { case: "cancel", value: { callId: 7n } } };
  const found = await results(
    [completing("slow", 20)], [completing("deaf", 20)], [completing("deaf"), cancel], [completing("broken")],
    [completing("nobody")], [completing("toString")], [completing("long")], [asks({})],
    [asks({ block: "weather", call: { case: "put", value: {} } })],
  );
  const codes = found.map(({ result }) => (result.case === "error" ? (Code[result.value.code] ?? "") : "no error"));
  assert.deepEqual(codes, ["DeadlineExceeded", "DeadlineExceeded", "Canceled", "Unknown", "NotFound", "NotFound",
    "ResourceExhausted", "Unimplemented", "NotFound"]);
  assert.equal(found[3]?.result.case === "error" && found[3].result.value.message, "RangeError: out of order");
});

test("a worker attaches again, and gives up for good", async () => {
  let attempts = 0;
  const [target, close] = await scripted(async function* () {
    ++attempts;
    if (attempts === 1) throw new ConnectError("draining", Code.Unavailable);
    if (attempts === 3) throw new ConnectError("no worker", Code.PermissionDenied);
    await Promise.resolve();
    yield welcome;
  });
  const worker = new Worker(target, { name: "w", models: {}, log: () => undefined });
  await assert.rejects(worker.run(), { code: "PERMISSION_DENIED" });
  assert.equal(attempts, 3);
  await assert.rejects(worker.run(), /starts once/);
  close();
});

test("a worker that is closed ends the signals of its calls, and the process may end", async () => {
  let ended = false;
  const [target, close] = await scripted(async function* (requests) {
    yield welcome;
    yield completing("waits");
    for await (const _ of requests);
  });
  const begun = Promise.withResolvers<undefined>();
  const waits = async (_: unknown, __: unknown, { signal }: { signal: AbortSignal }): Promise<string> => {
    begun.resolve(undefined);
    await once(signal, "abort");
    ended = true;
    return "";
  };
  const worker = new Worker(target, { name: "w", models: { waits }, log: () => undefined });
  await worker.start();
  await begun.promise;
  await worker.close();
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(ended);
  close();
});
