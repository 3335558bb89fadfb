"""memoryd.local(): a server that its users start, share and end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator

import grpc
import pytest

from support.paths import BINARY, REPOSITORY, server_environment
from support.waiting import wait_for

import memoryd
from memoryd import MemorydError, _server_binary, _supervisor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import local_rounds

PROGRAM = pathlib.Path(__file__).with_name("local_user.py")
SOURCE = str(pathlib.Path(memoryd.__file__).parents[1])
# What stays of a store whose server has ended, beside the log.
AT_REST = {"memoryd.db", "memoryd.db.lock", "local.lock", "server.lock", "server.log"}
WAIT_ATTEMPTS = 6000


@pytest.fixture
def base() -> Iterator[pathlib.Path]:
    """A folder whose path leaves room for that of a socket in it."""
    place = pathlib.Path(os.path.realpath("/tmp")) / f"memoryd-test-{os.urandom(4).hex()}"
    place.mkdir(mode=0o700)
    yield place
    shutil.rmtree(place)


@pytest.fixture(autouse=True)
def temporary(monkeypatch, base, tmp_path_factory) -> Iterator[pathlib.Path]:
    """The TMPDIR of this process and of those that it starts, in which nothing stays. They find the
    binary under test."""
    tmp_path_factory.getbasetemp()  # pytest's own, for all tests, is elsewhere.
    place = base / "tmp"
    place.mkdir(mode=0o700)
    for name in [name for name in os.environ if name.startswith("MEMORYD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MEMORYD_BINARY", str(BINARY))
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield place
    assert list(place.iterdir()) == []


@pytest.fixture
def folder(base) -> Iterator[pathlib.Path]:
    """A store's folder, not made yet. No server is left behind in it."""
    place = base / "store"
    yield place
    local_rounds.wait_until_nobody_runs(place)


class User:
    """A process that does what it is told, see local_user.py."""

    def __init__(self, **variables: str) -> None:
        path = os.pathsep.join([SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, "PYTHONPATH": path, **variables})

    def tell(self, command: str) -> None:
        print(command, file=self.process.stdin, flush=True)

    def answer(self) -> str:
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, command: str) -> str:
        self.tell(command)
        return self.answer()

    def open(self, path: object = "") -> tuple[str, str]:
        """The server's address, and when it began."""
        verb, *found = self.ask(f"open {path}" if path else "open").split(" ")
        assert verb == "opened", found
        target, start = found
        return target, start

    def put(self, text: str) -> None:
        assert self.ask(f"put {text}") == "put"

    def texts(self) -> list[str]:
        return json.loads(self.ask("texts"))

    def close(self) -> None:
        assert self.ask("close") == "closed"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> User:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


def put(memory: memoryd.LocalClient, text: str) -> None:
    memory.put("s", [memoryd.message("user", text)], timeout=60)


def texts(memory: memoryd.LocalClient) -> list[str]:
    return [m.text for m in memory.get_all("s", timeout=60)]


def start_of(memory: memoryd.LocalClient) -> str:
    began = memory.server_info().start_time
    return f"{began.seconds}.{began.nanos:09}"


def running(folder: pathlib.Path) -> dict[str, int]:
    """The supervisor's and the server's id, of those that run in the folder."""
    return local_rounds.running(folder)


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def program(path: pathlib.Path, code: str) -> str:
    """A program in Python that stands in for the server's binary."""
    path.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {SOURCE!r})\n{code}")
    path.chmod(0o700)
    return str(path)


def refused(**arguments) -> MemorydError:
    with pytest.raises(MemorydError) as raised:
        memoryd.local(**arguments).close()
    return raised.value


def test_memory_outlives_its_server(folder):
    with memoryd.local(folder) as memory:
        assert memory.target == f"unix:{folder}/memoryd.sock"
        assert mode(folder) == 0o700
        assert not (mode(folder / "memoryd.sock") | mode(folder / "local.sock")) & 0o077
        put(memory, "Tea, please.")
        first = start_of(memory)
    # Already: close() returns when the server has ended.
    assert "server" not in running(folder)
    assert {place.name for place in folder.iterdir()} == AT_REST
    with memoryd.local(str(folder)) as memory:
        assert texts(memory) == ["Tea, please."]
        assert start_of(memory) != first


