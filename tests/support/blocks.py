"""Blocks, the models and workers behind them, and sessions that feed them with every turn."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import grpc
from google.protobuf import duration_pb2

from support.calls import Calls, assistant, job_wire, memory, user
from support.model_server import DIMENSIONS, ModelServer
from support.waiting import wait_for

from memoryd.errors import error_info

OPEN, DONE = job_wire.JOB_STATE_OPEN, job_wire.JOB_STATE_DONE
FAILED, CANCELLED = job_wire.JOB_STATE_FAILED, job_wire.JOB_STATE_CANCELLED
# Longer than any job of the tests; what is waited for is shorter.
WAIT = duration_pb2.Duration(seconds=25)


def block(name: str, kind: str, priority: int | None = None, *, worker: str = "",
          content: Iterable[str | memory.Part] = (), **options: Any) -> memory.Block:
    """A block with `options`; a content that is a str is a text part."""
    parts = [memory.Part(text=c) if isinstance(c, str) else c for c in content]
    return memory.Block(name=name, kind=kind, priority=priority, worker=worker, content=parts,
                        options_json=json.dumps(options) if options else "")


def every_turn(*blocks: memory.Block, **fields: Any) -> memory.SessionConfig:
    """A session in which a turn leaves short-term memory as soon as the next one begins, and whose
    tokens are words."""
    given = {"token_limit": 1000, "token_flush_size": 1, "chat_history_token_ratio": 0.0,
             "tokenizer": "whitespace", **fields}
    return memory.SessionConfig(blocks=blocks, **given)


def turn(text: str) -> list[memory.Message]:
    return [user(text), assistant("I see.")]


def models_file(folder: pathlib.Path, server: ModelServer,
                settings: Mapping[str, Any] | None = None) -> str:
    """The argument of memoryd for a file of settings with the models `chat` and `embed` of a model
    server. `settings` are further settings of both."""
    common = {"url": server.url, "model": "m", "allow_private": True, "retries": 0,
              **(settings or {})}
    file = folder / "models.yaml"
    # JSON is YAML.
    file.write_text(json.dumps({"models": [
        {"name": "chat", "kind": "chat", **common},
        {"name": "embed", "kind": "embedding", "dimensions": DIMENSIONS, **common},
    ]}))
    return f"--config={file}"


def memory_text(reply: Any) -> str:
    """What a Get inserted, "" for nothing."""
    found = []
    for message in reply.messages:
        texts = [message.text] if message.HasField("text") else [p.text for p in message.parts]
        found += [text for text in texts if text.startswith("<memory>")]
    assert len(found) <= 1, found
    return found[0] if found else ""


def section(reply: Any, name: str) -> list[str]:
    """The lines that a block said in a Get."""
    text = memory_text(reply)
    begin, end = f"<{name}>\n", f"\n</{name}>"
    if begin not in text:
        return []
    return text.split(begin, 1)[1].split(end, 1)[0].split("\n")


def jobs_of(calls: Calls, session_id: str, **fields: Any) -> list[job_wire.Job]:
    """All jobs, page by page."""
    found, token = [], ""
    while True:
        page = calls.ListJobs(session_id=session_id, page_token=token, **fields)
        found += page.jobs
        token = page.next_page_token
        if not token:
            return found


def drained(calls: Calls, session_id: str, attempts: int = 6000) -> list[job_wire.Job]:
    """All jobs of a session, once none is open."""
    wait_for(lambda: not calls.ListJobs(session_id=session_id, state=OPEN, page_size=1).jobs,
             attempts)
    return jobs_of(calls, session_id)


def missing(reply: Any) -> dict[str, str]:
    """Why which block is missing from a Get."""
    return {entry.block: entry.reason for entry in reply.missing_blocks}


def field_of(error: grpc.RpcError) -> str:
    """The field that an error names."""
    return error_info(error).metadata["field"]
