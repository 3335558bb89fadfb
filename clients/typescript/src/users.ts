// Memory of users: a fact from one conversation is known in the next. The conventions are those of the Python client,
// where clients/python/src/memoryd/users.py has them:
//
// - Each user has a session, sessionOf(user), with the user as its subject and chatHistoryTokenRatio 0.
// - A conversation is a session of the same subject, with a block `user` of kind `session` that names the user's session.
// - Configurations and templates apply to new sessions. An existing session keeps its own; its subject must be the user.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { clone, create } from "@bufbuild/protobuf";
import type { CallOptions } from "./calls.js";
import type { MemoryClient } from "./client.js";
import type { UserContext } from "./contexts.js";
import { Context } from "./contexts.js";
import { MemorydError } from "./errors.js";
import type { AnyMessage, ProviderMessage } from "./forms.js";
import type { Filter } from "./gen/memoryd/v1/filter_pb.js";
import type { Session, SessionConfig } from "./gen/memoryd/v1/memory_pb.js";
import { BlockSchema, MessageSchema, SessionConfigSchema } from "./gen/memoryd/v1/memory_pb.js";
import type { GetResponse, PutResponse, QueryResponse, QueryResult } from "./gen/memoryd/v1/memory_service_pb.js";
import { GetResponseSchema } from "./gen/memoryd/v1/memory_service_pb.js";
import { hitMessage, hitText, hitTime } from "./hits.js";
import { textOf } from "./messages.js";
import { isHuman } from "./roles.js";
import { sha256 } from "./sha256.js";
import { bytesOf, isUtf8 } from "./wireText.js";

type Config = MessageInitShape<typeof SessionConfigSchema>;
type Given = string | AnyMessage | readonly (string | AnyMessage)[];

/** Options of remember. */
export interface RememberOptions extends CallOptions {
  /** The configuration of the user's own session if this call creates it; an existing one keeps its own. */
  readonly memory?: Config | undefined;
  /** A template on the server instead; `memory` may then have only `timeZone`. */
  readonly memoryTemplate?: string | undefined;
  /** The longest time to wait for the jobs of the Put, in milliseconds. */
  readonly waitMs?: number | undefined;
  readonly requestId?: string | undefined;
}

/** Options of recall. */
export interface RecallOptions extends CallOptions {
  /** The most hits; by default 10. */
  readonly topK?: number | undefined;
  readonly filter?: Filter | undefined;
  /** The most tokens of all hits. */
  readonly tokenBudget?: bigint | undefined;
  /** Cuts long texts to their best passage. */
  readonly passages?: boolean | undefined;
}

/** Options of context. */
export interface ContextOptions extends RememberOptions {
  /** The configuration of the conversation if this call creates it. */
  readonly config?: Config | undefined;
  /** A template on the server instead, without a block `user`; `config` may then have only `timeZone`. */
  readonly template?: string | undefined;
  /** How many messages are recalled at most, by default 5; 0: none. */
  readonly recalled?: number | undefined;
}

const PREFIX = "memoryd.user";
const MAX_ID_BYTES = 256;
// The block of a conversation that shows the user's session.
const BLOCK = "user";
// A session whose configuration changes that often while it is being put to is not put to.
const TRIES = 12;
// Why a Put with a configuration was refused, other than for what it says.
const OTHER_CONFIG = ["CONFIG_MISMATCH", "REVISION_MISMATCH", "REQUEST_ID_REUSED"];
// Of what is recalled unasked.
const MOST_RECALLED = 5;
const LOOKED_AT = 50;
const LEAST_COSINE = 0.3;
const QUERY_CHARACTERS = 8000;
const SHARE_OF_LIMIT = 0.1;
const BYTES_OF_TOKEN = 4;
// What shows nothing, as the server has it: Unicode's property Default_Ignorable_Code_Point.
const INVISIBLE = "\\p{Default_Ignorable_Code_Point}";
const TAGS = ["memoryd_memory", "memoryd_recall", "memoryd_block", "item", "message"]
  .map((tag) => Array.from(tag).join(`${INVISIBLE}*`))
  .join("|");
