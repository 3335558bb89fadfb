// One call, with its attempts.

import type { DescMessage, DescMethodStreaming, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { create, toBinary } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { Attempts, sleep, throwIfGivenUp } from "./attempts.js";
import { errorOf, NoRequest } from "./errors.js";
import type { PutGatherer } from "./gathering.js";

/** Options of a single call. */
export interface CallOptions {
  /** Milliseconds that the call may take, with its repetitions; by default the client's. */
  readonly timeoutMs?: number | undefined;
  /** Ends the call, which fails CANCELLED. */
  readonly signal?: AbortSignal | undefined;
}

/** What both kinds of clients are made with. */
export interface SharedOptions {
  /** Milliseconds that a call may take, with its repetitions; by default 10,000. */
  readonly timeoutMs?: number | undefined;
  /**
   * Whether a call waits until its deadline for a server that cannot be reached, by default true. If false nothing is
   * repeated: a call that does not reach the server fails at once.
   */
  readonly waitForReady?: boolean | undefined;
  /** The bearer token, or what returns it. It is asked for at every attempt, so the token may be rotated. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
  /** Returns `traceparent` and `tracestate` of W3C Trace Context, at every attempt. */
  readonly trace?: (() => Readonly<Record<string, string>>) | undefined;
}

/** The headers of an attempt: the token, and the trace. */
export type Header = Readonly<Record<string, string>>;

/** Makes an attempt of a unary call, whose request is encoded. */
export type Unary = <O extends DescMessage>(
  method: DescMethodUnary<DescMessage, O>,
  signal: AbortSignal | undefined,
  timeoutMs: number,
  header: Header,
  body: Uint8Array,
) => Promise<MessageShape<O>>;

/** Makes the first attempt of a call in a way of its own, or returns undefined: nothing was done. */
type FirstAttempt<R> = (
  header: Header,
  timeoutMs: number,
  signal: AbortSignal | undefined,
) => Promise<R | undefined>;

/** A way to a server. */
export interface Connection {
  readonly transport: Transport;
  /** Makes an attempt of a unary call; without it the transport does. */
  readonly unary?: Unary;
  /** Makes the first attempts of Puts; without it they are as other calls. */
  readonly puts?: PutGatherer;
  /** Waits until the server is connected, or throws when there is no way to know. */
  readonly ready: ((attempts: Attempts, signal: AbortSignal | undefined) => Promise<void>) | undefined;
  readonly close: () => void;
}

const DEFAULT_TIMEOUT_MS = 10_000;

/** Makes the calls of a client. */
export class Caller {
  readonly timeoutMs: number;
  private readonly waitForReady: boolean;

  constructor(
    private readonly connection: Connection,
    private readonly options: SharedOptions,
  ) {
    this.timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.waitForReady = options.waitForReady ?? true;
  }

  /** Calls until there is an answer or the time is over. `first` makes the first attempt. */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions,
    isRepeatable = true,
    first?: FirstAttempt<MessageShape<O>>,
  ): Promise<MessageShape<O>> {
    const { signal } = options;
    const timeoutMs = options.timeoutMs ?? this.timeoutMs;
    const attempts = new Attempts({ timeoutMs, waitForReady: this.waitForReady, isRepeatable });
    for (;;) {
      throwIfGivenUp(signal);
      if (!isRepeatable && this.waitForReady) await this.connection.ready?.(attempts, signal);
      try {
        const header = await this.header();
        throwIfGivenUp(signal);
        const begin = first;
        first = undefined;
        const reply = await begin?.(header, attempts.leftMs, signal);
        throwIfGivenUp(signal);
        return reply ?? (await this.attempt(method, signal, attempts.leftMs, header, request));
      } catch (thrown) {
        throwIfGivenUp(signal);
        await sleep(attempts.pause(errorOf(thrown)), signal);
      }
    }
  }

  /**
   * Yields the replies of a stream. One that breaks is begun again with what `goOn` makes of the request after the last
   * reply; `ends` says whether a reply is the last one.
   */
  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O>,
    request: MessageInitShape<I>,
    goOn: (request: MessageInitShape<I>, reply: MessageShape<O>) => MessageInitShape<I>,
    ends: (reply: MessageShape<O>) => boolean,
    options: CallOptions,
  ): AsyncGenerator<MessageShape<O>, void, undefined> {
    const policy = { timeoutMs: this.timeoutMs, waitForReady: this.waitForReady, isRepeatable: true };
    let rest = request;
    let attempts = new Attempts(policy);
    for (;;) {
      throwIfGivenUp(options.signal);
      // Ends the stream when its reader goes.
      const stop = new AbortController();
      const giveUp = (): void => {
        stop.abort();
      };
      options.signal?.addEventListener("abort", giveUp);
      try {
        const header = await this.header();
        const { transport } = this.connection;
        const opened = await transport.stream(method, stop.signal, options.timeoutMs, header, once(rest));
        for await (const reply of opened.message) {
          yield reply;
          if (ends(reply)) return;
          rest = goOn(rest, reply);
          attempts = new Attempts(policy);
        }
        return;
      } catch (thrown) {
        throwIfGivenUp(options.signal);
        await sleep(attempts.pause(errorOf(thrown)), options.signal);
      } finally {
        options.signal?.removeEventListener("abort", giveUp);
        stop.abort();
      }
    }
  }

  /** Sends a stream of requests, once. There is no deadline unless `timeoutMs` sets one. */
  async upload<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O>,
    requests: AsyncIterable<MessageInitShape<I>>,
    options: CallOptions,
  ): Promise<MessageShape<O>> {
    const { signal, timeoutMs } = options;
    throwIfGivenUp(signal);
    const failed: { error?: unknown } = {};
    try {
      const header = await this.header();
      const sent = watched(requests, failed);
      const opened = await this.connection.transport.stream(method, signal, timeoutMs, header, sent);
      let last: MessageShape<O> | undefined;
      for await (const reply of opened.message) last = reply;
      if (last === undefined) throw new Error("the server has sent no reply");
      return last;
    } catch (thrown) {
      throwIfGivenUp(signal);
      if ("error" in failed) throw failed.error;
      throw errorOf(thrown);
    }
  }

  close(): void {
    this.connection.close();
  }

  private async attempt<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number,
    header: Header,
    request: MessageInitShape<I>,
  ): Promise<MessageShape<O>> {
    const { unary, transport } = this.connection;
    if (unary !== undefined) return unary(method, signal, timeoutMs, header, encoded(method.input, request));
    return (await transport.unary(method, signal, timeoutMs, header, request)).message;
  }

  private async header(): Promise<Record<string, string>> {
    const { token, trace } = this.options;
    const header: Record<string, string> = { ...trace?.() };
    const given = typeof token === "function" ? await token() : token;
    if (given !== undefined) header["authorization"] = `Bearer ${given}`;
    return header;
  }
}

/** The bytes of a request. Throws NoRequest for one that its message has no place for. */
export function encoded<I extends DescMessage>(schema: I, request: MessageInitShape<I>): Uint8Array {
  try {
    return toBinary(schema, create(schema, request));
  } catch (error) {
    throw new NoRequest(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

async function* once<T>(value: T): AsyncGenerator<T> {
  yield await Promise.resolve(value);
}

// Keeps what the caller's iterable throws, which ends the upload and is the caller's to see.
async function* watched<T>(requests: AsyncIterable<T>, failed: { error?: unknown }): AsyncGenerator<T> {
  try {
    yield* requests;
  } catch (error) {
    failed.error = error;
    throw error;
  }
}
