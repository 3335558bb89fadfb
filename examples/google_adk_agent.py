"""An agent of Google's ADK that is killed in the middle of a turn and goes on.

usage: google_adk_agent.py [TARGET]    where memoryd is; default: MEMORYD_TARGET, or localhost:50051
needs: pip install './clients/python[google-adk]'

The model is scripted. Put a real one in its place.
"""

import asyncio
import os
import signal
import subprocess
import sys

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.genai import types

from memoryd.google_adk import MemorydSessionService

QUESTIONS = ("My name is Ann.", "Tea, please.", "What was my name?")
NAMES = {"app_name": "shop", "user_id": "ann"}


def brew(drink: str) -> str:
    """Brews a pot."""
    if "first" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"one pot of {drink}"


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for content in llm_request.contents for part in content.parts]
        told = [part.text for part in parts if part.text in QUESTIONS]
        last = parts[-1]
        if last.text == QUESTIONS[1]:
            part = types.Part(function_call=types.FunctionCall(
                id="brew_1", name="brew", args={"drink": "tea"}))
        elif last.function_response:
            part = types.Part(text=f"Here: {last.function_response.response['result']}.")
        else:
            part = types.Part(
                text="Hello!" if last.text == QUESTIONS[0] else f"You said {told[0]!r}")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def main(target: str) -> None:
    sessions = MemorydSessionService(target or None)
    session = await sessions.get_session(**NAMES, session_id="tea") or (
        await sessions.create_session(**NAMES, session_id="tea"))
    agent = LlmAgent(name="waiter", model=Scripted(model="scripted"), tools=[brew])
    runner = Runner(agent=agent, session_service=sessions, app_name=NAMES["app_name"])
    answered = sum(event.is_final_response() and event.author != "user" for event in session.events)
    asked = sum(event.author == "user" for event in session.events)
    if asked > answered:  # A turn that was cut: what it stored is taken back.
        cut = [event for event in session.events if event.author == "user"][-1]
        await runner.rewind_async(user_id=NAMES["user_id"], session_id="tea",
                                  rewind_before_invocation_id=cut.invocation_id)
    for question in QUESTIONS[answered:]:
        message = types.Content(role="user", parts=[types.Part(text=question)])
        async for event in runner.run_async(
                user_id=NAMES["user_id"], session_id="tea", new_message=message):
            if event.is_final_response():
                print(f"{question} -> {event.content.parts[0].text}", flush=True)


if len(sys.argv) < 3:  # The one who starts the agent, and starts it again.
    for how in ("first", "again"):
        command = [sys.executable, __file__, "".join(sys.argv[1:]), how]
        ended = subprocess.run(command, check=False)
    sys.exit(ended.returncode)
asyncio.run(main(sys.argv[1]))
