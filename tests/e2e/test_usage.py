"""What models take: in replies, for sessions and tenants, in metrics, and within a budget."""

from __future__ import annotations

import json

import pytest

from support.access import Caller, credential, write_credentials
from support.blocks import DONE, OPEN, WAIT, block, drained, every_turn, jobs_of, missing, section, turn
from support.calls import Calls, memory, user
from support.metrics import scrape, value
from support.model_server import DIMENSIONS, ModelServer
from support.server import Server
from support.stores import fresh_store
from support.waiting import wait_for

FACTS = block("facts", "fact-extraction", model="chat")
VECTORS = block("vectors", "vector", embedder="embed", top_k=100)
FACT = '<facts><fact evidence="1">Logan has a dog.</fact></facts>'
COMPLETION = len(FACT.split())


@pytest.fixture(scope="module")
def models():
    with ModelServer([FACT]) as server:
        yield server


@pytest.fixture(autouse=True)
def asked(models):
    """What was asked since the test began: calls and the tokens sent, as the models count them."""
    before = len(models.requests)

    def count() -> memory.Usage:
        requests = models.requests[before:]
        chats = sum(r.path.endswith("/chat/completions") for r in requests)
        return memory.Usage(
            calls=len(requests), completion_tokens=chats * COMPLETION,
            prompt_tokens=sum(len(text.split()) for r in requests for text in r.texts))

    return count


def running(store: str, models: ModelServer, folder, *arguments: str, **settings) -> Server:
    common = {"url": models.url, "model": "m", "allow_private": True, "retries": 0}
    file = folder / "memoryd.yaml"
    file.write_text(json.dumps({"models": [
        {"name": "chat", "kind": "chat", **common},
        {"name": "embed", "kind": "embedding", "dimensions": DIMENSIONS, **common},
    ], **settings}))
    return Server(store, arguments=[f"--config={file}", "--metrics-listen=127.0.0.1:0",
                                    "--job-retry-ms=20", *arguments])


@pytest.fixture(scope="module")
def server(store_kind, models, tmp_path_factory):
    with fresh_store(store_kind) as store, running(
            store, models, tmp_path_factory.mktemp("usage")) as server:
        yield server


@pytest.fixture(scope="module")
def calls(server):
    with server.channel() as channel:
        yield Calls(channel)


def usage_of(calls: Calls, session_id: str) -> memory.Usage:
    return calls.GetSession(session_id=session_id).session.usage


def total(*usages: memory.Usage) -> memory.Usage:
    return memory.Usage(calls=sum(u.calls for u in usages),
                        prompt_tokens=sum(u.prompt_tokens for u in usages),
                        completion_tokens=sum(u.completion_tokens for u in usages))


def test_a_put_says_what_it_waited_for(calls, session_id, asked):
    config = every_turn(FACTS, VECTORS, feed=memory.FEED_BEFORE_REPLY)
    first = calls.Put(session_id=session_id, messages=[user("One")], config=config)
    assert not first.HasField("usage") and asked().calls == 0
    second = calls.Put(session_id=session_id, messages=[user("Two")], request_id="r")
    assert second.usage == asked() and second.usage.calls == 2 and not second.open_jobs
    # The stored reply has asked for nothing.
    again = calls.Put(session_id=session_id, messages=[user("Two")], request_id="r")
    assert again.replayed and not again.HasField("usage")
    assert usage_of(calls, session_id) == asked() == total(
        *(job.usage for job in jobs_of(calls, session_id)))


def test_a_put_that_does_not_wait_says_nothing_and_it_is_counted(calls, session_id, asked):
    for text in ("One", "Two"):
        reply = calls.Put(session_id=session_id, messages=[user(text)], config=every_turn(FACTS))
        assert not reply.HasField("usage")
    drained(calls, session_id)
    assert usage_of(calls, session_id) == asked() and asked().calls == 1


