// Roles of messages, as the server reads them (docs/POLICY.md).

const HUMAN = new Set([
  "user",
  "human",
  "customer",
  "client",
  "guest",
  "visitor",
  "caller",
  "person",
  "prompter",
  "end_user",
  "end-user",
  "end user",
  "human_message",
]);
const ASSISTANT = new Set(["assistant", "ai", "model", "chatbot", "gpt", "bot"]);

export function isHuman(role: string): boolean {
  return HUMAN.has(role.toLowerCase());
}

export function isAssistant(role: string): boolean {
  return ASSISTANT.has(role.toLowerCase());
}

export function isSystem(role: string): boolean {
  return role === "system" || role === "developer";
}

export function isTool(role: string): boolean {
  return role === "tool" || role === "function";
}