// A `<` of what a model may read as one of the tags: in any case of letters, with spaces and what does not show.
const TAG = new RegExp(`<(?=[/\\s${INVISIBLE}]*(?:${TAGS}))`, "giu");

/** The id of the user's own session. Throws RangeError for a user that is blank, over 256 bytes, or holds control characters. */
export function sessionOf(user: string): string {
  const plain = checkedUser(user);
  const quoted = Array.from(plain, (one) => (one === "%" || !isPrintable(one) ? percent(one) : one)).join("");
  const named = `${PREFIX}/${quoted}`;
  return bytesOf(named) <= MAX_ID_BYTES ? named : `${PREFIX}#${sha256(plain)}`;
}

/** The configuration of the user's own session: `config` with the user as its subject. */
export function memoryConfig(user: string, config: Config = {}): SessionConfig {
  const made = configOf(user, config, "memory");
  made.chatHistoryTokenRatio ??= 0;
  return made;
}

/** The configuration of a conversation with the user: `config`, and a last block that shows the user's session. */
export function conversationConfig(user: string, config: Config = {}): SessionConfig {
  const made = configOf(user, config, "config");
  const own = sessionOf(user);
  if (!shows(made, own)) {
    if (made.blocks.some(({ name }) => name === BLOCK)) {
      throw new RangeError(`config.blocks: "${BLOCK}" is the name of the block that shows the user's session`);
    }
    made.blocks.push(sessionBlock(own));
  }
  return made;
}

export async function remember(client: MemoryClient, user: string, given: Given, options: RememberOptions): Promise<PutResponse> {
  const own = usersOwn(user, options);
  const messages = messagesOf(given);
  if (messages.length === 0) throw new RangeError("messages: must not be empty. Give a text or a message");
  return (await put(client, own, messages, options)).reply;
}

export async function recall(client: MemoryClient, user: string, query: string, options: RecallOptions): Promise<QueryResponse> {
  const { topK = 10, filter, tokenBudget, passages = false, timeoutMs, signal } = options;
  return client.query(sessionOf(user), query, { topK, filter, tokenBudget, passages, timeoutMs, signal });
}

export async function context(
  client: MemoryClient,
  user: string,
  session: string,
  given: Given,
  options: ContextOptions,
): Promise<UserContext> {
  const own = usersOwn(user, options);
  checkSession(session);
  const conversation = conversationOf(user, session, options);
  const messages = messagesOf(given);
  const { timeoutMs, signal, recalled = MOST_RECALLED } = options;
  const call = { timeoutMs, signal };
  await make(client, own, call);
  const { config } = await put(client, conversation, messages, options);
  const reply = clone(GetResponseSchema, (await client.get(session, call)).reply);
  const asked = newestQuestion(reply);
  const question = asked === undefined ? undefined : reply.messages[asked];
  if (asked === undefined || question === undefined || recalled < 1) return contextOf(reply, []);
  const query = Array.from(textOf(question)).slice(0, QUERY_CHARACTERS).join("");
  const found = await client.query(session, query, {
    ...call,
    topK: LOOKED_AT,
    passages: true,
    vectorThreshold: LEAST_COSINE,
    withoutBlocks: true,
  });
  const hits = worthTelling(found.results, reply, session, recalled);
  if (hits.length > 0) insert(reply, asked, recallText(hits, config.timeZone ?? ""));
  return contextOf(reply, hits);
}

function contextOf(reply: GetResponse, recalled: readonly QueryResult[]): UserContext {
  return Object.assign(new Context(reply), { recalled });
}

// A session of a user's, and what it is made of where there is none. `shown` is the session that a conversation shows.
interface Wanted {
  readonly sessionId: string;
  readonly config: SessionConfig;
  readonly template: string;
  readonly shown?: string;
}

