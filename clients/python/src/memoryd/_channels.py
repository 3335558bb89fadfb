"""gRPC channels in processes that fork, and in those of gevent.

gRPC's threads end in the child of a fork. With its fork support gRPC begins again there, provided
that no thread was inside gRPC when the process forked; else it breaks the child. So a fork waits
until no thread of ours is inside, and a channel is made when it is first used, in each process
its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc

from memoryd.errors import MemorydError

# gRPC imports it with the first channel; a fork meanwhile would leave the import's lock held.
importlib.import_module("grpc._channel")
# Whether there is fork support is told nowhere else.
_cygrpc: Any = importlib.import_module("grpc._cython.cygrpc")


# How long a fork waits for calls to end by themselves; it then interrupts those that wait inside
# gRPC, and they are repeated behind the fork.
_GRACE_SECONDS = 0.25
_INTERRUPTED_SECONDS = 5.0
# gRPC ends its attempts to connect behind the end of their channel.
_SETTLING_SECONDS = 0.05
_LOOK_SECONDS = 0.001
_GRPC_THREADS = ("default-executo", "event_engine", "grpc_global_tim", "resolver-execut")
# gRPC answers in a child within milliseconds, later on a machine that stalls, or not at all.
_LONGEST_CHECK_SECONDS = 5.0
_IDLE, _READY = (state.value[0] for state in (
    grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.READY))
_SPAWN = "or start processes by multiprocessing's 'spawn' or 'forkserver'"
_NO_SUPPORT = (
    "this process was forked from one that had used gRPC, and gRPC's fork support is off: set "
    "GRPC_ENABLE_FORK_SUPPORT=1 in the environment before grpc is imported (memoryd sets it where "
    f"it is imported first), {_SPAWN}"
)
_NO_ANSWER = (
    "gRPC does not answer in this process, which was forked while gRPC was in use: fork before "
    "other code uses gRPC, set GRPC_ENABLE_FORK_SUPPORT=1 in the environment before grpc is "
    f"imported, {_SPAWN}"
)
_NO_ANSWER_YET = (
    "gRPC has not answered in this process, which was forked while gRPC was in use, within the "
    "call's timeout"
)


class Process:
    """What belongs to a process and not to the children that it forks."""

    def __init__(self, *, is_child: bool, used_before: bool) -> None:
        self.changed = threading.Condition()
        # By thread.
        self.forking: list[int] = []
        self.inside: list[tuple[int, Channel | None]] = []
        # Calls that nobody waits for inside gRPC.
        self.under_way = 0
        # Whether this process, or one that it descends from, has made a channel.
        self.has_used = used_before
        self.used_before = used_before
        # When gRPC was asked whether it works here, and whether that is known.
        self.asked: float | None = None
        self.answered = threading.Event()
        if not is_child:
            self.answered.set()

    def others_inside(self, thread: int) -> list[Channel | None]:
        return [channel for inside, channel in self.inside if inside != thread]

    def is_quiet(self, thread: int) -> bool:
        """Whether nothing of ours is at work in gRPC but what the thread does itself."""
        return not self.under_way and not self.others_inside(thread)

    def ended(self) -> None:
        with self.changed:
            self.under_way -= 1
            if self.forking:
                self.changed.notify_all()


_process = Process(is_child=False, used_before=False)
_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


def process() -> Process:
    """The running process: what was made with another one is of no use here."""
    return _process


class Lock:
    """A lock that no thread holds in the child of a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_registering = Lock()


class Inside:
    """While it lasts the thread may be inside gRPC, and no other thread forks. `channel` is that of
    the call that it waits for, for a fork to interrupt. `other` is the thread that is inside, where
    that is not the one that enters."""

    def __init__(self, channel: Channel | None = None, other: int | None = None) -> None:
        self._channel = channel
        self._other = other

    def __enter__(self) -> None:
        thread = threading.get_ident()
        self._process = _process
        self._entry = (thread if self._other is None else self._other, self._channel)
        with self._process.changed:
            # A handler of a signal may call while the thread is inside or forks.
            while self._process.forking and thread not in self._process.forking and not any(
                    inside == thread for inside, _ in self._process.inside):
                self._process.changed.wait()
            self._process.inside.append(self._entry)

    def __exit__(self, *_: object) -> None:
        if self._process is not _process:
            return
        with self._process.changed:
            self._process.inside.remove(self._entry)
            if self._process.forking:
                self._process.changed.notify_all()


class Interrupted(Exception):
    """A fork has interrupted the call, which is to be made again."""


