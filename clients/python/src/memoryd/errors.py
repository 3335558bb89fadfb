"""The exception of failed calls."""

from __future__ import annotations

from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

# Codes of a call whose outcome is unknown. CANCELLED is how gRPC ends calls that meet a server as
# it goes.
_UNKNOWN = (
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
)
# Reasons of those by which the server says that the call was not done.
_NOTHING_WAS_DONE = ("STORE_UNAVAILABLE", "DRAINING")


class MemorydError(Exception):
    """An error from memoryd, or from the connection to it.

    Attributes:
      code: the gRPC status code.
      message: what was wrong and what to change, in words.
      reason: a constant in capitals, such as `REVISION_MISMATCH`. Empty: the error does not come
        from memoryd, such as a lost connection or the client's own deadline.
      field: the invalid field of the request. Empty: none.
      details: all values that the server sends with the error, such as `current_revision`.
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

    @property
    def may_have_been_done(self) -> bool:
        """Whether a call that changes something may have done so all the same: its outcome is
        unknown. False: nothing was done."""
        if self.code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return not self.reason  # With a reason it is the server's, which has not begun.
        return self.code in _UNKNOWN and self.reason not in _NOTHING_WAS_DONE

    @classmethod
    def of(cls, error: grpc.RpcError) -> MemorydError:
        """Returns the error of a failed gRPC call."""
        info = error_info(error)
        details = dict(info.metadata)
        return cls(error.code(), error.details() or "", info.reason, details.get("field", ""),
                   details)


def error_info(error: grpc.RpcError) -> error_details_pb2.ErrorInfo:
    """Returns the google.rpc.ErrorInfo of a failed call. It is empty when the call has none."""
    info = error_details_pb2.ErrorInfo()
    metadata: Any = error.trailing_metadata() or ()
    for key, value in metadata:
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                if detail.Unpack(info):
                    break
    return info
