"""What a failed call raises."""

from __future__ import annotations

from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2


class MemorydError(Exception):
    """A call that memoryd, or the way to it, refused.

    Attributes:
      code: the gRPC status code.
      message: what to change, in words.
      reason: the reason in capitals, such as `REVISION_MISMATCH`; empty when the failure did not
        come from memoryd itself (no connection, deadline).
      field: the request field at fault, empty when none is.
      details: whatever else the server says of the error, such as `revision`.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        reason: str = "",
        field: str = "",
        details: dict[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code.name}{f' ({reason})' if reason else ''}: {message}")
        self.code = code
        self.message = message
        self.reason = reason
        self.field = field
        self.details = details or {}

    @classmethod
    def of(cls, error: grpc.RpcError) -> MemorydError:
        """The error behind a failed gRPC call."""
        info = error_info(error)
        details = dict(info.metadata)
        return cls(error.code(), error.details() or "", info.reason, details.get("field", ""),
                   details)


def error_info(error: grpc.RpcError) -> error_details_pb2.ErrorInfo:
    """The google.rpc.ErrorInfo of a failed call; empty when it carries none."""
    info = error_details_pb2.ErrorInfo()
    metadata: Any = error.trailing_metadata() or ()
    for key, value in metadata:
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                if detail.Unpack(info):
                    break
    return info
