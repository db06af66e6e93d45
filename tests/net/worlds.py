"""The worlds in which the same behaviour is asked for: each poller, real and simulated, level and edge.

A world makes a reactor and connected pairs; one end of a pair becomes a Descriptor, the other is the outside.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from typing import Any

from penstock import ManualClock, Reactor
from penstock.core.poller.kqueue import KqueuePoller
from penstock.core.poller.simulated import SimulatedKernel, SimulatedPoller
from penstock.core.poller.simulated_kqueue import SimulatedSelect
from penstock.net.operations import Descriptor, operation_counters


class SimulatedCalls:
    """The system calls of a simulated kernel, as a Descriptor wants them."""

    def __init__(self, kernel: SimulatedKernel) -> None:
        self.kernel = kernel

    def read(self, fd: int, size_bytes: int) -> bytes:
        return self.kernel.read(fd, size_bytes)

    def write(self, fd: int, data: bytes) -> int:
        return self.kernel.write(fd, data)

    def accept(self, fd: int) -> int:
        return self.kernel.accept(fd)

    def ready(self, fd: int) -> int:
        return self.kernel.file("ready", fd).poll()

    def close(self, fd: int) -> None:
        self.kernel.close(fd)


class World:
    """What both kinds of worlds offer to a test."""

    reactor: Reactor
    edge: bool

    def __init__(self) -> None:
        self.told: list[tuple[str, int | None, Any]] = []

    def note(self, name: str) -> Callable[[Any, Any], None]:
        """A callback that takes note of its outcome: (name, errno or None, result)."""

        def callback(error: OSError | None, result: Any) -> None:
            self.told.append((name, error.errno if error else None, result))

        return callback

    def turns(self, count: int = 8) -> None:
        """Let everything happen that can happen by itself."""
        for _ in range(count):
            self.reactor.run_once(0)

    def names(self) -> list[str]:
        return [name for name, _number, _result in self.told]

    def counters(self) -> dict[str, int]:
        return operation_counters(self.reactor)


class RealWorld(World):
    """Loopback sockets of this machine."""

    simulated = False

    def __init__(self, poller: Any, edge: bool) -> None:
        super().__init__()
        self.reactor = Reactor(poller)
        self.edge = edge
        # None: a pipe's end, which is a bare number.
        self.outside: dict[int, socket.socket | None] = {}

    def pair(self) -> tuple[Descriptor, int]:
        one, two = socket.socketpair()
        for end in (one, two):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
            end.setblocking(False)
        self.outside[two.fileno()] = two
        return Descriptor(self.reactor, one, edge=self.edge), two.fileno()

    def pipe(self) -> tuple[Descriptor, int]:
        """The end that writes."""
        read_fd, write_fd = os.pipe()
        os.set_blocking(read_fd, False)
        self.outside[read_fd] = None
        return Descriptor(self.reactor, write_fd, edge=self.edge), read_fd

    def tcp_pair(self) -> tuple[Descriptor, int]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            one = socket.create_connection(listener.getsockname())
            two, _address = listener.accept()
        one.setblocking(False)
        two.setblocking(False)
        self.outside[two.fileno()] = two
        return Descriptor(self.reactor, one, edge=self.edge), two.fileno()

    def send(self, fd: int, data: bytes) -> None:
        os.write(fd, data)

    def send_urgent(self, fd: int, data: bytes) -> None:
        end = self.outside[fd]
        assert end is not None
        end.send(data, socket.MSG_OOB)

    def receive(self, fd: int, size_bytes: int = 1 << 20) -> bytes:
        try:
            return os.read(fd, size_bytes)
        except BlockingIOError:
            return b""

    def hang_up(self, fd: int) -> None:
        end = self.outside.pop(fd)
        if end is None:
            os.close(fd)
        else:
            end.close()

    def close(self) -> None:
        self.reactor.close()
        for fd in list(self.outside):
            self.hang_up(fd)


class SimulatedWorld(World):
    """A simulated kernel, and a poller on it."""

    simulated = True

    def __init__(self, make: Callable[[SimulatedKernel], Any], edge: bool, seed: int = 0) -> None:
        super().__init__()
        clock = ManualClock()
        self.kernel = SimulatedKernel(clock, seed, buffer_bytes=8192)
        self.calls = SimulatedCalls(self.kernel)
        self.poller = make(self.kernel)
        self.reactor = Reactor(self.poller, clock=clock)
        self.edge = edge

    def open(self, fd: int) -> Descriptor:
        return Descriptor(self.reactor, fd, edge=self.edge, calls=self.calls)

    def pair(self) -> tuple[Descriptor, int]:
        one, two = self.kernel.socketpair()
        return self.open(one), two

    def tcp_pair(self) -> tuple[Descriptor, int]:
        one, two = self.kernel.socketpair(tcp=True)
        return self.open(one), two

    def pipe(self) -> tuple[Descriptor, int]:
        reader, writer = self.kernel.pipe()
        return self.open(writer), reader

    def send(self, fd: int, data: bytes) -> None:
        self.kernel.write(fd, data)

    def send_urgent(self, fd: int, data: bytes) -> None:
        self.kernel.send_urgent(fd, data)

    def receive(self, fd: int, size_bytes: int = 1 << 20) -> bytes:
        try:
            return self.kernel.read(fd, size_bytes)
        except BlockingIOError:
            return b""

    def hang_up(self, fd: int) -> None:
        self.kernel.close(fd)

    def close(self) -> None:
        self.reactor.close()


def _kqueue(out_of_band: Any) -> Callable[[SimulatedKernel], Any]:
    return lambda kernel: KqueuePoller(SimulatedSelect(kernel, out_of_band=out_of_band))


WORLDS: dict[str, Callable[[], RealWorld | SimulatedWorld]] = {
    "select": lambda: RealWorld("select", False),
    "simulated-epoll-level": lambda: SimulatedWorld(SimulatedPoller, False),
    "simulated-epoll-edge": lambda: SimulatedWorld(SimulatedPoller, True),
    "simulated-kqueue-level": lambda: SimulatedWorld(_kqueue("flag"), False),
    "simulated-kqueue-macos": lambda: SimulatedWorld(_kqueue("flag"), True),
    "simulated-kqueue-filter": lambda: SimulatedWorld(_kqueue("filter"), True),
}
if hasattr(select, "epoll"):
    WORLDS["epoll-level"] = lambda: RealWorld("epoll", False)
    WORLDS["epoll-edge"] = lambda: RealWorld("epoll", True)
if hasattr(select, "kqueue"):
    WORLDS["kqueue-level"] = lambda: RealWorld("kqueue", False)
    WORLDS["kqueue-edge"] = lambda: RealWorld("kqueue", True)
