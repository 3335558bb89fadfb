"""The models of traces behind OpenAI's API, and what of a call its requests carry."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from llama_blocks import Agent, same_calls
from support.model_server import ModelServer, Request, hash_embed

# Prefixes are the one place where a request says what is embedded.
_PURPOSES = ("query", "text")
_PREFIX = re.compile(rf"({'|'.join(_PURPOSES)}): ")
_ROLES = ("system", "developer", "user", "assistant")
# What stands, a line each, for parts that the API has no form for.
_NAMED = re.compile(r"\[(image|audio|video|document|tool call|tool result)\b")


class HttpModels:
    """A model server with the models `chat` and `embed`, and the argument that tells memoryd."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.server = ModelServer(embed=lambda text: hash_embed(_purpose_and_text(text)[1]))
        common = {"url": self.server.url, "model": "m", "allow_private": True, "retries": 0}
        prefixes = {f"{purpose}_prefix": f"{purpose}: " for purpose in _PURPOSES}
        file = folder / "models.yaml"
        # JSON is YAML.
        file.write_text(json.dumps({"models": [
            {"name": "chat", "kind": "chat", **common},
            {"name": "embed", "kind": "embedding", **prefixes, **common},
        ]}))
        self.argument = f"--config={file}"

    def __enter__(self) -> HttpModels:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()


class HttpAgent(Agent):
    """Models over HTTP, custom blocks by the worker. Its calls are what requests carry: of a
    message neither `additional_kwargs` nor the number of blocks."""

    models_worker = ""

    def __init__(self, target: str, models: HttpModels) -> None:
        self._server = models.server
        self._taken = self._chats = 0
        super().__init__(target)

    def begin(self, script: list[str], configs: list[dict[str, Any]]) -> None:
        super().begin(script, configs)
        self._server.set_replies(script)
        self._taken, self._chats = len(self._server.requests), 0

    def take_calls(self) -> list[dict[str, Any]]:
        # A call of the worker is one that should have been a request: it shows as a difference.
        made = super().take_calls()
        requests = self._server.requests[self._taken:]
        self._taken += len(requests)
        return made + [call for request in requests for call in self._calls_of(request)]

    def _calls_of(self, request: Request) -> Iterator[dict[str, Any]]:
        if "input" in request.body:
            for sent in request.body["input"]:
                purpose, text = _purpose_and_text(sent)
                yield {"kind": "embed", "what": purpose, "text": text}
            return
        reply = self._script[self._chats % len(self._script)]
        self._chats += 1
        yield {"kind": "llm", "messages": request.body["messages"], "response": reply}

    @staticmethod
    def same_calls(expected: list[dict[str, Any]], made: list[dict[str, Any]]) -> bool:
        return len(expected) == len(made) and all(map(_same_call, expected, made))


def _purpose_and_text(sent: str) -> tuple[str, str]:
    prefix = _PREFIX.match(sent)
    return (prefix[1], sent[prefix.end():]) if prefix else ("unknown", sent)


def _same_call(expected: dict[str, Any], made: dict[str, Any]) -> bool:
    if expected["kind"] != "llm" or made["kind"] != "llm":
        return same_calls(expected, made)
    messages = expected["messages"]
    return (expected["response"] == made["response"] and len(messages) == len(made["messages"])
            and all(map(_same_message, messages, made["messages"])))


def _same_message(expected: dict[str, Any], sent: dict[str, Any]) -> bool:
    said = _said(sent["content"])
    if expected["role"] not in _ROLES:
        # A role that the API has not is the user's, named in a line of its own.
        role, _, said = said.partition("\n")
        if (sent["role"], role) != ("user", f"{expected['role']}:"):
            return False
    elif sent["role"] != expected["role"]:
        return False
    if expected["content"] is None or expected["n_blocks"] > 1:
        said = "\n".join(line for line in said.split("\n") if not _NAMED.match(line))
    return same_calls(expected["content"] or "", said)


def _said(content: str | list[dict[str, Any]] | None) -> str:
    """The text of a message sent, without its images."""
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part["type"] == "text")
    return content or ""
