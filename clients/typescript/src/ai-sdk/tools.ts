// Tools by which a model remembers and recalls of its own accord.

import type { Tool } from "ai";
import { jsonSchema, tool } from "ai";
import type { MemoryClient } from "../client.js";
import { hitText, hitTime } from "../hits.js";
import { sha256 } from "../sha256.js";
import type { RememberOptions } from "../users.js";

/** Options of memoryTools. */
export interface MemoryToolsOptions extends Pick<RememberOptions, "memory" | "memoryTemplate" | "timeoutMs"> {
  /** Whose memory it is. */
  readonly user: string;
  /** The most that `recall` finds, by default 10. */
  readonly topK?: number | undefined;
}

/** What is known of a user. */
export interface Memory {
  readonly text: string;
  /** When it was said, in ISO 8601. */
  readonly time?: string;
}

/** The tools `remember` and `recall`, for generateText, streamText and agents: `tools: { ...memoryTools(memory, { user }) }`. */
export function memoryTools(
  client: MemoryClient,
  options: MemoryToolsOptions,
): { remember: Tool<{ text: string }, string>; recall: Tool<{ query: string }, Memory[]> } {
  const { user, topK, ...rest } = options;
  return {
    remember: tool({
      description:
        "Keeps something about the user that will matter in later conversations: a preference, a fact, a plan. " +
        "Give a whole sentence that is understood without this conversation.",
      inputSchema: jsonSchema<{ text: string }>(schema("text", "What to remember.")),
      execute: async ({ text }, { toolCallId, abortSignal }) => {
        // A call that is executed again is remembered once.
        const requestId = `ai-sdk-${sha256(JSON.stringify([user, toolCallId, text])).slice(0, 32)}`;
        await client.remember(user, text, { ...rest, requestId, signal: abortSignal });
        return "remembered";
      },
    }),
    recall: tool({
      description: "Searches what is known about the user from all conversations. Returns the best matches first.",
      inputSchema: jsonSchema<{ query: string }>(schema("query", "What to look for, in words of the user.")),
      execute: async ({ query }, { abortSignal }) => {
        const { results } = await client.recall(user, query, { topK, timeoutMs: rest.timeoutMs, signal: abortSignal });
        return results.map((hit) => {
          const time = hitTime(hit)?.toISOString();
          return time === undefined ? { text: hitText(hit) } : { text: hitText(hit), time };
        });
      },
    }),
  };
}

function schema(name: string, description: string): Parameters<typeof jsonSchema>[0] {
  return {
    type: "object",
    properties: { [name]: { type: "string", minLength: 1, description } },
    required: [name],
    additionalProperties: false,
  };
}
