"""Where the saver keeps what.

A thread's checkpoints of one checkpoint_ns are a namespace, so that a checkpoint and what it
consists of are written at once, or not at all:

    (*base, "threads", THREAD, NS)    c/CHECKPOINT                  the checkpoint, small values too
                                      c/CHECKPOINT!TASK/INDEX       a pending write of it
                                      b/CHANNEL/VERSION             a large value at a version
    (*base, "runs", RUN)              THREAD/NS/CHECKPOINT          that this run made it

The ids of checkpoints grow, so that the newest with its writes are a page from one end of `c/`. No
name of a part contains `/`, and what makes names too long is named by its hash. An entry of a run
is stored before its checkpoint and deleted after it, so that a run's checkpoints are always found.
"""

from __future__ import annotations

from typing import Any

from memoryd._adapters.names import MAX_NAME_BYTES, quoted

CHECKPOINTS = "c/"
BLOBS = "b/"
# `!` comes before these and all that is never quoted: a checkpoint's writes follow it directly.
_SAFE_IN_IDS = "$&'()*+,:;=@|"


def thread_name(thread_id: Any) -> str:
    """The name of a thread. Raises ValueError for one that could not be read from its name."""
    name = quoted(str(thread_id))
    if name[0] == "#":
        raise ValueError(f"thread_id: must be at most {MAX_NAME_BYTES} bytes, each of which counts "
                         "as three if it is no ASCII letter, digit or usual sign")
    return name


def checkpoint_key(checkpoint_id: str) -> str:
    return CHECKPOINTS + quoted(checkpoint_id, _SAFE_IN_IDS)


def after_checkpoint(checkpoint_id: str) -> str:
    """The least key behind those of a checkpoint and its writes."""
    return checkpoint_key(checkpoint_id) + '"'


def blob_key(channel: str, version: str | int | float) -> str:
    return f"{BLOBS}{quoted(channel)}/{quoted(str(version))}"


def task_prefix(checkpoint_id: str, task_id: str) -> str:
    return f"{checkpoint_key(checkpoint_id)}!{quoted(task_id)}/"


def write_key(checkpoint_id: str, task_id: str, index: int) -> str:
    return f"{task_prefix(checkpoint_id, task_id)}{index}"


def checkpoint_of(key: str) -> str:
    """The key of the checkpoint that a key is of; itself, unless it is a pending write's."""
    return key.partition("!")[0]


def run_key(thread: str, ns: str, checkpoint_id: str) -> str:
    return f"{thread}/{ns}/{quoted(checkpoint_id, _SAFE_IN_IDS)}"
