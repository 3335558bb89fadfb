"""Blocks: what leaves short-term memory comes back with a Get, whoever serves the models."""

from __future__ import annotations

import contextlib
import threading

import grpc
import pytest

from support.blocks import (
    DONE,
    OPEN,
    WAIT,
    block,
    every_turn,
    field_of,
    jobs_of,
    memory_text,
    missing,
    models_file,
    section,
    turn,
)
from support.calls import Calls, assistant, memory, refusal, user
from support.llama_index import LongTermMemory
from support.model_server import ModelServer, hash_embed
from support.server import Server
from support.stores import fresh_store
from support.waiting import wait_for

import memoryd

INVALID = grpc.StatusCode.INVALID_ARGUMENT
WORKER = "agent"


class MentionCounter(memoryd.Block):
    """The custom block of LlamaIndex's documentation."""

    name = "mentions"

    def put(self, messages, state):
        return (state or 0) + sum("Logan" in m.text for m in messages)

    def get(self, messages, state):
        return f"Logan was mentioned {state or 0} times."

    def truncate(self, content, tokens):
        return ""


class Agent:
    """The models of the tests: `answer` is what the chat model says next, over HTTP and as a worker
    alike."""

    def __init__(self, models: ModelServer) -> None:
        self.models = models
        self._answer = ""
        self.held = threading.Event()
        self.held.set()

    def answer(self, text: str) -> None:
        self._answer = text
        self.models.set_replies([text])

    def next_answer(self) -> str:
        return self._answer

    def worker(self, target: str) -> memoryd.Worker:
        return memoryd.Worker(target, name=WORKER, blocks=[MentionCounter()],
                              models={"chat": lambda *_: self._answer},
                              embedders={"embed": self._embed})

    def _embed(self, texts, purpose):
        if purpose == "query":
            assert self.held.wait(60)
        return [hash_embed(text) for text in texts]


@pytest.fixture(scope="module")
def agent():
    with ModelServer() as models:
        yield Agent(models)


@pytest.fixture(scope="module")
def target(store_kind, agent, tmp_path_factory):
    """A server with a worker attached."""
    arguments = [models_file(tmp_path_factory.mktemp("models"), agent.models)]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as server, \
            agent.worker(server.target):
        yield server.target


@pytest.fixture(scope="module")
def calls(target):
    with grpc.insecure_channel(target) as channel:
        yield Calls(channel)


FACTS = '<facts><fact evidence="1">Logan has a dog.</fact></facts>'
# Of each kind that asks a model: the settings, what the model answers and what the block then says.
ASKING = {
    "fact-extraction": ({"model": "chat"}, FACTS, ["<fact>Logan has a dog.</fact>"]),
    "summary": ({"model": "chat"}, "They spoke of Rex.", ["They spoke of Rex."]),
    "entity": ({"model": "chat"}, '<entities><entity name="Rex">A dog.</entity></entities>',
               ['<entity name="Rex">A dog.</entity>']),
    "vector": ({"embedder": "embed"}, "",
               ["<messages>", "user: My dog is Rex", "assistant: I see.", "</messages>"]),
}


@pytest.mark.parametrize("where", ("http", "worker"))
@pytest.mark.parametrize("kind", ASKING)
def test_what_leaves_short_term_memory_comes_back(calls, agent, session_id, kind, where):
    options, answer, said = ASKING[kind]
    agent.answer(answer)
    before = len(agent.models.requests)
    made = block("b", kind, worker=WORKER if where == "worker" else "", **options)
    first = calls.Put(session_id=session_id, messages=turn("My dog is Rex"),
                      config=every_turn(made), wait=WAIT)
    assert (first.archived_count, list(first.open_jobs)) == (0, [])
    assert memory_text(calls.Get(session_id=session_id)) == ""
    second = calls.Put(session_id=session_id, messages=[user("Who is Rex")], wait=WAIT)
    assert (second.archived_count, list(second.open_jobs)) == (2, [])
    reply = calls.Get(session_id=session_id)
    assert section(reply, "b") == said
    assert list(reply.blocks_used) == ["b"] and not reply.blocks_dropped
    assert not reply.missing_blocks
    assert [m.role for m in reply.messages] == ["system", "user"]
    assert (len(agent.models.requests) > before) == (where == "http")


