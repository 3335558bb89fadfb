// The AI SDK's own functions and mock of a model, with a server. MEMORYD_TEST_TARGET is its address.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { after, test } from "node:test";
import { promisify } from "node:util";
import type { LanguageModelV4Content, LanguageModelV4Message, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { ModelMessage } from "ai";
import { APICallError, generateText, isStepCount, jsonSchema, simulateReadableStream, streamText, tool, ToolLoopAgent, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Client, content, hitText, toAnthropic, toOpenAI } from "memoryd";
import { fromModelMessage, memoryMiddleware, memoryTools, storeTurn, toModelMessages } from "memoryd/ai-sdk";
import type { MemoryOptions } from "memoryd/ai-sdk";
import { InsertMethod } from "memoryd/wire";

const memory = new Client(process.env["MEMORYD_TEST_TARGET"]);
after(() => {
  memory.close();
});

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined },
};

const LYON = { name: "home", kind: "static", content: [{ kind: { case: "text" as const, value: "Ann lives in Lyon." } }] };

type Answer = LanguageModelV4Content[] | Error;
const say = (text: string): Answer => [{ type: "text", text }];
const call = (id: string, input: object): Answer => [
  { type: "text", text: "Let me see." },
  { type: "tool-call", toolCallId: id, toolName: "multiply", input: JSON.stringify(input) },
];

function partsOf(content: LanguageModelV4Content[]): LanguageModelV4StreamPart[] {
  const parts = content.flatMap((one, at): LanguageModelV4StreamPart[] => {
    const id = String(at);
    if (one.type !== "text") return [one as LanguageModelV4StreamPart];
    const pieces = one.text.match(/.{1,3}/gs) ?? [];
    return [
      { type: "text-start", id },
      ...pieces.map((delta): LanguageModelV4StreamPart => ({ type: "text-delta", id, delta })),
      { type: "text-end", id },
    ];
  });
  return [{ type: "stream-start", warnings: [] }, ...parts, { type: "finish", finishReason: reasonOf(content), usage: USAGE }];
}

function reasonOf(content: LanguageModelV4Content[]): { unified: "tool-calls" | "stop"; raw: undefined } {
  return { unified: content.some(({ type }) => type === "tool-call") ? "tool-calls" : "stop", raw: undefined };
}

// A model that gives these answers, one after the other.
function modelOf(...answers: Answer[]): MockLanguageModelV4 {
  const left = [...answers];
  const next = (): LanguageModelV4Content[] => {
    const answer = left.shift() ?? assert.fail("the model is asked too often");
    if (answer instanceof Error) throw answer;
    return answer;
  };
  return new MockLanguageModelV4({
    doGenerate: () => {
      const content = next();
      return Promise.resolve({ content, finishReason: reasonOf(content), usage: USAGE, warnings: [] });
    },
    doStream: () => Promise.resolve({ stream: simulateReadableStream({ chunks: partsOf(next()), chunkDelayInMs: null, initialDelayInMs: null }) }),
  });
}

function withMemory(model: MockLanguageModelV4, options: MemoryOptions): ReturnType<typeof wrapLanguageModel> {
  return wrapLanguageModel({ model, middleware: memoryMiddleware(memory, options) });
}

function overloaded(): Error {
  return new APICallError({ message: "overloaded", url: "", requestBodyValues: {}, statusCode: 503, isRetryable: true,
    responseHeaders: { "retry-after-ms": "1" } });
}

const multiply = tool({
  inputSchema: jsonSchema<{ a: number; b: number }>({ type: "object", properties: { a: { type: "number" }, b: { type: "number" } } }),
  execute: ({ a, b }) => ({ product: a * b }),
});

async function stored(session: string): Promise<ModelMessage[]> {
  const messages = [];
  for await (const one of memory.getAll(session)) messages.push(one);
  return plain(toModelMessages(messages));
}

function plain<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

