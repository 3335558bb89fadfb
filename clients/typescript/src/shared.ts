// What both clients, over gRPC and over HTTP, export.

export type { CallOptions, SharedOptions } from "./calls.js";
export { MemoryClient } from "./client.js";
export type { AnyMessage, BatchedPut, Fields, ImportOptions, ImportNamespaceOptions, PutItemOptions, PutOptions } from "./client.js";
export { Context } from "./contexts.js";
export type { UserContext } from "./contexts.js";
export { MemorydError } from "./errors.js";
export type { StatusCode } from "./errors.js";
export { fromAnthropic, fromOpenAI, toAnthropic, toOpenAI } from "./forms.js";
export type { AnthropicMessages, MessageFields, OpenAIMessage, ProviderMessage } from "./forms.js";
export { hitText, hitTime } from "./hits.js";
export { content, message, textOf } from "./messages.js";
export { batchResults, itemValue } from "./items.js";
export { putReply } from "./puts.js";
export { conversationConfig, memoryConfig, sessionOf } from "./users.js";
export type { ContextOptions, RecallOptions, RememberOptions } from "./users.js";
