"""Rules of time: each state has its deadline, absolute, and what the client is told when it is over. The clock is ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.core.clock import ManualClock
from penstock.http import Request, Response
from tests.http.conformance.table import Scene, ask, chunked, rule
from tests.http.rig import Client, Served, get, post, serving
from tests.net.rig import settle

TITLE = "Deadlines"

NS = 1_000_000_000
TIMES = {
    "first_byte_timeout": 3,
    "header_timeout": 5,
    "body_timeout": 7,
    "idle_timeout": 20,
    "send_timeout": 4,
    "linger": 2,
}


class Stage:
    """A server under a clock that only the scene moves."""

    def __init__(self, served: Served, clock: ManualClock) -> None:
        self.served = served
        self.clock = clock

    def wait(self, seconds: float) -> None:
        """Let so much time pass, with what happens before and after."""
        settle(self.served.reactor, 4)
        self.clock.advance(int(seconds * NS))
        settle(self.served.reactor, 8)

    def open(self) -> int:
        """Connections that are open."""
        return self.served.server.engine.open

    def arrived(self, count: int = 1) -> None:
        """Until so many connections are accepted."""
        self.served.until(lambda: self.open() == count, "connections")

    def gone(self) -> None:
        """Until all connections are over."""
        self.served.until(lambda: self.open() == 0, "the end")

    def timed_out(self, state: str) -> None:
        """One connection was too long in this state, and none in another."""
        assert self.served.count("timeouts") == {state: 1}

    def ends(self, client: Client, status: int | None) -> bytes:
        """The connection ends with this status, or without a word."""
        got = client.rest()
        assert got.startswith(b"HTTP/1.1 %d " % status) if status else got == b""
        return got


def played(name: str, act: Callable[[Stage], None], handler: Any = None, **more: Any) -> Scene:
    """A scene on a server with known deadlines."""

    def play(folder: Path) -> None:
        clock = ManualClock()
        with serving(handler or plain, clock=clock, **{**TIMES, **more}) as served:
            act(Stage(served, clock))

    return Scene(name, play)


def plain(request: Request) -> Response:
    return Response(200, request.body or b"hello")


def later(request: Request) -> None:
    """A program that does not answer."""


# ---- before a request ------------------------------------------------------------------------------------------------


def says_nothing(stage: Stage) -> None:
    client = stage.served.dial()
    stage.arrived()
    stage.wait(2.9)
    assert stage.open() == 1
    stage.wait(0.2)
    stage.ends(client, None)
    stage.timed_out("fresh")


def idles(stage: Stage) -> None:
    client = stage.served.dial()
    for _ in range(3):
        assert client.ask(get()).status == 200
        stage.wait(19.9)
    assert client.ask(get()).status == 200
    stage.wait(20.1)
    stage.ends(client, None)
    stage.timed_out("idle")


def idles_after_a_large_answer(stage: Stage) -> None:
    client = stage.served.dial()
    assert len(client.ask(get()).body) == 5_000_000
    stage.wait(19.9)
    assert stage.open() == 1
    stage.wait(0.2)
    stage.ends(client, None)
    stage.timed_out("idle")


def empty_lines_are_no_request(stage: Stage) -> None:
    """What only keeps a connection alive does not."""
    client = stage.served.dial()
    client.send(b"\r\n")
    stage.wait(4.9)
    assert stage.open() == 1
    stage.wait(0.2)
    client.rest()
    stage.timed_out("head")


# ---- heads -----------------------------------------------------------------------------------------------------------


def head_drips(stage: Stage) -> None:
    client = stage.served.dial()
    for byte in get("/", "X: 0123456789")[:4]:
        client.send(bytes((byte,)))
        stage.wait(1.2)
    assert client.got == b""
    stage.wait(0.4)
    got = stage.ends(client, 408)
    assert b"\r\nConnection: close\r\n" in got
    stage.timed_out("head")


def fields_drip(stage: Stage) -> None:
    client = stage.served.dial()
    client.send(get()[:-2])
    for number in range(4):
        stage.wait(1.2)
        client.send(b"X%d: y\r\n" % number)
    stage.wait(0.4)
    stage.ends(client, 408)
    stage.timed_out("head")


def second_head_stops(stage: Stage) -> None:
    """The deadline counts from the first byte of this head, not of the connection."""
    client = stage.served.dial()
    assert client.ask(get()).status == 200
    stage.wait(15)
    client.send(b"GET ")
    stage.wait(4.9)
    assert client.got == b""
    assert stage.open() == 1
    stage.wait(0.2)
    stage.ends(client, 408)
    stage.timed_out("head")


def head_in_time(stage: Stage) -> None:
    client = stage.served.dial()
    client.send(get()[:-1])
    stage.wait(4.9)
    client.send(b"\n")
    assert client.answer().status == 200


# ---- content ---------------------------------------------------------------------------------------------------------


def content_stops(stage: Stage) -> None:
    client = stage.served.dial()
    client.send(post("/", b"x" * 100)[:-1])
    stage.wait(6.9)
    assert stage.open() == 1
    stage.wait(7.2)
    stage.ends(client, 408)
    stage.timed_out("body")


def content_drips(stage: Stage) -> None:
    """A byte now and then is less than the least rate."""
    client = stage.served.dial()
    client.send(ask("POST / HTTP/1.1", "Content-Length: 1000"))
    for _ in range(8):
        client.send(b"x")
        stage.wait(1)
    stage.ends(client, 408)
    stage.timed_out("body")


def chunks_drip(stage: Stage) -> None:
    client = stage.served.dial()
    client.send(chunked("/", b""))
    for _ in range(8):
        client.send(b"1\r\nx\r\n")
        stage.wait(1)
    stage.ends(client, 408)
    stage.timed_out("body")


def content_flows(stage: Stage) -> None:
    """At the least rate content may take as long as it takes."""
    client = stage.served.dial()
    client.send(ask("POST / HTTP/1.1", "Content-Length: 80000"))
    for _ in range(10):
        client.send(b"x" * 8_000)
        stage.wait(6.5)
    assert len(client.answer().body) == 80_000


def expected_content_stops(stage: Stage) -> None:
    client = stage.served.dial()
    client.send(ask("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 10"))
    client.until(lambda: client.got.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"), "100")
    stage.wait(7.1)
    assert b"HTTP/1.1 408 " in client.rest()
    stage.timed_out("body")


# ---- answers ---------------------------------------------------------------------------------------------------------


def large(request: Request) -> Response:
    return Response(200, b"x" * 5_000_000)


def nothing_is_taken(stage: Stage) -> None:
    client = stage.served.dial(receive_buffer=4096)
    client.send(get())
    stage.served.until(lambda: stage.served.count("states")["sending"] == 1, "the answer")
    settle(stage.served.reactor, 50)
    stage.wait(4.1)
    stage.wait(4.1)
    stage.gone()
    stage.timed_out("sending")


def program_is_slow(stage: Stage) -> None:
    client = stage.served.dial()
    client.send(get("/1") + get("/2"))
    stage.served.until(lambda: stage.served.count("states")["working"] == 1, "the program")
    stage.wait(2.1)
    got = stage.ends(client, 503)
    assert got.count(b"HTTP/1.1") == 1
    assert b"\r\nRetry-After: " in got
    stage.timed_out("working")


def last_words_linger(stage: Stage) -> None:
    """After the last answer what comes is thrown away, but not for ever."""
    client = stage.served.dial()
    client.send(b"junk\r\n\r\n")
    stage.ends(client, 400)
    for _ in range(3):
        client.send(b"more junk")
        stage.wait(0.6)
    assert stage.open() == 1
    stage.wait(0.6)
    stage.gone()


RULES = [
    rule(
        "ours",
        "A connection on which nothing is asked is closed without a word.",
        played("no first byte", says_nothing),
        played("idle between requests", idles),
        played("idle after a large answer", idles_after_a_large_answer, large),
        played("nothing but empty lines", empty_lines_are_no_request),
    ),
    rule(
        "9110, 15.5.9",
        "A head that does not come in time is answered with 408; bytes that trickle do not extend the time.",
        played("a byte at a time", head_drips),
        played("a field at a time", fields_drip),
        played("a second head", second_head_stops),
        played("in time", head_in_time),
    ),
    rule(
        "9110, 15.5.9",
        "Content that comes more slowly than the least rate is answered with 408.",
        played("it stops", content_stops),
        played("a byte at a time", content_drips),
        played("a chunk at a time", chunks_drip),
        played("it was expected and does not come", expected_content_stops),
        played("it flows", content_flows),
    ),
    rule(
        "ours",
        "An answer that nobody takes, or that does not come, has an end.",
        played("nobody takes it", nothing_is_taken, large),
        played("the program does not answer", program_is_slow, later, work_timeout=2),
        played("the client goes on after the last answer", last_words_linger),
    ),
]
