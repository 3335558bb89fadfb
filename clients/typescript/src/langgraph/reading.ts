// Checkpoints of a namespace, newest first.

import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import type { MemoryClient } from "../client.js";
import { MemorydError } from "../errors.js";
import type { Item } from "../gen/memoryd/v1/item_service_pb.js";
import { ItemOrder } from "../gen/memoryd/v1/item_service_pb.js";
import { batchResults } from "../items.js";
import * as keys from "./keys.js";
import type { Found, Place, StoredWrite, Typed } from "./records.js";
import { blobsOf, recordOf, typedOf, writeOf } from "./records.js";

// Values may be large, and a reply has at most 64 MiB.
const READ_AT_ONCE = 50;
// Items of a checkpoint with its pending writes, as most have them.
const OF_ONE = 8;
// What the server says of a batch because of all that is read at once.
const TOO_MUCH_AT_ONCE = ["REPLY_TOO_LARGE", "MEMORY_SHORT"];

/** Which checkpoints are read. */
export interface Range {
  /** The only one. */
  readonly only?: string | undefined;
  /** The greatest id. */
  readonly newest?: string | undefined;
  /** An id that is greater than all. */
  readonly before?: string | undefined;
  /** How many are needed; undefined: all of them. */
  readonly most?: number | undefined;
}

/** Iterates over checkpoints, each with its writes, which come before it in the order of keys from the end. */
export async function* read(
  memory: MemoryClient,
  place: Place,
  serde: SerializerProtocol,
  { only, newest, before, most }: Range = {},
): AsyncGenerator<Found, void, undefined> {
  const startKey = only === undefined ? "" : keys.checkpointKey(only);
  const ends = [only, newest].filter((one) => one !== undefined).map(keys.afterCheckpoint);
  if (before !== undefined) ends.push(keys.checkpointKey(before));
  const endKey = ends.reduce((least, one) => (least === "" || one < least ? one : least), "");
  if (endKey !== "" && endKey <= startKey) return;
  const size = most === undefined || only !== undefined ? READ_AT_ONCE : OF_ONE * most;
  const items = memory.listItems(place.path, {
    order: ItemOrder.KEY_DESCENDING,
    keyPrefix: keys.CHECKPOINTS,
    startKey,
    endKey,
    pageSize: Math.min(size, READ_AT_ONCE),
  });
  let writes: StoredWrite[] = [];
  let writesOf = "";
  for await (const item of items) {
    const key = keys.checkpointOf(item.key);
    // Those of another one were written for a checkpoint that was never stored.
    if (key !== writesOf) writes = [];
    writesOf = key;
    if (key === item.key) yield { record: await recordOf(item, serde), writes };
    else writes.push(writeOf(item));
  }
}

/** The items of these keys that there are; fewer at a time where they are large. */
export async function itemsOf(memory: MemoryClient, path: readonly string[], wanted: readonly string[]): Promise<Item[]> {
  const found: Item[] = [];
  let atOnce = READ_AT_ONCE;
  for (let start = 0; start < wanted.length;) {
    const asked = wanted.slice(start, start + atOnce);
    try {
      const operations = asked.map((key) => ({ operation: { case: "get", value: { key } } }) as const);
      const [outcome] = await memory.batchItems([{ namespace: [...path], operations }]);
      for (const { result } of outcome === undefined ? [] : batchResults(outcome)) {
        if (result.case === "get" && result.value.item !== undefined) found.push(result.value.item);
      }
    } catch (error) {
      if (!isTooMuchAtOnce(error) || asked.length === 1) throw error;
      atOnce = Math.ceil(asked.length / 2);
      continue;
    }
    start += asked.length;
  }
  return found;
}

export function isTooMuchAtOnce(error: unknown): boolean {
  return error instanceof MemorydError && TOO_MUCH_AT_ONCE.includes(error.reason);
}

/** The values that these keep apart, by their keys. */
export async function storedBlobs(
  memory: MemoryClient,
  place: Place,
  found: readonly Found[],
): Promise<Map<string, Typed>> {
  const wanted = new Set(found.flatMap(({ record }) => blobsOf(record).map(([, key]) => key)));
  const stored = await itemsOf(memory, place.path, [...wanted].sort());
  return new Map(stored.map((item) => [item.key, typedOf(item)]));
}
