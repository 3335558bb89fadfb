"""Session ids: those of new sessions show all their characters."""

from __future__ import annotations

import grpc
import pytest

from support.access import Caller
from support.calls import memory, user

OK = grpc.StatusCode.OK
INVALID = grpc.StatusCode.INVALID_ARGUMENT
INVISIBLE = ("\u034f", "\u115f", "\u17b4", "\u2065", "\u3164", "\ufe0f", "\ufe00", "\uffa0",
             "\U000e0041", "\U000e0100", "\U000e0001", "\u200d", "\u200c",
             # Nothing to part or to join, and no emoji of any list.
             "a\u200cb", "a\u200db", "\u0915\u200d\u0937", "\u0628\u200c", "\u0627\u200c\u0628", "1\ufe0f",
             "\U0001f468\u200d\U0001f600", "\U0001f3f4\U000e0061\U000e0062\U000e007f",
             "\u2764\ufe0f\ufe0f")
SEEN = ("\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f", "1\ufe0f\u20e3",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
        # RFC 5892, A.1, and A.2 behind a virama.
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0915\u094d\u200d\u0937",
        "\u0915\u094d\u200c\u0937")


@pytest.fixture
def app(server):
    with server.channel() as channel:
        yield Caller(channel)


@pytest.mark.parametrize("method", ("Put", "Set", "CreateSession"))
def test_a_new_id_shows_all_its_characters(app, session_id, method):
    for hidden in INVISIBLE:
        error = app.error(method, session_id=session_id + hidden)
        assert error is not None and error.code() == INVALID, ascii(hidden)
        assert "session_id" in error.details()
    for seen in SEEN:
        own = session_id + seen
        assert app.code(method, session_id=own) == OK, ascii(seen)
        app("Put", session_id=own, messages=[user("x")])
        assert app("GetSession", session_id=own).session.session_id == own
        assert app.code("DeleteSession", session_id=own) == OK
    error = app.error("ForkSession", session_id=session_id, new_session_id=session_id + "\u3164")
    assert error.code() == INVALID and "new_session_id" in error.details()
    error = app.error("CreateSession", session_id=session_id + "s",
                      config=memory.SessionConfig(subject="a\ufe0f"))
    assert error.code() == INVALID and "config.subject" in error.details()


def test_an_id_of_before_is_taken_wherever_no_session_is_made(app, session_id):
    old = session_id + "\ufe0f"
    for method, fields in (("Get", {}), ("GetAll", {}), ("Reset", {}), ("DeleteSession", {}),
                           ("Query", {"query": "x"}), ("EraseSubject", {"subject": old})):
        own = fields if "subject" in fields else {"session_id": old, **fields}
        assert app.code(method, **own) == OK, method
    assert app.code("GetSession", session_id=old) == grpc.StatusCode.NOT_FOUND
