"""Rules of what programs answer: whatever they say, the connection stays a conversation of HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.clock import ManualClock
from penstock.errors import UsageError
from penstock.http import FilePart, Request, Response
from tests.http.conformance.table import Scene, ask, chunked, rule
from tests.http.rig import Incomplete, get, post, serving, take_answer
from tests.net.rig import settle

TITLE = "Programs"

SECOND = get("/second")


def answered(
    name: str,
    make: Callable[[], Response],
    status: int,
    body: bytes = b"",
    *,
    method: str = "GET",
    **fields: str | None,
) -> Scene:
    """What a program answers, as it arrives; the connection goes on."""

    def play(folder: Path) -> None:
        def handler(request: Request) -> Response:
            return Response(200, b"second") if request.path == "/second" else make()

        with serving(handler, clock=ManualClock()) as served:
            client = served.dial()
            client.send(get(method=method) + SECOND)
            answer = client.answer(head=method == "HEAD")
            assert (answer.status, answer.body) == (status, body)
            for field, value in fields.items():
                assert answer.field(field.replace("_", "-")) == value, field
            assert answer.field("Server") == "penstock"
            assert answer.field("Date")
            assert client.answer().body == b"second"
            assert client.got == b""

    return Scene(name, play)


def broken(name: str, make: Callable[[], Response], most: int) -> Scene:
    """An answer that is not what it promised: at most so much of it comes, nothing after it, and the connection ends."""

    def play(folder: Path) -> None:
        with serving(lambda request: make(), clock=ManualClock()) as served:
            served.server.engine.on_error = lambda error, what: None
            client = served.dial()
            client.send(get() + SECOND)
            got = client.rest()
            assert got.count(b"HTTP/1.1 ") <= 1
            assert len(got.partition(b"\r\n\r\n")[2]) <= most
            assert served.count("broken_promises") == 1

    return Scene(name, play)


def fails(name: str, make: Callable[[], Any], status: int | None) -> Scene:
    """A program that raises: 500 if nothing was said, else an end that nobody takes for the end of the answer."""

    def play(folder: Path) -> None:
        def handler(request: Request) -> Any:
            return Response(200, b"second") if request.path == "/second" else make()

        with serving(handler, clock=ManualClock()) as served:
            errors: list[Exception] = []
            served.server.engine.on_error = lambda error, what: errors.append(error)
            client = served.dial()
            client.send(get() + SECOND)
            if status is not None:
                assert client.answer().status == status
                assert client.answer().body == b"second"
            else:
                got = client.rest()
                assert got.count(b"HTTP/1.1 ") <= 1
                with pytest.raises(Incomplete):
                    take_answer(got)
            assert len(errors) == 1

    return Scene(name, play)


def refused(name: str, *arguments: Any, **more: Any) -> Scene:
    """Something that a program cannot even say."""

    def play(folder: Path) -> None:
        with pytest.raises(UsageError):
            Response(*arguments, **more)

    return Scene(name, play)


def raises(error: Exception) -> Any:
    raise error


def pieces(*of: Any) -> Iterator[Any]:
    for piece in of:
        if isinstance(piece, Exception):
            raise piece
        yield piece


def promise(length: int | str) -> list[tuple[str, str]]:
    return [("Content-Length", str(length))]


def nothing_unasked(folder: Path) -> None:
    """An answer before the end of the content is the last one: the rest would be taken for requests."""

    def handler(request: Request) -> Response:
        return Response(200, b"early")

    with serving(handler, clock=ManualClock(), streaming=True) as served:
        client = served.dial()
        client.send(post("/", b"x" * 100)[:-50])
        client.until(lambda: b"early" in client.got, "the answer")
        client.send(b"x" * 50 + SECOND)
        got = client.rest()
        assert got.count(b"HTTP/1.1 ") == 1
        assert b"\r\nConnection: close\r\n" in got


def part_of(folder_size: int, promised: int) -> Callable[[], Response]:
    """A part of a file that is not as long as it is said to be."""

    def make() -> Response:
        fd = os.memfd_create("part") if hasattr(os, "memfd_create") else os.open("/dev/null", os.O_RDWR)
        os.write(fd, b"x" * folder_size)
        return Response(200, FilePart(fd, 0, promised))

    return make


def file_ends(folder: Path) -> None:
    """A part of a file that is shorter than its size."""
    with serving(lambda request: part_of(1_000, 5_000)(), clock=ManualClock()) as served:
        client = served.dial()
        client.send(get() + SECOND)
        got = client.rest()
        assert got.count(b"HTTP/1.1 ") == 1
        assert len(got) < 5_000
        assert served.count("truncated") == 1


class Told:
    """A program that takes content as it comes, and what became of that."""

    def __init__(self) -> None:
        self.got: list[bytes | None] = []
        self.gone = 0

    def __call__(self, request: Request) -> None:
        request.watch(self.on_gone)
        request.receive(self.got.append)

    def on_gone(self) -> None:
        self.gone += 1


def stops(name: str, sent: bytes, status: int | None, *, content: bytes, end: bool = False, wait: float = 0) -> Scene:
    """Content that streams to a program and does not come to its end: the client is told why, and the program that."""

    def play(folder: Path) -> None:
        told, clock = Told(), ManualClock()
        with serving(told, clock=clock, streaming=True, max_body=100, body_timeout=5) as served:
            client = served.dial()
            client.send(sent[:-10])
            served.until(lambda: b"".join(piece or b"" for piece in told.got) == content, "the content")
            client.send(sent[-10:])
            if end:
                client.end()
            if wait:
                settle(served.reactor)
                clock.advance(int(wait * 1e9))
            got = client.rest()
            assert got.startswith(b"HTTP/1.1 %d " % status) if status else got == b""
            assert None not in told.got
            served.until(lambda: told.gone == 1, "the news")

    return Scene(name, play)


EVIL = "a\r\nX-Evil: 1"
BODY = b"content"

HELLO_CHUNK = b"5\r\nhello\r\n"
UNENDED = ask("POST / HTTP/1.1", "Content-Length: 50", content=b"x" * 30)

RULES = [
    rule(
        "9112, 8",
        "Content that streams and does not come to its end is no content: the program is told that its client is gone.",
        stops("the client ends its half", UNENDED, None, content=b"x" * 20, end=True),
        stops("the client stops", UNENDED, 408, content=b"x" * 20, wait=10.1),
        stops("a bad chunk", chunked("/", HELLO_CHUNK + b"x" * 10), 400, content=b"hello"),
        stops("no end of a chunk", chunked("/", HELLO_CHUNK + b"5\r\nhello!\r\n"), 400, content=b"hello"),
        stops("too much", chunked("/", HELLO_CHUNK + b"fffff;ab\r\n"), 413, content=b"hello"),
        stops("bad trailers", chunked("/", HELLO_CHUNK + b"0\r\nno colon\r\n"), 400, content=b"hello"),
    ),
    rule(
        "9112, 6.3",
        "An answer has the length it says, or ends with its last chunk.",
        answered("bytes", lambda: Response(200, BODY), 200, BODY, content_length="7", transfer_encoding=None),
        answered("text", lambda: Response(200, "ü"), 200, "ü".encode(), content_length="2"),
        answered("nothing", lambda: Response(200), 200, b"", content_length="0"),
        answered(
            "pieces",
            lambda: Response(200, pieces(b"a", b"", b"b")),
            200,
            b"ab",
            content_length=None,
            transfer_encoding="chunked",
        ),
        answered("no pieces", lambda: Response(200, pieces()), 200, b"", transfer_encoding="chunked"),
        answered(
            "a promise that is kept",
            lambda: Response(200, pieces(b"ab", b"c"), promise(3)),
            200,
            b"abc",
            content_length="3",
            transfer_encoding=None,
        ),
        answered("a promise about bytes", lambda: Response(200, BODY, promise(7)), 200, BODY, content_length="7"),
        answered("a part of a file", part_of(100, 50), 200, b"x" * 50, content_length="50"),
        answered("an error of the program's own", lambda: Response(404, BODY), 404, BODY, content_length="7"),
        answered("a status without a name", lambda: Response(299, BODY), 299, BODY),
    ),
    rule(
        "9110, 6.4.1",
        "Answers to HEAD and with 204 or 304 have no content, whatever the program gives.",
        answered("HEAD", lambda: Response(200, BODY), 200, method="HEAD", content_length="7"),
        answered("HEAD of pieces", lambda: Response(200, pieces(b"a")), 200, method="HEAD", content_length=None),
        answered(
            "HEAD of pieces with a promise",
            lambda: Response(200, pieces(b"a"), promise(9)),
            200,
            method="HEAD",
            content_length="9",
        ),
        answered("HEAD of a file", part_of(10, 10), 200, method="HEAD", content_length="10"),
        answered("204", lambda: Response(204), 204, content_length=None, transfer_encoding=None),
        answered("204 with content", lambda: Response(204, BODY), 204, content_length=None, transfer_encoding=None),
        answered(
            "204 with pieces", lambda: Response(204, pieces(b"a")), 204, content_length=None, transfer_encoding=None
        ),
        answered("204 with a promise", lambda: Response(204, b"", promise(5)), 204, content_length=None),
        answered("304", lambda: Response(304), 304, transfer_encoding=None),
        answered("304 with content", lambda: Response(304, BODY), 304, transfer_encoding=None),
        answered("304 with pieces", lambda: Response(304, pieces(b"a")), 304, transfer_encoding=None),
        answered("205", lambda: Response(205), 205, b"", content_length="0"),
        answered("205 with content", lambda: Response(205, BODY), 205, b"", content_length="0"),
        answered(
            "205 with pieces", lambda: Response(205, pieces(b"a")), 205, b"", content_length="0", transfer_encoding=None
        ),
    ),
    rule(
        "9112, 6.3",
        "An answer that breaks its promise ends the connection; what follows is never taken for a part of it.",
        broken("bytes, more", lambda: Response(200, BODY, promise(3)), 3),
        broken("bytes, fewer", lambda: Response(200, BODY, promise(9)), 7),
        broken("none, and some promised", lambda: Response(200, b"", promise(9)), 0),
        broken("pieces, more", lambda: Response(200, pieces(b"ab", b"cd"), promise(3)), 3),
        broken("pieces, one too many", lambda: Response(200, pieces(b"abc", SECOND), promise(3)), 3),
        broken("pieces, fewer", lambda: Response(200, pieces(b"ab"), promise(3)), 2),
        broken("pieces, none", lambda: Response(200, pieces(), promise(3)), 0),
        Scene("a file, shorter", file_ends),
        Scene("an answer before the content has come", nothing_unasked),
    ),
    rule(
        "ours",
        "A program that fails is answered for with 500; one that fails within its answer ends the connection.",
        fails("at once", lambda: raises(ValueError("no")), 500),
        fails("no response", lambda: "hello", 500),
        fails("before its first piece", lambda: Response(200, pieces(ValueError("no"))), None),
        fails("between pieces", lambda: Response(200, pieces(b"a", ValueError("no"))), None),
        fails("a piece that is no bytes", lambda: Response(200, pieces(b"a", "b")), None),
        fails("with a promise", lambda: Response(200, pieces(b"a", ValueError("no")), promise(5)), None),
    ),
    rule(
        "9110, 5.5",
        "A program cannot write a second field, or a second answer, into a first one.",
        refused("CR LF in a value", 200, b"", [("X", EVIL)]),
        refused("CR LF in a name", 200, b"", [(EVIL, "y")]),
        refused("CR", 200, b"", [("X", "a\rb")]),
        refused("LF", 200, b"", [("X", "a\nb")]),
        refused("NUL", 200, b"", [("X", "a\0b")]),
        refused("bytes", 200, b"", [(b"X", b"a\r\nb")]),
        refused("a content type", 200, b"", content_type="text/plain\r\nX: y"),
        refused("beyond ISO-8859-1", 200, b"", [("X", "\u010d\u010a")]),
        refused("an empty name", 200, b"", [("", "y")]),
        refused("a colon in a name", 200, b"", [("X:", "y")]),
        refused("a space in a name", 200, b"", [("X ", "y")]),
        refused("a fold", 200, b"", [("X", "a\r\n b")]),
        answered("white space around is cut", lambda: Response(200, b"", [("X", " a\t")]), 200, x="a"),
        answered("a tab stays", lambda: Response(200, b"", [("X", "a\tb")]), 200, x="a\tb"),
    ),
    rule(
        "9110, 7.6.1",
        "What frames a message or belongs to the connection is the server's to say, and so are Date and Server.",
        *(
            refused(name, 200, b"", [(name, value)])
            for name, value in (
                ("Transfer-Encoding", "chunked"),
                ("transfer-encoding", "identity"),
                ("Connection", "close"),
                ("Keep-Alive", "timeout=5"),
                ("Upgrade", "h2c"),
                ("Trailer", "X"),
                ("Date", "Sun, 09 Sep 2001 01:46:40 GMT"),
                ("Server", "other"),
            )
        ),
        refused("two lengths", 200, b"", [("Content-Length", "1"), ("Content-Length", "2")]),
        refused("a length that is none", 200, b"", [("Content-Length", "x")]),
        refused("a signed length", 200, b"", [("Content-Length", "+1")]),
        refused("a length beyond counting", 200, b"", [("Content-Length", "9" * 30)]),
        refused("an interim status", 100),
        refused("switching protocols", 101),
        refused("a status beyond all", 1000),
        refused("a status that is none", "200"),
    ),
]