function usersOwn(user: string, options: RememberOptions): Wanted {
  const { memory, memoryTemplate: template = "" } = options;
  checkTemplate(template, memory, "memory");
  const config = template === "" ? memoryConfig(user, memory) : configOf(user, memory, "memory");
  return { sessionId: sessionOf(user), config, template };
}

function conversationOf(user: string, sessionId: string, options: ContextOptions): Wanted {
  const { config: given, template = "" } = options;
  checkTemplate(template, given, "config");
  const config = template === "" ? conversationConfig(user, given) : configOf(user, given, "config");
  return { sessionId, config, template, shown: sessionOf(user) };
}

// Whether the session is to have a block that its template has not.
function isMadeInSteps(wanted: Wanted): boolean {
  return wanted.template !== "" && wanted.shown !== undefined;
}

// Puts to a session that is the user's. The configuration goes along, which makes the session where there is none and has
// the Put refused where another one is in force: it is never put to a session that is somebody else's by then.
async function put(
  client: MemoryClient,
  wanted: Wanted,
  messages: readonly AnyMessage[],
  options: RememberOptions,
): Promise<{ reply: PutResponse; config: SessionConfig }> {
  const { timeoutMs, signal, waitMs } = options;
  const call = { timeoutMs, signal };
  const requestId = options.requestId ?? globalThis.crypto.randomUUID().replaceAll("-", "");
  let { config, template } = await first(client, wanted, call);
  let revision: bigint | undefined;
  for (let attempt = 0; ; ++attempt) {
    try {
      const own = revision === undefined ? { config, template } : { template, expectedRevision: revision };
      const reply = await client.put(wanted.sessionId, messages, { ...call, ...own, waitMs, requestId });
      return { reply, config };
    } catch (error) {
      // An id is reused too where an earlier try was done with another form of the configuration than this one.
      const isOther = error instanceof MemorydError && OTHER_CONFIG.includes(error.reason);
      if (!isOther || attempt === TRIES - 1) throw error;
    }
    revision = undefined;
    const session = await found(client, wanted, call);
    if (session === undefined) {
      ({ config, template } = await first(client, wanted, call)); // It was deleted meanwhile.
      continue;
    }
    config = checked(session, wanted);
    template = "";
    // One that a server of a later version understands better than this client.
    if (attempt % 2 === 1) revision = session.revision;
  }
}

// The configuration and the template to put with first.
async function first(
  client: MemoryClient,
  wanted: Wanted,
  call: CallOptions,
): Promise<{ config: SessionConfig; template: string }> {
  if (!isMadeInSteps(wanted)) return wanted;
  // A Put would make it without its block.
  return { config: await make(client, wanted, call), template: "" };
}

async function found(client: MemoryClient, wanted: Wanted, call: CallOptions): Promise<Session | undefined> {
  try {
    return await client.getSession(wanted.sessionId, call);
  } catch (error) {
    if (error instanceof MemorydError && error.code === "NOT_FOUND") return undefined;
    throw error;
  }
}

// Makes the session where there is none. Returns the configuration in force.
async function make(client: MemoryClient, wanted: Wanted, call: CallOptions): Promise<SessionConfig> {
  for (let attempt = 0; ; ++attempt) {
    const isLast = attempt === TRIES - 1;
    let session = await found(client, wanted, call);
    const isNew = session === undefined;
    if (session === undefined) {
      try {
        session = await client.createSession(wanted.sessionId, wanted.config, { ...call, template: wanted.template });
      } catch (error) {
        if (!(error instanceof MemorydError) || error.reason !== "SESSION_EXISTS" || isLast) throw error;
        continue; // Another process was faster.
      }
    }
    if (!lacksItsBlock(session, wanted)) return checked(session, wanted);
    const expectedRevision = session.revision;
    if (session.config?.blocks.some(({ name }) => name === BLOCK) === true) {
      // Nobody asked for a session that shows no user.
      if (isNew) await client.deleteSession(wanted.sessionId, { ...call, expectedRevision });
      throw new RangeError(`template: "${wanted.template}" has a block "${BLOCK}", the name of that which shows the user's session`);
    }
    const blocks = [...(session.config?.blocks ?? []), sessionBlock(wanted.shown ?? "")];
    try {
      return checked(await client.updateSession(wanted.sessionId, { blocks }, { ...call, expectedRevision }), wanted);
    } catch (error) {
      const isChanged =
        error instanceof MemorydError && (error.reason === "REVISION_MISMATCH" || error.code === "NOT_FOUND");
      if (!isChanged || isLast) throw error;
    }
  }
}

