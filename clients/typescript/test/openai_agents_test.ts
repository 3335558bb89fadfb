// The session of OpenAI's Agents SDK against a server, beside the SDK's own in memory.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { Agent, MemorySession, run, setTracingDisabled, tool } from "@openai/agents";
import type { AgentInputItem } from "@openai/agents";
import { assistantMessage, functionCall, ScriptedModel } from "@openai/agents/testing";
import { Client, fromOpenAI, MemorydError, message, toAnthropic, toOpenAI } from "memoryd";
import { MemorydSession } from "memoryd/openai-agents";
import type { Message } from "memoryd/wire";
import { z } from "zod";
import { Choices } from "./choices.js";
import { Python } from "./python.js";

const OPERATIONS = 150;
const PNG = "iVBORw0KGgo=";
const memory = new Client(process.env["MEMORYD_TEST_TARGET"], { timeoutMs: 60_000 });
const python = new Python();
setTracingDisabled(true);
after(async () => {
  memory.close();
  await python.close();
});

function session(id: string = randomUUID()): MemorydSession {
  return new MemorydSession(id, memory);
}

function items(...all: unknown[]): AgentInputItem[] {
  return all as AgentInputItem[];
}

// Items of every kind; every fourth call is answered late, twice or never.
class Teller {
  private readonly open: [string, string][] = [];
  private count = 0;

  constructor(private readonly choices: Choices) {}

  item(): unknown {
    const { choices } = this;
    const said = (): string => choices.of(["", "tea", "ü 🙂", "half \ud83d", "a\nb", "x".repeat(300)]);
    const called = (kind: string): string => {
      const id = `call_${++this.count}`;
      this.open.push([id, kind]);
      return id;
    };
    switch (choices.integer(0, 11)) {
      case 0:
        return { type: "message", role: "user", content: said() };
      case 1:
        return { role: choices.of(["user", "system"]), content: said() };
      case 2:
        return { type: "message", role: "user", content: choices.some([
          { type: "input_text", text: said() },
          { type: "input_image", image: `data:image/png;base64,${PNG}`, detail: "low" },
          { type: "input_image", image: { id: "file-1" } },
          { type: "input_file", file: `data:application/pdf;base64,${PNG}`, filename: "a.pdf" },
          { type: "input_file", file: { url: "https://a.example/a.pdf" } },
          { type: "audio", audio: PNG, format: "wav", transcript: null },
          { type: "input_of_next_year", value: [said()] },
        ], choices.integer(0, 4)) };
      case 3:
        return { id: `msg_${++this.count}`, type: "message", role: "assistant", status: "completed", content: [
          { type: "output_text", text: said(), providerData: { annotations: [] } },
          { type: "refusal", refusal: said() },
          { type: "image", image: PNG },
        ].slice(0, choices.integer(0, 3)) };
      case 4:
        return { id: "rs_1", type: "reasoning", content: [{ type: "input_text", text: said() }],
          rawContent: [{ type: "reasoning_text", text: said() }], providerData: { encrypted_content: PNG } };
      case 5:
        return { type: "function_call", callId: called("function"), name: choices.of(["a", "ü"]), status: "completed",
          arguments: choices.of(['{"city": "Lyon"}', "{", "", said()]), providerData: { id: "fc" } };
      case 6:
        return { type: "shell_call", callId: called("shell"), action: { commands: ["ls", said()], timeoutMs: 1e12 } };
      case 7:
        return { type: "computer_call", callId: called("computer"), status: "completed", action: { type: "wait" } };
      case 8:
        return choices.of<unknown>([
          { type: "hosted_tool_call", name: "web_search_call", status: "completed", output: said() },
          { type: "compaction", encrypted_content: PNG }, { type: "unknown", providerData: { a: [null] } },
          {}, null, 7, "text", [1], { type: "function_call" }, { role: 7 }, { role: "user", content: { $part: ["name"] } },
          { $part: [0, "text"] }, { role: "half \ud83d", content: [null, "x"] }, { type: "reasoning", content: "x" },
        ]);
      default:
        return this.answer(said);
    }
  }

  private answer(said: () => string): unknown {
    const { choices } = this;
    if (this.open.length === 0) this.open.push([`unknown_${++this.count}`, "function"]);
    const at = choices.integer(0, this.open.length - 1);
    const [callId, kind] = this.open[at] ?? ["", ""];
    if (choices.random() < 0.75) this.open.splice(at, 1);
    const status = choices.of(["completed", "incomplete"]);
    if (kind === "shell") {
      const outcome = { type: "exit", exitCode: 1 };
      return { type: "shell_call_output", callId, output: [{ stdout: said(), stderr: "", outcome }] };
    }
    if (kind === "computer") {
      return { type: "computer_call_result", callId, output: { type: "computer_screenshot", data: `data:image/png;base64,${PNG}` } };
    }
    const output = choices.of<unknown>([
      said(), { type: "text", text: said() }, { type: "image", image: { data: PNG, mediaType: "image/png" } },
      [{ type: "input_text", text: said() }, { type: "input_image", image: "https://a.example/a.png" },
        { type: "input_text", text: "b" }], [], { a: 1 }, { type: "file", file: { id: "file-2", filename: "b" } },
    ]);
    return { type: "function_call_result", name: "a", callId, status, output };
  }
}

