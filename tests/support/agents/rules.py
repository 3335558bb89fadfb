"""What OpenAI asks of the messages of a request."""

from __future__ import annotations

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
