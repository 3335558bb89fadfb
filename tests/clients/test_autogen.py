"""memoryd.autogen against the server, and in an agent."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Sequence

import autogen_core.memory
import grpc
import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken, Image
from autogen_core.memory import Memory, MemoryContent, MemoryMimeType
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    HeadAndTailChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient
from PIL import Image as PILImage

from support import paths
from support.server import Server
from support.stores import fresh_store

from memoryd import Client, MemorydError, config, content, message
from memoryd.autogen import ListMemory, SearchMemory
from memoryd.v1 import memory_pb2

TEXT = MemoryMimeType.TEXT


def text(value: str, **fields) -> MemoryContent:
    return MemoryContent(content=value, mime_type=TEXT, **fields)


# Under the key of ours in metadata, of somebody else's making.
ODD_NOTES = [
    "x", 3, None, [], [1], True, {"content": 3}, {"content": "x"}, {"content": [3]}, {"content": [[]]},
    {"content": [[["a"], "bytes"]]}, {"content": [[[], "nothing"]]}, {"content": [[[], "set"]]},
    {"content": [[[0, "a"], "tuple"]]}, {"content": [[[], "halves", [[99, 55296]]]]},
    {"content": [[[], "halves", "x"]]}, {"content": [[[], "Decimal"]]}, {"content": [[[], "UUID"]]},
    {"content": [[[], "timedelta", 10**20]]}, {"content": [[[], "enum"]]}, {"content": [[[], "int"]]},
    {"content": [[[], "datetime", "../x", 0]]}, {"content": [[[], []]]}, {"content": [[[[]], "tuple"]]},
    {"metadata": [[["topic", "x"], "bytes"]]}, {"metadata": [[[], "tuple"]]}, {"metadata": {"a": 1}},
    {"none": True}, {"none": "x", "content": None}]


def values(items: Sequence[MemoryContent]) -> list:
    return [item.content for item in items]


@pytest.fixture
def client(server):
    with Client(server.target) as connected:
        yield connected


@pytest.fixture
def memory(server, session_id):
    made = ListMemory(session_id=session_id, target=server.target, timeout=60)
    yield made
    asyncio.run(made.close())


@pytest.fixture
def search(server, session_id):
    made = SearchMemory(session_id=session_id, target=server.target, timeout=60)
    yield made
    asyncio.run(made.close())


# ListMemory.


def test_it_is_the_librarys_list_memory(memory):
    assert isinstance(memory, autogen_core.memory.ListMemory) and isinstance(memory, Memory)
    assert memory.name == "default_list_memory"
    assert ListMemory("").name == "default_list_memory" and ListMemory("x").name == "x"


def test_another_object_and_another_loop_see_what_was_added(memory, server, session_id):
    asyncio.run(memory.add(text("a")))
    asyncio.run(memory.add(text("b")))
    other = ListMemory(session_id=session_id, target=server.target)
    assert values(asyncio.run(other.query()).results) == ["a", "b"]
    other.content = [text("c")]
    assert values(memory.content) == ["c"]
    asyncio.run(other.clear())
    assert memory.content == [] and asyncio.run(memory.query("x")).results == []


def test_without_a_session_each_has_one_of_its_own(server):
    memories = [ListMemory(target=server.target) for _ in range(2)]
    asyncio.run(memories[0].add(text("a")))
    assert values(memories[0].content) == ["a"] and memories[1].content == []


def test_contents_come_back_as_they_were(memory):
    items = [
        MemoryContent(content="é", mime_type="text/plain"),
        MemoryContent(content="# é", mime_type=MemoryMimeType.MARKDOWN, metadata={}),
        MemoryContent(content={"b": 1.0, "a": [1, None, {"z": True}]},
                      mime_type=MemoryMimeType.JSON, metadata={"y": 1, "x": 1.0}),
        MemoryContent(content=b"\0\xff", mime_type=MemoryMimeType.BINARY),
        MemoryContent(content="", mime_type="custom/type"),
    ]
    memory.content = items
    found = memory.content
    assert found == items
    # Equal numbers and dicts may still differ.
    assert json.dumps(found[2].content) == json.dumps(items[2].content)
    assert json.dumps(found[2].metadata) == json.dumps(items[2].metadata)
    assert [type(item.mime_type) for item in found] == [type(item.mime_type) for item in items]


def test_an_image_comes_back_and_has_words_in_the_context(memory):
    image = Image(PILImage.new("RGB", (2, 1), "red"))
    asyncio.run(memory.add(MemoryContent(content=image, mime_type=MemoryMimeType.IMAGE)))
    found, = memory.content
    assert found.content.image.getpixel((1, 0)) == (255, 0, 0)
    context = UnboundedChatCompletionContext()
    asyncio.run(memory.update_context(context))
    said, = asyncio.run(context.get_messages())
    assert "1. <Image>" in said.content


def test_what_is_no_value_is_refused(memory):
    for fields in ({"content": {"a": object()}}, {"content": "x", "metadata": {"a": object()}}):
        with pytest.raises(TypeError, match="object is no type that can be stored"):
            asyncio.run(memory.add(MemoryContent(mime_type="x", **fields)))
    assert memory.content == []


def test_what_cannot_be_stored_is_named(memory, search):
    inside: dict = {}
    inside["self"] = [inside]
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    for given, said in (({"a": {"b": [0, object()]}}, r"\['a'\]\['b'\]\[1\]: object is no type"),
                        (inside, ": it holds itself"), ({"deep": deep}, ": .*too deep")):
        for kind in (memory, search):
            with pytest.raises(TypeError, match=f"^content{said}"):
                asyncio.run(kind.add(MemoryContent(content=given, mime_type="application/json")))
            with pytest.raises(TypeError, match=f"^metadata{said}"):
                asyncio.run(kind.add(MemoryContent(
                    content="x", mime_type="text/plain", metadata=given)))
    assert asyncio.run(memory.query("")).results == []


def test_integers_of_any_size_come_back(memory):
    given = {"large": 16**5000, "negative": [-(16**5000)], "decimal": 10**3999}
    asyncio.run(memory.add(MemoryContent(
        content=given, mime_type="application/json", metadata=given)))
    [found] = asyncio.run(memory.query("")).results
    assert found.content == given and found.metadata == given


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
@pytest.mark.parametrize("kind", [ListMemory, SearchMemory])
def test_a_memory_in_use_is_copied(server, session_id, kind, copied):
    used = kind(session_id=session_id, target=server.target, timeout=60)
    asyncio.run(used.add(MemoryContent(content="tea", mime_type=MemoryMimeType.TEXT)))
    assert asyncio.run(copied(used).query("tea")).results[0].content == "tea"


def test_what_is_returned_is_a_copy(memory):
    asyncio.run(memory.add(text("a", metadata={"k": 1})))
    found = memory.content
    found[0].metadata["k"] = 2
    found.append(text("b"))
    assert memory.content == [text("a", metadata={"k": 1})]


def test_more_contents_than_a_request_holds(memory):
    many = [text(str(i)) for i in range(2001)]
    memory.content = many
    assert values(memory.content) == values(many)
    large = [text("x" * 1_000_000), text("y" * 1_000_000), text("z" * 1_000_000),
             MemoryContent(content=b"b" * 3_000_000, mime_type="x")]
    memory.content = large
    assert memory.content == large


def test_context_gets_one_message_for_each_call(memory):
    context = BufferedChatCompletionContext(buffer_size=3)
    assert asyncio.run(memory.update_context(context)).memories.results == []
    assert asyncio.run(context.get_messages()) == []
    asyncio.run(memory.add(MemoryContent(content={"it's": 1.5}, mime_type="application/json")))
    for _ in range(2):
        result = asyncio.run(memory.update_context(context))
        assert values(result.memories.results) == [{"it's": 1.5}]
    said = asyncio.run(context.get_messages())
    library = autogen_core.memory.ListMemory(memory_contents=memory.content)
    asyncio.run(library.update_context(context))
    assert said == 2 * [asyncio.run(context.get_messages())[-1]]


def test_it_begins_with_what_it_was_given_unless_the_session_is_there(server, session_id):
    given = [text("a"), text("b")]
    first = ListMemory(None, given, session_id=session_id, target=server.target)
    given.append(text("not seen"))
    assert values(first.content) == ["a", "b"]
    again = ListMemory(None, [text("c")], session_id=session_id, target=server.target)
    assert values(asyncio.run(again.query()).results) == ["a", "b"]
    asyncio.run(again.clear())
    third = ListMemory(None, [text("c")], session_id=session_id, target=server.target)
    assert third.content == []


def test_clearing_first_leaves_nothing_to_begin_with(server, session_id):
    memory = ListMemory(None, [text("a")], session_id=session_id, target=server.target)
    asyncio.run(memory.clear())
    assert memory.content == []


def test_a_session_that_somebody_deleted_is_a_list_again(memory, client, session_id):
    asyncio.run(memory.add(text("a")))
    client.delete_session(session_id)
    asyncio.run(memory.add(text("b")))
    assert values(asyncio.run(memory.query("nothing of it")).results) == ["b"]
    client.delete_session(session_id)
    memory.content = [text("c")]
    assert values(asyncio.run(memory.query("nothing of it")).results) == ["c"]


def test_a_session_of_another_profile_is_refused(memory, client, session_id):
    client.put(session_id, [message("user", "m")])
    with pytest.raises(ValueError, match="profile 'default'"):
        asyncio.run(memory.add(text("a")))
    with pytest.raises(ValueError, match=session_id):
        _ = memory.content


def test_a_cancelled_token_cancels_and_stores_nothing(memory, search):
    token = CancellationToken()
    token.cancel()

    async def cancelled(call) -> bool:
        try:
            await call
        except asyncio.CancelledError:
            return True
        return False

    for cancelled_call in (
        lambda: memory.add(text("a"), token), lambda: memory.query("a", token),
        lambda: search.add(text("a"), token), lambda: search.query("a", token),
    ):
        assert asyncio.run(cancelled(cancelled_call()))
    assert memory.content == []


def test_a_token_cancels_a_call_under_way(store):
    with Server(store) as server:
        memory = ListMemory(target=server.target, timeout=600)
        asyncio.run(memory.query())
        server.pause()

        async def cancel_the_waiting() -> None:
            token = CancellationToken()
            call = asyncio.ensure_future(memory.add(text("a"), token))
            asyncio.get_running_loop().call_soon(
                asyncio.get_running_loop().call_soon, token.cancel)
            await call

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(cancel_the_waiting())


def test_it_works_after_close_as_the_librarys_does(memory):
    async def use() -> list:
        await memory.add(text("a"))
        await memory.close()
        await memory.close()
        return (await memory.query()).results

    assert values(asyncio.run(use())) == ["a"]


def test_nobody_there_is_an_error():
    memory = ListMemory(target="unix:/nonexistent/memoryd.sock", timeout=0.3)
    with pytest.raises(MemorydError) as caught:
        asyncio.run(memory.add(text("a")))
    assert caught.value.code in (
        grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


# Components.


def test_a_list_is_dumped_and_loaded(server, session_id):
    memory = ListMemory("notes", session_id=session_id, target=server.target, token="secret")
    asyncio.run(memory.add(MemoryContent(content={"a": 1}, mime_type="application/json")))
    dump = memory.dump_component()
    assert dump.provider == "memoryd.autogen.ListMemory" and dump.component_type == "memory"
    assert dump.config == {
        "name": "notes", "target": server.target, "session_id": session_id,
        "memory_contents": [{"content": {"a": 1}, "mime_type": "application/json"}]}
    written = dump.model_dump_json()
    assert "secret" not in written
    loaded = Memory.load_component(json.loads(written))
    assert isinstance(loaded, ListMemory)
    assert (loaded.name, loaded.session_id, loaded.target) == ("notes", session_id, server.target)
    assert values(loaded.content) == [{"a": 1}]
    asyncio.run(memory.add(text("b")))
    assert values(loaded.content) == [{"a": 1}, "b"]


def test_a_dump_begins_where_the_session_is_not(memory, session_id):
    memory.content = [text("a")]
    dump = memory.dump_component()
    with Server("sqlite::memory:") as other:
        dump.config["target"] = other.target
        loaded = Memory.load_component(dump)
        assert isinstance(loaded, ListMemory) and values(loaded.content) == ["a"]


def test_a_library_component_loads_as_ours(server, monkeypatch):
    monkeypatch.setenv("MEMORYD_TARGET", server.target)
    dump = autogen_core.memory.ListMemory("n", [text("a")]).dump_component()
    dump.provider = "memoryd.autogen.ListMemory"
    loaded = Memory.load_component(dump)
    assert isinstance(loaded, ListMemory)
    assert loaded.name == "n" and values(loaded.content) == ["a"]


def test_a_search_memory_is_dumped_and_loaded(search, server, session_id):
    dump = search.dump_component()
    assert dump.provider == "memoryd.autogen.SearchMemory"
    loaded = Memory.load_component(dump)
    assert isinstance(loaded, SearchMemory)
    assert (loaded.name, loaded.session_id, loaded.target) == (
        "default_search_memory", session_id, server.target)
    assert dump.config["top_k"] == 5


# SearchMemory.


def test_search_finds_by_words_with_scores(search):
    stored = [text("Tea is grown in China.", metadata={"k": 1}), text("Coffee is from Ethiopia."),
              MemoryContent(content={"drink": "green tea"}, mime_type=MemoryMimeType.JSON)]
    for item in stored:
        asyncio.run(search.add(item))
    found = asyncio.run(search.query("tea from China")).results
    assert found[0].content == "Tea is grown in China." and found[0].mime_type is TEXT
    assert found[0].metadata == {"k": 1, "score": 1.0}
    scores = [item.metadata["score"] for item in found]
    assert scores == sorted(scores, reverse=True) and all(0 < score <= 1 for score in scores)
    one = asyncio.run(search.query(text("green tea"), top_k=1)).results
    assert values(one) == [{"drink": "green tea"}]
    assert values(asyncio.run(search.query("Ethiopia")).results) == ["Coffee is from Ethiopia."]
    for nothing in ("", " ", "unheard"):
        assert asyncio.run(search.query(nothing)).results == []
    with pytest.raises(TypeError, match="bytes"):
        asyncio.run(search.query(MemoryContent(content=b"", mime_type="x")))
    asyncio.run(search.clear())
    assert asyncio.run(search.query("tea")).results == []


def test_search_finds_messages_of_other_clients(search, client, session_id):
    client.put(session_id, [message("assistant", "Paris is the capital.", metadata={"k": 1})])
    found, = asyncio.run(search.query("capital")).results
    assert found.content == "Paris is the capital."
    assert found.metadata == {"k": 1, "role": "assistant", "score": 1.0}


def test_search_puts_into_the_context_what_answers_to_the_user(search):
    async def update() -> tuple[list, list[LLMMessage]]:
        await search.add(text("Logan drinks tea."))
        await search.add(text("The train leaves at nine."))
        context = UnboundedChatCompletionContext()
        empty = await search.update_context(context)
        assert empty.memories.results == []
        await context.add_message(UserMessage(content=["What does", "Logan drink?"], source="u"))
        for _ in range(2):
            results = (await search.update_context(context)).memories.results
        return results, await context.get_messages()

    results, messages = asyncio.run(update())
    assert values(results) == ["Logan drinks tea."]
    assert len(messages) == 2 and isinstance(messages[0], SystemMessage)
    assert messages[0].content.endswith("\n1. Logan drinks tea.")


def said_by(messages: Sequence[LLMMessage]) -> list[str]:
    return ["system" if isinstance(one, SystemMessage) else str(one.content) for one in messages]


async def ask(context: ChatCompletionContext, *memories: Memory, question: str) -> list[str]:
    """What the model is shown of a question, memory asked before."""
    await context.add_message(UserMessage(content=question, source="u"))
    for one in memories:
        await one.update_context(context)
    return said_by(await context.get_messages())


def test_search_stands_in_front_whatever_came_before(search):
    async def run() -> None:
        await search.add(text("Logan drinks tea."))
        await search.add(text("The train leaves at nine."))
        context = UnboundedChatCompletionContext([SystemMessage(content="Be kind.")])
        assert await ask(context, search, question="Who drinks tea?") == (
            ["system", "system", "Who drinks tea?"])
        await context.add_message(AssistantMessage(content="Logan.", source="a"))
        asked = await ask(context, search, question="And the train?")
        assert asked == ["system", "system", "Who drinks tea?", "Logan.", "And the train?"]
        messages = await context.get_messages()
        assert messages[0].content == "Be kind." and "nine" in messages[1].content
        assert "tea" not in messages[1].content
        # Nothing is found: what was found last goes.
        assert await ask(context, search, question="Unheard?") == (
            ["system", "Who drinks tea?", "Logan.", "And the train?", "Unheard?"])

    asyncio.run(run())


def test_search_at_the_end_adds_with_each_question(server, search):
    async def run() -> None:
        await search.add(text("Logan drinks tea."))
        at_end = SearchMemory(session_id=search.session_id, placement="end", target=server.target)
        context = UnboundedChatCompletionContext()
        for _ in range(2):
            asked = await ask(context, at_end, question="Who drinks tea?")
        assert asked == ["Who drinks tea?", "system", "Who drinks tea?"]
        await at_end.close()

    asyncio.run(run())


def test_two_searches_stand_in_front_together(server, search):
    async def run() -> None:
        other = SearchMemory(target=server.target)
        await search.add(text("Logan drinks tea."))
        await other.add(text("Kiwi drinks juice."))
        context = UnboundedChatCompletionContext()
        for questions in (1, 2):
            asked = await ask(context, search, other, question="Who drinks?")
            assert asked == ["system"] * 2 + ["Who drinks?"] * questions
        found = [one.content for one in (await context.get_messages())[:2]]
        assert "Logan" in found[0] + found[1] and "Kiwi" in found[0] + found[1]
        await other.close()

    asyncio.run(run())


@pytest.mark.parametrize("make", (
    UnboundedChatCompletionContext, lambda: BufferedChatCompletionContext(3),
    lambda: HeadAndTailChatCompletionContext(2, 2)), ids=("unbounded", "buffered", "head and tail"))
def test_every_context_shows_it_in_front(search, make):
    async def run() -> None:
        await search.add(text("Logan drinks tea."))
        context = make()
        for number in range(6):
            asked = await ask(context, search, question=f"Who drinks tea, {number}?")
            assert asked.count("system") == 1 and asked[0] == "system"
            assert asked[-1] == f"Who drinks tea, {number}?"

    asyncio.run(run())


class OwnContext(ChatCompletionContext):
    """Keeps its messages elsewhere than autogen_core's do."""

    def __init__(self) -> None:
        self.kept: list[LLMMessage] = []

    async def add_message(self, message: LLMMessage) -> None:
        self.kept.append(message)

    async def get_messages(self) -> list[LLMMessage]:
        return list(self.kept)

    async def clear(self) -> None:
        self.kept.clear()


