"""Programs behind the engine: those that fail, and the content of requests."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

from penstock.http.exchange import Request
from penstock.http.message import Response
from tests.http.rig import get, post, serving
from tests.http.test_engine import echo
from tests.net.rig import settle

# ---- programs that fail ----------------------------------------------------------------------------------------------


def test_a_handler_that_raises_is_answered_for_and_reported() -> None:
    told: list[str] = []

    def handler(request: Request) -> Response:
        raise ValueError(request.path)

    with serving(handler, on_error=lambda error, what: told.append(str(error))) as served:
        client = served.dial()
        for path in ("/1", "/2"):
            assert client.ask(get(path)).status == 500
        assert told == ["/1", "/2"]
        assert served.count("errors") == 2


def test_a_handler_that_gives_nonsense_is_answered_for() -> None:
    with serving(lambda request: "hello", on_error=lambda error, what: None) as served:  # type: ignore[arg-type,return-value]
        assert served.ask(get()).status == 500


def test_a_body_that_raises_ends_the_connection() -> None:
    def body() -> Iterator[bytes]:
        yield b"x" * 10
        raise ValueError("half way")

    with serving(lambda request: Response(200, body()), on_error=lambda error, what: None) as served:
        client = served.dial()
        client.send(get() + get())
        received = client.rest()
        assert received.count(b"HTTP/1.1") <= 1
        assert not received.endswith(b"0\r\n\r\n")
        assert served.count("errors") == 1


def test_a_body_is_closed_when_its_client_goes_away() -> None:
    closed: list[bool] = []

    def body() -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 100_000
        finally:
            closed.append(True)

    with serving(lambda request: Response(200, body())) as served:
        client = served.dial()
        client.send(get())
        client.until(lambda: len(client.got) > 500_000, "some content")
        client.close()
        served.until(lambda: closed, "the end of the body")
        assert served.count("aborted") == 1


def test_a_program_learns_that_its_client_is_gone() -> None:
    asked: list[Request] = []
    told: list[str] = []

    def handler(request: Request) -> None:
        request.watch(lambda: told.append(request.path))
        asked.append(request)

    with serving(handler) as served:
        client = served.dial()
        client.send(get("/gone"))
        served.until(lambda: asked, "the request")
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        served.until(lambda: told, "the news")
        assert asked[0].gone
        assert not asked[0].respond(Response(200, b"too late"))
        assert served.server.engine.admission.counters()["in_work"] == 0


# ---- content of requests ---------------------------------------------------------------------------------------------


def test_content_that_is_too_large_is_refused_before_it_comes() -> None:
    with serving(echo, max_body=1000) as served:
        client = served.dial()
        client.send(get("/", "Content-Length: 1001", method="POST"))
        assert client.answer().status == 413
        client.rest()


def test_content_in_chunks_that_is_too_large_is_refused() -> None:
    with serving(echo, max_body=1000) as served:
        client = served.dial()
        client.send(
            get("/", "Transfer-Encoding: chunked", method="POST") + b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\ny\r\n"
        )
        assert client.answer().status == 413


def test_content_beyond_memory_goes_into_a_file() -> None:
    body = os.urandom(3_000_000)

    def handler(request: Request) -> Response:
        with request.open_body() as file:
            return Response(200, file.read(), [("X-Bytes", str(request.body_bytes))])

    with serving(handler, spooling=True, max_body_kept=10_000) as served:
        client = served.dial()
        client.ask(get())
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(2):
            answer = client.ask(post("/", body))
            assert answer.body == body
            assert answer.field("X-Bytes") == "3000000"
        assert len(os.listdir("/proc/self/fd")) <= before


def test_a_client_that_asks_is_told_to_continue() -> None:
    with serving(echo) as served:
        client = served.dial()
        client.send(get("/", "Content-Length: 3", "Expect: 100-continue", method="POST"))
        client.until(lambda: client.got == b"HTTP/1.1 100 Continue\r\n\r\n", "leave to continue")
        client.send(b"abc")
        answer = client.answer()
        assert answer.interim == [100]
        assert answer.body.endswith(b"abc")


def test_content_streams_to_a_program_that_wants_it() -> None:
    got: list[bytes | None] = []

    def handler(request: Request) -> None:
        def on_content(data: bytes | None) -> None:
            got.append(data)
            if data is None:
                request.respond(Response(200, f"{sum(len(piece or b'') for piece in got)}"))

        request.receive(on_content)

    with serving(handler, streaming=True, max_body=100_000_000) as served:
        client = served.dial()
        for _ in range(2):
            got.clear()
            assert client.ask(post("/", b"x" * 20_000_000)).body == b"20000000"
            assert len(got) > 10
        got.clear()
        assert client.ask(get()).body == b"0"


def test_a_program_that_does_not_take_content_makes_the_peer_wait() -> None:
    asked: list[Request] = []
    with serving(asked.append, streaming=True, max_body=100_000_000) as served:
        client = served.dial()
        client.send(get("/", "Content-Length: 50000000", method="POST"))
        served.until(lambda: asked, "the request")
        sent = 0
        for _ in range(500):
            try:
                sent += client.socket.send(b"x" * 65_536)
            except BlockingIOError:
                settle(served.reactor, 2)
        assert sent < 40_000_000
        assert asked[0].body_bytes < 1_000_000
        # An answer before the end of the content is the last one: the rest would be taken for requests.
        asked[0].respond(Response(200, b"enough"))
        client.until(lambda: b"enough" in client.got, "the answer")
        assert b"Connection: close" in client.got