def test_attempts_that_fail_count_too(calls, models, session_id, asked):
    models.lie("status", code=503)
    calls.Put(session_id=session_id, messages=[user("One")], config=every_turn(FACTS))
    reply = calls.Put(session_id=session_id, messages=[user("Two")], wait=WAIT)
    # One was refused by the model, which has taken nothing for it.
    job, = jobs_of(calls, session_id)
    assert (job.state, job.attempts, job.usage) == (DONE, 2, reply.usage)
    assert reply.usage.calls == 1 and asked().calls == 2
    assert usage_of(calls, session_id) == reply.usage


def test_a_get_and_a_query_say_what_they_asked(calls, session_id, asked):
    config = every_turn(VECTORS, retrieval=memory.Retrieval(embedder="embed"))
    calls.Put(session_id=session_id, messages=[user("One dog")], config=config)
    calls.Put(session_id=session_id, messages=[user("Two cats")], wait=WAIT)
    drained(calls, session_id)
    before, stored = asked(), calls.GetSession(session_id=session_id).session
    assert stored.usage == before
    got = calls.Get(session_id=session_id, input="What of the dog?")
    assert got.usage.calls == 1 and total(before, got.usage) == asked()
    found = calls.Query(session_id=session_id, query="dog")
    assert found.usage.calls == 1 and total(before, got.usage, found.usage) == asked()
    after = calls.GetSession(session_id=session_id).session
    assert after.usage == asked()
    # Reading has changed nothing.
    assert after.revision == stored.revision and after.update_time == stored.update_time
    plain = calls.Query(session_id=session_id + "-none", query="dog")
    assert not plain.HasField("usage")


def test_it_outlives_servers_and_what_was_read_a_kill(store, models, tmp_path, asked):
    with running(store, models, tmp_path) as server, server.channel() as channel:
        calls = Calls(channel)
        for text in ("One", "Two"):
            calls.Put(session_id="s", messages=[user(text)], config=every_turn(VECTORS), wait=WAIT)
        of_jobs = asked()
        calls.Get(session_id="s")
        assert usage_of(calls, "s") == asked() and asked().calls == of_jobs.calls + 1
        assert server.stop() == 0
    with running(store, models, tmp_path) as server, server.channel() as channel:
        calls = Calls(channel)
        assert usage_of(calls, "s") == asked()
        # This server has asked nothing.
        assert calls.GetUsage().usage == memory.Usage()
        calls.Get(session_id="s")
        calls.Put(session_id="s", messages=[user("Three")], wait=WAIT)
        server.kill()
    with running(store, models, tmp_path) as server, server.channel() as channel:
        calls = Calls(channel)
        assert usage_of(calls, "s") == asked()
        calls.Reset(session_id="s", scope="RESET_SCOPE_EVERYTHING")
        calls.ForkSession(session_id="s", new_session_id="copy")
        assert usage_of(calls, "s") == asked()
        assert not calls.GetSession(session_id="copy").session.HasField("usage")
        calls.DeleteSession(session_id="s")
        calls.CreateSession(session_id="s")
        assert not calls.GetSession(session_id="s").session.HasField("usage")


def series_of(server: Server, name: str, **labels: str) -> float:
    return value(scrape(server.metrics), name, **labels)


