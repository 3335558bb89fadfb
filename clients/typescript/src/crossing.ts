// What both forms ask of ids, names and texts of messages that were not put in them.

import type { Part, ToolCall, ToolResult } from "./gen/memoryd/v1/memory_pb.js";
import { sha256 } from "./sha256.js";

// OpenAI takes ids of 40 characters, Anthropic these characters.
const ID = /^[a-zA-Z0-9_-]{1,40}$/;
const MAX_NAME = 64;

/** The texts of parts that say something in words. */
export function textsOf(parts: readonly Part[]): string[] {
  const texts: string[] = [];
  for (const { kind } of parts) {
    if (kind.case === "text" || kind.case === "json") texts.push(kind.value);
    else if (kind.case === "citation") texts.push(kind.value.citedText);
  }
  return texts;
}

/** Ids and names of one conversation, each id the same wherever it stands. */
export class Crossing {
  private unnamed = 0;
  // Ids made for calls without one, and the tool of each, until a result takes it.
  private readonly open: { made: string; name: string }[] = [];

  /**
   * `kept` are ids in messages that are given as they were put, which stay. `tools` has the tool of each call, for results
   * that do not name it.
   */
  constructor(
    private readonly kept: ReadonlySet<string> = new Set(),
    private readonly tools: ReadonlyMap<string, string> = new Map(),
  ) {}

  callId(call: ToolCall): string {
    if (call.callId !== undefined && call.callId !== "") return this.fit(call.callId);
    const made = `call_without_id_${++this.unnamed}`;
    this.open.push({ made, name: call.name });
    return made;
  }

  /** The id of the call that is answered; undefined for a result of none. */
  answered(result: ToolResult): string | undefined {
    if (result.callId !== undefined && result.callId !== "") return this.fit(result.callId);
    const at = this.open.findIndex((one) => one.name === result.name);
    return at < 0 ? undefined : this.open.splice(at, 1)[0]?.made;
  }

  /** The name of the tool that has answered. */
  toolOf(result: ToolResult): string {
    return this.toolName(result.name === "" ? (this.tools.get(result.callId ?? "") ?? "") : result.name);
  }

  toolName(name: string): string {
    const made = Array.from(name, (one) => (/^[a-zA-Z0-9_-]$/.test(one) ? one : "_")).slice(0, MAX_NAME).join("");
    return made === "" ? "tool" : made;
  }

  private fit(given: string): string {
    return this.kept.has(given) || ID.test(given) ? given : `call_${sha256(given).slice(0, 32)}`;
  }
}
