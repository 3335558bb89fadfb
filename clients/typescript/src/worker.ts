// Code of the agent that memoryd calls: custom blocks, models and embedders. Over gRPC.
//
//   const worker = new Worker("localhost:50051", { name: "my-worker", models: { shout } });
//   await worker.run();

import type { MessageInitShape } from "@bufbuild/protobuf";
import { create, isMessage, toBinary } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Connection } from "./calls.js";
import { errorOf, MemorydError, numberOf } from "./errors.js";
import type { StatusCode } from "./errors.js";
import type { Message, Part } from "./gen/memoryd/v1/memory_pb.js";
import { MessageSchema, PartSchema } from "./gen/memoryd/v1/memory_pb.js";
import * as wire from "./gen/memoryd/v1/worker_service_pb.js";
import type { ClientOptions } from "./grpc.js";
import { connectionTo } from "./grpc.js";

/** The call that a function of a worker runs for. */
export interface WorkerContext {
  /** Ends with the call's time, when the server no longer needs the result, and when the connection breaks. */
  readonly signal: AbortSignal;
  /** The server's call: `sessionId`, `block`, `jobId`, `traceparent`. */
  readonly call: wire.WorkerCall;
}

/** What a block says: a text, a part, a message, or several of them. Undefined: nothing. */
export type Said = Saying | readonly Saying[] | wire.WorkerContent | undefined;
type Saying = string | Part | Message;
type Later<T> = T | Promise<T>;

/**
 * A custom block: long-term memory of your own for sessions that name it.
 *
 * memoryd stores the state, which is any JSON value, and undefined at first. It repeats a failed `put` with the state from
 * before, so each message counts once. An error fails the call, and the server tries the job again.
 */
export interface Block<State = unknown> {
  /**
   * Takes in messages that left short-term memory, oldest first. Returns the new state; undefined keeps the old one. Leave
   * it out for a block that takes no messages.
   */
  put?(messages: readonly Message[], state: State | undefined, context: WorkerContext): Later<State | undefined>;
  /** Returns the block's text for a context. `messages` are those in short-term memory, then the `input`. */
  get(messages: readonly Message[], state: State | undefined, context: WorkerContext): Later<Said>;
  /**
   * Returns the result of `get`, shorter by at least `tokens`; undefined drops it. Leave it out for a block that cannot be
   * shortened.
   */
  truncate?(content: wire.WorkerContent, tokens: bigint, context: WorkerContext): Later<Said>;
}

/** A custom block whose state is bytes, empty at first. */
export interface BytesBlock extends Block<Uint8Array> {
  readonly stateIsBytes: true;
}

/** What a call has used of a model; by default one call. */
export interface CallUsage {
  readonly calls?: number | bigint;
  readonly promptTokens?: number | bigint;
  readonly completionTokens?: number | bigint;
}

/** The answer of a model. */
export interface Answer {
  readonly text: string;
  /**
   * Why the answer ends, as the model's API says. Of an answer that ends by `length` nothing becomes memory; the model is
   * asked again with more tokens. Without it the answer is whole.
   */
  readonly finishReason?: string | undefined;
  readonly usage?: CallUsage | undefined;
}

/**
 * Completes a chat, oldest message first. `maxTokens` is the most tokens of the answer. 0n: no limit; APIs take no 0, so
 * leave it out of their call.
 */
export type Model = (messages: readonly Message[], maxTokens: bigint, context: WorkerContext) => Later<string | Answer>;

/** The answer of an embedder. */
export interface Embeddings {
  /** One vector for each text, in order. */
  readonly vectors: readonly (readonly number[])[];
  readonly usage?: CallUsage | undefined;
}

/** Returns one vector for each text, in order. */
export type Embedder = (
  texts: readonly string[],
  purpose: "text" | "query",
  context: WorkerContext,
) => Later<Embeddings | readonly (readonly number[])[]>;

