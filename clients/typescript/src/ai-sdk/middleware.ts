// Memory for any model of the AI SDK.

import type {
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4Message,
  LanguageModelV4Middleware,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";
import type { MemoryClient } from "../client.js";
import type { Message } from "../gen/memoryd/v1/memory_pb.js";
import { isDict } from "../templates.js";
import { Gathered, messageOfContent, resultOf, streamOf } from "./answers.js";
import { fromSdk, toPrompt } from "./form.js";
import type { Conversation, Prompt } from "./turns.js";
import { answer, idOf, located, placed, split, tell } from "./turns.js";

/** Options of memoryMiddleware. */
export interface MemoryOptions extends Omit<Conversation, "session"> {
  /** The session of the conversation. */
  readonly session?: string | undefined;
  /**
   * Whose words of earlier turns the model gets. `memory`, the default: those of the session, within its limit of tokens;
   * a prompt may have them or leave them out. `prompt`: those of the prompt, to which memory is added.
   */
  readonly history?: "memory" | "prompt" | undefined;
  /** How many messages of other conversations are recalled at most, by default 5; 0: none. */
  readonly recalled?: number | undefined;
}

// A call of a model: where its answer belongs, or what it was answered before.
interface Prepared {
  readonly conversation: Conversation;
  readonly place: number;
  readonly answered: Extract<LanguageModelV4Message, { role: "assistant" }> | undefined;
}

/**
 * Middleware for `wrapLanguageModel`: stores what is said, each message once, and gives the model the conversation and
 * what is known of the user. `providerOptions.memoryd` of a call may have `session`, `user` and `turn` too.
 *
 * The answer is stored before its end is told, and before tools run that it calls. A turn that is begun again under its
 * id gets the answers that were stored, without asking the model again.
 */
export function memoryMiddleware(client: MemoryClient, options: MemoryOptions = {}): LanguageModelV4Middleware {
  // By the parameters that the SDK hands on.
  const calls = new WeakMap<LanguageModelV4CallOptions, Prepared>();

  async function save({ conversation, place }: Prepared, content: readonly LanguageModelV4Content[]): Promise<void> {
    const message = messageOfContent(content);
    if (message.content.length > 0) await answer(client, conversation, placed(conversation, message, place));
  }

  return {
    specificationVersion: "v4",

    async transformParams({ params }) {
      const conversation = conversationOf(options, params);
      let prompt = split(params.prompt);
      if (prompt.turn.length === 0) throw new TypeError("messages: must have a message of the user");
      const call = { signal: params.abortSignal, recalled: options.recalled };
      let context;
      let made;
      try {
        prompt = await located(client, conversation, prompt, call);
        context = await tell(client, conversation, prompt, call);
        made = { ...params, prompt: await promptOf(conversation, prompt, params, context.messages) };
      } catch (error) {
        // The SDK knows a call that was given up by the signal's own error.
        params.abortSignal?.throwIfAborted();
        throw error;
      }
      const place = prompt.turn.length;
      const found = context.messages.find(({ messageId }) => messageId !== "" && messageId === idOf(conversation, place));
      const [answered] = found === undefined ? [] : toPrompt([found]);
      calls.set(made, { conversation, place, answered: answered?.role === "assistant" ? answered : undefined });
      return made;
    },

    async wrapGenerate({ doGenerate, params }) {
      const call = calls.get(params);
      if (call?.answered !== undefined) return resultOf(call.answered);
      const result = await doGenerate();
      if (call !== undefined) await save(call, result.content);
      return result;
    },

    async wrapStream({ doStream, params }) {
      const call = calls.get(params);
      if (call?.answered !== undefined) return { stream: streamOf(resultOf(call.answered)) };
      const { stream, ...rest } = await doStream();
      if (call === undefined) return { stream, ...rest };
      return { stream: stream.pipeThrough(saving((content) => save(call, content))), ...rest };
    },
  };

  async function promptOf(
    { session, user, timeoutMs }: Conversation,
    prompt: Prompt<LanguageModelV4Message>,
    params: LanguageModelV4CallOptions,
    messages: readonly Message[],
  ): Promise<LanguageModelV4Message[]> {
    if (options.history !== "prompt") return withSystemFirst([...prompt.system, ...toPrompt(messages)]);
    // Knowledge of a user stands in the context alone, as messages that nobody has put.
    if (user !== undefined) return withKnown(prompt, messages);
    const given = params.prompt.map((one) => fromSdk(one));
    const made = await client.updateContext(session, given, { timeoutMs, signal: params.abortSignal });
    return withSystemFirst(toPrompt(made.messages));
  }
}

// The prompt with what is known: instructions, knowledge, earlier turns, and the turn as the context has it, with what was
// recalled for it.
function withKnown(prompt: Prompt<LanguageModelV4Message>, messages: readonly Message[]): LanguageModelV4Message[] {
  const isKnown = (message: Message | undefined): boolean => message?.messageId === "";
  let begin = messages.length;
  for (let left = prompt.turn.length; left > 0 && begin > 0;) if (!isKnown(messages[--begin])) --left;
  while (isKnown(messages[begin - 1])) --begin;
  const ahead = toPrompt(messages.slice(0, begin).filter(isKnown));
  return withSystemFirst([...prompt.system, ...ahead, ...prompt.earlier, ...toPrompt(messages.slice(begin))]);
}

// Some providers take instructions only ahead of all else.
function withSystemFirst(messages: readonly LanguageModelV4Message[]): LanguageModelV4Message[] {
  const isOfSystem = ({ role }: LanguageModelV4Message): boolean => role === "system";
  return [...messages.filter(isOfSystem), ...messages.filter((one) => !isOfSystem(one))];
}

function conversationOf(options: MemoryOptions, params: LanguageModelV4CallOptions): Conversation {
  const { history: _, recalled: __, ...given } = options;
  const own = params.providerOptions?.["memoryd"];
  const named = isDict(own) ? own : {};
  const text = (name: "session" | "user" | "turn"): string | undefined => {
    const value = named[name] ?? given[name];
    if (value !== undefined && (typeof value !== "string" || value.trim() === "")) {
      throw new TypeError(`${name}: must be a text that is not blank`);
    }
    return value;
  };
  const session = text("session");
  if (session === undefined) throw new TypeError("session: must name the conversation, in the options or in providerOptions.memoryd");
  return { ...given, session, user: text("user"), turn: text("turn") };
}

// Passes a stream on. Calls of tools wait until all is saved, and so does its end.
function saving(
  save: (content: readonly LanguageModelV4Content[]) => Promise<void>,
): TransformStream<LanguageModelV4StreamPart, LanguageModelV4StreamPart> {
  const gathered = new Gathered();
  const waiting: LanguageModelV4StreamPart[] = [];
  let hasFailed = false;
  return new TransformStream({
    async transform(part, controller) {
      gathered.add(part);
      hasFailed ||= part.type === "error";
      if (part.type === "tool-call" && part.providerExecuted !== true) {
        waiting.push(part);
        return;
      }
      if (part.type === "finish") {
        if (!hasFailed && part.finishReason.unified !== "error") await save(gathered.content);
        for (const one of waiting.splice(0)) controller.enqueue(one);
      }
      controller.enqueue(part);
    },
    flush(controller) {
      // The stream has ended without a `finish`.
      for (const one of waiting.splice(0)) controller.enqueue(one);
    },
  });
}
