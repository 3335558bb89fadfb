"""The audit log: one line for each call that may change memory, and nothing of what it says."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from support.access import (
    FOR_ADMINS,
    METHODS,
    Caller,
    bearer,
    credential,
    right_of,
    write_credentials,
)
from support.calls import user
from support.metrics import scrape, value
from support.server import Server, ready
from support.waiting import wait_for

CANARY = "canary-of-a-body"
WRITES = sorted(method for method in METHODS if right_of(method) in ("write", "admin"))


def digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


class Audited:
    """A server with credentials and an audit log in a folder."""

    def __init__(self, folder) -> None:
        self.path = folder / "audit.log"
        file = write_credentials(folder / "credentials.yaml", [
            credential("team", token="canary-of-a-token", name="agent"),
            credential("team", ["read"], token="reader")])
        self.server = Server("sqlite::memory:", arguments=[
            f"--credentials={file}", f"--audit-log={self.path}", "--metrics-listen=127.0.0.1:0"])

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.server.__exit__(*error)

    def lines(self) -> list[dict]:
        """All of the record, after the server's end."""
        if self.server.process.poll() is None:
            assert self.server.stop() == 0
        return [json.loads(line) for line in self.path.read_text().splitlines()]


@pytest.fixture
def audited(tmp_path):
    with Audited(tmp_path) as server:
        yield server


def test_a_write_leaves_who_did_what_and_where_it_stands(audited):
    with audited.server.channel() as opened:
        agent = Caller(ready(opened), "canary-of-a-token")
        for _ in range(2):
            agent("Put", session_id="s", messages=[user(CANARY), user(CANARY)], request_id="once",
                  metadata=(*bearer("canary-of-a-token"), ("x-request-id", "id-1")))
        agent("Get", session_id="s")
        agent("DeleteSession", session_id="s")
    first, again, deleted = audited.lines()
    assert first.pop("ts") <= again.pop("ts")
    assert first == {
        "method": "Put", "code": "OK", "request_id": "id-1", "tenant": digest("team"),
        "principal": "token:agent", "session": digest("s"), "revision": 1, "messages": 2,
        "first_position": 1, "last_position": 2, "contents": 0, "replayed": False}
    assert again == {**first, "replayed": True}
    assert (deleted["method"], deleted["code"]) == ("DeleteSession", "OK")
    text = audited.path.read_text()
    assert "canary" not in text and "team" not in text


def test_an_erasure_leaves_its_counts(audited):
    with audited.server.channel() as opened:
        agent = Caller(ready(opened), "canary-of-a-token")
        agent("Put", session_id="s", messages=[user(CANARY)], config={"subject": CANARY},
              request_id="r")
        agent("EraseSubject", subject=CANARY, dry_run=True)
        agent("EraseSubject", subject=CANARY)
    _, counted, erased = audited.lines()
    for line, dry_run in ((counted, True), (erased, False)):
        assert (line["method"], line["subject"]) == ("EraseSubject", digest(CANARY))
        assert (line["sessions"], line["messages"], line["contents"], line["blocks"],
                line["entries"], line["jobs"], line["replies"]) == (1, 1, 0, 0, 0, 0, 1)
        assert (line["purged"], line["dry_run"]) == (not dry_run, dry_run)
    assert CANARY not in audited.path.read_text()


def test_every_write_leaves_one_line_also_when_it_is_refused(audited):
    with audited.server.channel() as opened:
        ready(opened)
        for token in ("canary-of-a-token", "reader", "nobody"):
            for method in METHODS:
                if method != "Attach":
                    Caller(opened, token).code(method)
    lines = audited.lines()
    assert sorted(line["method"] for line in lines) == sorted(WRITES * 3)
    denied = [line for line in lines if line["code"] == "PERMISSION_DENIED"]
    refused = [line for line in denied if line["principal"] == f"token:{digest('reader')}"]
    # The agent is no admin.
    assert sorted(line["method"] for line in denied if line not in refused) == sorted(FOR_ADMINS)
    assert sorted(line["method"] for line in refused) == WRITES
    assert {line["reason"] for line in refused} == {"RIGHT_MISSING"}
    strangers = [line for line in lines if line["code"] == "UNAUTHENTICATED"]
    assert len(strangers) == len(WRITES)
    assert not any("tenant" in line or "principal" in line for line in strangers)
    assert "canary" not in audited.path.read_text()


def test_the_file_can_be_rotated(audited, tmp_path):
    rotated = tmp_path / "audit.log.1"
    with audited.server.channel() as opened:
        agent = Caller(ready(opened), "canary-of-a-token")
        agent("Put", session_id="s", messages=[user("a")])
        wait_for(lambda: audited.path.read_text())
        os.rename(audited.path, rotated)

        def followed() -> bool:
            agent("Put", session_id="s", messages=[user("a")])
            return audited.path.exists()
        wait_for(followed)
        assert value(scrape(audited.server.metrics), "memoryd_audit_lost_total") == 0
        revision = agent("Get", session_id="s").revision
    lines = [json.loads(line) for line in rotated.read_text().splitlines()] + audited.lines()
    assert [line["revision"] for line in lines] == list(range(1, revision + 1))


def test_lines_that_the_disk_does_not_take_are_counted(tmp_path):
    arguments = ["--audit-log=/dev/full", "--metrics-listen=127.0.0.1:0"]
    with Server("sqlite::memory:", arguments=arguments) as server, server.channel() as opened:
        Caller(ready(opened))("Put", session_id="s", messages=[user("a")])
        wait_for(lambda: value(scrape(server.metrics), "memoryd_audit_lost_total") == 1)
        Caller(opened)("Put", session_id="s", messages=[user("a")])
        wait_for(lambda: "lines were lost" in server.output())