/** What a worker serves, by name, and how it connects. */
export interface WorkerOptions extends Pick<ClientOptions, "tls" | "token"> {
  /** Workers of one name share the calls and must serve the same. */
  readonly name: string;
  readonly blocks?: Readonly<Record<string, Block>> | undefined;
  readonly models?: Readonly<Record<string, Model>> | undefined;
  readonly embedders?: Readonly<Record<string, Embedder>> | undefined;
  /** The most calls in parallel, at most 256; by default 8. */
  readonly maxConcurrentCalls?: number | undefined;
  /** Is told of broken connections and failed calls; by default console.warn is. */
  readonly log?: ((text: string, error: unknown) => void) | undefined;
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5000;
// What another try does not change.
const FOR_GOOD: readonly StatusCode[] = ["INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"];
const MAX_ERROR_CHARACTERS = 250; // Of at most four bytes each; the server takes 1,000 bytes.

/**
 * Serves blocks, models and embedders to one memoryd. It opens the connection, so it needs no port, and makes a broken one
 * again. Where there are credentials, the token needs the right `worker`.
 */
export class Worker {
  private readonly connection: Connection;
  private readonly closing = new AbortController();
  private running: Promise<void> | undefined;
  private greet: () => void = () => undefined;
  private readonly attached = new Promise<void>((resolve) => {
    this.greet = resolve;
  });

  /** `target` is as for Client, also without one. */
  constructor(
    target: string | undefined,
    private readonly options: WorkerOptions,
  ) {
    const { tls, token } = options;
    const [connection, found] = connectionTo(target, { tls, token });
    this.connection = connection;
    this.options = { ...options, token: found.token };
  }

