// An agent of OpenAI's Agents SDK that is killed in the middle of a turn and goes on.
//
// usage: node openai_agents_agent.mjs [TARGET]   where memoryd is; default: MEMORYD_TARGET, or localhost:50051
// needs: npm install memoryd @openai/agents zod
//
// The model is scripted. Put a real one in its place.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Agent, run, setTracingDisabled, tool, Usage } from "@openai/agents";
import { assistantMessage, functionCall } from "@openai/agents/testing";
import { Client } from "memoryd";
import { MemorydSession } from "memoryd/openai-agents";
import { z } from "zod";

const [target, how] = process.argv.slice(2);
if (how === undefined) {
  // This process starts the agent, and starts it again.
  for (const run of ["first", "again"]) {
    const command = [fileURLToPath(import.meta.url), target ?? "", run];
    process.exitCode = spawnSync(process.execPath, command, { stdio: "inherit" }).status ?? 1;
  }
  process.exit();
}

const QUESTIONS = ["My name is Ann.", "Tea, please.", "What was my name, and what did I drink?"];

const brew = tool({
  name: "brew",
  description: "Makes a drink.",
  parameters: z.object({ drink: z.string() }),
  execute: ({ drink }) => {
    if (how === "first") process.kill(process.pid, "SIGKILL");
    return `one pot of ${drink}`;
  },
});

const model = {
  async getResponse({ input }) {
    const told = input.filter(({ role }) => role === "user").map(({ content }) => content);
    const got = input.filter(({ type }) => type === "function_call_result").map(({ output }) => output.text);
    let output;
    if (told.at(-1) === QUESTIONS[1] && input.at(-1).role === "user") {
      output = functionCall("brew", { drink: "tea" }, { callId: "brew_1" });
    } else {
      const text = [`Hello!`, `Here: ${got.at(-1)}.`][QUESTIONS.indexOf(told.at(-1))];
      output = assistantMessage(text ?? `You said "${told[0]}", and had ${got.at(-1)}.`);
    }
    return { output: [output], usage: new Usage() };
  },
  async *getStreamedResponse() {
    throw new Error("is not streamed");
  },
};

setTracingDisabled(true);
const agent = new Agent({ name: "waiter", model, tools: [brew] });
const memory = new Client(target || undefined);
const session = new MemorydSession("waiter", memory);
const items = await session.getItems();
// A turn that was cut begins again.
while (items.length > 0 && items.at(-1).role !== "assistant") {
  items.pop();
  await session.popItem();
}
for (const question of QUESTIONS.slice(items.filter(({ role }) => role === "user").length)) {
  const { finalOutput } = await run(agent, question, { session });
  console.log(`${question} -> ${finalOutput}`);
}
memory.close();
