"""Two servers over one PostgreSQL."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.calls import Calls, reason, refusal, user
from support.server import Server
from support.stores import fresh_store
from support.writers import Writers, audit

TRIES = 1000
# Longest a Put may take on a server whose neighbour stands still. Bounds a lock that would be held
# until the neighbour goes on, which is never; the machine's own stalls are far below.
PUT_SECONDS = 10.0


@pytest.fixture
def pair():
    with fresh_store("postgresql") as store, Server(store) as first, Server(store) as second, \
            first.channel() as one, second.channel() as two:
        yield (first, Calls(one)), (second, Calls(two))


def test_a_get_on_either_sees_every_acknowledged_put(pair):
    servers = [calls for _, calls in pair]
    chance = random.Random(1)
    expected: dict[str, list[str]] = {f"s{i}": [] for i in range(4)}
    for number in range(TRIES):
        session = chance.choice(list(expected))
        writer = servers[number % 2]
        writer.Put(session_id=session, messages=[user(str(number))])
        expected[session].append(str(number))
        reader = servers[1 - number % 2]
        assert [m.text for m in reader.Get(session_id=session).messages] == expected[session]
        if number % 97 == 0:
            other = chance.choice(list(expected))
            writer.Set(session_id=other, messages=[user("set")])
            expected[other] = ["set"]
            for either in servers:
                assert [m.text for m in either.Get(session_id=other).messages] == ["set"]
    for session, texts in expected.items():
        for either in servers:
            assert [m.text for m in either.all_messages(session)] == texts


def test_puts_to_one_session_through_both_are_all_kept(pair):
    def write(writer: int) -> None:
        calls = pair[writer % 2][1]
        for number in range(50):
            calls.Put(session_id="s", messages=[user(f"{writer}/{number}")])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    for _, calls in pair:
        texts = [m.text for m in calls.all_messages("s")]
        assert len(texts) == 400
        for writer in range(8):
            mine = [t for t in texts if t.startswith(f"{writer}/")]
            assert mine == [f"{writer}/{n}" for n in range(50)]


def test_a_request_id_is_one_request_on_both(pair):
    for number in range(50):
        fields = {"session_id": "s", "messages": [user(str(number))], "request_id": f"r{number}"}
        with ThreadPoolExecutor(2) as pool:
            replies = list(pool.map(lambda server, fields=fields: server[1].Put(**fields), pair))
        assert sorted(reply.replayed for reply in replies) == [False, True]
        assert replies[0].positions == replies[1].positions
    texts = [m.text for m in pair[0][1].all_messages("s")]
    assert texts == [str(n) for n in range(50)]


def test_a_revision_read_on_one_is_checked_on_the_other(pair):
    (_, first), (_, second) = pair
    revision = first.Put(session_id="s", messages=[user("a")]).revision
    revision = second.Put(session_id="s", messages=[user("b")],
                          expected_revision=revision).revision
    error = refusal(first.Put, session_id="s", messages=[user("c")],
                    expected_revision=revision - 1)
    assert reason(error) == "REVISION_MISMATCH"
    first.DeleteSession(session_id="s")
    assert list(second.Get(session_id="s").messages) == []


def test_a_server_that_stands_still_holds_up_nobody(pair):
    """The first is stopped under load at random moments; the second writes the same sessions."""
    (first, _), (_, calls) = pair
    sessions = [f"s{i}" for i in range(4)]
    chance = random.Random(2)
    longest = 0.0
    others: dict[str, list[str]] = {session: [] for session in sessions}
    with Writers(lambda _: first.target, sessions, threads=8) as load:
        for pause in range(15):
            load.progress.wait_for_more(chance.randint(1, 200))
            first.pause()
            try:
                for number in range(20):
                    session = sessions[number % len(sessions)]
                    text = f"100/{pause * 20 + number}/"
                    begin = time.monotonic()
                    calls.Put(session_id=session, messages=[user(text)], timeout=PUT_SECONDS)
                    longest = max(longest, time.monotonic() - begin)
                    others[session].append(text)
            finally:
                first.resume()
    load.progress.check()
    print(f"longest Put beside a stopped server: {1000 * longest:.0f} ms")
    for session in sessions:
        load.acknowledged[session] += others[session]
    found = audit(calls, load.acknowledged)
    assert found.clean and found.acknowledged > 300, found
