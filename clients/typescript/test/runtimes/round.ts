// What a client does on every runtime, with nothing but what the web has.

import type { MemoryClient } from "memoryd/web";
import { content, hitText, itemValue, message } from "memoryd/web";
import { MessageOrder, SessionChange } from "memoryd/wire";

// Numbers of JavaScript keep no more than this.
const LARGEST_NUMBER = 2n ** 53n;

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(`does not hold: ${what}`);
}

// Code and reason, whichever kind of modules the client is from: each kind has a class of its own.
function codeOf(error: unknown): string {
  const { name, code = "", reason = "" } = error as { name?: string; code?: string; reason?: string };
  return name === "MemorydError" ? `${code} ${reason}`.trim() : "";
}

async function listed<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** Makes calls of all kinds. Throws where one does otherwise than it should. Returns how long each took. */
export async function round(client: MemoryClient): Promise<string> {
  const id = globalThis.crypto.randomUUID();
  const took: string[] = [];
  for (const step of [session, items, users, watch, failures, large]) {
    const begin = performance.now();
    await step(client, `${step.name}-${id}`);
    took.push(`${step.name} ${Math.round(performance.now() - begin)}`);
  }
  return `${took.join(", ")} ms`;
}

async function session(client: MemoryClient, id: string): Promise<void> {
  const chat = [
    { role: "user", content: "Tea in France?" },
    { role: "assistant", content: [{ type: "text", text: "Yes.", cache_control: { type: "ephemeral" } }] },
  ];
  // Generations are random numbers of 63 bits.
  let largest = 0n;
  for (let at = 0; at < 8; ++at) {
    const made = await client.put(`${id}-${at}`, [message("user", "x")]);
    if (made.generation > largest) largest = made.generation;
    const found = await client.getSession(`${id}-${at}`);
    check(found.generation === made.generation, "a generation keeps all of its bits");
    await client.deleteSession(`${id}-${at}`);
  }
  check(largest > LARGEST_NUMBER, "a generation is above 2^53");
  const put = await client.put(id, chat, { contents: [content(new Uint8Array([0, 255]))] });
  check(put.positions.join() === "1,2", "positions of a put");
  check(JSON.stringify((await client.get(id)).toAnthropic().messages) === JSON.stringify(chat), "messages come back");
  check((await listed(client.getAll(id, { pageSize: 1 }))).length === 2, "pages");
  const newest = await listed(client.streamAll(id, { order: MessageOrder.NEWEST_FIRST }));
  check(newest.map(({ position }) => position).join() === "2,1", "a stream");
  check((await client.query(id, "tea")).results.length > 0, "a search");
  await client.deleteSession(id);
}

async function items(client: MemoryClient, id: string): Promise<void> {
  const space = ["runtimes", id];
  const first = await client.putItem(space, "a", { n: 1 }, { expectedVersion: 0n });
  await client.putItem(space, "b", new Uint8Array([1, 2]));
  const item = await client.getItem(space, "a");
  check(item !== undefined && JSON.stringify(itemValue(item)) === '{"n":1}', "an item's value");
  check(item?.version === first.version, "an item's version");
  check((await listed(client.listItems(space, { pageSize: 1 }))).length === 2, "items");
  await client.deleteNamespace(space, { recursive: true });
}

async function users(client: MemoryClient, id: string): Promise<void> {
  await client.remember(id, "I drink tea, never coffee.");
  const [hit] = (await client.recall(id, "What may I offer to drink?")).results;
  check(hit !== undefined && hitText(hit).includes("tea"), "what is recalled");
  const context = await client.context(id, `${id}/sunday`, "Tea or coffee?");
  check(JSON.stringify(context.toOpenAI()).includes("never coffee"), "the context holds what is known");
  await client.eraseSubject(id);
}

async function watch(client: MemoryClient, id: string): Promise<void> {
  await client.put(id, [message("user", "a")]);
  const stop = new AbortController();
  let hasPut = false;
  try {
    for await (const { changes } of client.watchSession(id, { signal: stop.signal })) {
      hasPut ||= changes.includes(SessionChange.MESSAGES_PUT);
      if (hasPut) stop.abort();
      else await client.put(id, [message("user", "b")]);
    }
  } catch (error) {
    check(codeOf(error) === "CANCELLED", `a watch that is given up: ${String(error)}`);
  }
  check(hasPut, "a watch tells what changes");
  await client.deleteSession(id);
}

async function failures(client: MemoryClient, id: string): Promise<void> {
  try {
    await client.put(id, [message("user", "x")], { expectedRevision: LARGEST_NUMBER + 1n });
  } catch (error) {
    check(codeOf(error) === "ABORTED REVISION_MISMATCH", `a wrong revision: ${String(error)}`);
    return;
  }
  check(false, "a wrong revision is refused");
}

async function large(client: MemoryClient, id: string): Promise<void> {
  const text = "tea ".repeat(200_000);
  await client.put(id, Array.from({ length: 8 }, () => message("user", text)));
  let bytes = 0;
  for await (const one of client.streamAll(id)) bytes += one.text?.length ?? 0;
  check(bytes === 8 * text.length, "6 MiB there and back");
  await client.deleteSession(id);
}
