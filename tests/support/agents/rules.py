"""What OpenAI and Anthropic ask of the messages of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def violations(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each tool message that follows no call of its id, and each call that lacks its result before
    the next message of another role, or at the end."""
    waiting: list[str] = []
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                yield f"messages[{place}]: a result of no call: {message['tool_call_id']!r}"
            continue
        for call_id in waiting:
            yield f"messages[{place}]: before it {call_id!r} has no result"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    for call_id in waiting:
        yield f"at the end {call_id!r} has no result"


_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OF_USER = ("image", "document", "tool_result")
_OF_ASSISTANT = ("thinking", "redacted_thinking", "tool_use")
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_OPENAI_PARTS = {"user": ("text", "image_url", "input_audio", "file"),
                 "assistant": ("text", "refusal")}


def openai_violations(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """`violations`, contents that a role can't have, ids of tools over 40 characters, and names out
    of form."""
    yield from violations(messages)
    for place, message in enumerate(messages):
        at = f"messages[{place}]"
        role, content = message["role"], message.get("content")
        calls = message.get("tool_calls") or []
        if content is None and not calls:
            yield f"{at}.content: missing"
        if content == []:
            yield f"{at}.content: empty"
        for part in content if isinstance(content, list) else ():
            if part["type"] not in _OPENAI_PARTS.get(role, ("text",)):
                yield f"{at}: a {part['type']} of the role {role}"
        for call in calls:
            if len(call["id"]) > 40:
                yield f"{at}: the id {call['id']!r}"
            if not _TOOL_NAME.fullmatch(call["function"]["name"]):
                yield f"{at}: the name {call['function']['name']!r}"


def anthropic_violations(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What Anthropic's API would refuse: results that don't follow their calls at once or stand
    behind something else, calls without a result before the end, messages and texts without content,
    blocks in the message of a role that can't have them, ids, names and images out of form."""
    waiting: list[str] = []
    for place, message in enumerate(messages):
        at = f"messages[{place}]"
        role, content = message["role"], message["content"]
        if role not in ("user", "assistant"):
            yield f"{at}.role: {role!r}"
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            yield f"{at}.content: empty"
        kinds = [block["type"] == "tool_result" for block in blocks]
        if kinds != sorted(kinds, reverse=True):
            yield f"{at}: a result behind something else"
        for block in blocks:
            if block["type"] != "tool_result":
                continue
            if block["tool_use_id"] in waiting:
                waiting.remove(block["tool_use_id"])
            else:
                yield f"{at}: a result of no call: {block['tool_use_id']!r}"
        if waiting:
            yield f"{at}: {waiting} have no result right behind them"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for number, block in enumerate(blocks):
            yield from _block_violations(f"{at}.content[{number}]", role, block)


def _block_violations(at: str, role: str, block: Mapping[str, Any]) -> Iterator[str]:
    kind = block["type"]
    if kind in (_OF_ASSISTANT if role == "user" else _OF_USER):
        yield f"{at}: a {kind} of the role {role}"
    if kind == "text" and not block["text"].strip():
        yield f"{at}: a text without content"
    if kind == "thinking" and not block["signature"]:
        yield f"{at}: reasoning without a signature"
    if kind == "tool_use":
        if not _TOOL_NAME.fullmatch(block["name"]):
            yield f"{at}.name: {block['name']!r}"
        if not isinstance(block["input"], dict):
            yield f"{at}.input: no object"
    called = block.get("id") if kind == "tool_use" else block.get("tool_use_id")
    if kind in ("tool_use", "tool_result") and not _TOOL_ID.fullmatch(called or ""):
        yield f"{at}: the id {called!r}"
    source = block.get("source", {})
    if kind == "image" and source["type"] == "base64" and source["media_type"] not in _IMAGE_TYPES:
        yield f"{at}: an image of the type {source['media_type']!r}"


def converse_violations(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What Bedrock's Converse, whose form is Strands', would refuse: another first role than the
    user's, a role twice in a row, results that are not those of the calls right before, messages and
    texts without content, reasoning without a signature."""
    waiting: list[str] = []
    before = "assistant"
    for place, message in enumerate(messages):
        at = f"messages[{place}]"
        role, content = message["role"], message["content"]
        if role == before:
            yield f"{at}.role: {role!r} again"
        before = role
        if not content:
            yield f"{at}.content: empty"
        kinds = ["toolResult" in block for block in content]
        if kinds != sorted(kinds, reverse=True):
            yield f"{at}: a result behind something else"
        answered = [block["toolResult"]["toolUseId"] for block in content if "toolResult" in block]
        if sorted(answered) != sorted(waiting):
            yield f"{at}: results of {answered} behind calls {waiting}"
        waiting = [block["toolUse"]["toolUseId"] for block in content if "toolUse" in block]
        if role != "assistant" and waiting:
            yield f"{at}: a call of the user"
        for block in content:
            if "text" in block and not block["text"].strip():
                yield f"{at}: a text without content"
            said = block.get("reasoningContent", {}).get("reasoningText")
            if said is not None and not said.get("signature"):
                yield f"{at}: reasoning without a signature"
            if "toolUse" in block and not isinstance(block["toolUse"]["input"], dict):
                yield f"{at}: an input that is no object"
    if waiting:
        yield f"at the end {waiting} have no result"
