// LangGraph's checkpointer.

import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  getCheckpointId,
  maxChannelVersion,
  TASKS,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import type {
  ChannelVersions,
  Checkpoint,
  CheckpointListOptions,
  CheckpointMetadata,
  CheckpointTuple,
  DeltaChannelHistory,
  PendingWrite,
  SerializerProtocol,
} from "@langchain/langgraph-checkpoint";
import type { MemoryClient } from "../client.js";
import { MemorydError } from "../errors.js";
import type { ItemOperation } from "../gen/memoryd/v1/item_service_pb.js";
import { NamespaceMatch_End } from "../gen/memoryd/v1/item_service_pb.js";
import { sameJson } from "../templates.js";
import { deltaHistory } from "./deltaHistory.js";
import * as keys from "./keys.js";
import { read, storedBlobs } from "./reading.js";
import type { CheckpointRecord, Found, Place, Typed } from "./records.js";
import { configOf, isPlain, packedRecord, packedTyped, packedWrite, pendingWrites, tupleOf } from "./records.js";
import { putBytes, write } from "./writing.js";

// Of a value that a checkpoint has within itself, so that reading it takes no further call.
const WITHIN_BYTES = 4096;
// Of one that was stored before, and is not stored again when it turns out larger now: not every serializer makes the
// same bytes twice.
const STAYS_WITHIN_BYTES = 2 * WITHIN_BYTES;
const MOST_KNOWN_APART = 10_000;
// Of checkpoints whose values are read at once: few first, since many callers look at the newest only.
const FIRST_LOADED = 8;
const MOST_LOADED = 50;
// Checkpoints of this format have the pending sends among their values.
const WITH_SENDS = 4;

/** Options of a MemorydSaver. */
export interface SaverOptions {
  /** The path below which the items are, by default `["langgraph"]`. */
  readonly namespace?: readonly string[] | undefined;
  readonly serde?: SerializerProtocol | undefined;
}

/**
 * Keeps the checkpoints of threads in memoryd.
 *
 * A checkpoint is stored whole or not at all, and costs what has changed: a channel's value of more than 4 KiB is stored
 * once for each version. Values of more than 32 MiB are refused. All methods may be called again after an error.
 */
export class MemorydSaver extends BaseCheckpointSaver {
  private readonly base: readonly string[];
  // Values that this object knows to be stored apart: they need not be serialized to see whether they are small.
  private apart = new Set<string>();

