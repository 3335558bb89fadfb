// Which Puts are made as one call, and what each of their callers is told.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { MemorydError } from "memoryd";
import { PutGatherer } from "../dist/esm/gathering.js";
import * as wire from "../dist/esm/gen/memoryd/v1/memory_service_pb.js";

interface Made {
  readonly name: string;
  readonly sessions: string[];
  readonly token: string | undefined;
  readonly timeoutMs: number;
  reply: (revisions?: bigint[], usage?: boolean) => void;
  answer: (outcomes: MessageInitShape<typeof wire.PutOutcomeSchema>["outcome"][]) => void;
  fail: (error: unknown) => void;
}

interface How {
  readonly token?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly waits?: boolean;
  readonly text?: string;
  readonly itemCount?: number;
  readonly header?: Readonly<Record<string, string>>;
}

/** A server whose answers the test gives. */
class Answers {
  readonly made: Made[] = [];
  readonly gatherer: PutGatherer;

  constructor(repeats = true) {
    this.gatherer = new PutGatherer((method, _, timeoutMs, header, body) => this.attempt(method, timeoutMs, header, body), repeats);
  }

  put(sessionId: string, how: How = {}): Promise<wire.PutResponse | undefined> {
    const { token = "a", timeoutMs = 10_000, signal, waits = false, text = "x", itemCount = 1 } = how;
    const encode = (): Uint8Array =>
      toBinary(wire.PutRequestSchema, create(wire.PutRequestSchema, { sessionId, messages: [{ messageId: text }] }));
    return this.gatherer.put({ sessionId, itemCount, waits, encode }, how.header ?? { authorization: token }, timeoutMs, signal);
  }

  get calls(): [string, string[]][] {
    return this.made.map(({ name, sessions }) => [name, sessions]);
  }

