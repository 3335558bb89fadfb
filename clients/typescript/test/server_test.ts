// Both clients against a server. MEMORYD_TEST_TARGET and MEMORYD_TEST_HTTP are its addresses.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { after, test } from "node:test";
import { Client, content, fromOpenAI, hitText, itemValue, message, MemorydError, textOf } from "memoryd";
import type { MemoryClient } from "memoryd";
import { Client as WebClient } from "memoryd/web";
import { MessageOrder, SessionChange } from "memoryd/wire";

const { MEMORYD_TEST_TARGET: target, MEMORYD_TEST_HTTP: http } = process.env;
const clients: [string, MemoryClient][] = [
  ["gRPC", new Client(target)],
  ["HTTP", new WebClient(http ?? "")],
];
after(() => {
  for (const [, client] of clients) client.close();
});

async function listed<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

for (const [way, client] of clients) {
  const id = (): string => `${way}-${randomUUID()}`;

  test(`${way}: a session's round`, async () => {
    const session = id();
    const chat = [
      { role: "user", content: "Tea in France?" },
      { role: "assistant", content: [{ type: "text", text: "Yes.", cache_control: { type: "ephemeral" } }] },
    ];
    const put = await client.put(session, chat, { contents: [content("Likes tea.")] });
    assert.deepEqual(put.positions, [1n, 2n]);
    assert.deepEqual((await client.get(session)).toAnthropic().messages, chat);
    const texts = (await listed(client.getAll(session, { pageSize: 1 }))).map(({ role }) => role);
    assert.deepEqual(texts, ["user", "assistant"]);
    const newest = await listed(client.streamAll(session, { order: MessageOrder.NEWEST_FIRST }));
    assert.deepEqual(newest.map(({ position }) => position), [2n, 1n]);
    assert.equal(await client.countMessages(session), 2n);
    const found = await client.query(session, "tea", { topK: 1 });
    assert.match(hitText(found.results[0] ?? assert.fail()), /tea/i);
    const inserted = await client.updateContext(session, [message("user", "And Spain?")]);
    assert.match(JSON.stringify(inserted.toOpenAI()), /Likes tea/);
    const updated = await client.updateSession(session, { tokenLimit: 4000n });
    assert.equal(updated.config?.tokenLimit, 4000n);
    assert.equal((await client.forkSession(session, id(), { upTo: { case: "upToPosition", value: 1n } })).replayed, false);
    assert.equal((await client.set(session, [fromOpenAI({ role: "user", content: "c" })])).removedCount, 2n);
    assert.equal((await client.deleteSession(session)).messageCount, 1n);
    assert.ok((await client.serverInfo()).store);
  });

  test(`${way}: what is no request is a TypeError at once, alone and beside others`, async () => {
    const bad = (): Promise<unknown> => client.put(id(), [], { expectedRevision: "x" as unknown as bigint });
    await assert.rejects(bad(), TypeError);
    const others = Array.from({ length: 20 }, () => client.put(id(), [message("user", "x")]));
    await assert.rejects(bad(), TypeError);
    for (const { revision } of await Promise.all(others)) assert.equal(revision, 1n);
  });

  test(`${way}: Puts that are given up in the turn they are made in are cancelled`, async () => {
    const stop = new AbortController();
    const all = Array.from({ length: 5 }, () => client.put(id(), [message("user", "x")], { signal: stop.signal }));
    stop.abort();
    for (const one of all) await assert.rejects(one, { code: "CANCELLED" });
  });

  test(`${way}: Puts at the same time are each done once`, async () => {
    const sessions = Array.from({ length: 7 }, id);
    const put = (at: number): Promise<unknown> => client.put(sessions[at % 7] ?? "", [message("user", String(at))]);
    await Promise.all(Array.from({ length: 200 }, (_, at) => put(at)));
    for (const [first, session] of sessions.entries()) {
      const texts = (await listed(client.getAll(session))).map(textOf);
      const all = Array.from({ length: 200 }, (_, at) => at).filter((at) => at % 7 === first);
      assert.deepEqual(texts.map(Number).sort((a, b) => a - b), all);
    }
  });

  test(`${way}: an error has code, reason and field`, async () => {
    const session = id();
    await assert.rejects(client.put(session, [message("", "x")]), (error: unknown) => {
      assert.ok(error instanceof MemorydError);
      assert.deepEqual([error.code, error.field], ["INVALID_ARGUMENT", "messages[0].role"]);
      assert.notEqual(error.reason, "");
      return true;
    });
    await assert.rejects(client.put(session, [message("user", "x")], { expectedRevision: 7n }), {
      reason: "REVISION_MISMATCH",
      mayHaveBeenDone: false,
    });
  });

  test(`${way}: items`, async () => {
    const space = ["test", id()];
    const first = await client.putItem(space, "a", { n: 1 }, { expectedVersion: 0n });
    await client.putItem(space, "b", new Uint8Array([1, 2]));
    await assert.rejects(client.putItem(space, "a", 2, { expectedVersion: first.version + 1n }), {
      code: "ABORTED",
      reason: "VERSION_MISMATCH",
    });
    assert.deepEqual(itemValue((await client.getItem(space, "a")) ?? assert.fail()), { n: 1 });
    assert.deepEqual((await listed(client.listItems(space, { pageSize: 1 }))).map(itemValue), [{ n: 1 }, new Uint8Array([1, 2])]);
    assert.equal(await client.getItem(space, "c"), undefined);
    assert.equal(await client.deleteItem(space, "a"), true);
    assert.equal(await client.deleteItem(space, "a"), false);
    const copy = ["test", id()];
    await client.copyNamespace(space, copy);
    assert.equal((await client.searchItems(copy)).length, 1);
    await client.deleteNamespace(space, { recursive: true });
  });

  test(`${way}: a fact from one conversation is known in the next`, async () => {
    const user = id();
    await client.remember(user, "I drink tea, never coffee.");
    const hits = await client.recall(user, "What may I offer to drink?");
    assert.match(hitText(hits.results[0] ?? assert.fail()), /tea/);
    const monday = await client.context(user, `${user}/monday`, "I live in Lyon, near the river.");
    assert.equal(monday.messages.length, 1);
    const context = await client.context(user, `${user}/sunday`, "Which tea is drunk in Lyon, near the river?");
    assert.ok(context.recalled.length > 0);
    assert.match(JSON.stringify(context.toOpenAI()), /memoryd_recall/);
    await assert.rejects(client.context("someone else", `${user}/sunday`, "hi"), { reason: "NOT_THE_USERS" });
    assert.equal((await client.eraseSubject(user)).sessionCount, 3n);
  });

  test(`${way}: a watch tells what changes, until its caller gives up`, async () => {
    const session = id();
    await client.put(session, [message("user", "a")]);
    const stop = new AbortController();
    const seen: SessionChange[] = [];
    const watching = (async () => {
      for await (const news of client.watchSession(session, { signal: stop.signal })) {
        seen.push(...news.changes);
        if (seen.includes(SessionChange.MESSAGES_PUT)) stop.abort();
        else await client.put(session, [message("user", "b")]);
      }
    })();
    await assert.rejects(watching, { code: "CANCELLED" });
    assert.ok(seen.includes(SessionChange.MESSAGES_PUT));
  });
}

