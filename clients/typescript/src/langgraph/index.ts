// LangGraph's checkpointer and store in memoryd.
//
//   const memory = new Client("localhost:50051");
//   const graph = builder.compile({ checkpointer: new MemorydSaver(memory), store: new MemorydStore(memory) });
//
// Both keep what they store as items.

export { MemorydSaver } from "./saver.js";
export type { SaverOptions } from "./saver.js";
export { MemorydStore } from "./store.js";
export type { StoreOptions } from "./store.js";