def test_a_context_of_somebody_elses_gets_it_in_front(search):
    async def run() -> None:
        await search.add(text("Logan drinks tea."))
        context = OwnContext()
        for _ in range(2):
            asked = await ask(context, search, question="Who drinks tea?")
        assert asked == ["system", "Who drinks tea?", "Who drinks tea?"]

    asyncio.run(run())


def test_what_an_earlier_process_put_to_the_front_is_replaced(search):
    async def run() -> None:
        await search.add(text("Logan drinks tea."))
        context = UnboundedChatCompletionContext()
        await ask(context, search, question="Who drinks tea?")
        loaded = UnboundedChatCompletionContext()
        await loaded.load_state(json.loads(json.dumps(await context.save_state())))
        await search.add(text("Logan drinks coffee, too."))
        asked = await ask(loaded, search, question="What does Logan drink?")
        assert asked == ["system", "Who drinks tea?", "What does Logan drink?"]
        assert "coffee" in (await loaded.get_messages())[0].content

    asyncio.run(run())


def test_a_list_stands_in_front_where_it_is_asked(server, memory):
    async def run() -> None:
        await memory.add(text("Logan drinks tea."))
        front = ListMemory(session_id=memory.session_id, placement="front", target=server.target)
        context = UnboundedChatCompletionContext()
        for added in ("And coffee.", "And juice."):
            asked = await ask(context, front, question="What?")
            assert asked[0] == "system" and asked.count("system") == 1
            await memory.add(text(added))
        assert await ask(context, memory, question="What?") == (
            ["system", "What?", "What?", "What?", "system"]), "its own is at the end, as before"
        said = (await context.get_messages())[0].content
        assert said.endswith("1. Logan drinks tea.\n2. And coffee.\n")
        await front.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", (ListMemory, SearchMemory))
