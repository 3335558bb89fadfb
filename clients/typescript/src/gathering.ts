// Puts that callers make at the same time, gathered into calls of PutBatch.

import { BinaryWriter } from "@bufbuild/protobuf/wire";
import type { Header, Unary } from "./calls.js";
import { errorOf, MemorydError } from "./errors.js";
import type { StatusCode } from "./errors.js";
import type { PutOutcome, PutResponse } from "./gen/memoryd/v1/memory_service_pb.js";
import { MemoryService, PutBatchRequestSchema } from "./gen/memoryd/v1/memory_service_pb.js";
import { outcomeError } from "./puts.js";

/** A Put that is to be made. */
export interface Put {
  readonly sessionId: string;
  /** Messages and contents. */
  readonly itemCount: number;
  /** Whether it waits for jobs. */
  readonly waits: boolean;
  /** Returns the PutRequest. Throws for what is none. */
  readonly encode: () => Uint8Array;
}

// Calls of one token that are under way. What comes meanwhile is gathered.
const MAX_CALLS = 2;
// Of one call.
const MAX_PUTS = 1000;
const MAX_ITEMS = 10_000;
const MAX_BYTES = 4 << 20;
// How long a Put waits at most for calls under way, which may wait for jobs.
const LONGEST_WAIT_MS = 20;
// A batch ends when the last of its Puts does, so their ends lie close together.
const SAME_END_MS = 100;
// The server begins no Put in a batch's last half second, so one with less than this goes alone.
const SHORTEST_TIMEOUT_MS = 1000;
// How long a server that knows no PutBatch is sent none.
const OLD_SERVER_MS = 60_000;
const MAX_SLOW_SESSIONS = 10_000;
// What may be true of Puts together, and of none by itself. Nothing was done.
const SPLITS_THE_BATCH: readonly StatusCode[] = [
  "INVALID_ARGUMENT",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "UNIMPLEMENTED",
];
const PUTS_TAG = (PutBatchRequestSchema.field.puts.number << 3) | 2; // Length-delimited.

/**
 * Makes the first attempt of a client's Puts. One that finds none of its token under way goes at once and by itself;
 * others are gathered. Each keeps its request id, so that its further attempts are its own.
 */
export class PutGatherer {
  private readonly lines = new Map<string, Line>();
  // Sessions whose Puts wait for models, and others must not wait for them.
  private readonly slow = new Set<string>();
  private readonly server: KnownServer;

  /** `attempt` makes an attempt of any call, and `repeats` says whether a refused Put is made again when it may be. */
  constructor(attempt: Unary, repeats: boolean) {
    this.server = { attempt, repeats, oldUntil: -Infinity };
  }

  /** Makes the attempt, or returns undefined: this Put is to be made by itself, and nothing of it was done. */
  async put(put: Put, header: Header, timeoutMs: number, signal?: AbortSignal): Promise<PutResponse | undefined> {
    // One in a trace has a span of its own.
    const isPlain = Object.keys(header).every((name) => name === "authorization");
    const mayBeLong = put.waits || this.slow.has(put.sessionId);
    if (mayBeLong || !isPlain || timeoutMs < SHORTEST_TIMEOUT_MS || isOld(this.server)) return undefined;
    // First, since what throws here must leave no line behind.
    const body = put.encode();
    const token = header["authorization"] ?? "";
    let line = this.lines.get(token);
    if (line === undefined) {
      line = new Line(this.server, header, () => this.lines.delete(token));
      this.lines.set(token, line);
    }
    const reply = await line.put(put.itemCount, body, timeoutMs, signal);
    if (reply?.usage !== undefined) this.remember(put.sessionId);
    return reply;
  }

  private remember(session: string): void {
    this.slow.add(session);
    const [oldest] = this.slow;
    if (this.slow.size > MAX_SLOW_SESSIONS && oldest !== undefined) this.slow.delete(oldest);
  }
}

interface KnownServer {
  readonly attempt: Unary;
  readonly repeats: boolean;
  // Until when it is taken for one that knows no PutBatch.
  oldUntil: number;
}

function isOld({ oldUntil }: KnownServer): boolean {
  return performance.now() < oldUntil;
}

