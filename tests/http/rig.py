"""What the tests of the server share: a server whose loop the test turns itself, and a client that says exactly what it is
told to."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from penstock import Reactor
from penstock.core.clock import ManualClock
from penstock.http.files import Files
from penstock.http.options import HttpOptions
from penstock.http.server import Handler, Server
from tests.net.rig import PATIENCE_S, turn_until


@dataclass
class Answer:
    """One answer, taken apart."""

    status: int
    fields: list[tuple[str, str]]
    body: bytes
    version: str = "HTTP/1.1"
    reason: str = ""
    interim: list[int] = field(default_factory=list)

    def field(self, name: str) -> str | None:
        """The value of a field, None without it; a field that came twice is a failure."""
        values = [value for key, value in self.fields if key.lower() == name.lower()]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None


class Incomplete(Exception):
    """There is more to come of an answer."""


def take_answer(data: bytes, *, head: bool = False, ended: bool = False) -> tuple[Answer, bytes]:
    """Take the first answer from received bytes; `head` if it answers a HEAD, `ended` if nothing more will come."""
    interim: list[int] = []
    while True:
        top, found, rest = data.partition(b"\r\n\r\n")
        if not found:
            raise Incomplete
        lines = top.decode("latin-1").split("\r\n")
        version, status_text, reason = lines[0].split(" ", 2)
        status = int(status_text)
        if status >= 200:
            break
        interim.append(status)
        data = rest
    fields = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        assert colon, line
        fields.append((name, value.strip()))
    answer = Answer(status, fields, b"", version, reason, interim)
    answer.body, rest = _take_body(answer, rest, head, ended)
    return answer, rest


def _take_body(answer: Answer, rest: bytes, head: bool, ended: bool) -> tuple[bytes, bytes]:
    if head or answer.status in (204, 304):
        return b"", rest
    if (answer.field("Transfer-Encoding") or "").lower() == "chunked":
        return _take_chunks(rest)
    length = answer.field("Content-Length")
    if length is None:
        if not ended:
            raise Incomplete
        return rest, b""
    if len(rest) < int(length):
        raise Incomplete
    return rest[: int(length)], rest[int(length) :]


def _take_chunks(rest: bytes) -> tuple[bytes, bytes]:
    body, at = [], 0
    while True:
        end = rest.find(b"\r\n", at)
        if end < 0:
            raise Incomplete
        size, at = int(rest[at:end], 16), end + 2
        if len(rest) < at + size + 2:
            raise Incomplete
        assert rest[at + size : at + size + 2] == b"\r\n"
        body.append((at, at + size))
        at += size + 2
        if size == 0:
            return b"".join(rest[first:last] for first, last in body), rest[at:]


class Client:
    """A connection that says what it is told to, while the test turns the loop."""

    def __init__(self, served: Served, handle: socket.socket) -> None:
        self.served = served
        self.socket = handle
        self.got = b""
        self.ended = False
        self.reset = False

    def send(self, data: bytes) -> None:
        """Send all of it, turning the loop where the socket is full."""
        view = memoryview(data)

        def sent() -> bool:
            nonlocal view
            with suppress(BlockingIOError):
                view = view[self.socket.send(view) :]
            return not view

        turn_until(self.served.reactor, sent, "room to send")

    def end(self) -> None:
        """End our half."""
        self.socket.shutdown(socket.SHUT_WR)

    def look(self, most: int = 1 << 20) -> None:
        """Receive what is there."""
        try:
            data = self.socket.recv(most)
        except BlockingIOError:
            return
        except ConnectionResetError:
            self.ended = self.reset = True
            return
        self.got += data
        self.ended = not data

    def until(self, condition: Callable[[], object], what: str = "it") -> None:
        """Turn the loop and receive until a condition holds."""

        def holds() -> object:
            if not self.ended:
                self.look()
            return condition()

        turn_until(self.served.reactor, holds, what)

    def answer(self, *, head: bool = False) -> Answer:
        """The next answer."""
        found: list[Answer] = []
        looked_at = -1

        def complete() -> bool:
            nonlocal looked_at
            if looked_at == len(self.got) and not self.ended:
                return False
            looked_at = len(self.got)
            try:
                answer, self.got = take_answer(self.got, head=head, ended=self.ended)
            except Incomplete:
                assert not self.ended, f"the connection ended within an answer: {self.got!r}"
                return False
            found.append(answer)
            return True

        self.until(complete, "an answer")
        return found[0]

    def ask(self, data: bytes, *, head: bool = False) -> Answer:
        """Send, and return the next answer."""
        self.send(data)
        return self.answer(head=head)

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        self.until(lambda: self.ended, "the end")
        return self.got

    def close(self) -> None:
        """Go away."""
        self.socket.close()


@dataclass
class Served:
    """A server, and the loop that it lives on."""

    server: Server
    reactor: Reactor
    clients: list[Client] = field(default_factory=list)

    def dial(self, *, receive_buffer: int | None = None, source: str | None = None) -> Client:
        """A client that is connected."""
        handle = socket.socket()
        if receive_buffer is not None:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            handle.bind((source, 0))
        handle.settimeout(PATIENCE_S)
        handle.connect(self.server.address)
        handle.setblocking(False)
        client = Client(self, handle)
        self.clients.append(client)
        return client

    def ask(self, data: bytes, *, head: bool = False) -> Answer:
        """Ask over a connection of its own."""
        client = self.dial()
        try:
            return client.ask(data, head=head)
        finally:
            client.close()

    def until(self, condition: Callable[[], object], what: str = "it") -> None:
        """Turn the loop until a condition holds."""
        turn_until(self.reactor, condition, what)

    def count(self, name: str) -> Any:
        """One of the engine's counters."""
        return self.server.engine.counters()[name]


@contextmanager
def serving(
    handler: Handler | None = None,
    *,
    files: Files | str | os.PathLike[str] | None = None,
    clock: Any = None,
    **more: Any,
) -> Iterator[Served]:
    """A server on loopback; options of `HttpOptions` are taken from the rest of the arguments.

    Its time stands still unless a test moves it or gives another clock: on a slow machine requests would grow old, and be
    refused.
    """
    names = set(HttpOptions.__dataclass_fields__)
    options = HttpOptions(**{name: more.pop(name) for name in list(more) if name in names})
    with Reactor(clock=ManualClock() if clock is None else clock) as reactor:
        served = Served(Server(handler, reactor=reactor, port=0, files=files, options=options, **more), reactor)
        try:
            yield served
        finally:
            for client in served.clients:
                client.close()
            served.server.close()


def get(path: str = "/", *fields: str, version: str = "1.1", method: str = "GET") -> bytes:
    """A request without content."""
    lines = [f"{method} {path} HTTP/{version}", "Host: test", *fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def post(path: str, body: bytes, *fields: str) -> bytes:
    """A request with content."""
    return get(path, f"Content-Length: {len(body)}", *fields, method="POST") + body
