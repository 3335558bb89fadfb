"""What a call that is repeated in vain raises: never that nothing was done when something may have
been."""

from __future__ import annotations

import types

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from support import paths  # noqa: F401  (makes memoryd importable)

from memoryd import MemorydError, _calls


class Failed(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, reason: str = "") -> None:
        super().__init__()
        self._code = code
        self._status = status_pb2.Status()
        if reason:
            self._status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason))

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return ""

    def trailing_metadata(self):
        return (("grpc-status-details-bin", self._status.SerializeToString()),)


LOST = Failed(grpc.StatusCode.UNAVAILABLE)
CANCELLED = Failed(grpc.StatusCode.CANCELLED)
AWAY = Failed(grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
DRAINING = Failed(grpc.StatusCode.UNAVAILABLE, "DRAINING")
LATE = Failed(grpc.StatusCode.DEADLINE_EXCEEDED)
REFUSED = Failed(grpc.StatusCode.ABORTED, "REVISION_MISMATCH")
FULL = Failed(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
UNKNOWN_CALLER = Failed(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


@pytest.mark.parametrize("failures, raised", (
    ([LOST], LOST),
    ([LOST, LATE], LOST),
    ([LOST, AWAY], LOST),
    ([CANCELLED, DRAINING, AWAY], CANCELLED),
    ([AWAY, LATE], LATE),
    ([AWAY, DRAINING], DRAINING),
    ([LOST, REFUSED], REFUSED),
    ([LOST, FULL], LOST),
    ([AWAY, FULL], FULL),
    ([LOST, UNKNOWN_CALLER], LOST),
))
def test_what_may_have_been_done_is_never_denied(monkeypatch, failures, raised):
    now = [0.0]
    monkeypatch.setattr(_calls, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    attempts = _calls.Attempts(_calls.put("s"), timeout=60.0, wait_for_ready=True)
    for failure in failures[:-1]:
        now[0] += attempts.pause(failure)
        assert attempts.options(None)["wait_for_ready"]
    now[0] = 60.0
    with pytest.raises(MemorydError) as caught:
        attempts.pause(failures[-1])
    assert (caught.value.code, caught.value.reason) == (
        raised.code(), MemorydError.of(raised).reason)


@pytest.mark.parametrize("call", (
    _calls.update_content("s", "c", "x"), _calls.delete_content("s", "c"),
    _calls.undo_block_change("s", "b", 1), _calls.add_fact("s", "b", "x"),
    _calls.update_fact("s", "b", 1, "x"), _calls.delete_fact("s", "b", 1)),
    ids=lambda call: call.rpc.name)
def test_a_change_has_a_request_id_and_may_be_repeated(call):
    assert call.repeatable and call.request.request_id
