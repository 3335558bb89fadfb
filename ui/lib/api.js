// @ts-check
// Calls of the server that served this page: the Connect protocol in JSON. docs/HTTP.md describes it.

/** An error of a call, as the server says it. */
export class CallError extends Error {
  /** @param {string} code @param {string} reason @param {string} message @param {string} [requestId] */
  constructor(code, reason, message, requestId = "") {
    super(message);
    this.code = code;
    this.reason = reason;
    this.requestId = requestId;
  }
}

const STORED = "memoryd.token";
/** @type {string} */
let token = sessionStorage.getItem(STORED) ?? "";
/** @type {Set<() => void>} */
const onUnauthenticated = new Set();
/** @type {Set<(reached: boolean) => void>} */
const onReach = new Set();
/** @type {Set<(isBusy: boolean) => void>} */
const onBusy = new Set();
let pending = 0;

/**
 * The token for all calls from now on. It is never put into a URL or a cookie.
 * @param {string} given empty: none
 * @param {boolean} keep whether it stays when the tab is reloaded
 */
export function useToken(given, keep) {
  token = given;
  if (given && keep) sessionStorage.setItem(STORED, given);
  else sessionStorage.removeItem(STORED);
}

export function hasToken() {
  return token !== "";
}

/** @param {() => void} listener */
export function whenUnauthenticated(listener) {
  onUnauthenticated.add(listener);
}

/** @param {(reached: boolean) => void} listener told of each call whether a server answered */
export function whenReached(listener) {
  onReach.add(listener);
}

/** @param {(isBusy: boolean) => void} listener told when calls begin to be awaited, and when none is any more */
export function whenBusy(listener) {
  onBusy.add(listener);
}

/** @param {number} step */
function countPending(step) {
  pending += step;
  onBusy.forEach((listener) => listener(pending > 0));
}

/** @param {string} method such as "SessionService/ListSessions" @param {object} request
 * @param {{signal?: AbortSignal, accept?: string}} options */
async function send(method, request, { signal, accept }) {
  const headers = new Headers({ "Content-Type": "application/json" });
  // A stream of lines is no call of Connect's own framing.
  if (accept) headers.set("Accept", accept);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  let response;
  try {
    response = await fetch(`../memoryd.v1.${method}`, {
      method: "POST",
      headers,
      body: JSON.stringify(request),
      signal,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    onReach.forEach((listener) => listener(false));
    throw new CallError("unreachable", "UNREACHABLE", "The server does not answer.");
  }
  onReach.forEach((listener) => listener(true));
  if (!response.ok) throw await errorOf(response);
  return response;
}

/** @param {Response} response */
async function errorOf(response) {
  let body;
  try {
    body = await response.json();
  } catch {
    return new CallError(
      "unknown",
      `HTTP_${response.status}`,
      `The answer has the status ${response.status}.`,
    );
  }
  const error = errorFrom(body, response.headers.get("X-Request-Id") ?? "");
  if (error.code === "unauthenticated") onUnauthenticated.forEach((listener) => listener());
  return error;
}

/** @param {any} body @param {string} requestId */
function errorFrom(body, requestId) {
  const code = String(body.code ?? "unknown");
  const detail = (body.details ?? []).find((/** @type {any} */ one) => one?.debug?.reason);
  const reason = detail?.debug.reason ?? code.toUpperCase();
  return new CallError(code, reason, String(body.message ?? ""), requestId);
}

/**
 * The reply to a unary call. Fields with their default are absent from it.
 * @param {string} method @param {object} [request] @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function call(method, request = {}, options = {}) {
  countPending(1);
  try {
    return await (await send(method, request, options)).json();
  } finally {
    countPending(-1);
  }
}

/**
 * The replies to a call that streams them, as they come.
 * @param {string} method @param {object} request @param {{signal?: AbortSignal}} [options]
 * @returns {AsyncGenerator<any>}
 */
export async function* stream(method, request, options = {}) {
  const response = await send(method, request, { ...options, accept: "application/x-ndjson" });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const lines = rest.split("\n");
      rest = /** @type {string} */ (lines.pop());
      for (const line of lines) {
        if (line.trim() === "") continue;
        const message = JSON.parse(line);
        if (message.error) throw errorFrom(message.error, "");
        yield message;
      }
      if (done) return;
    }
  } catch (error) {
    if (error instanceof CallError || options.signal?.aborted) throw error;
    onReach.forEach((listener) => listener(false));
    throw new CallError("unreachable", "UNREACHABLE", "The stream broke off.");
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** A request_id of its own for each write that a person starts. */
export function requestId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return "ui-" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** All of a list of pages, at most `most` entries. @param {string} method @param {object} request
 * @param {string} field @param {{signal?: AbortSignal, most?: number}} [options] */
export async function callAll(method, request, field, { signal, most = 10_000 } = {}) {
  const entries = [];
  let pageToken = "";
  do {
    const reply = await call(method, { ...request, pageToken }, { signal });
    entries.push(...(reply[field] ?? []));
    pageToken = reply.nextPageToken ?? "";
  } while (pageToken && entries.length < most);
  return { entries, isCut: pageToken !== "" };
}
