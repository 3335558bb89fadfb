"""SIGHUP: settings that are read again while the server runs."""

from __future__ import annotations

import json
import pathlib
import signal

import grpc

from support.calls import Calls, reason, refusal, user
from support.server import Server
from support.waiting import wait_for


class Reloaded:
    """A server with a file of settings, whose log goes to a file."""

    def __init__(self, store: str, folder: pathlib.Path, **settings) -> None:
        self._file, self._log = folder / "memoryd.yaml", folder / "log"
        self.write(json.dumps(settings))
        with self._log.open("wb") as log:
            self.server = Server(store, arguments=[f"--config={self._file}", "--readers=2"],
                                 log=log)

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.server.__exit__(*error)

    def write(self, text: str) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(text)
        new.rename(self._file)

    def lines(self, begin: str) -> list[str]:
        found = [json.loads(line)["msg"] for line in self._log.read_text().splitlines()]
        return [line for line in found if line.startswith(begin)]

    def reload(self, **settings) -> str:
        """Writes the file, has it read, and returns what the log says."""
        self.write(json.dumps(settings))
        return self.hang_up()

    def hang_up(self) -> str:
        before = len(self.lines("settings read again"))
        self.server.process.send_signal(signal.SIGHUP)
        return wait_for(lambda: self.lines("settings read again")[before:])[0]

    def calls_logged(self) -> int:
        return len(self.lines("call"))


def test_limits_of_tenants_change_while_calls_go_on(store, tmp_path, session_id):
    with Reloaded(store, tmp_path) as running, running.server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id=session_id, messages=[user("a"), user("b")])
        said = running.reload(tenant_messages=3, tenants=[{"name": "other", "messages": 1}])
        assert said == "settings read again, changed: tenant_messages, tenants"
        calls.Put(session_id=session_id, messages=[user("c")])
        error = refusal(calls.Put, session_id=session_id, messages=[user("d")])
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert reason(error) == "QUOTA_EXCEEDED"
        assert running.reload(tenant_messages=4).endswith("changed: tenant_messages, tenants")
        calls.Put(session_id=session_id, messages=[user("d")])
        assert reason(refusal(calls.Put, session_id=session_id, messages=[user("e")])) \
            == "QUOTA_EXCEEDED"
        assert running.reload(tenant_calls_per_second=1).endswith(
            "changed: tenant_calls_per_second, tenant_messages")

        def refused() -> bool:
            try:
                calls.Get(session_id=session_id)
            except grpc.RpcError as failed:
                return reason(failed) == "TENANT_RATE"
            return False

        assert wait_for(refused)
        running.reload()
        calls.Put(session_id=session_id, messages=[user("e")])
        for _ in range(20):
            calls.Get(session_id=session_id)
        assert [m.text for m in calls.all_messages(session_id)] == ["a", "b", "c", "d", "e"]


def test_retention_of_a_tenant_is_for_sessions_made_after_the_reload(store, tmp_path):
    with Reloaded(store, tmp_path) as running, running.server.channel() as channel:
        calls = Calls(channel)
        calls.CreateSession(session_id="before")
        running.reload(tenant_session_ttl_s=1000)
        calls.CreateSession(session_id="after")
        kept = {name: calls.GetSession(session_id=name).session.config.HasField("retention")
                for name in ("before", "after")}
        assert kept == {"before": False, "after": True}


def test_the_log_says_more_or_less_from_then_on(store, tmp_path, session_id):
    with Reloaded(store, tmp_path) as running, running.server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id=session_id, messages=[user("a")])
        assert running.reload(log_requests="all").endswith("changed: log_requests")
        calls.Get(session_id=session_id)
        wait_for(lambda: running.calls_logged() == 1)
        # The line about what differs is a warning: it says that the level is in force.
        running.write(json.dumps(
            {"log_level": "warning", "log_requests": "all", "cache_mib": 99}))
        running.server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: running.lines("settings that differ"))
        calls.Get(session_id=session_id)
        running.reload(log_requests="all")
        calls.GetAll(session_id=session_id)
        wait_for(lambda: running.calls_logged() > 1)
        assert running.calls_logged() == 2, "the Get between them has no line"


def test_what_wants_a_restart_is_named_and_stays(store, tmp_path):
    with Reloaded(store, tmp_path, cache_mib=100) as running:
        assert running.reload(cache_mib=200, readers=7).endswith("changed: none")
        named = running.lines("settings that differ")
        # The flag stands above the file.
        assert named == ["settings that differ and want a restart: cache_mib"]
        assert running.reload(cache_mib=100).endswith("changed: none")
        assert len(running.lines("settings that differ")) == 1


def test_a_file_that_is_wrong_changes_nothing_and_ends_nothing(store, tmp_path, session_id):
    with Reloaded(store, tmp_path, tenant_messages=1) as running, \
            running.server.channel() as channel:
        calls = Calls(channel)
        for text, word in (("tenant_messages: many\n", "tenant_messages"),
                           ("tenant_messages: 5\ncolour: red\n", "colour"), ("{", "YAML")):
            running.write(text)
            said = running.hang_up()
            assert "nothing changed" in said and word in said
        error = refusal(calls.Put, session_id=session_id, messages=[user("a"), user("b")])
        assert reason(error) == "QUOTA_EXCEEDED"
        calls.Put(session_id=session_id, messages=[user("a")])
        assert running.server.stop() == 0