const user = (text: string): ModelMessage => ({ role: "user", content: [{ type: "text", text }] });
const assistant = (text: string): ModelMessage => ({ role: "assistant", content: [{ type: "text", text }] });
const textsOf = (prompt: readonly LanguageModelV4Message[]): string[] =>
  prompt.map(({ role, content }) => `${role}: ${typeof content === "string" ? content : content.map((one) => ("text" in one ? one.text : one.type)).join("|")}`);

const MULTIPLIED: ModelMessage[] = [
  user("6 x 7?"),
  { role: "assistant", content: [{ type: "text", text: "Let me see." }, { type: "tool-call", toolCallId: "c1", toolName: "multiply", input: { a: 6, b: 7 } }] },
  { role: "tool", content: [{ type: "tool-result", toolCallId: "c1", toolName: "multiply", output: { type: "json", value: { product: 42 } } }] },
  assistant("42."),
];

for (const way of ["generateText", "streamText"] as const) {
  // What a turn comes to, and how often the model was asked for it.
  const ask = async (options: Parameters<typeof generateText>[0]): Promise<string> => {
    if (way === "generateText") return (await generateText(options)).text;
    let failure: unknown;
    const result = streamText({ ...(options as Parameters<typeof streamText>[0]), onError: ({ error }) => void (failure = error) });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    if (failure !== undefined) throw failure as Error;
    return text;
  };

  test(`${way}: a conversation goes on from what is stored`, async () => {
    const session = randomUUID();
    const first = withMemory(modelOf(say("Hello, Ann.")), { session });
    assert.equal(await ask({ model: first, prompt: "I am Ann." }), "Hello, Ann.");
    const second = modelOf(say("Ann."));
    await ask({ model: withMemory(second, { session }), instructions: "Be brief.", prompt: "Who am I?" });
    const [asked] = way === "generateText" ? second.doGenerateCalls : second.doStreamCalls;
    assert.deepEqual(textsOf(asked?.prompt ?? []), ["system: Be brief.", "user: I am Ann.", "assistant: Hello, Ann.", "user: Who am I?"]);
    assert.deepEqual(await stored(session), [user("I am Ann."), assistant("Hello, Ann."), user("Who am I?"), assistant("Ann.")]);
  });

  test(`${way}: a page that sends all messages stores none twice`, async () => {
    const session = randomUUID();
    const messages: ModelMessage[] = [];
    for (const [at, said] of ["one", "two", "three"].entries()) {
      messages.push({ role: "user", content: said });
      const model = modelOf(say(`${said}!`));
      const text = await ask({ model: withMemory(model, { session, turn: `m${at}` }), messages });
      messages.push({ role: "assistant", content: text });
      const [asked] = way === "generateText" ? model.doGenerateCalls : model.doStreamCalls;
      assert.equal(asked?.prompt.length, 2 * at + 1);
    }
    assert.equal((await stored(session)).length, 6);
  });

  test(`${way}: the SDK's retries store nothing twice`, async () => {
    for (const turn of [undefined, "t1"]) {
      const session = randomUUID();
      const model = withMemory(modelOf(overloaded(), overloaded(), say("Yes.")), { session, turn });
      await ask({ model, prompt: "Still there?", maxRetries: 2 });
      assert.deepEqual(await stored(session), [user("Still there?"), assistant("Yes.")]);
    }
  });

  test(`${way}: steps with tools are stored as they happen`, async () => {
    for (const turn of [undefined, "t1"]) {
      const session = randomUUID();
      const seen: number[] = [];
      const watched = { ...multiply, execute: async ({ a, b }: { a: number; b: number }) => {
        seen.push((await stored(session)).length);
        return { product: a * b };
      } };
      const model = withMemory(modelOf(call("c1", { a: 6, b: 7 }), say("42.")), { session, turn });
      await ask({ model, prompt: "6 x 7?", tools: { multiply: watched }, stopWhen: isStepCount(5) });
      assert.deepEqual(await stored(session), MULTIPLIED);
      // The call was stored before its tool ran.
      assert.deepEqual(seen, [2]);
    }
  });

  test(`${way}: a turn that is begun again gets what was answered`, async () => {
    const session = randomUUID();
    const options = { session, turn: "t1" };
    let runs = 0;
    const tools = { multiply: { ...multiply, execute: ({ a, b }: { a: number; b: number }) => ({ product: a * b, runs: ++runs }) } };
    const broken = modelOf(call("c1", { a: 6, b: 7 }), new Error("the process ends here"));
    const given = { prompt: "6 x 7?", tools, stopWhen: isStepCount(5), maxRetries: 0 };
    await assert.rejects(ask({ model: withMemory(broken, options), ...given }));
    const model = modelOf(say("42."));
    assert.match(await ask({ model: withMemory(model, options), ...given }), /42\./);
    const [asked] = way === "generateText" ? model.doGenerateCalls : model.doStreamCalls;
    // What the tool said first is what counts.
    assert.match(JSON.stringify(asked?.prompt), /"runs":1/);
    const nobody = modelOf();
    assert.match(await ask({ model: withMemory(nobody, options), ...given }), /42\./);
    const messages = await stored(session);
    assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);
    assert.deepEqual(messages[3], assistant("42."));
  });

  test(`${way}: two processes of one turn store it once`, async () => {
    const session = randomUUID();
    const options = { session, turn: "t1" };
    await Promise.all([1, 2, 3].map((n) => ask({ model: withMemory(modelOf(say(`answer ${n}`)), options), prompt: "Hi" })));
    const messages = await stored(session);
    assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant"]);
  });

  test(`${way}: what fails is not taken for an answer`, async () => {
    const session = randomUUID();
    await assert.rejects(ask({ model: withMemory(modelOf(new Error("no")), { session }), prompt: "Hi", maxRetries: 0 }));
    assert.deepEqual(await stored(session), [user("Hi")]);
    await assert.rejects(ask({ model: withMemory(modelOf(say("x")), {}), prompt: "Hi" }), /session/);
    // The same message, asked anew, is the same turn.
    await ask({ model: withMemory(modelOf(say("Hello.")), { session }), prompt: "Hi" });
    // Once it is answered, it is another.
    await ask({ model: withMemory(modelOf(say("Hello again.")), { session }), prompt: "Hi" });
    assert.deepEqual(await stored(session), [user("Hi"), assistant("Hello."), user("Hi"), assistant("Hello again.")]);
  });

  test(`${way}: a message that was not answered is not stored again with the next`, async () => {
    for (const ids of [[undefined, undefined], ["m1", "m2"]] as const) {
      const session = randomUUID();
      const messages: ModelMessage[] = [user("6 x 7?")];
      await assert.rejects(ask({ model: withMemory(modelOf(new Error("no")), { session, turn: ids[0] }), messages, maxRetries: 0 }));
      messages.push(user("Are you there?"));
      const given = { messages, tools: { multiply }, stopWhen: isStepCount(5), maxRetries: 0 };
      const broken = modelOf(call("c1", { a: 6, b: 7 }), new Error("no"));
      await assert.rejects(ask({ model: withMemory(broken, { session, turn: ids[1] }), ...given }));
      if (ids[1] === undefined) continue; // It can't be told from a new turn.
      assert.match(await ask({ model: withMemory(modelOf(say("42.")), { session, turn: ids[1] }), ...given }), /42/);
      await storeTurn(memory, { session, turn: ids[1], messages })({ responseMessages: MULTIPLIED.slice(1) });
      assert.deepEqual(await stored(session), [user("6 x 7?"), user("Are you there?"), ...MULTIPLIED.slice(1)]);
    }
  });

  test(`${way}: what a user said elsewhere is known`, async () => {
    const ann = randomUUID();
    await memory.remember(ann, "I drink tea, never coffee.");
    for (const [history, insertMethod] of [["memory", InsertMethod.SYSTEM], ["prompt", InsertMethod.SYSTEM], ["prompt", InsertMethod.USER]] as const) {
      const model = modelOf(say("Tea, then."));
      const wrapped = withMemory(model, { history, config: { insertMethod, blocks: [LYON] } });
      const providerOptions = { memoryd: { user: ann, session: `${ann}/${way}/${history}/${insertMethod}`, turn: "t1" } };
      const messages: ModelMessage[] = [user("Hi"), assistant("Hello."), user("Tea or coffee: what do I drink?")];
      await ask({ model: wrapped, instructions: "Be brief.", messages, providerOptions });
      const [asked] = way === "generateText" ? model.doGenerateCalls : model.doStreamCalls;
      const texts = textsOf(asked?.prompt ?? []);
      assert.match(texts.join("\n"), /never coffee/, history);
      assert.match(texts.join("\n"), /Ann lives in Lyon/, history);
      assert.ok(texts[0]?.startsWith("system: Be brief."));
      assert.equal(texts.includes("user: Hi"), history === "prompt");
      assert.match(texts.at(-1) ?? "", /what do I drink/);
    }
    await memory.eraseSubject(ann);
  });

  test(`${way}: memory of the conversation is added to a prompt`, async () => {
    const session = randomUUID();
    await memory.put(session, [], { contents: [content("The cello is in the attic.")] });
    const model = modelOf(say("In the attic."));
    const messages: ModelMessage[] = [user("Hi"), assistant("Hello."), user("Where is the cello?")];
    await ask({ model: withMemory(model, { session, history: "prompt" }), messages });
    const [asked] = way === "generateText" ? model.doGenerateCalls : model.doStreamCalls;
    const texts = textsOf(asked?.prompt ?? []);
    assert.match(texts[0] ?? "", /^system: .*in the attic/s);
    assert.deepEqual(texts.slice(1), ["user: Hi", "assistant: Hello.", "user: Where is the cello?"]);
    assert.equal((await stored(session)).length, 2);
  });

  test(`${way}: a call that is given up ends as the SDK has it`, async () => {
    const stop = new AbortController();
    stop.abort(new Error("enough"));
    const given = { model: withMemory(modelOf(say("x")), { session: randomUUID() }), prompt: "Hi", abortSignal: stop.signal };
    if (way === "generateText") await assert.rejects(generateText(given), /enough/);
    else assert.equal(await ask(given), "");
  });

  test(`${way}: onEnd stores the turn, with a middleware what that one does not see`, async () => {
    for (const middleware of [false, true]) {
      const session = randomUUID();
      const options = { session, turn: "t1" };
      const model = modelOf(call("c1", { a: 6, b: 7 }));
      const onEnd = storeTurn(memory, { ...options, messages: "6 x 7?" });
      const given = { prompt: "6 x 7?", tools: { multiply }, stopWhen: isStepCount(1), onEnd };
      await ask({ model: middleware ? withMemory(model, options) : model, ...given });
      assert.deepEqual(await stored(session), MULTIPLIED.slice(0, 3));
      // Whoever tells it again tells nothing new.
      await onEnd({ responseMessages: MULTIPLIED.slice(1, 3) });
      assert.equal((await stored(session)).length, 3);
    }
  });
}

