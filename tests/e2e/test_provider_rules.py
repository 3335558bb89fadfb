"""UpdateContext gives what providers take, and what their caches find again: system messages in front,
roles that alternate, and a beginning that stays the same between the steps of a question."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import grpc
import pytest

from support.blocks import block
from support.calls import Calls, assistant, memory, note, refusal, user, wire
from support.server import Server

Message, Part, Config = memory.Message, memory.Part, memory.SessionConfig
SYSTEM, USER = memory.INSERT_METHOD_SYSTEM, memory.INSERT_METHOD_USER
PREFIX, RECALL = "<memoryd_memory>", "<memoryd_recall>"
QUESTIONS, STEPS = 50, 3


def system(text: str) -> Message:
    return Message(role="system", text=text)


def call(*ids: str) -> Message:
    return Message(role="assistant", parts=[
        Part(tool_call={"call_id": one, "name": "look"}) for one in ids])


def result(call_id: str, text: str, role: str = "tool") -> Message:
    return Message(role=role, parts=[Part(tool_result={"call_id": call_id, "text": text})])


def texts(message: Message) -> list[str]:
    return [message.text] if message.HasField("text") else [
        part.text for part in message.parts if part.HasField("text")]


def results(message: Message) -> list[str]:
    return [part.tool_result.call_id for part in message.parts if part.HasField("tool_result")]


def is_system(message: Message) -> bool:
    return message.role in ("system", "developer")


def side(message: Message) -> str:
    human = message.role in ("user", "human", "Customer", "tool") or results(message)
    return "human" if human else "assistant"


def recalls(messages: Iterable[Message]) -> list[str]:
    return [text for one in messages for text in texts(one) if text.startswith(RECALL)]


def encoded(messages: Iterable[Message]) -> list[bytes]:
    return [m.SerializeToString(deterministic=True) for m in messages]


# What providers refuse.


def check_system_in_front(messages: Sequence[Message]) -> list[Message]:
    """Anthropic's interface and AutoGen's clients. Returns the others."""
    chat = list(itertools.dropwhile(is_system, messages))
    assert not any(map(is_system, chat))
    assert not recalls(messages[:len(messages) - len(chat)])
    return chat


def check_alternating(messages: Sequence[Message]) -> None:
    """Anthropic's interface, Bedrock and Gemini."""
    chat = check_system_in_front(messages)
    sides = [side(message) for message in chat]
    assert sides == list(itertools.islice(itertools.cycle(("human", "assistant")), len(sides)))


def check_pairs(messages: Sequence[Message]) -> None:
    """A result follows the message of its call at once, all of them before anything else."""
    awaited: set[str] = set()
    for message in messages:
        answered = set(results(message))
        assert answered <= awaited
        awaited -= answered
        calls = {part.tool_call.call_id for part in message.parts if part.HasField("tool_call")}
        if not answered:
            assert not awaited
        awaited |= calls


def remember(calls: Calls, session_id: str, method: int = SYSTEM) -> None:
    calls.CreateSession(session_id=session_id, config=Config(
        token_limit=400, token_flush_size=20, chat_history_token_ratio=0.1, insert_method=method,
        tokenizer="whitespace", blocks=[block("core", "static", content=["The user is Ada."])]))
    calls.Put(session_id=session_id, contents=[note("Likes tea.")],
              messages=[user("My parrot is called Kiwi."), assistant("A parrot, how nice.")])
    for number in range(8):
        calls.Put(session_id=session_id, messages=[user(f"Weather number {number}?")])


class Agent:
    """An agent that asks memory before every call of its model. It goes on with its own context, or
    with the one that it was given."""

    def __init__(self, calls: Calls, session_id: str, alternate: bool, goes_on_with_reply: bool):
        self._calls, self._session_id = calls, session_id
        self._alternate, self._goes_on_with_reply = alternate, goes_on_with_reply
        self.context: list[Message] = [system("You are kind.")]

    def say(self, *messages: Message) -> None:
        self._calls.Put(session_id=self._session_id, messages=messages)
        self.context += messages

    def update(self) -> wire.UpdateContextResponse:
        reply = self._calls.UpdateContext(
            session_id=self._session_id, messages=self.context, alternate_roles=self._alternate)
        if self._goes_on_with_reply:
            self.context = list(reply.messages)
        return reply


