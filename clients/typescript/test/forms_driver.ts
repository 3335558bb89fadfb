// The driver of tests/client_conformance/forms.py, which says what it reads and writes.

import { createInterface } from "node:readline";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { toAnthropic, toOpenAI } from "memoryd";
import type { ProviderMessage } from "memoryd";
import { MessageSchema } from "memoryd/wire";
import { stored } from "../dist/esm/forms.js";

interface Command {
  take?: ProviderMessage[];
  give?: string[];
  form?: "openai" | "anthropic";
}

for await (const line of createInterface({ input: process.stdin })) {
  const { take, give = [], form } = JSON.parse(line) as Command;
  let answer: unknown;
  if (take === undefined) {
    const messages = give.map((one) => fromBinary(MessageSchema, Buffer.from(one, "base64")));
    answer = form === "openai" ? toOpenAI(messages) : toAnthropic(messages);
  } else {
    answer = stored(take).map((one) => Buffer.from(toBinary(MessageSchema, one)).toString("base64"));
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
