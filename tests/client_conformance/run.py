"""Runs clients through the cases of cases.yaml, each against a scripted server.

usage: run.py CLIENT... [--case WORDS] [--driver COMMAND]
       CLIENT is a name of DRIVERS; COMMAND replaces the driver of the one client that is named.

A driver is a program on a client. It reads commands from stdin, a JSON object a line, and answers each by
one line on stdout, when it is done; stdin's end ends it.

- {"open": {"target": "127.0.0.1:50051", "timeout": 5.0, "wait_for_ready": true, "tokens": ["a", "b"]}}
  makes a client in place of the former; answer {}. `timeout` is in seconds. The n-th attempt has the n-th
  token, all further ones the last; without `tokens` there is none.
- {"call": "Put", "request": {…}, "timeout": 1.0, "cancel_after": 0.2, "take": 2} makes a call. `request` is
  the RPC's in proto JSON. `timeout`, in seconds, is the call's own. After `cancel_after` s the caller gives
  up. `take`: how many items of a stream are read. A list in `requests` is the stream of an import.
- {"close": true} closes the client; answer {}.

A call's answer is {"ok": RESULT}, {"error": {"code": "ABORTED", "reason", "field", "message", "details",
"may_have_been_done"}} or {"unsupported": true}. A caller who has given up is {"error": {"code":
"CANCELLED", …}}. RESULT is proto JSON: the RPC's reply; of CreateSession, GetSession, UpdateSession and
ImportSession the Session; of PutItem {"version": …}, of GetItem the Item or null, of DeleteItem whether
there was one; of AllMessages (GetAll, page by page) and StreamAll a list of the messages, and of WatchSession
of the replies. Remember and Recall have the arguments of the method: {"user", "messages": a text, "query"};
their results are the replies of Put and Query.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import pathlib
import shlex
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
# gRPC's server tells of each client that goes.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

from client_conformance.scripted_server import STEPS, Attempt, ScriptedServer
from support.paths import BINARY, NODE, REPOSITORY

CASES: list[dict[str, Any]] = yaml.safe_load((HERE / "cases.yaml").read_text(encoding="utf-8"))
DRIVERS: dict[str, list[str]] = {
    "python": [sys.executable, str(HERE / "python_driver.py"), "sync"],
    "python-asyncio": [sys.executable, str(HERE / "python_driver.py"), "asyncio"],
    "cpp": [str(BINARY.parent / "client_driver")],
    "typescript": [str(NODE), str(REPOSITORY / "build/typescript/build-test/driver.js")],
    "go": [str(REPOSITORY / "build/go/client_driver")],
}
_LONGEST_SECONDS = 30.0
_CASE_KEYS = {"name", "options", "calls", "without"}
_CALL_KEYS = {"call", "request", "requests", "timeout", "cancel_after", "take", "before", "server", "ok",
              "error", "attempts", "metadata", "deadline", "sends", "within", "asks"}
# What a caller needs no deadline for.
_STREAMS = ("StreamAll", "WatchSession", "ImportSession")
# RPCs that change something under a request id.
_CHANGES = ("Put", "PutBatch", "Set", "Reset", "UpdateMessage", "DeleteMessage", "UpdateContent",
            "DeleteContent", "CreateSession", "UpdateSession", "DeleteSession", "ForkSession",
            "AddFact", "UpdateFact", "DeleteFact", "UndoBlockChange", "PutItem", "DeleteItem")


class Wrong(Exception):
    """A client does otherwise than the case says."""


class Driver:
    """A driver that runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def do(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()
        line = await asyncio.wait_for(self._process.stdout.readline(), _LONGEST_SECONDS)
        if not line:
            raise Wrong(f"the driver ended with {await self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.asynccontextmanager
async def running(command: Sequence[str]) -> AsyncIterator[Driver]:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 27)
    try:
        yield Driver(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except asyncio.TimeoutError:
            process.kill()
            await process.wait()


async def run_case(case: dict[str, Any], driver: Driver) -> None:
    """Raises Wrong unless all is as the case says."""
    server = ScriptedServer()
    await server.start()
    try:
        options = {"timeout": 5.0, "wait_for_ready": True, **case.get("options", {})}
        if options.pop("nobody", False):
            await server.go_away()
        await driver.do({"open": {"target": server.target, **options}})
        for index, call in enumerate(case["calls"]):
            try:
                await _run_call(call, driver, server, options)
            except Wrong as wrong:
                raise Wrong(f"calls[{index}], {call['call']}: {wrong}") from None
            except asyncio.TimeoutError:
                raise Wrong(f"calls[{index}], {call['call']}: no answer in {_LONGEST_SECONDS} s") from None
        await driver.do({"close": True})
    finally:
        await server.stop()


async def _run_call(
    call: dict[str, Any], driver: Driver, server: ScriptedServer, options: dict[str, Any]
) -> None:
    for step in call.get("before", []):
        await _prepare(step, server)
    server.script = [{step: None} if isinstance(step, str) else step for step in call.get("server", [])]
    server.attempts = []
    given = ("call", "request", "requests", "timeout", "cancel_after", "take")
    begin = time.monotonic()
    outcome = await driver.do({key: call[key] for key in given if key in call})
    seconds = time.monotonic() - begin
    attempts = server.attempts
    if outcome.get("unsupported"):
        raise Wrong("the client has no such method, and `without` does not name it")
    _compare(call, outcome)
    if not call.get("within", [0, _LONGEST_SECONDS])[0] <= seconds <= call.get("within", [0, 10])[1]:
        raise Wrong(f"took {seconds:.2f} s, not within {call.get('within', [0, 10])}")
    wanted = call.get("attempts", len(call.get("server", [])))
    if wanted not in ("any", len(attempts)):
        raise Wrong(f"the server saw {len(attempts)} attempts, not {wanted}: "
                    f"{[attempt.rpc for attempt in attempts]}; {outcome}")
    _check_attempts(call, attempts, options)


async def _prepare(step: str | dict[str, Any], server: ScriptedServer) -> None:
    """What happens to an idle client."""
    match step:
        case "drop":
            server.break_connections()
        case "goodbye":
            await server.say_goodbye()
        case {"away": seconds}:
            await server.go_away()
            server.run(server.come_back(seconds))
        case {"pause": seconds}:
            await asyncio.sleep(seconds)
        case _:
            raise ValueError(step)


def _compare(call: dict[str, Any], outcome: dict[str, Any]) -> None:
    if "error" in call:
        if "error" not in outcome:
            raise Wrong(f"is no error: {outcome}")
        wanted = call["error"]
        found = outcome["error"]
        # One of several, by its code.
        some = [one for one in (wanted if isinstance(wanted, list) else [wanted])
                if found["code"] in (one["code"] if isinstance(one["code"], list) else [one["code"]])]
        if not some:
            raise Wrong(f"fails {found}, not {wanted}")
        # An error of the client's own has no reason.
        rest = {"reason": "", **{key: value for key, value in some[0].items() if key != "code"}}
        _expect(rest, found, "error")
    else:
        if "ok" not in outcome:
            raise Wrong(f"fails {outcome.get('error', outcome)}")
        if "ok" in call:
            _expect(call["ok"], outcome["ok"], "ok")


def _expect(wanted: Any, found: Any, at: str) -> None:
    """Whether `found` has what is wanted, and maybe further keys."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            # Proto JSON leaves out what has its default.
            _expect(value, found.get(key, type(value)()), f"{at}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            raise Wrong(f"{at}: has {len(found)} items, not {len(wanted)}: {found}")
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            _expect(one, other, f"{at}[{index}]")
    elif wanted != found:
        raise Wrong(f"{at}: is {found!r}, not {wanted!r}")


def _check_attempts(call: dict[str, Any], attempts: list[Attempt], options: dict[str, Any]) -> None:
    # `asks` names the RPCs of a call that is made of several.
    if "asks" in call:
        rpcs = [attempt.rpc for attempt in attempts]
        if rpcs != call["asks"]:
            raise Wrong(f"asks {rpcs}, not {call['asks']}")
    else:
        same = [(attempt.rpc, attempt.requests) for attempt in attempts]
        may_differ = call["call"] in (*_STREAMS, "AllMessages")
        if not may_differ and any(one != same[0] for one in same):
            raise Wrong(f"a repetition differs: {same}")
    if call["call"] in _CHANGES or (call["call"] == "BatchItems" and "sends" not in call):
        for attempt in attempts:
            if not all(attempt.request_ids):
                raise Wrong(f"a change without request id: {attempt.requests}")
            if len(set(attempt.request_ids)) < len(attempt.request_ids):
                raise Wrong(f"two changes of one request id: {attempt.requests}")
    for index, sends in enumerate(call.get("sends", [])):
        _expect(sends, attempts[index].requests[0], f"attempt {index + 1}")
    for index, metadata in enumerate(call.get("metadata", [])):
        for key, value in metadata.items():
            if attempts[index].metadata.get(key) != value:
                raise Wrong(f"attempt {index + 1}: {key} is {attempts[index].metadata.get(key)!r}")
    if call.get("deadline") == "none" or (call["call"] in _STREAMS and "timeout" not in call):
        return
    longest = call.get("deadline", call.get("timeout", options["timeout"]))
    for index, attempt in enumerate(attempts):
        if attempt.seconds is None or not attempt.seconds <= longest + 0.1:
            raise Wrong(f"attempt {index + 1}: {attempt.seconds} s to its deadline, not up to {longest}")
    if attempts and longest > 1 and attempts[0].seconds < 0.5 * longest and "before" not in call:
        raise Wrong(f"the first attempt has {attempts[0].seconds} s to its deadline, not about {longest}")


def faults_of_cases() -> list[str]:
    """What is wrong with the cases themselves."""
    found = []
    names = collections.Counter(case["name"] for case in CASES)
    found += [f"{name}: is there twice" for name, count in names.items() if count > 1]
    for case in CASES:
        found += [f"{case['name']}: {key}" for key in case.keys() - _CASE_KEYS]
        found += [f"{case['name']}: without {key}" for key in case.get("without", {}).keys() - DRIVERS.keys()]
        for call in case["calls"]:
            found += [f"{case['name']}: {key}" for key in call.keys() - _CALL_KEYS]
            for step in call.get("server", []):
                name = step if isinstance(step, str) else next(iter(step))
                found += [f"{case['name']}: step {name}"] if name not in STEPS else []
    return found


def cases_of(client: str, words: str = "") -> list[dict[str, Any]]:
    """The cases of a client: all but those that say why it is left out."""
    return [case for case in CASES if client not in case.get("without", {}) and words in case["name"]]


async def run_client(client: str, words: str, command: Sequence[str]) -> int:
    """Prints what is wrong and a line for the client; returns how many cases it fails."""
    cases = cases_of(client, words)
    failed = 0
    async with contextlib.AsyncExitStack() as stack:
        driver = await stack.enter_async_context(running(command))
        for case in cases:
            try:
                await run_case(case, driver)
            except (Wrong, asyncio.TimeoutError, OSError) as wrong:
                failed += 1
                print(f"{client}: {case['name']}: {wrong}", flush=True)
                # What it still does is no further case's.
                await stack.aclose()
                driver = await stack.enter_async_context(running(command))
    left_out = len([case for case in CASES if words in case["name"]]) - len(cases)
    print(f"{client}: {len(cases) - failed} passed, {failed} failed, {left_out} left out", flush=True)
    return failed


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("client", nargs="+", choices=sorted(DRIVERS))
    parser.add_argument("--case", default="", help="words in the names of the cases to run")
    parser.add_argument("--driver", help="command of the driver, in place of DRIVERS'")
    given = parser.parse_args()
    faults = faults_of_cases()
    for fault in faults:
        print(fault)
    failed = await asyncio.gather(*(
        run_client(client, given.case, shlex.split(given.driver) if given.driver else DRIVERS[client])
        for client in given.client))
    return 1 if any(failed) or faults else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
