"""A Claude agent with the memory tool that is killed in the middle and goes on.

usage: anthropic_agent.py [TARGET]    where memoryd is; default: MEMORYD_TARGET, or localhost:50051
needs: pip install './clients/python[anthropic]'

The model is scripted. Leave `http_client` out for Claude.
"""

import json
import os
import signal
import subprocess
import sys

import anthropic
import httpx2 as httpx

from memoryd.anthropic import MemorydMemoryTool

PROGRESS = "/memories/progress.txt"
history: list = []


@anthropic.beta_tool
def work(step: str) -> str:
    """Does a step."""
    if step == "brew" and "first" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    print("now:", step, flush=True)
    return "done"


def answer(messages: list) -> list | str:
    """What the model says: the tool that it calls, and with what; or the end."""
    calls = [block for message in messages if message["role"] == "assistant"
             for block in message["content"]]
    if not calls:
        return ["memory", {"command": "view", "path": PROGRESS}]
    seen = json.dumps(messages)
    done = [step for step in ("boil", "brew", "pour") if f"noted {step}" in seen]
    last = calls[-1]["input"]
    if "step" in last:
        return ["memory", {"command": "insert", "path": PROGRESS, "insert_line": 0,
                           "insert_text": f"noted {last['step']}"}]
    if last["command"] == "view" and "does not exist" in seen:
        return ["memory", {"command": "create", "path": PROGRESS, "file_text": ""}]
    if len(done) == 3:
        return f"Done: {', '.join(done)}."
    return ["work", {"step": ("boil", "brew", "pour")[len(done)]}]


def scripted(request: httpx.Request) -> httpx.Response:
    history.extend(json.loads(request.content)["messages"])  # The runner sends what is new.
    said = answer(history)
    block = {"type": "text", "text": said} if isinstance(said, str) else {
        "type": "tool_use", "id": f"toolu_{len(history)}", "name": said[0], "input": said[1]}
    history.append({"role": "assistant", "content": [block]})
    return httpx.Response(200, json={
        "id": "msg", "type": "message", "role": "assistant", "model": "scripted", "content": [block],
        "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
        "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}})


if len(sys.argv) < 3:  # The one who starts the agent, and starts it again.
    for how in ("first", "again"):
        command = [sys.executable, __file__, "".join(sys.argv[1:]), how]
        ended = subprocess.run(command, check=False)
    sys.exit(ended.returncode)
claude = anthropic.Anthropic(
    api_key="none", http_client=httpx.Client(transport=httpx.MockTransport(scripted)))
runner = claude.beta.messages.tool_runner(
    model="scripted", max_tokens=1000, tools=[MemorydMemoryTool("tea", sys.argv[1] or None), work],
    messages=[{"role": "user", "content": "Make tea."}])
print(runner.until_done().content[0].text)
