"""What the Go client has to do as the Python client does, from the table that its own tests read."""

from __future__ import annotations

import json
from typing import Any

from support.paths import REPOSITORY

from memoryd import users

KNOWN: dict[str, Any] = json.loads(
    (REPOSITORY / "clients/go/testdata/users.json").read_text(encoding="utf-8"))


def session_of(user: str) -> str | None:
    try:
        return users.session_of(user)
    except ValueError:
        return None


def test_users_are_named_alike():
    assert [[user, session_of(user)] for user, _ in KNOWN["sessions"]] == KNOWN["sessions"]


def test_recalled_texts_are_escaped_alike():
    assert [[text, users._escaped(text)] for text, _ in KNOWN["escaped"]] == KNOWN["escaped"]
