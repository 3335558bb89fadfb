"""One process of a long conversation.

usage: python -m support.agents.process FRAMEWORK PLACE PARTS

PLACE is a Place and PARTS a list of [first turn, one behind the last, whether a fork has them], as
JSON. Prints what each turn came to, and the history when all parts are done, as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from support.agents.asking import Place
from support.agents.script import script

CONVERSATIONS = {
    "llama_index": "llama_index.Conversation",
    "langchain history": "langchain.HistoryConversation",
    "langchain summary": "langchain.SummaryConversation",
    "autogen": "autogen.Conversation",
}


def main(framework: str, given_place: str, given_parts: str) -> None:
    fields = json.loads(given_place)
    place = Place(**{**fields, "folder": pathlib.Path(fields["folder"])})
    module, _, name = CONVERSATIONS[framework].partition(".")
    made = getattr(importlib.import_module(f"support.agents.{module}"), name)(place)
    questions = [turn.question for turn in script()]
    said: list[list[str]] = []
    for first, end, forked in json.loads(given_parts):
        def converse(first: int = first, end: int = end) -> list[list[str]]:
            return made.converse(questions[first:end], first // 20)

        said += in_fork(converse) if forked else converse()
    print(json.dumps({"said": said, "history": made.history()}))


def in_fork(work: Callable[[], Any]) -> Any:
    """What `work` returns in a child of this process, which waits for it."""
    end, begin = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(end)
            with os.fdopen(begin, "w", encoding="utf-8") as pipe:
                json.dump(work(), pipe)
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(begin)
    with os.fdopen(end, encoding="utf-8") as pipe:
        written = pipe.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeError(f"the fork ended with {os.waitstatus_to_exitcode(status)}")
    return json.loads(written)


if __name__ == "__main__":
    main(*sys.argv[1:])
