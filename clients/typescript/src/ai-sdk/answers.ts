// What a model answers, as a message of a prompt, and the other way round.

import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4Message,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";

type Assistant = Extract<LanguageModelV4Message, { role: "assistant" }>;
type AssistantPart = Assistant["content"][number];

/** The message by which the next prompt says what was answered. */
export function messageOfContent(content: readonly LanguageModelV4Content[]): Assistant {
  return { role: "assistant", content: content.map(partOf).filter((one) => one !== undefined) };
}

function partOf(content: LanguageModelV4Content): AssistantPart | undefined {
  const options = content.providerMetadata === undefined ? {} : { providerOptions: content.providerMetadata };
  switch (content.type) {
    case "text":
      return content.text === "" ? undefined : { type: "text", text: content.text, ...options };
    case "reasoning":
      return { type: "reasoning", text: content.text, ...options };
    case "custom":
      return { type: "custom", kind: content.kind, ...options };
    case "file":
    case "reasoning-file":
      return { type: content.type, data: content.data, mediaType: content.mediaType, ...options };
    case "tool-call": {
      const { toolCallId, toolName, providerExecuted } = content;
      const executed = providerExecuted === undefined ? {} : { providerExecuted };
      return { type: "tool-call", toolCallId, toolName, input: parsed(content.input), ...executed, ...options };
    }
    case "tool-result": {
      const { toolCallId, toolName, isError, result } = content;
      const output = { type: isError === true ? "error-json" : "json", value: result } as const;
      return { type: "tool-result", toolCallId, toolName, output, ...options };
    }
    default:
      return undefined; // Sources and requests of approval: no prompt has them.
  }
}

function parsed(input: string): unknown {
  try {
    return JSON.parse(input === "" ? "{}" : input);
  } catch {
    return input;
  }
}

/** The result by which a model would have said this message. */
export function resultOf(message: Assistant): LanguageModelV4GenerateResult {
  const content = message.content.map(contentOf).filter((one) => one !== undefined);
  const calls = content.some((one) => one.type === "tool-call" && one.providerExecuted !== true);
  const finishReason: LanguageModelV4FinishReason = { unified: calls ? "tool-calls" : "stop", raw: undefined };
  return { content, finishReason, usage: NO_USAGE, warnings: [] };
}

const NO_USAGE: LanguageModelV4GenerateResult["usage"] = {
  inputTokens: { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: undefined, text: undefined, reasoning: undefined },
};

function contentOf(part: AssistantPart): LanguageModelV4Content | undefined {
  const { providerOptions } = part;
  const metadata = providerOptions === undefined ? {} : { providerMetadata: providerOptions };
  switch (part.type) {
    case "text":
    case "reasoning":
      return { type: part.type, text: part.text, ...metadata };
    case "custom":
      return { type: "custom", kind: part.kind, ...metadata };
    case "file":
    case "reasoning-file": {
      const { data, mediaType, type } = part;
      return data.type === "data" || data.type === "url" ? { type, data, mediaType, ...metadata } : undefined;
    }
    case "tool-call": {
      const { toolCallId, toolName, input, providerExecuted } = part;
      const text = typeof input === "string" ? input : JSON.stringify(input);
      const executed = providerExecuted === undefined ? {} : { providerExecuted };
      return { type: "tool-call", toolCallId, toolName, input: text, ...executed, ...metadata };
    }
    case "tool-result": {
      const { toolCallId, toolName, output } = part;
      const result = output.type === "execution-denied" ? (output.reason ?? "") : (output.value as string);
      return { type: "tool-result", toolCallId, toolName, result, isError: output.type.startsWith("error"), ...metadata };
    }
  }
}

/** A stream of what was answered before. */
export function streamOf(result: LanguageModelV4GenerateResult): ReadableStream<LanguageModelV4StreamPart> {
  const { content, finishReason, usage } = result;
  const parts: LanguageModelV4StreamPart[] = [{ type: "stream-start", warnings: [] }];
  for (const [at, one] of content.entries()) {
    const { type } = one;
    if (type === "text" || type === "reasoning") {
      const metadata = one.providerMetadata === undefined ? {} : { providerMetadata: one.providerMetadata };
      const id = String(at);
      parts.push({ type: `${type}-start`, id, ...metadata });
      parts.push({ type: `${type}-delta`, id, delta: one.text });
      parts.push({ type: `${type}-end`, id, ...metadata });
    } else {
      parts.push(one);
    }
  }
  parts.push({ type: "finish", finishReason, usage });
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}

/** Gathers what a stream says. */
export class Gathered {
  readonly content: LanguageModelV4Content[] = [];
  private readonly open = new Map<string, Extract<LanguageModelV4Content, { type: "text" | "reasoning" }>>();

  add(part: LanguageModelV4StreamPart): void {
    switch (part.type) {
      case "text-start":
      case "reasoning-start": {
        const type = part.type === "text-start" ? "text" : "reasoning";
        const one = { type, text: "", providerMetadata: part.providerMetadata } as const;
        const made = { ...one } as Extract<LanguageModelV4Content, { type: "text" | "reasoning" }>;
        this.open.set(part.id, made);
        this.content.push(made);
        break;
      }
      case "text-delta":
      case "reasoning-delta":
      case "text-end":
      case "reasoning-end": {
        const one = this.open.get(part.id);
        if (one === undefined) break;
        if ("delta" in part) one.text += part.delta;
        // Each replaces the one before.
        if (part.providerMetadata !== undefined) one.providerMetadata = part.providerMetadata;
        break;
      }
      case "tool-call":
      case "tool-result":
      case "file":
      case "reasoning-file":
      case "custom":
        this.content.push(part);
        break;
      default:
    }
  }
}