  /** `memory` is a client, over gRPC or HTTP. It stays the caller's, who closes it. */
  constructor(
    private readonly memory: MemoryClient,
    { namespace = ["langgraph"], serde }: SaverOptions = {},
  ) {
    super(serde);
    this.base = [...namespace, keys.THREADS];
  }

  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    if (config.configurable?.["thread_id"] === undefined) return undefined;
    const place = this.place(config);
    const found = await this.found(place, getCheckpointId(config));
    return found === undefined ? undefined : (await this.tuples(place, [found]))[0];
  }

  async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { before, filter = {} } = options;
    const limit = options.limit ?? Infinity;
    const wanted = Object.entries(filter as Record<string, unknown>);
    const range = {
      only: getCheckpointId(config) || undefined,
      before: (before === undefined ? "" : getCheckpointId(before)) || undefined,
      most: wanted.length > 0 || limit === Infinity ? undefined : limit,
    };
    let count = 0;
    if (limit <= 0) return;
    for (const place of await this.places(config)) {
      let some: Found[] = [];
      let most = FIRST_LOADED;
      for await (const found of read(this.memory, place, this.serde, range)) {
        const metadata = found.record.metadata as Record<string, unknown>;
        if (!wanted.every(([name, value]) => sameJson(metadata[name], value))) continue;
        some.push(found);
        if (++count === limit) break;
        if (some.length < most) continue;
        yield* await this.tuples(place, some);
        some = [];
        most = Math.min(2 * most, MOST_LOADED);
      }
      yield* await this.tuples(place, some);
      if (count === limit) return;
    }
  }

  async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const place = this.place(config);
    const parent = (config.configurable?.["checkpoint_id"] as string | undefined) ?? null;
    const plain: Record<string, unknown> = {};
    const within: Record<string, Typed> = {};
    // The keys of values that are kept apart, by channel.
    const apart = new Map<string, string>();
    const blobs: ItemOperation[] = [];
    for (const [channel, value] of Object.entries(checkpoint.channel_values)) {
      const version = checkpoint.channel_versions[channel];
      const isNew = Object.hasOwn(newVersions, channel);
      // Only a parent has values to go on with.
      if (version === undefined || (!isNew && parent === null)) continue;
      const key = keys.blobKey(channel, version);
      if (isPlain(value)) {
        plain[channel] = value;
      } else if (!isNew && this.apart.has(this.known(place, key))) {
        apart.set(channel, key);
      } else {
        const typed = await this.serde.dumpsTyped(value);
        if (typed[1].length <= (isNew ? WITHIN_BYTES : STAYS_WITHIN_BYTES)) {
          within[channel] = typed;
        } else {
          apart.set(channel, key);
          // It may have been small when it was stored, and have grown where it is.
          if (isNew || !(await this.isStored(place, key))) blobs.push(putBytes(key, packedTyped(typed)));
        }
      }
    }
    const record: CheckpointRecord = {
      ns: this.ns(config),
      parent,
      checkpoint: { ...checkpoint, channel_values: plain },
      metadata,
      within,
      apart: [...apart.keys()],
    };
    // The checkpoint itself comes last: before it, nothing finds the rest.
    const own = putBytes(keys.checkpointKey(checkpoint.id), await packedRecord(record, this.serde));
    await write(this.memory, place.path, [...blobs, own]);
    this.addApart(place, apart.values());
    return configOf(place, record.ns, checkpoint.id);
  }

  async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    const place = this.place(config);
    const checkpointId = config.configurable?.["checkpoint_id"] as string | undefined;
    if (checkpointId === undefined) throw new TypeError("checkpoint_id: is missing in the config's `configurable`");
    const prefix = keys.taskPrefix(checkpointId, taskId);
    let made = new Map<string, ItemOperation>();
    for (const [at, [channel, value]] of writes.entries()) {
      const index = WRITES_IDX_MAP[channel] ?? at;
      const key = `${prefix}${index}`;
      const packed = packedWrite([taskPath, taskId, index, channel, ...(await this.serde.dumpsTyped(value))]);
      // A task that runs again stores its writes again; the first ones stay. The writes that tell how it ended are
      // replaced.
      made.set(key, putBytes(key, packed, index >= 0 ? 0n : undefined));
    }
    while (made.size > 0) {
      try {
        await write(this.memory, place.path, [...made.values()]);
        return;
      } catch (error) {
        if (!(error instanceof MemorydError) || error.reason !== "VERSION_MISMATCH") throw error;
      }
      const stored = new Set<string>();
      const listed = this.memory.listItems(place.path, { keyPrefix: prefix, keysOnly: true, pageSize: 1000 });
      for await (const { key } of listed) stored.add(key);
      made = new Map([...made].filter(([key, { operation }]) =>
        !stored.has(key) || (operation.case === "put" && operation.value.expectedVersion === undefined)));
    }
  }

  async deleteThread(threadId: string): Promise<void> {
    await this.memory.deleteNamespace([...this.base, keys.threadName(threadId)], { recursive: true });
  }

  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const { config, channels } = options;
    if (channels.length === 0) return {};
    const id = getCheckpointId(config) || undefined;
    return deltaHistory(this.memory, this.place(config), this.serde, channels, id);
  }

  /**
   * Returns a version after `current`. Two branches of a thread that go on from the same one get different versions, so
   * neither stores its values in place of the other's.
   */
  override getNextVersion(current: number | undefined): number {
    return Math.floor(current ?? 0) + 1 + Math.random();
  }

  private place(config: RunnableConfig): Place {
    const threadId = config.configurable?.["thread_id"] as string | undefined;
    if (threadId === undefined) throw new TypeError("thread_id: is missing in the config's `configurable`");
    return { path: [...this.base, keys.threadName(threadId), keys.nsName(this.ns(config))], threadId };
  }

  private ns(config: RunnableConfig): string {
    return (config.configurable?.["checkpoint_ns"] as string | undefined) ?? "";
  }

  // The places of a config, which may leave out the checkpoint_ns, or of all threads.
  private async places(config: RunnableConfig): Promise<Place[]> {
    const threadId = config.configurable?.["thread_id"] as string | undefined;
    const ns = config.configurable?.["checkpoint_ns"] as string | undefined;
    if (threadId !== undefined && ns !== undefined) return [this.place(config)];
    const path = threadId === undefined ? this.base : [...this.base, keys.threadName(threadId)];
    const matches = [{ end: NamespaceMatch_End.PREFIX, names: [...path] }];
    const made: Place[] = [];
    for await (const found of this.memory.listNamespaces({ matches })) {
      const [thread, name] = found.slice(this.base.length);
      // `*` in a name stands for any name there.
      if (thread === undefined || !path.every((one, at) => one === found[at])) continue;
      if (ns === undefined || name === keys.nsName(ns)) made.push({ path: found, threadId: threadId ?? keys.threadOf(thread) });
    }
    return made;
  }

  // A checkpoint, or the newest.
  private async found(place: Place, checkpointId: string): Promise<Found | undefined> {
    for await (const found of read(this.memory, place, this.serde, { only: checkpointId || undefined, most: 1 })) {
      return found;
    }
    return undefined;
  }

  private async tuples(place: Place, found: readonly Found[]): Promise<CheckpointTuple[]> {
    const blobs = await storedBlobs(this.memory, place, found);
    this.addApart(place, blobs.keys());
    const made: CheckpointTuple[] = [];
    for (const one of found) {
      const tuple = await tupleOf(place, one, blobs, this.serde);
      const { v, channel_values, channel_versions } = tuple.checkpoint;
      if (v < WITH_SENDS && one.record.parent !== null) {
        const parent = await this.found(place, one.record.parent);
        const writes = await pendingWrites(parent?.writes ?? [], this.serde);
        channel_values[TASKS] = writes.filter(([, channel]) => channel === TASKS).map(([, , value]) => value);
        const versions = Object.values(channel_versions);
        channel_versions[TASKS] = versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
      }
      made.push(tuple);
    }
    return made;
  }

  private async isStored(place: Place, key: string): Promise<boolean> {
    const listed = this.memory.listItems(place.path, { startKey: key, keyPrefix: key, keysOnly: true, pageSize: 1 });
    for await (const found of listed) return found.key === key;
    return false;
  }

  private addApart(place: Place, stored: Iterable<string>): void {
    if (this.apart.size > MOST_KNOWN_APART) this.apart = new Set();
    for (const key of stored) this.apart.add(this.known(place, key));
  }

  private known(place: Place, key: string): string {
    return [...place.path, key].join("/");
  }
}