test("an import is what was exported, and what its iterable throws is thrown", async () => {
  const client = clients[0]?.[1] ?? assert.fail();
  const session = `import-${randomUUID()}`;
  const many = Array.from({ length: 600 }, (_, at) => ({ role: "user", content: `message ${at}` }));
  const made = await client.importSession(session, many);
  assert.equal(made.activeCount + made.archivedCount, 600n);
  const failure = new Error("not today");
  async function* broken(): AsyncGenerator<{ role: string; content: string }> {
    yield { role: "user", content: "x" };
    await Promise.reject(failure);
  }
  await assert.rejects(client.importSession(`${session}-2`, broken()), (error) => error === failure);
});

test("a request that is too large is refused, and other calls go on meanwhile", async () => {
  const client = new Client(target, { timeoutMs: 60_000 });
  const session = `large-${randomUUID()}`;
  const put = client.put(session, [], { contents: [content(new Uint8Array(37 << 20))] });
  await Promise.all([
    assert.rejects(put, { code: "RESOURCE_EXHAUSTED", reason: "REQUEST_TOO_LARGE" }),
    client.serverInfo(),
  ]);
  client.close();
});

test("the package is there for require too", async () => {
  const require = createRequire(import.meta.url);
  const { Client: Required } = require("memoryd") as typeof import("memoryd");
  const required = new Required(target);
  assert.ok((await required.serverInfo()).version);
  required.close();
});