def test_placement_is_one_of_two_and_is_dumped(server, kind):
    with pytest.raises(ValueError, match="placement: must be 'front' or 'end', not 'middle'"):
        kind(placement="middle", target=server.target)
    for placement in ("front", "end"):
        one = kind(placement=placement, session_id="p", target=server.target)
        loaded = kind.load_component(one.dump_component())
        assert loaded._placement == placement


def test_search_of_a_list_is_refused(memory, search):
    asyncio.run(memory.add(text("a")))
    with pytest.raises(ValueError, match="autogen-list"):
        asyncio.run(search.query("a"))


# In an agent.


class Model(ReplayChatCompletionClient):
    """Keeps what it was asked."""

    def __init__(self, answers: Sequence[str]) -> None:
        super().__init__(answers)
        self.asked: list[list[LLMMessage]] = []

    async def create(self, messages, **arguments):
        self.asked.append(list(messages))
        return await super().create(messages, **arguments)


def test_an_agents_model_sees_the_memory(memory, server):
    search = SearchMemory(target=server.target)

    async def run() -> list[str]:
        await memory.add(text("The user is called Logan."))
        await search.add(text("Bus 7 goes to the station."))
        model = Model(["One.", "Two."])
        agent = AssistantAgent("a", model, memory=[memory, search])
        first = await agent.run(task="How do I get to the station?")
        await memory.add(text("It rains."))
        await agent.run(task="And the weather?")
        said = ["\n".join(str(m.content) for m in asked) for asked in model.asked]
        assert "1. The user is called Logan." in said[0] and "Bus 7" in said[0]
        assert "It rains" not in said[0] and "2. It rains." in said[1]
        await search.close()
        return [m.type for m in first.messages]

    assert asyncio.run(run()).count("MemoryQueryEvent") == 2


