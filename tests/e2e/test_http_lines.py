"""Streams over HTTP as lines of JSON: what is exported by lines is imported by lines, whole or not at all."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any

import pytest

from support.calls import Calls, assistant, note, user
from support.http import LINES, LISTEN, HttpCaller, lines_of, path_of, reason_of
from support.server import Server, ready
from support.stores import fresh_store

BEGIN, END = {"begin": {"sessionId": "made"}}, {"end": {}}
MESSAGE = {"messageId": "m1", "position": "1", "role": "user", "text": "I live in Lisbon."}


@pytest.fixture(scope="module", params=("sqlite", "postgresql"))
def server(request):
    with fresh_store(request.param) as store, Server(
            store, arguments=[LISTEN, "--max-request-mib=16"]) as served:
        yield served


@pytest.fixture(scope="module")
def calls(server):
    with server.channel() as channel:
        yield Calls(ready(channel))


@pytest.fixture
def caller(server, calls):
    yield HttpCaller(server.http)
    calls.DeleteSession(session_id="made")
    calls.DeleteNamespace(namespace=["made"])


def is_there(calls: Calls) -> bool:
    return any(session.session_id == "made" for session in calls.ListSessions().sessions)


def moved(pages: list[dict[str, Any]], to: str) -> list[dict[str, Any]]:
    """The lines of StreamAll as those of an ImportSession."""
    items = [{kind: page[kind] for kind in ("messages", "contents") if kind in page} for page in pages]
    counts = {f"{kind[:-1]}Count": sum(len(item.get(kind, ())) for item in items)
              for kind in ("messages", "contents")}
    return [{"begin": {"sessionId": to}}, *({"items": item} for item in items), {"end": counts}]


def test_lines_of_a_session_make_it_again(caller, calls):
    calls.Put(session_id="source", contents=[note("tea", content_id="c1")], messages=[
        user("one\ntwo \u4e2d\u6587 \U0001f600", message_id="a", metadata_json='{"b":1.0,"a":1}'),
        user("long " * 20_000)])
    for _ in range(3):
        calls.Put(session_id="source", messages=[
            (user if i % 2 else assistant)(f"m{i}") for i in range(800)])
    pages = caller.lines("StreamAll", sessionId="source", includeContents=True, pageSize=1000)
    assert len(pages) > 2
    streamed = caller.stream("StreamAll", sessionId="source", includeContents=True, pageSize=1000)
    assert [page | {"nextPageToken": ""} for page in pages] == [
        page | {"nextPageToken": ""} for page in streamed[:-1]]
    status, reply = caller.send_lines("ImportSession", *moved(pages, "made"))
    assert status == 200, reply
    assert reply["session"]["sessionId"] == "made"

    def stored(session_id: str) -> list[tuple[Any, ...]]:
        return [(m.message_id, m.text, m.position, m.status, m.ingest_time.ToNanoseconds(),
                 m.metadata_json) for m in calls.all_messages(session_id)]

    assert stored("made") == stored("source")
    assert calls.GetContent(session_id="made", content_id="c1").content.text == "tea"
    status, again = caller.send_lines("ImportSession", *moved(pages, "made"))
    assert (status, reason_of(again)) == (409, "SESSION_EXISTS")


def test_lines_of_a_namespace_make_it_again(caller, calls):
    for i in range(20):
        calls.PutItem(namespace=["source"], put={"key": f"k{i}", "json": json.dumps({"n": i})})
    listed = caller("ListItems", namespace=["source"], pageSize=1000)[1]["items"]
    status, reply = caller.send_lines(
        "ImportNamespace", {"begin": {"namespace": ["made"]}}, {"items": {"items": listed[:7]}},
        {"items": {"items": listed[7:]}}, {"end": {"itemCount": len(listed)}})
    assert status == 200, reply
    made = caller("ListItems", namespace=["made"], pageSize=1000)[1]["items"]
    assert {item["key"]: item["json"] for item in made} == {item["key"]: item["json"] for item in listed}


@pytest.mark.parametrize(("lines", "line", "says", "because"), (
    ((BEGIN, {"items": {"mesages": []}}), 2, "mesages", "MALFORMED_JSON"),
    ((BEGIN, {"items": {"messages": [{**MESSAGE, "position": "one"}]}}), 2, "position",
     "MALFORMED_JSON"),
    ((BEGIN, [BEGIN]), 2, "must be a JSON object", "MALFORMED_JSON"),
    ((BEGIN, {"items": {"messages": [MESSAGE]}},
      {"items": {"messages": [{**MESSAGE, "position": "2", "messageId": "m2", "role": ""}]}}), 3,
     "messages[0].role", "INVALID_FIELD"),
    (({"begin": {"sessionId": ""}},), 1, "begin.session_id", "INVALID_FIELD"),
    ((BEGIN, BEGIN), 2, "begin", "INVALID_FIELD"),
    ((BEGIN, {}), 2, "step", "INVALID_FIELD"),
    ((BEGIN, {"items": {"messages": [MESSAGE]}}, {"end": {"messageCount": "2"}}), 3, "end",
     "INVALID_FIELD"),
    ((BEGIN, {"items": {"messages": [MESSAGE]}}), 2, "ended before its `end`", "IMPORT_CUT_SHORT"),
))
def test_an_error_names_line_and_field_and_nothing_is_made(caller, calls, lines, line, says, because):
    status, error = caller.send_lines("ImportSession", *lines)
    assert (status, error["code"], reason_of(error)) == (400, "invalid_argument", because)
    assert error["message"].startswith(f"line {line}: ") and says in error["message"]
    assert not is_there(calls)


def test_lines_that_are_no_json_are_refused(caller, calls):
    begin = lines_of([BEGIN])
    for line in (b"{", b'{"items": {"messages": [{"text": "\xff"}]}}', b"[]", b"null", b"\0" * 100,
                 b"[" * 10_000):
        status, answer = caller.raw(path_of("ImportSession"), begin + b"\n" + line + b"\n",
                                    {"Content-Type": LINES})
        error = json.loads(answer)
        assert (status, reason_of(error)) == (400, "MALFORMED_JSON"), line
        assert error["message"].startswith("line 3: ")
    assert not is_there(calls)


def test_a_stream_that_breaks_off_makes_nothing(server, calls):
    connection = http.client.HTTPConnection(server.http, timeout=60)
    connection.putrequest("POST", path_of("ImportSession"))
    connection.putheader("Content-Type", LINES)
    connection.putheader("Content-Length", "1000000")
    connection.endheaders()
    connection.send(lines_of([BEGIN, {"items": {"messages": [MESSAGE]}}]) + b'{"end": {"messageCou')
    connection.close()
    # Only a call that is over leaves the id to another.
    caller = HttpCaller(server.http)
    lines = (BEGIN, {"items": {"messages": [MESSAGE]}}, {"end": {"messageCount": 1}})
    for _ in range(600):
        status, reply = caller.send_lines("ImportSession", *lines)
        if status == 200:
            break
        assert reason_of(reply) in ("SESSION_EXISTS", "SESSION_REPLACED"), reply
    assert [m.text for m in calls.all_messages("made")] == [MESSAGE["text"]]
    calls.DeleteSession(session_id="made")


def test_others_go_on_while_streams_are_half_there(server, calls):
    """Each holds a connection and one line, and no thread."""
    opened = []
    for i in range(200):
        connection = http.client.HTTPConnection(server.http, timeout=60)
        connection.putrequest("POST", path_of("ImportSession"))
        connection.putheader("Content-Type", LINES)
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        begin = lines_of([{"begin": {"sessionId": f"half {i}"}}]) + b'{"items": '
        connection.send(f"{len(begin):x}\r\n".encode() + begin + b"\r\n")
        opened.append(connection)
    caller = HttpCaller(server.http)
    threads = [threading.Thread(target=lambda: HttpCaller(server.http)("GetServerInfo")) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert caller("Put", sessionId="beside", messages=[{"role": "user", "text": "a"}])[0] == 200
    for thread in threads:
        thread.join()
    for connection in opened:
        connection.close()
    assert not any(session.session_id.startswith("half") for session in calls.ListSessions().sessions)


def test_an_error_before_the_first_line_is_a_status_of_http(caller):
    status, answer = caller.raw(path_of("StreamAll"), b'{"sessionId": "none", "pageSize": -1}',
                                {"Content-Type": "application/json", "Accept": LINES})
    error = json.loads(answer)
    assert (status, reason_of(error)) == (400, "INVALID_FIELD")
    assert error["message"].startswith("page_size: ")
    status, answer = caller.raw(path_of("StreamAll"), b'{"sessionId": "none"}',
                                {"Content-Type": "application/json"})
    error = json.loads(answer)
    assert (status, reason_of(error)) == (415, "CONTENT_TYPE") and LINES in error["message"]


def test_a_session_may_be_larger_than_a_request(server, calls):
    """Of 40 MB, where a request may have 16 MiB; a line that is larger is refused by its number."""
    text = "x" * 1_000_000
    lines = [{"begin": {"sessionId": "large"}},
             *({"items": {"messages": [{"messageId": f"m{i}", "position": str(i), "role": "user",
                                        "status": "MESSAGE_STATUS_ARCHIVED", "text": text}]}}
               for i in range(1, 41)), {"end": {"messageCount": "40"}}]
    caller = HttpCaller(server.http)
    status, reply = caller.send_lines("ImportSession", *lines)
    assert status == 200, reply
    assert calls.GetAll(session_id="large", page_size=1).messages[0].text == text
    calls.DeleteSession(session_id="large")
    most = 16 << 20
    status, answer = caller.raw(
        path_of("ImportSession"), lines_of([BEGIN]) + b" " * (most + 100_000), {"Content-Type": LINES})
    error = json.loads(answer)
    assert (status, reason_of(error)) == (429, "REQUEST_TOO_LARGE"), error
    assert error["message"].startswith("line 2: ")


@pytest.mark.parametrize(("path", "media_type"), (
    (path_of("ImportSession"), LINES), (path_of("Put"), "application/json")))
def test_a_request_that_outlasts_its_deadline_is_answered(server, path, media_type):
    connection = http.client.HTTPConnection(server.http, timeout=60)
    connection.putrequest("POST", path)
    for name, value in (("Content-Type", media_type), ("Content-Length", "1000"),
                        ("Connect-Timeout-Ms", "50")):
        connection.putheader(name, value)
    connection.endheaders(b'{"')
    answer = connection.getresponse()
    assert answer.status == 504
    assert json.loads(answer.read())["code"] == "deadline_exceeded"
    connection.close()
