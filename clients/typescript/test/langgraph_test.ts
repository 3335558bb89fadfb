// LangGraph's checkpointer and store against a server, beside LangGraph's own in memory.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { after, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { emptyCheckpoint, InMemoryStore, MemorySaver, uuid6 } from "@langchain/langgraph-checkpoint";
import type { Checkpoint, CheckpointTuple, Item, Operation } from "@langchain/langgraph-checkpoint";
import { Client } from "memoryd";
import type { MemoryClient } from "memoryd";
import { MemorydSaver, MemorydStore } from "memoryd/langgraph";
import { Client as WebClient } from "memoryd/web";
import { ItemBatchOutcomeSchema } from "memoryd/wire";
import { Choices } from "./choices.js";
import { Python } from "./python.js";

const STORE_OPERATIONS = 200;
const SAVER_OPERATIONS = 150;
const { MEMORYD_TEST_TARGET: target, MEMORYD_TEST_HTTP: http } = process.env;
const memory = new Client(target, { timeoutMs: 60_000 });
const python = new Python();
after(async () => {
  memory.close();
  await python.close();
});

function base(): string[] {
  return ["tests", randomUUID()];
}

function at(thread: string, ns = "", id?: string) {
  return { configurable: { thread_id: thread, checkpoint_ns: ns, ...(id === undefined ? {} : { checkpoint_id: id }) } };
}

async function listed<T>(all: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of all) found.push(one);
  return found;
}

// A checkpoint after `parent`, in which channels have changed.
async function step(
  saver: MemorydSaver,
  thread: string,
  parent: Checkpoint | undefined,
  values: Record<string, unknown>,
  changed: readonly string[],
): Promise<Checkpoint> {
  const versions: Record<string, number> = { ...(parent?.channel_versions as Record<string, number> | undefined) };
  for (const channel of changed) versions[channel] = saver.getNextVersion(versions[channel]);
  const checkpoint = { ...emptyCheckpoint(), channel_values: values, channel_versions: versions };
  const news = Object.fromEntries(changed.map((one) => [one, versions[one] ?? 0]));
  await saver.put(at(thread, "", parent?.id), checkpoint, { source: "loop", step: 0, parents: {} }, news);
  return checkpoint;
}

// The store.

function plain(found: unknown): unknown {
  if (Array.isArray(found)) return found.map(plain);
  if (typeof found !== "object" || found === null) return found;
  const { namespace, key, value } = found as Item;
  return [namespace, key, value];
}

function someNamespace(choices: Choices): string[] {
  return Array.from({ length: choices.integer(1, 4) }, () => choices.of(["a", "b", "*"]));
}

function someValue(choices: Choices): Record<string, unknown> {
  const value = { n: choices.integer(-3, 3), s: choices.of(["x", "y", "ü", ""]) };
  return choices.random() < 0.5 ? value : { ...value, deep: { f: choices.of([0.5, 1, null, true]), l: [1, { k: "v" }] } };
}

function someFilter(choices: Choices): Record<string, unknown> | undefined {
  return choices.of<Record<string, unknown> | undefined>([
    undefined, { n: 1 }, { n: { $gt: choices.integer(-3, 3) } }, { n: { $gte: -1, $lt: 2 } },
    { n: { $lte: 0 }, s: { $ne: "x" } }, { s: { $eq: "ü" } }, { missing: { $ne: 1 } },
  ]);
}

