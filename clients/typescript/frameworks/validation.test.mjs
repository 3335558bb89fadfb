// LangGraph's own tests of a checkpointer, on MEMORYD_TEST_TARGET.

import { randomUUID } from "node:crypto";
import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import { Client } from "memoryd";
import { MemorydSaver } from "memoryd/langgraph";

const memory = new Client(process.env.MEMORYD_TEST_TARGET, { timeoutMs: 60_000 });
const initializer = {
  checkpointerName: "memoryd",
  createCheckpointer: () => new MemorydSaver(memory, { namespace: ["validation", randomUUID()] }),
};
validate(initializer);
deltaChannelHistoryTests(initializer);