@pytest.mark.parametrize("goes_on_with_reply", (False, True), ids=("own", "given"))
@pytest.mark.parametrize("alternate", (False, True), ids=("as they come", "alternate"))
@pytest.mark.parametrize("method", (SYSTEM, USER), ids=("system", "user"))
def test_the_prefix_stays_over_fifty_questions_and_their_steps(
        calls, session_id, method, alternate, goes_on_with_reply):
    remember(calls, session_id, method)
    agent = Agent(calls, session_id, alternate, goes_on_with_reply)
    hashes, recalled = set(), set()
    before: list[Message] = []  # Of the last question's last step.
    for number in range(QUESTIONS):
        # Every third is in the same words.
        asked = "And then?" if number % 3 else f"What about parrot {number} and weather {number}?"
        agent.say(user(asked))
        sent: list[bytes] = []
        for step in range(STEPS):
            reply = agent.update()
            hashes.add(reply.stable_prefix_hash)
            recalled.update(recalls(reply.messages))
            assert len(recalls(reply.messages)) <= 1
            chat = check_system_in_front(reply.messages)
            assert chat[0].role == "user"
            check_pairs(chat)
            if alternate:
                check_alternating(reply.messages)
            now = encoded(reply.messages)
            if step:
                assert now[:len(sent)] == sent and len(now) > len(sent)
            else:
                check_beginning(before, list(reply.messages))
            sent, before = now, list(reply.messages)
            ids = [f"{number}-{step}-{i}" for i in range(1 + step)]
            # What the tools say is about the question, and more of it leaves short-term memory.
            agent.say(call(*ids), *(result(one, f"parrot {number} weather {one}") for one in ids))
            calls.Put(session_id=session_id, messages=[assistant(f"Parrot {number} and {step}.")])
        agent.say(assistant(f"That is what there is of {number}."))
    assert len(hashes) == 1 and hashes != {""}
    assert len(recalled) > QUESTIONS / 4


def check_beginning(before: list[Message], now: list[Message]) -> None:
    """Between questions only what was recalled for the last one goes: all ahead of it is the same to
    the byte, and so is all behind it."""
    if not before:
        return
    place = next((i for i, one in enumerate(before) if recalls([one])), len(before))
    assert encoded(now[:place]) == encoded(before[:place])
    rest = [said for one in before[place:] if (said := without_recall(one))]
    kept = [said for one in now[place:] if (said := without_recall(one))]
    assert kept[:len(rest)] == rest


def without_recall(message: Message) -> str:
    """The message but for what was recalled; empty for one that was nothing else."""
    parts = [part for part in (message.parts or [Part(text=message.text)])
             if not part.text.startswith(RECALL)]
    return str((message.role, parts)) if parts else ""


def test_the_newest_human_message_of_any_spelling_has_what_is_recalled(calls, session_id):
    remember(calls, session_id)
    for role, other in (("human", "gpt"), ("Customer", "agent"), ("user", "assistant")):
        context = [Message(role=role, text="Hello"), Message(role=other, text="Hi"),
                   Message(role=role, text=f"What of my parrot, asks {role}?")]
        apart = calls.UpdateContext(session_id=session_id, messages=context).messages
        assert recalls(apart[-2:-1]) and [m.role for m in apart[-2:]] == [role, role]
        joined = calls.UpdateContext(session_id=session_id, messages=context,
                                     alternate_roles=True).messages
        assert joined[-1].role == role
        assert texts(joined[-1]) == [context[-1].text, *recalls(apart)]


def test_later_system_messages_come_to_the_front(calls, session_id):
    remember(calls, session_id)
    context = [system("1"), user("Hello"), system("2"), assistant("Hi"),
               Message(role="developer", text="3"), user("What about my parrot?"), system("4")]
    for alternate in (False, True):
        reply = calls.UpdateContext(session_id=session_id, messages=context,
                                    alternate_roles=alternate)
        check_system_in_front(reply.messages)
        assert [m.text for m in reply.messages[:4]] == ["1", "2", "3", "4"]
        assert reply.messages[4].text.startswith(PREFIX)


def test_insert_method_user_puts_both_into_human_messages(calls, session_id):
    remember(calls, session_id, USER)
    context = [system("1"), user("Hello"), assistant("Hi"), user("What about my parrot?")]
    for alternate in (False, True):
        reply = calls.UpdateContext(session_id=session_id, messages=context,
                                    alternate_roles=alternate)
        assert [m.role for m in reply.messages].count("system") == 1
        for insertion in reply.insertions:
            held = reply.messages[insertion.index]
            assert held.role == "user" and insertion.message.text in texts(held)
            assert insertion.joined == alternate
        assert len(reply.insertions) == 2
        if alternate:
            check_alternating(reply.messages)


