"""What the tests of the reactor share: a reactor on every poller that works here, and things that are always closed.

Nothing here knows what is being tested. A wait of a test has `DEADLINE_S`, which only a broken kernel ever reaches.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock import Reactor
from penstock.core.poller.choice import available
from penstock.core.poller.events import ERROR, HANGUP, READABLE, WRITABLE

DEADLINE_S = 60.0

_MASKS = ((READABLE, select.POLLIN), (WRITABLE, select.POLLOUT))


class PollInPython:
    """A poller of the shape `PollerLike`, on poll(2): the way by which a simulated kernel comes in."""

    name = "poll in Python"
    supports_edge = False
    simulated = False

    def __init__(self) -> None:
        self._poll = select.poll()
        self._tokens: dict[int, int] = {}

    def add(self, fd: int, interest: int, edge: bool, token: int) -> None:
        os.fstat(fd)
        self._tokens[fd] = token
        self._poll.register(fd, sum(mask for bit, mask in _MASKS if interest & bit))

    def modify(self, fd: int, interest: int, edge: bool, token: int) -> None:
        self.add(fd, interest, edge, token)

    def remove(self, fd: int) -> None:
        del self._tokens[fd]
        self._poll.unregister(fd)

    def wait(self, capacity: int, timeout_ns: int) -> list[tuple[int, int]]:
        ready = self._poll.poll(None if timeout_ns < 0 else -(-timeout_ns // 1_000_000))
        return [(self._tokens[fd], self._events(mask)) for fd, mask in ready][:capacity]

    @staticmethod
    def _events(mask: int) -> int:
        events = sum(bit for bit, wanted in _MASKS if mask & wanted)
        return events | (ERROR if mask & select.POLLERR else 0) | (HANGUP if mask & select.POLLHUP else 0)

    def unread(self, fd: int) -> int:
        return 0

    def reset(self) -> None:
        self._poll = select.poll()
        self._tokens.clear()

    def close(self) -> None:
        self._tokens.clear()


@pytest.fixture
def keep() -> Iterator[contextlib.ExitStack]:
    """Closes everything that was entered, last first."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture(params=available())
def poller(request: pytest.FixtureRequest) -> str:
    """The name of every poller that works here, one after the other."""
    return str(request.param)


@pytest.fixture
def make(poller: str, keep: contextlib.ExitStack) -> Callable[..., Reactor]:
    """Makes reactors on that poller."""

    def make_one(**options: Any) -> Reactor:
        options.setdefault("poller", poller)
        return keep.enter_context(Reactor(**options))

    return make_one


@pytest.fixture
def reactor(make: Callable[..., Reactor]) -> Reactor:
    """One reactor on that poller."""
    return make()


@pytest.fixture
def plain(keep: contextlib.ExitStack) -> Callable[..., Reactor]:
    """Makes reactors on the best poller, where the poller makes no difference."""

    def make_one(**options: Any) -> Reactor:
        return keep.enter_context(Reactor(**options))

    return make_one


@pytest.fixture
def pair(keep: contextlib.ExitStack) -> Callable[[], tuple[socket.socket, socket.socket]]:
    """Makes pairs of connected sockets that do not block."""

    def make_pair() -> tuple[socket.socket, socket.socket]:
        ends = socket.socketpair()
        for end in ends:
            end.setblocking(False)
            keep.callback(end.close)
        return ends

    return make_pair


@pytest.fixture
def pipe(keep: contextlib.ExitStack) -> Callable[[], tuple[int, int]]:
    """Makes pipes that do not block; an end that the test has closed itself is left alone."""

    def close_quietly(fd: int, inode: int) -> None:
        with contextlib.suppress(OSError):
            if os.fstat(fd).st_ino == inode:
                os.close(fd)

    def make_pipe() -> tuple[int, int]:
        ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for fd in ends:
            keep.callback(close_quietly, fd, os.fstat(fd).st_ino)
        return ends

    return make_pipe


@pytest.fixture
def spawn(keep: contextlib.ExitStack) -> Callable[..., threading.Thread]:
    """Starts threads, and waits for their end when the test ends."""

    def start(function: Callable[..., object], *args: object) -> threading.Thread:
        thread = threading.Thread(target=function, args=args, daemon=True)
        thread.start()
        keep.callback(join, thread)
        return thread

    return start


def ignore(*_: object) -> None:
    """Be called, and do nothing."""


def join(thread: threading.Thread) -> None:
    """Wait for the end of a thread."""
    thread.join(DEADLINE_S)
    assert not thread.is_alive(), f"{thread.name} does not end"


def in_child(function: Callable[[], str]) -> str:
    """What `function` answers, or the name and text of what it raises, in a forked child."""
    read_fd, write_fd = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = function()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(write_fd, answer.encode())
        os._exit(0)
    os.close(write_fd)
    try:
        ready, _, _ = select.select([read_fd], [], [], DEADLINE_S)
        if not ready:
            os.kill(child, 9)
        answer = os.read(read_fd, 65_536).decode() if ready else "the child does not end"
        os.waitpid(child, 0)
        return answer
    finally:
        os.close(read_fd)


def in_process(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a script in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))
