// Puts that are made together.

import { codeOf, MemorydError } from "./errors.js";
import type { PutOutcome, PutResponse } from "./gen/memoryd/v1/memory_service_pb.js";

/** What a Put of a batch did. Throws the MemorydError of one that failed. */
export function putReply({ outcome }: PutOutcome): PutResponse {
  if (outcome.case === "reply") return outcome.value;
  const error = outcome.value;
  throw new MemorydError(codeOf(error?.code ?? 2), error?.message ?? "", error?.reason ?? "", error?.metadata ?? {});
}