def test_an_agent_is_dumped_and_loaded_with_its_memory(memory):
    asyncio.run(memory.add(text("a")))
    model = ReplayChatCompletionClient(["x"])
    dump = AssistantAgent("a", model, memory=[memory]).dump_component()
    loaded = AssistantAgent.load_component(dump)
    assert values(loaded._memory[0].content) == ["a"]


def test_the_example_remembers_over_a_restart_of_its_process(store):
    example = paths.REPOSITORY / "examples/autogen_agent.py"
    assert len(example.read_text(encoding="utf-8").splitlines()) <= 40
    source = str(paths.REPOSITORY / "clients/python/src")
    with Server(store) as server:
        done = subprocess.run(
            [sys.executable, str(example), server.target], capture_output=True, text=True,
            timeout=120, env={**os.environ, "PYTHONPATH": source}, check=False)
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split("I'll remember that.")
    assert "never coffee" in before and "never coffee" in after and "One pot of tea." in after


def test_many_at_once_keep_each_content(server):
    memory = ListMemory(session_id=f"many-{uuid.uuid4().hex}", target=server.target)

    async def add() -> None:
        await asyncio.gather(*(memory.add(text(str(i))) for i in range(100)))

    asyncio.run(add())
    assert sorted(values(memory.content), key=int) == [str(i) for i in range(100)]