test("the store does what LangGraph's own does", async () => {
  const choices = new Choices(28);
  const theirs = new InMemoryStore();
  const ours = new MemorydStore(memory, { namespace: base() });
  const written = new Map<string, number>();
  let hits = 0;
  for (let count = 0; count < STORE_OPERATIONS; ++count) {
    const kind = choices.random();
    if (kind < 0.45) {
      const value = choices.random() < 0.25 ? null : someValue(choices);
      const operation = { namespace: someNamespace(choices), key: choices.of(["k", "l", "m"]), value };
      await Promise.all([theirs.batch([operation]), ours.batch([operation])]);
      written.set(JSON.stringify([operation.namespace, operation.key]), count);
    } else if (kind < 0.7) {
      const reads = Array.from({ length: 3 }, () => ({ namespace: someNamespace(choices), key: choices.of(["k", "l"]) }));
      const found = await ours.batch(reads);
      hits += found.filter((one) => one !== null).length;
      assert.deepEqual(plain(found), plain(await theirs.batch(reads)));
    } else if (kind < 0.88) {
      const namespacePrefix = someNamespace(choices).slice(choices.integer(0, 2));
      const filter = someFilter(choices);
      const [offset, limit] = [choices.integer(0, 5), choices.integer(0, 12)];
      const asked = filter === undefined ? { namespacePrefix } : { namespacePrefix, filter };
      const [all = []] = await theirs.batch([{ ...asked, limit: 10_000 }]);
      const [found] = await ours.batch([{ ...asked, limit, offset }]);
      const when = ({ namespace, key }: Item): number => written.get(JSON.stringify([namespace, key])) ?? 0;
      const newest = all.toSorted((one, other) => when(other) - when(one)).slice(offset, offset + limit);
      assert.deepEqual(plain(found), plain(newest));
    } else {
      // Namespaces without items are not listed here.
      const known = (theirs as unknown as { data: Map<string, Map<string, Item>> }).data;
      for (const [name, within] of known) if (within.size === 0) known.delete(name);
      const asked: Parameters<MemorydStore["listNamespaces"]>[0] = { limit: choices.integer(1, 100), offset: choices.integer(0, 3) };
      if (choices.random() < 0.5) asked.prefix = someNamespace(choices);
      if (choices.random() < 0.5) asked.suffix = someNamespace(choices);
      if (choices.random() < 0.5) asked.maxDepth = choices.integer(1, 3);
      const sorted = (await theirs.listNamespaces({ ...asked, limit: 10_000, offset: 0 }))
        .sort((one, other) => Buffer.compare(Buffer.from(one.join("\0")), Buffer.from(other.join("\0"))))
        .slice(asked.offset, (asked.offset ?? 0) + (asked.limit ?? 0));
      assert.deepEqual(await ours.listNamespaces(asked), sorted);
    }
  }
  assert.ok(hits > 5, String(hits));
});

test("a batch of the store reads the state before its puts, and the last put of a key holds", async () => {
  const store = new MemorydStore(memory, { namespace: base() });
  await store.put(["a"], "k", { v: 1 });
  const operations: Operation[] = [
    { namespace: ["a"], key: "k", value: { v: 2 } },
    { namespace: ["a"], key: "k" },
    { namespace: ["a"], key: "k", value: { v: 3 } },
    { namespacePrefix: ["a"] },
  ];
  const first = [["a"], "k", { v: 1 }];
  assert.deepEqual(plain(await store.batch(operations)), [undefined, first, undefined, [first]]);
  assert.deepEqual((await store.get(["a"], "k"))?.value, { v: 3 });
  assert.ok((await store.get(["a"], "k"))?.updatedAt instanceof Date);
});

test("more than one call holds goes in several", async () => {
  const store = new MemorydStore(memory, { namespace: base() });
  const large = "x".repeat(9 << 20);
  await store.batch([0, 1].map((key) => ({ namespace: ["a"], key: String(key), value: { large } })));
  assert.deepEqual((await store.search(["a"])).map(({ value }) => (value["large"] as string).length), [9 << 20, 9 << 20]);
  await store.batch(Array.from({ length: 1100 }, (_, key) => ({ namespace: ["b"], key: String(key), value: { key } })));
  assert.equal((await store.search(["b"], { limit: 1050 })).length, 1050);
});

test("what no reply holds is read in parts", async () => {
  const sizes: number[] = [];
  // Answers as a server that sends no more than two items in a reply.
  const narrow = new Proxy(memory, {
    get: (of, name) => name !== "batchItems" ? (of[name as keyof Client] as unknown) : async (
      batches: Parameters<Client["batchItems"]>[0],
    ) => {
      const [batch] = batches;
      const reads = batch?.operations?.filter(({ operation }) => operation?.case === "get").length ?? 0;
      sizes.push(reads);
      if (reads <= 2) return of.batchItems(batches);
      const error = { code: 8, message: "too large", reason: "REPLY_TOO_LARGE" };
      return [create(ItemBatchOutcomeSchema, { error })];
    },
  });
  const store = new MemorydStore(narrow, { namespace: base() });
  const keys = ["a", "b", "c", "d", "e"];
  await store.batch(keys.map((key) => ({ namespace: ["n"], key, value: { key } })));
  const operations: Operation[] = keys.map((key) => ({ namespace: ["n"], key }));
  const found = await store.batch([...operations, { namespace: ["n"], key: "a", value: { key: "new" } }]) as Item[];
  assert.deepEqual(found.slice(0, 5).map(({ value }) => value["key"] as string), keys);
  assert.deepEqual(sizes, [0, 5, 3, 2, 2, 1, 0]);
  assert.deepEqual((await store.get(["n"], "a"))?.value, { key: "new" });
});

test("a query finds items by the fields that a put names", async () => {
  const store = new MemorydStore(memory, { namespace: base(), index: ["title"] });
  await store.put(["d"], "one", { title: "Green tea", body: "coffee" });
  await store.put(["d"], "two", { title: "Bread", body: "coffee" }, ["body"]);
  await store.put(["d"], "three", { title: "Coffee", body: "tea" }, false);
  const found = async (query: string) =>
    (await store.search(["d"], { query })).filter(({ score }) => score !== undefined).map(({ key }) => key)[0];
  assert.equal(await found("tea"), "one");
  assert.equal(await found("coffee"), "two");
});