def test_tenants_have_their_own_usage_budget_and_metrics(store, models, tmp_path, asked):
    credentials = write_credentials(tmp_path / "credentials.yaml", [
        credential(name, token=f"token-{name}") for name in ("poor", "rich")])
    config = every_turn(FACTS, VECTORS)

    def open_server(calls_per_day: int) -> Server:
        return running(store, models, tmp_path, f"--credentials={credentials}",
                       tenants=[{"name": "poor", "model_calls_per_day": calls_per_day}])

    with open_server(2) as server, server.channel() as channel:
        poor, rich = (Caller(channel, f"token-{name}") for name in ("poor", "rich"))
        for tenant in (poor, rich):
            for text in ("One", "Two"):
                tenant("Put", session_id="s", messages=[user(text)], config=config, wait=WAIT)
        reply = poor("GetUsage")
        assert reply.usage == reply.today == poor("GetSession", session_id="s").session.usage
        assert (reply.usage.calls, reply.calls_per_day, reply.tokens_per_day) == (2, 2, 0)
        assert total(reply.usage, rich("GetUsage").usage) == asked()
        # A Put is not refused; its jobs wait.
        put = poor("Put", session_id="s", messages=[user("Three")])
        assert {job.block for job in put.open_jobs} == {"facts", "vectors"}

        def waiting() -> list:
            jobs = poor("ListJobs", session_id="s", state=OPEN).jobs
            return jobs if all(j.last_error.startswith("MODEL_BUDGET: ") for j in jobs) else []

        jobs = wait_for(waiting)
        assert [job.block for job in jobs] == ["facts", "vectors"]
        assert [(job.attempts <= 1, job.usage.calls) for job in jobs] == [(True, 0)] * 2
        got = poor("Get", session_id="s")
        assert missing(got) == {"vectors": "MODEL_BUDGET"} and not got.HasField("usage")
        assert section(got, "facts") == ["<fact>Logan has a dog.</fact>"]
        # The other tenant has any number.
        assert rich("Put", session_id="s", messages=[user("Three")], wait=WAIT).usage.calls == 2
        assert not rich("Get", session_id="s").missing_blocks
        assert poor("GetUsage").usage == reply.usage
        taken = {name: tenant("GetUsage").usage for name, tenant in
                 (("poor", poor), ("rich", rich))}
        for name, usage in taken.items():
            for kind, tokens in (("prompt", usage.prompt_tokens),
                                 ("completion", usage.completion_tokens)):
                assert series_of(server, "memoryd_tenant_model_tokens_total", tenant=name,
                                 kind=kind) == tokens
            assert series_of(server, "memoryd_tenant_model_calls_total",
                             tenant=name) == usage.calls
        assert series_of(server, "memoryd_model_budget_rejected_total", tenant="poor") >= 3
        assert series_of(server, "memoryd_model_budget_rejected_total", tenant="rich") == 0
    # The budget is raised: the jobs go on by themselves.
    with open_server(100) as server, server.channel() as channel:
        poor = Caller(channel, "token-poor")
        wait_for(lambda: not poor("ListJobs", session_id="s", state=OPEN).jobs, attempts=6000)
        jobs = poor("ListJobs", session_id="s").jobs
        # One attempt may have been cut off by the stop.
        assert [(job.state, job.attempts <= 2) for job in jobs] == [(DONE, True)] * 4
        assert not poor("Get", session_id="s").missing_blocks


def test_a_query_and_a_put_that_waits_do_without_a_model(store, models, tmp_path):
    with running(store, models, tmp_path, tenant_model_tokens_per_day=1) as server, \
            server.channel() as channel:
        calls = Calls(channel)
        config = every_turn(FACTS, retrieval=memory.Retrieval(embedder="embed"),
                            feed=memory.FEED_BEFORE_REPLY)
        calls.Put(session_id="s", messages=[user("A dog")], config=config)
        wait_for(lambda: calls.GetUsage().today.prompt_tokens)
        drained(calls, "s")
        # Any of the tokens are too many now.
        put = calls.Put(session_id="s", messages=[user("A cat")])
        job, = put.open_jobs
        assert job.block == "facts" and job.error.startswith("MODEL_BUDGET: ")
        assert not put.HasField("usage")
        found = calls.Query(session_id="s", query="dog")
        assert found.results[0].message.text == "A dog"
        assert "NO_EMBEDDING" in found.notices
        assert missing(found) == {".retrieval": "MODEL_BUDGET"}
        assert not found.HasField("usage")


def test_a_tenant_that_no_file_names_is_one_of_the_others(models, tmp_path):
    # Without credentials there is one tenant, whose name is known.
    with running("sqlite::memory:", models, tmp_path) as server, server.channel() as channel:
        calls = Calls(channel)
        for text in ("One", "Two"):
            calls.Put(session_id="s", messages=turn(text), config=every_turn(FACTS), wait=WAIT)
        assert series_of(server, "memoryd_tenant_model_calls_total", tenant="default") == 1
        assert series_of(server, "memoryd_tenant_model_calls_total", tenant="other") == 0
