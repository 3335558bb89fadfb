// The error of failed calls.

import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "./gen/google/rpc/error_details_pb.js";

/** The names of gRPC's status codes. */
export type StatusCode =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "OUT_OF_RANGE"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

const NAMES: readonly StatusCode[] = [
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
];

/** The code of a number, as google.rpc.Code has it. */
export function codeOf(value: number): StatusCode {
  return NAMES[value - 1] ?? "UNKNOWN";
}

/** The number of a code. */
export function numberOf(code: StatusCode): number {
  return NAMES.indexOf(code) + 1;
}

// Codes of a call whose outcome is unknown.
const UNKNOWN: readonly StatusCode[] = ["CANCELLED", "INTERNAL", "UNAVAILABLE", "UNKNOWN"];
// Reasons of those by which the server says that the call was not done.
const NOTHING_WAS_DONE = ["STORE_UNAVAILABLE", "DRAINING"];

// As which libraries tell of a connection that is lost, or of a stream that is reset.
const LOST = [Code.Unknown, Code.ResourceExhausted, Code.Aborted, Code.Internal, Code.Unavailable];

/** An error from memoryd, or from the connection to it. */
export class MemorydError extends Error {
  override readonly name = "MemorydError";

  constructor(
    /** The gRPC status code. */
    readonly code: StatusCode,
    /** What was wrong and what to change, in words: the server's text. */
    readonly text: string,
    /**
     * A constant in capitals, such as `REVISION_MISMATCH`. Empty: the error does not come from memoryd, such as a
     * lost connection or the client's own deadline.
     */
    readonly reason = "",
    /** All values that the server sends with the error, such as `current_revision`. */
    readonly details: Readonly<Record<string, string>> = {},
    options?: ErrorOptions,
  ) {
    super(`${code}${reason === "" ? "" : ` (${reason})`}: ${text}`, options);
  }

  /** The invalid field of the request. Empty: none. */
  get field(): string {
    return this.details["field"] ?? "";
  }

  /**
   * Whether a call that changes something may have done so all the same: its outcome is unknown. False: nothing was
   * done.
   */
  get mayHaveBeenDone(): boolean {
    // With a reason it is the server's, which has not begun.
    if (this.code === "DEADLINE_EXCEEDED") return this.reason === "";
    return UNKNOWN.includes(this.code) && !NOTHING_WAS_DONE.includes(this.reason);
  }
}

/** A request that its message has no place for, such as a text where a number must be. */
export class NoRequest extends TypeError {}

/** The error of a failed attempt. Throws TypeError for a request that its message has no place for. */
export function errorOf(thrown: unknown): MemorydError {
  if (thrown instanceof MemorydError) return thrown;
  if (thrown instanceof NoRequest) throw thrown;
  const error = ConnectError.from(thrown, Code.Unavailable);
  if (!error.isWireError && error.rawMessage.startsWith("serialize ")) throw new NoRequest(error.rawMessage, { cause: thrown });
  const info = error.findDetails(ErrorInfoSchema)[0];
  if (info !== undefined) {
    return new MemorydError(codeOf(error.code), error.rawMessage, info.reason, info.metadata, { cause: thrown });
  }
  // What broke under the call, such as a connection, is no answer of the server's.
  const isLost = !error.isWireError && LOST.includes(error.code);
  return new MemorydError(isLost ? "UNAVAILABLE" : codeOf(error.code), error.rawMessage, "", {}, { cause: thrown });
}