test("a stream that breaks is not stored, and none that is given up", async () => {
  const session = randomUUID();
  const chunks: LanguageModelV4StreamPart[] = [...partsOf([{ type: "text", text: "Half an ans" }]).slice(0, -2), { type: "error", error: new Error("cut") }];
  const broken = new MockLanguageModelV4({ doStream: () => Promise.resolve({ stream: simulateReadableStream({ chunks }) }) });
  const result = streamText({ model: withMemory(broken, { session }), prompt: "Hi", onError: () => undefined });
  await result.consumeStream();
  assert.deepEqual(await stored(session), [user("Hi")]);
});

test("agents have memory, and its tools", async () => {
  const ann = randomUUID();
  const asks = (toolName: string, input: object): Answer => [{ type: "tool-call", toolCallId: `c-${toolName}`, toolName, input: JSON.stringify(input) }];
  const agent = new ToolLoopAgent({
    model: modelOf(asks("remember", { text: "Ann plays the cello." }), asks("recall", { query: "Which instrument?" }), say("The cello.")),
    tools: { ...memoryTools(memory, { user: ann }) },
  });
  const { text, steps } = await agent.generate({ prompt: "I play the cello. Which instrument was it?" });
  assert.equal(text, "The cello.");
  const recalled = steps[1]?.toolResults[0]?.output as { text: string; time?: string }[];
  assert.equal(recalled[0]?.text, "Ann plays the cello.");
  assert.match(recalled[0].time ?? "", /^\d{4}-/);
  // The same call, executed again.
  const { remember } = memoryTools(memory, { user: ann });
  const context = { toolCallId: "c-remember", messages: [] } as unknown as Parameters<NonNullable<typeof remember.execute>>[1];
  await remember.execute?.({ text: "Ann plays the cello." }, context);
  const { results } = await memory.recall(ann, "cello");
  assert.deepEqual(results.map(hitText), ["Ann plays the cello."]);
  await memory.eraseSubject(ann);
});