test("the session does what the SDK's own does", async () => {
  const choices = new Choices(3);
  const teller = new Teller(choices);
  const [theirs, ours] = [new MemorySession(), session()];
  for (let count = 0; count < OPERATIONS; ++count) {
    const what = choices.random();
    if (what < 0.45) {
      const added = items(...Array.from({ length: choices.of([0, 1, 1, 2, 5]) }, () => teller.item()));
      await theirs.addItems(added);
      await ours.addItems(added);
    } else if (what < 0.7) {
      for (let times = choices.of([1, 1, 2, 6]); times > 0; --times) {
        assert.deepEqual(await ours.popItem(), await theirs.popItem());
      }
    } else if (what < 0.98) {
      const limit = choices.of([undefined, 0, 1, 2, 3, 5, 10, 100, -1]);
      assert.equal(JSON.stringify(await ours.getItems(limit)), JSON.stringify(await theirs.getItems(limit)));
    } else {
      await theirs.clearSession();
      await ours.clearSession();
    }
  }
  assert.equal(JSON.stringify(await ours.getItems()), JSON.stringify(await theirs.getItems()));
  assert.equal(await ours.getSessionId(), ours.sessionId);
});

test("a session that does not exist is empty", async () => {
  assert.deepEqual(await session().getItems(), []);
  assert.deepEqual(await session().getItems(3), []);
  assert.equal(await session().popItem(), undefined);
  await session().clearSession();
});

test("a run goes on with what the session has, and others read it", async () => {
  const ours = session();
  const weather = tool({
    name: "weather",
    description: "The weather of a city.",
    parameters: z.object({ city: z.string() }),
    execute: ({ city }) => `sun in ${city}`,
  });
  const model = new ScriptedModel([
    [assistantMessage("I look."), functionCall("weather", { city: "Lyon" }, { callId: "c1" }),
      functionCall("weather", { city: "Rome" }, { callId: "c2" })],
    [assistantMessage("Sun.")],
    [assistantMessage("You asked about the weather.")],
  ]);
  const agent = new Agent({ name: "a", model, tools: [weather] });
  assert.equal((await run(agent, "Weather?", { session: ours })).finalOutput, "Sun.");
  const again = await run(agent, "What did I ask?", { session: session(ours.sessionId) });
  assert.equal(again.finalOutput, "You asked about the weather.");
  const kinds = (await ours.getItems()).map((one) => ("role" in one ? one.role : one.type));
  assert.deepEqual(kinds, ["user", "assistant", "function_call", "function_call", "function_call_result",
    "function_call_result", "assistant", "user", "assistant"]);
  const stored: Message[] = [];
  for await (const one of memory.getAll(ours.sessionId)) stored.push(one);
  const openai = toOpenAI(stored) as { role: string; tool_calls?: { id: string }[] }[];
  assert.deepEqual(openai.map(({ role }) => role), ["user", "assistant", "tool", "tool", "assistant", "user", "assistant"]);
  assert.deepEqual(openai[1]?.tool_calls?.map(({ id }) => id), ["c1", "c2"]);
  assert.deepEqual(toAnthropic(stored).messages.map(({ role }) => role),
    ["user", "assistant", "user", "assistant", "user", "assistant"]);
  assert.match(JSON.stringify((await memory.query(ours.sessionId, "Lyon")).results, (_, one: unknown) =>
    typeof one === "bigint" ? String(one) : one), /sun in Lyon/);
});

