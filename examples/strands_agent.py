"""An agent of Strands that is killed in the middle of a turn and goes on.

usage: strands_agent.py [TARGET]         where memoryd is; default: MEMORYD_TARGET, or localhost:50051
needs: pip install './clients/python[strands]'

The model is scripted. Put a real one in its place.
"""

import json
import os
import signal
import subprocess
import sys

from strands import Agent, tool
from strands.models import Model

from memoryd.strands import MemorydSessionManager

QUESTIONS = ("My name is Ann.", "Tea, please.", "What was my name, and what did I drink?")


@tool
def brew(drink: str) -> str:
    """Brews a drink."""
    if "first" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"one pot of {drink}"


class Scripted(Model):
    async def stream(self, messages, *rest, **named):
        told, got = asked(messages), results(messages)
        use = {"toolUseId": "brew_1", "name": "brew"}
        is_call = told[-1] == QUESTIONS[1] and "text" in messages[-1]["content"][0]
        text = {0: "Hello!", 1: f"Here: {got and got[-1]}."}.get(
            QUESTIONS.index(told[-1]), f"You said {told[0]!r}, and had {got and got[-1]}.")
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {"toolUse": use} if is_call else {}}}
        yield {"contentBlockDelta": {"delta": {
            "toolUse": {"input": json.dumps({"drink": "tea"})}} if is_call else {"text": text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if is_call else "end_turn"}}

    def get_config(self):
        return {}

    def update_config(self, **config):
        raise NotImplementedError

    def structured_output(self, *arguments, **named):
        raise NotImplementedError


def blocks(messages):
    return [(one["role"], block) for one in messages for block in one["content"]]


def asked(messages):
    return [block["text"] for role, block in blocks(messages) if role == "user" and "text" in block]


def results(messages):
    return [block["toolResult"]["content"][0]["text"] for _, block in blocks(messages)
            if "toolResult" in block]


def is_answer(message):
    return message["role"] == "assistant" and "text" in message["content"][0]


def main(target: str) -> None:
    agent = Agent(model=Scripted(), tools=[brew], callback_handler=None,
                  session_manager=MemorydSessionManager("waiter", target or None))
    told = asked(agent.messages)
    if agent.messages and not is_answer(agent.messages[-1]):  # A turn that was cut goes on.
        print(f"{told[-1]} -> {str(agent()).strip()}", flush=True)
    for question in QUESTIONS[len(told):]:
        print(f"{question} -> {str(agent(question)).strip()}", flush=True)


if len(sys.argv) < 3:  # The one who starts the agent, and starts it again.
    for how in ("first", "again"):
        command = [sys.executable, __file__, "".join(sys.argv[1:]), how]
        ended = subprocess.run(command, check=False)
    sys.exit(ended.returncode)
main(sys.argv[1])