class Open:
    """A channel of gRPC's, with its methods."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel: Any = channel
        self.process = _process
        self.was_interrupted = False
        self._methods: dict[str, Any] = {}

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Interrupted in place of what a call raises that a fork has interrupted."""
        try:
            yield
        except (grpc.RpcError, ValueError):  # ValueError where it was about to begin.
            if self.was_interrupted:
                raise Interrupted from None
            raise

    def unary(self, path: str, reply: type[Any]) -> Any:
        """The method at `path`."""
        # Two threads may both make one; either will do.
        method = self._methods.get(path)
        if method is None:
            method = self._methods[path] = self.channel.unary_unary(
                path, request_serializer=_serialized, response_deserializer=reply.FromString)
        return method

    def sent(self, path: str, reply: type[Any], request: Any, options: dict[str, Any]) -> Any:
        """A call that is under way, for which nobody waits inside gRPC."""
        call = self.unary(path, reply).future(request, **options)
        with self.process.changed:
            self.process.under_way += 1
        ended = self.process.ended
        call.add_done_callback(lambda _: ended())
        return call

    def stream(self, path: str, reply: type[Any]) -> Any:
        return self.channel.unary_stream(
            path, request_serializer=_serialized, response_deserializer=reply.FromString)

    def upload(self, path: str, reply: type[Any]) -> Any:
        return self.channel.stream_unary(
            path, request_serializer=_serialized, response_deserializer=reply.FromString)

    def dialogue(self, path: str, reply: type[Any]) -> Any:
        return self.channel.stream_stream(
            path, request_serializer=_serialized, response_deserializer=reply.FromString)

    def close(self) -> None:
        if self.process is not _process:
            _inherited.append(self)
            return
        with Inside():
            self.channel.close()


class Channel:
    """A channel to `target`, made at the first call and made anew in the child of a fork.

    Raises MemorydError FAILED_PRECONDITION where gRPC can't work in this child, and ValueError once
    it is closed.
    """

    def __init__(
        self,
        target: str,
        credentials: grpc.ChannelCredentials | None,
        options: Iterable[tuple[str, Any]],
    ) -> None:
        self._target = target
        self._credentials = credentials
        # gRPC takes the first of two options with one name; here the last holds.
        self._options = tuple(dict(options).items())
        self._lock = Lock()
        self._open: Open | None = None
        self._lone: set[Open] = set()
        self.is_closed = False
        with _registering:
            _channels.add(self)

    def __reduce__(self) -> Any:
        raise TypeError("a client, and a worker, can't be pickled or copied: make one where it is "
                        "used, in each process that does not descend from this one by a fork")

    def close(self) -> None:
        """Ends all calls, CANCELLED."""
        with self._lock:
            self.is_closed = True
            ending = self._all()
            self._open = None
        for channel in ending:
            channel.close()

    def opened(self, seconds: float) -> Open:
        """The channel that calls share; `seconds` are what the call has."""
        found = self._open
        if found is not None and found.process is _process:
            return found
        check(seconds)
        with Inside(), self._lock:
            found = self._open
            if found is None or found.process is not _process:
                if found is not None:
                    _inherited.append(found)
                found = self._open = self._made()
            return found

    @contextlib.contextmanager
    def lone(self, seconds: float) -> Iterator[Open]:
        """A channel for one call, that no fork interrupts. Nothing may wait inside gRPC for it."""
        check(seconds)
        with Inside(), self._lock:
            opened = self._made()
            self._lone.add(opened)
        try:
            yield opened
        finally:
            with self._lock:
                self._lone.discard(opened)
            opened.close()

    @contextlib.contextmanager
    def waiting(self, seconds: float) -> Iterator[Open]:
        """The channel that calls share, for one that waits inside gRPC; a fork may interrupt it."""
        check(seconds)
        with Inside(self):
            yield self.opened(seconds)

    def is_connecting(self) -> bool:
        """Whether gRPC is at work for a connection, without which its calls wait."""
        found = self._open
        if found is None or found.process is not _process:
            return False
        try:
            state: int = found.channel._channel.check_connectivity_state(False)
        except ValueError:  # Closed meanwhile.
            return False
        return state not in (_IDLE, _READY)

    def interrupt(self) -> None:
        """Ends the calls of the channel that they share; those to come have a new one."""
        with self._lock:
            found, self._open = self._open, None
        if found is not None and found.process is _process:
            found.was_interrupted = True
            found.channel.close()

    def outlive(self) -> None:
        """Has what gRPC keeps for the channel outlive the interpreter: without fork support, a
        child that frees it ends by a signal."""
        for opened in self._all():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(opened.channel))

    def _all(self) -> list[Open]:
        return [*self._lone, *([] if self._open is None else [self._open])]

    def _made(self) -> Open:
        if self.is_closed:
            raise ValueError("the client is closed")
        _activate_gevent()
        if self._credentials is None:
            made = grpc.insecure_channel(self._target, self._options)
        else:
            made = grpc.secure_channel(self._target, self._credentials, self._options)
        _process.has_used = True
        _register()
        return Open(made)


