#!/usr/bin/env python3
"""Replays golden traces of LlamaIndex' memory classes through the classes of memoryd.llama_index.

usage: llama_index_classes.py [DIR] [--store sqlite|postgresql|both] [--seeds N]

DIR holds traces as goldens.py writes them; without it they are made, of seeds 1 to 3 and N fresh
ones. Models, embeddings, vector stores and custom blocks are goldens.py's own objects, given to our
classes as they were given to the library's. Exits 1 when any answer or call of a model differs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import sys
from collections.abc import Awaitable, Callable
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory.memory_blocks import (
    FactExtractionMemoryBlock,
    VectorMemoryBlock,
)

import goldens as made_by
from llama_blocks import same_calls
from run_goldens import same_set, text
from support.server import Server
from support.stores import fresh_store
from traces import SHOWN_DIFFERENCES, Tally, files_of, run

from memoryd.llama_index import (
    ChatMemoryBuffer,
    ChatStore,
    ChatSummaryMemoryBuffer,
    InsertMethod,
    Memory,
    MessageStatus,
    SimpleComposableMemory,
    StaticMemoryBlock,
    VectorMemory,
)

KINDS = ("llama_memory", "llama_multi", "llama_legacy", "llama_stores")
Dump = dict[str, Any]
Replay = Callable[[Dump], Awaitable[Any]]


def chat(dump: Dump) -> ChatMessage:
    return ChatMessage.model_validate(dump)


def chats(dumps: list[Dump]) -> list[ChatMessage]:
    return [chat(dump) for dump in dumps]


def dumps(messages: list[ChatMessage]) -> list[Dump]:
    return [made_by.dump(message) for message in messages]


def status_of(name: str | None) -> MessageStatus | None:
    return MessageStatus(name) if name else None


def block_of(spec: Dump, vector_store: Any) -> Any:
    """The block object that goldens.py made for `spec`."""
    common = {"name": spec["name"], "priority": spec["priority"]}
    if spec["type"] == "static":
        content = chat({"role": "user", "blocks": spec["static_content"]}).blocks
        return StaticMemoryBlock(static_content=content, **common)
    if spec["type"] == "fact":
        return FactExtractionMemoryBlock(
            llm=made_by.GLLM(), max_facts=spec["max_facts"], facts=list(spec["facts"]),
            accept_short_term_memory=spec["accept_short_term_memory"], **common)
    if spec["type"] == "vector":
        template = spec["format_template"]
        return VectorMemoryBlock(
            vector_store=vector_store or made_by.TextVS(), embed_model=made_by.GEmb(),
            similarity_top_k=spec["similarity_top_k"],
            retrieval_context_window=spec["retrieval_context_window"],
            **({} if template is None else {"format_template": template}), **common)
    own = {key: spec[key] for key in ("fixed", "text") if key in spec}
    return made_by.CUSTOM_KINDS[spec["kind"]](**own, **common)


def memory_of(config: Dump, uri: str, vector_store: Any = None) -> Memory:
    """Our Memory, made as goldens.py made the library's."""
    estimates = ["image_token_size_estimate", "audio_token_size_estimate",
                 "video_token_size_estimate"]
    given: Dump = {key: config[key] for key in estimates}
    given |= {key: config[key] for key in ("token_limit", "chat_history_token_ratio", "session_id")}
    if config["token_flush_size"] is not None:
        given["token_flush_size"] = config["token_flush_size"]
    given |= {
        "insert_method": InsertMethod(config["insert_method"]),
        "tokenizer_fn": made_by.TOK[config["tokenizer"]],
        "memory_blocks": [block_of(spec, vector_store) for spec in config["memory_blocks"]],
        "async_database_uri": uri,
    }
    if config["via"] == "from_defaults":
        memory = Memory.from_defaults(**given)
    else:
        memory = Memory(
            document_token_size_estimate=config["document_token_size_estimate"], **given)
    if memory.token_flush_size != config["effective_token_flush_size"]:
        raise AssertionError(f"token_flush_size is {memory.token_flush_size}")
    return memory


class Memories:
    """The Memory objects of a trace."""

    def __init__(self, trace: Dump, uri: str) -> None:
        multi = trace["id"].startswith("llama_multi/")
        made_by.LOG.script = (trace if multi else trace["config"])["llm_script"]
        # Keys of one trace are no others'; the session ids are seen by models and stay.
        self._uri = f"{uri}/{trace['id'].replace('/', '-')}"
        store = made_by.TextVS() if multi else None
        configs = trace["config"] if multi else [trace["config"]]
        self._memories = {
            config["session_id"] if multi else None: memory_of(config, self._uri, store)
            for config in configs
        }

    async def replay(self, op: Dump) -> Any:
        if op["op"] == "store_keys":
            keys = await ChatStore(async_database_uri=self._uri).get_keys()
            return {"keys_sorted": sorted(keys)}
        memory, arguments = self._memories[op.get("session_id")], op["args"]
        name = op["op"]
        if name == "put":
            await memory.aput(chat(arguments["message"]))
        elif name == "put_messages":
            await memory.aput_messages(chats(arguments["messages"]))
        elif name == "set":
            await memory.aset(chats(arguments["messages"]))
        elif name == "reset":
            await memory.areset()
        elif name == "areset":
            await memory.areset(status=status_of(arguments["status"]))
        elif name == "get":
            return {"messages": dumps(await memory.aget(input=arguments["input"]))}
        elif name == "get_all":
            found = await memory.aget_all(status=status_of(arguments["status"]))
            return {"messages": dumps(found)}
        elif name == "inspect":
            return inspected(memory)
        else:
            raise ValueError(f"unknown operation {name}")
        store, key = memory.sql_store, memory.session_id
        active = await store.get_messages(key)
        return {
            "active_tokens": sum(memory._estimate_token_count(message) for message in active),
            "n_active": await store.count_messages(key),
            "n_archived": await store.count_messages(key, status=MessageStatus.ARCHIVED),
        }

    def close(self) -> None:
        for memory in self._memories.values():
            memory.close()