  /** Serves until `close()`, or until `signal` ends. Throws MemorydError when the server refuses the worker for good. */
  async run({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (this.running !== undefined) throw new Error("a worker starts once");
    const close = (): void => {
      this.closing.abort();
    };
    signal?.addEventListener("abort", close);
    if (signal?.aborted === true) close();
    this.running = this.serve();
    try {
      await this.running;
    } finally {
      signal?.removeEventListener("abort", close);
      this.connection.close();
    }
  }

  /** Serves from now on, and returns once the server has taken the worker. Throws as `run` does. */
  async start(): Promise<this> {
    const running = this.run();
    await Promise.race([this.attached, running]);
    running.catch((error: unknown) => {
      this.log("serves no more", error);
    });
    return this;
  }

  /** Detaches. The signals of calls under way end; the server gives them to other workers, or tries them again. */
  async close(): Promise<void> {
    this.closing.abort();
    await this.running?.catch(() => undefined);
  }

  /** Closes the worker at the end of a block `await using worker = …`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  private async serve(): Promise<void> {
    const { signal } = this.closing;
    let pause = FIRST_PAUSE_MS;
    while (!signal.aborted) {
      const stream = new Stream(this.options, this.greet, (text, error) => {
        this.log(text, error);
      });
      try {
        await stream.serve(this.connection, signal);
      } catch (thrown) {
        if (isAborted(signal)) return;
        const error = errorOf(thrown);
        if (FOR_GOOD.includes(error.code)) throw error;
        this.log("not attached", error);
      }
      if (stream.limit > 0n) pause = FIRST_PAUSE_MS;
      // Half to one and a half of the pause, so that many workers don't return as one.
      await pausing(pause * (0.5 + Math.random()), signal);
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    }
  }

  private log(text: string, error: unknown): void {
    const { name, log = console.warn } = this.options;
    log(`memoryd: worker ${name}: ${text}`, error);
  }
}

/** One connection of a worker, from hello to its end. */
class Stream {
  /** The most bytes of a message to the server. 0n: it has not taken the worker yet. */
  limit = 0n;
  private readonly outgoing = new Outgoing<MessageInitShape<typeof wire.AttachRequestSchema>>();
  private readonly calls = new Map<bigint, AbortController>();

  constructor(
    private readonly options: WorkerOptions,
    private readonly greet: () => void,
    private readonly log: (text: string, error: unknown) => void,
  ) {}

  async serve({ transport }: Connection, closing: AbortSignal): Promise<void> {
    const { token } = this.options;
    const given = typeof token === "function" ? await token() : token;
    const header: Record<string, string> = given === undefined ? {} : { authorization: `Bearer ${given}` };
    this.outgoing.push({ kind: { case: "hello", value: this.hello() } });
    try {
      const method = wire.WorkerService.method.attach;
      const opened = await transport.stream(method, closing, undefined, header, this.outgoing);
      for await (const { kind } of opened.message) {
        if (kind.case === "welcome") {
          this.limit = kind.value.maxMessageBytes;
          this.greet();
        } else if (kind.case === "call") {
          void this.answer(kind.value);
        } else if (kind.case === "cancel") {
          this.calls.get(kind.value.callId)?.abort(new MemorydError("CANCELLED", "cancelled"));
        }
        // After a drain the server still sends what current work needs, then ends the stream.
      }
    } finally {
      this.outgoing.end();
      for (const one of this.calls.values()) one.abort(new MemorydError("CANCELLED", "the connection has ended"));
    }
  }

  private hello(): MessageInitShape<typeof wire.WorkerHelloSchema> {
    const { name, blocks = {}, models = {}, embedders = {}, maxConcurrentCalls = 8 } = this.options;
    return {
      name,
      blocks: Object.entries(blocks).map(([block, does]) => ({
        name: block,
        takesMessages: "put" in does,
        truncates: "truncate" in does,
      })),
      models: Object.keys(models),
      embedders: Object.keys(embedders),
      maxConcurrentCalls,
    };
  }

  // Runs the function of a call. Whatever comes of it, the server waits for an answer.
  private async answer(call: wire.WorkerCall): Promise<void> {
    const { callId } = call;
    const ends = new AbortController();
    this.calls.set(callId, ends);
    const timer = setTimeout(() => {
      ends.abort(new MemorydError("DEADLINE_EXCEEDED", "took too long"));
    }, call.timeout === undefined ? 0 : durationMs(call.timeout));
    const { signal } = ends;
    // A function that does not heed the signal is not waited for.
    const ended = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => {
        reject(signal.reason as Error);
      });
    });
    let request: wire.AttachRequest;
    try {
      const result = await Promise.race([this.result(call, { signal, call }), ended]);
      request = create(wire.AttachRequestSchema, { kind: { case: "result", value: { ...result, callId } } });
      if (toBinary(wire.AttachRequestSchema, request).length > this.limit) {
        throw new MemorydError("RESOURCE_EXHAUSTED", `the answer is larger than ${String(this.limit)} bytes`);
      }
    } catch (error) {
      if (!signal.aborted) this.log("a call failed", error);
      request = failed(callId, error);
    } finally {
      clearTimeout(timer);
      this.calls.delete(callId);
    }
    this.outgoing.push(request);
  }

