"""Code in the documentation."""

from __future__ import annotations

import pathlib
import re


def blocks_of(document: pathlib.Path, language: str) -> list[str]:
    """The fenced blocks of a Markdown file that are in `language`, in order."""
    text = document.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def with_target(code: str, target: str) -> str:
    """The code, with the server at `target` instead of the address that the documentation has."""
    assert "localhost:50051" in code, code
    return code.replace("localhost:50051", target)
