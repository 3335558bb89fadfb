// memoryd for Node, Deno and Bun, over gRPC.
//
//   const memory = new Client("localhost:50051");
//   await memory.put("s1", [{ role: "user", content: "Hello, world!" }]);
//   const context = await memory.get("s1");
//   memory.close();

import { MemoryClient } from "./client.js";
import type { ClientOptions } from "./grpc.js";
import { connectionTo } from "./grpc.js";

export type { ClientOptions, Tls } from "./grpc.js";
export * from "./shared.js";

/** A client over gRPC. It connects when a call needs it, and again whenever the connection is lost. */
export class Client extends MemoryClient {
  /**
   * `target` is HOST:PORT or `unix:PATH`. Without one the environment's MEMORYD_TARGET, MEMORYD_TOKEN_FILE,
   * MEMORYD_CA_FILE, MEMORYD_CLIENT_CERT_FILE and MEMORYD_CLIENT_KEY_FILE have it and the credentials; by default it is
   * `localhost:50051`.
   */
  constructor(target?: string, options: ClientOptions = {}) {
    super(...connectionTo(target, options));
  }
}
