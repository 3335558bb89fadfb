// An agent of Vercel's AI SDK that is killed in the middle of a turn and goes on.
//
// usage: node ai_sdk_agent.mjs [TARGET]   where memoryd is; default: MEMORYD_TARGET, or localhost:50051
// needs: npm install memoryd ai
//
// The model is scripted. Put a real one in its place.

import { spawnSync } from "node:child_process";
import { jsonSchema, tool, ToolLoopAgent, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Client } from "memoryd";
import { memoryMiddleware } from "memoryd/ai-sdk";

const QUESTIONS = ["My name is Ann.", "Tea, please.", "What was my name, and what did I drink?"];
const [target, how] = process.argv.slice(2);

const brew = tool({
  description: "Brews a drink.",
  inputSchema: jsonSchema({ type: "object", properties: { drink: { type: "string" } }, required: ["drink"] }),
  execute: ({ drink }) => {
    if (how === "first") process.kill(process.pid, "SIGKILL");
    return `one pot of ${drink}`;
  },
});

function scripted({ prompt }) {
  const told = prompt.filter(({ role }) => role === "user").map(({ content }) => content[0].text);
  const got = prompt.filter(({ role }) => role === "tool").map(({ content }) => content[0].output.value);
  const asksForTea = told.at(-1) === QUESTIONS[1] && prompt.at(-1).role === "user";
  const text = ["Hello!", `Here: ${got.at(-1)}.`, `You said "${told[0]}", and had ${got.at(-1)}.`][told.length - 1];
  console.log(`  the model is asked with ${prompt.length} messages`);
  return {
    content: [asksForTea
      ? { type: "tool-call", toolCallId: "brew_1", toolName: "brew", input: '{"drink": "tea"}' }
      : { type: "text", text }],
    finishReason: { unified: asksForTea ? "tool-calls" : "stop" },
    usage: { inputTokens: {}, outputTokens: {} },
    warnings: [],
  };
}

async function main() {
  using memory = new Client(target || undefined);
  const model = new MockLanguageModelV4({ doGenerate: async (options) => scripted(options) });
  for (const [at, question] of QUESTIONS.entries()) {
    // The id of a message is the same when the process begins again: what was answered is not asked again.
    const middleware = memoryMiddleware(memory, { session: "waiter", turn: `question-${at}` });
    const agent = new ToolLoopAgent({ model: wrapLanguageModel({ model, middleware }), tools: { brew } });
    const { text } = await agent.generate({ prompt: question });
    console.log(`${question} -> ${text}`);
  }
}

if (how === undefined) {
  // The one who starts the agent, and starts it again.
  for (const run of ["first", "again"]) {
    const { status } = spawnSync(process.execPath, [process.argv[1], target ?? "", run], { stdio: "inherit" });
    process.exitCode = status ?? 1;
  }
} else {
  await main();
}
