// The values and writes that delta channels are rebuilt from.

import type { CheckpointPendingWrite, DeltaChannelHistory, SerializerProtocol } from "@langchain/langgraph-checkpoint";
import type { MemoryClient } from "../client.js";
import { read, storedBlobs } from "./reading.js";
import type { Found, Place } from "./records.js";
import { has, pendingWrites, tupleOf } from "./records.js";

/**
 * The history of channels at a checkpoint, or at the newest: the way back over its parents until each channel has a value.
 * A checkpoint's writes made its child, so those of the checkpoint that has a channel's value count too.
 */
export async function deltaHistory(
  memory: MemoryClient,
  place: Place,
  serde: SerializerProtocol,
  channels: readonly string[],
  checkpointId: string | undefined,
): Promise<Record<string, DeltaChannelHistory>> {
  const open = new Set(channels);
  const seeds = new Map<string, Found>();
  // The newest first.
  const writes = new Map<string, CheckpointPendingWrite[]>(channels.map((one) => [one, []]));
  for await (const found of ancestors(memory, place, serde, checkpointId)) {
    if (open.size === 0) break;
    for (const write of (await pendingWrites(found.writes, serde)).reverse()) {
      if (open.has(write[1])) writes.get(write[1])?.push(write);
    }
    for (const channel of [...open].filter((one) => has(found.record, one))) {
      seeds.set(channel, found);
      open.delete(channel);
    }
  }
  const blobs = await storedBlobs(memory, place, [...seeds.values()]);
  const made: [string, DeltaChannelHistory][] = [];
  for (const channel of channels) {
    const history: DeltaChannelHistory = { writes: (writes.get(channel) ?? []).reverse() };
    const seed = seeds.get(channel);
    if (seed !== undefined) {
      history.seed = (await tupleOf(place, seed, blobs, serde)).checkpoint.channel_values[channel];
    }
    made.push([channel, history]);
  }
  return Object.fromEntries(made);
}

// The parents of a checkpoint, the next first. They are mostly behind each other in the order of ids; where a parent has
// a greater id than its child, the reading begins again there.
async function* ancestors(
  memory: MemoryClient,
  place: Place,
  serde: SerializerProtocol,
  checkpointId: string | undefined,
): AsyncGenerator<Found, void, undefined> {
  let wanted = checkpointId;
  let isTarget = true;
  for (let progress = true; progress;) {
    progress = false;
    for await (const found of read(memory, place, serde, { newest: wanted })) {
      if (wanted !== undefined && found.record.checkpoint.id !== wanted) continue;
      if (!isTarget) yield found;
      progress = true;
      isTarget = false;
      wanted = found.record.parent ?? undefined;
      if (wanted === undefined) return;
    }
  }
}
