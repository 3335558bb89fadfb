"""Where the saver keeps what.

A thread's checkpoints of one checkpoint_ns are a namespace, so that a checkpoint and what it
consists of are written at once, or not at all:

    (*base, "threads", THREAD, NS)    c/CHECKPOINT                  the checkpoint
                                      b/CHANNEL/VERSION             a channel's value at a version
                                      w/CHECKPOINT/TASK/INDEX       a pending write
    (*base, "runs", RUN)              THREAD/NS/CHECKPOINT          that this run made it

The ids of checkpoints grow, so that the newest are a page from one end of `c/`. No name of a part
contains `/`, and what makes names too long is named by its hash.
"""

from __future__ import annotations

import hashlib
import urllib.parse
from typing import Any

CHECKPOINTS = "c/"
BLOBS = "b/"
WRITES = "w/"
_MAX_BYTES = 256
_SAFE = " !$&'()*+,:;=@|"


def quoted(text: str) -> str:
    """The text as a name or a part of a key. Never empty, and different for different texts."""
    if not text:
        return "%"
    made = urllib.parse.quote(text, safe=_SAFE, errors="surrogatepass")
    if made[0] == " " or made[-1] == " ":
        made = made.replace(" ", "%20")
    if len(made) <= _MAX_BYTES:
        return made
    return "#" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def unquoted(name: str) -> str:
    """The text of a name that is no hash."""
    return "" if name == "%" else urllib.parse.unquote(name, errors="surrogatepass")


def thread_name(thread_id: Any) -> str:
    """The name of a thread. Raises ValueError for one that could not be read from its name."""
    name = quoted(str(thread_id))
    if name[0] == "#":
        raise ValueError(f"thread_id: must be at most {_MAX_BYTES} bytes, each of which counts as "
                         "three if it is no ASCII letter, digit or usual sign")
    return name


def checkpoint_key(checkpoint_id: str) -> str:
    return CHECKPOINTS + quoted(checkpoint_id)


def blob_key(channel: str, version: str | int | float) -> str:
    return f"{BLOBS}{quoted(channel)}/{quoted(str(version))}"


def writes_prefix(checkpoint_id: str) -> str:
    return f"{WRITES}{quoted(checkpoint_id)}/"


def write_key(checkpoint_id: str, task_id: str, index: int) -> str:
    return f"{writes_prefix(checkpoint_id)}{quoted(task_id)}/{index}"


def run_key(thread: str, ns: str, checkpoint_id: str) -> str:
    return f"{thread}/{ns}/{quoted(checkpoint_id)}"