// Whether it was made from the template for this conversation and nothing came of it since.
function lacksItsBlock(session: Session, wanted: Wanted): boolean {
  const { config, activeCount, archivedCount, contentCount } = session;
  return (
    isMadeInSteps(wanted) &&
    config !== undefined &&
    session.template === wanted.template &&
    config.subject === wanted.config.subject &&
    activeCount + archivedCount + contentCount === 0n &&
    !shows(config, wanted.shown ?? "")
  );
}

// The configuration in force of a session that is the user's.
function checked(session: Session, wanted: Wanted): SessionConfig {
  const { config, sessionId } = session;
  const { shown } = wanted;
  const isTheUsers = config?.subject === wanted.config.subject;
  if (config !== undefined && isTheUsers && (shown === undefined || shows(config, shown))) return config;
  const text =
    shown === undefined
      ? `session: "${sessionId}" is there and its subject is not the user`
      : `session: "${sessionId}" is there and not a conversation with this user. Give another session`;
  throw new MemorydError("FAILED_PRECONDITION", text, "NOT_THE_USERS", { field: "session" });
}

function shows(config: SessionConfig, sessionId: string): boolean {
  return config.blocks.some(({ kind, optionsJson }) => {
    if (kind !== "session") return false;
    const options = JSON.parse(optionsJson === "" ? "{}" : optionsJson) as { session_id?: unknown };
    return options.session_id === sessionId;
  });
}

function sessionBlock(sessionId: string): SessionConfig["blocks"][number] {
  return create(BlockSchema, { name: BLOCK, kind: "session", optionsJson: JSON.stringify({ session_id: sessionId }) });
}

function configOf(user: string, given: Config = {}, field: string): SessionConfig {
  const plain = checkedUser(user);
  const made = clone(SessionConfigSchema, create(SessionConfigSchema, given));
  if (made.subject !== undefined && made.subject !== plain) {
    throw new RangeError(`${field}.subject: must be the user; got "${made.subject}". Leave it out`);
  }
  made.subject = plain;
  return made;
}