def test_the_home_folder_has_a_short_name(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    with memoryd.local("~/store") as memory:
        assert memory.target == f"unix:{folder}/memoryd.sock"


def test_two_spellings_are_one_store(folder):
    link = folder.parent / "link"
    link.symlink_to(folder)
    with memoryd.local(folder) as memory, memoryd.local(link) as other:
        assert start_of(memory) == start_of(other)


def test_two_processes_share_a_server(folder):
    with User() as first, User() as second:
        assert first.open(folder) == second.open(folder)
        first.put("From the first.")
        second.put("From the second.")
        first.close()
        assert set(running(folder)) == {"supervisor", "server"}
        assert second.texts() == ["From the first.", "From the second."]
        second.close()
        assert "server" not in running(folder)


def test_another_client_may_use_the_address(folder):
    with memoryd.local(folder) as memory, memoryd.Client(memory.target) as client:
        put(memory, "Tea")
        assert [m.text for m in client.get_all("s")] == ["Tea"]


def test_closing_twice_is_closing_once(folder):
    with memoryd.local(folder) as memory:
        other = memoryd.local(folder)
        other.close()
        other.close()
        put(memory, "Tea")


@pytest.mark.parametrize("users", [2, 10])
def test_who_comes_at_once_gets_one_server(folder, users):
    with contextlib.ExitStack() as ending:
        there = [ending.enter_context(User()) for _ in range(users)]
        for user in there:  # They have imported all they need.
            assert user.ask("texts").startswith("failed: AttributeError")
        for _ in range(2):
            for user in there:
                user.tell(f"open {folder}")
            assert len({user.answer() for user in there}) == 1
            for number, user in enumerate(there):
                user.tell(f"put {number}")
            assert {user.answer() for user in there} == {"put"}
            for user in there:
                user.tell("close")
            assert {user.answer() for user in there} == {"closed"}
            assert "server" not in running(folder)
        there[0].open(folder)
        assert sorted(there[0].texts()) == sorted(2 * [str(number) for number in range(users)])


def test_a_server_outlives_the_crash_of_who_started_it(folder):
    with User() as first, User() as second:
        started = first.open(folder)
        first.put("Tea")
        assert second.open(folder) == started
        first.kill()
        second.put("Coffee")
        assert second.texts() == ["Tea", "Coffee"]
        assert set(running(folder)) == {"supervisor", "server"}
        second.kill()
        local_rounds.wait_until_nobody_runs(folder)
    with memoryd.local(folder) as memory:
        assert texts(memory) == ["Tea", "Coffee"]


def test_a_process_that_does_not_close_is_gone_all_the_same(folder):
    with User() as user:
        user.open(folder)
        user.tell("exit")
        assert user.process.wait() == 0
        local_rounds.wait_until_nobody_runs(folder)


def test_who_reads_a_users_output_does_not_wait_for_the_server(folder):
    with memoryd.local(folder), User() as user:
        user.open(folder)
        user.tell("exit")
        assert user.process.stdout.read() == ""  # Up to its end.
    code = f"import memoryd, os; memoryd.local({str(folder)!r}); print('up', flush=True); os._exit(0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": SOURCE}, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "up\n"), done.stderr


def test_a_server_that_is_killed_comes_back(folder):
    with memoryd.local(folder) as memory:
        put(memory, "Tea")
        first = start_of(memory)
        os.kill(running(folder)["server"], signal.SIGKILL)
        put(memory, "Coffee")
        assert texts(memory) == ["Tea", "Coffee"]
        assert start_of(memory) != first


def test_an_ephemeral_server_that_is_killed_does_not(temporary):
    with memoryd.local(ephemeral=True) as memory:
        place = pathlib.Path(memory.target.removeprefix("unix:")).parent
        os.kill(running(place)["server"], signal.SIGKILL)
        wait_for(memory._share.is_over, WAIT_ATTEMPTS)
        assert not place.exists()
        with pytest.raises(MemorydError, match="has ended"):
            memory.get("s")


def test_a_server_ends_with_its_supervisor_and_begins_with_the_next_call(folder):
    with User() as first, User() as second:
        first.open(folder)
        second.open(folder)
        first.put("Tea")
        for text in ("Coffee", "Milk"):
            os.kill(running(folder)["supervisor"], signal.SIGKILL)
            local_rounds.wait_until_nobody_runs(folder)
            second.put(text)
            assert first.texts()[-1] == text
            # Both are users again.
            second.close()
            assert set(running(folder)) == {"supervisor", "server"}
            second.open(folder)
        assert first.texts() == ["Tea", "Coffee", "Milk"]
        first.close()
        second.close()
        assert "server" not in running(folder)


