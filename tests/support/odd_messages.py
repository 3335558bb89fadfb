"""Messages of OpenAI's and Anthropic's form that a client may be given, and that must come back."""

from __future__ import annotations

from typing import Any

# More than parts hold, what looks like a template, and what the forms have no place for.
ODD_MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": str(i)} for i in range(1500)]},
    {"role": "assistant", "content": "many", "tool_calls": [
        {"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for i in range(1200)]},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "i" * 20_000, "type": "function",
         "function": {"name": "f\ud800", "arguments": "a" * 2_000_000}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
        {"type": "text", "text": "\udc00"}, {"type": "of_a_vendor", "content": ["x"]}]}]},
    {"role": "user", "content": [{"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": "aGk=\n"}}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": {
        "url": "data:image/png;charset=x;base64,aGk"}}]},
    {"role": "user", "content": "hi", "$part": {"$part": [0, "text"]}, "memoryd": {"form": 1}},
    {"role": "user", "content": "hi", "deep": [[[[[[]]]]]], "keys": {"k" * 2000: {}}},
    {"role": "user", "content": "hi", "large": "x" * 300_000},
    {"role": "user", "name": "n" * 300, "content": ""},
]
