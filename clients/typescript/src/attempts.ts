// The attempts of one call: whether to make another one, and when.

import { MemorydError } from "./errors.js";

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1000;
// CANCELLED is how gRPC ends calls that meet a server as it goes.
const WITHOUT_ANSWER = ["UNAVAILABLE", "CANCELLED"];
// Codes of an attempt that was refused before anybody looked whether an earlier one was done, or came too late.
const AT_THE_DOOR = ["DEADLINE_EXCEEDED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAUTHENTICATED"];

/** How a call is made. */
export interface Policy {
  /** How long the call may take, with all of its attempts. */
  readonly timeoutMs: number;
  /** Whether anything is repeated. */
  readonly waitForReady: boolean;
  /** Whether the call has the same effect when it is made again. */
  readonly isRepeatable: boolean;
}

/** The attempts of a call that begins when this is made. */
export class Attempts {
  private readonly end: number;
  private pauseMs = FIRST_PAUSE_MS;
  private unknown: MemorydError | undefined;

  constructor(
    private readonly policy: Policy,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.end = now() + policy.timeoutMs;
  }

  /** How much time is left, at least one millisecond. */
  get leftMs(): number {
    return Math.max(1, Math.ceil(this.end - this.now()));
  }

  /** How many milliseconds to wait after a failed attempt. Throws when there must be no further attempt. */
  pause(error: MemorydError): number {
    const told = toldToWait(error);
    let wait: number;
    let repeats: boolean;
    if (told === undefined) {
      // Half to one and a half of the pause, so that many clients don't return as one.
      wait = this.pauseMs * (0.5 + Math.random());
      this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
      repeats = this.policy.isRepeatable && WITHOUT_ANSWER.includes(error.code);
    } else {
      wait = told * (1 + Math.random() / 4);
      repeats = true;
    }
    if (!this.policy.waitForReady || !repeats || this.now() + wait >= this.end) {
      const isAnswer = !WITHOUT_ANSWER.includes(error.code) && !AT_THE_DOOR.includes(error.code);
      // What this attempt came to says nothing of an earlier one, and that there is no time left less than what took it.
      throw isAnswer || this.unknown === undefined ? error : this.unknown;
    }
    if (error.mayHaveBeenDone) this.unknown = error;
    return wait;
  }
}

// In how many milliseconds the call may come again that the server has refused, with nothing started.
function toldToWait(error: MemorydError): number | undefined {
  const told = error.code === "RESOURCE_EXHAUSTED" ? error.details["retry_after_ms"] : undefined;
  return told !== undefined && /^\d+$/.test(told) ? Number(told) : undefined;
}

/** Waits, or throws CANCELLED as soon as the caller gives up. */
export async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  throwIfGivenUp(signal);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
    signal?.addEventListener("abort", done);
  });
  throwIfGivenUp(signal);
}

/** Throws CANCELLED if the caller has given up. */
export function throwIfGivenUp(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) {
    throw new MemorydError("CANCELLED", "the caller has given up the call", "", {}, { cause: signal.reason });
  }
}
