// For a browser: makes its calls to the server that the address names, of another origin, and posts what came of it to
// the page's own.

import { Client } from "memoryd/web";
import { round } from "./round.js";

let outcome: string;
try {
  const http = new URL(location.href).searchParams.get("http") ?? "";
  const token = "a token";
  // The preflight must let the credential through.
  outcome = `ok: ${await round(new Client(http, { token }))} in ${navigator.userAgent}`;
} catch (error) {
  outcome = error instanceof Error ? (error.stack ?? error.message) : String(error);
}
await fetch("/outcome", { method: "POST", body: outcome });