def inspected(memory: Memory) -> Dump:
    blocks = memory.memory_blocks
    return {
        "facts": {block.name: list(block.facts) for block in blocks
                  if isinstance(block, FactExtractionMemoryBlock)},
        "vectors": {
            block.name: [[node.text, node.metadata] for node in block.vector_store._nodes.values()]
            for block in blocks if isinstance(block, VectorMemoryBlock)
        },
    }


class Legacy:
    """A deprecated memory of a trace."""

    def __init__(self, trace: Dump, uri: str) -> None:
        config = trace["config"]
        made_by.LOG.script = config.get("llm_script", ["none"])
        self._uri = f"{uri}/{trace['id'].replace('/', '-')}"
        self._stores = 0
        kind = trace["class"]
        tokenizer = made_by.TOK[config.get("tokenizer", "whitespace")]
        history = config.get("chat_history")
        common: Dump = {
            "chat_history": None if history is None else chats(history),
            "token_limit": config.get("token_limit"),
            "tokenizer_fn": tokenizer,
        }
        if kind == "ChatMemoryBuffer":
            self._memory: Any = ChatMemoryBuffer.from_defaults(chat_store=self._store(), **common)
        elif kind == "ChatSummaryMemoryBuffer":
            self._memory = ChatSummaryMemoryBuffer.from_defaults(
                chat_store=self._store(), llm=made_by.GLLM() if config["llm"] else None,
                count_initial_tokens=config["count_initial_tokens"], **common)
        elif kind == "VectorMemory":
            self._memory = self._vector(config)
            if "batch_by_user_message" in config:
                self._memory.batch_by_user_message = config["batch_by_user_message"]
        else:
            vector, buffer = config["secondary"]
            self._memory = SimpleComposableMemory.from_defaults(
                primary_memory=ChatMemoryBuffer.from_defaults(chat_store=self._store(), **common),
                secondary_memory_sources=[
                    self._vector(vector),
                    ChatMemoryBuffer.from_defaults(
                        chat_store=self._store(), token_limit=buffer["token_limit"],
                        tokenizer_fn=tokenizer),
                ])

    def _store(self) -> ChatStore:
        self._stores += 1
        return ChatStore(f"store-{self._stores}", self._uri)

    def _vector(self, config: Dump) -> VectorMemory:
        return VectorMemory.from_defaults(
            embed_model=made_by.GEmb(), chat_store=self._store(),
            retriever_kwargs={"similarity_top_k": config["similarity_top_k"]})

    async def replay(self, op: Dump) -> Any:
        memory, arguments = self._memory, op["args"]
        if op["op"] == "put":
            memory.put(chat(arguments["message"]))
        elif op["op"] == "get":
            answer: Dump = {}
            if type(memory) is ChatMemoryBuffer:
                answer["all_tokens"] = memory._token_count_for_messages(memory.get_all())
            further = {key: value for key, value in arguments.items() if key != "input"}
            answer["messages"] = dumps(memory.get(arguments["input"], **further))
            return answer
        elif op["op"] == "get_all":
            return {"messages": dumps(memory.get_all())}
        elif op["op"] == "set":
            memory.set(chats(arguments["messages"]))
        elif op["op"] == "reset":
            memory.reset()
        else:
            raise ValueError(f"unknown operation {op['op']}")
        return {"ok": True}

    def close(self) -> None:
        pass


class SimpleStore:
    """A SimpleChatStore of a trace: our store outside of an event loop."""

    def __init__(self, trace: Dump, uri: str) -> None:
        self._store = ChatStore(trace["id"], uri)

    async def replay(self, op: Dump) -> Any:
        return await asyncio.to_thread(self._replay, op["op"], op["args"])

    def _replay(self, name: str, arguments: Dump) -> Any:
        store, key = self._store, arguments.get("key", "")
        if name == "add_message":
            store.add_message(key, chat(arguments["message"]), arguments["idx"])
        elif name == "set_messages":
            store.set_messages(key, chats(arguments["messages"]))
        elif name == "get_messages":
            return {"messages": dumps(store.get_messages(key))}
        elif name == "delete_messages":
            removed = store.delete_messages(key)
            return {"messages": None if removed is None else dumps(removed)}
        elif name == "delete_message":
            removed = store.delete_message(key, arguments["idx"])
            return {"message": None if removed is None else made_by.dump(removed)}
        elif name == "delete_last_message":
            removed = store.delete_last_message(key)
            return {"message": None if removed is None else made_by.dump(removed)}
        elif name == "get_keys":
            return {"keys": list(store.get_keys())}
        else:
            raise ValueError(f"unknown operation {name}")
        return {"ok": True}

    def close(self) -> None:
        pass


