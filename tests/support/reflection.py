"""Calls of a server that is known by its reflection alone, as grpcurl makes them."""

from __future__ import annotations

import re

import grpc
from google.protobuf import descriptor_pb2, json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)


def snake_case(answer):
    """Keys as in the proto: grpcurl's versions differ in how they print them."""
    if isinstance(answer, dict):
        return {re.sub("([A-Z])", lambda m: f"_{m[1].lower()}", k): snake_case(v)
                for k, v in answer.items()}
    return [snake_case(item) for item in answer] if isinstance(answer, list) else answer


class Reflection:
    """What grpcurl does, for machines without it: the server's own descriptors and JSON."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._database = ProtoReflectionDescriptorDatabase(channel)
        self._pool = DescriptorPool(self._database)

    def call(self, method: str, body: str) -> dict:
        service, _, rpc = method.partition("/")
        found = self._pool.FindServiceByName(f"memoryd.v1.{service}").FindMethodByName(rpc)
        request = json_format.Parse(body, GetMessageClass(found.input_type)())
        streams = found.server_streaming
        make = self._channel.unary_stream if streams else self._channel.unary_unary
        stub = make(
            f"/memoryd.v1.{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(found.output_type).FromString,
        )
        reply = stub(request, timeout=30)
        return snake_case(json_format.MessageToDict(next(reply) if streams else reply))

    def services(self) -> set[str]:
        return set(self._database.get_services())

    def describe(self, symbol: str) -> str:
        file = descriptor_pb2.FileDescriptorProto()
        self._pool.FindFileContainingSymbol(symbol).CopyToProto(file)
        return str(file)
