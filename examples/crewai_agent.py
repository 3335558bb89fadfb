"""A CrewAI memory whose program is killed in the middle and goes on, without doing a step twice.

usage: crewai_agent.py [TARGET]    where memoryd is; default: MEMORYD_TARGET, or localhost:50051
needs: pip install './clients/python[crewai]'

The embedder counts letters. Put a real one in its place, and give a Crew the memory.
"""

import os
import signal
import subprocess
import sys

from crewai.memory import Memory

from memoryd.crewai import MemorydStorage

STEPS = ("boil", "brew", "pour")


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0 + text.count(chr(letter)) for letter in range(ord("a"), ord("z") + 1)]
            for text in texts]


def work(step: str) -> None:
    if step == "brew" and "first" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    print("now:", step, flush=True)


if len(sys.argv) < 3:  # The one who starts the program, and starts it again.
    for how in ("first", "again"):
        command = [sys.executable, __file__, "".join(sys.argv[1:]), how]
        ended = subprocess.run(command, check=False)
    sys.exit(ended.returncode)
memory = Memory(storage=MemorydStorage("tea", sys.argv[1] or None), embedder=embed,
                consolidation_threshold=1.0)
for step in STEPS:
    found = memory.recall(step, scope="/done", depth="shallow")
    if step not in [match.record.content for match in found]:
        work(step)
        memory.remember(step, scope="/done", categories=["step"], metadata={}, importance=0.5)
done = {record.content for record in memory.list_records("/done")}
print("done:", ", ".join(step for step in STEPS if step in done))
memory.close()