@pytest.mark.parametrize("notes", ODD_NOTES, ids=json.dumps)
def test_odd_metadata_of_others_is_read_as_it_is_stored(memory, client, notes):
    asyncio.run(memory.add(text("ours", metadata={"when": (1, 2)})))
    odd = {"topic": "tea", "memoryd.autogen": notes}
    client.put(memory.session_id, contents=[
        content("theirs", metadata=odd), content({"a": "theirs"}, metadata=odd),
        content(b"theirs", content_id="packed-1"), content(b'{"kind": 3}', content_id="packed-2")])
    context = UnboundedChatCompletionContext()
    inserted = asyncio.run(memory.update_context(context)).memories.results
    for found in (memory.content, asyncio.run(memory.query("")).results, inserted):
        assert values(found) == ["ours", "theirs", {"a": "theirs"}, b"theirs", b'{"kind": 3}']
        assert found[0].metadata == {"when": (1, 2)}
        for one in found[1:3]:
            # Notes that happen to be right are taken for ours.
            assert one.metadata in (odd, {"topic": "tea"})
    [said] = asyncio.run(context.get_messages())
    assert "2. theirs" in said.content


def test_an_image_of_others_that_is_none_is_bytes(memory, client):
    client.put(memory.session_id, config=config(profile="autogen-list"), contents=[
        content(memory_pb2.Media(data=b"no image", mime_type="image/png"))])
    assert values(memory.content) == [b"no image"]