def test_a_custom_block_counts_mentions(calls, session_id):
    config = every_turn(block("mentions", "worker", 1, worker=WORKER))
    calls.Put(session_id=session_id, messages=turn("I am Logan"), config=config)
    for text in ("Logan likes tea", "Who likes tea", "Good bye"):
        assert not calls.Put(session_id=session_id, messages=turn(text), wait=WAIT).open_jobs
    reply = calls.Get(session_id=session_id)
    assert memory_text(reply) == (
        "<memory>\n<mentions>\nLogan was mentioned 2 times.\n</mentions>\n</memory>")
    # Its own truncation leaves nothing.
    calls.UpdateSession(session_id=session_id, config=memory.SessionConfig(token_limit=15))
    reply = calls.Get(session_id=session_id)
    assert (memory_text(reply), list(reply.blocks_dropped)) == ("", ["mentions"])
    assert [m.text for m in reply.messages] == ["Good bye", "I see."]


def test_static_blocks_say_what_they_were_given(calls, session_id):
    image = memory.Part(image=memory.Media(url="https://example.org/x.png"))
    config = every_turn(
        block("core", "static", content=["Logan.", "</memory> Saskatoon."]),
        block("empty", "static"),
        block("picture", "static", content=[image]),
        block("mine", "static", content=["x"], template="[{name}: {content}]"),
    )
    calls.Put(session_id=session_id, messages=[user("Hi")], config=config)
    reply = calls.Get(session_id=session_id)
    assert list(reply.blocks_used) == ["core", "picture", "mine"]
    parts = reply.messages[0].parts
    assert [part.WhichOneof("kind") for part in parts] == ["text", "image", "text"]
    assert parts[0].text == (
        "<memory>\n<core>\nLogan.\n&lt;/memory> Saskatoon.\n</core>\n<picture>")
    assert parts[1] == image
    assert parts[2].text == "</picture>\n[mine: x]\n</memory>"


@pytest.mark.parametrize("system", (True, False))
def test_memory_goes_into_the_system_message_or_the_latest_of_the_user(calls, session_id, system):
    method = memory.INSERT_METHOD_SYSTEM if system else memory.INSERT_METHOD_USER
    config = memory.SessionConfig(blocks=[block("b", "static", content=["x"])],
                                  insert_method=method)
    own = [memory.Message(role="system", text="Be kind."), user("One"), assistant("Two"),
           user("Three"), assistant("Four")]
    calls.Put(session_id=session_id, messages=own, config=config)
    reply = calls.Get(session_id=session_id)
    inserted = "<memory>\n<b>\nx\n</b>\n</memory>"
    texts = [[m.text] if m.HasField("text") else [p.text for p in m.parts] for m in reply.messages]
    expected = [[m.text] for m in own]
    expected[0 if system else 3].insert(0, inserted)
    assert texts == expected
    assert [m.role for m in reply.messages] == [m.role for m in own]
    # What a Get adds is nowhere else.
    assert [m.text for m in calls.all_messages(session_id)] == [m.text for m in own]


def words(count: int) -> str:
    return " ".join(["word"] * count)


