#!/usr/bin/env python3
"""What grpcurl does, for machines without it: the server's own descriptors, or with -proto those of the
stubs, and JSON.

usage: grpcurl.py [-plaintext | -cacert FILE] [-H 'NAME: VALUE']... [-import-path FOLDER -proto FILE]
           [-d JSON...] HOST:PORT list | describe SYMBOL | SERVICE/METHOD
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shlex
import shutil
import sys
from collections.abc import Iterator

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

_SECONDS = 60


def install(folder: pathlib.Path) -> pathlib.Path:
    """The program `grpcurl`, of this machine or else this one, as a file of the folder; GRPCURL names
    another one than that on the PATH."""
    program = os.environ.get("GRPCURL") or shutil.which("grpcurl")
    file = folder / "grpcurl"
    if program:
        file.symlink_to(pathlib.Path(program).resolve())
    else:
        file.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} "
                        f'{shlex.quote(__file__)} "$@"\n')
        file.chmod(0o755)
    return file


def objects(text: str) -> Iterator[str]:
    """The JSON objects that stand one behind the other."""
    decoder, at = json.JSONDecoder(strict=False), 0
    while at < len(text.rstrip()):
        begin = at + len(text[at:]) - len(text[at:].lstrip())
        _, at = decoder.raw_decode(text, begin)
        yield text[begin:at]


def call(channel: grpc.Channel, pool: descriptor_pool.DescriptorPool, symbol: str, body: str,
         metadata: list[tuple[str, str]]) -> None:
    service, _, rpc = symbol.partition("/")
    method = pool.FindServiceByName(service).FindMethodByName(rpc)
    kind = GetMessageClass(method.input_type)
    requests = [json_format.Parse(text, kind()) for text in objects(body)] or [kind()]
    if len(requests) > 1 and not method.client_streaming:
        raise SystemExit(f"{symbol} takes one request")
    make = getattr(channel, ("stream" if method.client_streaming else "unary")
                   + ("_stream" if method.server_streaming else "_unary"))
    stub = make(f"/{symbol}", request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=GetMessageClass(method.output_type).FromString)
    reply = stub(iter(requests) if method.client_streaming else requests[0], timeout=_SECONDS,
                 metadata=metadata)
    for message in reply if method.server_streaming else [reply]:
        print(json_format.MessageToJson(message))


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-plaintext", action="store_true")
    parser.add_argument("-cacert", type=pathlib.Path)
    parser.add_argument("-H", action="append", default=[])
    parser.add_argument("-import-path", dest="folder")
    parser.add_argument("-proto")
    parser.add_argument("-d", default="")
    parser.add_argument("target")
    parser.add_argument("symbols", nargs="+")
    options = parser.parse_args()
    if options.plaintext:
        channel = grpc.insecure_channel(options.target)
    else:
        roots = options.cacert.read_bytes() if options.cacert else None
        channel = grpc.secure_channel(options.target, grpc.ssl_channel_credentials(roots))
    metadata = [(name.strip().lower(), value.strip())
                for name, _, value in (header.partition(":") for header in options.H)]
    if options.proto:
        from support import paths  # noqa: F401  (makes memoryd importable)
        __import__("memoryd." + options.proto.removeprefix("memoryd/").removesuffix(".proto")
                   .replace("/", ".") + "_pb2")
        pool = descriptor_pool.Default()
    else:
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = descriptor_pool.DescriptorPool(database)
    with channel:
        if options.symbols == ["list"]:
            print("\n".join(database.get_services()))
        elif options.symbols[0] == "describe":
            file = descriptor_pb2.FileDescriptorProto()
            pool.FindFileContainingSymbol(options.symbols[1]).CopyToProto(file)
            print(file)
        else:
            call(channel, pool, options.symbols[0], options.d, metadata)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    try:
        main()
    except grpc.RpcError as failed:
        sys.exit(f"ERROR:\n  Code: {failed.code().name}\n  Message: {failed.details()}")
