// What an edge host or a browser is given has none of Node's modules.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

for (const [entry, most] of [["web", 250], ["wire", 150], ["ai-sdk", 250]] as const) {
  test(`memoryd/${entry} is bundled for any platform, without Node's modules`, async () => {
    const stdin = { contents: `export * from "memoryd/${entry}";`, resolveDir: import.meta.dirname };
    // No module but the AI SDK is left out: an import that this platform has not is an error.
    const built = await build({
      stdin,
      bundle: true,
      minify: true,
      platform: "neutral",
      external: ["ai"],
      mainFields: ["module", "main"],
      format: "esm",
      write: false,
      metafile: true,
      logLevel: "silent",
    });
    const imports = Object.values(built.metafile.inputs).flatMap((one) => one.imports);
    assert.deepEqual(imports.filter(({ external = false, path }) => (external && path !== "ai") || path.startsWith("node:")), []);
    const text = built.outputFiles[0]?.text ?? assert.fail();
    assert.ok(!/["']node:|\brequire\(/.test(text), "asks for a module when it runs");
    assert.ok(text.length < most * 1024, `${Math.round(text.length / 1024)} KiB`);
  });
}
