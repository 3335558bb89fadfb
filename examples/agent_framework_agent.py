"""An agent of Microsoft's Agent Framework that is killed in the middle of a turn and goes on.

usage: agent_framework_agent.py [TARGET]  where memoryd is; default: MEMORYD_TARGET, or localhost:50051
needs: pip install './clients/python[agent-framework]'

The model is scripted. Put a real one in its place.
"""

import asyncio
import os
import signal
import subprocess
import sys

from agent_framework import Agent, BaseChatClient, ChatResponse, Message

from memoryd.agent_framework import MemorydHistoryProvider

QUESTIONS = ("My name is Ann.", "Tea, please.", "What was my name?")


class Scripted(BaseChatClient):
    async def _inner_get_response(self, *, messages, stream, options, **kwargs):
        told = [message.text for message in messages if message.role == "user"]
        if "first" in sys.argv and told[-1] == QUESTIONS[1]:
            os.kill(os.getpid(), signal.SIGKILL)
        return ChatResponse(
            messages=[Message("assistant", [f"You said {len(told)} things: {told[0]}"])])


async def main(target: str) -> None:
    history = MemorydHistoryProvider(target or None)
    agent = Agent(Scripted(), context_providers=[history])
    session = agent.create_session(session_id="waiter")
    # A turn is stored when it ends.
    answered = sum(message.role == "assistant" for message in await history.get_messages("waiter"))
    for question in QUESTIONS[answered:]:
        print(f"{question} -> {await agent.run(question, session=session)}", flush=True)


if len(sys.argv) < 3:  # The one who starts the agent, and starts it again.
    for how in ("first", "again"):
        command = [sys.executable, __file__, "".join(sys.argv[1:]), how]
        ended = subprocess.run(command, check=False)
    sys.exit(ended.returncode)
asyncio.run(main(sys.argv[1]))