  private attempt<O extends DescMessage>(
    method: DescMethodUnary<DescMessage, O>,
    timeoutMs: number,
    header: Readonly<Record<string, string>>,
    body: Uint8Array,
  ): Promise<MessageShape<O>> {
    const made = fromBinary(method.input, body) as wire.PutRequest | wire.PutBatchRequest;
    const puts = "puts" in made ? made.puts : [made];
    return new Promise((resolve, reject) => {
      const answer = (value: unknown): void => {
        resolve(value as MessageShape<O>);
      };
      const answerAll: Made["answer"] = (outcomes) => {
        answer({ outcomes: outcomes.map((outcome) => create(wire.PutOutcomeSchema, { outcome })) });
      };
      this.made.push({
        name: method.name,
        sessions: puts.map(({ sessionId }) => sessionId),
        token: header["authorization"],
        timeoutMs,
        reply: (revisions = [], usage = false) => {
          if ("puts" in made) answerAll(puts.map((_, at) => ({ case: "reply", value: { revision: revisions[at] ?? 1n } })));
          else answer(create(wire.PutResponseSchema, { revision: revisions[0] ?? 1n, ...(usage ? { usage: {} } : {}) }));
        },
        answer: answerAll,
        fail: reject,
      });
    });
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

// Three Puts of a batch, and one before them that is done.
async function threeGathered(repeats = true): Promise<[Answers, Made, Promise<wire.PutResponse | undefined>[]]> {
  const answers = new Answers(repeats);
  const all = ["x", "y", "z", "y"].map((session) => answers.put(session));
  for (const one of all) one.catch(() => undefined);
  await turn();
  const [alone, batch] = answers.made;
  assert.ok(alone !== undefined && batch !== undefined);
  assert.deepEqual(answers.calls, [["Put", ["x"]], ["PutBatch", ["y", "z", "y"]]]);
  alone.reply();
  await all[0];
  return [answers, batch, all.slice(1)];
}

test("the first goes by itself, the others together, and each gets its reply", async () => {
  const [answers, batch, gathered] = await threeGathered();
  batch.reply([4n, 5n, 6n]);
  assert.deepEqual((await Promise.all(gathered)).map((reply) => reply?.revision), [4n, 5n, 6n]);
  const next = answers.put("x");
  assert.equal(answers.made[2]?.name, "Put");
  answers.made[2].reply();
  await next;
});

test("while two calls are under way others wait, and one by itself is a Put", async () => {
  const [answers, batch] = await threeGathered();
  const second = answers.put("p");
  await turn();
  const third = [answers.put("q"), answers.put("r")];
  await turn();
  assert.deepEqual(answers.calls.slice(2), [["Put", ["p"]]]);
  batch.reply();
  await turn();
  assert.deepEqual(answers.calls.slice(3), [["PutBatch", ["q", "r"]]]);
  for (const made of answers.made.slice(2)) made.reply();
  await Promise.all([second, ...third]);
});

test("nobody waits long for calls that are under way", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const [answers] = await threeGathered();
  const waiting = [answers.put("p"), answers.put("q"), answers.put("r")];
  await turn();
  assert.deepEqual(answers.calls.slice(2), [["PutBatch", ["p", "q", "r"]]]);
  waiting.push(answers.put("s"), answers.put("t", { timeoutMs: 5000 }));
  await turn();
  context.mock.timers.tick(19);
  assert.equal(answers.made.length, 3);
  context.mock.timers.tick(1);
  assert.deepEqual(answers.calls.slice(3), [["Put", ["s"]], ["Put", ["t"]]]);
  for (const made of answers.made.slice(2)) made.reply();
  await Promise.all(waiting);
});

test("each error is its caller's, and names the field as in a call of its own", async () => {
  const [, batch, gathered] = await threeGathered();
  const field = "messages[0].role";
  const value = { code: 3, message: `puts[1].${field}: must be set`, reason: "INVALID", metadata: { field: `puts[1].${field}` } };
  const reply = { case: "reply", value: {} } as const;
  batch.answer([reply, { case: "error", value }, reply]);
  const found = await Promise.allSettled(gathered);
  assert.deepEqual(found.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
  const error: unknown = found[1]?.status === "rejected" ? found[1].reason : undefined;
  assert.ok(error instanceof MemorydError);
  assert.deepEqual([error.code, error.text, error.field], ["INVALID_ARGUMENT", `${field}: must be set`, field]);
});

test("a batch that is lost is an attempt of each", async () => {
  const [, batch, gathered] = await threeGathered();
  batch.fail(new MemorydError("UNAVAILABLE", "gone"));
  for (const one of gathered) await assert.rejects(one, { code: "UNAVAILABLE", text: "gone", mayHaveBeenDone: true });
});

test("a Put without an outcome may have been done", async () => {
  const [, batch, gathered] = await threeGathered();
  batch.answer([{ case: "reply", value: { revision: 4n } }]);
  assert.equal((await gathered[0])?.revision, 4n);
  for (const one of gathered.slice(1)) await assert.rejects(one, { code: "INTERNAL", mayHaveBeenDone: true });
});

test("Puts of a batch that is refused are made one by one", async () => {
  for (const code of ["RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "PERMISSION_DENIED"] as const) {
    const [, batch, gathered] = await threeGathered();
    batch.fail(new MemorydError(code, ""));
    assert.deepEqual(await Promise.all(gathered), [undefined, undefined, undefined]);
  }
});

test("Puts that are told to come again are told so each", async () => {
  const busy = new MemorydError("RESOURCE_EXHAUSTED", "", "QUEUE_FULL", { retry_after_ms: "50" });
  const [, batch, gathered] = await threeGathered();
  batch.fail(busy);
  for (const one of gathered) await assert.rejects(one, { code: "RESOURCE_EXHAUSTED", details: busy.details });
  const [, other, once] = await threeGathered(false);
  other.fail(busy);
  assert.deepEqual(await Promise.all(once), [undefined, undefined, undefined]);
});

test("a server that knows no PutBatch gets none for a minute", async (context) => {
  const [answers, batch, gathered] = await threeGathered();
  const second = answers.put("p");
  await turn();
  const waiting = answers.put("q");
  await turn();
  batch.fail(new MemorydError("UNIMPLEMENTED", ""));
  assert.deepEqual(await Promise.all([...gathered, waiting]), [undefined, undefined, undefined, undefined]);
  answers.made[2]?.reply();
  await second;
  const began = performance.now();
  const clock = context.mock.method(performance, "now", () => began + 50_000);
  assert.equal(await answers.put("x"), undefined);
  clock.mock.mockImplementation(() => began + 70_000);
  const next = answers.put("x");
  answers.made[3]?.reply();
  assert.equal((await next)?.revision, 1n);
});

test("what has another token is another call, and waits for none of the other's", async () => {
  const answers = new Answers();
  const all = ["a", "a", "b", "a", "b", "b"].map((token, at) => answers.put(String(at), { token }));
  await turn();
  const expected = [["a", ["0"]], ["b", ["2"]], ["a", ["1", "3"]], ["b", ["4", "5"]]];
  assert.deepEqual(answers.made.map(({ token, sessions }) => [token, sessions]), expected);
  for (const made of answers.made) made.reply();
  await Promise.all(all);
});

test("Puts of one call end at the same time", async () => {
  const answers = new Answers();
  const all = [9000, 10_000, 10_050, 2000, 10_000].map((timeoutMs, at) => answers.put(String(at), { timeoutMs }));
  await turn();
  assert.deepEqual(answers.calls, [["Put", ["0"]], ["PutBatch", ["1", "2"]]]);
  assert.ok(Math.abs((answers.made[1]?.timeoutMs ?? 0) - 10_050) < 50);
  answers.made[0]?.reply();
  await turn();
  answers.made[1]?.reply();
  await turn();
  assert.deepEqual(answers.calls.slice(2), [["Put", ["3"]], ["Put", ["4"]]]);
  for (const made of answers.made.slice(2)) made.reply();
  await Promise.all(all);
});

test("a Put ends at its own time", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const [, , gathered] = await threeGathered();
  context.mock.timers.tick(10_000);
  for (const one of gathered) await assert.rejects(one, { code: "DEADLINE_EXCEEDED", mayHaveBeenDone: true });
});

// Three Puts at the same time, of which the second is given up by `stop`.
function withOneToGiveUp(): { answers: Answers; stop: AbortController; given: Promise<unknown>; others: Promise<unknown>[] } {
  const answers = new Answers();
  const stop = new AbortController();
  const first = answers.put("x");
  const given = answers.put("y", { signal: stop.signal });
  return { answers, stop, given, others: [first, answers.put("z")] };
}

test("one that is given up before it is sent is not sent", async () => {
  const { answers, stop, given, others } = withOneToGiveUp();
  stop.abort();
  await assert.rejects(given, { code: "CANCELLED" });
  await turn();
  assert.deepEqual(answers.calls, [["Put", ["x"]], ["Put", ["z"]]]);
  for (const made of answers.made) made.reply();
  await Promise.all(others);
});

test("one that is given up after it was sent is cancelled, and the others are not", async () => {
  const { answers, stop, given, others } = withOneToGiveUp();
  await turn();
  stop.abort();
  await assert.rejects(given, { code: "CANCELLED", mayHaveBeenDone: true });
  for (const made of answers.made) made.reply();
  await Promise.all(others);
});

test("what may take long, is short of time or has a trace goes by itself", async () => {
  const answers = new Answers();
  const slow = answers.put("slow");
  answers.made[0]?.reply([], true);
  await slow;
  assert.equal(await answers.put("slow"), undefined);
  assert.equal(await answers.put("x", { waits: true }), undefined);
  assert.equal(await answers.put("x", { timeoutMs: 900 }), undefined);
  assert.equal(await answers.put("x", { header: { traceparent: "00" } }), undefined);
  assert.equal(answers.made.length, 1);
});

test("a call holds 1,000 Puts, 10,000 messages and 4 MiB", async () => {
  for (const [how, most] of [[{}, 1000], [{ itemCount: 20 }, 500], [{ text: "x".repeat(60_000) }, 69]] as const) {
    const answers = new Answers();
    const all = Array.from({ length: 1002 }, (_, at) => answers.put(String(at), how));
    await turn();
    assert.equal(answers.made[1]?.sessions.length, most);
    for (const made of answers.made) {
      made.reply();
      await turn();
    }
    await Promise.all(all);
    assert.deepEqual(answers.made.flatMap(({ sessions }) => sessions).map(Number), Array.from({ length: 1002 }, (_, at) => at));
  }
});