test("items of the Agents SDK for Python are read, and the reverse", async () => {
  const ours = session();
  await python.call("session_add", ours.sessionId, [
    { role: "user", content: "Weather?" },
    { id: "rs", type: "reasoning", summary: [{ type: "summary_text", text: "hm" }] },
    { id: "msg", type: "message", role: "assistant", status: "completed",
      content: [{ type: "output_text", text: "I look.", annotations: [] }] },
    { type: "function_call", call_id: "c1", name: "weather", arguments: '{"city": "Lyon"}', id: "fc", status: "completed" },
    { type: "function_call_output", call_id: "c1", output: "sun" },
    { role: "user", content: [{ type: "input_text", text: "This?" },
      { type: "input_image", image_url: `data:image/png;base64,${PNG}`, detail: "auto" }] },
  ]);
  const ofPython = [
    { type: "message", role: "user", content: "Weather?" },
    { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: "I look." }] },
    { type: "function_call", callId: "c1", name: "weather", status: "completed", arguments: '{"city": "Lyon"}' },
    { type: "function_call_result", name: "weather", callId: "c1", status: "completed", output: { type: "text", text: "sun" } },
    { type: "message", role: "user", content: [{ type: "input_text", text: "This?" },
      { type: "input_image", image: `data:image/png;base64,${PNG}`, detail: "auto" }] },
  ];
  assert.deepEqual(await ours.getItems(), ofPython);
  const ofJs = items(
    { type: "message", role: "user", content: "And Rome?" },
    { type: "reasoning", content: [{ type: "input_text", text: "hm" }] },
    { type: "function_call", callId: "c2", name: "weather", status: "completed", arguments: '{"city":"Rome"}' },
    { type: "function_call_result", name: "weather", callId: "c2", status: "completed", output: { type: "text", text: "rain" } },
    { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: "Rain." }] },
  );
  await ours.addItems(ofJs);
  assert.deepEqual(await ours.getItems(), [...ofPython, ...ofJs]);
  const read = (await python.call("session_items", ours.sessionId, null)) as Record<string, unknown>[];
  assert.deepEqual(read.slice(6), [
    { role: "user", content: "And Rome?" },
    { type: "function_call", call_id: "c2", name: "weather", arguments: '{"city":"Rome"}' },
    { type: "function_call_output", call_id: "c2", output: "rain" },
    { role: "assistant", content: "Rain." },
  ]);
  // Whoever pops takes what the other has stored.
  assert.deepEqual(await python.call("session_pop", ours.sessionId), { role: "assistant", content: "Rain." });
  assert.deepEqual(await python.call("session_pop", ours.sessionId), { type: "function_call_output", call_id: "c2", output: "rain" });
  assert.deepEqual(await ours.popItem(), ofJs[2]);
  // The reasoning goes with it: it says nothing to a Python run, and stays here.
  assert.deepEqual(await ours.popItem(), ofJs[1]);
  assert.deepEqual(await ours.popItem(), ofJs[0]);
  assert.deepEqual(await ours.popItem(), ofPython.at(-1));
  assert.equal(((await python.call("session_items", ours.sessionId, 1)) as unknown[]).length, 1);
});

test("messages of other clients are items", async () => {
  const call = { id: "c1", type: "function", function: { name: "w", arguments: "{}" } };
  const calling = { role: "assistant", content: null, tool_calls: [call] };
  const answering = { role: "tool", tool_call_id: "c1", content: "sun" };
  const ours = session();
  await memory.put(ours.sessionId, [
    message("system", "Be brief."),
    { role: "user", content: "Weather?" },
    fromOpenAI(calling),
    fromOpenAI(answering),
  ]);
  assert.deepEqual(await ours.getItems(), [
    { type: "message", role: "system", content: "Be brief." },
    { type: "message", role: "user", content: "Weather?" },
    { type: "function_call", callId: "c1", name: "w", status: "completed", arguments: "{}" },
    { type: "function_call_result", name: "w", callId: "c1", status: "completed", output: { type: "text", text: "sun" } },
  ]);
});

test("of several callers of popItem each gets another item", async () => {
  const ours = session();
  const added = Array.from({ length: 8 }, (_, at) => ({ type: "message", role: "user", content: String(at) }));
  await ours.addItems(items(...added));
  const popped = await Promise.all(added.map(() => ours.popItem()));
  assert.deepEqual(popped.map((one) => JSON.stringify(one)).sort(), added.map((one) => JSON.stringify(one)));
  assert.equal(await ours.popItem(), undefined);
});

test("of items of which one is refused none stays", async () => {
  const ours = session();
  const last = { type: "message", role: "user", content: "x" };
  const large = { type: "unknown", providerData: { large: "x".repeat(1 << 20) } };
  await assert.rejects(ours.addItems(items(last, { a: 1n })), TypeError);
  await assert.rejects(ours.addItems(items(last, { a: new Uint8Array(1) })), /Give bytes as a text in base64/);
  const call = functionCall("f", {}, { callId: "c" });
  await ours.addItems(items(last, call));
  // Takes 4 MiB in a request, and refuses the second one.
  let requests = 0;
  const narrow = new Proxy(memory, {
    get: (of, name) => {
      if (name === "serverInfo") return () => Promise.resolve({ limits: { requestBytes: BigInt(5 << 20) } });
      if (name !== "put") return of[name as keyof Client] as unknown;
      return async (...given: Parameters<Client["put"]>) => {
        if (++requests === 2) throw new MemorydError("RESOURCE_EXHAUSTED", "full", "TENANT_BYTES");
        return of.put(...given);
      };
    },
  });
  const answer = { type: "function_call_result", name: "f", callId: "c", status: "completed", output: "x" };
  const added = new MemorydSession(ours.sessionId, narrow).addItems(items(answer, large, large, large, large));
  await assert.rejects(added, { reason: "TENANT_BYTES" });
  assert.deepEqual((await ours.getItems()).map(({ type }) => type), ["message", "function_call"]);
});

test("a session that the object creates is the subject's", async () => {
  const ours = new MemorydSession(randomUUID(), memory, { subject: "ann" });
  await ours.addItems(items({ role: "user", content: "hi" }));
  await ours.addItems(items({ role: "user", content: "again" }));
  assert.equal((await memory.getSession(ours.sessionId)).config?.subject, "ann");
});
