// Memory for Vercel's AI SDK.
//
//   const model = wrapLanguageModel({ model: openai("gpt-5"), middleware: memoryMiddleware(memory, { user, session, turn }) });
//   const { text } = await generateText({ model, prompt: "Hello!" });

import type { ModelMessage } from "ai";
import type { MemoryClient } from "../client.js";
import type { MessageFields } from "../forms.js";
import type { Message } from "../gen/memoryd/v1/memory_pb.js";
import { fromSdk, toPrompt } from "./form.js";
import type { Conversation } from "./turns.js";
import { complete, located, placed, split } from "./turns.js";

export { memoryMiddleware } from "./middleware.js";
export type { MemoryOptions } from "./middleware.js";
export { memoryTools } from "./tools.js";
export type { Memory, MemoryToolsOptions } from "./tools.js";
export type { Conversation } from "./turns.js";

/** Converts a message of the AI SDK to memoryd's, to put a conversation that is there already. */
export function fromModelMessage(message: ModelMessage, fields: MessageFields = {}): Message {
  return fromSdk(message, fields);
}

/** Returns stored messages as the AI SDK takes them. */
export function toModelMessages(messages: Iterable<Message>): ModelMessage[] {
  return toPrompt(messages) as ModelMessage[];
}

/** Options of storeTurn. */
export interface StoreTurnOptions extends Conversation {
  /** The prompt or the messages that the call was given. */
  readonly messages: string | readonly ModelMessage[];
}

/**
 * Returns a callback for `onEnd` (`onFinish`) of generateText, streamText and agents, which stores the turn: the user's
 * message, answers and what tools returned, with an id of the turn each once. It needs no middleware. With one it stores
 * what that one does not see: the results of tools after which the model is not asked again.
 */
export function storeTurn(
  client: MemoryClient,
  options: StoreTurnOptions,
): (event: { readonly responseMessages: readonly ModelMessage[] }) => Promise<void> {
  const { messages, ...conversation } = options;
  const given: readonly ModelMessage[] = typeof messages === "string" ? [{ role: "user", content: messages }] : messages;
  return async ({ responseMessages }) => {
    const { turn } = await located(client, conversation, split([...given, ...responseMessages]), {});
    await complete(client, conversation, turn.map((one, at) => placed(conversation, one, at)), {});
  };
}
