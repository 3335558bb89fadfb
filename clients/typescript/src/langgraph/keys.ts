// Where the saver keeps what.
//
// A thread's checkpoints of one checkpoint_ns are a namespace, so that a checkpoint and all that it consists of are
// written at once, or not at all:
//
//   [...base, "js-threads", THREAD, NS]   c/CHECKPOINT              the checkpoint, small values too
//                                         c/CHECKPOINT!TASK/INDEX   a pending write of it
//                                         b/CHANNEL/VERSION         a large value at a version
//
// The keys and records are those of the Python client. Its threads lie below "threads" and these below "js-threads":
// neither language can load the values that the other's serializer makes.
//
// The ids of checkpoints grow, so the newest with its writes are a page from one end of `c/`. No name of a part contains
// `/`, and what makes names too long is named by its hash.

import { sha256 } from "../sha256.js";

export const THREADS = "js-threads";
export const CHECKPOINTS = "c/";
// The most bytes of a name in the path of a namespace.
const MAX_NAME_BYTES = 256;
// Signs that encodeURIComponent escapes and names need not.
const KEPT = /%(?:20|24|26|2B|2C|3A|3B|3D|40|7C)/g;

// The text as a name or a part of a key. Never empty, and different for different texts.
function quoted(text: string): string {
  if (text === "") return "%";
  if (!text.isWellFormed()) return hashOf(text);
  let made = encodeURIComponent(text).replace(KEPT, decodeURIComponent);
  if (made.startsWith(" ") || made.endsWith(" ")) made = made.replaceAll(" ", "%20");
  return made.length <= MAX_NAME_BYTES ? made : hashOf(text);
}

// A part in which `!` ends the id of a checkpoint: it comes before all other signs that stand in ids.
function quotedId(text: string): string {
  const made = quoted(text);
  return made.startsWith("#") ? made : made.replaceAll("!", "%21").replaceAll(" ", "%20");
}

function hashOf(text: string): string {
  // As JSON, which has a form for halves of characters.
  return `#${sha256(text.isWellFormed() ? text : JSON.stringify(text))}`;
}

/** The name of a thread. Throws RangeError for one that could not be read from its name. */
export function threadName(threadId: string): string {
  const name = quoted(threadId);
  if (name.startsWith("#")) {
    throw new RangeError(
      `thread_id: must be at most ${MAX_NAME_BYTES} bytes, each of which counts as three if it is no ASCII letter, ` +
        "digit or usual sign, and must have no halves of characters",
    );
  }
  return name;
}

/** The thread of a name. */
export function threadOf(name: string): string {
  return name === "%" ? "" : decodeURIComponent(name);
}

/** The name of a checkpoint_ns. */
export function nsName(ns: string): string {
  return quoted(ns);
}

export function checkpointKey(checkpointId: string): string {
  return CHECKPOINTS + quotedId(checkpointId);
}

/** The least key after those of a checkpoint and its writes. */
export function afterCheckpoint(checkpointId: string): string {
  return `${checkpointKey(checkpointId)}"`;
}

export function blobKey(channel: string, version: string | number): string {
  return `b/${quoted(channel)}/${quoted(String(version))}`;
}

/** The beginning of the keys of a task's writes. */
export function taskPrefix(checkpointId: string, taskId: string): string {
  return `${checkpointKey(checkpointId)}!${quoted(taskId)}/`;
}

/** The key of the checkpoint that a key belongs to; itself, unless it is a pending write's. */
export function checkpointOf(key: string): string {
  return key.split("!", 1)[0] ?? key;
}