# Templates.


@pytest.fixture(scope="module")
def templated(store_kind, tmp_path_factory):
    file = tmp_path_factory.mktemp("templates") / "memoryd.yaml"
    file.write_text(json.dumps({"templates": {  # JSON is YAML.
        "notes": {"profile": "autogen-list", "time_zone": "Asia/Tokyo"},
        "found": {"token_limit": 500}}}))
    with fresh_store(store_kind) as store, Server(store, arguments=[f"--config={file}"]) as server:
        yield server


def test_a_list_is_made_from_a_template(templated, session_id):
    target = templated.target
    memory = ListMemory(memory_contents=[text("a")], session_id=session_id, target=target, template="notes")
    asyncio.run(memory.add(text("b")))
    dump = memory.dump_component()
    assert dump.config["template"] == "notes"
    # Without the template and with one that is not there, what is there stays.
    for given in ("", "notes", "gone"):
        other = ListMemory(session_id=session_id, target=target, template=given)
        other.content = [*other.content, text(given)]
        asyncio.run(other.add(text("c")))
    assert values(Memory.load_component(dump).content) == ["a", "b", "", "c", "notes", "c", "gone", "c"]
    with Client(target) as client:
        session = client.get_session(session_id)
    assert (session.template, session.config.time_zone) == ("notes", "Asia/Tokyo")


