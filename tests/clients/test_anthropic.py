"""Claude's memory tool in memoryd, beside the library's own in a folder."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import grpc
import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

from support import paths
from support.server import Server

from memoryd import Client, MemorydError
from memoryd.anthropic import AsyncMemorydMemoryTool, Connection, MemorydMemoryTool

SEED = 29
OPERATIONS = 2500
COMMANDS = {
    "view": ("path",), "create": ("path", "file_text"), "delete": ("path",),
    "str_replace": ("path", "old_str", "new_str"), "insert": ("path", "insert_line", "insert_text"),
    "rename": ("old_path", "new_path"),
}
NAMES = ("a", "b", "a.txt", "notes.md", ".hidden", "Ümläut", "two words", "50%", "a+b", "日本", "👩‍👩‍👧")
TEXTS = ("", "one", "one\ntwo\n", "one\ntwo\nthree", "a\r\nb\r\n", "\n\n", "tab\there", "日本\n",
         "x" * 2000, "nul\0nul", "one one", "🙂\u2028line")
# What a directory has depends on the file system; ours has one size.
DIRECTORY_SIZE = re.compile(r"^[\d.]+[BKMG]\t(?=[^\t]*/$)|^[\d.]+[BKMG]\t(?=/memories[^\t]*$)", re.MULTILINE)


@pytest.fixture
def tool(server) -> MemorydMemoryTool:
    return MemorydMemoryTool(uuid.uuid4(), server.target)


def asked(tool: Any, command: str, *arguments: Any, **more: Any) -> Any:
    """What the tool says to a command, or how it refuses."""
    given = dict(zip(COMMANDS[command], arguments, strict=True))
    return tool.call({"command": command, **given, **more})


def refused(tool: Any, command: str, *arguments: Any) -> str:
    with pytest.raises(ToolError) as error:
        asked(tool, command, *arguments)
    assert isinstance(error.value.content, str)
    return error.value.content


def settled(tool: Any, command: str, *arguments: Any, **more: Any) -> tuple[str, str]:
    """What comes of a call: how it ended, and what it said."""
    try:
        result = asked(tool, command, *arguments, **more)
        return "said", asyncio.run(result) if asyncio.iscoroutine(result) else result
    except ToolError as error:
        return "refused", str(error.content)
    except OSError:
        # What the file system refuses, ours refuses in words.
        return "refused", "by the system"


class Commands:
    """Random commands, of which every other names what is in a folder."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._random = random.Random(seed)
        self._folder = folder

    def path(self) -> str:
        names = self._random.choices(NAMES, k=self._random.randint(0, 3))
        kind = self._random.random()
        known = sorted(path.relative_to(self._folder) for path in self._folder.rglob("*"))
        if kind < 0.5 and known:
            return f"/{self._random.choice(known)}"
        if kind > 0.95:
            return self._random.choice(
                ["/memories", "/memories/", "/memories/../x", "/elsewhere", "", "/memories/..",
                 "/memories/a/../b", "/memories//a", "/memories/./a", "/memories/a/", "memories/a"])
        return "/".join(["/memories", *names])

    def next(self) -> tuple[str, list[Any], dict[str, Any]]:
        pick = self._random.choice
        command = self._random.choices(
            [*COMMANDS], weights=[4, 6, 1, 4, 4, 2])[0]
        more: dict[str, Any] = {}
        arguments: list[Any] = [self.path()]
        if command == "view" and self._random.random() < 0.5:
            more["view_range"] = pick(
                [[1, 1], [1, -1], [2, 3], [0, 2], [3, 1], [-4, 2], [2, 99], [1], [1, -2], None])
        elif command == "create":
            arguments.append(pick(TEXTS))
        elif command == "str_replace":
            arguments += [pick(("one", "two", "o", "", "\n", "absent", "日")), pick(TEXTS)]
        elif command == "insert":
            arguments += [self._random.randint(-1, 4), pick(TEXTS)]
        elif command == "rename":
            arguments.append(self.path())
        return command, arguments, more


def directories(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_dir()}