def test_the_asynchronous_twin_begins_again_too(folder):
    async def use() -> None:
        async with await memoryd.local_async(folder) as memory:
            for number in range(3):
                await memory.put("s", [memoryd.message("user", str(number))], timeout=60)
                os.kill(running(folder)["supervisor"], signal.SIGKILL)
                await asyncio.to_thread(local_rounds.wait_until_nobody_runs, folder)
            assert [m.text async for m in memory.stream_all("s")] == ["0", "1", "2"]

    asyncio.run(use())


def test_another_begins_behind_the_server_of_a_killed_supervisor(folder):
    with memoryd.local(folder) as memory:
        put(memory, "Tea")
        there = running(folder)
        # It holds the store for as long as it is stopped.
        os.kill(there["server"], signal.SIGSTOP)
        os.kill(there["supervisor"], signal.SIGKILL)
        with User() as user:
            user.tell(f"open {folder}")
            wait_for(lambda: running(folder).get("supervisor"), WAIT_ATTEMPTS)
            assert running(folder)["server"] == there["server"]
            os.kill(there["server"], signal.SIGCONT)
            assert user.answer().startswith("opened")
            assert user.texts() == ["Tea"]


def test_sockets_of_a_crash_are_stale(folder):
    with memoryd.local(folder) as memory:
        put(memory, "Tea")
        there = running(folder)
        # As a machine that loses its power.
        os.kill(there["supervisor"], signal.SIGSTOP)
        os.kill(there["server"], signal.SIGKILL)
        os.kill(there["supervisor"], signal.SIGKILL)
        local_rounds.wait_until_nobody_runs(folder)
    assert (folder / "local.sock").is_socket() and (folder / "memoryd.sock").is_socket()
    with memoryd.local(folder) as memory:
        assert texts(memory) == ["Tea"]
    assert {place.name for place in folder.iterdir()} == AT_REST


def test_a_path_that_can_not_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        error = refused(path=place)
        assert error.code == grpc.StatusCode.FAILED_PRECONDITION
        assert str(place) in error.message


def test_a_read_only_home(monkeypatch):
    # Where not even root may write.
    for place in ("/sys", "/sys/memoryd"):
        error = refused(path=place)
        assert error.code == grpc.StatusCode.FAILED_PRECONDITION
        assert error.message.startswith(f"{place}: ")


@pytest.mark.parametrize("name", ["x" * 100, "José's agent, #1 100%"])
def test_a_path_that_does_not_do_for_a_socket(tmp_path, temporary, name):
    place = tmp_path / name / "store"
    elsewhere = temporary / "other"
    elsewhere.mkdir()
    # Users need not agree where temporary files are.
    with User() as first, User(TMPDIR=str(elsewhere)) as second:
        target, start = first.open(place)
        assert pathlib.Path(target.removeprefix("unix:")).parent.parent == temporary
        assert mode(pathlib.Path(target.removeprefix("unix:")).parent) == 0o700
        assert second.open(place) == (target, start)
        first.put("Tea")
        # What is left of a crash is taken over.
        os.kill(running(place)["supervisor"], signal.SIGKILL)
        local_rounds.wait_until_nobody_runs(place)
        assert second.open(place)[0] == target
        assert second.texts() == ["Tea"]
        for user in (first, second):
            user.close()
    local_rounds.wait_until_nobody_runs(place)
    assert {found.name for found in place.iterdir()} == AT_REST
    elsewhere.rmdir()


def test_no_folder_does_for_a_socket(tmp_path, monkeypatch):
    monkeypatch.setattr(_supervisor, "_SOCKET_PATH", _supervisor.re.compile("none"))
    with pytest.raises(OSError, match="set TMPDIR"):
        _supervisor._sockets_of(str(tmp_path))


def test_a_folder_in_the_place_of_another_has_its_own_server(folder):
    with User() as first, User() as second, User() as third:
        first.open(folder)
        first.put("Tea")
        folder.rename(folder.parent / "moved")
        second.open(folder)
        assert second.texts() == []
        first.close()  # Its server takes only its own sockets along.
        local_rounds.wait_until_nobody_runs(folder.parent / "moved")
        second.put("Coffee")
        third.open(folder)
        assert third.texts() == ["Coffee"]


