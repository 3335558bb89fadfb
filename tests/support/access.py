"""Credentials, and every RPC of the services by its descriptor."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import pathlib
import pkgutil
from collections.abc import Iterable, Mapping

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor

from support import paths  # noqa: F401  (makes memoryd importable)

import memoryd.v1


def _methods() -> dict[str, MethodDescriptor]:
    found = {}
    for module in pkgutil.iter_modules(memoryd.v1.__path__):
        if module.name.endswith("_service_pb2"):
            file = importlib.import_module(f"memoryd.v1.{module.name}").DESCRIPTOR
            for service in file.services_by_name.values():
                found.update(service.methods_by_name)
    return found


# By name, whatever service they belong to. New RPCs join by themselves.
METHODS = _methods()
# What a credential with the right `read` may call, and what any may; all others are writes. An empty
# BatchItems is a read; what is in it decides.
READS = {"Get", "GetAll", "StreamAll", "GetContent", "Query", "UpdateContext", "GetSession",
         "ListSessions", "WatchSession", "ListJobs", "GetJob", "GetUsage", "GetBlock",
         "ListBlockEntries", "GetItem", "ListItems", "SearchItems", "BatchItems", "GetNamespace",
         "ListNamespaces"}
FOR_ANY = {"GetServerInfo"}
FOR_WORKERS = {"Attach"}
FOR_ADMINS = {"ImportSession", "ImportNamespace"}  # Who may write besides.


def rights_of(method: str) -> set[str]:
    """The rights that an RPC needs, all of them."""
    if method in FOR_ADMINS:
        return {"admin", "write"}
    return {right_of(method)} - {""}


def right_of(method: str) -> str:
    """The right that an RPC asks for first, empty for any."""
    if method in FOR_ANY:
        return ""
    if method in FOR_WORKERS:
        return "worker"
    if method in FOR_ADMINS:
        return "admin"
    return "read" if method in READS else "write"


Metadata = Iterable[tuple[str, str | bytes]]


def bearer(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


class Caller:
    """Calls any RPC by its name, with the credentials given. Of a stream, it sends one request and
    hears the first reply."""

    def __init__(self, channel: grpc.Channel, token: str | None = None) -> None:
        self._metadata = () if token is None else bearer(token)
        self._calls = {
            name: _call(channel, name, method) for name, method in METHODS.items()
        }

    def __call__(self, method: str, request=None, *, metadata: Metadata | None = None,
                 timeout: float = 30.0, **fields):
        if request is None:
            request = request_of(method, **fields)
        return self._calls[method](
            request, timeout=timeout, metadata=self._metadata if metadata is None else metadata)

    def error(self, method: str, request=None, **options) -> grpc.RpcError | None:
        """The error of a call, None when it succeeds."""
        try:
            self(method, request, **options)
        except grpc.RpcError as error:
            return error
        return None

    def code(self, method: str, request=None, **options) -> grpc.StatusCode:
        error = self.error(method, request, **options)
        return grpc.StatusCode.OK if error is None else error.code()


def _call(channel: grpc.Channel, name: str, method: MethodDescriptor):
    if method.client_streaming:
        make = channel.stream_stream if method.server_streaming else channel.stream_unary
    else:
        make = channel.unary_stream if method.server_streaming else channel.unary_unary
    made = make(
        f"/{method.containing_service.full_name}/{name}",
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
    )
    if not method.client_streaming and not method.server_streaming:
        return made
    if not method.client_streaming:
        return lambda request, **options: next(made(request, **options))
    if not method.server_streaming:
        return lambda request, **options: made(iter([request]), **options)
    return lambda request, **options: next(made(iter([request]), **options))


def request_of(method: str, **fields):
    return message_factory.GetMessageClass(METHODS[method].input_type)(**fields)


def credential(tenant: str, rights: Iterable[str] = ("read", "write"), *, token: str | None = None,
               **more: str) -> Mapping[str, object]:
    """An entry of the credentials file, for a token or what `more` says."""
    if token is not None:
        more["token_sha256"] = hashlib.sha256(token.encode()).hexdigest()
    return {"tenant": tenant, "rights": list(rights), **more}


# Of write_subjects.
SUBJECT_TOKENS = ("all", "ann", "bob", "writer")


def write_subjects(folder: pathlib.Path, rights: Iterable[str] = ("read", "write")) -> pathlib.Path:
    """A file of credentials: `all` is of no subject, `ann` and `bob` are of one each. `writer` is of
    ann's and may only write."""
    return write_credentials(folder / "credentials.yaml", [
        credential("t", rights, token="all"),
        credential("t", rights, token="ann", subject="ann"),
        credential("t", rights, token="bob", subject="bob"),
        credential("t", ("write",), token="writer", subject="ann"),
    ])


def write_credentials(path: pathlib.Path, entries: Iterable[Mapping[str, object]]) -> pathlib.Path:
    """Replaces the file at once, as a server that reads it at any time needs it."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(list(entries), indent=1))  # JSON is YAML.
    os.chmod(new, 0o600)
    os.replace(new, path)
    return path
