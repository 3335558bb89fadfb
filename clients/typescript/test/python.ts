// The Python adapters, for tests of what one language stores and the other reads. MEMORYD_TEST_PYTHON is the interpreter.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** A process that makes calls of tests/client_conformance/python_frameworks.py. */
export class Python {
  private readonly child = spawn(
    process.env["MEMORYD_TEST_PYTHON"] ?? "python3",
    [process.env["MEMORYD_TEST_PYTHON_FRAMEWORKS"] ?? "", process.env["MEMORYD_TEST_TARGET"] ?? ""],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  private readonly lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();

  async call(name: string, ...given: readonly unknown[]): Promise<unknown> {
    this.child.stdin.write(`${JSON.stringify([name, ...given])}\n`);
    const line = await this.lines.next();
    if (line.done === true) throw new Error(`${name} failed`);
    return JSON.parse(line.value) as unknown;
  }

  async close(): Promise<void> {
    this.child.stdin.end();
    if (this.child.exitCode === null) await once(this.child, "exit");
  }
}
