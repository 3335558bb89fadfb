// Items: values under keys, in namespaces.

import { codeOf, MemorydError } from "./errors.js";
import type {
  Item,
  ItemBatch,
  ItemBatchOutcome,
  ItemOperationResult,
} from "./gen/memoryd/v1/item_service_pb.js";

/** The value of an item: what its JSON says, or its bytes; undefined without a value, as in a list of keys. */
export function itemValue(item: Item): unknown {
  switch (item.value.case) {
    case "json":
      return JSON.parse(item.value.value) as unknown;
    case "bytesValue":
      return item.value.value;
    default:
      return undefined;
  }
}

/**
 * What each operation of a batch did. Throws the MemorydError of a batch that failed; its details have `operation`, the
 * index of the one at fault, and `version` for `VERSION_MISMATCH`.
 */
export function batchResults(outcome: ItemBatchOutcome): readonly ItemOperationResult[] {
  const { error } = outcome;
  if (error === undefined) return outcome.results;
  const details: Record<string, string> = {};
  if (error.operation !== undefined) details["operation"] = String(error.operation);
  if (error.reason === "VERSION_MISMATCH") details["version"] = String(error.version);
  throw new MemorydError(codeOf(error.code), error.message, error.reason, details);
}

/** The batch, under a request id if it writes and has none. */
export function withRequestId(batch: ItemBatch, makeId: () => string): ItemBatch {
  const writes = batch.operations.some((one) => one.operation.case !== "get");
  return writes && batch.requestId === undefined ? { ...batch, requestId: makeId() } : batch;
}
