"""One framework's side of the matrix, in the environment that has the framework.

usage: one.py FRAMEWORK tell|ask TARGET SESSION...

`tell` has the chat in each of the sessions. `ask` goes on with it in each, and prints for each, as a
line of JSON, what is wrong with the requests that the framework's agent sends.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import sys
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

import chats


def main() -> None:
    name, what, target, *sessions = sys.argv[1:]
    framework = importlib.import_module(f"of_{name}")
    for session_id in sessions:
        if what == "tell":
            framework.tell(target, session_id)
            continue
        try:
            wrong = [f"{number}: {one}"
                     for number, (chat, violations) in enumerate(framework.asked(target, session_id))
                     for one in (*violations, *chats.refused(chat), *chats.missing(chat))]
        except Exception:
            wrong = [traceback.format_exc()]
        print(json.dumps(wrong), flush=True)


if __name__ == "__main__":
    main()
