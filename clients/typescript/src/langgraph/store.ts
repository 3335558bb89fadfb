// LangGraph's store. Its items are those of the Python client's: either reads and writes what the other has stored.

import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { BaseStore } from "@langchain/langgraph-checkpoint";
import type {
  GetOperation,
  Item,
  ListNamespacesOperation,
  Operation,
  OperationResults,
  PutOperation,
  SearchItem,
  SearchOperation,
} from "@langchain/langgraph-checkpoint";
import type { MemoryClient } from "../client.js";
import type * as wire from "../gen/memoryd/v1/item_service_pb.js";
import { ItemBatchSchema, NamespaceMatch_End } from "../gen/memoryd/v1/item_service_pb.js";
import type { ListNamespacesRequestSchema } from "../gen/memoryd/v1/item_service_pb.js";
import { batchResults, itemValue } from "../items.js";
import { isTooMuchAtOnce } from "./reading.js";
import { deleteOf, getOf, MAX_BATCH_BYTES, MAX_OPERATIONS, putOf, sizeOf } from "./writing.js";

const MAX_NAMES = 16;
// Of one call.
const MAX_BATCHES = 1000;
const MAX_OPERATIONS_OF_CALL = 10_000;
const MOST_FOUND = 1000;

/** Options of a MemorydStore. */
export interface StoreOptions {
  /** The path below which the items are, by default `["langgraph"]`. */
  readonly namespace?: readonly string[] | undefined;
  /** The paths of the fields that searches look at, where a put does not say; by default all texts. */
  readonly index?: readonly string[] | undefined;
}

interface Batch {
  readonly wire: wire.ItemBatch;
  size: number;
}

/**
 * Keeps the items of LangGraph's store in memoryd.
 *
 * Searches with a query compare words, and meanings where the server has word vectors. Those without one return what was
 * stored last first.
 */
export class MemorydStore extends BaseStore {
  private readonly base: readonly string[];
  private readonly index: readonly string[] | undefined;

  /** `memory` is a client, over gRPC or HTTP. It stays the caller's, who closes it. */
  constructor(
    private readonly memory: MemoryClient,
    { namespace = ["langgraph"], index }: StoreOptions = {},
  ) {
    super();
    this.base = [...namespace, "store"];
    this.index = index;
  }

