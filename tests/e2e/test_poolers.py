"""Named statements behind poolers that keep them, and behind those that do not."""

from __future__ import annotations

import concurrent.futures
import contextlib
import subprocess
from collections.abc import Callable, Iterator

import grpc
import pytest

from support.calls import Calls, user
from support.named_pooler import CONNECTIONS, FORGETS, KEEPS, LOSES, STATEMENTS, NamedPooler
from support.postgres import at_port, program, run_sql, server_url, temporary_database
from support.server import Server, failed_start

from memoryd.v1 import item_service_pb2 as item_wire

LOST = "prepared statements got lost"
CALLERS, TURNS = 8, 12


@contextlib.contextmanager
def pooled(mode: str) -> Iterator[tuple[NamedPooler, str]]:
    """A pooler, and the URL of an empty store behind it."""
    with temporary_database() as url, \
            NamedPooler(int(run_sql(server_url(), "SHOW port")), mode) as pooler:
        yield pooler, at_port(url, pooler.port)


def serving(store: str, pooling: str = "true") -> Server:
    return Server(store, arguments=[f"--transaction-pooling={pooling}", "--committers=2"])


def again(call: Callable, **fields):
    """The call, repeated a while as long as the store is not there for it."""
    tries = 20
    while True:
        try:
            return call(**fields)
        except grpc.RpcError as error:
            tries -= 1
            if tries == 0 or error.code() != grpc.StatusCode.UNAVAILABLE:
                raise


def talk(server: Server, caller: int, turns: int = TURNS) -> None:
    """Turns of one to three messages in a session of the caller's, each read back."""
    with server.channel() as channel:
        calls = Calls(channel)
        said: list[str] = []
        for turn in range(turns):
            texts = [f"{caller} {turn} {i}" for i in range(1 + turn % 3)]
            again(calls.Put, session_id=f"s{caller}", messages=[user(text) for text in texts],
                  request_id=f"{caller}-{turn}")
            said += texts
            reply = again(calls.Get, session_id=f"s{caller}")
            assert [message.text for message in reply.messages] == said


def talk_at_once(server: Server, first: int = 0) -> None:
    """Of so many callers from `first` on, none of whom has talked before."""
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as threads:
        for done in [threads.submit(talk, server, caller) for caller in range(first, first + CALLERS)]:
            done.result()


def test_a_pooler_that_keeps_names_is_given_them():
    with pooled(KEEPS) as (pooler, store), serving(store) as server:
        talk_at_once(server)
        talk(server, CALLERS)
        before = pooler.counts.copy()
        talk(server, CALLERS + 1)
        counts = pooler.counts - before
        assert LOST not in server.output()
        # Whichever connection a text came to, it was not planned anew. A tenth is for texts that the
        # second committer's connection meets for the first time: it sends those without a name.
        assert counts["bound"] >= 0.9 * counts["transactions"] > 0
        assert pooler.counts["ended"] == 0


def write_all_sizes(calls: Calls, name: str) -> None:
    """Puts of 1 to 40 messages, created and appended to, with and without a request: 160 numbers of
    rows. And batches of as many items."""
    for size in range(1, 41):
        for turn in range(4):
            request = f"{name}-{size}-{turn}" if turn > 1 else None
            calls.Put(session_id=f"{name}-{size}-{turn // 2}", request_id=request,
                      messages=[user(f"{turn} {i}") for i in range(size)])
            puts = [item_wire.ItemPut(key=f"{turn} {i}", json="1") for i in range(size)]
            outcome, = calls.BatchItems(batches=[item_wire.ItemBatch(
                namespace=["n", str(turn // 2)], request_id=request,
                operations=[item_wire.ItemOperation(put=put) for put in puts])]).outcomes
            assert not outcome.HasField("error")


def test_however_calls_differ_a_pooler_has_room_for_all_statements():
    with pooled(KEEPS) as (pooler, store), serving(store) as server, server.channel() as channel:
        calls = Calls(channel)
        talk_at_once(server)
        write_all_sizes(calls, "first")
        before = pooler.counts.copy()
        write_all_sizes(calls, "second")
        counts = pooler.counts - before
        assert counts["bound"] >= 0.9 * counts["transactions"] > 0
        assert len(pooler.named) <= STATEMENTS
        for undone in ("evicted", "deallocated", "ended"):
            assert pooler.counts[undone] == 0
        assert LOST not in server.output()


def test_what_a_pooler_forgets_is_neither_lost_nor_written_twice():
    with pooled(FORGETS) as (pooler, store), serving(store) as server:
        talk_at_once(server)
        assert pooler.counts["ended"] > 0
        assert pooler.counts["bound"] > pooler.counts["unnamed"]


def test_servers_share_what_a_pooler_has_prepared():
    with pooled(KEEPS) as (pooler, store), serving(store) as first, serving(store) as second:
        talk_at_once(first)
        before = pooler.counts.copy()
        talk_at_once(second, CALLERS)
        counts = pooler.counts - before
        assert counts["named"] > 0
        assert counts["prepared"] <= counts["named"] / 2
        assert LOST not in first.output() + second.output()


def test_a_pooler_that_loses_names_is_given_none_from_then_on():
    with pooled(LOSES) as (pooler, store), serving(store) as server:
        talk_at_once(server)
        assert server.output().count(LOST) == 1
        before = pooler.counts.copy()
        talk(server, CALLERS)
        counts = pooler.counts - before
        assert counts["unnamed"] > 0
        assert counts["named"] == counts["bound"] == 0


def test_names_that_another_server_has_left_behind_are_not_used():
    with pooled(LOSES) as (pooler, store):
        with serving(store) as server:
            talk_at_once(server)
            assert server.output().count(LOST) == 1
        assert pooler.named
        for name in pooler.named:
            # On each connection, where it is not yet: psql goes on behind an error.
            prepare = f"PREPARE {name.decode()} AS SELECT 1"
            subprocess.run([program("psql"), "-X", "-q", "-d", store,
                            *["-c", prepare] * CONNECTIONS], check=False, capture_output=True)
        with serving(store) as server:
            talk_at_once(server, CALLERS)
            line, = (line for line in server.output().splitlines() if LOST in line)
            assert "42P05" in line


def test_no_names_are_tried_where_the_setting_says_so():
    with pooled(LOSES) as (pooler, store), serving(store, "unnamed") as server:
        talk_at_once(server)
        assert pooler.counts["named"] == pooler.counts["bound"] == 0
        assert LOST not in server.output()


@pytest.mark.parametrize("value", ("yes", "named"))
def test_the_setting_has_three_values(value):
    code, output = failed_start("sqlite::memory:", arguments=[f"--transaction-pooling={value}"])
    assert code == 2 and "false, true, unnamed" in output
