"""Memory blocks of a trace as memoryd.v1.Block, and the process that answers for their models.

The library's own prompts and templates are read from the installed library and passed on as the
blocks' options.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from typing import Any

from llama_index.core.memory.memory_blocks import fact as library

from llama_messages import to_dump, to_message, to_part
from support import paths  # noqa: F401  (makes memoryd importable)
from support.model_server import hash_embed

import memoryd
from memoryd.v1 import memory_pb2 as memory

WORKER = "goldens"
_KINDS = {"static": "static", "fact": "fact-extraction", "vector": "vector", "custom": "worker"}


def _template(jinja: str) -> str:
    """A template of the library's as the server has them: `{name}` for `{{ name }}`."""
    text = re.sub(r"\{\{ (\w+) \}\}", r"{\1}", jinja)
    # Jinja drops one line feed at the end.
    return text.removesuffix("\n") if text != jinja else text


EXTRACTION_PROMPT = _template(library.DEFAULT_FACT_EXTRACT_PROMPT.template_str)
CONDENSE_PROMPT = _template(library.DEFAULT_FACT_CONDENSE_PROMPT.template_str)


def to_block(spec: dict[str, Any], models_worker: str) -> memory.Block:
    """The block that behaves as the library's; `models_worker` serves its models, "" the server."""
    kind = spec["type"]
    options: dict[str, Any] = {}
    if kind == "fact":
        options = {
            "model": "chat",
            "max_facts": spec["max_facts"],
            "facts": spec["facts"],
            "accept_short_term_memory": spec["accept_short_term_memory"],
            "extraction_prompt": EXTRACTION_PROMPT,
            "condense_prompt": CONDENSE_PROMPT,
        }
    elif kind == "vector":
        options = {
            "embedder": "embed",
            "top_k": spec["similarity_top_k"],
            "retrieval_context_window": spec["retrieval_context_window"],
        }
        if spec["format_template"] is not None:
            options["format_template"] = _template(spec["format_template"])
    return memory.Block(
        name=spec["name"],
        kind=_KINDS[kind],
        priority=spec["priority"],
        worker={"static": "", "custom": WORKER}.get(kind, models_worker),
        options_json=json.dumps(options) if options else "",
        content=[to_part(block) for block in spec.get("static_content", [])],
    )


class _CustomBlock(memoryd.Block):
    """The custom blocks of goldens.py, told apart by their session."""

    name = "custom_block"

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def _spec(self) -> dict[str, Any]:
        return self._agent.customs[memoryd.current_call().session_id]

    def put(self, messages, state):
        if self._spec()["kind"] != "mention_counter":
            return None
        return (state or 0) + sum("Logan" in (content_of(to_dump(m)) or "") for m in messages)

    def get(self, messages, state):
        spec = self._spec()
        if spec["kind"] == "mention_counter":
            return f"Logan was mentioned {state or 0} times."
        if spec["kind"] == "word_trim":
            return spec["text"]
        return [to_message(dump) for dump in spec["fixed"]]

    def truncate(self, content, tokens):
        spec = self._spec()
        if spec["kind"] == "mention_counter":
            return ""
        if spec["kind"] == "fixed_messages":
            return None
        words = content.parts[0].text.split() if content.parts else []
        return " ".join(words[: max(0, len(words) - tokens)])


class Agent:
    """The agent's process: scripted models, hash embeddings and custom blocks, as a worker."""

    models_worker = WORKER

    def __init__(self, target: str) -> None:
        self._lock = threading.Lock()
        self._script: list[str] = ["none"]
        self._replies = 0
        self._calls: list[dict[str, Any]] = []
        self.customs: dict[str, dict[str, Any]] = {}
        self.worker = memoryd.Worker(
            target,
            name=WORKER,
            blocks=[_CustomBlock(self)],
            models={"chat": self._complete},
            embedders={"embed": self._embed},
        )

        self.worker.start()

    def close(self) -> None:
        self.worker.close()

    def begin(self, script: list[str], configs: list[dict[str, Any]]) -> None:
        """The next trace: its replies, and the configurations of its sessions."""
        with self._lock:
            self._script, self._replies, self._calls = script, 0, []
        self.customs = {
            config["session_id"]: spec
            for config in configs
            for spec in config["memory_blocks"]
            if spec["type"] == "custom"
        }

    def take_calls(self) -> list[dict[str, Any]]:
        """The calls since the last look, as goldens.py writes them with full texts."""
        with self._lock:
            calls, self._calls = self._calls, []
        return calls

    @staticmethod
    def same_calls(expected: list[dict[str, Any]], made: list[dict[str, Any]]) -> bool:
        """Whether the calls of an operation are those of the trace."""
        return same_calls(expected, made)

    def _complete(self, messages, max_tokens):
        dumps = [to_dump(message) for message in messages]
        with self._lock:
            reply = self._script[self._replies % len(self._script)]
            self._replies += 1
            self._calls.append({
                "kind": "llm",
                "messages": [
                    {"role": dump["role"], "content": content_of(dump),
                     "additional_kwargs": dump["additional_kwargs"], "n_blocks": len(dump["blocks"])}
                    for dump in dumps
                ],
                "response": reply,
            })
        return reply

    def _embed(self, texts, purpose):
        with self._lock:
            self._calls += [{"kind": "embed", "what": purpose, "text": text} for text in texts]
        return [hash_embed(text) for text in texts]


def content_of(dump: dict[str, Any]) -> str | None:
    """ChatMessage.content."""
    texts = [block["text"] for block in dump["blocks"] if block["block_type"] == "text"]
    return "\n".join(texts) if texts else None


def same_calls(expected: Any, made: Any) -> bool:
    """Whether calls are those of a trace, in which long texts may stand as their digests."""
    if isinstance(expected, dict) and set(expected) == {"sha256", "chars"}:
        digest = hashlib.sha256(made.encode("utf-8", "surrogatepass")).hexdigest()
        return isinstance(made, str) and digest == expected["sha256"]
    if isinstance(expected, dict):
        return (isinstance(made, dict) and list(expected) == list(made)
                and all(same_calls(value, made[key]) for key, value in expected.items()))
    if isinstance(expected, list):
        return (isinstance(made, list) and len(expected) == len(made)
                and all(map(same_calls, expected, made)))
    return json.dumps(expected) == json.dumps(made)