// The Puts of one token.
class Line {
  private waiting: Waiting[] = [];
  private underWay = 0;
  private isDue = false;
  private hurry: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly server: KnownServer,
    private readonly header: Header,
    private readonly onEmpty: () => void,
  ) {}

  put(
    itemCount: number,
    body: Uint8Array,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<PutResponse | undefined> {
    if (this.underWay === 0 && this.waiting.length === 0) return this.counted(() => this.alone(body, timeoutMs, signal));
    const one = new Waiting(itemCount, body, timeoutMs, signal);
    this.waiting.push(one);
    if (!this.isDue) {
      this.isDue = true;
      // After all that came at the same time.
      setImmediate(() => {
        this.isDue = false;
        this.advance(MAX_CALLS);
      });
    }
    return one.reply;
  }

  private alone(body: Uint8Array, timeoutMs: number, signal: AbortSignal | undefined): Promise<PutResponse> {
    return this.server.attempt(MemoryService.method.put, signal, timeoutMs, this.header, body);
  }

  private async counted<T>(make: () => Promise<T>): Promise<T> {
    this.underWay++;
    try {
      return await make();
    } finally {
      this.underWay--;
      this.advance(MAX_CALLS);
    }
  }

  private advance(maxCalls: number): void {
    while (this.waiting.length > 0 && (this.underWay < maxCalls || isOld(this.server))) {
      const taken = this.taken();
      if (isOld(this.server)) for (const one of taken) one.settle(undefined);
      else if (taken.length > 0) void this.counted(() => this.send(taken));
    }
    if (this.waiting.length > 0) {
      this.hurry ??= setTimeout(() => {
        this.hurry = undefined;
        this.advance(Infinity);
      }, LONGEST_WAIT_MS);
      return;
    }
    clearTimeout(this.hurry);
    this.hurry = undefined;
    if (this.underWay === 0) this.onEmpty();
  }

  // Takes from the front what one call holds; those that nobody waits for any more are left out.
  private taken(): Waiting[] {
    const taken: Waiting[] = [];
    let items = 0;
    let bytes = 0;
    let looked = 0;
    for (const one of this.waiting) {
      if (!one.isOver) {
        items += one.itemCount;
        bytes += one.body.length;
        const isFull = taken.length === MAX_PUTS || items > MAX_ITEMS || bytes > MAX_BYTES;
        const [first] = taken;
        if (first !== undefined && (isFull || Math.abs(one.end - first.end) > SAME_END_MS)) break;
        taken.push(one);
      }
      looked++;
    }
    this.waiting.splice(0, looked);
    return taken;
  }

  private async send(taken: readonly Waiting[]): Promise<void> {
    const end = Math.max(...taken.map((one) => one.end));
    const leftMs = Math.max(1, Math.ceil(end - performance.now()));
    const [first] = taken;
    try {
      if (first !== undefined && taken.length === 1) {
        first.settle(await this.alone(first.body, leftMs, first.signal));
        return;
      }
      const request = new BinaryWriter();
      for (const { body } of taken) request.uint32(PUTS_TAG).bytes(body);
      const { putBatch } = MemoryService.method;
      const { outcomes } = await this.server.attempt(putBatch, undefined, leftMs, this.header, request.finish());
      taken.forEach((one, at) => {
        one.settleBy(outcomes[at], at);
      });
    } catch (thrown) {
      for (const one of taken) one.fail(taken.length === 1 ? thrown : this.errorOfEach(errorOf(thrown)));
    }
  }

  // The error of each Put of a batch; undefined if each is to be made by itself.
  private errorOfEach(error: MemorydError): MemorydError | undefined {
    if (error.code === "UNIMPLEMENTED") this.server.oldUntil = performance.now() + OLD_SERVER_MS;
    // Each comes again when it is told to.
    const isTold = this.server.repeats && "retry_after_ms" in error.details;
    if (SPLITS_THE_BATCH.includes(error.code) && !isTold) return undefined;
    return new MemorydError(error.code, error.text, error.reason, error.details, { cause: error });
  }
}

// A Put whose caller waits for `reply`, until `end`.
class Waiting {
  readonly end: number;
  readonly reply: Promise<PutResponse | undefined>;
  isOver = false;
  private resolve!: (reply: PutResponse | undefined) => void;
  private reject!: (error: unknown) => void;
  private readonly timer: ReturnType<typeof setTimeout>;
  private readonly giveUp = (): void => {
    this.fail(new MemorydError("CANCELLED", "the caller has given up the call"));
  };

  constructor(
    readonly itemCount: number,
    readonly body: Uint8Array,
    timeoutMs: number,
    readonly signal: AbortSignal | undefined,
  ) {
    this.end = performance.now() + timeoutMs;
    this.reply = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.timer = setTimeout(() => {
      this.fail(new MemorydError("DEADLINE_EXCEEDED", "the call's time was over before its answer came"));
    }, timeoutMs);
    signal?.addEventListener("abort", this.giveUp);
  }

  settle(reply: PutResponse | undefined): void {
    if (this.isOver) return;
    this.finish();
    this.resolve(reply);
  }

  // By what a batch did, in which this Put has the index `at`.
  settleBy(outcome: PutOutcome | undefined, at: number): void {
    if (outcome?.outcome.case === "reply") this.settle(outcome.outcome.value);
    else if (outcome !== undefined) this.fail(outcomeError(outcome, at));
    else this.fail(new MemorydError("INTERNAL", "the batch has no outcome of this Put"));
  }

  // Without an error the Put is to be made by itself.
  fail(error: unknown): void {
    if (error === undefined) {
      this.settle(undefined);
    } else if (!this.isOver) {
      this.finish();
      this.reject(error);
    }
  }

  private finish(): void {
    this.isOver = true;
    clearTimeout(this.timer);
    this.signal?.removeEventListener("abort", this.giveUp);
  }
}