def check(seconds: float) -> None:
    """Raises MemorydError where gRPC does not work since this is the child of a fork, within
    `seconds`: FAILED_PRECONDITION, or DEADLINE_EXCEEDED where that is too short to tell."""
    here = _process
    if here.answered.is_set():
        return
    if here.used_before and not _cygrpc.is_fork_support_enabled():
        raise MemorydError(grpc.StatusCode.FAILED_PRECONDITION, _NO_SUPPORT)
    # The asking thread may never end: a fork waits for this one, and no longer than this one waits.
    with Inside():
        with here.changed:
            is_first = here.asked is None
            asked = here.asked = time.monotonic() if here.asked is None else here.asked
        if is_first:
            threading.Thread(
                target=_ask, args=(here,), name="memoryd-check", daemon=True).start()
        left = max(0.0, asked + _LONGEST_CHECK_SECONDS - time.monotonic())
        if here.answered.wait(min(seconds, left)):
            return
    if seconds < left:
        raise MemorydError(grpc.StatusCode.DEADLINE_EXCEEDED, _NO_ANSWER_YET)
    raise MemorydError(grpc.StatusCode.FAILED_PRECONDITION, _NO_ANSWER)


def _ask(here: Process) -> None:
    # A channel of its own, whose deadline needs gRPC's threads.
    options = (("grpc.use_local_subchannel_pool", 1),)
    with grpc.insecure_channel("unix:/dev/null/none", options) as channel:
        method: Any = channel.unary_unary("/memoryd/none")
        with contextlib.suppress(grpc.RpcError):
            method(b"", timeout=0.001, wait_for_ready=True)
    here.answered.set()


def _serialized(request: Any) -> bytes:
    serialized: bytes = request.SerializeToString()
    return serialized


def _activate_gevent() -> None:
    """Has gRPC wait by gevent where gevent has replaced what threads wait by."""
    monkey: Any = sys.modules.get("gevent.monkey")
    if monkey is None or _cygrpc.g_gevent_activated:
        return
    if monkey.is_module_patched("threading") or monkey.is_module_patched("socket"):
        from grpc.experimental import gevent

        gevent.init_gevent()


# Channels of the processes that this one descends from. To end one would end a connection of
# theirs.
_inherited: list[Open] = []


def at_fork(**hooks: Callable[[], None]) -> None:
    """os.register_at_fork() where processes fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**hooks)


_is_registered = False


def _register() -> None:
    # Behind gRPC, which registers with the first channel: what was registered last is called first
    # before a fork.
    global _is_registered
    with _registering:
        if not _is_registered:
            _is_registered = True
            at_fork(before=_before_fork, after_in_parent=_after_fork)


def _before_fork() -> None:
    here, thread = _process, threading.get_ident()
    with here.changed:
        here.forking.append(thread)
        here.changed.wait_for(lambda: here.is_quiet(thread), _GRACE_SECONDS)
        interrupted = {channel for channel in here.others_inside(thread) if channel is not None}
    with _registering:
        channels = list(_channels)
    interrupted.update(channel for channel in channels if channel.is_connecting())
    for channel in interrupted:
        channel.interrupt()
    if interrupted:
        time.sleep(_SETTLING_SECONDS)
    with here.changed:
        here.changed.wait_for(lambda: not here.others_inside(thread), _INTERRUPTED_SECONDS)
    end = time.monotonic() + _SETTLING_SECONDS
    while _is_grpc_at_work() and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)


def _is_grpc_at_work() -> bool:
    """Whether a thread of gRPC's own runs, where the system tells."""
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/stat") as stat:
                name, fields = stat.read().split("(", 1)[1].rsplit(")", 1)
                if name in _GRPC_THREADS and fields.split()[0] == "R":
                    return True
    return False


def _after_fork() -> None:
    with _process.changed:
        if threading.get_ident() in _process.forking:
            _process.forking.remove(threading.get_ident())
        _process.changed.notify_all()


def _in_child() -> None:
    global _process
    _process = Process(is_child=True, used_before=_process.has_used)
    for lock in _locks:
        lock.renew()
    if not _cygrpc.is_fork_support_enabled():
        for channel in _channels:
            channel.outlive()


at_fork(after_in_child=_in_child)