  private async result(
    { call, block: name }: wire.WorkerCall,
    context: WorkerContext,
  ): Promise<MessageInitShape<typeof wire.WorkerResultSchema>> {
    const { blocks = {}, models = {}, embedders = {} } = this.options;
    switch (call.case) {
      case "put": {
        const block = served("block", name, blocks);
        if (block.put === undefined) throw new MemorydError("NOT_FOUND", "the block takes no messages");
        const state = await block.put(call.value.messages, stateOf(block, call.value.state), context);
        return { result: { case: "put", value: state === undefined ? {} : { state: bytesOf(block, state) } } };
      }
      case "get": {
        const block = served("block", name, blocks);
        const said = await block.get(call.value.messages, stateOf(block, call.value.state), context);
        return { result: { case: "content", value: contentOf(said) } };
      }
      case "truncate": {
        const block = served("block", name, blocks);
        const content = call.value.content ?? create(wire.WorkerContentSchema);
        const said = await block.truncate?.(content, call.value.tokenCount, context);
        return { result: { case: "content", value: contentOf(said) } };
      }
      case "complete": {
        const { model, messages, maxTokenCount } = call.value;
        const given = await served("model", model, models)(messages, maxTokenCount, context);
        const { text, finishReason = "", usage } = typeof given === "string" ? { text: given } : given;
        return { usage: usageOf(usage), result: { case: "complete", value: { text, finishReason } } };
      }
      case "embed": {
        const { embedder, texts, purpose } = call.value;
        const use = purpose === wire.EmbedPurpose.QUERY ? "query" : "text";
        const given = await served("embedder", embedder, embedders)(texts, use, context);
        const { vectors, usage } = "vectors" in given ? given : { vectors: given };
        const made = vectors.map((values) => ({ values: [...values] }));
        return { usage: usageOf(usage), result: { case: "embed", value: { vectors: made } } };
      }
      default:
        throw new MemorydError("UNIMPLEMENTED", "this version of the client does not know such calls");
    }
  }
}

// What a stream sends, as it comes.
class Outgoing<T> implements AsyncIterable<T> {
  private readonly waiting: T[] = [];
  private isOver = false;
  private wake: () => void = () => undefined;

  push(value: T): void {
    this.waiting.push(value);
    this.wake();
  }

  end(): void {
    this.isOver = true;
    this.wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (;;) {
      const [next] = this.waiting.splice(0, 1);
      if (next !== undefined) {
        yield next;
        continue;
      }
      if (this.isOver) return;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }
}

function served<T>(kind: string, name: string, all: Readonly<Record<string, T>>): T {
  const found = Object.hasOwn(all, name) ? all[name] : undefined;
  if (found === undefined) throw new MemorydError("NOT_FOUND", `the worker serves no ${kind} ${JSON.stringify(name)}`);
  return found;
}

function isOfBytes(block: object): boolean {
  return "stateIsBytes" in block && block.stateIsBytes === true;
}

function stateOf(block: Block, state: Uint8Array): unknown {
  if (state.length === 0) return undefined;
  return isOfBytes(block) ? state : (JSON.parse(new TextDecoder().decode(state)) as unknown);
}

function bytesOf(block: Block, state: unknown): Uint8Array {
  return isOfBytes(block) ? (state as Uint8Array) : new TextEncoder().encode(JSON.stringify(state));
}

function contentOf(said: Said): MessageInitShape<typeof wire.WorkerContentSchema> {
  if (said === undefined || said === "") return {};
  if (isMessage(said, wire.WorkerContentSchema)) return said;
  const parts: MessageInitShape<typeof PartSchema>[] = [];
  const messages: Message[] = [];
  for (const one of Array.isArray(said) ? (said as readonly Saying[]) : [said as Saying]) {
    if (typeof one === "string") parts.push({ kind: { case: "text", value: one } });
    else if (isMessage(one, MessageSchema)) messages.push(one);
    else parts.push(one);
  }
  return { parts, messages };
}

function usageOf({ calls = 1, promptTokens = 0, completionTokens = 0 }: CallUsage = {}) {
  return {
    calls: BigInt(calls),
    promptTokenCount: BigInt(promptTokens),
    completionTokenCount: BigInt(completionTokens),
  };
}

function failed(callId: bigint, error: unknown): wire.AttachRequest {
  const code = error instanceof MemorydError ? error.code : "UNKNOWN";
  const text = error instanceof MemorydError ? error.text : String(error);
  const message = Array.from(text.toWellFormed()).slice(0, MAX_ERROR_CHARACTERS).join("");
  const value = { callId, result: { case: "error", value: { code: numberOf(code), message } } } as const;
  return create(wire.AttachRequestSchema, { kind: { case: "result", value } });
}

function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

async function pausing(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
    if (signal.aborted) end();
  });
}