const ODD: ModelMessage[] = [
  ...MULTIPLIED,
  { role: "system", content: "Be brief." },
  { role: "user", content: [{ type: "text", text: "" }, { type: "text", text: "a\ud83d lone half" }] },
  { role: "user", content: [{ type: "text", text: "x", providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } } }], providerOptions: { a: { b: 1 } } },
  { role: "user", content: [
    { type: "file", data: { type: "data", data: "AAEC" }, mediaType: "image/png", filename: "a.png" },
    { type: "file", data: { type: "url", url: new URL("https://a.example/b.pdf") }, mediaType: "application/pdf" },
    { type: "file", data: { type: "text", text: "inline" }, mediaType: "text/plain" },
    { type: "file", data: { type: "reference", reference: { openai: "file-1" } }, mediaType: "audio" },
  ] },
  { role: "assistant", content: [
    { type: "reasoning", text: "6 x 7", providerOptions: { anthropic: { signature: "s" } } },
    { type: "custom", kind: "openai.compaction", providerOptions: { openai: { id: "x" } } },
    { type: "reasoning-file", data: { type: "data", data: "AAEC" }, mediaType: "image/png" },
    { type: "tool-call", toolCallId: "c", toolName: "search", input: { q: [1, { b: null }] }, providerExecuted: true },
    { type: "tool-result", toolCallId: "c", toolName: "search", output: { type: "error-json", value: { no: 1.5 } } },
  ] },
  { role: "tool", content: [
    { type: "tool-result", toolCallId: "d", toolName: "t", output: { type: "content", value: [
      { type: "text", text: "a" }, { type: "file", data: { type: "data", data: "AAEC" }, mediaType: "image/png" }, { type: "text", text: "b" }] } },
    { type: "tool-result", toolCallId: "e", toolName: "t", output: { type: "execution-denied", reason: "no" } },
    { type: "tool-result", toolCallId: "f", toolName: "t", output: { type: "text", value: "x".repeat(1_200_000) } },
    { type: "tool-approval-response", approvalId: "a", approved: true },
  ] },
];