test("items of the store are the same in Python", async () => {
  const namespace = base();
  const store = new MemorydStore(memory, { namespace });
  const value = { text: "Ärzte 🙂", n: 1.5, deep: [{ a: null, b: [true] }], large: 2 ** 40 };
  await store.put(["users", "ann"], "of js", value);
  await python.call("store_put", namespace, ["users", "bob"], "of python", { ...value, drink: "green tea" }, ["drink"]);
  assert.deepEqual(await python.call("store_get", namespace, ["users", "ann"], "of js"), value);
  assert.deepEqual((await store.get(["users", "bob"], "of python"))?.value, { ...value, drink: "green tea" });
  assert.deepEqual((await store.search(["users"], { query: "tea" })).map(({ key }) => key)[0], "of python");
  assert.equal((await python.call("store_search", namespace, ["users"], "Ärzte") as string[])[0], "of js");
  assert.deepEqual(await python.call("store_namespaces", namespace), await store.listNamespaces());
  await store.delete(["users", "bob"], "of python");
  assert.equal(await python.call("store_get", namespace, ["users", "bob"], "of python"), null);
});

// The checkpointer.

function comparable(found: CheckpointTuple | undefined): unknown {
  if (found === undefined) return undefined;
  const { config, checkpoint, metadata, parentConfig, pendingWrites = [] } = found;
  return [config.configurable, checkpoint, metadata, parentConfig?.configurable, pendingWrites];
}

function someChannelValue(choices: Choices): unknown {
  return choices.of<unknown>([
    null, 1, 1.5, "small", "long".repeat(100), "x".repeat(5000), [1, "two"], { a: { b: new Uint8Array([1]) } },
    new Set([3, 4]), new Map([["k", 1]]), Array.from({ length: 3000 }, (_, one) => one), undefined,
  ]);
}

test("the checkpointer does what LangGraph's own does", async () => {
  const choices = new Choices(7);
  const theirs = new MemorySaver();
  const ours = new MemorydSaver(memory, { namespace: base() });
  const known = new Map<string, Checkpoint[]>();
  const threads = ["t", "*", "a/b", "%", "ü 🙂", "x".repeat(80), " "];
  const namespaces = ["", "child:1", "a:1|b:2", "n|".repeat(200)];
  for (let count = 0; count < SAVER_OPERATIONS; ++count) {
    const [thread, ns] = [choices.of(threads), choices.of(namespaces)];
    const name = JSON.stringify([thread, ns]);
    const there = known.get(name) ?? [];
    known.set(name, there);
    const kind = choices.random();
    if (kind < 0.4) {
      const parent = there.length > 0 ? choices.of(there.slice(-3)) : undefined;
      const values = { ...parent?.channel_values };
      const versions: Record<string, number | string> = { ...parent?.channel_versions };
      const changed = choices.some(["messages", "x", "branch:to:a", "ü/1"], choices.integer(0, 3));
      for (const channel of changed) {
        versions[channel] = ours.getNextVersion(versions[channel] as number | undefined);
        values[channel] = someChannelValue(choices);
      }
      const checkpoint = { ...emptyCheckpoint(), id: uuid6(there.length), channel_values: values, channel_versions: versions };
      const config = at(thread, ns, parent?.id);
      const metadata = { source: choices.of(["input", "loop"] as const), step: there.length, parents: {}, n: choices.integer(0, 2) };
      const news = Object.fromEntries(changed.map((one) => [one, versions[one] ?? 0]));
      assert.deepEqual(
        await ours.put(config, checkpoint, metadata, news),
        await theirs.put(config, checkpoint, metadata),
      );
      there.push(checkpoint);
    } else if (kind < 0.65 && there.length > 0) {
      const config = at(thread, ns, choices.of(there.slice(-3)).id);
      const writes = Array.from({ length: choices.integer(1, 3) }, (): [string, unknown] =>
        [choices.of(["messages", "__error__", "__interrupt__", "x"]), someChannelValue(choices)]);
      const given = [choices.of(["task-a", "task-b", "ü"]), choices.of(["", "~__pregel_pull, a", "𐀀"])] as const;
      await theirs.putWrites(config, writes, ...given);
      await ours.putWrites(config, writes, ...given);
    } else if (kind < 0.85) {
      const id = there.length > 0 && choices.random() < 0.5 ? choices.of(there).id : undefined;
      const config = at(thread, ns, id);
      assert.deepEqual(comparable(await ours.getTuple(config)), comparable(await theirs.getTuple(config)));
    } else if (kind < 0.98) {
      const options = {
        limit: choices.integer(0, 12),
        ...(choices.random() < 0.5 ? { filter: { n: choices.integer(0, 2) } } : {}),
        ...(choices.random() < 0.5 && there.length > 0 ? { before: at(thread, ns, choices.of(there).id) } : {}),
      };
      assert.deepEqual(
        (await listed(ours.list(at(thread, ns), options))).map(comparable),
        (await listed(theirs.list(at(thread, ns), options))).map(comparable),
      );
    } else {
      await Promise.all([ours.deleteThread(thread), theirs.deleteThread(thread)]);
      for (const one of namespaces) known.delete(JSON.stringify([thread, one]));
    }
  }
  const byId = (tuples: CheckpointTuple[]): unknown[] =>
    tuples.sort((one, other) => (one.checkpoint.id < other.checkpoint.id ? -1 : 1)).map(comparable);
  assert.deepEqual(byId(await listed(ours.list({}))), byId(await listed(theirs.list({}))));
});