class SqlStore:
    """A SQLAlchemyChatStore of a trace: our store on an event loop.

    The library's row ids are those of SQLite, one sequence for all keys, in which a deleted greatest
    id is given again; they are translated to ours.
    """

    def __init__(self, trace: Dump, uri: str) -> None:
        self._store = ChatStore(trace["id"], uri)
        self._rows: dict[int, tuple[str, int]] = {}

    async def replay(self, op: Dump) -> Any:
        answer = await self._replay(op["op"], op["args"])
        await self._note(op["args"].get("key"))
        return answer

    async def _note(self, key: str | None) -> None:
        if key is None:
            return
        there = await self._store.row_ids(key)
        self._rows = {row: where for row, where in self._rows.items()
                      if where[0] != key or where[1] in there}
        known = {where[1] for where in self._rows.values() if where[0] == key}
        for row_id in there:
            if row_id not in known:
                self._rows[max(self._rows, default=0) + 1] = (key, row_id)

    async def _replay(self, name: str, arguments: Dump) -> Any:
        store, key = self._store, arguments.get("key", "")
        status = status_of(arguments.get("status"))
        if name == "add_message":
            await store.add_message(key, chat(arguments["message"]), status=status)
        elif name in ("add_messages", "set_messages"):
            if name == "set_messages":
                # The library deletes first, and gives the ids anew.
                self._rows = {row: where for row, where in self._rows.items() if where[0] != key}
            await getattr(store, name)(key, chats(arguments["messages"]), status=status)
        elif name == "get_messages":
            found = await store.get_messages(
                key, status=status, limit=arguments["limit"], offset=arguments["offset"])
            return {"messages": dumps(found)}
        elif name == "count_messages":
            return {"count": await store.count_messages(key, status=status)}
        elif name == "delete_message":
            where = self._rows.get(arguments["id"], ("", -1))
            removed = await store.delete_message(key, where[1] if where[0] == key else -1)
            return {"message": removed and made_by.dump(removed)}
        elif name == "delete_messages":
            await store.delete_messages(key, status=status)
        elif name in ("delete_oldest_messages", "archive_oldest_messages"):
            return {"messages": dumps(await getattr(store, name)(key, arguments["n"]))}
        elif name == "get_keys":
            return {"keys_sorted": sorted(await store.get_keys())}
        else:
            raise ValueError(f"unknown operation {name}")
        return {"ok": True}

    def close(self) -> None:
        pass


def objects_of(trace: Dump, uri: str) -> Any:
    kind = trace["id"].partition("/")[0]
    if kind in ("llama_memory", "llama_multi"):
        return Memories(trace, uri)
    if kind == "llama_legacy":
        return Legacy(trace, uri)
    return (SimpleStore if trace["class"] == "SimpleChatStore" else SqlStore)(trace, uri)


async def replay_trace(uri: str, trace: Dump, differences: list[str]) -> Tally:
    tally = Tally()
    log = made_by.LOG
    log.calls, log.n, log.ties, log.full = [], 0, False, True
    with contextlib.closing(objects_of(trace, uri)) as objects:
        log.calls = []
        for index, op in enumerate(trace["ops"]):
            try:
                answer = await objects.replay(op)
            except Exception as error:
                answer = made_by.err(error)
            made, _ = log.take()
            where = f"{trace['id']} op {index} {op['op']}"
            if not same_calls(op.get("calls", []), made):
                tally.different += 1
                differences.append(f"{where}: calls of models\n"
                                   f"  library {text(op.get('calls', []))[:900]}\n"
                                   f"  memoryd {text(made)[:900]}")
            elif text(answer) == text(op["expect"]) or (op.get("ties") and same_set(answer, op)):
                tally.equal += 1
            else:
                tally.different += 1
                differences.append(f"{where}:\n  library {text(op['expect'])[:600]}\n"
                                   f"  memoryd {text(answer)[:600]}")
    return tally


def replay_folder(folder: pathlib.Path, kind: str) -> Tally:
    files = files_of(folder, *(f"{name}_*.jsonl" for name in KINDS))
    total: Tally = Tally()
    differences: list[str] = []
    with fresh_store(kind) as store, Server(store) as server:
        for file in files:
            tally = Tally()
            for line in file.read_text(encoding="utf-8").splitlines():
                uri = f"memoryd://{server.target}"
                tally.add(asyncio.run(replay_trace(uri, json.loads(line), differences)))
            print(f"{kind} {file.name}: {tally}", flush=True)
            total.add(tally)
    for difference in differences[:SHOWN_DIFFERENCES]:
        print(difference)
    return total


if __name__ == "__main__":
    sys.exit(run(__doc__, replay_folder))
