"""A LangGraph agent that is killed in the middle and goes on, without doing anything twice.

usage: langgraph_agent.py [TARGET]    where memoryd is; default: MEMORYD_TARGET, or localhost:50051
needs: pip install './clients/python[langgraph]'
"""

import operator
import os
import signal
import subprocess
import sys
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph

from memoryd.langgraph import MemorydSaver

target = sys.argv[1] if len(sys.argv) > 1 else ""
is_second = "again" in sys.argv


class State(TypedDict):
    done: Annotated[list[str], operator.add]


def work(name: str, state: State) -> State:
    if name == "brew" and not is_second:
        os.kill(os.getpid(), signal.SIGKILL)
    print("now:", name, flush=True)
    return {"done": [name]}


if len(sys.argv) < 3:  # The one who starts the agent, and starts it again.
    for how in ("first", "again"):
        ended = subprocess.run([sys.executable, __file__, target, how], check=False)
    sys.exit(ended.returncode)
builder = StateGraph(State)
for before, name in ((START, "boil"), ("boil", "brew"), ("brew", "pour")):
    builder.add_node(name, lambda state, name=name: work(name, state)).add_edge(before, name)
graph = builder.compile(checkpointer=MemorydSaver(target or None))
config = {"configurable": {"thread_id": "tea"}}
print("done:", graph.invoke(None if is_second else {"done": []}, config, durability="sync")["done"])