@pytest.mark.parametrize("profile, limit, used", (
    ("default", 500, ["a", "b", "c"]),
    ("default", 250, ["a", "b"]),
    ("default", 150, ["a"]),
    ("default", 50, ["a"]),
    # As in the library, 1 goes before 2.
    ("llama-index", 500, ["a", "b", "c"]),
    ("llama-index", 250, ["a", "c"]),
    ("llama-index", 150, ["a"]),
    ("llama-index", 50, ["a"]),
))
def test_blocks_are_dropped_by_priority_and_0_never(calls, session_id, profile, limit, used):
    names = {"a": 0, "b": 1, "c": 2}
    config = memory.SessionConfig(
        profile=profile, token_limit=limit, token_flush_size=10, tokenizer="whitespace",
        blocks=[block(n, "static", p, content=[words(100)]) for n, p in names.items()])
    calls.Put(session_id=session_id, messages=[user("Hi")], config=config)
    reply = calls.Get(session_id=session_id)
    assert list(reply.blocks_used) == used
    assert sorted(reply.blocks_dropped) == sorted(set(names) - set(used))
    assert (reply.over_limit_tokens > 0) == (limit == 50)
    assert reply.limit == limit
    if limit != 50:
        assert reply.token_count <= limit
    assert reply.messages[-1].text == "Hi"


def test_a_session_may_have_its_blocks_cut_in_the_other_order(calls, session_id):
    config = memory.SessionConfig(
        profile="llama-index", token_limit=250, token_flush_size=10, tokenizer="whitespace",
        cut_highest_first=True,
        blocks=[block(n, "static", p, content=[words(100)]) for p, n in enumerate("abc")])
    calls.Put(session_id=session_id, messages=[user("Hi")], config=config)
    assert list(calls.Get(session_id=session_id).blocks_used) == ["a", "b"]
    calls.UpdateSession(session_id=session_id,
                        config=memory.SessionConfig(cut_highest_first=False))
    assert list(calls.Get(session_id=session_id).blocks_used) == ["a", "c"]


@pytest.mark.parametrize("where", ("http", "worker"))
def test_a_block_that_does_not_answer_in_time_is_missing(calls, agent, session_id, where):
    config = every_turn(
        block("core", "static", content=["x"]),
        block("v", "vector", worker=WORKER if where == "worker" else "", embedder="embed"))
    calls.Put(session_id=session_id, messages=turn("My dog is Rex"), config=config)
    calls.Put(session_id=session_id, messages=[user("Who is Rex")], wait=WAIT)
    with contextlib.ExitStack() as stack:
        if where == "http":
            stack.enter_context(agent.models.hanging())
        else:
            agent.held.clear()
            stack.callback(agent.held.set)
        reply = calls.Get(session_id=session_id, timeout=4)
    assert missing(reply) == {"v": "TIMEOUT"}
    assert list(reply.blocks_used) == ["core"]
    assert reply.messages[-1].text == "Who is Rex"
    wait_for(lambda: not missing(calls.Get(session_id=session_id)))
    assert "user: My dog is Rex" in section(calls.Get(session_id=session_id), "v")


def test_a_block_whose_worker_or_model_is_not_here_is_missing(calls, session_id):
    config = every_turn(
        block("elsewhere", "worker", worker="nobody"),
        block("mentions", "worker", worker=WORKER),
        block("unserved", "worker", worker=WORKER),
        block("core", "static", content=["x"]))
    calls.Put(session_id=session_id, messages=turn("Logan"), config=config)
    calls.Put(session_id=session_id, messages=[user("Hi")])
    wait_for(lambda: "1 times" in memory_text(calls.Get(session_id=session_id)))
    reply = calls.Get(session_id=session_id)
    assert missing(reply) == {"elsewhere": "WORKER_ELSEWHERE", "unserved": "WORKER_LACKS_BLOCK"}
    assert list(reply.blocks_used) == ["mentions", "core"]
    # What nobody has fed yet waits.
    assert {(job.block, job.state) for job in jobs_of(calls, session_id)} == {
        ("elsewhere", OPEN), ("mentions", DONE), ("unserved", OPEN)}


def test_input_is_asked_for_and_not_kept(calls, session_id):
    config = every_turn(block("v", "vector", embedder="embed", top_k=1, retrieval_context_window=1))
    for text in ("My dog is Rex", "I like tea", "Bye"):
        calls.Put(session_id=session_id, messages=[user(text)], config=config, wait=WAIT)
    for asked, found in (("dog", "My dog is Rex"), ("tea", "I like tea")):
        reply = calls.Get(session_id=session_id, input=f"{asked} {asked}")
        assert section(reply, "v") == ["<messages>", f"user: {found}", "</messages>"]
        assert reply.messages[-1].text == "Bye"
    assert len(calls.all_messages(session_id)) == 3


