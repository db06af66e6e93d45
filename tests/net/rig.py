"""What the tests of sockets share: pairs, and turning a loop until something is true."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock import Reactor
from penstock.net import Listener, Stream, StreamOptions
from penstock.net.options import Mode

# No healthy machine comes near it, also when sanitizers make everything slow and others want the processors.
PATIENCE_S = 120
MODES: tuple[Mode, ...] = ("lt", "et")


def turn_until(reactor: Reactor, condition: Callable[[], object], what: str = "it") -> None:
    """Turn until a condition holds; a deadline that no healthy machine reaches ends a hopeless wait."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
        reactor.run_once(0.02)


def settle(reactor: Reactor, turns: int = 5) -> None:
    """Some turns that wait for nothing: whatever could happen by itself has happened."""
    for _ in range(turns):
        reactor.run_once(0)


class Log:
    """A stream's callbacks, written down."""

    def __init__(self, stream: Stream, *, eof: bool = False) -> None:
        self.stream = stream
        self.data = b""
        self.pieces: list[int] = []
        self.events: list[str] = []
        self.reason: str | None = None
        stream.on_data = self.on_data
        stream.on_drain = lambda: self.events.append("drain")
        stream.on_connect = lambda: self.events.append("connect")
        stream.on_close = self.on_close
        if eof:
            stream.on_eof = lambda: self.events.append("eof")

    def on_data(self, data: bytes) -> None:
        assert type(data) is bytes
        assert data
        self.data += data
        self.pieces.append(len(data))
        self.events.append("data")

    def on_close(self, reason: str) -> None:
        assert self.reason is None, "the end was told twice"
        self.reason = reason
        self.events.append("close")


@contextmanager
def pair(*, eof: bool = False, tcp: bool = False, **options: Any) -> Iterator[tuple[Reactor, Log, socket.socket]]:
    """A stream on a reactor, and the socket at the other end."""
    with Reactor() as reactor:
        near, far = tcp_pair() if tcp else socket.socketpair()
        far.setblocking(False)
        log = Log(Stream(reactor, near, options=StreamOptions(**options)), eof=eof)
        with far:
            yield reactor, log, far


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = socket.create_connection(server.getsockname())
        near, _ = server.accept()
    return near, far


def drain(far: socket.socket, size: int, reactor: Reactor) -> bytes:
    """Read exactly `size` bytes at the far end while the loop turns."""
    got = b""

    def enough() -> bool:
        nonlocal got
        with suppress(BlockingIOError):
            got += far.recv(1 << 20)
        return len(got) >= size

    turn_until(reactor, enough, f"{size} bytes")
    return got


def fill(stream: Stream, piece: bytes = b"x" * 4096) -> int:
    """Write until the stream says stop; returns how many bytes that were."""
    written = len(piece)
    while stream.write(piece):
        written += len(piece)
    return written


def listen(reactor: Reactor, **options: Any) -> tuple[Listener, list[Stream]]:
    """A listener on loopback, and the streams that it has accepted."""
    accepted: list[Stream] = []
    return Listener(reactor, ("127.0.0.1", 0), accepted.append, **options), accepted


def dial(listener: Listener) -> socket.socket:
    address = listener.address
    assert isinstance(address, tuple)
    client = socket.create_connection(address, timeout=PATIENCE_S)
    client.setblocking(False)
    return client
