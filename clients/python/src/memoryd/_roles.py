"""Roles of messages, as the server reads them (docs/POLICY.md)."""

from __future__ import annotations

# In any case of letters.
_HUMAN = frozenset((
    "user", "human", "customer", "client", "guest", "visitor", "caller", "person", "prompter",
    "end_user", "end-user", "end user", "human_message",
))
_ASSISTANT = frozenset(("assistant", "ai", "model", "chatbot", "gpt", "bot"))


def is_human(role: str) -> bool:
    return role.casefold() in _HUMAN


def is_assistant(role: str) -> bool:
    return role.casefold() in _ASSISTANT


def is_system(role: str) -> bool:
    return role in ("system", "developer")


def is_tool(role: str) -> bool:
    return role in ("tool", "function")
