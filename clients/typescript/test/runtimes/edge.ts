// For workerd, the runtime of Cloudflare's workers: what its test calls. It has none of Node's modules.

import { Client } from "memoryd/web";
import { round } from "./round.js";

export default {
  async test(_controller: unknown, environment: { HTTP: string }): Promise<void> {
    console.log(await round(new Client(environment.HTTP)));
  },
};
