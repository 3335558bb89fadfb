"""An agent of Pydantic AI that is killed in the middle of a turn and goes on.

usage: pydantic_ai_agent.py [TARGET]     where memoryd is; default: MEMORYD_TARGET, or localhost:50051
needs: pip install './clients/python[pydantic-ai]'

The model is scripted. Put a real one in its place.
"""

import asyncio
import os
import signal
import subprocess
import sys

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from memoryd.pydantic_ai import MemorydConversationStore

QUESTIONS = ("My name is Ann.", "Tea, please.", "What was my name, and what did I drink?")


def answer(messages, info):
    parts = [part for message in messages for part in message.parts]
    told = [part.content for part in parts if part.part_kind == "user-prompt"]
    got = [part.content for part in parts if part.part_kind == "tool-return"]
    if told[-1] == QUESTIONS[1] and parts[-1].part_kind == "user-prompt":
        return ModelResponse([ToolCallPart("brew", {"drink": "tea"})])
    text = {0: "Hello!", 1: f"Here: {got and got[-1]}."}.get(
        QUESTIONS.index(told[-1]), f"You said {told[0]!r}, and had {got and got[-1]}.")
    return ModelResponse([TextPart(text)])


agent = Agent(FunctionModel(answer))


@agent.tool_plain
def brew(drink: str) -> str:
    if "first" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"one pot of {drink}"


async def main(target: str) -> None:
    store = MemorydConversationStore(target or None)
    conversation = await store.load("waiter") or Conversation(conversation_id="waiter")
    # A turn is stored whole, so one that was cut is asked again.
    done = sum(part.part_kind == "user-prompt"
               for message in conversation.messages for part in message.parts)
    for question in QUESTIONS[done:]:
        result = await agent.run(question, conversation=conversation)
        await store.save(result)
        conversation = result.conversation
        print(f"{question} -> {result.output}", flush=True)


if len(sys.argv) < 3:  # The one who starts the agent, and starts it again.
    for how in ("first", "again"):
        command = [sys.executable, __file__, "".join(sys.argv[1:]), how]
        ended = subprocess.run(command, check=False)
    sys.exit(ended.returncode)
asyncio.run(main(sys.argv[1]))
