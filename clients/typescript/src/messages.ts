// Messages and contents of callers, made memoryd's.

import { create } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Content, Message } from "./gen/memoryd/v1/memory_pb.js";
import { ContentSchema, MessageSchema } from "./gen/memoryd/v1/memory_pb.js";

/** A value of JSON: an object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Returns a message with one text. `fields` are other fields of Message, such as `messageId` and `parts`; `metadata` is
 * a JSON object.
 */
export function message(
  role: string,
  text?: string,
  fields: Omit<MessageInitShape<typeof MessageSchema>, "$typeName" | "role" | "text"> & { metadata?: JsonObject } = {},
): Message {
  const { metadata, ...rest } = fields;
  const init: MessageInitShape<typeof MessageSchema> = { ...rest, role };
  if (text !== undefined) init.text = text;
  if (metadata !== undefined) init.metadataJson = JSON.stringify(metadata);
  return create(MessageSchema, init);
}

/**
 * Returns a content with a text, bytes or a JSON object. `fields` are other fields of Content, such as `contentId`;
 * `metadata` is a JSON object.
 */
export function content(
  value: string | Uint8Array | JsonObject,
  fields: Omit<MessageInitShape<typeof ContentSchema>, "$typeName" | "value"> & { metadata?: JsonObject } = {},
): Content {
  const { metadata, ...rest } = fields;
  const init: MessageInitShape<typeof ContentSchema> = { ...rest };
  if (typeof value === "string") {
    init.value = { case: "text", value };
    init.mimeType ??= "text/plain";
  } else if (value instanceof Uint8Array) {
    init.value = { case: "bytesValue", value };
    init.mimeType ??= "application/octet-stream";
  } else {
    init.value = { case: "json", value: JSON.stringify(value) };
    init.mimeType ??= "application/json";
  }
  if (metadata !== undefined) init.metadataJson = JSON.stringify(metadata);
  return create(ContentSchema, init);
}

/** The texts of a message and of its parts, a line each. */
export function textOf(one: Message): string {
  const texts = [one.text ?? "", ...one.parts.map((part) => (part.kind.case === "text" ? part.kind.value : ""))];
  return texts.filter((text) => text !== "").join("\n");
}