for (const [at, given] of ODD.entries()) {
  test(`message ${at} comes back as it was put`, async () => {
    const session = randomUUID();
    await memory.put(session, [fromModelMessage(given)]);
    const [found] = await stored(session);
    assert.deepEqual(found, plain(given));
  });
}

test("bytes, short forms and images are taken in the SDK's newest form", () => {
  const given: ModelMessage[] = [
    { role: "user", content: "hi" },
    { role: "user", content: [{ type: "image", image: new Uint8Array([0, 1, 2]), mediaType: "image/png" }] },
    { role: "user", content: [{ type: "file", data: new URL("https://a.example/b"), mediaType: "text/html" }] },
  ];
  assert.deepEqual(toModelMessages(given.map((one) => fromModelMessage(one))), [
    user("hi"),
    { role: "user", content: [{ type: "file", data: { type: "data", data: "AAEC" }, mediaType: "image/png" }] },
    { role: "user", content: [{ type: "file", data: { type: "url", url: new URL("https://a.example/b") }, mediaType: "text/html" }] },
  ]);
});

test("a conversation is read in other forms, and theirs in the SDK's", () => {
  const messages = MULTIPLIED.map((one) => fromModelMessage(one));
  assert.deepEqual(toOpenAI(messages), [
    { role: "user", content: "6 x 7?" },
    { role: "assistant", content: "Let me see.", tool_calls: [{ id: "c1", type: "function", function: { name: "multiply", arguments: '{"a":6,"b":7}' } }] },
    { role: "tool", tool_call_id: "c1", content: '{"product":42}' },
    { role: "assistant", content: "42." },
  ]);
  assert.deepEqual(toAnthropic(messages).messages.map(({ role }) => role), ["user", "assistant", "user", "assistant"]);
});

