#!/usr/bin/env python3
"""Replays golden traces of LangChain's memory classes through memoryd.langchain's and compares.

usage: langchain_classes.py [DIR] [--store sqlite|postgresql|both] [--seeds N]

DIR holds traces as goldens.py writes them. Without it traces are made from the installed library:
seeds 1 to 3 and N fresh ones (default 2), which are printed. Each trace is replayed twice: by one
object as the library's was, and by a new one for each operation, as if its process had restarted.
Exits 1 when any answer, or call of a model, differs.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import itertools
import json
import pathlib
import re
import sys
import uuid
import warnings
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from langchain_classic.memory import vectorstore_token_buffer_memory as library
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.llms import LLM
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.utils import get_tokenizer  # Brings the vocabulary.

from run_goldens import text
from support.server import Server
from support.stores import fresh_store
from traces import SHOWN_DIFFERENCES, Tally, files_of, run

from memoryd import langchain as ours

_cl100k_base = get_tokenizer()
_CLOCK = datetime.datetime(2025, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
# The fields of a trace's configuration that are no arguments of the class.
_ABOUT = {"tokenizer", "llm_script", "retriever_k", "embedding", "clock", "entity_store", "memory"}
_CHAT_ADD: dict[str, Callable[[str], BaseMessage]] = {
    "user": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": lambda said: ToolMessage(said, tool_call_id="c1"),
    "function": lambda said: FunctionMessage(name="fn", content=said),
    "chat": lambda said: ChatMessage(role="bob", content=said),
    "ai_tool_calls": lambda said: AIMessage(
        said, tool_calls=[{"name": "f", "args": {"x": 1, "s": "it's"}, "id": "c1"}]),
}


class Models:
    """The scripted model and the embedder of a trace, and what was asked of them."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.whitespace = config["tokenizer"] == "whitespace"
        self.script = itertools.cycle(config["llm_script"])
        self.calls: list[dict[str, Any]] = []

    def take_calls(self) -> list[dict[str, Any]]:
        calls, self.calls = self.calls, []
        return calls


class ScriptedLLM(LLM):
    models: Any

    @property
    def _llm_type(self) -> str:
        return "golden"

    def _call(self, prompt: str, *_: Any, **__: Any) -> str:
        reply = next(self.models.script)
        self.models.calls.append({"kind": "llm", "prompt": prompt, "response": reply})
        return reply

    def get_token_ids(self, text: str) -> list[Any]:
        return text.split() if self.models.whitespace else _cl100k_base(text)


class HashEmbeddings(Embeddings):
    """hash16 of goldens.py."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def embed_query(self, text: str) -> list[float]:
        self._models.calls.append({"kind": "embed", "what": "query", "text": text})
        return _hash16(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self._models.calls.extend({"kind": "embed", "what": "text", "text": text}
                                  for text in texts)
        return [_hash16(text) for text in texts]


class Clock:
    """The n-th time that is asked for is n seconds after the first."""

    def __init__(self) -> None:
        self._asked = 0

    def now(self) -> Clock:
        return self

    def astimezone(self) -> datetime.datetime:
        self._asked += 1
        return _CLOCK + datetime.timedelta(seconds=self._asked)


class Trace:
    """The object of a trace: the same one all the time, or a new one for each operation."""

    def __init__(self, target: str, trace: dict[str, Any], *, restarts: bool) -> None:
        self.models = Models(trace["config"])
        self._class, self._config = trace["class"], trace["config"]
        self._restarts = restarts
        # Sessions of its own, and vectors, which are the caller's.
        self._where = {"session_id": f"{trace['id']}/{uuid.uuid4().hex}", "target": target}
        self._vectors = InMemoryVectorStore(HashEmbeddings(self.models))
        self._memory, self._base = self._make()
        library.datetime = Clock()

    def replay(self, op: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._restarts:
            self._memory, self._base = self._make()
        memory = self._memory
        if op in ("save_context", "save_context_base"):
            saving = self._base if op == "save_context_base" else memory
            saving.save_context(arguments["inputs"], arguments["outputs"])
        elif op == "asave_context":
            asyncio.run(memory.asave_context(arguments["inputs"], arguments["outputs"]))
        elif op == "load_memory_variables":
            return {"value": _dump(memory.load_memory_variables(arguments["inputs"]))}
        elif op == "clear":
            memory.clear()
        elif op == "aclear":
            asyncio.run(memory.aclear())
        elif op == "chat_add":
            memory.chat_memory.add_message(_CHAT_ADD[arguments["what"]](arguments["text"]))
        elif op == "state":
            return self._state()
        else:
            raise ValueError(f"unknown operation {op}")
        return {"ok": True}

    def _state(self) -> dict[str, Any]:
        memory = self._memory
        state = {"memory_variables": list(memory.memory_variables)}
        if hasattr(memory, "chat_memory"):
            state["messages"] = _dump(memory.chat_memory.messages)
        for owner, field in (("ConversationSummaryMemory", "buffer"),
                             ("ConversationSummaryBufferMemory", "moving_summary_buffer"),
                             ("ConversationEntityMemory", "entity_cache")):
            if self._class == owner:
                state[field] = getattr(memory, field)
        if "retriever_k" in self._config:
            state["documents"] = [kept["text"] for kept in self._vectors.store.values()]
        return state

    def _make(self) -> tuple[Any, Any]:
        made = getattr(ours, self._class)
        given = {name: value for name, value in self._config.items() if name not in _ABOUT}
        if self._class == "SimpleMemory":
            return made(**given), None
        if self._class == "ReadOnlySharedMemory":
            base = ours.ConversationBufferMemory(**self._where)
            return made(memory=base), base
        if self._class == "CombinedMemory":
            memories = []
            for index, (name, fields) in enumerate(given["memories"]):
                where = {} if name == "SimpleMemory" else {
                    **self._where, "session_id": f"{self._where['session_id']}/{index}"}
                memories.append(getattr(ours, name)(**fields, **where))
            return made(memories=memories), None
        if "retriever_k" in self._config:
            given["retriever"] = self._vectors.as_retriever(
                search_kwargs={"k": self._config["retriever_k"]})
        if self._class == "VectorStoreRetrieverMemory":
            return made(**given), None
        if self._config.get("entity_store") == "sqlite":
            given["entity_store"] = ours.SQLiteEntityStore(
                db_file=self._where["session_id"], target=self._where["target"])
        if "llm" in made.model_fields:
            given["llm"] = ScriptedLLM(models=self.models)
        return made(**given, **self._where), None


def replay_trace(
    target: str, trace: dict[str, Any], differences: list[str], *, restarts: bool = False
) -> Tally:
    """Replays one trace of LangChain's against the memoryd at `target`."""
    tally = Tally()
    replayed = Trace(target, trace, restarts=restarts)
    for index, op in enumerate(trace["ops"]):
        try:
            answer = replayed.replay(op["op"], op["args"])
        except Exception as error:  # The trace says which are to be raised.
            answer = _error(error)
        calls, expected_calls = replayed.models.take_calls(), op.get("calls", [])
        if not _same_calls(expected_calls, calls):
            kind, expected, got = "calls of models", expected_calls, calls
        elif text(answer) == text(op["expect"]) or (op.get("ties") and _same_set(answer, op)):
            tally.equal += 1
            continue
        else:
            kind, expected, got = "answer", op["expect"], answer
        tally.different += 1
        differences.append(
            f"{trace['id']} op {index} {op['op']}{' restarted' if restarts else ''}: {kind}\n"
            f"  library {text(expected)[:900]}\n  memoryd {text(got)[:900]}")
    return tally


