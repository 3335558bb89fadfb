"""Messages in OpenAI's and Anthropic's form, put by the client and read back."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types import Message as AnthropicAnswer
from anthropic.types import MessageParam, TextBlockParam
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam
from pydantic import TypeAdapter

from support.agents.rules import anthropic_violations, openai_violations
from support.conversations import PNG, AnthropicTeller, OpenAITeller, encoded
from support.odd_messages import ODD_MESSAGES

import memoryd
from memoryd import AsyncClient, Client, from_anthropic, from_openai, message
from memoryd._templates import KEY
from memoryd.langchain.messages import from_message
from memoryd.llama_index._messages import to_chat
from memoryd.v1 import filter_pb2
from memoryd.v1 import memory_pb2 as proto

OPENAI: TypeAdapter = TypeAdapter(ChatCompletionMessageParam)
ANTHROPIC: TypeAdapter = TypeAdapter(MessageParam)
SYSTEM: TypeAdapter = TypeAdapter(str | list[TextBlockParam])

# Seeds of the conversations of a form.
SEEDS = 320
CHUNK = 40
# Nothing leaves, so that a Get shows all.
WHOLE = proto.SessionConfig(policy="buffer", token_limit=10**9)


@pytest.fixture(scope="module")
def client(server) -> Iterator[Client]:
    with Client(server.target, timeout=60) as made:
        yield made


def text_of(value: Any) -> str:
    """JSON, in which the order of keys and 1 and 1.0 differ."""
    return json.dumps(value)


def exhausted(value: Any) -> None:
    """Looks at all that a type takes as an Iterable, which pydantic does only then."""
    if isinstance(value, dict):
        for item in value.values():
            exhausted(item)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for item in value:
            exhausted(item)


def accepted(adapter: TypeAdapter, messages: Any) -> None:
    for one in messages:
        exhausted(adapter.validate_python(one))


def put_anthropic(request: memoryd.AnthropicMessages) -> list[dict[str, Any]]:
    """What was put, if its system message came first."""
    system = [] if request.system is None else [{"role": "system", "content": request.system}]
    return [*({"role": one["role"], "content": one["content"]} for one in system),
            *request.messages]


def reordered(conversation: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The conversation with the system message's keys as put_anthropic has them."""
    return [{"role": one["role"], "content": one["content"]} if one["role"] == "system" else one
            for one in conversation]


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_conversations_in_openais_form_are_had_back(client, session_id, first):
    for seed in range(first, first + CHUNK):
        told = OpenAITeller(seed).conversation()
        accepted(OPENAI, told)
        client.put(f"{session_id}-{seed}", told, config=WHOLE)
        context = client.get(f"{session_id}-{seed}")
        assert text_of(context.to_openai()) == text_of(told), seed
        stored = list(client.get_all(f"{session_id}-{seed}"))
        assert text_of(memoryd.to_openai(stored)) == text_of(told), seed
        assert len(stored) == len(told)

        crossed = context.to_anthropic()
        accepted(ANTHROPIC, crossed.messages)
        assert list(anthropic_violations(crossed.messages)) == [], seed
        if crossed.system is not None:
            SYSTEM.validate_python(crossed.system)
        assert crossed.keys() <= {"messages", "system"}


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_conversations_in_anthropics_form_are_had_back(client, session_id, first):
    for seed in range(first, first + CHUNK):
        told = AnthropicTeller(seed).conversation()
        accepted(ANTHROPIC, told)
        client.put(f"{session_id}-{seed}", told, config=WHOLE)
        context = client.get(f"{session_id}-{seed}")
        assert text_of(put_anthropic(context.to_anthropic())) == text_of(reordered(told)), seed
        stored = list(client.get_all(f"{session_id}-{seed}"))
        assert text_of(put_anthropic(memoryd.to_anthropic(stored))) == text_of(reordered(told))
        assert len(stored) == len(told)

        crossed = context.to_openai()
        accepted(OPENAI, crossed)
        # A stream that was cut leaves the last call without a result.
        assert [found for found in openai_violations(crossed)
                if not found.startswith("at the end")] == [], seed


def stored(given: Any, form: str | None = None) -> proto.Message:
    """What is sent of a message, by its own form or the one that is named."""
    if form is None:
        [made] = memoryd.forms.stored([given])
    else:
        made = {"openai": from_openai, "anthropic": from_anthropic}[form](given)
    return proto.Message.FromString(made.SerializeToString())


USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(("given", "expected"), [
    (USER, proto.Message(role="user", text="hi")),
    ({"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1'}}]},
     proto.Message(role="assistant", parts=[proto.Part(tool_call=proto.ToolCall(
         call_id="c1", name="f", arguments_json='{"a": 1'))])),
    ({"role": "tool", "tool_call_id": "c1", "content": "done"},
     proto.Message(role="tool", parts=[proto.Part(tool_result=proto.ToolResult(
         call_id="c1", text="done"))])),
    ({"role": "user", "content": [{"type": "text", "text": "?"}, {
        "type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(PNG)}"}}]},
     proto.Message(role="user", parts=[proto.Part(text="?"), proto.Part(image=proto.Media(
         data=PNG, mime_type="image/png"))])),
    ({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True},
        {"type": "tool_result", "tool_use_id": "t2", "content": ""}]},
     proto.Message(role="user", parts=[
         proto.Part(tool_result=proto.ToolResult(call_id="t1", text="no", is_error=True)),
         proto.Part(tool_result=proto.ToolResult(call_id="t2"))])),
    ({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "so"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1.0}}]},
     proto.Message(role="assistant", parts=[
         proto.Part(thinking=proto.Thinking(text="hm", signature="s")), proto.Part(text="so"),
         proto.Part(tool_call=proto.ToolCall(
             call_id="t1", name="f", arguments_json='{"a": 1.0}'))])),
])
def test_plain_messages_are_parts_and_nothing_else(given, expected):
    assert stored(given) == expected


@pytest.mark.parametrize(("given", "form"), [
    ({"role": "user", "content": "hi"}, "both"),
    ({"role": "assistant", "content": [{"type": "text", "text": "hi"}]}, "both"),
    ({"role": "user", "content": "hi", "sent_by": "app"}, "both"),
    ({"role": "user", "content": [{"type": "of_a_vendor", "x": 1}]}, "both"),
    ({"role": "user", "content": ""}, "openai"),
    ({"role": "user", "content": [{"type": "text", "text": ""}]}, "openai"),
    ({"role": "assistant", "content": None}, "openai"),
    ({"role": "developer", "content": "hi"}, "openai"),
    ({"role": "user", "content": "hi", "name": "logan"}, "openai"),
    ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "openai"),
    # Of other vendors, in OpenAI's form.
    ({"role": "assistant", "content": [{"type": "thinking", "thinking": [
        {"type": "text", "text": "hm"}]}], "tool_calls": []}, "openai"),
    ({"role": "user", "content": [{"type": "input_text", "text": "hi"}], "type": "message"},
     "openai"),
    ({"role": "assistant", "content": []}, "anthropic"),
    ({"id": "msg_1", "type": "message", "role": "assistant", "content": [
        {"type": "text", "text": "hi"}], "usage": {"input_tokens": 1}}, "anthropic"),
    ({"role": "assistant", "content": [{"type": "text", "text": ""}]}, "anthropic"),
    ({"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": None}]},
     "anthropic"),
    ({"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]},
     "anthropic"),
    ({"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "n",
                                        "input": {}}]}, "anthropic"),
])
def test_the_form_is_told_by_what_a_dict_has(given, form):
    read = {"openai": memoryd.to_openai([stored(given)]),
            "anthropic": memoryd.to_anthropic([stored(given)]).messages}
    told = [name for name, messages in read.items() if text_of(messages) == text_of([given])]
    assert told == (["openai", "anthropic"] if form == "both" else [form])


ODD = [
    *ODD_MESSAGES,
    {"role": "user", "content": "\ud83d lone, \ud83d\ude00 whole, \udfff"},
    {"role": "user", "content": "x" * 3_000_000},
    {"role": "assistant", "content": [{"type": "text", "text": "a"}] * 1200 + [
        {"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": 5, "type": "function", "function": {"name": None, "arguments": {"a": 1.0}}},
        {"function": "f"}, {"type": "custom", "custom": {}}, {"id": "", "type": None}]},
    {"role": "tool", "tool_call_id": "c\u0000", "content": [
        {"type": "text", "text": "a\ud83d"}, {"type": "text", "text": "x" * 1_200_000},
        {"type": "image_url", "image_url": {"url": "https://a.example"}}, {"type": "text"}]},
    {"role": "user", "content": "hi", "nul": "\u0000", "nan": float("inf"), "big": 10**500},
]


