"""An agent of OpenAI's Agents SDK that is killed in the middle of a turn and goes on.

usage: openai_agents_agent.py [TARGET]   where memoryd is; default: MEMORYD_TARGET, or localhost:50051
needs: pip install './clients/python[openai-agents]'

The model is scripted. Put a real one in its place.
"""

import asyncio
import os
import signal
import subprocess
import sys

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from memoryd.openai_agents import MemorydSession

QUESTIONS = ("My name is Ann.", "Tea, please.", "What was my name, and what did I drink?")


@function_tool
def brew(drink: str) -> str:
    if "first" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"one pot of {drink}"


class Scripted(Model):
    async def get_response(self, system_instructions, input, *rest, **named):
        told = [item["content"] for item in input if item.get("role") == "user"]
        got = [item["output"] for item in input if item.get("type") == "function_call_output"]
        if told[-1] == QUESTIONS[1] and input[-1].get("role") == "user":
            output = ResponseFunctionToolCall(
                type="function_call", call_id="brew_1", name="brew", arguments='{"drink": "tea"}')
        else:
            text = {0: "Hello!", 1: f"Here: {got and got[-1]}."}.get(
                QUESTIONS.index(told[-1]), f"You said {told[0]!r}, and had {got and got[-1]}.")
            said = ResponseOutputText(type="output_text", text=text, annotations=[])
            output = ResponseOutputMessage(
                id="msg", type="message", role="assistant", status="completed", content=[said])
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *arguments, **named):
        raise NotImplementedError


async def main(target: str) -> None:
    agent = Agent("waiter", model=Scripted(), tools=[brew])
    session = MemorydSession("waiter", target or None)
    items = await session.get_items()
    while items and items[-1].get("role") != "assistant":  # A turn that was cut begins again.
        items.pop()
        await session.pop_item()
    for question in QUESTIONS[sum(item.get("role") == "user" for item in items):]:
        result = await Runner.run(agent, question, session=session)
        print(f"{question} -> {result.final_output}", flush=True)


set_tracing_disabled(True)
if len(sys.argv) < 3:  # The one who starts the agent, and starts it again.
    for how in ("first", "again"):
        command = [sys.executable, __file__, "".join(sys.argv[1:]), how]
        ended = subprocess.run(command, check=False)
    sys.exit(ended.returncode)
asyncio.run(main(sys.argv[1]))
