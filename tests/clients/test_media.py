"""Media as large as providers take them, through every adapter."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable

import grpc
import PIL.Image
import pytest
from autogen_core import Image
from autogen_core.memory import MemoryContent
from autogen_core.model_context import UnboundedChatCompletionContext
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from llama_index.core.base.llms.types import ChatMessage, DocumentBlock, ImageBlock, TextBlock

from support.server import Server

from memoryd import AsyncClient, Client, MemorydError, message
from memoryd._requests import arequests, requests
from memoryd.autogen import ListMemory
from memoryd.langchain import ChatMessageHistory, Connection, ConversationBufferMemory
from memoryd.llama_index import ChatMemoryBuffer, ChatStore, Memory
from memoryd.v1 import memory_pb2 as proto

BYTES = 5_000_000
MIB = 1 << 20
NO_LIMIT = 10**9


@pytest.fixture
def server(store):
    """One whose store may take its time, as it does on a busy machine."""
    with Server(store, arguments=["--store-timeout-ms=30000"]) as running:
        yield running


def png(number: int = 0, size: int = BYTES) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes([number, *range(255)]) * (size // 256)


def encoded(number: int = 0) -> str:
    return base64.b64encode(png(number)).decode()


def equal(given: object, expected: object) -> bool:
    """Compared here, since pytest would take minutes to say where megabytes differ."""
    return bool(given == expected)


def connection(server: Server) -> Connection:
    return Connection(server.target, timeout=60)


def llama(block: ImageBlock | DocumentBlock) -> ChatMessage:
    return ChatMessage(role="user", blocks=[TextBlock(text="?"), block])


@pytest.mark.parametrize("block", (
    lambda: ImageBlock(image=png()),
    lambda: ImageBlock(url="data:image/png;base64," + encoded()),
    lambda: DocumentBlock(data=b"%PDF-1.4 " + png(), title="t",
                          document_mimetype="application/pdf"),
), ids=("image", "data URL", "document"))
def test_llama_index(server, session_id, block: Callable[[], ImageBlock | DocumentBlock]):
    said = llama(block())
    uri = f"memoryd://{server.target}?timeout=60"
    kept = Memory.from_defaults(session_id, token_limit=NO_LIMIT, async_database_uri=uri)
    kept.put(said)
    assert equal(kept.get(), [said]) and equal(kept.get_all(), [said])
    store = ChatStore(async_database_uri=uri)
    asyncio.run(store.add_message(f"{session_id}-one", said))
    asyncio.run(store.set_messages(f"{session_id}-two", [said, said]))
    assert equal(list(asyncio.run(store.get_messages(f"{session_id}-one"))), [said])
    assert equal(list(asyncio.run(store.get_messages(f"{session_id}-two"))), [said, said])
    buffer = ChatMemoryBuffer.from_defaults(
        chat_store=store, chat_store_key=f"{session_id}-buffer", token_limit=NO_LIMIT)
    buffer.put(said)
    assert equal(buffer.get_all(), [said])


LANGCHAIN = {
    "image_url": lambda number=0: [
        {"type": "text", "text": "?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + encoded(number)}}],
    "data block": lambda number=0: [
        {"type": "image", "source_type": "base64", "data": encoded(number),
         "mime_type": "image/png"}],
    "v1 block": lambda number=0: [
        {"type": "image", "base64": encoded(number), "mime_type": "image/png"}],
    "document": lambda number=0: [
        {"type": "document", "source": {
            "type": "base64", "media_type": "application/pdf", "data": encoded(number)}}],
}


@pytest.mark.parametrize("content", LANGCHAIN.values(), ids=LANGCHAIN)
def test_langchain(server, session_id, content):
    said: list[BaseMessage] = [HumanMessage(content()), AIMessage("A picture."),
                               ToolMessage(content(1), tool_call_id="c")]
    history = ChatMessageHistory(session_id, target=connection(server))
    history.add_messages(said[:2])
    assert equal(history.messages, said[:2])
    history.messages = said
    assert len(history.messages_as_stored()) == 3
    memory = ConversationBufferMemory(
        chat_memory=ChatMessageHistory(f"{session_id}-b", target=connection(server)),
        return_messages=True)
    memory.chat_memory.add_messages(said[:2])
    assert equal(memory.load_memory_variables({})["history"], said[:2])
    asyncio.run(_langchain_later(f"{session_id}-a", connection(server), said[:2]))


async def _langchain_later(session_id: str, target: Connection, said: list[BaseMessage]) -> None:
    history = ChatMessageHistory(session_id, target=target)
    await history.aadd_messages(said)
    assert equal(await history.aget_messages(), said)


def noise(side: int = 1400) -> Image:
    """A picture that PNG does not make smaller."""
    state, pixels = 1, bytearray()
    while len(pixels) < 3 * side * side:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        pixels += state.to_bytes(8, "big")
    return Image(PIL.Image.frombytes("RGB", (side, side), bytes(pixels[:3 * side * side])))


def test_autogen(server, session_id):
    picture = noise()
    assert len(base64.b64decode(picture.to_base64())) > BYTES
    added = [
        MemoryContent(content=png(), mime_type="application/octet-stream"),
        MemoryContent(content=picture, mime_type="image/png"),
        MemoryContent(content={"rows": "x" * BYTES}, mime_type="application/json"),
        MemoryContent(content="x" * BYTES, mime_type="text/plain"),
    ]

    async def run() -> None:
        memory = ListMemory(session_id=session_id, target=server.target, timeout=60)
        for content in added:
            await memory.add(content)
        found = (await memory.query()).results
        assert [one.mime_type for one in found] == [one.mime_type for one in added]
        for one, before in zip(found, added, strict=True):
            if isinstance(before.content, Image):
                assert equal(one.content.image.tobytes(), before.content.image.tobytes())
            else:
                assert equal(one, before)
        context = UnboundedChatCompletionContext()
        shown = (await memory.update_context(context)).memories.results
        assert len(shown) == len(added)
        (inserted,) = await context.get_messages()
        assert ("2. <Image>" in inserted.content) is True
        assert inserted.content.count("x") >= 2 * BYTES
        # What it begins with is too much for one request.
        begun = ListMemory(session_id=f"{session_id}-b", target=server.target, timeout=60,
                           memory_contents=[added[0]] * 8)
        assert equal((await begun.query()).results, [added[0]] * 8)
        await memory.close()
        await begun.close()

    asyncio.run(run())


def test_several_in_one_session(server, session_id):
    uri = f"memoryd://{server.target}?timeout=60"
    said = [llama(ImageBlock(image=png(number))) for number in range(8)]
    kept = Memory.from_defaults(session_id, token_limit=NO_LIMIT, async_database_uri=uri)
    kept.put_messages(said)
    assert equal(kept.get(), said)
    history = ChatMessageHistory(f"{session_id}-l", target=connection(server))
    of_langchain = [HumanMessage(LANGCHAIN["image_url"](number)) for number in range(8)]
    history.add_messages(of_langchain)
    assert equal(history.messages, of_langchain)


def test_retention_takes_them(server, session_id):
    with Client(server.target, timeout=60) as client:
        client.create_session(session_id, proto.SessionConfig(
            profile="llama-index", retention=proto.Retention(keep_bytes=12_000_000)))
        for number in range(4):
            client.put(session_id, [proto.Message(role="user", parts=[
                proto.Part(image=proto.Media(data=png(number)))])])
        found = list(client.get_all(session_id))
        assert equal([one.parts[0].image.data for one in found], [png(2), png(3)])


def test_requests_are_as_large_as_the_server_says(server):
    pictures = [proto.Message(role="user", parts=[
        proto.Part(image=proto.Media(data=bytes(MIB)))])] * 40

    async def later() -> list[int]:
        async with AsyncClient(server.target) as client:
            return [len(batch) for batch in await arequests(client, pictures)]

    with Client(server.target) as client:
        assert [len(batch) for batch in requests(client, pictures)] == [34, 6]
        assert [len(batch) for batch in requests(client, [message("user", "x")] * 1001)] == [
            1000, 1]
        assert requests(client, []) == [[]]
    assert asyncio.run(later()) == [34, 6]


def test_what_is_too_large_is_told_so_and_nothing_is_stored(store, session_id):
    with Server(store, arguments=["--max-request-mib=4"]) as small:
        uri = f"memoryd://{small.target}?timeout=60"
        kept = Memory.from_defaults(session_id, token_limit=NO_LIMIT, async_database_uri=uri)
        history = ChatMessageHistory(f"{session_id}-l", target=connection(small))
        before = [HumanMessage("x" * 2_000_000), HumanMessage("y" * 2_000_000)]
        for put in (
            lambda: kept.put_messages([ChatMessage(role="user", content="x" * 2_000_000),
                                       ChatMessage(role="user", content="y" * 2_000_000),
                                       llama(ImageBlock(image=png()))]),
            lambda: history.add_messages([*before, HumanMessage(LANGCHAIN["image_url"]())]),
            lambda: asyncio.run(_later(history, before)),
            lambda: asyncio.run(ListMemory(session_id=f"{session_id}-a", target=small.target).add(
                MemoryContent(content=png(), mime_type="application/octet-stream"))),
        ):
            with pytest.raises(MemorydError) as refused:
                put()
            assert refused.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert refused.value.field == "messages"
            assert "max_request_mib" in refused.value.message
        assert kept.get_all() == [] and history.messages == []


async def _later(history: ChatMessageHistory, before: list[BaseMessage]) -> None:
    await history.aadd_messages([*before, HumanMessage(LANGCHAIN["image_url"]())])