@pytest.mark.parametrize("given", ODD, ids=range(len(ODD)))
def test_what_the_server_has_no_place_for_comes_back_too(client, session_id, given):
    client.put(session_id, [given], config=WHOLE)
    [found] = client.get_all(session_id)
    assert text_of([given]) in (text_of(memoryd.to_openai([found])),
                                text_of(memoryd.to_anthropic([found]).messages))
    for read in (memoryd.to_openai, memoryd.to_anthropic):
        assert read([found]), "in the other form too"


@pytest.mark.parametrize(("given", "error", "said"), [
    ("hi", TypeError, "messages[1]: must be a message; got str"),
    (None, TypeError, "messages[1]: must be a message; got NoneType"),
    ({}, ValueError, "messages[1].role: is missing; got an empty dict"),
    ({"text": "hi"}, ValueError, "messages[1].role: is missing; got the keys 'text'. Give a dict"),
    ({"role": 5, "content": "hi"}, TypeError, "messages[1].role: must be a text"),
    ({"role": "\ud800", "content": "hi"}, ValueError, "messages[1].role: holds half a character"),
    ({"role": "user"}, ValueError, "messages[1].content: is missing; got the keys 'role'"),
    ({"role": "user", "content": 5}, TypeError,
     "messages[1].content: must be a text, a list of parts or None; got int"),
    ({"role": "user", "content": [{"type": "text"}, "hi"]}, TypeError,
     "messages[1].content[1]: must be a dict"),
    ({"role": "user", "content": [{"type": "tool_result", "content": ["hi"]}]}, TypeError,
     "messages[1].content[0].content[0]: must be a dict"),
    ({"role": "assistant", "content": None, "tool_calls": [5]}, TypeError,
     "messages[1].tool_calls[0]: must be a dict"),
    ({"role": "user", "content": [{"type": "image", "source": {"data": b"x"}}]}, TypeError,
     "messages[1].content[0].source.data: must be a value of JSON; got bytes. Give it as a text in"),
    ({"role": "user", "content": "hi", "at": {1: 2}}, TypeError, "messages[1].at: keys must be"),
])
def test_an_error_names_the_place(client, session_id, given, error, said):
    calls = {
        "put": lambda: client.put(session_id, [USER, given]),
        "set": lambda: client.set(session_id, [USER, given]),
        "update_context": lambda: client.update_context(session_id, [USER, given]),
        "import_session": lambda: client.import_session(session_id, [USER, given]),
    }
    for call in calls.values():
        with pytest.raises(error) as raised:
            call()
        assert str(raised.value).startswith(said)
    assert list(client.get_all(session_id)) == []


@pytest.mark.parametrize("given", [USER, message("user", "hi"), "hi", ChatCompletionMessage(
    role="assistant", content="hi")], ids=lambda given: type(given).__name__)
def test_a_single_message_is_no_list(client, session_id, given):
    with pytest.raises(TypeError, match=r"^messages: must be a list of messages; got .* Give \["):
        client.put(session_id, given)


def test_every_call_that_takes_messages_takes_dicts(client, server, session_id):
    told = [USER, {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}]
    mixed = [message("user", "ours"), *told]
    client.put(session_id, iter(mixed))
    assert client.get(session_id).to_openai() == [{"role": "user", "content": "ours"}, *told]
    client.set(session_id, told)
    assert client.get(session_id).to_openai() == told
    context = client.update_context(session_id, [{"role": "user", "content": "Bye."}])
    assert context.to_openai()[-1] == {"role": "user", "content": "Bye."}
    assert context.to_anthropic().messages[-1] == {"role": "user", "content": "Bye."}
    seventh = message("user", "ours", message_id="m7", position=7)
    client.import_session(f"{session_id}-imported", [seventh, *told])
    found = list(client.stream_all(f"{session_id}-imported"))
    assert memoryd.to_openai(found)[1:] == told
    assert [one.position for one in found] == [7, 8, 9] and found[1].message_id

    async def calls() -> None:
        async with AsyncClient(server.target, timeout=60) as memory:
            await memory.put(f"{session_id}-async", mixed)
            await memory.set(f"{session_id}-async", told)
            assert (await memory.get(f"{session_id}-async")).to_anthropic().messages == told
            updated = await memory.update_context(f"{session_id}-async", [USER])
            assert updated.to_openai()[-1] == USER
            await memory.import_session(f"{session_id}-async-imported", told)
            with pytest.raises(ValueError, match=r"messages\[1\]\.role"):
                await memory.put(f"{session_id}-async", [USER, {"text": "hi"}])
            with pytest.raises(ValueError, match=r"messages\[1\]\.role"):
                await memory.import_session(f"{session_id}-none", [USER, {"text": "hi"}])
            found = [one async for one in memory.get_all(f"{session_id}-async-imported")]
            assert memoryd.to_anthropic(found).messages == told

    asyncio.run(calls())


