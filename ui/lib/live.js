// @ts-check
// Tells when a session changes: by WatchSession, or by asking where the tenant watches too many already.
import { CallError, call, stream } from "./api.js";

const METHOD = "SessionService/WatchSession";
const ASK_MS = 2_000;
const LONGEST_WAIT_MS = 10_000;
const FINAL = new Set(["not_found", "permission_denied", "unauthenticated"]);

/** @param {number} ms @param {AbortSignal} signal */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve(undefined);
      },
      { once: true },
    );
  });
}

/** Names of changes without what all have in common. @param {any} event a WatchSessionResponse @returns {string[]} */
export function changesOf(event) {
  return (event.changes ?? []).map((/** @type {string} */ one) => String(one).replace("SESSION_CHANGE_", ""));
}

/**
 * Calls `changed` after each change of the session until `signal` ends, and `state` with what the connection
 * does. Goes on after the server was away. Ends with `gone` when there is no such session any more.
 * @param {string} id @param {string} revision that the caller knows
 * @param {{changed: (event: any) => Promise<void>, state: (state: "live" | "asks" | "away") => void,
 *   gone: (error: any) => void, signal: AbortSignal}} listener
 */
export async function follow(id, revision, { changed, state, gone, signal }) {
  let known = revision;
  let wait = 500;
  let mayWatch = true;
  const take = async (/** @type {any} */ event) => {
    wait = 500;
    known = String(event.revision ?? known);
    if ((event.changes ?? []).length) await changed(event);
  };
  while (!signal.aborted) {
    try {
      if (!mayWatch) {
        state("asks");
        await take(await asked(id, known, signal));
        await pause(ASK_MS, signal);
        continue;
      }
      for await (const event of stream(METHOD, { sessionId: id, afterRevision: known }, { signal })) {
        state("live");
        if (changesOf(event).includes("DELETED")) {
          gone(new CallError("not_found", "SESSION_NOT_FOUND", "The session was deleted."));
          return;
        }
        await take(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof CallError)) throw error;
      // The tenant may watch so many sessions at a time.
      if (error.reason === "TENANT_WATCHES") {
        mayWatch = false;
        continue;
      }
      if (FINAL.has(error.code)) {
        gone(error);
        return;
      }
      state("away");
      await pause(wait, signal);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    }
  }
}

/** An event as WatchSession would have it. @param {string} id @param {string} known @param {AbortSignal} signal */
async function asked(id, known, signal) {
  const { session } = await call("SessionService/GetSession", { sessionId: id }, { signal });
  const revision = String(session?.revision ?? "0");
  return { revision, changes: revision === known ? [] : ["SESSION_CHANGE_RELOAD"] };
}
