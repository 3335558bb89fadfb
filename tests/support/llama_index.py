"""Memory of the installed llama-index-core, with models as those of ModelServer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, TextBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import MockLLM
from llama_index.core.memory import FactExtractionMemoryBlock, Memory, StaticMemoryBlock, VectorMemoryBlock
from llama_index.core.vector_stores import SimpleVectorStore

from support.model_server import hash_embed


class _Model(MockLLM):
    _answer: Callable[[], str] = PrivateAttr()

    def __init__(self, answer: Callable[[], str]) -> None:
        super().__init__()
        self._answer = answer

    async def achat(self, messages: Any, **_: Any) -> ChatResponse:
        return ChatResponse(message=ChatMessage(role="assistant", content=self._answer()))


class _Embedder(BaseEmbedding):
    def _get_query_embedding(self, query: str) -> list[float]:
        return hash_embed(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return hash_embed(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return hash_embed(text)


class _VectorStore(SimpleVectorStore):
    """Keeps its nodes: the block refuses one that does not."""

    stores_text: bool = True
    _nodes: dict = PrivateAttr(default_factory=dict)

    def add(self, nodes: Any, **kwargs: Any) -> Any:
        self._nodes |= {node.node_id: node for node in nodes}
        return super().add(nodes, **kwargs)

    def query(self, query: Any, **kwargs: Any) -> Any:
        result = super().query(query, **kwargs)
        result.nodes = [self._nodes[node_id] for node_id in result.ids]
        return result


class LongTermMemory:
    """The documentation's example of long-term memory; `answer` is what its model says next.

    Use as a context manager.
    """

    def __init__(self, core: str, answer: Callable[[], str]) -> None:
        self._runner = asyncio.Runner()
        self._memory = Memory.from_defaults(
            session_id="example", token_limit=30000, chat_history_token_ratio=0.02,
            token_flush_size=500, insert_method="user",
            memory_blocks=[
                StaticMemoryBlock(name="core_info", static_content=[TextBlock(text=core)],
                                  priority=0),
                FactExtractionMemoryBlock(name="extracted_info", llm=_Model(answer),
                                          max_facts=50, priority=1),
                VectorMemoryBlock(name="vector_memory", vector_store=_VectorStore(),
                                  embed_model=_Embedder(), priority=2),
            ])

    def __enter__(self) -> LongTermMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def put(self, role: str, text: str) -> None:
        self._runner.run(self._memory.aput(ChatMessage(role=role, content=text)))

    def get(self) -> list[tuple[str, list[str]]]:
        """Role and texts of each message."""
        messages = self._runner.run(self._memory.aget())
        return [(m.role.value, [block.text for block in m.blocks]) for m in messages]
