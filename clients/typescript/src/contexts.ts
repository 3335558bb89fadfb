// The replies of Get, which can be read in the forms of model APIs.

import type { AnthropicMessages, OpenAIMessage } from "./forms.js";
import { toAnthropic, toOpenAI } from "./forms.js";
import type { Message } from "./gen/memoryd/v1/memory_pb.js";
import type { GetResponse, QueryResult, UpdateContextResponse } from "./gen/memoryd/v1/memory_service_pb.js";

/** The context for the next model call. */
export class Context<Reply extends GetResponse | UpdateContextResponse = GetResponse> {
  constructor(
    /** The server's reply. */
    readonly reply: Reply,
  ) {}

  /** The messages for the model. */
  get messages(): Message[] {
    return this.reply.messages;
  }

  /** The messages in the form of OpenAI's chat completions. */
  toOpenAI(): OpenAIMessage[] {
    return toOpenAI(this.reply.messages);
  }

  /** The messages in Anthropic's form, with `system` apart: spread it into `messages.create`. */
  toAnthropic(): AnthropicMessages {
    return toAnthropic(this.reply.messages);
  }
}

/** The context of a conversation with a user. */
export interface UserContext extends Context {
  /** What was recalled of other conversations, oldest first. */
  readonly recalled: readonly QueryResult[];
}
