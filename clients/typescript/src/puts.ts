// Puts that are made together.

import { codeOf, MemorydError } from "./errors.js";
import type { PutOutcome, PutResponse } from "./gen/memoryd/v1/memory_service_pb.js";

/** What a Put of a batch did. Throws the MemorydError of one that failed. */
export function putReply(outcome: PutOutcome): PutResponse {
  if (outcome.outcome.case === "reply") return outcome.outcome.value;
  throw outcomeError(outcome);
}

/** The error of a Put that failed. With its index in the batch, the field is named as in a call of its own. */
export function outcomeError({ outcome }: PutOutcome, at?: number): MemorydError {
  const error = outcome.case === "error" ? outcome.value : undefined;
  const details = { ...error?.metadata };
  let text = error?.message ?? "";
  const inside = `puts[${String(at)}].`;
  if (at !== undefined && details["field"]?.startsWith(inside) === true) {
    details["field"] = details["field"].slice(inside.length);
    if (text.startsWith(inside)) text = text.slice(inside.length);
  }
  return new MemorydError(codeOf(error?.code ?? 2), text, error?.reason ?? "", details);
}
