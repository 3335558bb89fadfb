"""Messages as frameworks read them whose own are cut otherwise: what a model says at once in one,
and what tools answer in one each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memoryd._roles import is_assistant, is_tool
from memoryd._templates import Stored
from memoryd.v1 import memory_pb2 as memory

# Forms in which what a model says at once is several messages.
_OF_ITEMS = frozenset(("openai-responses", "openai-agents-js"))
# Kinds of the last part of messages that LangChain and LlamaIndex read as they stored them.
_OF_FRAMEWORKS = ("langchain", "llama-index")


def whole(messages: Iterable[memory.Message]) -> Iterator[memory.Message]:
    """The messages, with what an assistant said at once as one message. Providers of other forms
    refuse two calls in a row that are two messages. The last message's id and position stay."""
    run: list[memory.Message] = []
    for message in messages:
        if run and not _belongs(message):
            yield _joined(run)
            run = []
        if _belongs(message):
            run.append(message)
        else:
            yield message
    if run:
        yield _joined(run)


def single(messages: Iterable[memory.Message]) -> Iterator[memory.Message]:
    """As `whole`, and with each answer of a tool as a message of its own, for frameworks whose
    messages hold one. What a user says beside answers comes behind them."""
    for message in whole(messages):
        count = sum(part.HasField("tool_result") for part in message.parts)
        is_other = count > 1 or (count == 1 and not is_tool(message.role))
        if is_other and message.parts[-1].opaque.type not in _OF_FRAMEWORKS:
            yield from _apart(message)
        else:
            yield message


def _apart(message: memory.Message) -> Iterator[memory.Message]:
    answers: list[memory.Message] = []
    others = _like(message, message.role)
    for part in Stored(message).parts:
        if part.HasField("tool_result"):
            answers.append(_like(message, "tool"))
            answers[-1].parts.append(part)
        elif is_tool(message.role) and answers:
            answers[-1].parts.append(part)
        else:
            others.parts.append(part)
    said = [others] if others.parts else []
    yield from said + answers if is_assistant(message.role) else answers + said


def _like(message: memory.Message, role: str) -> memory.Message:
    """A message of the same id, position and times, which says nothing."""
    made = memory.Message()
    made.CopyFrom(message)
    made.ClearField("parts")
    made.ClearField("text")
    made.role, made.metadata_json = role, ""
    return made


def _belongs(message: memory.Message) -> bool:
    return is_assistant(message.role) and Stored(message).form in _OF_ITEMS


def _joined(run: list[memory.Message]) -> memory.Message:
    if len(run) == 1:
        return run[0]
    made = _like(run[-1], run[-1].role)
    for message in run:
        made.parts.extend(Stored(message).parts)
    return made