def test_the_tool_is_as_the_librarys_own(server, tmp_path):
    theirs = BetaLocalFilesystemMemoryTool(str(tmp_path))
    memory_id = uuid.uuid4()
    ours = [kind(memory_id, server.target) for kind in (MemorydMemoryTool, AsyncMemorydMemoryTool)]
    commands, picked = Commands(SEED, tmp_path), random.Random(SEED)
    ended: dict[str, int] = {}
    for _ in range(OPERATIONS):
        command, arguments, more = commands.next()
        before = directories(tmp_path)
        how, expected = settled(theirs, command, *arguments, **more)
        if how == "refused":
            # A command that fails leaves the directories that it has made; ours leaves none.
            for made in sorted(directories(tmp_path) - before, reverse=True):
                made.rmdir()
        found = settled(picked.choice(ours), command, *arguments, **more)
        said = DIRECTORY_SIZE.sub("", found[1])
        context = f"{command} {arguments} {more}"
        assert found[0] == how, context
        if expected != "by the system":
            assert said == DIRECTORY_SIZE.sub("", expected), context
        ended[command + how] = ended.get(command + how, 0) + 1
    assert len(ended) == 2 * len(COMMANDS) and min(ended.values()) >= 10, ended
    for path in tmp_path.glob("memories/**/*"):
        shown = "/memories/" + str(path.relative_to(tmp_path / "memories"))
        assert DIRECTORY_SIZE.sub("", asked(ours[0], "view", shown)) == DIRECTORY_SIZE.sub(
            "", asked(theirs, "view", shown))


def test_a_memory_is_seen_by_other_tools_and_cleared(server, tool):
    memory_id = uuid.uuid4()
    first, second = (MemorydMemoryTool(memory_id, server.target) for _ in range(2))
    asked(first, "create", "/memories/a/b.txt", "tea\n")
    asked(tool, "create", "/memories/a/b.txt", "other\n")
    assert asked(second, "view", "/memories").splitlines()[1:] == [
        "4K\t/memories", "4K\t/memories/a/", "4B\t/memories/a/b.txt"]
    assert second.clear_all_memory() == "All memory cleared"
    assert asked(first, "view", "/memories").splitlines()[1:] == ["4K\t/memories"]
    assert "other" in asked(tool, "view", "/memories/a/b.txt")


def test_many_writers_of_one_directory_lose_nothing(server):
    memory_id = uuid.uuid4()
    asked(MemorydMemoryTool(memory_id, server.target), "create", "/memories/log", "0\n")
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            tool = MemorydMemoryTool(memory_id, server.target)
            for line in range(5):
                asked(tool, "create", f"/memories/deep/er/{number}-{line}", "x")
                asked(tool, "insert", "/memories/log", 0, f"{number}-{line}")
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failed
    tool = MemorydMemoryTool(memory_id, server.target)
    written = {f"{number}-{line}" for number in range(6) for line in range(5)}
    lines = asked(tool, "view", "/memories/log").splitlines()[1:]
    assert {line.partition("\t")[2] for line in lines} == {*written, "0", ""}
    assert len(lines) == len(written) + 2
    assert len(asked(tool, "view", "/memories/deep/er").splitlines()) == len(written) + 2


def test_a_directory_that_others_write_to_goes_as_a_whole(server):
    memory_id = uuid.uuid4()
    tools = [MemorydMemoryTool(memory_id, server.target) for _ in range(3)]
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for line in range(10):
                asked(tools[number], "create", f"/memories/d/{number}/{line}", "x")
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    for at in range(10):
        settled(tools[2], "delete", "/memories/d")
        settled(tools[2], "rename", "/memories/d", f"/memories/moved{at}")
    for writer in writers:
        writer.join()
    assert not failed
    with Client(server.target) as client:
        keys = {item.wire.key for item in client.list_items(("anthropic", str(memory_id)))}
    # A file has its text, and a directory above it.
    tree = {key.removeprefix("tree/") for key in keys if key.startswith("tree/")}
    for path in (key.removeprefix("file/") for key in keys if key.startswith("file/")):
        assert path in tree
    for path in tree:
        assert "/" not in path or path.rpartition("/")[0] in tree


def test_files_are_found_by_their_words(server, tool):
    memory_id = uuid.uuid4()
    tool = MemorydMemoryTool(memory_id, server.target)
    asked(tool, "create", "/memories/diet.md", "Ann drinks green tea.")
    asked(tool, "create", "/memories/home.md", "Ann lives in Lisbon.")
    with Client(server.target) as client:
        found = client.search_items(("anthropic", str(memory_id)), query="tea", limit=1)
    assert [(one.wire.key, one.value) for one in found] == [
        ("file/diet.md", "Ann drinks green tea.")]


def test_a_memory_of_a_subject_is_erased_with_it(server):
    memory_id, subject = uuid.uuid4(), f"ann-{uuid.uuid4().hex}"
    tool = MemorydMemoryTool(memory_id, server.target, subject=subject)
    asked(tool, "create", "/memories/a.txt", "x")
    with pytest.raises(MemorydError, match="CONFIG_MISMATCH"):
        asked(MemorydMemoryTool(memory_id, server.target, subject="bob"), "create", "/memories/b",
              "x")
    with Client(server.target) as client:
        client.erase_subject(subject)
    assert "does not exist" in refused(tool, "view", "/memories/a.txt")