def test_a_list_of_before_takes_a_template(templated, session_id):
    before = ListMemory(session_id=session_id, target=templated.target)
    asyncio.run(before.add(text("a")))
    after = ListMemory(session_id=session_id, target=templated.target, template="notes")
    after.content = [text("b")]
    asyncio.run(after.add(text("c")))
    assert values(before.content) == ["b", "c"]


def test_a_list_needs_a_template_of_lists(templated, session_id):
    memory = ListMemory(session_id=session_id, target=templated.target, template="found")
    with pytest.raises(ValueError, match="profile 'default'"):
        asyncio.run(memory.add(text("a")))
    with pytest.raises(MemorydError, match="template"):
        asyncio.run(ListMemory(target=templated.target, template="gone").add(text("a")))


def test_a_search_memory_is_made_from_a_template(templated, session_id):
    memory = SearchMemory(session_id=session_id, target=templated.target, template="found")
    asyncio.run(memory.add(text("Tea is green.")))
    dump = memory.dump_component()
    assert dump.config["template"] == "found"
    for loaded in (SearchMemory.load_component(dump),
                   SearchMemory(session_id=session_id, target=templated.target, template="notes")):
        asyncio.run(loaded.add(text("Tea is black.")))
        assert "Tea is green." in values(asyncio.run(loaded.query("green tea")).results)
    with Client(templated.target) as client:
        session = client.get_session(session_id)
    assert (session.template, session.config.token_limit) == ("found", 500)
