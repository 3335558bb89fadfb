// A LangGraph agent that is killed in the middle and goes on, without doing anything twice.
//
// usage: node langgraph_agent.mjs [TARGET]    where memoryd is; default: MEMORYD_TARGET, or localhost:50051
// needs: npm install memoryd @langchain/langgraph @langchain/core

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { Client } from "memoryd";
import { MemorydSaver } from "memoryd/langgraph";

const [target, how] = process.argv.slice(2);
if (how === undefined) {
  // This process starts the agent, and starts it again.
  for (const run of ["first", "again"]) {
    const command = [fileURLToPath(import.meta.url), target ?? "", run];
    process.exitCode = spawnSync(process.execPath, command, { stdio: "inherit" }).status ?? 1;
  }
  process.exit();
}

const State = Annotation.Root({ done: Annotation({ reducer: (all, more) => all.concat(more), default: () => [] }) });

function work(name) {
  if (name === "brew" && how === "first") process.kill(process.pid, "SIGKILL");
  console.log(`now: ${name}`);
  return { done: [name] };
}

const builder = new StateGraph(State);
let before = START;
for (const name of ["boil", "brew", "pour"]) {
  builder.addNode(name, () => work(name)).addEdge(before, name);
  before = name;
}
const memory = new Client(target || undefined);
const graph = builder.compile({ checkpointer: new MemorydSaver(memory) });
const config = { configurable: { thread_id: "tea" }, durability: "sync" };
const { done } = await graph.invoke(how === "again" ? null : { done: [] }, config);
console.log(`done: ${done.join(", ")}`);
memory.close();
