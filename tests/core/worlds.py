"""Descriptors for tests, real or simulated, behind the same few calls.

Nothing blocks in either world. A place is a descriptor number that a test chooses, so that it can be closed and used
again at will; its other end lives elsewhere. This file must not know loops.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from typing import Protocol

from penstock.core.clock import ManualClock
from penstock.core.poller.epoll import EpollPoller
from penstock.core.poller.interface import Poller, PythonPoller
from penstock.core.poller.select import SelectPoller
from penstock.core.poller.simulated import SimulatedKernel, SimulatedPoller

PLACES = 5
POLLERS = ("epoll", "epoll-coarse", "select", "simulated")
CHUNK = b"x" * 16_384


class World(Protocol):
    """What tests of pollers and loops do outside of them."""

    clock: ManualClock
    poller: Poller

    def number(self, place: int) -> int: ...
    def open(self, place: int) -> int:
        """Put one end of a new pair of stream sockets at a place; return the other end."""
        ...

    def pipe(self) -> tuple[int, int]: ...
    def dup(self, fd: int) -> int: ...
    def read(self, fd: int, size_bytes: int) -> bytes: ...
    def write(self, fd: int, data: bytes) -> int: ...
    def close(self, fd: int) -> None: ...
    def close_all(self) -> None: ...


def fill(world: World, fd: int) -> None:
    """Write until nothing fits any more."""
    try:
        while world.write(fd, CHUNK):
            pass
    except BlockingIOError:
        return


def drain(world: World, fd: int) -> int:
    """Read everything, and return how many bytes that was."""
    total = 0
    try:
        while data := world.read(fd, 1 << 20):
            total += len(data)
    except BlockingIOError:
        pass
    return total


class RealWorld:
    """The descriptors of this system. A place is a number high enough for nobody else to be there."""

    FIRST = 300

    def __init__(self, poller: Poller) -> None:
        self.clock = ManualClock(1_000)
        self.poller = poller
        self._opened: set[int] = set()

    def number(self, place: int) -> int:
        return self.FIRST + place

    def open(self, place: int) -> int:
        here, there = socket.socketpair()
        for end in (here, there):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_608)
        os.dup2(here.fileno(), self.number(place), inheritable=False)
        here.close()
        # Far from the places, which must stay free.
        other = fcntl.fcntl(there.fileno(), fcntl.F_DUPFD_CLOEXEC, self.FIRST + 100)
        there.close()
        self._opened |= {self.number(place), other}
        return other

    def pipe(self) -> tuple[int, int]:
        ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._opened |= set(ends)
        return ends

    def dup(self, fd: int) -> int:
        other = os.dup(fd)
        self._opened.add(other)
        return other

    def read(self, fd: int, size_bytes: int) -> bytes:
        return os.read(fd, size_bytes)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def close(self, fd: int) -> None:
        self._opened.discard(fd)
        os.close(fd)

    def close_all(self) -> None:
        for fd in tuple(self._opened):
            self.close(fd)


class SimulatedWorld:
    """The descriptors of a simulated kernel, whose lowest numbers are the places."""

    FIRST = 3

    def __init__(self) -> None:
        self.clock = ManualClock(1_000)
        self.kernel = SimulatedKernel(self.clock, seed=0, first_descriptor=self.FIRST)
        self.poller: Poller = PythonPoller(SimulatedPoller(self.kernel))

    def number(self, place: int) -> int:
        return self.FIRST + place

    def open(self, place: int) -> int:
        # A kernel gives the lowest number that is free: so the other places are filled for a moment.
        fd = self.number(place)
        taken = self.kernel.open_descriptors
        closed = [number for number in map(self.number, range(PLACES)) if number not in taken]
        plugs = [self.kernel.eventfd() for _ in closed]
        assert plugs == closed
        self.kernel.close(fd)
        plugs.remove(fd)
        here, there = self.kernel.socketpair()
        assert here == fd
        for plug in plugs:
            self.kernel.close(plug)
        return there

    def pipe(self) -> tuple[int, int]:
        return self.kernel.pipe()

    def dup(self, fd: int) -> int:
        return self.kernel.dup(fd)

    def read(self, fd: int, size_bytes: int) -> bytes:
        return self.kernel.read(fd, size_bytes)

    def write(self, fd: int, data: bytes) -> int:
        return self.kernel.write(fd, data)

    def close(self, fd: int) -> None:
        self.kernel.close(fd)

    def close_all(self) -> None:
        for fd in self.kernel.open_descriptors:
            self.kernel.close(fd)


def open_world(kind: str) -> World:
    """A fresh world with the poller of that name."""
    if kind == "simulated":
        return SimulatedWorld()
    return RealWorld(SelectPoller() if kind == "select" else EpollPoller(coarse=kind == "epoll-coarse"))


def number_of(error: OSError) -> str:
    """The errno of an exception, by name."""
    return errno.errorcode[error.errno or 0]
