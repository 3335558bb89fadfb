// Checkpoints and pending writes as the values of items.

import { decode, encode } from "@msgpack/msgpack";
import { compareWritesSortKeys, writesSortKey } from "@langchain/langgraph-checkpoint";
import type {
  Checkpoint,
  CheckpointMetadata,
  CheckpointPendingWrite,
  CheckpointTuple,
  SerializerProtocol,
} from "@langchain/langgraph-checkpoint";
import type { Item } from "../gen/memoryd/v1/item_service_pb.js";
import * as keys from "./keys.js";

/** A value as a serializer makes it: its type and bytes. */
export type Typed = [string, Uint8Array];
/** A pending write as it is stored: task path, task, index, channel, type, bytes. */
export type StoredWrite = [string, string, number, string, string, Uint8Array];

// The longest text that needs no serialization to be seen to be small.
const SHORT = 128;

/** The namespace of a thread's checkpoints of one checkpoint_ns. */
export interface Place {
  readonly path: readonly string[];
  readonly threadId: string;
}

/**
 * A checkpoint as it is stored. Its `channel_values` are the plain ones; `within` are other small ones, and `apart` the
 * channels whose values are items of their own.
 */
export interface CheckpointRecord {
  readonly ns: string;
  readonly parent: string | null;
  readonly checkpoint: Checkpoint;
  readonly metadata: CheckpointMetadata;
  readonly within: Readonly<Record<string, Typed>>;
  readonly apart: readonly string[];
}

/** A record, and its pending writes. */
export interface Found {
  readonly record: CheckpointRecord;
  readonly writes: readonly StoredWrite[];
}

export function configOf(place: Place, ns: string, checkpointId: string) {
  return { configurable: { thread_id: place.threadId, checkpoint_ns: ns, checkpoint_id: checkpointId } };
}

/** Whether a channel's value is kept in each checkpoint as it is. */
export function isPlain(value: unknown): boolean {
  if (typeof value === "string") return value.length <= SHORT;
  return value === null || typeof value === "boolean" || typeof value === "number";
}

/** Whether the channel has a value in the checkpoint. */
export function has({ checkpoint, within, apart }: CheckpointRecord, channel: string): boolean {
  return Object.hasOwn(checkpoint.channel_values, channel) || Object.hasOwn(within, channel) || apart.includes(channel);
}

/** The keys of the values that a checkpoint keeps apart, by channel. */
export function blobsOf({ checkpoint, apart }: CheckpointRecord): [string, string][] {
  return apart.map((channel) => [channel, keys.blobKey(channel, checkpoint.channel_versions[channel] ?? "")]);
}

export async function packedRecord(record: CheckpointRecord, serde: SerializerProtocol): Promise<Uint8Array> {
  const [kind, checkpoint] = await serde.dumpsTyped(record.checkpoint);
  const [metadataKind, metadata] = await serde.dumpsTyped(record.metadata);
  const { ns, parent, within, apart } = record;
  return encode([ns, parent, kind, checkpoint, metadataKind, metadata, within, apart]);
}

export async function recordOf(item: Item, serde: SerializerProtocol): Promise<CheckpointRecord> {
  const [ns, parent, kind, checkpoint, metadataKind, metadata, within, apart] = unpacked(item) as [
    string, string | null, string, Uint8Array, string, Uint8Array, Record<string, Typed>, string[],
  ];
  return {
    ns,
    parent,
    checkpoint: (await serde.loadsTyped(kind, checkpoint)) as Checkpoint,
    metadata: (await serde.loadsTyped(metadataKind, metadata)) as CheckpointMetadata,
    within,
    apart,
  };
}

export function packedTyped(typed: Typed): Uint8Array {
  return encode(typed);
}

export function typedOf(item: Item): Typed {
  return unpacked(item) as Typed;
}

export function packedWrite(write: StoredWrite): Uint8Array {
  return encode(write);
}

export function writeOf(item: Item): StoredWrite {
  return unpacked(item) as StoredWrite;
}

/** The writes of one checkpoint, in the order that LangGraph wants. */
export async function pendingWrites(
  stored: readonly StoredWrite[],
  serde: SerializerProtocol,
): Promise<CheckpointPendingWrite[]> {
  const sorted = stored.toSorted((a, b) =>
    compareWritesSortKeys(writesSortKey(a[0], a[1], a[2]), writesSortKey(b[0], b[1], b[2])),
  );
  return Promise.all(
    sorted.map(async ([, task, , channel, kind, data]): Promise<CheckpointPendingWrite> => [
      task, channel, (await serde.loadsTyped(kind, data)) as unknown,
    ]),
  );
}

/** The checkpoint. `blobs` are values that are kept apart, by their keys. */
export async function tupleOf(
  place: Place,
  { record, writes }: Found,
  blobs: ReadonlyMap<string, Typed>,
  serde: SerializerProtocol,
): Promise<CheckpointTuple> {
  const typed = new Map(Object.entries(record.within));
  for (const [channel, key] of blobsOf(record)) {
    const blob = blobs.get(key);
    if (blob !== undefined) typed.set(channel, blob);
  }
  const values = { ...record.checkpoint.channel_values };
  for (const [channel, [kind, data]] of typed) values[channel] = (await serde.loadsTyped(kind, data)) as unknown;
  const tuple: CheckpointTuple = {
    config: configOf(place, record.ns, record.checkpoint.id),
    checkpoint: { ...record.checkpoint, channel_values: values },
    metadata: record.metadata,
    pendingWrites: await pendingWrites(writes, serde),
  };
  if (record.parent !== null) tuple.parentConfig = configOf(place, record.ns, record.parent);
  return tuple;
}

function unpacked(item: Item): unknown {
  if (item.value.case !== "bytesValue") throw new TypeError(`the item ${item.key} is none of the saver's`);
  return decode(item.value.value);
}