test("branches of a thread keep their own large values", async () => {
  const saver = new MemorydSaver(memory, { namespace: base() });
  const first = await step(saver, "t", undefined, { of: ["0"] }, ["of"]);
  const [left, right] = [["l".repeat(9000)], ["r".repeat(9000)]];
  const one = await step(saver, "t", first, { of: left }, ["of"]);
  const other = await step(saver, "t", first, { of: right }, ["of"]);
  assert.deepEqual((await saver.get(at("t", "", one.id)))?.channel_values, { of: left });
  assert.deepEqual((await saver.get(at("t", "", other.id)))?.channel_values, { of: right });
});

test("a value of any size that does not change stays, also in another process", async () => {
  for (const size of [0, 129, 4090, 4096, 4100, 8192, 8300]) {
    const values = { of: ["x".repeat(size)], other: 1 };
    const namespace = base();
    let last: Checkpoint | undefined;
    for (let count = 0; count < 3; ++count) {
      const saver = new MemorydSaver(memory, { namespace });
      last = await step(saver, "t", last, values, count === 0 ? ["of", "other"] : ["other"]);
      assert.deepEqual((await saver.get(at("t")))?.channel_values, values);
    }
  }
});

test("a value that grows where it is is stored", async () => {
  const saver = new MemorydSaver(memory, { namespace: base() });
  const values = { of: ["x"], other: 1 };
  let last = await step(saver, "t", undefined, values, ["of", "other"]);
  values.of.push("y".repeat(9000));
  for (let count = 0; count < 2; ++count) {
    last = await step(saver, "t", last, values, ["other"]);
    assert.deepEqual((await saver.get(at("t")))?.channel_values, values);
  }
});

test("threads of the two languages lie apart", async () => {
  const namespace = base();
  const saver = new MemorydSaver(memory, { namespace });
  await python.call("saver_put", namespace, "t");
  assert.equal(await saver.getTuple(at("t")), undefined);
  assert.deepEqual(await listed(saver.list({})), []);
  await step(saver, "t", undefined, { by: ["js"] }, ["by"]);
  assert.deepEqual(await python.call("saver_list", namespace), [["t", { by: ["python"] }]]);
  await python.call("saver_delete", namespace, "t");
  assert.deepEqual((await saver.get(at("t")))?.channel_values, { by: ["js"] });
  await python.call("saver_put", namespace, "t");
  await saver.deleteThread("t");
  assert.deepEqual(await python.call("saver_list", namespace), [["t", { by: ["python"] }]]);
});

test("a thread's name that is too long is refused", async () => {
  const saver = new MemorydSaver(memory, { namespace: base() });
  await assert.rejects(saver.getTuple(at("x".repeat(257))), /thread_id: must be at most 256 bytes/);
  await assert.rejects(saver.put({}, emptyCheckpoint(), { source: "loop", step: 0, parents: {} }, {}), /thread_id: is missing/);
});

test("they work over HTTP, and by require", async () => {
  const web: MemoryClient = new WebClient(http ?? "");
  const required = createRequire(import.meta.url)("memoryd/langgraph") as typeof import("memoryd/langgraph");
  const namespace = base();
  const saver = new required.MemorydSaver(web, { namespace });
  const checkpoint = { ...emptyCheckpoint(), channel_values: { a: [1] }, channel_versions: { a: 1 } };
  await saver.put(at("t"), checkpoint, { source: "loop", step: 0, parents: {} }, { a: 1 });
  assert.deepEqual((await new MemorydSaver(memory, { namespace }).get(at("t")))?.channel_values, { a: [1] });
  const store = new required.MemorydStore(web, { namespace });
  await store.put(["a"], "k", { v: 1 });
  assert.deepEqual((await store.get(["a"], "k"))?.value, { v: 1 });
});
