"""Descriptors of every kind that a system has: sockets of three families, pipes, terminals, counters, files."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import BadDescriptor, Reactor, Unsupported, UsageError
from penstock.core.poller.choice import available
from penstock.net import Descriptor
from penstock.net.calls import Message, SendfileCall


class Book:
    """What callbacks were told, by name."""

    def __init__(self, reactor: Reactor) -> None:
        self.reactor = reactor
        self.told: dict[str, tuple[Any, Any]] = {}

    def note(self, name: str) -> Callable[[Any, Any], None]:
        def callback(error: Any, result: Any) -> None:
            assert name not in self.told
            self.told[name] = (error, result)

        return callback

    def until(self, *names: str) -> None:
        """Run until those were told. A wait of a turn is bounded, so a test that waits in vain fails by itself."""
        for _ in range(200):
            if all(name in self.told for name in names):
                return
            self.reactor.run_once(0.1)
        raise AssertionError(f"not told: {set(names) - set(self.told)}")

    def result(self, name: str) -> Any:
        self.until(name)
        error, result = self.told.pop(name)
        if error:
            raise error
        return result


@pytest.fixture(params=available())
def book(request: pytest.FixtureRequest) -> Iterator[Book]:
    with Reactor(request.param) as reactor:
        yield Book(reactor)


@pytest.mark.parametrize("family", ["inet", "inet6", "unix"])
def test_connect_accept_and_talk(book: Book, family: str, tmp_path: Path) -> None:
    if family == "inet6" and not socket.has_ipv6:
        pytest.skip("reason: this machine has no IPv6")
    sort = {"inet": socket.AF_INET, "inet6": socket.AF_INET6, "unix": socket.AF_UNIX}[family]
    where: Any = {"inet": ("127.0.0.1", 0), "inet6": ("::1", 0), "unix": str(tmp_path / "s")}[family]
    listening = socket.socket(sort, socket.SOCK_STREAM)
    try:
        listening.bind(where)
    except OSError:
        listening.close()
        pytest.skip(reason="this machine has no such address")
    listening.listen()
    listener = Descriptor(book.reactor, listening)
    listener.accept(book.note("accept"))
    client = Descriptor(book.reactor, socket.socket(sort, socket.SOCK_STREAM))
    client.connect(listening.getsockname(), book.note("connect"))
    assert book.result("connect") is None
    peer, address = book.result("accept")
    assert (peer.getblocking(), peer.get_inheritable()) == (False, False)
    if family == "inet":
        assert address == peer.getpeername()
    server = Descriptor(book.reactor, peer)
    client.write(b"question", book.note("write"))
    server.read(100, book.note("read"))
    assert (book.result("write"), book.result("read")) == (8, b"question")
    buffer = bytearray(10)
    client.read_into(buffer, book.note("read into"))
    server.write(memoryview(b"answer"), book.note("write"))
    assert (book.result("read into"), bytes(buffer)) == (6, b"answer" + bytes(4))
    for one in (client, server, listener):
        one.close()
    assert peer.fileno() == -1, "the object that was given is closed"


def test_a_refused_connection_says_where(book: Book) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    client = Descriptor(book.reactor, socket.socket())
    client.connect(address, book.note("connect"))
    with pytest.raises(ConnectionRefusedError, match=r"127\.0\.0\.1"):
        book.result("connect")
    client.close()


def test_a_local_listener_that_is_full_refuses(book: Book, tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    listening.listen(0)
    clients = [Descriptor(book.reactor, socket.socket(socket.AF_UNIX)) for _ in range(4)]
    for index, client in enumerate(clients):
        client.connect(str(tmp_path / "s"), book.note(str(index)))
    book.until("0")
    book.reactor.poll()
    refused = [error for error, _result in book.told.values() if error]
    assert all(error.errno == errno.ECONNREFUSED for error in refused)
    for client in clients:
        client.close()
    listening.close()
    book.reactor.poll()
    assert len(book.told) == 4
    if sys.platform == "linux":
        assert len(refused) == 3


def test_datagrams_are_whole(book: Book) -> None:
    one, two = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
    for end in (one, two):
        end.bind(("127.0.0.1", 0))
    address = two.getsockname()
    sender, receiver = Descriptor(book.reactor, one), Descriptor(book.reactor, two)
    receiver.recvmsg(100, book.note("message"))
    sender.sendmsg([b"in ", b"parts"], book.note("sent"), address=address)
    message: Message = book.result("message")
    assert (book.result("sent"), message.data, message.address) == (8, b"in parts", one.getsockname())
    sender.connect(address, book.note("connect"))
    book.result("connect")
    sender.write(b"", book.note("empty"))
    sender.write(b"two", book.note("two"))
    receiver.read(100, book.note("first"))
    receiver.read(2, book.note("cut"))
    assert (book.result("empty"), book.result("two")) == (0, 3)
    assert (book.result("first"), book.result("cut")) == (b"", b"tw")
    sender.close()
    receiver.close()


def test_descriptors_travel_in_messages(book: Book) -> None:
    one, two = socket.socketpair()
    sender, receiver = Descriptor(book.reactor, one), Descriptor(book.reactor, two)
    read_fd, write_fd = os.pipe()
    receiver.recvmsg(100, book.note("message"), descriptors=2)
    sender.sendmsg(b"take these", book.note("sent"), descriptors=[read_fd, write_fd])
    message = book.result("message")
    assert (message.data, len(message.descriptors), message.ancillary) == (b"take these", 2, ())
    os.write(message.descriptors[1], b"through")
    assert os.read(read_fd, 100) == b"through"
    assert [os.get_inheritable(fd) for fd in message.descriptors] == [False, False]
    for fd in (*message.descriptors, read_fd, write_fd):
        os.close(fd)
    sender.close()
    receiver.close()


def test_descriptors_and_connections_that_nobody_gets_are_closed(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    reactor = Reactor()
    one, two = socket.socketpair()
    receiver = Descriptor(reactor, two)
    read_fd, write_fd = os.pipe()
    socket.send_fds(one, [b"x"], [read_fd, write_fd])
    receiver.recvmsg(100, lambda error, message: None, descriptors=2)
    listening = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listening.getsockname())
    listener = Descriptor(reactor, listening)
    listener.accept(lambda error, result: None)
    reactor.close()
    for end in (one, client, receiver, listener):
        end.close()
    os.close(read_fd)
    os.close(write_fd)
    assert len(os.listdir("/dev/fd")) == before


def test_sendfile_sends_all_of_it(book: Book, tmp_path: Path) -> None:
    content = os.urandom(1_500_000)
    (tmp_path / "file").write_bytes(content)
    one, two = socket.socketpair()
    sender, receiver = Descriptor(book.reactor, one), Descriptor(book.reactor, two)
    got = bytearray()

    def more(error: OSError | None, data: bytes | None) -> None:
        if data:
            got.extend(data)
            receiver.read(65_536, more)

    receiver.read(65_536, more)
    with open(tmp_path / "file", "rb") as file:
        sender.sendfile(file, book.note("all"))
        sender.sendfile(file, book.note("part"), offset=10, count=20)
        sender.sendfile(file, book.note("beyond"), offset=10**7)
        assert (book.result("all"), book.result("part"), book.result("beyond")) == (1_500_000, 20, 0)
    sender.close()
    while len(got) < 1_500_020:
        book.reactor.run_once(0.1)
    assert bytes(got) == content + content[10:30]
    receiver.close()


def test_sendfile_copies_where_the_system_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> int:
        raise OSError(errno.ENOSYS, "no")

    monkeypatch.setattr(os, "sendfile", refuse, raising=False)
    (tmp_path / "from").write_bytes(b"0123456789")
    source = os.open(tmp_path / "from", os.O_RDONLY)
    target = os.open(tmp_path / "to", os.O_WRONLY | os.O_CREAT)
    assert SendfileCall(source, 2, 5)(target) == 5
    os.close(source)
    os.close(target)
    assert (tmp_path / "to").read_bytes() == b"23456"


def test_pipes_terminals_and_counters(book: Book) -> None:
    pairs = [os.pipe()]
    master, slave = os.openpty()
    if hasattr(os, "eventfd"):
        counter = os.eventfd(0)
        pairs.append((counter, os.dup(counter)))
    for read_fd, write_fd in pairs:
        reader, writer = Descriptor(book.reactor, read_fd), Descriptor(book.reactor, write_fd)
        reader.read(8, book.note("read"))
        book.reactor.poll()
        assert "read" not in book.told
        writer.write((5).to_bytes(8, sys.byteorder), book.note("write"))
        assert (book.result("write"), book.result("read")) == (8, (5).to_bytes(8, sys.byteorder))
        reader.close()
        writer.close()
    terminal = Descriptor(book.reactor, slave)
    terminal.read(100, book.note("line"))
    terminal.wait("write", book.note("writable"))
    assert book.result("writable") is None
    os.write(master, b"typed\n")
    assert book.result("line") == b"typed\n"
    terminal.close()
    os.close(master)


def test_a_regular_file_is_read_and_written_but_not_waited_for(book: Book, tmp_path: Path) -> None:
    with open(tmp_path / "file", "w+b") as file:
        one = Descriptor(book.reactor, os.dup(file.fileno()))
        one.write(b"x" * 3_000_000, book.note("write"))
        assert book.result("write") == 3_000_000
        file.seek(0)
        one.read(3, book.note("read"))
        assert book.result("read") == b"xxx"
        one.wait("read", book.note("wait"))
        if book.reactor.poller == "kqueue":
            assert book.result("wait") is None
        else:
            with pytest.raises(OSError, match="a regular file is always ready") as refused:
                book.result("wait")
            assert refused.value.errno == errno.ENOTSUP
        one.accept(book.note("accept"))
        with pytest.raises(OSError, match=r"[Ss]ocket"):
            book.result("accept")
        one.close()


def test_release_gives_it_back_as_it_was(book: Book) -> None:
    one, two = socket.socketpair()
    one.setblocking(True)
    made = Descriptor(book.reactor, one.detach())
    number = made.fileno()
    assert not os.get_blocking(number)
    made.sendmsg(b"x", book.note("sent"))
    book.result("sent")
    made.read(1, book.note("read"))
    assert made.release() == number
    assert os.get_blocking(number)
    with pytest.raises(OSError, match="cancelled"):
        book.result("read")
    with pytest.raises(BadDescriptor, match="nothing to release"):
        made.release()
    with pytest.raises(BadDescriptor, match="is closed"):
        made.fileno()
    with pytest.raises(BadDescriptor, match="nothing to move"):
        made.move()
    made.close()
    os.close(number)
    two.close()


def test_what_a_program_says_wrong_is_said(book: Book) -> None:
    one, two = socket.socketpair()
    made: Any
    with Descriptor(book.reactor, one) as made:
        for call, match in (
            (lambda: made.read(0, print), "n is 0"),
            (lambda: made.read(1, None), "cannot be called"),
            (lambda: made.read_into(b"constant", print), "buffer is"),
            (lambda: made.write(memoryview(b"abcd")[::2], print), "contiguous"),
            (lambda: made.wait("urgent", print), '"except"'),
            (lambda: made.cancel("all"), '"except"'),
            (lambda: made.recvmsg(1, print, descriptors=10_000), "descriptors is"),
            (lambda: made.sendmsg(b"", print, descriptors=["x"]), "descriptor is 'x'"),
        ):
            with pytest.raises(UsageError, match=match):
                call()
        assert "open, waiting 0 reads" in repr(made)
    assert "closed" in repr(made)
    two.close()
    fd: Any
    nothing: Any = None
    for fd, match in ((-1, "never open"), ("x", "descriptor is 'x'"), (10**6, "is not open"), (one, "closed")):
        with pytest.raises(BadDescriptor, match=match):
            Descriptor(book.reactor, fd)
    with pytest.raises(UsageError, match="reactor is None"):
        Descriptor(nothing, 0)
    if book.reactor.poller == "select":
        with pytest.raises(Unsupported, match="knows no edges"):
            Descriptor(book.reactor, 0, edge=True)


@pytest.mark.parametrize("edge", [False, True])
def test_a_descriptor_takes_over_a_number_that_is_registered(book: Book, edge: bool) -> None:
    """The number begins a new life: its old callback is not called again, and the operations are."""
    if edge and book.reactor.poller == "select":
        pytest.skip(reason="select knows no edges")
    one, two = socket.socketpair()
    called: list[int] = []
    book.reactor.register(one, 1, lambda fd, events: called.append(fd))
    with two, Descriptor(book.reactor, one, edge=edge) as here:
        two.send(b"for the new one")
        here.read(100, book.note("read"))
        assert book.result("read") == b"for the new one"
        two.send(b"more")
        here.read(100, book.note("more"))
        assert book.result("more") == b"more"
    assert called == []
