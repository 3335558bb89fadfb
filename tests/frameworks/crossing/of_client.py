"""memoryd's own client, whose program speaks to a provider itself."""

from __future__ import annotations

import chats
from support.agents.rules import anthropic_violations, openai_violations
from support.conversations import PNG, encoded

from memoryd import Client, from_anthropic


def tell(target: str, session_id: str) -> None:
    uses = [{"type": "tool_use", "id": call_id, "name": name, "input": {"city": city}}
            for call_id, name, city in chats.CALLS]
    answers = [{"type": "tool_result", "tool_use_id": call[0], "content": text,
                **({"is_error": True} if text == chats.RESULTS[1] else {})}
               for call, text in zip(chats.CALLS, chats.RESULTS, strict=True)]
    with Client(target) as client:
        client.put(session_id, [from_anthropic(one) for one in (
            {"role": "user", "content": [
                {"type": "text", "text": chats.QUESTION},
                {"type": "image", "source": {
                    "type": "base64", "media_type": "image/png", "data": encoded(PNG)}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": chats.THOUGHT, "signature": "signed"},
                {"type": "text", "text": chats.LOOK}, *uses]},
            {"role": "user", "content": answers},
            {"role": "assistant", "content": chats.ANSWER})])


def asked(target: str, session_id: str) -> list[tuple[list[chats.Said], list[str]]]:
    with Client(target) as client:
        question = from_anthropic({"role": "user", "content": chats.NEXT})
        question.token_count = 2  # Which LlamaIndex has asked for.
        client.put(session_id, [question])
        context = client.get(session_id)
    openai, anthropic = context.to_openai(), context.to_anthropic().messages
    return [(chats.of_chat(openai), list(openai_violations(openai))),
            (chats.of_anthropic(anthropic), list(anthropic_violations(anthropic)))]
