"""An AutoGen agent whose memory outlives its process, with a scripted model.

usage: autogen_agent.py [TARGET]      where memoryd is; default: MEMORYD_TARGET, or localhost:50051
needs: pip install './clients/python[autogen]' autogen-agentchat autogen-ext
"""

import asyncio
import os
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_core.memory import MemoryContent
from autogen_ext.models.replay import ReplayChatCompletionClient

from memoryd.autogen import ListMemory

target = sys.argv[1] if len(sys.argv) > 1 else ""
restarted = "restarted" in sys.argv


async def main() -> None:
    memory = ListMemory(session_id="waiter", target=target or None)
    if restarted:
        task, answer = "The usual, please.", "One pot of tea."
    else:
        task, answer = "I drink tea, never coffee.", "I'll remember that."
        await memory.add(MemoryContent(content="Guest: " + task, mime_type="text/plain"))
    model = ReplayChatCompletionClient([answer])
    agent = AssistantAgent("waiter", model, memory=[memory])
    for message in (await agent.run(task=task)).messages:
        print(f"{message.source} {message.type}: {message.to_text()}", flush=True)
    await memory.close()


asyncio.run(main())
if not restarted:
    os.execv(sys.executable, [sys.executable, __file__, target, "restarted"])