@pytest.mark.parametrize("blocks, field, text", (
    ([block("b", "static"), block("c", "magic")], "config.blocks[1].kind", "fact-extraction"),
    ([block("b", "")], "config.blocks[0].kind", ""),
    ([block("", "static")], "config.blocks[0].name", ""),
    ([block("a/b", "static")], "config.blocks[0].name", ""),
    ([block("b" * 65, "static")], "config.blocks[0].name", ""),
    ([block("b", "static"), block("b", "static")], "config.blocks[1].name", ""),
    ([block("b", "static", -1)], "config.blocks[0].priority", ""),
    ([block("b", "static", colour="red")], "config.blocks[0].options_json", "colour"),
    ([block("b", "summary", model="chat", content=["x"])], "config.blocks[0].content", ""),
    ([block("b", "summary")], "config.blocks[0].options_json", "model"),
    ([block("b", "summary", model="chat", max_tokens="many")], "config.blocks[0].options_json",
     "max_tokens"),
    ([block("b", "summary", model="chat", prompt="none")], "config.blocks[0].options_json",
     "prompt"),
    ([block("b", "fact-extraction", model="chat", max_facts=0)], "config.blocks[0].options_json",
     "max_facts"),
    ([block("b", "vector", embedder="embed", similarity_threshold=2)],
     "config.blocks[0].options_json", "similarity_threshold"),
    ([block("b", "vector", embedder="embed", filter={"a": [1]})], "config.blocks[0].options_json",
     "filter"),
    ([block("b", "entity", model="")], "config.blocks[0].options_json", "model"),
    ([memory.Block(name="b", kind="static", options_json="[]")], "config.blocks[0].options_json",
     ""),
    ([memory.Block(name="b", kind="static", options_json="{")], "config.blocks[0].options_json",
     ""),
    ([block("b", "worker")], "config.blocks[0].worker", ""),
    ([block(f"b{i}", "static") for i in range(33)], "config.blocks", "32"),
))
def test_a_wrong_block_is_named(calls, session_id, blocks, field, text):
    config = memory.SessionConfig(blocks=blocks)
    for error in (refusal(calls.Put, session_id=session_id, messages=[user("Hi")], config=config),
                  refusal(calls.CreateSession, session_id=session_id, config=config)):
        assert error.code() == INVALID, error
        assert field_of(error) == field
        assert text in error.details()
    calls.CreateSession(session_id=session_id)
    error = refusal(calls.UpdateSession, session_id=session_id, config=config)
    assert (error.code(), field_of(error)) == (INVALID, field)
    assert not calls.GetSession(session_id=session_id).session.config.blocks


def test_update_session_changes_blocks(calls, agent, session_id):
    agent.answer(FACTS)
    facts = block("facts", "fact-extraction", 1, model="chat")
    summary = block("summary", "summary", model="chat")
    calls.Put(session_id=session_id, messages=turn("One"), config=every_turn(facts))
    calls.Put(session_id=session_id, messages=turn("Two"), wait=WAIT)
    kept = ["<fact>Logan has a dog.</fact>"]

    def change(*blocks):
        reply = calls.UpdateSession(session_id=session_id,
                                    config=memory.SessionConfig(blocks=blocks))
        assert [b.name for b in reply.session.config.blocks] == [b.name for b in blocks]
        return calls.Get(session_id=session_id)

    # A block added is fed from then on; one that stays keeps what it knows, also as its options
    # change.
    agent.answer("They counted.")
    changed = block("facts", "fact-extraction", model="chat", max_facts=7)
    reply = change(summary, changed)
    assert (section(reply, "facts"), section(reply, "summary")) == (kept, [])
    calls.Put(session_id=session_id, messages=turn("Three"), wait=WAIT)
    reply = calls.Get(session_id=session_id)
    assert (section(reply, "facts"), section(reply, "summary")) == (kept, ["They counted."])
    assert list(reply.blocks_used) == ["summary", "facts"]
    # A block taken away is gone, for good; so is one that becomes another kind.
    assert "Logan" not in memory_text(change(summary))
    reply = change(block("summary", "fact-extraction", model="chat"), facts)
    assert memory_text(reply) == ""
    agent.answer(FACTS)
    calls.Put(session_id=session_id, messages=turn("Four"), wait=WAIT)
    reply = calls.Get(session_id=session_id)
    assert (section(reply, "facts"), section(reply, "summary")) == (kept, kept)


