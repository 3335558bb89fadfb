// The hits of a query.

import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Message } from "./gen/memoryd/v1/memory_pb.js";
import type { QueryResult } from "./gen/memoryd/v1/memory_service_pb.js";
import { textOf } from "./messages.js";

/** The message of a hit that is one. */
export function hitMessage(hit: QueryResult): Message | undefined {
  return hit.item.case === "message" ? hit.item.value : undefined;
}

/** The text of a hit: its passage, where it has one. Empty: it has no text. */
export function hitText(hit: QueryResult): string {
  if (hit.passage !== "") return hit.passage;
  const { item } = hit;
  switch (item.case) {
    case "message":
      return textOf(item.value);
    case "content": {
      const { value } = item.value;
      return value.case === "text" || value.case === "json" ? value.value : "";
    }
    case "blockItem": {
      const known = item.value.item;
      if (known.case === undefined) return "";
      return typeof known.value === "string" ? known.value : known.value.text;
    }
    default:
      return "";
  }
}

/** When the hit was said: a message's `createTime`, else when it was put; a fact or entity when it was last said. */
export function hitTime(hit: QueryResult): Date | undefined {
  const { item } = hit;
  let time;
  if (item.case === "message") {
    time = item.value.createTime ?? item.value.ingestTime;
  } else if (item.case === "content") {
    time = item.value.ingestTime;
  } else if (item.case === "blockItem") {
    const known = item.value.item;
    time = known.case === "fact" || known.case === "entity" ? known.value.lastTime : undefined;
  }
  return time === undefined ? undefined : timestampDate(time);
}
