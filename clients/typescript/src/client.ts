// The methods of both clients.

import type { DescMessage, Message as AnyProto, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { create, toBinary } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { CallOptions, Connection, SharedOptions } from "./calls.js";
import { Caller, encoded } from "./calls.js";
import { Context } from "./contexts.js";
import type { UserContext } from "./contexts.js";
import type { AnyMessage } from "./forms.js";
import { placed, stored } from "./forms.js";
import * as blocks from "./gen/memoryd/v1/block_service_pb.js";
import * as itemWire from "./gen/memoryd/v1/item_service_pb.js";
import * as jobs from "./gen/memoryd/v1/job_service_pb.js";
import type { Content, Message, Session } from "./gen/memoryd/v1/memory_pb.js";
import { ContentSchema, MessageSchema, SessionSchema } from "./gen/memoryd/v1/memory_pb.js";
import * as wire from "./gen/memoryd/v1/memory_service_pb.js";
import * as server from "./gen/memoryd/v1/server_service_pb.js";
import * as sessions from "./gen/memoryd/v1/session_service_pb.js";
import { withRequestId } from "./items.js";
import * as users from "./users.js";

export type { AnyMessage } from "./forms.js";

/** The fields of a request but for K, as an object, with the options of the call. */
export type Fields<S extends DescMessage, K extends string = never> = Omit<
  Exclude<MessageInitShape<S>, AnyProto>,
  K | "$typeName" | "$unknown"
> &
  CallOptions;

/** Options of Put: `contents`, `config` and `template` of a new session, `expectedRevision`, `requestId`. */
export type PutOptions = Fields<typeof wire.PutRequestSchema, "sessionId" | "messages" | "wait"> & {
  /**
   * The longest time to wait for the jobs of this Put, in milliseconds. The client's timeout is added to it; a
   * `timeoutMs` given here includes it.
   */
  readonly waitMs?: number | undefined;
};

/** A Put of a batch: the session, its messages, and the options of Put. */
export type BatchedPut = Omit<PutOptions, keyof CallOptions> & {
  readonly sessionId: string;
  readonly messages?: Iterable<AnyMessage> | undefined;
};

/** Options of an item that is stored: `mimeType`, `expectedVersion`, `lifetime`, `search`, `vector`. */
export type PutItemOptions = Omit<Fields<typeof itemWire.ItemPutSchema, "key" | "value">, keyof CallOptions> &
  CallOptions & {
    /** The configuration of the namespace if this call makes it. */
    readonly config?: MessageInitShape<typeof itemWire.NamespaceConfigSchema> | undefined;
    /** The id under which the item is stored once. */
    readonly requestId?: string | undefined;
  };

/** Options of importSession. */
export interface ImportOptions extends CallOptions {
  readonly contents?: Many<Content> | undefined;
  readonly config?: MessageInitShape<typeof sessions.ImportBeginSchema>["config"];
  /** The name of the template at the session's origin. */
  readonly template?: string | undefined;
  readonly createTime?: Date | undefined;
}

/** Options of importNamespace. */
export interface ImportNamespaceOptions extends CallOptions {
  readonly config?: MessageInitShape<typeof itemWire.NamespaceConfigSchema> | undefined;
  readonly createTime?: Date | undefined;
}

/** Several, which may come later. */
export type Many<T> = Iterable<T> | AsyncIterable<T>;

// The server waits no longer for jobs.
const LONGEST_WAIT_MS = 30_000;
// Of one request of an import; a larger item goes alone.
const UPLOADED_ITEMS = 250;
const UPLOADED_BYTES = 512 * 1024;

const Memory = wire.MemoryService.method;
const Sessions = sessions.SessionService.method;
const Jobs = jobs.JobService.method;
const Blocks = blocks.BlockService.method;
const Items = itemWire.ItemService.method;

/**
 * A client of one memoryd. Each method is the RPC of the same name; the comments of the protos have the contracts, with
 * the errors. Every call has a deadline. A failed call throws MemorydError.
 *
 * A call that changes something carries a request id, made by the client unless the caller gives one. A call that fails
 * UNAVAILABLE, or that a stopping server cancels, is repeated until its deadline; the request id keeps it from being done
 * twice. A call that the server refuses with a time to come again is repeated then. `retryJob`, `cancelJob` and
 * `copyNamespace` have no request id: they are sent once, as are imports.
 */
export class MemoryClient {
  private readonly caller: Caller;

  constructor(
    private readonly connection: Connection,
    options: SharedOptions,
  ) {
    this.caller = new Caller(connection, options);
  }

  /** Closes the connection. Calls under way fail. */
  close(): void {
    this.caller.close();
  }

  /** Closes the connection at the end of a block `using memory = …`. */
  [Symbol.dispose](): void {
    this.close();
  }

  // Memory of users.

  /**
   * Puts something to remember about a user into the user's own session. A text counts as said by the user.
   * @throws {MemorydError} FAILED_PRECONDITION `NOT_THE_USERS`: that session is another subject's.
   */
  remember(user: string, messages: string | AnyMessage | readonly (string | AnyMessage)[],
           options: users.RememberOptions = {}): Promise<wire.PutResponse> {
    return users.remember(this, user, messages, options);
  }

  /** Returns what is known about a user that matches `query`, the best first. Empty: nothing is known of the user. */
  recall(user: string, query: string, options: users.RecallOptions = {}): Promise<wire.QueryResponse> {
    return users.recall(this, user, query, options);
  }

  /**
   * Puts the new messages of a conversation with a user, and returns the context for the next model call. Knowledge of
   * the user stands in it, and matching messages of earlier conversations.
   */
  context(user: string, session: string, messages: string | AnyMessage | readonly (string | AnyMessage)[] = [],
          options: users.ContextOptions = {}): Promise<UserContext> {
    return users.context(this, user, session, messages, options);
  }

  // Memory.

  /**
   * Appends messages and contents, all or none. Creates the session if it does not exist. Over gRPC, Puts that are made
   * at the same time are sent together, but those that wait for jobs and those in a trace.
   */
  async put(sessionId: string, messages: Iterable<AnyMessage> = [], options: PutOptions = {}): Promise<wire.PutResponse> {
    const [{ waitMs, ...fields }, call] = split(options);
    const waits = waitMs === undefined ? undefined : Math.min(Math.max(0, waitMs), LONGEST_WAIT_MS);
    if (call.timeoutMs !== undefined && waitMs !== undefined && call.timeoutMs <= waitMs) {
      throw new RangeError(`timeoutMs: ${call.timeoutMs} must be longer than waitMs, ${waitMs}`);
    }
    const request = { ...identified(fields), sessionId, messages: stored(messages), wait: durationOf(waitMs) };
    const timeoutMs = call.timeoutMs ?? this.caller.timeoutMs + (waits ?? 0);
    const put = {
      sessionId,
      itemCount: request.messages.length + (fields.contents?.length ?? 0),
      waits: waitMs !== undefined,
      encode: () => encoded(wire.PutRequestSchema, request),
    };
    return this.caller.unary(Memory.put, request, { ...call, timeoutMs }, true, async (header, leftMs, signal) =>
      this.connection.puts?.put(put, header, leftMs, signal),
    );
  }

  /**
   * Makes up to 1,000 Puts in one call, and returns the outcome of each, in their order. Puts of one session take effect
   * in their order. `putReply` throws the error of one that failed, which is not repeated.
   */
  async putBatch(puts: Iterable<BatchedPut>, call: CallOptions = {}): Promise<wire.PutOutcome[]> {
    // Puts of one session follow each other.
    const waits = new Map<string, number>([["", 0]]);
    const made = Array.from(puts, ({ waitMs, messages = [], ...fields }) => {
      const before = waits.get(fields.sessionId) ?? 0;
      waits.set(fields.sessionId, before + Math.max(0, Math.min(waitMs ?? 0, LONGEST_WAIT_MS)));
      return { ...identified(fields), messages: stored(messages), wait: durationOf(waitMs) };
    });
    const timeoutMs = call.timeoutMs ?? this.caller.timeoutMs + Math.max(...waits.values());
    return (await this.caller.unary(Memory.putBatch, { puts: made }, { ...call, timeoutMs })).outcomes;
  }

  /** Returns the context for the next model call. `input` is the user's next message, by which blocks may choose. */
  async get(sessionId: string, options: Fields<typeof wire.GetRequestSchema, "sessionId"> = {}): Promise<Context> {
    const [fields, call] = split(options);
    return new Context(await this.caller.unary(Memory.get, { ...fields, sessionId }, call));
  }

  /** Iterates over all messages, oldest first unless `order` says otherwise, page by page. */
  getAll(sessionId: string, options: Fields<typeof wire.GetAllRequestSchema, "sessionId"> = {}): AsyncGenerator<Message> {
    return this.pages(Memory.getAll, { pageSize: 1000, ...options, sessionId }, (page) => page.messages);
  }

  /** Iterates over all contents. The pages of the messages come before them and are fetched too. */
  getAllContents(
    sessionId: string,
    options: Fields<typeof wire.GetAllRequestSchema, "sessionId" | "includeContents"> = {},
  ): AsyncGenerator<Content> {
    const request = { pageSize: 1000, ...options, sessionId, includeContents: true };
    return this.pages(Memory.getAll, request, (page) => page.contents);
  }

  /** Iterates over all messages that are stored now, as a stream. Without `timeoutMs` there is no deadline. */
  async *streamAll(
    sessionId: string,
    options: Fields<typeof wire.StreamAllRequestSchema, "sessionId"> = {},
  ): AsyncGenerator<Message> {
    const [fields, call] = split(options);
    const pages = this.caller.stream(
      Memory.streamAll,
      { ...fields, sessionId },
      (request, page) => ({ ...request, pageToken: page.nextPageToken }),
      (page) => page.nextPageToken === "",
      call,
    );
    for await (const page of pages) yield* page.messages;
  }

  /** Returns the number of messages, or of those that pass `filter`. */
  async countMessages(
    sessionId: string,
    options: Fields<typeof wire.GetAllRequestSchema, "sessionId" | "pageSize" | "includeTotal"> = {},
  ): Promise<bigint> {
    const [fields, call] = split(options);
    const request = { ...fields, sessionId, pageSize: 1, includeTotal: true };
    return (await this.caller.unary(Memory.getAll, request, call)).totalCount ?? 0n;
  }

  /** Replaces all messages and contents, atomically. */
  async set(
    sessionId: string,
    messages: Iterable<AnyMessage>,
    options: Fields<typeof wire.SetRequestSchema, "sessionId" | "messages"> = {},
  ): Promise<wire.SetResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Memory.set, { ...identified(fields), sessionId, messages: stored(messages) }, call);
  }

  /** Removes messages, atomically. `scope` says which, and whether contents and blocks are reset too. */
  async reset(
    sessionId: string,
    scope: wire.ResetScope = wire.ResetScope.UNSPECIFIED,
    options: Fields<typeof wire.ResetRequestSchema, "sessionId" | "scope"> = {},
  ): Promise<wire.ResetResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Memory.reset, { ...identified(fields), sessionId, scope }, call);
  }

  /** Changes a message in place. Fields that are not given stay. */
  async updateMessage(
    sessionId: string,
    messageId: string,
    options: Fields<typeof wire.UpdateMessageRequestSchema, "sessionId" | "messageId">,
  ): Promise<wire.UpdateMessageResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Memory.updateMessage, { ...identified(fields), sessionId, messageId }, call);
  }

  /** Deletes a message. */
  async deleteMessage(
    sessionId: string,
    messageId: string,
    options: Fields<typeof wire.DeleteMessageRequestSchema, "sessionId" | "messageId"> = {},
  ): Promise<wire.DeleteMessageResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Memory.deleteMessage, { ...identified(fields), sessionId, messageId }, call);
  }

  /** Returns a content. */
  async getContent(sessionId: string, contentId: string, call: CallOptions = {}): Promise<Content> {
    const reply = await this.caller.unary(Memory.getContent, { sessionId, contentId }, call);
    return reply.content ?? create(ContentSchema);
  }

  /** Changes a content in place. Fields that are not given stay. */
  async updateContent(
    sessionId: string,
    contentId: string,
    options: Fields<typeof wire.UpdateContentRequestSchema, "sessionId" | "contentId">,
  ): Promise<wire.UpdateContentResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Memory.updateContent, { ...identified(fields), sessionId, contentId }, call);
  }

  /** Deletes a content. */
  async deleteContent(
    sessionId: string,
    contentId: string,
    options: Fields<typeof wire.DeleteContentRequestSchema, "sessionId" | "contentId"> = {},
  ): Promise<wire.DeleteContentResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Memory.deleteContent, { ...identified(fields), sessionId, contentId }, call);
  }

  /** Searches a session: `results` has the hits, the best first. */
  async query(
    sessionId: string,
    query: string,
    options: Fields<typeof wire.QueryRequestSchema, "sessionId" | "query"> = {},
  ): Promise<wire.QueryResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Memory.query, { ...fields, sessionId, query }, call);
  }

  /** Returns the messages with memory inserted. Stores nothing. */
  async updateContext(
    sessionId: string,
    messages: Iterable<AnyMessage>,
    options: Fields<typeof wire.UpdateContextRequestSchema, "sessionId" | "messages"> = {},
  ): Promise<Context<wire.UpdateContextResponse>> {
    const [fields, call] = split(options);
    const request = { ...fields, sessionId, messages: stored(messages) };
    return new Context(await this.caller.unary(Memory.updateContext, request, call));
  }

  // Sessions.

  /** Creates a session. */
  async createSession(
    sessionId: string,
    config?: MessageInitShape<typeof sessions.CreateSessionRequestSchema>["config"],
    options: Fields<typeof sessions.CreateSessionRequestSchema, "sessionId" | "config"> = {},
  ): Promise<Session> {
    const [fields, call] = split(options);
    const request = { ...identified(fields), sessionId, ...given("config", config) };
    return sessionIn(await this.caller.unary(Sessions.createSession, request, call));
  }

  /** Returns a session's configuration and counts. */
  async getSession(sessionId: string, call: CallOptions = {}): Promise<Session> {
    return sessionIn(await this.caller.unary(Sessions.getSession, { sessionId }, call));
  }

  /** Iterates over sessions, by id unless `order` says otherwise. */
  listSessions(options: Fields<typeof sessions.ListSessionsRequestSchema> = {}): AsyncGenerator<Session> {
    return this.pages(Sessions.listSessions, { pageSize: 1000, ...options }, (page) => page.sessions);
  }

  /** Yields what changes in a session until it is deleted. Without `timeoutMs` there is no deadline. */
  watchSession(
    sessionId: string,
    options: Fields<typeof sessions.WatchSessionRequestSchema, "sessionId"> = {},
  ): AsyncGenerator<sessions.WatchSessionResponse, void, undefined> {
    const [fields, call] = split(options);
    return this.caller.stream(
      Sessions.watchSession,
      { ...fields, sessionId },
      (request, news) => ({ ...request, afterRevision: news.revision }),
      (news) => news.changes.includes(sessions.SessionChange.DELETED),
      call,
    );
  }

  /** Changes a session's configuration. Fields that are not given stay. */
  async updateSession(
    sessionId: string,
    config: MessageInitShape<typeof sessions.UpdateSessionRequestSchema>["config"],
    options: Fields<typeof sessions.UpdateSessionRequestSchema, "sessionId" | "config"> = {},
  ): Promise<Session> {
    const [fields, call] = split(options);
    const request = { ...identified(fields), sessionId, ...given("config", config) };
    return sessionIn(await this.caller.unary(Sessions.updateSession, request, call));
  }

  /** Deletes a session and everything that belongs to it. */
  async deleteSession(
    sessionId: string,
    options: Fields<typeof sessions.DeleteSessionRequestSchema, "sessionId"> = {},
  ): Promise<sessions.DeleteSessionResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Sessions.deleteSession, { ...identified(fields), sessionId }, call);
  }

  /** Copies a session, whole or up to a message, to a new session. */
  async forkSession(
    sessionId: string,
    newSessionId: string,
    options: Fields<typeof sessions.ForkSessionRequestSchema, "sessionId" | "newSessionId"> = {},
  ): Promise<sessions.ForkSessionResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Sessions.forkSession, { ...identified(fields), sessionId, newSessionId }, call);
  }

  /**
   * Makes a session as it was elsewhere, whole or not at all. It keeps ids, positions, times, status and writers. Is sent
   * once, and has no deadline unless `timeoutMs` sets one. What an iterable throws is thrown, and no session is made.
   */
  async importSession(sessionId: string, messages: Many<AnyMessage> = [], options: ImportOptions = {}): Promise<Session> {
    const [{ contents = [], config, template = "", createTime }, call] = split(options);
    const begin = { sessionId, template, ...given("config", config), ...time(createTime) };
    async function* requests(): AsyncGenerator<MessageInitShape<typeof sessions.ImportSessionRequestSchema>> {
      yield { step: { case: "begin", value: begin } };
      let messageCount = 0n;
      for await (const some of inGroups(placed(messages), MessageSchema)) {
        messageCount += BigInt(some.length);
        yield { step: { case: "items", value: { messages: some } } };
      }
      let contentCount = 0n;
      for await (const some of inGroups(contents, ContentSchema)) {
        contentCount += BigInt(some.length);
        yield { step: { case: "items", value: { contents: some } } };
      }
      yield { step: { case: "end", value: { messageCount, contentCount } } };
    }
    return sessionIn(await this.caller.upload(Sessions.importSession, requests(), call));
  }

  /** Removes all sessions and namespaces of a subject. Repeat it until `purged` is true. */
  async eraseSubject(
    subject: string,
    options: Fields<typeof sessions.EraseSubjectRequestSchema, "subject"> = {},
  ): Promise<sessions.EraseSubjectResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Sessions.eraseSubject, { ...fields, subject }, call);
  }

  // Jobs.

  /** Iterates over all jobs of a session, by block and then in the order in which they were made. */
  listJobs(
    sessionId: string,
    options: Fields<typeof jobs.ListJobsRequestSchema, "sessionId"> = {},
  ): AsyncGenerator<jobs.Job> {
    return this.pages(Jobs.listJobs, { pageSize: 1000, ...options, sessionId }, (page) => page.jobs);
  }

  /** Returns a job. */
  async getJob(sessionId: string, jobId: string, call: CallOptions = {}): Promise<jobs.Job> {
    return jobIn(await this.caller.unary(Jobs.getJob, { sessionId, jobId }, call));
  }

  /** Feeds the messages of a failed or cancelled job to its block again, by a new job. Is sent once. */
  async retryJob(sessionId: string, jobId: string, call: CallOptions = {}): Promise<jobs.Job> {
    return jobIn(await this.caller.unary(Jobs.retryJob, { sessionId, jobId }, call, false));
  }

  /** Gives up an open job. Is sent once. */
  async cancelJob(sessionId: string, jobId: string, call: CallOptions = {}): Promise<jobs.Job> {
    return jobIn(await this.caller.unary(Jobs.cancelJob, { sessionId, jobId }, call, false));
  }

  /** Returns the model usage of the tenant since the server started. */
  async getUsage(call: CallOptions = {}): Promise<jobs.GetUsageResponse> {
    return this.caller.unary(Jobs.getUsage, {}, call);
  }

  // Blocks.

  /** Returns a block and its knowledge. */
  async getBlock(sessionId: string, block: string, call: CallOptions = {}): Promise<blocks.GetBlockResponse> {
    return this.caller.unary(Blocks.getBlock, { sessionId, block }, call);
  }

  /** Iterates over all entries of a `vector` block, oldest first. */
  listBlockEntries(
    sessionId: string,
    block: string,
    options: Fields<typeof blocks.ListBlockEntriesRequestSchema, "sessionId" | "block"> = {},
  ): AsyncGenerator<blocks.BlockEntry> {
    const request = { pageSize: 1000, ...options, sessionId, block };
    return this.pages(Blocks.listBlockEntries, request, (page) => page.entries);
  }

  /** Undoes a change of a block's facts. `change` is its number, from the block's history. */
  async undoBlockChange(
    sessionId: string,
    block: string,
    change: bigint,
    options: Fields<typeof blocks.UndoBlockChangeRequestSchema, "sessionId" | "block" | "change"> = {},
  ): Promise<blocks.UndoBlockChangeResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Blocks.undoBlockChange, { ...identified(fields), sessionId, block, change }, call);
  }

  /** Adds a fact to a `fact-extraction` block; `messageIds` are its evidence. */
  async addFact(
    sessionId: string,
    block: string,
    text: string,
    options: Fields<typeof blocks.AddFactRequestSchema, "sessionId" | "block" | "text"> = {},
  ): Promise<blocks.AddFactResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Blocks.addFact, { ...identified(fields), sessionId, block, text }, call);
  }

  /** Corrects a fact. Its former text goes into the block's history. */
  async updateFact(
    sessionId: string,
    block: string,
    factId: bigint,
    text: string,
    options: Fields<typeof blocks.UpdateFactRequestSchema, "sessionId" | "block" | "factId" | "text"> = {},
  ): Promise<blocks.UpdateFactResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Blocks.updateFact, { ...identified(fields), sessionId, block, factId, text }, call);
  }

  /** Removes a fact; it goes into the block's history. */
  async deleteFact(
    sessionId: string,
    block: string,
    factId: bigint,
    options: Fields<typeof blocks.DeleteFactRequestSchema, "sessionId" | "block" | "factId"> = {},
  ): Promise<blocks.DeleteFactResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Blocks.deleteFact, { ...identified(fields), sessionId, block, factId }, call);
  }

  // Items.

  /** Stores an item, in place of the one of the same key. `value` is bytes, or anything that JSON holds. */
  async putItem(
    namespace: readonly string[],
    key: string,
    value: unknown,
    options: PutItemOptions = {},
  ): Promise<itemWire.ItemWrite> {
    const [{ config, requestId, ...fields }, call] = split(options);
    const put = {
      ...fields,
      key,
      value:
        value instanceof Uint8Array
          ? ({ case: "bytesValue", value } as const)
          : ({ case: "json", value: JSON.stringify(value) } as const),
    };
    const request = { ...identified({ requestId }), namespace: [...namespace], put, ...given("config", config) };
    const reply = await this.caller.unary(Items.putItem, request, call);
    return reply.write ?? create(itemWire.ItemWriteSchema);
  }

  /** Returns an item; undefined if it does not exist or has expired. `itemValue` has its value. */
  async getItem(
    namespace: readonly string[],
    key: string,
    options: Fields<typeof itemWire.ItemGetSchema, "key"> = {},
  ): Promise<itemWire.Item | undefined> {
    const [fields, call] = split(options);
    return (await this.caller.unary(Items.getItem, { namespace: [...namespace], get: { ...fields, key } }, call)).item;
  }

  /** Deletes an item, and returns whether there was one. */
  async deleteItem(
    namespace: readonly string[],
    key: string,
    options: Fields<typeof itemWire.ItemDeleteSchema, "key"> & { readonly requestId?: string | undefined } = {},
  ): Promise<boolean> {
    const [{ requestId, ...fields }, call] = split(options);
    const request = { ...identified({ requestId }), namespace: [...namespace], delete: { ...fields, key } };
    return (await this.caller.unary(Items.deleteItem, request, call)).existed;
  }

  /** Runs batches, and returns the outcome of each, in their order. `batchResults` throws the error of one that failed. */
  async batchItems(
    batches: Iterable<MessageInitShape<typeof itemWire.ItemBatchSchema>>,
    call: CallOptions = {},
  ): Promise<itemWire.ItemBatchOutcome[]> {
    const made = Array.from(batches, (one) => withRequestId(create(itemWire.ItemBatchSchema, one), makeId));
    return (await this.caller.unary(Items.batchItems, { batches: made }, call)).outcomes;
  }

  /** Iterates over the items of a namespace, by key unless `order` says otherwise. */
  listItems(
    namespace: readonly string[],
    options: Fields<typeof itemWire.ListItemsRequestSchema, "namespace"> = {},
  ): AsyncGenerator<itemWire.Item> {
    const request = { pageSize: 100, ...options, namespace: [...namespace] };
    return this.pages(Items.listItems, request, (page) => page.items);
  }

  /** Returns items of all namespaces that begin with a path, by `query`, `vector` and `filterJson`. */
  async searchItems(
    namespacePrefix: readonly string[] = [],
    options: Fields<typeof itemWire.SearchItemsRequestSchema, "namespacePrefix"> = {},
  ): Promise<itemWire.ItemResult[]> {
    const [fields, call] = split(options);
    const request = { limit: 10, ...fields, namespacePrefix: [...namespacePrefix] };
    return (await this.caller.unary(Items.searchItems, request, call)).results;
  }

  /** Returns a namespace's configuration and counts. */
  async getNamespace(namespace: readonly string[], call: CallOptions = {}): Promise<itemWire.Namespace> {
    return namespaceIn(await this.caller.unary(Items.getNamespace, { namespace: [...namespace] }, call));
  }

  /** Makes a namespace, or changes its configuration; fields that are not given stay. */
  async updateNamespace(
    namespace: readonly string[],
    config: MessageInitShape<typeof itemWire.NamespaceConfigSchema>,
    call: CallOptions = {},
  ): Promise<itemWire.Namespace> {
    return namespaceIn(await this.caller.unary(Items.updateNamespace, { namespace: [...namespace], config }, call));
  }

  /** Iterates over the paths of the namespaces that have items, in bytewise order. */
  listNamespaces(options: Fields<typeof itemWire.ListNamespacesRequestSchema> = {}): AsyncGenerator<string[]> {
    const request = { pageSize: 1000, ...options };
    return this.pages(Items.listNamespaces, request, (page) => page.namespaces.map((one) => one.namespace));
  }

  /** Copies a namespace, and with `recursive` all below it. Is sent once, since the copy would be in its own way. */
  async copyNamespace(
    namespace: readonly string[],
    newNamespace: readonly string[],
    options: { readonly recursive?: boolean } & CallOptions = {},
  ): Promise<itemWire.CopyNamespaceResponse> {
    const [fields, call] = split(options);
    const request = { ...fields, namespace: [...namespace], newNamespace: [...newNamespace] };
    return this.caller.unary(Items.copyNamespace, request, call, false);
  }

  /** Deletes a namespace with its items, and with `recursive` all below it. An unknown one is OK. */
  async deleteNamespace(
    namespace: readonly string[],
    options: { readonly recursive?: boolean } & CallOptions = {},
  ): Promise<itemWire.DeleteNamespaceResponse> {
    const [fields, call] = split(options);
    return this.caller.unary(Items.deleteNamespace, { ...fields, namespace: [...namespace] }, call);
  }

  /** Makes a namespace of the items that listItems returned, oldest first and with vectors. As importSession. */
  async importNamespace(
    namespace: readonly string[],
    items: Many<itemWire.Item> = [],
    options: ImportNamespaceOptions = {},
  ): Promise<itemWire.Namespace> {
    const [{ config, createTime }, call] = split(options);
    const begin = { namespace: [...namespace], ...given("config", config), ...time(createTime) };
    async function* requests(): AsyncGenerator<MessageInitShape<typeof itemWire.ImportNamespaceRequestSchema>> {
      yield { step: { case: "begin", value: begin } };
      let itemCount = 0n;
      for await (const some of inGroups(items, itemWire.ItemSchema)) {
        itemCount += BigInt(some.length);
        yield { step: { case: "items", value: { items: some } } };
      }
      yield { step: { case: "end", value: { itemCount } } };
    }
    return namespaceIn(await this.caller.upload(Items.importNamespace, requests(), call));
  }

  /** Returns the server's version, store and limits. */
  async serverInfo(call: CallOptions = {}): Promise<server.GetServerInfoResponse> {
    return this.caller.unary(server.ServerService.method.getServerInfo, {}, call);
  }

  private async *pages<I extends DescMessage, O extends DescMessage, T>(
    method: Parameters<typeof this.caller.unary<I, O>>[0],
    options: MessageInitShape<I> & CallOptions,
    items: (page: MessageShape<O>) => readonly T[],
  ): AsyncGenerator<T> {
    const [fields, call] = split(options);
    let request = fields as MessageInitShape<I>;
    for (;;) {
      const page = await this.caller.unary(method, request, call);
      yield* items(page);
      const { nextPageToken } = page as { nextPageToken?: string };
      if (nextPageToken === undefined || nextPageToken === "") return;
      request = { ...request, pageToken: nextPageToken };
    }
  }
}