def test_a_put_may_repeat_the_blocks_but_not_change_them(calls, session_id):
    config = every_turn(block("b", "static", content=["x"]))
    calls.Put(session_id=session_id, messages=[user("a")], config=config)
    calls.Put(session_id=session_id, messages=[user("b")], config=config)
    other = every_turn(block("b", "static", content=["y"]))
    error = refusal(calls.Put, session_id=session_id, messages=[user("c")], config=other)
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert [m.text for m in calls.all_messages(session_id)] == ["a", "b"]


QUESTIONS = ("Hi! My name is Logan", "What is your opinion on minature shnauzers?",
             "Do they shed a lot?", "What breeds are comparable in size?",
             "What is your favorite breed?", "Would you recommend owning a dog?",
             "What should I buy to prepare for owning a dog?")
CORE = "My name is Logan, and I live in Saskatoon. I work at LlamaIndex."


def worked_example(where: str) -> memory.SessionConfig:
    worker = WORKER if where == "worker" else ""
    return memory.SessionConfig(
        profile="llama-index", token_limit=30000, chat_history_token_ratio=0.02,
        token_flush_size=500, insert_method=memory.INSERT_METHOD_USER,
        blocks=[
            block("core_info", "static", 0, content=[CORE]),
            block("extracted_info", "fact-extraction", 1, worker=worker, model="chat",
                  max_facts=50),
            block("vector_memory", "vector", 2, worker=worker, embedder="embed"),
        ])


@pytest.mark.parametrize("where", ("http", "worker"))
def test_the_worked_example_of_llama_index(calls, agent, session_id, where):
    calls.CreateSession(session_id=session_id, config=worked_example(where))
    agent.answer("<facts>\n  <fact>The user's name is Logan</fact>\n"
                 "  <fact>Logan asks about dogs</fact>\n</facts>")
    # Six turns are below 600 tokens, seven are above, and six of them leave.
    answer = " ".join(["dog"] * 86)
    for question in QUESTIONS:
        calls.Put(session_id=session_id, messages=[user(question)])
        calls.Get(session_id=session_id)
        reply = calls.Put(session_id=session_id, messages=[assistant(answer)])
        assert not reply.open_jobs
    # Fed before the reply.
    assert reply.archived_count == 12
    got = calls.Get(session_id=session_id)
    assert [m.role for m in got.messages] == ["user", "assistant"]
    inserted, own = got.messages[0].parts
    assert own.text == QUESTIONS[-1] and got.messages[1].text == answer
    recalled = "\n".join(f"<message role='user'>{question}</message>\n"
                         f"<message role='assistant'>{answer}</message>"
                         for question in QUESTIONS[:-1])
    assert inserted.text == (
        f"<memory>\n<core_info>\n{CORE}\n</core_info>\n"
        "<extracted_info>\n<fact>The user's name is Logan</fact>\n"
        "<fact>Logan asks about dogs</fact>\n</extracted_info>\n"
        f"<vector_memory>\n{recalled}\n</vector_memory>\n</memory>")
    assert list(got.blocks_used) == ["core_info", "extracted_info", "vector_memory"]
    # Asked afterwards.
    calls.Put(session_id=session_id, messages=[user("What kind of dog was I asking about?")])
    got = calls.Get(session_id=session_id)
    assert "shnauzers" in got.messages[-1].parts[0].text
    assert len(calls.all_messages(session_id)) == 15


