"""WSGI applications: what they are told, what they answer, and what happens when they or their clients fail."""

from __future__ import annotations

import gc
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from wsgiref.validate import validator

import pytest

from penstock import Reactor
from penstock.errors import UsageError
from penstock.http import Request, Response
from penstock.http.options import HttpOptions
from penstock.http.server import Server
from penstock.http.wsgi import WsgiHandler
from tests.http.rig import Served, get, post
from tests.net.rig import PATIENCE_S

Start = Callable[..., Callable[[bytes], None]]
Environ = dict[str, Any]
App = Callable[[Environ, Start], Iterable[bytes]]


@contextmanager
def application(app: App, *, threads: int = 2, **options: Any) -> Iterator[tuple[Served, list[str]]]:
    told: list[str] = []
    with Reactor() as reactor:
        handler = WsgiHandler(app, reactor, threads=threads)
        server = Server(
            handler,
            reactor=reactor,
            port=0,
            options=HttpOptions(max_requests_in_work=threads, max_body_kept=10_000, **options),
            spooling=True,
            on_error=lambda error, what: told.append(f"{type(error).__name__}: {error}"),
        )
        served = Served(server, reactor)
        try:
            yield served, told
        finally:
            for client in served.clients:
                client.close()
            served.until(lambda: server.engine.open == 0, "the end of all connections")
            server.close()
            assert handler.close()


def hello(environ: Environ, start: Start) -> list[bytes]:
    start("200 OK", [("Content-Type", "text/plain")])
    return [b"hello, ", b"world"]


def test_an_application_answers() -> None:
    with application(validator(cast("Any", hello))) as (served, told):
        client = served.dial()
        for _ in range(3):
            answer = client.ask(get())
            assert (answer.status, answer.body) == (200, b"hello, world")
            assert answer.field("Content-Type") == "text/plain"
        assert not told


def test_what_an_application_is_told() -> None:
    seen: list[Environ] = []

    def app(environ: Environ, start: Start) -> list[bytes]:
        seen.append(dict(environ, body=environ["wsgi.input"].read()))
        start("204 No Content", [])
        return []

    fields = ("X-A: 1", "X-A: 2", "Cookie: a=b", "Cookie: c=d", "Proxy: evil", "X_B: no", "Content-Type: a/b")
    with application(app) as (served, _):
        client = served.dial()
        assert client.ask(post("/caf%C3%A9/x%2Fy?q=%20", b"content", *fields)).status == 204
        chunked = get("/c", "Transfer-Encoding: chunked", method="POST") + b"3\r\nabc\r\n0\r\n\r\n"
        assert client.ask(chunked).status == 204
    first, second = seen
    assert first["REQUEST_METHOD"] == "POST"
    assert first["PATH_INFO"] == "/café/x/y".encode().decode("latin-1")
    assert first["QUERY_STRING"] == "q=%20"
    assert first["SERVER_PROTOCOL"] == "HTTP/1.1"
    assert (first["SERVER_NAME"], first["SERVER_PORT"]) == ("test", "80")
    assert first["REMOTE_ADDR"] == "127.0.0.1"
    assert (first["HTTP_X_A"], first["HTTP_COOKIE"]) == ("1,2", "a=b; c=d")
    assert first["CONTENT_TYPE"] == "a/b"
    assert (first["CONTENT_LENGTH"], first["body"]) == ("7", b"content")
    assert "HTTP_PROXY" not in first
    assert "HTTP_X_B" not in first
    assert (second["CONTENT_LENGTH"], second["body"]) == ("3", b"abc")


def test_large_content_does_not_stay_in_memory() -> None:
    body = os.urandom(2_000_000)

    def app(environ: Environ, start: Start) -> list[bytes]:
        start("200 OK", [])
        return [environ["wsgi.input"].read()]

    with application(app) as (served, _):
        client = served.dial()
        for _ in range(2):
            assert client.ask(post("/", body)).body == body


def test_pieces_are_sent_as_they_come() -> None:
    go_on = threading.Event()

    def app(environ: Environ, start: Start) -> Iterator[bytes]:
        start("200 OK", [])
        yield b"first"
        assert go_on.wait(PATIENCE_S)
        yield b"second"

    with application(app) as (served, _):
        client = served.dial()
        client.send(get())
        client.until(lambda: b"first" in client.got, "the first piece")
        go_on.set()
        assert client.answer().body == b"firstsecond"


def test_a_slow_reader_holds_its_own_thread_back_only() -> None:
    made: list[int] = []

    def app(environ: Environ, start: Start) -> Iterable[bytes]:
        start("200 OK", [])
        if environ["PATH_INFO"] == "/small":
            return [b"small"]
        return endless()

    def endless() -> Iterator[bytes]:
        while True:
            made.append(1)
            yield b"x" * 10_000

    with application(app) as (served, told):
        slow = served.dial(receive_buffer=4096)
        slow.send(get("/endless"))
        slow.until(lambda: len(slow.got) > 1000, "some of it")
        other = served.dial()
        for _ in range(50):
            assert other.ask(get("/small")).body == b"small"
        # The system's buffers and one window.
        assert len(made) < 2000
        slow.close()
        served.until(lambda: served.server.engine.open == 1, "the end")
        assert other.ask(get("/small")).status == 200
        assert not told


