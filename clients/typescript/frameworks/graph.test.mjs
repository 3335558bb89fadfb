// Graphs whose checkpointer and store are in memoryd, on MEMORYD_TEST_TARGET.

import { randomUUID } from "node:crypto";
import { Annotation, Command, getStore, interrupt, MemorySaver, Send, START, StateGraph } from "@langchain/langgraph";
import { Client } from "memoryd";
import { MemorydSaver, MemorydStore } from "memoryd/langgraph";

const memory = new Client(process.env.MEMORYD_TEST_TARGET, { timeoutMs: 60_000 });
afterAll(() => memory.close());

const namespace = () => ["graphs", randomUUID()];
const at = (thread) => ({ configurable: { thread_id: thread } });

function builder() {
  const State = Annotation.Root({
    done: Annotation({ reducer: (all, more) => all.concat(more), default: () => [] }),
    large: Annotation(),
  });
  return new StateGraph(State)
    .addNode("fan", () => ({ done: ["fan"], large: "x".repeat(9000) }))
    .addNode("part", ({ of }) => ({ done: [`part ${of}`] }))
    .addNode("ask", () => ({ done: [`asked: ${interrupt("how?")}`] }))
    .addEdge(START, "fan")
    .addConditionalEdges("fan", () => [new Send("part", { of: 1 }), new Send("part", { of: 2 })], ["part"])
    .addEdge("part", "ask");
}

async function history(graph, config) {
  const found = [];
  for await (const one of graph.getStateHistory(config)) found.push([one.values, one.next, one.metadata]);
  return found;
}

test("a graph does what it does with LangGraph's own checkpointer", async () => {
  const ran = [];
  for (const checkpointer of [new MemorySaver(), new MemorydSaver(memory, { namespace: namespace() })]) {
    const graph = builder().compile({ checkpointer });
    const stopped = await graph.invoke({ done: ["begin"] }, at("t"));
    const ended = await graph.invoke(new Command({ resume: "so" }), at("t"));
    // A branch from the middle.
    const states = await Array.fromAsync(graph.getStateHistory(at("t")));
    const middle = states.find(({ next }) => next.includes("fan")).config;
    const again = await graph.invoke(null, middle);
    ran.push([stopped.done, ended, again.done, await history(graph, at("t"))]);
    expect(ended.done).toEqual(["begin", "fan", "part 1", "part 2", "asked: so"]);
  }
  expect(ran[1]).toEqual(ran[0]);
});

test("another process goes on where a graph was interrupted", async () => {
  const where = { namespace: namespace() };
  await builder().compile({ checkpointer: new MemorydSaver(memory, where) }).invoke({ done: [] }, at("t"));
  const graph = builder().compile({ checkpointer: new MemorydSaver(memory, where) });
  const ended = await graph.invoke(new Command({ resume: "so" }), at("t"));
  expect(ended.done.at(-1)).toBe("asked: so");
  expect(ended.large.length).toBe(9000);
});

test("nodes use the store of the graph", async () => {
  const store = new MemorydStore(memory, { namespace: namespace() });
  const State = Annotation.Root({ likes: Annotation() });
  const graph = new StateGraph(State)
    .addNode("learn", async () => {
      await getStore().put(["users", "ann"], "drink", { likes: "tea" });
      return {};
    })
    .addNode("recall", async () => ({ likes: (await getStore().search(["users"], { filter: { likes: "tea" } }))[0].value.likes }))
    .addEdge(START, "learn")
    .addEdge("learn", "recall")
    .compile({ store });
  expect(await graph.invoke({})).toEqual({ likes: "tea" });
  expect((await store.get(["users", "ann"], "drink")).value).toEqual({ likes: "tea" });
});