// Tells the options of a call from the rest.
function split<T extends CallOptions>(options: T): [Omit<T, keyof CallOptions>, CallOptions] {
  // Fields may be those of a message, which the request is not.
  const { timeoutMs, signal, $typeName: _, $unknown: __, ...fields } = options as T & Partial<AnyProto>;
  return [fields as unknown as Omit<T, keyof CallOptions>, { timeoutMs, signal }];
}

function makeId(): string {
  return globalThis.crypto.randomUUID().replaceAll("-", "");
}

// The id under which a change is done once, however often it is sent.
function identified<T extends { readonly requestId?: string | undefined }>(fields: T): T & { requestId: string } {
  return { ...fields, requestId: fields.requestId ?? makeId() };
}

function given<K extends string, T>(name: K, value: T | undefined): Partial<Record<K, T>> {
  return (value === undefined ? {} : { [name]: value }) as Partial<Record<K, T>>;
}

function time(date: Date | undefined): { createTime?: ReturnType<typeof timestampFromDate> } {
  return date === undefined ? {} : { createTime: timestampFromDate(date) };
}

function durationOf(ms: number | undefined): { seconds: bigint; nanos: number } | undefined {
  if (ms === undefined) return undefined;
  const seconds = Math.trunc(ms / 1000);
  return { seconds: BigInt(seconds), nanos: Math.round((ms - 1000 * seconds) * 1e6) };
}

function sessionIn(reply: { session?: Session | undefined }): Session {
  return reply.session ?? create(SessionSchema);
}

function jobIn(reply: { job?: jobs.Job | undefined }): jobs.Job {
  return reply.job ?? create(jobs.JobSchema);
}

function namespaceIn(reply: { namespace?: itemWire.Namespace | undefined }): itemWire.Namespace {
  return reply.namespace ?? create(itemWire.NamespaceSchema);
}

// Groups of what one request of an import holds.
async function* inGroups<D extends DescMessage>(
  items: Many<MessageShape<D>>,
  schema: D,
): AsyncGenerator<MessageShape<D>[]> {
  let some: MessageShape<D>[] = [];
  let size = 0;
  for await (const item of items) {
    const bytes = toBinary(schema, item).length;
    if (some.length > 0 && (some.length === UPLOADED_ITEMS || size + bytes > UPLOADED_BYTES)) {
      yield some;
      some = [];
      size = 0;
    }
    some.push(item);
    size += bytes;
  }
  if (some.length > 0) yield some;
}
