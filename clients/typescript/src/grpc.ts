// The connection over gRPC, for Node, Deno and Bun.

import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import type { Attempts } from "./attempts.js";
import { sleep } from "./attempts.js";
import type { Connection, SharedOptions, Unary } from "./calls.js";
import { MemorydError } from "./errors.js";
import { PutGatherer } from "./gathering.js";
import { grpcCall } from "./grpcCall.js";

/** Certificates of TLS, in PEM. */
export interface Tls {
  /** What signed the server's certificate; by default what Node trusts. */
  readonly ca?: string | Uint8Array | undefined;
  /** The client's own certificate, for a server with `tls_client_ca`. */
  readonly cert?: string | Uint8Array | undefined;
  /** The key of `cert`. */
  readonly key?: string | Uint8Array | undefined;
}

/** Options of a Client over gRPC. */
export interface ClientOptions extends SharedOptions {
  /** Turns TLS on. */
  readonly tls?: Tls | boolean | undefined;
}

/**
 * Connects when a call needs it, and again whenever the connection is lost. Without `target` the environment has it and the
 * credentials. Returns the options with these too.
 */
export function connectionTo(target: string | undefined, given: ClientOptions): [Connection, ClientOptions] {
  const { target: found, options } = target === undefined ? fromEnvironment(given) : { target, options: given };
  return [grpcConnection(found, options), options];
}

function fromEnvironment(given: ClientOptions): { target: string; options: ClientOptions } {
  const { env } = process;
  const target = env["MEMORYD_TARGET"] ?? "localhost:50051";
  const tokenFile = env["MEMORYD_TOKEN_FILE"];
  const read = (name: string): Uint8Array | undefined => {
    const path = env[name];
    return path === undefined || path === "" ? undefined : readFileSync(path);
  };
  let { tls, token } = given;
  const ca = target.startsWith("unix:") ? undefined : read("MEMORYD_CA_FILE");
  if (ca !== undefined) tls ??= { ca, cert: read("MEMORYD_CLIENT_CERT_FILE"), key: read("MEMORYD_CLIENT_KEY_FILE") };
  // Read at every call, so that it may be rotated.
  if (tokenFile !== undefined && tokenFile !== "") token ??= () => readFileSync(tokenFile, "utf8").trim();
  return { target, options: { ...given, tls, token } };
}

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1000;

function grpcConnection(target: string, options: ClientOptions): Connection {
  const path = target.startsWith("unix:") ? target.slice("unix:".length).replace(/^\/\/\//, "/") : undefined;
  const isSecure = options.tls !== undefined && options.tls !== false && path === undefined;
  const tls = typeof options.tls === "object" ? options.tls : {};
  const baseUrl = `${isSecure ? "https" : "http"}://${path === undefined ? target : "localhost"}`;
  const sessions = new Http2SessionManager(
    baseUrl,
    // A connection that the network forgot is found after 8 s, within the default timeout.
    { pingIntervalMs: 4000, pingTimeoutMs: 4000 },
    {
      // Of 10 by default, in MB. Requests on their way count, and beyond it Node resets each call whose answer comes.
      maxSessionMemory: 4096,
      ...(isSecure ? buffers(tls) : {}),
      ...(path === undefined ? {} : { createConnection: () => connect(path) }),
    },
  );
  const transport = createGrpcTransport({ baseUrl, sessionManager: sessions, acceptCompression: [] });
  async function ready(attempts: Attempts, signal: AbortSignal | undefined): Promise<void> {
    const end = performance.now() + attempts.leftMs;
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      if ((await sessions.connect()) !== "error") return;
      if (performance.now() + pause >= end) {
        const why = sessions.error();
        throw new MemorydError("UNAVAILABLE", String(why), "", {}, { cause: why });
      }
      await sleep(pause, signal);
    }
  }
  const unary: Unary = (method, signal, timeoutMs, header, body) =>
    grpcCall(sessions, method, signal, timeoutMs, header, body);
  return {
    transport,
    unary,
    puts: new PutGatherer(unary, options.waitForReady ?? true),
    ready,
    close: () => {
      sessions.abort();
    },
  };
}

function buffers(tls: Tls): Record<string, string | Buffer> {
  const made: Record<string, string | Buffer> = {};
  for (const [name, given] of Object.entries(tls) as [string, string | Uint8Array | undefined][]) {
    if (given !== undefined) made[name] = typeof given === "string" ? given : Buffer.from(given);
  }
  return made;
}