def test_a_child_is_a_user_too(folder):
    with User() as user:
        user.open(folder)
        user.put("Before")
        assert user.ask("fork") == "forked"
        assert user.ask("child put In the child") == "put"
        user.put("In the parent")
        user.close()
        assert set(running(folder)) == {"supervisor", "server"}
        assert json.loads(user.ask("child texts")) == ["Before", "In the child", "In the parent"]
        assert user.ask("child close") == "closed"
        assert "server" not in running(folder)


def test_a_child_that_ends_takes_nothing_along(folder):
    with User() as user:
        user.open(folder)
        assert user.ask("fork") == "forked"
        assert user.ask("child close") == "closed"
        user.put("Tea")
        assert user.texts() == ["Tea"]


@pytest.mark.parametrize("variables", [
    {"MEMORYD_LISTEN": "nowhere", "MEMORYD_STORE": "postgresql://nowhere/x"},
    {"MEMORYD_CONFIG": "/nowhere/memoryd.yaml"},
    {"MEMORYD_TARGET": "localhost:1", "MEMORYD_ADDRESS": "localhost:1"},
    {"MEMORYD_CREDENTIALS": "/nowhere", "MEMORYD_TLS_CERT": "/nowhere"},
])
def test_no_variable_of_a_servers_reaches_it(folder, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with memoryd.local(folder) as memory:
        put(memory, "Tea")
        assert texts(memory) == ["Tea"]


STAND_IN = """
import signal
from concurrent.futures import ThreadPoolExecutor
import grpc
from memoryd.v1 import server_service_pb2 as wire
from memoryd.v1 import server_service_pb2_grpc
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
class Info(server_service_pb2_grpc.ServerServiceServicer):
    def GetServerInfo(self, request, context):
        return wire.GetServerInfoResponse(
            version="7.8.9", store=wire.StoreDescription(schema_version=SCHEMA))
server = grpc.server(ThreadPoolExecutor(2))
if SCHEMA:
    server_service_pb2_grpc.add_ServerServiceServicer_to_server(Info(), server)
listen, = (a.split("=", 1)[1] for a in sys.argv if a.startswith("--listen="))
server.add_insecure_port(listen)
server.start()
print("listening on", listen, flush=True)
signal.sigwait([signal.SIGTERM])
server.stop(None).wait()
"""


def of_schema(folder: pathlib.Path, schema: int) -> str:
    """A server of another version."""
    return program(folder.parent / f"of_schema_{schema}", f"SCHEMA = {schema}\n{STAND_IN}")


def test_a_server_of_a_later_version_is_joined(folder):
    with (memoryd.local(folder, binary=of_schema(folder, 99)) as first,
          memoryd.local(folder) as second):
        assert first.server_info().version == second.server_info().version == "7.8.9"


def test_a_server_of_an_earlier_schema_is_refused(folder):
    error = refused(path=folder, binary=of_schema(folder, 9))
    assert error.code == grpc.StatusCode.FAILED_PRECONDITION
    for words in (str(folder), "memoryd 7.8.9", "schema 9", "schema 11"):
        assert words in error.message
    # Who was refused is no user.
    assert "server" not in running(folder)


def test_a_server_of_another_protocol_is_refused(folder):
    error = refused(path=folder, binary=of_schema(folder, 0))
    assert error.code == grpc.StatusCode.FAILED_PRECONDITION
    assert str(folder) in error.message and "memoryd.v1" in error.message


def test_a_supervisor_of_another_protocol_is_refused(folder):
    folder.mkdir()
    hello = {"protocol": 99, "version": "7.8.9", "target": "unix:/x", "control": "/x"}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "local.sock"))
        listener.listen()

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(1) == _supervisor.USE
                connection.sendall(json.dumps(hello).encode() + b"\n")

        greeting = threading.Thread(target=greet)
        greeting.start()
        error = refused(path=folder)
        greeting.join()
    assert error.code == grpc.StatusCode.FAILED_PRECONDITION
    assert "memoryd 7.8.9" in error.message and "can't join" in error.message


