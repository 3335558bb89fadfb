// Messages of OpenAI's and Anthropic's form come back as they were put, and are valid in the other form.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { fromAnthropic, fromOpenAI, message, toAnthropic, toOpenAI } from "memoryd";
import type { ProviderMessage } from "memoryd";
import { MessageSchema } from "memoryd/wire";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const OPENAI: ProviderMessage[] = [
  { role: "user", content: "hi" },
  { role: "system", content: "Be brief." },
  { role: "developer", content: [{ type: "text", text: "Be brief." }] },
  { role: "user", content: "", name: "ann" } as ProviderMessage,
  {
    role: "assistant",
    content: null,
    refusal: null,
    tool_calls: [{ id: "call_1", type: "function", function: { name: "multiply", arguments: '{"a": 6, "b": 7}' } }],
  } as ProviderMessage,
  { role: "tool", tool_call_id: "call_1", content: "42" } as ProviderMessage,
  { role: "tool", tool_call_id: "call_1", content: [{ type: "text", text: "4" }, { type: "text", text: "2" }] } as ProviderMessage,
  {
    role: "user",
    content: [
      { type: "text", text: "Look: \ud83d\ude00 \ud83d" },
      { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}`, detail: "low" } },
      { type: "image_url", image_url: { url: "https://example.org/a.png" } },
      { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } },
      { type: "file", file: { filename: "a.pdf", file_data: "not base64!" } },
      { type: "file", file: { file_id: "file-1" } },
      { type: "later", value: { $part: [1, 2] } },
    ],
  },
  { role: "assistant", content: "Done.", reasoning_content: "6 x 7", audio: { id: "a", data: "AAAA", transcript: "x" } } as ProviderMessage,
  { role: "assistant", content: null, function_call: { name: "f", arguments: "{}" } } as ProviderMessage,
  { role: "assistant", content: null, tool_calls: [{ id: "c", type: "custom", custom: { name: "g", input: "x" } }] } as ProviderMessage,
];

const ANTHROPIC: ProviderMessage[] = [
  { role: "assistant", content: [] },
  {
    role: "assistant",
    content: [
      { type: "thinking", thinking: "6 x 7", signature: "sig" },
      { type: "text", text: "Let me see.", citations: null },
      { type: "tool_use", id: "toolu_1", name: "multiply", input: { a: 6, b: 7.5 } },
    ],
  },
  {
    role: "user",
    content: [
      { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "4" }, { type: "text", text: "2" }], is_error: true },
      { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } },
      { type: "document", title: "A", source: { type: "text", media_type: "text/plain", data: "said" } },
      { type: "document", source: { type: "content", content: [{ type: "text", text: "inner" }] } },
      { type: "search_result", source: "s", title: "t", content: [{ type: "text", text: "found" }] },
      { type: "server_tool_use", id: "x", name: "web", input: {} },
    ],
  },
  { role: "user", content: [{ type: "text", text: "x", cache_control: { type: "ephemeral" } }] },
];

function stored(given: ReturnType<typeof fromOpenAI>): ReturnType<typeof fromOpenAI> {
  return fromBinary(MessageSchema, toBinary(MessageSchema, given));
}

for (const [at, given] of OPENAI.entries()) {
  test(`OpenAI's message ${at} comes back as it was put`, () => {
    assert.deepEqual(toOpenAI([stored(fromOpenAI(given))]), [given]);
    assert.deepEqual(Object.keys(toOpenAI([stored(fromOpenAI(given))])[0] ?? {}), Object.keys(given));
  });
}

for (const [at, given] of ANTHROPIC.entries()) {
  test(`Anthropic's message ${at} comes back as it was put`, () => {
    assert.deepEqual(toAnthropic([stored(fromAnthropic(given))]).messages, [given]);
  });
}

test("a chat in OpenAI's form is valid in Anthropic's", () => {
  const chat = [
    OPENAI[1],
    OPENAI[0],
    {
      role: "assistant",
      content: null,
      tool_calls: [
        { id: "a b", type: "function", function: { name: "add", arguments: "{}" } },
        { id: "c2", type: "function", function: { name: "add", arguments: "[1]" } },
      ],
    },
    { role: "tool", tool_call_id: "a b", content: "1" },
    { role: "tool", tool_call_id: "c2", content: "2" },
  ] as ProviderMessage[];
  const made = toAnthropic(chat.map((one) => fromOpenAI(one)));
  assert.equal(made.system, "Be brief.");
  assert.deepEqual(made.messages.map(({ role }) => role), ["user", "assistant", "user"]);
  const calls = made.messages[1]?.["content"] as { id: string; input: unknown }[];
  const results = made.messages[2]?.["content"] as { tool_use_id: string }[];
  assert.match(calls[0]?.id ?? "", /^call_[0-9a-f]{32}$/);
  assert.deepEqual(results.map((one) => one.tool_use_id), calls.map(({ id }) => id));
  assert.deepEqual(calls[1]?.input, { arguments: [1] });
});

test("a chat in Anthropic's form is valid in OpenAI's", () => {
  const made = toOpenAI(ANTHROPIC.slice(1, 3).map((one) => fromAnthropic(one)));
  assert.deepEqual(made.map(({ role }) => role), ["assistant", "tool", "user"]);
  assert.equal(made[1]?.["content"], "4\n2");
});

test("metadata stays beside the template", () => {
  const made = fromOpenAI({ role: "user", content: "x", extra: 1 } as ProviderMessage, { metadata: { topic: "tea" } });
  const metadata = JSON.parse(made.metadataJson) as Record<string, unknown>;
  assert.equal(metadata["topic"], "tea");
  assert.deepEqual(toOpenAI([made]), [{ role: "user", content: "x", extra: 1 }]);
});

test("memoryd's own message is a text in both forms", () => {
  assert.deepEqual(toOpenAI([message("user", "hi")]), [{ role: "user", content: "hi" }]);
  assert.deepEqual(toAnthropic([message("user", "hi")]).messages, [{ role: "user", content: "hi" }]);
});

test("what is no message is refused by its place", () => {
  assert.throws(() => fromOpenAI({ role: "user", content: [1] }), /message\.content\[0\]/);
  assert.throws(() => fromOpenAI({ role: "user", content: new Uint8Array(1) }), /message\.content.*base64/);
  assert.throws(() => fromOpenAI({ role: "" }), /message\.role/);
  assert.throws(() => fromOpenAI({ role: "user" }), /message\.content/);
});
