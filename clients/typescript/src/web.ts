// memoryd for browsers and edge hosts, over the HTTP port, without Node's modules.
//
//   const memory = new Client("http://127.0.0.1:50080");
//   await memory.put("s1", [{ role: "user", content: "Hello, world!" }]);

import { createConnectTransport } from "@connectrpc/connect-web";
import type { SharedOptions } from "./calls.js";
import { MemoryClient } from "./client.js";

export * from "./shared.js";

/** Options of a Client over HTTP. */
export interface ClientOptions extends SharedOptions {
  /** What fetches, by default the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/**
 * A client over HTTP, by the Connect protocol. What is sent once (retryJob, cancelJob, copyNamespace and imports) does
 * not wait for a server that is away: `fetch` can't tell whether a request has been sent. Imports need a `fetch` that
 * streams what it sends, which browsers have over HTTP/2 alone: use gRPC or lines of JSON for them.
 */
export class Client extends MemoryClient {
  /** `url` is that of the server's HTTP port. */
  constructor(url: string, options: ClientOptions = {}) {
    const transport = createConnectTransport({
      baseUrl: url,
      useBinaryFormat: true,
      // No redirect is followed, by the one mode for this that all runtimes have; its answer is none of the protocol's.
      fetch: (input, init) => (options.fetch ?? globalThis.fetch)(input, { ...init, redirect: "manual" }),
    });
    super({ transport, ready: undefined, close: () => undefined }, options);
  }
}
