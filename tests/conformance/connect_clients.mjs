// Connect's own clients for Node and for browsers against the HTTP port, in JSON and in binary.
//
// usage: node connect_clients.mjs DESCRIPTORS URL
//
// DESCRIPTORS is a FileDescriptorSet of proto/. Prints a line for each client, and throws where an answer is
// another than expected.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import * as forNode from "@connectrpc/connect-node";
import * as forBrowsers from "@connectrpc/connect-web";

const [descriptors, baseUrl] = process.argv.slice(2);
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const service = (name) => registry.getService(`memoryd.v1.${name}`);
const ErrorInfo = registry.getMessage("google.rpc.ErrorInfo");

async function failure(call) {
  const error = await call.then(() => assert.fail("no error"), ConnectError.from);
  return { code: Code[error.code], reason: error.findDetails(ErrorInfo)[0]?.reason };
}

async function tour(name, makeTransport, options) {
  // Methods of HTTP by paths, of clients that let one see them.
  const asked = {};
  const seen = (url, init) => {
    asked[new URL(url).pathname.split("/").pop()] = init.method;
    return fetch(url, init);
  };
  const transport = makeTransport({ baseUrl, fetch: seen, ...options });
  const memory = createClient(service("MemoryService"), transport);
  const sessions = createClient(service("SessionService"), transport);
  const items = createClient(service("ItemService"), transport);
  const sessionId = `tour ${name}`;
  const said = ["I live in Lisbon.", "Olá! 👋", "x".repeat(100_000)];

  const put = await memory.put({
    sessionId, messages: said.map((text) => ({ role: "user", text })) });
  assert.equal(put.messageIds.length, 3);
  assert.equal(typeof put.revision, "bigint");

  const texts = (messages) => messages.map((message) => message.text);
  assert.deepEqual(texts((await memory.get({ sessionId })).messages), said);
  const page = await memory.getAll({ sessionId, pageSize: 2 });
  assert.deepEqual(texts(page.messages), said.slice(0, 2));
  const found = await memory.query({ sessionId, query: "Lisbon" });
  assert.equal(found.results[0].item.value.text, said[0]);

  const streamed = [];
  for await (const some of memory.streamAll({ sessionId, pageSize: 1 })) streamed.push(...some.messages);
  assert.deepEqual(texts(streamed), said);

  // Without side effects, so a GET where the client may make one.
  assert.equal((await sessions.getSession({ sessionId })).session.revision, put.revision);
  if (makeTransport === forBrowsers.createConnectTransport) {
    assert.equal(asked.GetSession, options.useHttpGet ? "GET" : "POST");
    assert.equal(asked.Get, "POST");
  }
  assert.deepEqual(await failure(sessions.getSession({ sessionId: "none" })),
                   { code: "NotFound", reason: "SESSION_NOT_FOUND" });
  assert.deepEqual(await failure(memory.put({ sessionId: "" })),
                   { code: "InvalidArgument", reason: "INVALID_FIELD" });
  assert.deepEqual(
    await failure(memory.put({ sessionId, expectedRevision: 99n, messages: [{ role: "user", text: "late" }] })),
    { code: "Aborted", reason: "REVISION_MISMATCH" });

  const namespace = ["tour", name];
  await items.putItem({ namespace, put: { key: "k", value: { case: "json", value: '{"likes": "tea"}' } } });
  const kept = await items.getItem({ namespace, get: { key: "k" } });
  assert.deepEqual(JSON.parse(kept.item.value.value), { likes: "tea" });

  const ended = new AbortController();
  ended.abort();
  assert.equal((await failure(memory.get({ sessionId }, { signal: ended.signal }))).code, "Canceled");
  console.log(`${name}: right`);
}

const node = { httpVersion: "1.1" };
const gzip = { ...node, sendCompression: forNode.compressionGzip, acceptCompression: [forNode.compressionGzip] };
for (const [name, make, options] of [
  ["connect-node", forNode.createConnectTransport, node],
  ["connect-node, gzip", forNode.createConnectTransport, gzip],
  ["connect-web", forBrowsers.createConnectTransport, {}],
]) {
  for (const useBinaryFormat of [false, true]) {
    for (const useHttpGet of [false, true]) {
      await tour(`${name}, ${useBinaryFormat ? "binary" : "JSON"}${useHttpGet ? ", GET" : ""}`, make,
                 { ...options, useBinaryFormat, useHttpGet });
    }
  }
}
