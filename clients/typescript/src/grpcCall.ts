// One attempt of a unary call over gRPC. connect-node's own takes three times as long, in async iterators and in errors
// that it makes for calls that succeed; it makes the streams.

import type { DescMessage, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { fromBinary } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import type { Http2SessionManager } from "@connectrpc/connect-node";
import type { ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import { constants } from "node:http2";
import type { Header } from "./calls.js";
import { codeOf, MemorydError } from "./errors.js";
import { ErrorInfoSchema, StatusSchema } from "./gen/google/rpc/error_details_pb.js";

// A frame's flag of compression and its length.
const PREFIX_BYTES = 5;

/** Makes the attempt with the encoded request. Throws MemorydError. */
export async function grpcCall<O extends DescMessage>(
  sessions: Http2SessionManager,
  method: DescMethodUnary<DescMessage, O>,
  signal: AbortSignal | undefined,
  timeoutMs: number,
  header: Header,
  body: Uint8Array,
): Promise<MessageShape<O>> {
  const frame = Buffer.allocUnsafe(PREFIX_BYTES + body.length);
  frame.writeUInt8(0);
  frame.writeUInt32BE(body.length, 1);
  frame.set(body, PREFIX_BYTES);
  const headers = {
    ...header,
    "content-type": "application/grpc+proto",
    "grpc-timeout": `${timeoutMs}m`,
    te: "trailers",
    "user-agent": "memoryd-typescript",
  };
  const reply = await exchanged(sessions, `/${method.parent.typeName}/${method.name}`, headers, frame, timeoutMs, signal);
  return fromBinary(method.output, reply);
}

// Sends the frame, and returns the body of the one that comes back.
function exchanged(
  sessions: Http2SessionManager,
  path: string,
  headers: Record<string, string>,
  frame: Buffer,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    let stream: ClientHttp2Stream | undefined;
    let isOver = false;
    const end = (): void => {
      isOver = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", giveUp);
    };
    const fail = (error: MemorydError): void => {
      if (isOver) return;
      end();
      stream?.close(constants.NGHTTP2_CANCEL);
      reject(error);
    };
    const lost = (why: unknown): void => {
      fail(new MemorydError("UNAVAILABLE", why instanceof Error ? why.message : String(why), "", {}, { cause: why }));
    };
    const giveUp = (): void => {
      fail(new MemorydError("CANCELLED", "the caller has given up the call"));
    };
    const timer = setTimeout(() => {
      fail(new MemorydError("DEADLINE_EXCEEDED", "the call's time was over before its answer came"));
    }, timeoutMs);
    signal?.addEventListener("abort", giveUp);

    const take = (opened: ClientHttp2Stream): void => {
      stream = opened;
      const chunks: Buffer[] = [];
      let status: IncomingHttpHeaders | undefined;
      let answer = "no answer";
      opened.on("error", lost);
      if (isOver) {
        opened.close(constants.NGHTTP2_CANCEL);
        return;
      }
      opened.on("response", (received) => {
        if ("grpc-status" in received) status = received;
        else if (received[":status"] !== 200) answer = `HTTP status ${String(received[":status"])}`;
      });
      opened.on("data", (chunk: Buffer) => {
        sessions.notifyResponseByteRead(opened);
        chunks.push(chunk);
      });
      opened.on("trailers", (received: IncomingHttpHeaders) => {
        status = received;
      });
      opened.on("close", () => {
        if (isOver) return;
        if (status === undefined) {
          lost(opened.rstCode === constants.NGHTTP2_NO_ERROR ? answer : `the stream was reset: ${String(opened.rstCode)}`);
          return;
        }
        const error = errorIn(status);
        if (error !== undefined) {
          fail(error);
          return;
        }
        const reply = chunks.length === 1 ? (chunks[0] ?? frame) : Buffer.concat(chunks);
        if (reply.length < PREFIX_BYTES || reply.readUInt32BE(1) !== reply.length - PREFIX_BYTES || reply[0] !== 0) {
          fail(new MemorydError("INTERNAL", "the reply is no frame of gRPC"));
          return;
        }
        end();
        // As such, since bytes in the reply are of the same type.
        resolve(new Uint8Array(reply.buffer, reply.byteOffset + PREFIX_BYTES, reply.length - PREFIX_BYTES));
      });
      opened.end(frame);
    };
    sessions.request("POST", path, headers, {}).then(take).catch(lost);
  });
}

// The error that trailers tell; undefined for OK.
function errorIn(trailers: IncomingHttpHeaders): MemorydError | undefined {
  const code = Number(trailers["grpc-status"]);
  if (code === 0) return undefined;
  const said = (trailers["grpc-message"] as string | undefined) ?? "";
  const details = trailers["grpc-status-details-bin"];
  if (typeof details === "string") {
    for (const any of fromBinary(StatusSchema, base64Decode(details)).details) {
      const info = anyUnpack(any, ErrorInfoSchema);
      if (info !== undefined) return new MemorydError(codeOf(code), decoded(said), info.reason, info.metadata);
    }
  }
  return new MemorydError(codeOf(code), decoded(said));
}

function decoded(message: string): string {
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}