def test_write_is_there_for_old_applications() -> None:
    def app(environ: Environ, start: Start) -> list[bytes]:
        write = start("200 OK", [("Content-Length", "6")])
        write(b"abc")
        return [b"def"]

    with application(app) as (served, _):
        assert served.ask(get()).body == b"abcdef"


def test_an_application_that_raises_is_answered_for() -> None:
    def app(environ: Environ, start: Start) -> list[bytes]:
        raise ValueError("broken")

    with application(app) as (served, told):
        client = served.dial()
        for _ in range(3):
            assert client.ask(get()).status == 500
        assert told == ["ValueError: broken"] * 3


def test_an_application_that_raises_half_way_ends_the_connection() -> None:
    def app(environ: Environ, start: Start) -> Iterator[bytes]:
        start("200 OK", [])
        yield b"some"
        raise ValueError("half way")

    with application(app) as (served, told):
        client = served.dial()
        client.send(get() + get())
        received = client.rest()
        assert not received.endswith(b"0\r\n\r\n")
        assert told == ["ValueError: half way"]


def test_an_application_may_change_its_mind_before_it_answers() -> None:
    def app(environ: Environ, start: Start) -> list[bytes]:
        start("200 OK", [])
        try:
            raise ValueError("oh")
        except ValueError as error:
            start("500 Oh", [("X-Error", "yes")], (type(error), error, error.__traceback__))
        return [b"sorry"]

    with application(app) as (served, _):
        answer = served.ask(get())
        assert (answer.status, answer.field("X-Error"), answer.body) == (500, "yes", b"sorry")


@pytest.mark.parametrize(
    ("app", "says"),
    [
        (lambda environ, start: [], "without calling start_response"),
        (lambda environ, start: [(start("200 OK", []) and b"") or b"", start("200 OK", []) and b""], "called twice"),
        (lambda environ, start: [start("yes", []) and b""], "the status is 'yes'"),
        (lambda environ, start: [start("200 OK", [("Connection", "x")]) and b""], "the server's to set"),
        (lambda environ, start: iter([start("200 OK", []) and "text"]), "yielded str"),
    ],
)
def test_mistakes_of_applications_are_told(app: App, says: str) -> None:
    with application(app) as (served, told):
        assert served.ask(get()).status == 500
        assert says in told[0]


def test_the_result_is_closed_whatever_happens() -> None:
    closed: list[bool] = []

    class Result:
        def __iter__(self) -> Iterator[bytes]:
            while True:
                yield b"x" * 100_000

        def close(self) -> None:
            closed.append(True)

    def app(environ: Environ, start: Start) -> Result:
        start("200 OK", [])
        return Result()

    with application(app) as (served, _):
        client = served.dial()
        client.send(get())
        client.until(lambda: len(client.got) > 200_000, "some of it")
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        served.until(lambda: closed, "the end of the result")


def test_as_many_are_in_work_as_there_are_threads() -> None:
    go_on = threading.Event()
    lock = threading.Lock()
    counts = {"now": 0, "most": 0}

    def app(environ: Environ, start: Start) -> list[bytes]:
        with lock:
            counts["now"] += 1
            counts["most"] = max(counts["most"], counts["now"])
        assert go_on.wait(PATIENCE_S)
        with lock:
            counts["now"] -= 1
        start("200 OK", [])
        return [b"done"]

    with application(app, threads=3, deadline=60) as (served, _):
        clients = [served.dial() for _ in range(8)]
        for client in clients:
            client.send(get())
        served.until(lambda: counts["now"] == 3 and served.server.engine.open == 8, "full threads")
        go_on.set()
        assert {client.answer().status for client in clients} <= {200, 503}
        assert counts["most"] == 3


def test_errors_of_use_are_told() -> None:
    with Reactor() as reactor:
        with pytest.raises(UsageError, match="cannot be called"):
            WsgiHandler("app", reactor)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="threads"):
            WsgiHandler(hello, reactor, threads=0)


@pytest.mark.usefixtures("quick_collector")
def test_requests_that_only_the_collector_finds_leave_nothing() -> None:
    """A program that keeps requests keeps its server in a circle, whose parts end in any order."""

    class Program:
        def __init__(self) -> None:
            self.kept: list[Request] = []
            self.me = self

        def __call__(self, request: Request) -> Response:
            self.kept.append(request)
            return Response(200)

    for _ in range(20):
        reactor = Reactor()
        program = Program()
        server = Server(program, reactor=reactor, port=0)
        served = Served(server, reactor)
        client = served.dial()
        for _ in range(3):
            client.ask(get())
        client.close()
        served.until(lambda server=server: server.engine.open == 0, "the end")  # type: ignore[misc]
        server.close()
        reactor.close()
        program.kept[0].context = (server, reactor, program)
        del served, client, server, reactor, program
        gc.collect()
