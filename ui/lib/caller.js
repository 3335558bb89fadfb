// @ts-check
// Who calls, and what the server is: asked once, and again with another token.
import { call } from "./api.js";

/** @type {any} */
let info = null;

/** @param {AbortSignal} [signal] */
export async function loadServer(signal) {
  info = await call("ServerService/GetServerInfo", {}, { signal });
  return info;
}

export function serverInfo() {
  return info ?? {};
}

/** @param {"read" | "write" | "admin" | "worker"} right */
export function may(right) {
  return (info?.caller?.rights ?? []).includes(right);
}

/** The only subject whose memory the caller reaches; empty for all. @returns {string} */
export function ownSubject() {
  return info?.caller?.subject ?? "";
}

/**
 * What a button for a call that needs `right` has: nothing where the caller has it, else the reason why
 * it does nothing.
 * @param {"read" | "write" | "admin" | "worker"} right
 */
export function needs(right) {
  if (may(right)) return {};
  return { disabled: true, title: `Your credential lacks the right “${right}”.` };
}
