"""The adapters over items with a token of one user: each has his own, and what is another's is not
there."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from support.access import credential, write_credentials
from support.server import Server
from support.stores import fresh_store

from memoryd import Client, MemorydError
from memoryd.anthropic import MemorydMemoryTool
from memoryd.langgraph import MemorydSaver, MemorydStore

NOT_GRANTED = "SUBJECT_NOT_GRANTED"


@pytest.fixture(scope="module")
def target(store_kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = write_credentials(tmp_path_factory.mktemp("tokens") / "credentials.yaml", [
        credential("t", token="ann", subject="ann"),
        credential("t", token="bob", subject="bob"),
        credential("t", token="all")])
    with fresh_store(store_kind) as store, Server(
            store, arguments=[f"--credentials={file}"]) as server:
        yield server.target


@contextlib.contextmanager
def refused() -> Iterator[None]:
    with pytest.raises(MemorydError) as caught:
        yield
    assert caught.value.reason == NOT_GRANTED


class State(TypedDict):
    text: str


def graph_of(saver: MemorydSaver, store: MemorydStore) -> Any:
    def step(state: State) -> State:
        store.put(("facts",), "last", {"text": state["text"]})
        return {"text": state["text"] + "!"}

    builder: Any = StateGraph(State)
    return builder.add_node(step).add_edge(START, "step").compile(checkpointer=saver, store=store)


def test_each_token_has_a_langgraph_of_its_own(target):
    """Below a path of its own, as the page says."""
    base = uuid.uuid4().hex
    made = {}
    for name in ("ann", "bob"):
        options = {"namespace": (base, name), "token": name}
        saver, store = MemorydSaver(target, **options), MemorydStore(target, **options)
        config = {"configurable": {"thread_id": "monday"}}
        graph = graph_of(saver, store)
        assert graph.invoke({"text": f"{name}'s"}, config)["text"] == f"{name}'s!"
        made[name] = (saver, store, graph, config)
    for name, (saver, store, graph, config) in made.items():
        assert graph.get_state(config).values["text"] == f"{name}'s!"
        assert store.get(("facts",), "last").value == {"text": f"{name}'s"}
        assert [item.value for item in store.search((), query=f"{name}'s")] == [
            {"text": f"{name}'s"}]
        assert store.list_namespaces() == [("facts",)]
        assert len(list(saver.list(None))) == len(list(saver.list(config))) > 0
        with Client(target, token="all") as everybody:
            for path in ((base, name, "store", "facts"), (base, name, "threads", "monday")):
                found = list(everybody.list_namespaces(prefix=path))
                assert found
                assert found == list(everybody.list_namespaces(prefix=path, subject=name))


def test_anothers_threads_and_items_are_not_there(target):
    base = (uuid.uuid4().hex,)
    saver = {name: MemorydSaver(target, namespace=base, token=name) for name in ("ann", "bob")}
    store = {name: MemorydStore(target, namespace=base, token=name) for name in ("ann", "bob")}
    config = {"configurable": {"thread_id": "monday"}}
    graph_of(saver["ann"], store["ann"]).invoke({"text": "secret"}, config)
    bobs = graph_of(saver["bob"], store["bob"])
    assert bobs.get_state(config).values == {}
    assert list(saver["bob"].list(None)) == [] and saver["bob"].get_tuple(config) is None
    assert store["bob"].get(("facts",), "last") is None
    assert store["bob"].search(()) == [] and store["bob"].list_namespaces() == []
    with refused():
        bobs.invoke({"text": "his"}, config)
    with refused():
        store["bob"].put(("facts",), "last", {"text": "his"})
    with refused():
        asyncio.run(store["bob"].aput(("facts",), "other", {"text": "his"}))
    assert store["ann"].get(("facts",), "last").value == {"text": "secret"}
    # Elsewhere he has his own.
    store["bob"].put(("facts", "bob"), "last", {"text": "his"})
    assert store["bob"].list_namespaces() == [("facts", "bob")]
    assert store["ann"].list_namespaces() == [("facts",)]


def test_each_token_has_files_of_its_own(target):
    memory_id = uuid.uuid4().hex
    tool = {name: MemorydMemoryTool(memory_id, target, token=name) for name in ("ann", "bob")}
    create = {"command": "create", "path": "/memories/a.md", "file_text": "secret\n"}
    tool["ann"].call(create)
    assert "secret" in str(tool["ann"].call({"command": "view", "path": "/memories/a.md"}))
    with pytest.raises(ToolError):
        tool["bob"].call({"command": "view", "path": "/memories/a.md"})
    with refused():
        tool["bob"].call(create)
    assert "secret" in str(tool["ann"].call({"command": "view", "path": "/memories/a.md"}))