def test_ephemeral_memory_leaves_nothing_behind(temporary):
    with memoryd.local(ephemeral=True) as memory, memoryd.local(ephemeral=True) as other:
        put(memory, "Tea")
        assert texts(memory) == ["Tea"] and texts(other) == []
        places = [pathlib.Path(m.target.removeprefix("unix:")).parent for m in (memory, other)]
        assert sorted(temporary.iterdir()) == sorted(places)
    assert list(temporary.iterdir()) == []
    with User() as user:
        user.open()
        place, = temporary.iterdir()
        user.kill()
        local_rounds.wait_until_nobody_runs(place)
        wait_for(lambda: not place.exists(), WAIT_ATTEMPTS)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_an_ephemeral_supervisor_that_is_told_to_end_tidies_up(temporary, end):
    with memoryd.local(ephemeral=True) as memory:
        place = pathlib.Path(memory.target.removeprefix("unix:")).parent
        os.kill(running(place)["supervisor"], end)
        wait_for(lambda: not place.exists(), WAIT_ATTEMPTS)


@pytest.mark.parametrize("arguments", [{}, {"path": "x", "ephemeral": True}, {"path": ""}])
def test_a_path_or_ephemeral(arguments):
    with pytest.raises(ValueError, match="path"):
        memoryd.local(**arguments)


def test_a_server_that_does_not_start_says_why(folder):
    binary = program(folder.parent / "broken",
                     "sys.stderr.write('no such luck\\n'); sys.exit(2)")
    error = refused(path=folder, binary=binary)
    assert error.code == grpc.StatusCode.FAILED_PRECONDITION
    assert str(folder) in error.message
    assert "no such luck" in error.message and "2" in error.message


def test_a_server_that_is_killed_as_it_starts_is_started_again(folder):
    count = folder.parent / "starts"
    kills = ("import os, signal\n"
             f"open({str(count)!r}, 'a').write('x')\n"
             f"if len(open({str(count)!r}).read()) != 3: os.kill(os.getpid(), signal.SIGKILL)\n"
             f"os.execv({str(BINARY)!r}, [{str(BINARY)!r}, *sys.argv[1:]])")
    with memoryd.local(folder, binary=program(folder.parent / "killed", kills)) as memory:
        put(memory, "Tea")
    assert len(count.read_text()) == 3
    # From the fourth on it is killed for good.
    assert "-9" in refused(path=folder, binary=folder.parent / "killed").message
    assert len(count.read_text()) == 6