ALTERNATING: list[Callable[[], list[Message]]] = [
    list,
    lambda: [user("q")],
    lambda: [user("q"), user("q2"), user("q3")],
    lambda: [assistant("Welcome!"), user("q")],
    lambda: [result("x", "lost"), assistant("Welcome!"), user("q"), assistant("a"), assistant("b")],
    lambda: [user("q"), call("a", "b"), result("a", "1"), result("b", "2"), assistant("a")],
    lambda: [user("q"), call("a"), call("b"), result("a", "1"), result("b", "2")],
    lambda: [user("q"), call("a"), result("a", "1", role="user"), user("And?")],
    lambda: [user("q"), call("a"), result("a", "1"), user("And?"), system("s"), user("And then?")],
    lambda: [Message(role="human", text="q"), Message(role="gpt", text="a"),
             Message(role="ai", text="b"), Message(role="Customer", text="c")],
]


@pytest.mark.parametrize("method", (SYSTEM, USER), ids=("system", "user"))
@pytest.mark.parametrize("context", ALTERNATING)
def test_roles_alternate_where_it_is_asked(calls, session_id, method, context):
    remember(calls, session_id, method)
    reply = calls.UpdateContext(session_id=session_id, messages=context(), alternate_roles=True)
    check_alternating(reply.messages)
    again = calls.UpdateContext(session_id=session_id, messages=reply.messages,
                                alternate_roles=True)
    assert again == reply
    plain = calls.UpdateContext(session_id=session_id, messages=context())
    said = [m for m in plain.messages if not texts(m) or not texts(m)[0].startswith("<memoryd_")]
    assert [m for m in said if not is_system(m)] == [m for m in context() if not is_system(m)], (
        "where it is not asked they stay as they come")


def test_what_is_joined_keeps_its_parts(calls, session_id):
    calls.CreateSession(session_id=session_id)
    image = Part(image=memory.Media(url="https://example.com/kiwi.png"))
    reply = calls.UpdateContext(session_id=session_id, alternate_roles=True, messages=[
        user("One.", name="Ada", message_id="a"), user("Two.", name="Ada"),
        Message(role="user", name="Ada", parts=[image, Part(text="Three.")])])
    assert list(reply.messages) == [Message(
        role="user", name="Ada", message_id="a",
        parts=[Part(text="One."), Part(text="Two."), image, Part(text="Three.")])]


def test_what_is_recalled_stays_while_more_is_stored(calls, session_id):
    remember(calls, session_id)
    context = [user("What about my parrot?")]
    first = calls.UpdateContext(session_id=session_id, messages=context)
    assert "Kiwi" in recalls(first.messages)[0]
    for number in range(12):
        calls.Put(session_id=session_id, messages=[user(f"The parrot is in room {number}.")])
        reply = calls.UpdateContext(session_id=session_id, messages=context)
        assert encoded(reply.messages) == encoded(first.messages)


def test_a_context_that_is_cut_has_the_same_recalled(calls, session_id):
    remember(calls, session_id)
    context = [user("Hello"), assistant("Hi"), user("What about my parrot?"), assistant("Hm.")]
    first = recalls(calls.UpdateContext(session_id=session_id, messages=context).messages)
    assert len(first) == 1
    for number in range(8):
        calls.Put(session_id=session_id, messages=[user(f"The parrot is in room {number}.")])
    for cut in (context[1:], context[2:]):
        now = calls.UpdateContext(session_id=session_id, messages=cut).messages
        assert recalls(now) == first
    # The same words again are another message.
    asked_again = [*context, user("What about my parrot?")]
    now = calls.UpdateContext(session_id=session_id, messages=asked_again).messages
    assert recalls(now) != first and "room" in recalls(now)[0]


def test_what_is_deleted_is_recalled_no_more(calls, session_id):
    remember(calls, session_id)
    context = [user("What about my parrot?")]
    first = calls.UpdateContext(session_id=session_id, messages=context)
    said = {r.message.text: r.message.message_id for r in first.results if r.HasField("message")}
    calls.DeleteMessage(session_id=session_id, message_id=said["My parrot is called Kiwi."])
    left, = recalls(calls.UpdateContext(session_id=session_id, messages=context).messages)
    assert "Kiwi" not in left and "A parrot, how nice." in left


def test_a_restart_recalls_anew(store):
    context = [user("What about my parrot?")]
    with Server(store) as server, server.channel() as channel:
        remember(Calls(channel), "s")
        first = Calls(channel).UpdateContext(session_id="s", messages=context)
        server.kill()
    with Server(store) as server, server.channel() as channel:
        assert Calls(channel).UpdateContext(session_id="s", messages=first.messages) == first


def test_autogen_list_refuses_to_alternate(calls, session_id):
    calls.CreateSession(session_id=session_id, config=Config(profile="autogen-list"))
    error = refusal(calls.UpdateContext, session_id=session_id, messages=[user("x")],
                    alternate_roles=True)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.details().startswith("alternate_roles:")
