"""Datagram sockets: whole messages, bounded queues, errors that belong to one message only."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock import Overflow, Reactor, UsageError
from penstock.net import Address, Datagram
from tests.net.rig import settle, turn_until


class Blocked(socket.socket):
    """A socket whose system has no room while `room` is 0; then it has room for that many."""

    room = 0

    def send(self, data: Any, *flags: Any) -> int:
        if self.room <= 0:
            raise BlockingIOError(errno.EAGAIN, "no room")
        self.room -= 1
        return super().send(data, *flags)


class Datagrams:
    """Sockets that a test has made; they are closed with it, whatever became of their loop."""

    made: ClassVar[list[Datagram]] = []

    @classmethod
    def make(cls, *args: Any, **options: Any) -> Datagram:
        cls.made.append(Datagram(*args, **options))
        return cls.made[-1]


@pytest.fixture(autouse=True)
def _close_datagrams() -> Iterator[None]:
    yield
    while Datagrams.made:
        Datagrams.made.pop().close()


def blocked_pair() -> tuple[Blocked, socket.socket]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    other.setblocking(False)
    return Blocked(fileno=one.detach()), other


def read_all(far: socket.socket) -> list[bytes]:
    got = []
    try:
        while True:
            got.append(far.recv(1000))
    except BlockingIOError:
        return got


def test_two_sockets_talk() -> None:
    with Reactor() as reactor:
        got: list[tuple[bytes, Address | None]] = []
        server = Datagrams.make(reactor, ("127.0.0.1", 0), on_datagram=lambda data, who: got.append((data, who)))
        client = Datagrams.make(reactor, ("127.0.0.1", 0))
        assert client.send(b"hello", server.address)
        assert client.send(b"", server.address)
        turn_until(reactor, lambda: len(got) == 2)
        assert got == [(b"hello", client.address), (b"", client.address)]
        connected = Datagrams.make(reactor, peer=server.address)
        assert connected.send(bytearray(b"to my peer"))
        turn_until(reactor, lambda: len(got) == 3)
        server.close()


def test_a_share_bounds_a_turn() -> None:
    with Reactor() as reactor:
        got: list[bytes] = []
        server = Datagrams.make(reactor, ("127.0.0.1", 0), share=3, on_datagram=lambda data, _who: got.append(data))
        client = Datagrams.make(reactor, peer=server.address)
        for number in range(7):
            client.send(b"%d" % number)
        seen = []
        for _ in range(3):
            reactor.run_once(1)
            seen.append(len(got))
        assert seen == [3, 6, 7]


@pytest.mark.parametrize(
    ("overflow", "left"),
    [("drop-oldest", [b"2", b"3", b"4"]), ("drop-newest", [b"0", b"1", b"2"]), ("reject", [b"0", b"1", b"2"])],
)
def test_a_full_queue_does_what_its_policy_says(overflow: Any, left: list[bytes]) -> None:
    with Reactor() as reactor:
        near, far = blocked_pair()
        drained: list[int] = []
        sender = Datagrams.make(
            reactor,
            near,
            capacity=3,
            overflow=overflow,
        )
        sender.on_drain = lambda: drained.append(sender.sent)
        refused = 0
        for number in range(5):
            try:
                sender.send(b"%d" % number)
            except Overflow as full:
                refused += 1
                assert full.capacity == 3  # noqa: PT017
        assert sender.waiting == 3
        lost = (sender.dropped_oldest, sender.dropped_newest, sender.rejected)
        assert sorted(lost) == [0, 0, 2]
        assert (refused == 2) is (overflow == "reject")
        settle(reactor)
        near.room = 2
        turn_until(reactor, lambda: sender.sent == 2)
        assert drained == []
        near.room = 10
        turn_until(reactor, lambda: drained)
        assert (read_all(far), drained) == (left, [3])
        changes = reactor.stats().changes
        settle(reactor)
        assert reactor.stats().changes == changes
        far.close()


def test_an_error_of_one_datagram_ends_nothing() -> None:
    with Reactor() as reactor:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
            nobody.bind(("127.0.0.1", 0))
            address = nobody.getsockname()
        client = Datagrams.make(reactor, peer=address)
        client.send(b"anybody?")
        turn_until(reactor, lambda: client.failed)
        assert isinstance(client.last_error, ConnectionRefusedError)
        assert not client.closed
        assert not client.send(b"x" * 65_535)
        assert isinstance(client.last_error, OSError)


def test_what_is_longer_than_wanted_is_counted() -> None:
    with Reactor() as reactor:
        got: list[bytes] = []
        server = Datagrams.make(
            reactor, ("127.0.0.1", 0), receive_bytes=4, on_datagram=lambda data, _who: got.append(data)
        )
        Datagrams.make(reactor, peer=server.address).send(b"too long")
        turn_until(reactor, lambda: got)
        assert (got, server.truncated) == ([b"too "], 1)


def test_closing_is_told_once_and_later() -> None:
    with Reactor() as reactor:
        near, far = blocked_pair()
        ends: list[str] = []
        sender = Datagrams.make(reactor, near, on_close=ends.append)
        sender.send(b"waits")
        sender.close()
        sender.close()
        assert (ends, sender.dropped_closed, sender.address) == ([], 1, None)
        assert not sender.send(b"late")
        settle(reactor)
        assert (ends, sender.dropped_closed) == (["closed"], 2)
        far.close()


def test_closing_inside_a_callback() -> None:
    with Reactor() as reactor:
        got: list[bytes] = []
        server = Datagrams.make(reactor, ("127.0.0.1", 0))
        client = Datagrams.make(reactor, peer=server.address)

        def take(data: bytes, _who: Address | None) -> None:
            got.append(data)
            server.close()

        server.on_datagram = take
        client.send(b"1")
        client.send(b"2")
        turn_until(reactor, lambda: got)
        settle(reactor)
        assert got == [b"1"]


def test_unix_datagrams(tmp_path: Path) -> None:
    with Reactor() as reactor:
        got: list[tuple[bytes, Address | None]] = []
        server = Datagrams.make(reactor, str(tmp_path / "s"), on_datagram=lambda data, who: got.append((data, who)))
        client = Datagrams.make(reactor, str(tmp_path / "c"), peer=str(tmp_path / "s"))
        client.send(b"hi")
        turn_until(reactor, lambda: got)
        assert got == [(b"hi", str(tmp_path / "c"))]
        server.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda reactor: Datagrams.make(reactor, None),
        lambda reactor: Datagrams.make(reactor, ("localhost", 1)),
        lambda reactor: Datagrams.make(reactor, ("127.0.0.1", 0), capacity=0),
        lambda reactor: Datagrams.make(reactor, ("127.0.0.1", 0), overflow="close"),
        lambda reactor: Datagrams.make(reactor, ("127.0.0.1", 0)).send(b"x" * 65_536, ("127.0.0.1", 9)),
    ],
)
def test_what_cannot_be_meant(make: Callable[[Reactor], object]) -> None:
    with Reactor() as reactor, pytest.raises(UsageError):
        make(reactor)
