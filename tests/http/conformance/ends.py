"""Rules of ends: half-closes, resets, clients that go on sending, and what must be left afterwards: nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.core.clock import ManualClock
from penstock.http import Request, Response
from tests.http.conformance.running import make_conformance_site
from tests.http.conformance.table import Scene, ask, chunked, rule
from tests.http.rig import Client, Served, get, post, serving, take_answer
from tests.http.site import put
from tests.net.rig import settle

TITLE = "Ends"

NO_LINGER = b"\1\0\0\0\0\0\0\0"
SIZE = 5_000_000
LARGE = ("/large", "/pieces", "/files/huge.bin")


class Stage:
    """A server with a program and files, and what became of both."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.descriptors = len(os.listdir("/dev/fd"))

    def nothing_left(self) -> None:
        """No connection, no descriptor, and the server still serves."""
        self.served.until(lambda: self.served.server.engine.open == 0, "the end of all connections")
        assert self.served.count("missteps") == 0
        assert sum(self.served.count("states").values()) == 0
        client = self.served.dial()
        assert client.ask(get("/after")).body == b"/after "
        client.close()
        self.served.until(lambda: self.served.server.engine.open == 0, "the end of all connections")


def program(request: Request) -> Response | None:
    """Answers with what was asked; large on demand, never on demand."""
    if request.path == "/large":
        return Response(200, b"x" * SIZE)
    if request.path == "/pieces":
        return Response(200, (b"x" * 10_000 for _ in range(SIZE // 10_000)))
    if request.path == "/never":
        return None
    return Response(200, request.path.encode() + b" " + request.body)


def played(name: str, act: Callable[[Stage], None], **more: Any) -> Scene:
    """A scene on a server with files and a program; afterwards nothing of it is left."""

    def play(folder: Path) -> None:
        site = make_conformance_site(folder)
        put(site / "huge.bin", b"x" * SIZE)
        with serving(program, files=site, prefix="/files/", clock=ManualClock(), **more) as served:
            stage = Stage(served)
            act(stage)
            for client in served.clients:
                client.close()
            served.clients.clear()
            stage.nothing_left()

    return Scene(name, play)


def reset(client: Client) -> None:
    """Go away without a word."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    client.close()


# ---- half-closes -----------------------------------------------------------------------------------------------------


def half(name: str, sent: bytes, *statuses: int) -> Scene:
    """The client sends, ends its half, and gets these answers and the end."""

    def act(stage: Stage) -> None:
        client = stage.served.dial()
        client.send(sent)
        client.end()
        got, answers = client.rest(), []
        while got:
            answer, got = take_answer(got, ended=True)
            answers.append(answer.status)
        assert tuple(answers) == statuses
        assert not client.reset

    return played(name, act)


def half_while_working(stage: Stage) -> None:
    """An answer that comes after the client's half has ended still reaches it."""
    asked: list[Request] = []

    def remember(request: Request) -> None:
        asked.append(request)

    with serving(remember, clock=ManualClock()) as served:
        client = served.dial()
        client.send(get("/1") + get("/2"))
        client.end()
        for number in (1, 2):
            served.until(lambda: len(asked) == number, "the request")  # noqa: B023 - called at once
            settle(served.reactor)
            assert not asked[-1].gone
            assert asked[-1].respond(Response(200, str(number)))
        assert client.rest().count(b"HTTP/1.1 200") == 2


def half_while_sending(stage: Stage) -> None:
    for path in LARGE:
        client = stage.served.dial(receive_buffer=65_536)
        client.send(get(path))
        client.end()
        assert len(take_answer(client.rest(), ended=True)[0].body) == SIZE


def large_and_close(stage: Stage) -> None:
    """A large answer that is the last one ends the connection when it is sent, not when somebody loses patience."""
    for path in LARGE:
        client = stage.served.dial(receive_buffer=65_536)
        client.send(get(path, "Connection: close") + get("/hidden"))
        answer, rest = take_answer(client.rest(), ended=True)
        assert len(answer.body) == SIZE
        assert rest == b""


def large_in_a_row(stage: Stage) -> None:
    client = stage.served.dial(receive_buffer=65_536)
    client.send(get("/large") + get("/files/huge.bin") + get("/pieces") + get("/small"))
    for _ in LARGE:
        assert len(client.answer().body) == SIZE
    assert client.answer().body == b"/small "


# ---- resets ----------------------------------------------------------------------------------------------------------


def reset_in(name: str, sent: bytes) -> Scene:
    """The client sends, and resets the connection after some turns; nobody else notices."""

    def act(stage: Stage) -> None:
        other = stage.served.dial()
        for turns in (0, 1, 2, 5, 20):
            client = stage.served.dial(receive_buffer=4096)
            client.send(sent)
            settle(stage.served.reactor, turns)
            reset(client)
            assert other.ask(get("/other")).body == b"/other "
        other.close()

    return played(name, act)


def reset_while_waiting(stage: Stage) -> None:
    """Nobody works for who is gone: a program that has the request is told."""
    told: list[str] = []
    asked: list[Request] = []

    def remember(request: Request) -> None:
        asked.append(request)
        request.watch(lambda: told.append(request.path))

    with serving(remember, clock=ManualClock()) as served:
        client = served.dial()
        client.send(get("/gone"))
        served.until(lambda: asked, "the request")
        reset(client)
        served.until(lambda: told, "the news")
        assert asked[0].gone
        assert not asked[0].respond(Response(200))


# ---- clients that go on ----------------------------------------------------------------------------------------------


def goes_on(name: str, sent: bytes, status: int, more: int = 500_000, **options: Any) -> Scene:
    """A client that goes on sending reads the answer, and is not reset."""

    def act(stage: Stage) -> None:
        client = stage.served.dial()
        client.send(sent)
        for _ in range(more // 10_000):
            client.send(b"x" * 10_000)
            client.look()
        got = client.rest()
        assert got.startswith(b"HTTP/1.1 %d " % status)
        assert got.count(b"\r\nServer: ") == 1
        assert b"\r\nConnection: close\r\n" in got
        assert not client.reset

    return played(name, act, **options)


def goes_on_for_ever(stage: Stage) -> None:
    """What is thrown away has a limit too."""
    client = stage.served.dial()
    client.send(b"junk\r\n\r\n")

    def over() -> bool:
        try:
            client.socket.send(b"x" * 65_536)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return False

    stage.served.until(over, "the end of patience")
    assert stage.served.count("lingered_bytes") < 4_000_000


RULES = [
    rule(
        "9112, 9.6",
        "A client that ends its half still gets every answer it asked for, and then the end.",
        half("nothing asked", b""),
        half("one request", get(), 200),
        half("two", get("/1") + get("/2"), 200, 200),
        half("a thousand", get("/1") * 1000, *[200] * 1000),
        half("a thousand files", get("/files/page.txt") * 1000, *[200] * 1000),
        half("content", post("/", b"abc"), 200),
        half("chunks", chunked("/", b"3\r\nabc\r\n0\r\n\r\n"), 200),
        half("a bad one behind a good one", get() + b"junk\r\n\r\n", 200, 400),
        half("half a head", get() + get()[:-1], 200),
        half("half a request line", b"GET "),
        half("an empty line", b"\r\n"),
        half("half the content", post("/", b"abc")[:-1]),
        half("half a chunk", chunked("/", b"3\r\nab")),
        half("chunks without the last", chunked("/", b"3\r\nabc\r\n")),
        half("no end of the trailers", chunked("/", b"3\r\nabc\r\n0\r\n")),
        half("after close", ask("GET / HTTP/1.1", "Connection: close"), 200),
        played("while the program works", half_while_working),
        played("while a large answer is sent", half_while_sending),
    ),
    rule(
        "9112, 9.6",
        "A large answer ends like a small one.",
        played("the last one", large_and_close),
        played("several in a row", large_in_a_row),
    ),
    rule(
        "ours",
        "A connection that is reset leaves nothing behind, whatever it was doing.",
        reset_in("before a request", b""),
        reset_in("in a head", b"GET / HT"),
        reset_in("in content", post("/", b"x" * 1000)[:-1]),
        reset_in("in chunks", chunked("/", b"5\r\nhe")),
        reset_in("behind a request", get()),
        reset_in("behind many", get("/1") * 500),
        reset_in("in a large answer", get("/large")),
        reset_in("in an answer in pieces", get("/pieces")),
        reset_in("in a large file", get("/files/huge.bin")),
        reset_in("in several ranges", get("/files/huge.bin", "Range: bytes=0-9,100-4999999")),
        reset_in("in the second large file", get("/files/huge.bin") * 2),
        reset_in("while the program works", get("/never")),
        reset_in("after a bad request", b"junk\r\n\r\n"),
        played("the program is told", reset_while_waiting),
    ),
    rule(
        "9112, 9.6",
        "Who goes on sending after the last answer reads it, and is not reset.",
        goes_on("after a bad request", b"junk\r\n\r\n", 400),
        goes_on("after a line too long", b"GET /" + b"a" * 10_000, 414),
        goes_on("after a head too large", ask("GET / HTTP/1.1")[:-2] + b"X: ", 431),
        goes_on("after content too large", ask("POST / HTTP/1.1", "Content-Length: 99999999"), 413),
        goes_on("after a bad chunk", chunked("/", b"x\r\n"), 400),
        goes_on("after an unknown coding", chunked("/", b"", coding="Transfer-Encoding: x"), 501),
        goes_on("after another version", b"GET / HTTP/2.0\r\n\r\n", 505),
        goes_on("after close", ask("GET / HTTP/1.1", "Connection: close"), 200),
        goes_on(
            "after content that no file takes",
            ask("POST /files/x HTTP/1.1", "Expect: 100-continue", "Content-Length: 999999"),
            405,
        ),
        played("but not for ever", goes_on_for_ever),
    ),
]