  /** Reads see the state before the puts. Of puts of one key the last holds. */
  override async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    const [batches, places] = this.batches(operations);
    const results: unknown[] = [];
    for (const operation of operations) {
      if (isSearch(operation)) results.push(await this.found(operation));
      else if (isOfItem(operation)) results.push("value" in operation ? undefined : null);
      else results.push(await this.namespaces(operation));
    }
    const done = await this.done(batches);
    for (const [at, { batch, index }] of places) {
      const operation = operations[at];
      const result = done[batch]?.[index]?.result;
      if (operation === undefined || !isOfItem(operation)) continue;
      if (result?.case !== "get" || result.value.item === undefined) continue;
      results[at] = itemOf(result.value.item, operation.namespace);
    }
    return results as OperationResults<Op>;
  }

  // A batch for each namespace, more where one does not hold all, and where in them each operation is.
  private batches(operations: readonly Operation[]): [Batch[], Map<number, { batch: number; index: number }>] {
    const puts = new Map<string, number>();
    for (const [at, operation] of operations.entries()) {
      if (isOfItem(operation) && "value" in operation) puts.set(JSON.stringify([operation.namespace, operation.key]), at);
    }
    const last = new Set(puts.values());
    const batches: Batch[] = [];
    const current = new Map<string, number>();
    const places = new Map<number, { batch: number; index: number }>();
    const ofItems = [...operations.entries()].filter((one): one is [number, GetOperation | PutOperation] => isOfItem(one[1]));
    // Reads first: those of a batch may not see the puts of one before it.
    const reads = ofItems.filter(([, operation]) => !("value" in operation));
    const writes = ofItems.filter(([at]) => last.has(at));
    for (const [at, operation] of [...reads, ...writes]) {
      const made = this.operationOf(operation);
      const size = sizeOf(made);
      const name = JSON.stringify(operation.namespace);
      let index = current.get(name);
      let batch = index === undefined ? undefined : batches[index];
      if (
        index === undefined || batch === undefined ||
        batch.wire.operations.length === MAX_OPERATIONS || batch.size + size > MAX_BATCH_BYTES
      ) {
        index = batches.length;
        current.set(name, index);
        batch = { wire: create(ItemBatchSchema, { namespace: [...this.base, ...operation.namespace] }), size: 0 };
        batches.push(batch);
      }
      places.set(at, { batch: index, index: batch.wire.operations.length });
      batch.wire.operations.push(made);
      batch.size += size;
    }
    return [batches, places];
  }

  private operationOf(operation: GetOperation | PutOperation): wire.ItemOperation {
    const { key } = operation;
    if (!("value" in operation)) return getOf(key);
    if (operation.value === null) return deleteOf(key);
    const { index = this.index } = operation;
    const search = index === undefined ? {} : { search: { fields: index === false ? [] : [...index] } };
    return putOf({ key, value: { case: "json", value: JSON.stringify(operation.value) }, ...search });
  }

  private async done(batches: readonly Batch[]): Promise<(readonly wire.ItemOperationResult[])[]> {
    const results: (readonly wire.ItemOperationResult[])[] = [];
    for (const some of callsOf(batches)) {
      const outcomes = await this.memory.batchItems(some.map((one) => one.wire));
      for (const [at, outcome] of outcomes.entries()) {
        const batch = some[at];
        try {
          results.push(batchResults(outcome));
        } catch (error) {
          if (!isTooMuchAtOnce(error) || batch === undefined) throw error;
          results.push(await this.inParts(batch.wire));
        }
      }
    }
    return results;
  }

  // The results of a batch, of which nothing was done because a reply does not hold all that it reads. The writes stay
  // together, behind the reads.
  private async inParts({ namespace, operations }: wire.ItemBatch): Promise<wire.ItemOperationResult[]> {
    const reads = operations.filter(({ operation }) => operation.case === "get");
    const writes = operations.slice(reads.length);
    const results: wire.ItemOperationResult[] = [];
    let atOnce = Math.max(1, Math.ceil(reads.length / 2));
    const run = async (some: wire.ItemOperation[]): Promise<void> => {
      const [outcome] = await this.memory.batchItems([{ namespace, operations: some }]);
      if (outcome !== undefined) results.push(...batchResults(outcome));
    };
    while (results.length < reads.length) {
      const some = reads.slice(results.length, results.length + atOnce);
      try {
        await run(some);
      } catch (error) {
        if (!isTooMuchAtOnce(error) || some.length === 1) throw error;
        atOnce = Math.ceil(some.length / 2);
      }
    }
    if (writes.length > 0) await run(writes);
    return results;
  }

  private async found({ namespacePrefix, filter, limit = 10, offset = 0, query }: SearchOperation): Promise<SearchItem[]> {
    const found: SearchItem[] = [];
    let most = MOST_FOUND;
    while (found.length < limit) {
      const asked = Math.min(limit - found.length, most);
      let page: wire.ItemResult[];
      try {
        page = await this.memory.searchItems([...this.base, ...namespacePrefix], {
          query: query ?? "",
          filterJson: filter === undefined || Object.keys(filter).length === 0 ? "" : JSON.stringify(filter),
          limit: asked,
          offset: offset + found.length,
        });
      } catch (error) {
        if (!isTooMuchAtOnce(error) || asked === 1) throw error;
        most = Math.ceil(asked / 2);
        continue;
      }
      for (const { item, score } of page) {
        if (item === undefined) continue;
        const made = itemOf(item, item.namespace.slice(this.base.length));
        found.push(score === undefined ? made : { ...made, score });
      }
      if (page.length < asked) break;
    }
    return found;
  }

  private async namespaces({ matchConditions = [], maxDepth, limit, offset }: ListNamespacesOperation): Promise<string[][]> {
    const matches: MessageInitShape<typeof ListNamespacesRequestSchema>["matches"] = [
      { end: NamespaceMatch_End.PREFIX, names: [...this.base] },
    ];
    for (const { matchType, path } of matchConditions) {
      // No condition reaches into the names above the store.
      if (matchType === "suffix") matches.push({ end: NamespaceMatch_End.SUFFIX, names: path });
      const names = matchType === "suffix" ? path.map(() => "*") : path;
      matches.push({ end: NamespaceMatch_End.PREFIX, names: [...this.base, ...names] });
    }
    const depth = maxDepth === undefined ? 0 : Math.min(this.base.length + maxDepth, MAX_NAMES);
    const found: string[][] = [];
    if (limit <= 0) return found;
    for await (const path of this.memory.listNamespaces({ matches, maxDepth: depth })) {
      // `*` in a name above the store stands for any name there.
      if (!this.base.every((one, at) => one === path[at])) continue;
      found.push(path.slice(this.base.length));
      if (found.length === offset + limit) break;
    }
    return found.slice(offset);
  }
}

function itemOf(item: wire.Item, namespace: readonly string[]): Item {
  return {
    value: itemValue(item) as Item["value"],
    key: item.key,
    namespace: [...namespace],
    createdAt: timeOf(item.createTime),
    updatedAt: timeOf(item.updateTime),
  };
}

function timeOf(time: Parameters<typeof timestampDate>[0] | undefined): Date {
  return time === undefined ? new Date(0) : timestampDate(time);
}

function isSearch(operation: Operation): operation is SearchOperation {
  return "namespacePrefix" in operation;
}

function isOfItem(operation: Operation): operation is GetOperation | PutOperation {
  return "namespace" in operation && "key" in operation;
}

// The batches, in order, as calls hold them. The second of one namespace has a later call: its writes are not seen by
// reads of the first, if those are made again.
function callsOf(batches: readonly Batch[]): Batch[][] {
  const made: Batch[][] = [];
  let some: Batch[] = [];
  let operations = 0;
  let size = 0;
  let there = new Set<string>();
  for (const batch of batches) {
    const name = JSON.stringify(batch.wire.namespace);
    operations += batch.wire.operations.length;
    size += batch.size;
    if (
      some.length === 0 || some.length === MAX_BATCHES || operations > MAX_OPERATIONS_OF_CALL ||
      size > MAX_BATCH_BYTES || there.has(name)
    ) {
      some = [];
      made.push(some);
      operations = batch.wire.operations.length;
      size = batch.size;
      there = new Set();
    }
    some.push(batch);
    there.add(name);
  }
  return made;
}
