"""What the frameworks' models find wrong with a row."""

from __future__ import annotations

from pydantic import ValidationError


def fault(error: Exception) -> str:
    """The first fault in one line, without the text of the message where the model tells it."""
    if not isinstance(error, ValidationError):
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(str(step) for step in first['loc'])}: {first['msg']}"