def test_a_reply_is_the_proto_message_too(client, session_id):
    client.put(session_id, [USER])
    context = client.get(session_id)
    assert isinstance(context, memoryd.Context)
    assert [one.text for one in context.messages] == ["hi"]
    assert context.limit == 30000 and context.revision == context.reply.revision
    assert context == client.get(session_id) and context == context.reply
    assert context.HasField("usage") is False and context.SerializeToString()
    for copied in (copy.deepcopy(context), pickle.loads(pickle.dumps(context))):
        assert isinstance(copied, memoryd.Context) and copied == context
    assert "hi" in repr(context) and repr(context).startswith("Context(")
    with pytest.raises(AttributeError):
        _ = context.no_field


def test_models_of_the_packages_are_taken(client, session_id):
    answer = ChatCompletionMessage.model_validate({
        "role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]})
    response = AnthropicAnswer.model_validate({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
        "stop_reason": "tool_use", "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "content": [{"type": "text", "text": "Let me see.", "citations": None},
                    {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]})
    client.put(session_id, [
        USER, answer, {"role": "tool", "tool_call_id": "c1", "content": "1"},
        response, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]},
        {"role": "assistant", "content": response.content[:1]}])
    context = client.get(session_id)
    openai = context.to_openai()
    assert openai[1] == {
        "role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    accepted(OPENAI, openai)
    assert list(openai_violations(openai)) == []
    anthropic = context.to_anthropic().messages
    assert anthropic[3] == {"role": "assistant", "content": [
        {"type": "text", "text": "Let me see.", "citations": None},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]}
    assert anthropic[5]["content"] == anthropic[3]["content"][:1]
    accepted(ANTHROPIC, anthropic)
    assert list(anthropic_violations(anthropic)) == []


def test_a_message_may_have_metadata_and_an_id_of_its_own(client, session_id):
    given = {"role": "user", "content": [{"type": "text", "text": "hi", "x": 1}]}
    plain = from_openai(USER, metadata={"topic": "work"}, message_id="m1")
    client.put(session_id, [from_openai(given, metadata={"topic": "home"}, message_id="m2"), plain,
                            from_anthropic(given, metadata={"topic": "home"})])
    home = filter_pb2.Filter(metadata=[filter_pb2.MetadataTest(key="topic", string_value="home")])
    found = list(client.get_all(session_id, filter=home))
    assert [one.message_id == "m2" for one in found] == [True, False]
    assert memoryd.to_openai(found[:1]) == [given]
    assert memoryd.to_anthropic(found[1:]).messages == [given]
    # Named, the form is that one, although the dict may be of both.
    assert memoryd.to_anthropic(found[:1]).messages == [USER]
    assert memoryd.to_openai(found[1:]) == [USER]


@pytest.mark.parametrize("insert", ["INSERT_METHOD_SYSTEM", "INSERT_METHOD_USER"])
def test_what_blocks_say_stands_ahead_of_a_messages_own_content(client, session_id, insert):
    block = proto.Block(name="about", kind="static", content=[proto.Part(text="Likes tea.")])
    config = proto.SessionConfig(blocks=[block], insert_method=insert)
    told = [
        {"role": "system", "content": [{"type": "text", "text": "Be brief.",
                                        "cache_control": {"type": "ephemeral"}}]},
        USER,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f",
                                           "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"},
                                     {"type": "text", "text": "And?", "x": 1}]},
    ]
    client.put(session_id, told, config=config)
    context = client.get(session_id)
    request = context.to_anthropic()
    accepted(ANTHROPIC, request.messages)
    assert list(anthropic_violations(request.messages)) == []
    crossed = context.to_openai()
    accepted(OPENAI, crossed)
    assert list(openai_violations(crossed)) == []
    if insert == "INSERT_METHOD_SYSTEM":
        assert "Likes tea." in request.system[0]["text"]
        assert request.system[1:] == told[0]["content"] and request.messages == told[1:]
        assert "Likes tea." in text_of(crossed[0])
    else:
        assert request.system == told[0]["content"] and request.messages[:-1] == told[1:-1]
        said = request.messages[-1]["content"]
        assert [said[0], *said[2:]] == told[-1]["content"] and "Likes tea." in said[1]["text"]
        assert "Likes tea." in text_of(crossed[-1])