// Throws where `config` says what the template says: the server would refuse it by the name of another argument.
function checkTemplate(template: string, config: Config | undefined, field: string): void {
  if (template === "" || config === undefined) return;
  const beside = ["$typeName", "$unknown", "subject", "timeZone"];
  const other = Object.entries(config).find(
    ([name, value]) => !beside.includes(name) && value !== undefined && value !== "" && !isEmpty(value) && value !== 0,
  );
  if (other !== undefined) {
    throw new RangeError(`${field}: may have subject and timeZone alone beside a template; got ${other[0]}`);
  }
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function checkedUser(user: string): string {
  if (typeof user !== "string") throw new TypeError("user: must be a string that names one user");
  if (user.trim() === "") throw new RangeError("user: must name one user");
  // Joiners are letters' own in Persian and Indic names: the server decides.
  if (!isUtf8(user) || /[\p{Cc}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/u.test(user)) {
    throw new RangeError("user: must not hold control or invisible characters, nor half ones");
  }
  if (bytesOf(user) > MAX_ID_BYTES) throw new RangeError(`user: must be at most ${MAX_ID_BYTES} bytes of UTF-8`);
  return user;
}

function isPrintable(character: string): boolean {
  return character === " " || !/[\p{C}\p{Z}]/u.test(character);
}

function percent(character: string): string {
  const bytes = new TextEncoder().encode(character);
  return Array.from(bytes, (byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("");
}

function checkSession(session: string): void {
  if (typeof session !== "string" || session.trim() === "" || !isUtf8(session)) {
    throw new RangeError("session: must name one conversation");
  }
  if (session.startsWith(`${PREFIX}/`) || session.startsWith(`${PREFIX}#`)) {
    throw new RangeError("session: is the name of a user's own session. Give the conversation another, or use remember");
  }
}

function messagesOf(given: Given): AnyMessage[] {
  if (typeof given === "string") return [saidByUser(given, "messages")];
  if (!Array.isArray(given)) return [given as AnyMessage];
  return (given as readonly (string | AnyMessage)[]).map((one, index) =>
    typeof one === "string" ? saidByUser(one, `messages[${index}]`) : one,
  );
}

function saidByUser(text: string, field: string): ProviderMessage {
  if (text.trim() === "") throw new RangeError(`${field}: must not be blank. Leave it out`);
  return { role: "user", content: text };
}

// The place of the newest message of a human that has words.
function newestQuestion(reply: GetResponse): number | undefined {
  const at = reply.messages.findLastIndex(
    (one) => one.messageId !== "" && isHuman(one.role) && textOf(one).trim() !== "",
  );
  return at < 0 ? undefined : at;
}

// The best hits that the context does not hold, the oldest first.
function worthTelling(results: readonly QueryResult[], reply: GetResponse, session: string, most: number): QueryResult[] {
  const here = new Set(reply.messages.map(({ messageId }) => messageId).filter((id) => id !== ""));
  const said = new Set(reply.messages.map(textOf));
  let room = Math.floor((Math.max(Number(reply.limit), 0) * SHARE_OF_LIMIT * BYTES_OF_TOKEN));
  const taken: QueryResult[] = [];
  for (const hit of results) {
    if (taken.length === most) break;
    const message = hitMessage(hit);
    const isHere =
      hit.sessionId === ""
        ? message !== undefined && here.has(message.messageId)
        : message?.sourceSessionId === session && here.has(message.sourceMessageId);
    const text = hitText(hit);
    const bytes = bytesOf(text);
    if (isHere || text.trim() === "" || said.has(text) || bytes > room) continue;
    said.add(text);
    room -= bytes;
    taken.push(hit);
  }
  return taken.toSorted((left, right) => timeOf(left) - timeOf(right));
}

function timeOf(hit: QueryResult): number {
  return hitTime(hit)?.getTime() ?? 0;
}

// What is recalled, in the form in which UpdateContext inserts it.
function recallText(hits: readonly QueryResult[], timeZone: string): string {
  const lines = hits.map((hit) => {
    const said = hitTime(hit);
    const date = said === undefined ? "" : ` date="${dateIn(said, timeZone)}"`;
    const role = hitMessage(hit)?.role ?? "";
    const text = hitText(hit).replace(TAG, "&lt;");
    return role === ""
      ? `<item${date}>${text}</item>`
      : `<message role="${attribute(role)}"${date}>${text}</message>`;
  });
  return ["<memoryd_recall>", ...lines, "</memoryd_recall>"].join("\n");
}

function dateIn(date: Date, timeZone: string): string {
  try {
    const shown = { year: "numeric", month: "2-digit", day: "2-digit", timeZone: timeZone === "" ? "UTC" : timeZone } as const;
    return new Intl.DateTimeFormat("sv-SE", shown).format(date);
  } catch {
    return date.toISOString().slice(0, 10); // Of a machine that has not this zone.
  }
}

function attribute(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

// Puts a message of its own ahead of the one at `index`, of its role.
function insert(reply: GetResponse, index: number, text: string): void {
  const role = reply.messages[index]?.role ?? "user";
  reply.messages.splice(index, 0, create(MessageSchema, { role, text }));
  reply.tokenCount += BigInt(Math.ceil(bytesOf(text) / BYTES_OF_TOKEN));
}