def test_a_store_that_is_in_use_says_so(folder):
    folder.mkdir()
    with subprocess.Popen(
            [str(BINARY), "--listen=127.0.0.1:0", f"--store=sqlite:{folder}/memoryd.db"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=server_environment()) as server:
        try:
            assert server.stdout.readline().startswith("listening on")
            assert "memoryd.db" in refused(path=folder).message
        finally:
            server.terminate()


def test_a_server_that_never_serves_is_given_up(folder):
    binary = program(folder.parent / "mute", "import signal; signal.pause()")
    error = refused(path=folder, binary=binary, timeout=1.0)
    assert error.code == grpc.StatusCode.DEADLINE_EXCEEDED
    assert str(folder) in error.message and "server.log" in error.message


def test_a_folder_in_use_where_nobody_can_be_reached_says_so(folder):
    # As by a process of another container: the lock is seen, the socket is not.
    folder.mkdir()
    with open(folder / "local.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with User() as user:
            user.tell(f"open {folder}")
            error = refused(path=folder, timeout=5.0)
            assert error.code == grpc.StatusCode.DEADLINE_EXCEEDED
            assert str(folder) in error.message and "another container" in error.message
            # The other goes on trying until it may.
            assert not select.select([user.process.stdout], [], [], 0.0)[0]
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert user.answer().startswith("opened")


def test_no_binary(folder, monkeypatch, tmp_path):
    monkeypatch.delenv("MEMORYD_BINARY")
    script = tmp_path / "programs" / "memoryd"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nimport memoryd\n")  # As pip writes one.
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setattr("platform.machine", lambda: "sparc")
    error = refused(path=folder)
    assert error.code == grpc.StatusCode.FAILED_PRECONDITION
    for words in ("Linux sparc", "binary=", "MEMORYD_BINARY", "docker run"):
        assert words in error.message
    second = tmp_path / "more programs" / "memoryd"
    second.parent.mkdir()
    second.symlink_to(BINARY.resolve())
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{second.parent}")
    assert _server_binary.find() == str(second)
    with memoryd.local(folder):
        pass


_WHEEL = "pip install dist/memoryd_server-*.whl"


@pytest.mark.parametrize("system,machine,libc,told,not_told", [
    ("Linux", "x86_64", ("glibc", "2.36"),
     ["(Linux x86_64, glibc 2.36)", _WHEEL, "`make dist`", "binary="], ["no memoryd server for"]),
    ("Linux", "x86_64", ("glibc", "2.31"),
     ["for this platform (Linux x86_64, glibc 2.31)", "glibc 2.35 or newer", "binary="], ["pip install"]),
    ("Linux", "x86_64", ("", ""), ["(Linux x86_64 without glibc)", "binary="], ["pip install"]),
    ("Linux", "aarch64", ("glibc", "2.36"), ["(Linux aarch64, glibc 2.36)", "binary="], ["pip install"]),
    ("Darwin", "arm64", ("", ""), ["(Darwin arm64)"], ["pip install", "binary=", "build the server"]),
    ("Windows", "AMD64", ("", ""), ["(Windows AMD64)"], ["pip install", "binary="])],
    ids=lambda one: "-".join(one) if isinstance(one, tuple) else str(one)[:8])
def test_what_to_do_without_a_binary(monkeypatch, system, machine, libc, told, not_told):
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("platform.libc_ver", lambda: libc)
    message = _server_binary.missing()
    for words in (*told, "in a clone of memoryd: `docker build -t memoryd:0.1.0 . && docker run --rm"):
        assert words in message
    for words in not_told:
        assert words not in message


def test_what_is_said_without_a_binary_is_so():
    """The names are those of the package, of the Dockerfile and of the image."""
    message = _server_binary.missing()
    pinned = re.search(r"manylinux_(2_[0-9]+)_x86_64", (REPOSITORY / "docs/RELEASES.md").read_text())
    assert ".".join(map(str, _server_binary._LEAST_GLIBC)) == pinned[1].replace("_", ".")
    name = subprocess.run([REPOSITORY / "tools/image.sh", "--name"], capture_output=True, text=True,
                          check=True).stdout.strip()
    assert message.count(name) == 2 and (REPOSITORY / "Dockerfile").exists()
    state = re.search(r"VOLUME (.*)", (REPOSITORY / "Dockerfile").read_text())[1]
    assert f"-v memoryd:{state} " in message


def test_which_binary(monkeypatch, tmp_path):
    given = program(tmp_path / "given", "")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("MEMORYD_BINARY", str(BINARY))
    assert _server_binary.find(given) == given
    assert _server_binary.find() == str(BINARY)
    monkeypatch.delenv("MEMORYD_BINARY")
    (tmp_path / "memoryd_server.py").write_text(f"def binary():\n    return {given!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert _server_binary.find() == given
    sys.modules.pop("memoryd_server")
    (tmp_path / "text").write_text("")
    for name in ("text", "nothing"):
        with pytest.raises(MemorydError, match=name):
            _server_binary.find(tmp_path / name)
        monkeypatch.setenv("MEMORYD_BINARY", str(tmp_path / name))
        with pytest.raises(MemorydError, match=f"MEMORYD_BINARY=.*{name}"):
            _server_binary.find()


def test_a_program_without_an_interpreter_is_told(folder, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert "sys.executable" in refused(path=folder).message


def test_the_asynchronous_twin(folder):
    async def use() -> None:
        async with (await memoryd.local_async(folder) as memory,
                    await memoryd.local_async(folder) as other):
            await memory.put("s", [memoryd.message("user", "Tea")])
            assert [m.text async for m in other.get_all("s")] == ["Tea"]
            assert memory.target == other.target
        assert "server" not in running(folder)
        with pytest.raises(ValueError, match="path"):
            await memoryd.local_async()

    asyncio.run(use())


def test_a_start_that_is_cancelled_leaves_no_server(folder):
    async def use() -> None:
        starting = asyncio.ensure_future(memoryd.local_async(folder))
        while not (folder / "local.lock").exists():  # noqa: ASYNC110  (another thread's file)
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        # On the same loop: it is not the end of that which ends the user.
        await asyncio.to_thread(local_rounds.wait_until_nobody_runs, folder)

    asyncio.run(use())


def test_rounds(tmp_path):
    assert local_rounds.run(tmp_path / "store", rounds=20, seed=1)