def test_a_message_that_was_changed_says_what_it_says_now(client, session_id):
    given = {"role": "user", "content": [
        {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}
    image = {"role": "user", "content": [{"type": "text", "text": "See"}, {
        "type": "image", "source": {"type": "url", "url": "https://a.example/a.png"}}]}
    client.put(session_id, [given, image])
    first, second = client.get_all(session_id)
    client.update_message(session_id, first.message_id, "bye")
    client.update_message(session_id, second.message_id, "no image")
    found = list(client.get_all(session_id))
    assert memoryd.to_anthropic(found).messages == [
        {"role": "user", "content": [
            {"type": "text", "text": "bye", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": "no image"}]
    assert memoryd.to_openai(found) == [{"role": "user", "content": "bye"},
                                        {"role": "user", "content": "no image"}]


def test_results_that_came_one_by_one_are_one_message_for_anthropic(client, session_id):
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
             for i in range(3)]
    client.put(session_id, [USER, {"role": "assistant", "content": None, "tool_calls": calls}])
    for call in calls:
        client.put(session_id, [{"role": "tool", "tool_call_id": call["id"], "content": "1"}])
    messages = client.get(session_id).to_anthropic().messages
    assert [one["role"] for one in messages] == ["user", "assistant", "user"]
    assert [block["tool_use_id"] for block in messages[-1]["content"]] == ["c0", "c1", "c2"]


def test_calls_without_an_id_are_answered_in_the_other_form(client, session_id):
    told = [USER]
    for name in ("one", "two"):
        told += [{"role": "assistant", "content": None,
                  "function_call": {"name": name, "arguments": '{"a": 1}'}},
                 {"role": "function", "name": name, "content": f"from {name}"}]
    client.put(session_id, told)
    context = client.get(session_id)
    assert context.to_openai() == told
    messages = context.to_anthropic().messages
    accepted(ANTHROPIC, messages)
    assert list(anthropic_violations(messages)) == []
    assert [block["content"] for one in messages[1:] for block in one["content"]
            if block["type"] == "tool_result"] == ["from one", "from two"]


def test_ids_and_names_are_made_fit_where_they_are_read(client, session_id):
    client.put(session_id, [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [{
            "id": "call|" + "x" * 100, "type": "function",
            "function": {"name": "files.read", "arguments": "[1]"}}]},
        {"role": "tool", "tool_call_id": "call|" + "x" * 100, "content": "text"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "t" * 60, "name": "n" * 100, "input": {}}]},
        # A result in the other form than its call: the id is the one that the call keeps.
        {"role": "tool", "tool_call_id": "t" * 60, "content": "text"},
    ])
    context = client.get(session_id)
    messages = context.to_anthropic().messages
    assert list(anthropic_violations(messages[:3])) == []
    assert messages[1]["content"][0]["name"] == "files_read"
    assert messages[1]["content"][0]["input"] == {"arguments": [1]}
    assert messages[3]["content"][0]["id"] == messages[4]["content"][0]["tool_use_id"] == "t" * 60
    openai = context.to_openai()
    assert openai[1]["tool_calls"][0]["id"] == openai[2]["tool_call_id"] == "call|" + "x" * 100
    assert openai[3]["tool_calls"][0]["id"] == openai[4]["tool_call_id"]
    assert openai[3]["tool_calls"][0]["function"]["name"] == "n" * 64


def test_the_server_knows_calls_and_results_of_both_forms(client, session_id):
    told = [
        USER,
        {"role": "assistant", "content": [
            {"type": "text", "text": "x", "citations": None},
            {"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [
            {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
        {"role": "assistant", "tool_calls": [{"function": {"arguments": "{}", "name": "f"},
                                              "id": "c1", "type": "function"}]},
        {"content": "c", "role": "tool", "tool_call_id": "c1"},
        {"role": "assistant", "content": "done"},
    ]
    client.put(session_id, told)
    assert client.query(session_id, "a b", without_blocks=True).results
    for place in (1, 2):
        found = list(client.get_all(session_id))
        client.delete_message(session_id, found[place].message_id, with_tool_messages=True)
    assert client.get(session_id).to_openai() == [USER, {"role": "assistant", "content": "done"}]


def test_system_messages_stand_in_system(client, session_id):
    cached = {"role": "system", "content": [
        {"type": "text", "text": "Now in French.", "cache_control": {"type": "ephemeral"}}]}
    client.put(session_id, [{"role": "developer", "content": "Be brief."}, USER,
                            {"role": "system", "content": "Be polite."}, cached])
    request = memoryd.to_anthropic(client.get_all(session_id))
    assert request.system == [{"type": "text", "text": "Be brief."},
                              {"type": "text", "text": "Be polite."}]
    # Anthropic's own, in the midst of a chat.
    assert request.messages == [USER, cached]
    accepted(ANTHROPIC, request.messages)
    assert memoryd.to_anthropic([]) == {"messages": []} and memoryd.to_anthropic([]).system is None


@pytest.mark.parametrize("size", [1, 300_000], ids=["in the metadata", "in a part"])
def test_adapters_show_no_template(size):
    """LlamaIndex sends what stands in additional_kwargs to OpenAI."""
    made = stored({"role": "user", "content": [{"type": "text", "text": "hi", "x": "x" * size}]})
    assert (KEY in made.metadata_json) == (size == 1)
    chat = to_chat(made)
    assert (chat.content, chat.additional_kwargs, len(chat.blocks)) == ("hi", {}, 1)
    human = from_message(made)
    assert (human.content, human.additional_kwargs) == ("hi", {})


@pytest.mark.parametrize("template", [
    {"form": "both", "parts": 1, "message": {"role": "system", "content": {"$part": [0, "text"]}}},
    {"form": "both", "parts": 1, "message": {"role": "user", "content": {"$part": [3, "text"]}}},
    {"form": "both", "parts": 1, "message": {"role": "user", "content": {"$part": [0, "url"]}}},
    {"form": "both", "parts": 1, "message": {"role": "user", "content": {"$part": [0, "none"]}}},
    {"form": "both", "parts": 1, "message": {"role": "user", "content": {"$part": [{}]}}},
    {"form": "both", "parts": 1, "message": {"role": "user", "content": {"$part": []}}},
    {"form": "both", "parts": 1, "message": {"role": "user", "content": {"$part": [0, "text", 5]}}},
    {"form": "both", "parts": 9, "message": {"role": "user", "content": "other"}},
    {"form": "both", "parts": -9, "message": {"role": "user", "content": "other"}},
    {"form": "both", "parts": 1, "message": {"content": "other"}},
    {"form": "both", "parts": 1, "message": "other"}, {"form": "both"}, 5, None,
    {"form": [], "parts": 1, "message": {"role": "user", "content": "other"}},
], ids=range(15))
def test_a_template_that_is_none_is_not_followed(template):
    text = json.dumps({KEY: template})
    opaque = proto.Part(opaque=proto.Opaque(type=KEY, data=json.dumps(template).encode()))
    for made in (proto.Message(role="user", text="hi", metadata_json=text),
                 proto.Message(role="user", parts=[proto.Part(text="hi"), opaque])):
        assert memoryd.to_openai([made]) == [USER]
        assert memoryd.to_anthropic([made]).messages == [USER]


def test_a_template_without_end_is_not_followed():
    data = "[" * 100_000 + "]" * 100_000
    made = proto.Message(role="user", parts=[
        proto.Part(text="hi"), proto.Part(opaque=proto.Opaque(type=KEY, data=data.encode()))])
    assert memoryd.to_openai([made]) == [USER]
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match=r"^messages\[0\]: is nested too deeply"):
        stored({**USER, "deep": deep})
