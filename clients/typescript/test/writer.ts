// Puts what it reads, as tests/clients/client_writer.cc does, for tests/clients/restarts.py.
//
// usage: writer.js --target=HOST:PORT --timeout=SECONDS
//
// stdin, to its end: a message a line, `WRITER SESSION TEXT`, separated by tabs. stdout: for every Put, once it is answered,
// `SESSION TEXT MESSAGE_ID REPLAYED`. Exits 1 when a Put fails.

import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { Client, message } from "memoryd";

const { values } = parseArgs({ options: { target: { type: "string" }, timeout: { type: "string" } } });
const client = new Client(values.target, { timeoutMs: 1000 * Number(values.timeout ?? 120) });
const writers = new Map<string, [string, string][]>();
for (const line of (await text(process.stdin)).split("\n")) {
  const [writer, session, said] = line.split("\t");
  if (writer === undefined || session === undefined || said === undefined) continue;
  const items = writers.get(writer) ?? [];
  items.push([session, said]);
  writers.set(writer, items);
}

async function write(items: readonly [string, string][]): Promise<void> {
  for (const [session, said] of items) {
    const { messageIds, replayed } = await client.put(session, [message("user", said)]);
    process.stdout.write(`${session}\t${said}\t${messageIds[0] ?? ""}\t${replayed ? 1 : 0}\n`);
  }
}

try {
  await Promise.all([...writers.values()].map(write));
} finally {
  client.close();
}