@pytest.mark.parametrize("where", ("http", "worker"))
def test_the_worked_example_goes_on_as_in_llama_index(calls, agent, session_id, where):
    calls.CreateSession(session_id=session_id, config=worked_example(where))
    topics = ("dog breed size", "tea with <b>milk</b>", "train to Paris & Berlin", "naïve 日本語 😀")
    longest = 0
    with LongTermMemory(CORE, agent.next_answer) as library:

        def same() -> int:
            got = calls.Get(session_id=session_id)
            texts = [(m.role, [m.text] if m.HasField("text") else [p.text for p in m.parts])
                     for m in got.messages]
            assert texts == library.get()
            return len(memory_text(got))

        for number in range(36):
            agent.answer(f"<facts><fact>Fact {number // 5}</fact><fact>Logan asks.</fact></facts>")
            question = f"{QUESTIONS[number % len(QUESTIONS)]} ({number})"
            answer = " ".join([topics[number // 9]] * 20 + [f"end{number}"])
            for role, text in (("user", question), ("assistant", answer)):
                calls.Put(session_id=session_id, messages=[memory.Message(role=role, text=text)])
                library.put(role, text)
                longest = max(longest, same())
    archived = calls.GetSession(session_id=session_id).session.archived_count
    # Of more than two flushes the vector block says the two that are nearest.
    assert archived > 40 and longest > 2000


ALL_KINDS = (
    block("core", "static", content=["x"]), block("facts", "fact-extraction", model="chat"),
    block("vectors", "vector", embedder="embed"), block("summary", "summary", model="chat"),
    block("entities", "entity", model="chat"), block("mentions", "worker", worker=WORKER),
)
ONE_ANSWER = ('<facts><fact evidence="1">Logan has a dog.</fact></facts>'
              '<entities><entity name="Rex">A dog.</entity></entities>')


def test_what_blocks_know_survives_a_restart(store, agent, tmp_path):
    listen = f"unix:{tmp_path}/memoryd.sock"
    arguments = [models_file(tmp_path, agent.models)]
    agent.answer(ONE_ANSWER)
    said = None
    for life in range(3):
        with Server(store, listen=listen, arguments=arguments) as server, \
                agent.worker(server.target), server.channel() as channel:
            calls = Calls(channel)
            if life == 0:
                calls.Put(session_id="s", messages=turn("Logan has a dog Rex"),
                          config=every_turn(*ALL_KINDS))
                assert not calls.Put(session_id="s", messages=[user("Who is Rex")],
                                     wait=WAIT).open_jobs
                said = memory_text(calls.Get(session_id="s"))
            reply = calls.Get(session_id="s")
            assert memory_text(reply) == said and not reply.missing_blocks
            assert list(reply.blocks_used) == [b.name for b in ALL_KINDS]
            server.kill()


def test_a_second_server_sees_what_the_first_has_fed(agent, tmp_path):
    arguments = [models_file(tmp_path, agent.models)]
    agent.answer(ONE_ANSWER)
    with fresh_store("postgresql") as store, contextlib.ExitStack() as stack:
        servers = []
        for _ in range(2):
            server = stack.enter_context(Server(store, arguments=arguments))
            stack.enter_context(agent.worker(server.target))
            servers.append(Calls(stack.enter_context(server.channel())))
        calls = servers[0]
        calls.Put(session_id="s", messages=turn("Logan has a dog Rex"),
                  config=every_turn(*ALL_KINDS))
        for number in range(10):
            putting, other = servers[number % 2], servers[1 - number % 2]
            assert memory_text(other.Get(session_id="s")) == memory_text(
                putting.Get(session_id="s"))
            assert not putting.Put(session_id="s", messages=turn(f"Logan and Rex {number}"),
                                   wait=WAIT).open_jobs
            reply = other.Get(session_id="s")
            assert section(reply, "mentions") == [f"Logan was mentioned {number + 1} times."]
            assert memory_text(reply) == memory_text(putting.Get(session_id="s"))
            assert list(reply.blocks_used) == [b.name for b in ALL_KINDS]
