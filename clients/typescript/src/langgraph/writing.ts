// Operations on items, in batches that a server takes.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { create, toBinary } from "@bufbuild/protobuf";
import type { MemoryClient } from "../client.js";
import type { ItemOperation } from "../gen/memoryd/v1/item_service_pb.js";
import { ItemOperationSchema, ItemPutSchema } from "../gen/memoryd/v1/item_service_pb.js";
import { batchResults } from "../items.js";

// A server takes a request of 36 MiB by default, and an item of 32 goes alone.
export const MAX_BATCH_BYTES = 16 << 20;
export const MAX_OPERATIONS = 1000;

export function putOf(put: MessageInitShape<typeof ItemPutSchema>): ItemOperation {
  return create(ItemOperationSchema, { operation: { case: "put", value: put } });
}

/** Puts bytes under a key. */
export function putBytes(key: string, value: Uint8Array, expectedVersion?: bigint): ItemOperation {
  return putOf({ key, value: { case: "bytesValue", value }, expectedVersion });
}

export function getOf(key: string): ItemOperation {
  return create(ItemOperationSchema, { operation: { case: "get", value: { key } } });
}

export function deleteOf(key: string): ItemOperation {
  return create(ItemOperationSchema, { operation: { case: "delete", value: { key } } });
}

/** About how many bytes an operation has in a request. */
export function sizeOf(operation: ItemOperation): number {
  const { value } = operation.operation.case === "put" ? operation.operation.value : {};
  // Large values are not encoded to see how large they are.
  if (value?.case === "bytesValue") return value.value.length + 1024;
  return toBinary(ItemOperationSchema, operation).length;
}

/** Makes the operations, at once where one batch holds them, else in their order. */
export async function write(
  memory: MemoryClient,
  path: readonly string[],
  operations: readonly ItemOperation[],
): Promise<void> {
  let some: ItemOperation[] = [];
  let size = 0;
  const send = async (): Promise<void> => {
    const [outcome] = await memory.batchItems([{ namespace: [...path], operations: some }]);
    if (outcome !== undefined) batchResults(outcome);
  };
  for (const operation of operations) {
    const added = sizeOf(operation);
    if (some.length > 0 && (some.length === MAX_OPERATIONS || size + added > MAX_BATCH_BYTES)) {
      await send();
      some = [];
      size = 0;
    }
    some.push(operation);
    size += added;
  }
  if (some.length > 0) await send();
}