def test_large_directories_are_deleted_and_not_renamed(server, tool):
    for number in range(201):
        asked(tool, "create", f"/memories/many/{number}", "x")
    assert "Cannot rename /memories/many" in refused(
        tool, "rename", "/memories/many", "/memories/other")
    assert asked(tool, "delete", "/memories/many") == "Successfully deleted /memories/many"
    assert asked(tool, "view", "/memories").splitlines()[1:] == ["4K\t/memories"]


# Bad input.


@pytest.mark.parametrize("text", ["a\ud800b", "\udfff"])
def test_halves_of_characters_are_refused_and_nothing_is_stored(tool, text):
    assert "half of a surrogate pair" in refused(tool, "create", "/memories/a", text)
    assert "does not exist" in refused(tool, "view", "/memories/a")
    assert "half" in refused(tool, "create", f"/memories/{text}", "x")
    assert "NUL" in refused(tool, "create", "/memories/a\0b", "x")
    asked(tool, "create", "/memories/a", "one")
    assert "half" in refused(tool, "str_replace", "/memories/a", "one", text)
    assert "half" in refused(tool, "insert", "/memories/a", 0, text)
    assert "one" in asked(tool, "view", "/memories/a")


def test_long_paths_are_refused_and_what_they_may_have_is_said(tool):
    longest = "/memories/" + "/".join(["d" * 100] * 10)
    asked(tool, "create", longest, "x")
    assert "at most 1019 bytes" in refused(tool, "create", longest + "e" * 20, "x")


def test_a_text_of_5_mb_comes_back(tool):
    text = "line\n" * 1_000_000
    asked(tool, "create", "/memories/large", text)
    assert "exceeds maximum line limit" in refused(tool, "view", "/memories/large")
    asked(tool, "create", "/memories/long", "x" * 5_000_000)
    shown = asked(tool, "view", "/memories/long")
    assert shown.endswith("x" * 5_000_000)


def test_what_a_command_lacks_is_named_and_nothing_is_stored(tool):
    asked(tool, "create", "/memories/b", "x")
    for command, field in (
            ({"command": "create", "path": "/memories/a"}, "file_text"),
            ({"command": "view"}, "path"),
            ({"command": "str_replace", "path": "/memories/b", "old_str": "x"}, "new_str"),
            ({"command": "insert", "path": "/memories/b", "insert_text": "y"}, "insert_line")):
        with pytest.raises(ToolError, match=f"{field} must be a"):
            tool.call(command)
    assert asked(tool, "view", "/memories").splitlines()[2:] == ["1B\t/memories/b"]
    with pytest.raises(NotImplementedError, match="peek"):
        tool.call({"command": "peek", "path": "/memories/a"})
    assert "does not exist" in refused(tool, "delete", "/memories/a")
    assert "does not exist" in refused(tool, "delete", "/memories/a")


def test_an_id_must_be_one():
    for bad in (True, None, 1.5):
        with pytest.raises(TypeError, match="an id is"):
            MemorydMemoryTool(bad)


def test_a_server_that_is_gone_is_an_error_that_says_so(store):
    with Server(store) as server:
        tool = MemorydMemoryTool("gone", Connection(server.target, timeout=0.5))
        asked(tool, "create", "/memories/a", "x")
    with pytest.raises(MemorydError) as error:
        asked(tool, "view", "/memories/a")
    assert error.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def test_a_tool_says_what_it_is(tool):
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}
    cached = AsyncMemorydMemoryTool("a", cache_control={"type": "ephemeral"})
    assert cached.to_dict()["cache_control"] == {"type": "ephemeral"}


# The agent.


EXAMPLE = paths.REPOSITORY / "examples/anthropic_agent.py"
SAID = ["now: boil", "now: brew", "now: pour", "Done: boil, brew, pour."]


def test_the_example_goes_on_after_it_was_killed(store):
    source = str(paths.REPOSITORY / "clients/python/src")
    with Server(store) as server:
        done = subprocess.run(
            [sys.executable, str(EXAMPLE), server.target], capture_output=True, text=True,
            timeout=120, env={**os.environ, "PYTHONPATH": source}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == SAID


def test_the_example_goes_on_wherever_it_is_killed(store, killed_and_again):
    """Nothing is lost or doubled, but for a step that was done before a kill, and not noted yet."""
    with Server(store) as server:
        tool = MemorydMemoryTool("tea", server.target)
        for first, second in killed_and_again(EXAMPLE, server.target):
            assert second[-1] == SAID[-1]
            done = [line for line in first + second if line.startswith("now: ")]
            assert list(dict.fromkeys(done)) == SAID[:-1] and len(done) <= len(SAID)
            noted = asked(tool, "view", "/memories/progress.txt")
            assert re.findall(r"noted (\w+)", noted) == ["pour", "brew", "boil"]
            tool.clear_all_memory()
