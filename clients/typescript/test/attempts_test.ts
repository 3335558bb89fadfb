// What a call that is repeated in vain throws: never that nothing was done when something may have been.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { MemorydError, sessionOf } from "memoryd";
import type { StatusCode } from "memoryd";
import { Attempts } from "../dist/esm/attempts.js";
import { sha256 } from "../dist/esm/sha256.js";

function failed(code: StatusCode, reason = "", details = {}): MemorydError {
  return new MemorydError(code, "", reason, details);
}

const LOST = failed("UNAVAILABLE");
const CANCELLED = failed("CANCELLED");
const AWAY = failed("UNAVAILABLE", "STORE_UNAVAILABLE");
const DRAINING = failed("UNAVAILABLE", "DRAINING");
const LATE = failed("DEADLINE_EXCEEDED");
const REFUSED = failed("ABORTED", "REVISION_MISMATCH");
const FULL = failed("RESOURCE_EXHAUSTED", "QUEUE_FULL");

const ENDS: [string, MemorydError[], MemorydError][] = [
  ["lost", [LOST], LOST],
  ["lost, late", [LOST, LATE], LOST],
  ["lost, away", [LOST, AWAY], LOST],
  ["cancelled, draining, away", [CANCELLED, DRAINING, AWAY], CANCELLED],
  ["away, late", [AWAY, LATE], LATE],
  ["away, draining", [AWAY, DRAINING], DRAINING],
  ["lost, refused", [LOST, REFUSED], REFUSED],
  ["lost, full", [LOST, FULL], LOST],
  ["away, full", [AWAY, FULL], FULL],
];

for (const [name, failures, thrown] of ENDS) {
  test(`${name}: what may have been done is never denied`, () => {
    let now = 0;
    const attempts = new Attempts({ timeoutMs: 60_000, waitForReady: true, isRepeatable: true }, () => now);
    for (const failure of failures.slice(0, -1)) now += attempts.pause(failure);
    now = 60_000;
    assert.throws(() => attempts.pause(failures.at(-1) ?? LOST), (error) => error === thrown);
  });
}

test("a call that the server refuses comes again when it says", () => {
  const told = failed("RESOURCE_EXHAUSTED", "TENANT_RATE", { retry_after_ms: "400" });
  const attempts = new Attempts({ timeoutMs: 1000, waitForReady: true, isRepeatable: false }, () => 0);
  const pause = attempts.pause(told);
  assert.ok(pause >= 400 && pause <= 500);
});

test("the hash is SHA-256", () => {
  for (const text of ["", "abc", "é".repeat(60), "x".repeat(55), "x".repeat(56), "x".repeat(64), "\u{1f600}".repeat(999)]) {
    assert.equal(sha256(text), createHash("sha256").update(text).digest("hex"));
  }
});

test("a user's session is named as by every client", () => {
  assert.equal(sessionOf("ann"), "memoryd.user/ann");
  assert.equal(sessionOf("100 %"), "memoryd.user/100 %25");
  assert.equal(sessionOf("a\u00a0b"), "memoryd.user/a%C2%A0b");
  assert.equal(sessionOf("é".repeat(128)), `memoryd.user#${createHash("sha256").update("é".repeat(128)).digest("hex")}`);
  for (const user of ["", " ", "a\0", "a\u200b", "\ud83d", "x".repeat(257)]) {
    assert.throws(() => sessionOf(user), RangeError, JSON.stringify(user));
  }
});
