"""Asking an agent until it answers."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import httpx
import openai

# No turn has as many failures.
_ATTEMPTS = 5


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a conversation is kept: the session and the address of a memoryd, or the library's own
    memory where `target` is None. `folder` is for what the framework itself writes, `model` the
    URL of the model."""

    session_id: str
    target: str | None
    folder: pathlib.Path
    model: str


def fleeting() -> dict[str, Any]:
    """What makes an httpx client keep no connection for another event loop, or for a fork."""
    return {"verify": False, "limits": httpx.Limits(max_keepalive_connections=0)}


def answers(ask: Callable[[str], str], question: str) -> list[str]:
    """The errors of a model that kept a question from being answered, by their names, and the
    answer. Other errors are raised."""
    said = []
    for _ in range(_ATTEMPTS):
        try:
            return [*said, ask(question)]
        except Exception as error:
            name = _of_model(error)
            if name is None:
                raise
            said.append(name)
    raise RuntimeError(f"{question!r} is never answered: {said}")


def _of_model(error: BaseException | None) -> str | None:
    """The name of the error where it is a model's, else None."""
    while error is not None:
        if isinstance(error, (openai.OpenAIError, httpx.HTTPError)):
            return type(error).__name__
        error = error.__cause__ or error.__context__
    return None
