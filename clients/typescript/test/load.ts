// Calls without a pause, for tests/benchmark/clients.py. Prints {"calls": N, "seconds": S}.
//
// usage: load.js --target=HOST:PORT --method=put|get --outstanding=N --seconds=N --prefix=TEXT --sessions=N
//                --message_bytes=N

import { parseArgs } from "node:util";
import { Client, message } from "memoryd";

const option = { type: "string", default: "" } as const;
const { values } = parseArgs({
  options: {
    target: option,
    method: option,
    outstanding: option,
    seconds: option,
    prefix: option,
    sessions: option,
    message_bytes: option,
  },
});
const client = new Client(values.target);
const said = [message("user", "tea ".repeat(Number(values.message_bytes)).slice(0, Number(values.message_bytes)))];
await client.put(`${values.prefix}-0`, said);
const begin = performance.now();
const end = begin + 1000 * Number(values.seconds);
let calls = 0;

async function call(): Promise<void> {
  while (performance.now() < end) {
    const session = `${values.prefix}-${calls++ % Number(values.sessions)}`;
    await (values.method === "get" ? client.get(session) : client.put(session, said));
  }
}

try {
  await Promise.all(Array.from({ length: Number(values.outstanding) }, call));
  console.log(JSON.stringify({ calls, seconds: (performance.now() - begin) / 1000 }));
} finally {
  client.close();
}
