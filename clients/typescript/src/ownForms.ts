// A message in a framework's own form as a message of memoryd, and back unchanged.
//
// Texts, calls, results, reasoning and media become parts, which every client, Query and retention know. What stands around
// them is a template with holes, see templates.ts. A message that another framework has stored is said in the form from
// its parts. The Python client does the same.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { Crossing } from "./crossing.js";
import type { Message, Part } from "./gen/memoryd/v1/memory_pb.js";
import { MessageSchema } from "./gen/memoryd/v1/memory_pb.js";
import type { Taking } from "./templates.js";
import { sameJson, Stored, write } from "./templates.js";
import { bytesOf } from "./wireText.js";

const MAX_ROLE_BYTES = 64;
const VALUE = "value";
const PRINTABLE = /^(?:[^\p{C}\p{Z}]| )+$/u;

/** The form of a framework's messages. Values are what JSON has. */
export interface OwnForm {
  /** The form's name, which is stored. Never change it. */
  readonly name: string;
  /** The role of the message, for which `isRole` holds. */
  role(value: unknown): string;
  /** The parts of the message, and the value with a hole in place of what each part holds. */
  taken(value: unknown): [Taking, unknown];
  /** Whether a message that `canonical` says exactly so may be stored without a template. */
  saysAll(value: unknown): boolean;
  /** What another framework has stored, in this form. Empty where it says nothing. */
  canonical(message: Message, parts: readonly Part[], crossing: Crossing): unknown[];
}

/** The value as JSON has it. Throws TypeError for what it has not, such as bytes. */
export function jsonValue(value: unknown): unknown {
  const text = JSON.stringify(value, (key: string, one: unknown) => {
    if (!ArrayBuffer.isView(one)) return one;
    throw new TypeError(`${key}: must be a value of JSON. Give bytes as a text in base64`);
  }) as string | undefined;
  if (text === undefined) throw new TypeError(`must be a value of JSON; got ${typeof value}`);
  return JSON.parse(text) as unknown;
}

/** Whether the server takes it as a role. */
export function isRole(role: unknown): role is string {
  return typeof role === "string" && PRINTABLE.test(role) && bytesOf(role) <= MAX_ROLE_BYTES;
}

/** Converts a message of the form, which is what jsonValue returns. `fields` are other fields of Message. */
export function ownMessage(form: OwnForm, value: unknown, fields: MessageInitShape<typeof MessageSchema> = {}): Message {
  const [taking, template] = form.taken(value);
  const made = create(MessageSchema, { ...fields, role: form.role(value), name: taking.name });
  const [first] = taking.parts;
  if (taking.parts.length === 1 && first?.kind.case === "text") made.text = first.kind.value;
  else made.parts = taking.parts;
  const isSaid = form.saysAll(value) && sameJson(form.canonical(made, taking.parts, new Crossing()), [value]);
  write(made, form.name, isSaid ? undefined : { [VALUE]: template }, {});
  return made;
}

/** The values of the form that each message is. One that was put in the form is one. Ids of calls are the same in all. */
export function ownValues(form: OwnForm, messages: readonly Message[]): unknown[][] {
  const found = messages.map((message) => new Stored(message));
  const own = found.map((one) => asPut(form, one));
  const kept = new Set<string>();
  const tools = new Map<string, string>();
  for (const [at, one] of found.entries()) {
    for (const { kind } of one.parts) {
      if (kind.case !== "toolCall" && kind.case !== "toolResult") continue;
      const { callId = "", name } = kind.value;
      if (own[at] !== undefined) kept.add(callId);
      if (kind.case === "toolCall" && callId !== "") tools.set(callId, name);
    }
  }
  const crossing = new Crossing(kept, tools);
  return found.map((one, at) => own[at] ?? form.canonical(one.message, one.parts, crossing));
}

// The value that was put in this form; undefined where another form, or another part of it, is stored.
function asPut(form: OwnForm, found: Stored): [unknown] | undefined {
  const put = found.form === form.name ? found.asTemplated() : undefined;
  if (put === undefined || put[1].length > 0 || !(VALUE in put[0])) return undefined;
  return [put[0][VALUE]];
}
