"""A LlamaIndex agent that remembers over restarts: its memory is in memoryd.

    export MEMORYD_TARGET=localhost:50051
    python examples/llama_index_agent.py alice "My name is Alice."
    python examples/llama_index_agent.py alice "What is my name?"

A URI memoryd://… ahead of these takes the variable's place.

needs: pip install './clients/python[llama-index]'

The model is scripted: it answers with what it was told. Put a real one in its place.
"""

import asyncio
import sys

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM

from memoryd.llama_index import Memory


def answer(messages: list[ChatMessage], **_: object) -> ChatMessage:
    told = [message.content for message in messages if message.role == "user"]
    return ChatMessage(role="assistant", content=f"You said: {' / '.join(told)}")


async def main(session: str, text: str, uri: str | None = None) -> None:
    memory = Memory.from_defaults(session_id=session, async_database_uri=uri)
    agent = FunctionAgent(llm=MockFunctionCallingLLM(response_generator=answer), streaming=False)
    print(await agent.run(text, memory=memory))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[-2:], *sys.argv[1:-2]))