test("what others have put is read in the SDK's form", async () => {
  const session = randomUUID();
  await memory.put(session, [
    { role: "system", content: "Be brief." },
    { role: "user", content: [{ type: "text", text: "And this?" }, { type: "image_url", image_url: { url: "data:image/png;base64,AAEC" } }] },
    { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: '{"at":1}' } }] } as { role: string },
    { role: "tool", tool_call_id: "c1", content: "A cat." } as { role: string },
    { role: "assistant", content: [{ type: "thinking", thinking: "a cat", signature: "s" }, { type: "text", text: "A cat." }] },
  ]);
  assert.deepEqual(await stored(session), [
    { role: "system", content: "Be brief." },
    { role: "user", content: [{ type: "text", text: "And this?" }, { type: "file", data: { type: "data", data: "AAEC" }, mediaType: "image/png" }] },
    { role: "assistant", content: [{ type: "tool-call", toolCallId: "c1", toolName: "look", input: { at: 1 } }] },
    { role: "tool", content: [{ type: "tool-result", toolCallId: "c1", toolName: "look", output: { type: "text", value: "A cat." } }] },
    { role: "assistant", content: [{ type: "reasoning", text: "a cat", providerOptions: { anthropic: { signature: "s" } } }, { type: "text", text: "A cat." }] },
  ]);
});

test("the example is killed in the middle of a turn, and goes on", async () => {
  const example = `${import.meta.dirname}/../examples/ai_sdk_agent.mjs`;
  const { stdout } = await promisify(execFile)(process.execPath, [example, process.env["MEMORYD_TEST_TARGET"] ?? ""]);
  assert.equal(stdout, [
    "  the model is asked with 1 messages",
    "My name is Ann. -> Hello!",
    "  the model is asked with 3 messages",
    // Killed in its tool. Again: what was answered comes from memory.
    "My name is Ann. -> Hello!",
    "  the model is asked with 5 messages",
    "Tea, please. -> Here: one pot of tea.",
    "  the model is asked with 7 messages",
    'What was my name, and what did I drink? -> You said "My name is Ann.", and had one pot of tea.',
    "",
  ].join("\n"));
  const messages = await stored("waiter");
  assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant", "user", "assistant", "tool", "assistant", "user", "assistant"]);
});

test("the program of AI_SDK.md runs, and the user's memory reaches the model", async () => {
  const page = readFileSync(`${import.meta.dirname}/../AI_SDK.md`, "utf8");
  const program = /```js\n(.*?)```/s.exec(page)?.[1] ?? assert.fail();
  // The model says what it was told.
  const model = `import { MockLanguageModelV4 } from "ai/test";
    const openai = () => new MockLanguageModelV4({ doGenerate: async ({ prompt }) => ({
      content: [{ type: "text", text: JSON.stringify(prompt) }], finishReason: { unified: "stop" },
      usage: { inputTokens: {}, outputTokens: {} }, warnings: [] }) });`;
  const file = `${import.meta.dirname}/page_program.mjs`;
  const target = process.env["MEMORYD_TEST_TARGET"] ?? "";
  writeFileSync(file, program.replace('import { openai } from "@ai-sdk/openai";', model).replace("localhost:50051", target));
  const { stdout } = await promisify(execFile)(process.execPath, [file]);
  assert.match(stdout, /I drink tea, never coffee\..*What do I drink, tea or coffee\?/s);
});
