// For Node, Deno and Bun: both clients, as ES modules and by require. MEMORYD_TEST_TARGET and MEMORYD_TEST_HTTP are the
// server's addresses.

import { createRequire } from "node:module";
import process from "node:process";
import { Client } from "memoryd";
import { Client as WebClient } from "memoryd/web";
import { round } from "./round.js";

const { MEMORYD_TEST_TARGET: target, MEMORYD_TEST_HTTP: http = "" } = process.env;
const { Client: Required } = createRequire(import.meta.url)("memoryd") as typeof import("memoryd");
for (const [way, client] of [
  ["gRPC", new Client(target)],
  ["gRPC, by require", new Required(target)],
  ["HTTP", new WebClient(http)],
] as const) {
  process.stdout.write(`${way}: ${await round(client)}; `);
  client.close();
}
