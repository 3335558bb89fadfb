// A session of OpenAI's Agents SDK in memoryd.
//
//   const memory = new Client("localhost:50051");
//   const result = await run(agent, "What is 6 x 7?", { session: new MemorydSession("monday", memory) });

export { MemorydSession } from "./session.js";
export type { SessionOptions } from "./session.js";