def _hash16(said: str) -> list[float]:
    vector = [1.0] + [0.0] * 15
    low = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in said)
    for word in re.findall(r"[a-z0-9]+", low):
        number = 0xCBF29CE484222325
        for byte in word.encode():
            number = ((number ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        vector[1 + number % 15] += 1.0
    return vector


def _dump(value: Any) -> Any:
    if isinstance(value, BaseMessage):
        return {"type": value.type, "content": value.content}
    if isinstance(value, Document):
        return {"page_content": value.page_content}
    if isinstance(value, dict):
        return {key: _dump(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_dump(item) for item in value]
    return value


def _error(error: Exception) -> dict[str, Any]:
    message = str(error)[:240]
    keys = re.fullmatch(r"One input key expected got \[(.*)\]", message)
    if keys:  # Of a set, whose order is arbitrary.
        message = f"One input key expected got [{', '.join(sorted(keys[1].split(', ')))}]"
    return {"error": {"type": type(error).__name__, "message": message}}


def _same_calls(expected: list[dict[str, Any]], made: list[dict[str, Any]]) -> bool:
    return len(expected) == len(made) and all(
        one.keys() == other.keys() and all(_same_text(one[key], other[key]) for key in one)
        for one, other in zip(expected, made, strict=True))


def _same_text(expected: Any, made: Any) -> bool:
    if isinstance(expected, dict):  # A long one, as its hash.
        return expected == {"sha256": hashlib.sha256(made.encode()).hexdigest(),
                            "chars": len(made)}
    return expected == made


def _same_set(answer: dict[str, Any], op: dict[str, Any]) -> bool:
    """Whether an answer has the pieces of the library's, whose order equal scores leave open."""
    return sorted(re.split(r"\\n|[{},]", text(answer))) == sorted(
        re.split(r"\\n|[{},]", text(op["expect"])))


def replay_folder(folder: pathlib.Path, kind: str) -> Tally:
    files = files_of(folder, "langchain_seed*.jsonl")
    total, differences = Tally(), []
    with fresh_store(kind) as store, Server(store) as server:
        for file, restarts in itertools.product(files, (False, True)):
            tally = Tally()
            for line in file.read_text(encoding="utf-8").splitlines():
                tally.add(replay_trace(
                    server.target, json.loads(line), differences, restarts=restarts))
            named = f"{file.name}{', restarted' if restarts else ''}"
            print(f"{kind} {named}: {tally}", flush=True)
            total.add(tally)
    for difference in differences[:SHOWN_DIFFERENCES]:
        print(difference)
    return total


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # The library's, of what it deprecates.
    sys.exit(run(__doc__, replay_folder))
