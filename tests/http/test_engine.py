"""The engine on real sockets: answers in order, content both ways, ends, deadlines, limits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock import Reactor, limits
from penstock.core.clock import ManualClock
from penstock.errors import UsageError
from penstock.http.exchange import Request
from penstock.http.message import WAIT, FilePart, Response, Wait
from penstock.http.server import Server
from tests.http.rig import Client, Served, get, post, serving
from tests.net.rig import settle


def echo(request: Request) -> Response:
    text = f"{request.method} {request.path} {request.query} {request.version}\n"
    return Response(200, text.encode() + request.body, [("X-Host", request.host)])


# ---- answers ---------------------------------------------------------------------------------------------------------


def test_a_handler_answers() -> None:
    with serving(echo) as served:
        answer = served.ask(get("/a/b?c=d"))
        assert answer.status == 200
        assert answer.body == b"GET /a/b c=d 1.1\n"
        assert answer.field("X-Host") == "test"
        assert answer.field("Content-Length") == str(len(answer.body))
        assert answer.field("Server") == "penstock"
        date = answer.field("Date")
        assert date is not None
        assert date.endswith(" GMT")
        assert answer.field("Connection") is None


def test_a_connection_is_kept_and_asked_again() -> None:
    with serving(echo) as served:
        client = served.dial()
        for number in range(5):
            assert client.ask(get(f"/{number}")).body == f"GET /{number}  1.1\n".encode()
        assert served.count("connections") == 1
        assert served.count("requests") == 5
        assert served.count("answers")["2xx"] == 5


@pytest.mark.parametrize("count", [2, 10, 1000])
def test_pipelined_requests_are_answered_in_order(count: int) -> None:
    with serving(echo) as served:
        client = served.dial()
        client.send(b"".join(get(f"/{number}") for number in range(count)))
        for number in range(count):
            assert client.answer().body == f"GET /{number}  1.1\n".encode()
        assert client.got == b""


def test_every_place_to_cut_a_request_gives_the_same_answer() -> None:
    asked = post("/p?q=1", b"some content", "X-Field: value", "Accept: */*")
    with serving(echo, header_timeout=3600, body_timeout=3600) as served:
        client = served.dial()
        for cut in range(1, len(asked)):
            client.send(asked[:cut])
            settle(served.reactor, 3)
            client.send(asked[cut:])
            assert client.answer().body == b"POST /p q=1 1.1\nsome content"


def test_a_request_that_drips_is_answered() -> None:
    with serving(echo) as served:
        client = served.dial()
        for byte in post("/drip", b"0123456789"):
            client.send(bytes((byte,)))
            settle(served.reactor, 2)
        assert client.answer().body == b"POST /drip  1.1\n0123456789"


def test_content_in_chunks_arrives_whole() -> None:
    with serving(echo) as served:
        asked = (
            get("/c", "Transfer-Encoding: chunked", method="POST") + b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nT: v\r\n\r\n"
        )
        assert served.ask(asked).body == b"POST /c  1.1\nabcdefg"


def test_an_answer_without_content() -> None:
    with serving(lambda request: Response(204)) as served:
        client = served.dial()
        answer = client.ask(get())
        assert (answer.status, answer.field("Content-Length"), answer.field("Transfer-Encoding")) == (204, None, None)
        assert client.ask(get()).status == 204


def test_head_is_answered_without_content() -> None:
    with serving(lambda request: Response(200, b"12345")) as served:
        client = served.dial()
        answer = client.ask(get(method="HEAD"), head=True)
        assert answer.field("Content-Length") == "5"
        assert client.ask(get()).body == b"12345"


def pieces(count: int, size: int) -> Iterator[bytes]:
    for number in range(count):
        yield bytes((number % 256,)) * size


@pytest.mark.parametrize(("count", "size"), [(0, 0), (1, 1), (100, 10), (50, 40_000), (3, 1_000_000)])
def test_an_answer_in_pieces(count: int, size: int) -> None:
    with serving(lambda request: Response(200, pieces(count, size))) as served:
        client = served.dial()
        for _ in range(2):
            answer = client.ask(get())
            assert answer.field("Transfer-Encoding") == "chunked"
            assert answer.body == b"".join(pieces(count, size))


def test_an_answer_in_pieces_to_an_old_client_ends_with_the_connection() -> None:
    with serving(lambda request: Response(200, pieces(10, 10))) as served:
        client = served.dial()
        client.send(get(version="1.0"))
        received = client.rest()
        head, _, body = received.partition(b"\r\n\r\n")
        assert b"Connection: close" in head
        assert b"Transfer-Encoding" not in head
        assert body == b"".join(pieces(10, 10))


def test_pieces_with_a_promised_length() -> None:
    with serving(lambda request: Response(200, pieces(4, 5), [("Content-Length", "20")])) as served:
        answer = served.ask(get())
        assert answer.field("Content-Length") == "20"
        assert answer.field("Transfer-Encoding") is None
        assert len(answer.body) == 20


@pytest.mark.parametrize("promised", ["19", "7", "0"])
def test_more_than_was_promised_is_cut_and_ends_the_connection(promised: str) -> None:
    with serving(lambda request: Response(200, pieces(4, 5), [("Content-Length", promised)])) as served:
        served.server.engine.on_error = lambda error, what: None
        client = served.dial()
        client.send(get() + get("/second"))
        _, _, body = client.rest().partition(b"\r\n\r\n")
        assert len(body) == int(promised)
        assert served.count("broken_promises") == 1


def test_less_than_was_promised_ends_the_connection() -> None:
    with serving(lambda request: Response(200, pieces(4, 5), [("Content-Length", "21")])) as served:
        served.server.engine.on_error = lambda error, what: None
        client = served.dial()
        client.send(get() + get("/second"))
        received = client.rest()
        assert received.count(b"HTTP/1.1") <= 1
        assert served.count("broken_promises") == 1
        assert served.count("aborted") == 1


def test_a_large_answer_does_not_fill_buffers() -> None:
    body = os.urandom(4_000_000)
    with serving(lambda request: Response(200, body)) as served:
        client = served.dial(receive_buffer=65_536)
        client.send(get())
        settle(served.reactor, 20)
        assert served.count("states")["sending"] == 1
        assert client.answer().body == body
        assert client.ask(get()).body == body


def test_a_part_of_a_file_is_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 10_000)

    def handler(request: Request) -> Response:
        return Response(200, FilePart(os.open(path, os.O_RDONLY), 256, 2_000_000))

    with serving(handler) as served:
        client = served.dial()
        for _ in range(2):
            assert client.ask(get()).body == path.read_bytes()[256:2_000_256]
        before = len(os.listdir("/proc/self/fd"))
        assert client.ask(get(method="HEAD"), head=True).field("Content-Length") == "2000000"
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_is_shorter_than_promised_ends_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)

    def handler(request: Request) -> Response:
        return Response(200, FilePart(os.open(path, os.O_RDONLY), 0, 200_000))

    with serving(handler) as served:
        client = served.dial()
        client.send(get())
        client.rest()
        assert served.count("truncated") == 1


def test_an_answer_may_come_later() -> None:
    asked: list[Request] = []
    with serving(asked.append) as served:
        client = served.dial()
        client.send(get("/1") + get("/2"))
        served.until(lambda: asked, "the request")
        settle(served.reactor)
        assert [request.path for request in asked] == ["/1"]
        assert asked[0].respond(Response(200, b"one"))
        assert client.answer().body == b"one"
        served.until(lambda: len(asked) == 2, "the second request")
        asked[1].respond(Response(200, b"two"))
        assert client.answer().body == b"two"
        with pytest.raises(UsageError, match="answered already"):
            asked[0].respond(Response(200, b"again"))


def _has(client: Client, piece: bytes) -> bool:
    return client.got.endswith(piece)


def test_pieces_that_are_not_there_yet_wait_for_the_program() -> None:
    ready: list[bytes] = []
    asked: list[Request] = []

    def body() -> Iterator[Any]:
        while True:
            if not ready:
                yield WAIT
            elif ready[0] == b"":
                return
            else:
                yield ready.pop(0)

    def handler(request: Request) -> Response:
        asked.append(request)
        return Response(200, body(), [("Content-Length", "6")])

    with serving(handler) as served:
        client = served.dial()
        client.send(get())
        served.until(lambda: asked, "the request")
        for piece in (b"abc", b"def"):
            ready.append(piece)
            asked[0].resume()
            client.until(partial(_has, client, piece), "a piece")
        ready.append(b"")
        asked[0].resume()
        assert client.answer().body == b"abcdef"


# ---- ends ------------------------------------------------------------------------------------------------------------


def test_nothing_after_close_is_looked_at() -> None:
    with serving(echo) as served:
        client = served.dial()
        client.send(get("/1", "Connection: close") + get("/2"))
        received = client.rest()
        assert received.count(b"HTTP/1.1 200") == 1
        assert b"Connection: close" in received
        assert served.count("requests") == 1


def test_an_old_client_is_kept_only_if_it_asks() -> None:
    with serving(echo) as served:
        client = served.dial()
        answer = client.ask(get("/1", "Connection: keep-alive", version="1.0"))
        assert answer.field("Connection") == "keep-alive"
        client.send(get("/2", version="1.0"))
        assert b"Connection: close" in client.rest()


def test_half_a_close_is_answered_and_closed() -> None:
    with serving(echo) as served:
        client = served.dial()
        client.send(get("/1") + get("/2"))
        client.end()
        assert client.rest().count(b"HTTP/1.1 200") == 2
        served.until(lambda: served.server.engine.open == 0, "the end")


def test_half_a_request_and_an_end_is_closed() -> None:
    with serving(echo) as served:
        client = served.dial()
        client.send(get("/1") + b"GET /2 HT")
        client.end()
        assert client.rest().count(b"HTTP/1.1") == 1


def test_a_bad_request_is_answered_after_the_good_ones_before_it() -> None:
    with serving(echo) as served:
        client = served.dial()
        client.send(get("/1") + b"GET /2 HTTP/1.1\r\nHost : x\r\n\r\n" + get("/3"))
        received = client.rest()
        assert received.index(b"HTTP/1.1 200") < received.index(b"HTTP/1.1 400")
        assert received.count(b"HTTP/1.1") == 2
        assert served.count("bad_requests") == 1


def test_the_last_answer_is_not_lost_to_a_reset() -> None:
    """A client that goes on sending after a refusal still reads it."""
    with serving(echo) as served:
        client = served.dial()
        client.send(b"BAD\r\n\r\n" + b"x" * 200_000)
        assert client.rest().startswith(b"HTTP/1.1 400")
        assert not client.reset


def test_a_drain_answers_everything_that_was_asked(tmp_path: Path) -> None:
    asked: list[Request] = []
    done: list[bool] = []
    with serving(asked.append, linger=0.2) as served:
        working, idle, late = served.dial(), served.dial(), served.dial()
        working.send(get("/working"))
        served.until(lambda: asked and served.server.engine.open == 3, "the request")
        # Connected, and not accepted by the loop yet.
        waiting = served.dial()
        waiting.send(get("/waiting"))
        served.server.drain(lambda: done.append(True))
        late.send(get("/late"))
        served.until(lambda: len(asked) == 3, "all requests")
        for request in asked:
            request.respond(Response(200, request.path))
        for client in (working, late, waiting):
            received = client.rest()
            assert b"Connection: close" in received
        assert idle.rest() == b""
        served.until(lambda: done, "the end of the drain")
        assert served.server.address is None


# ---- deadlines -------------------------------------------------------------------------------------------------------


class Times:
    """A server under a manual clock."""

    def __init__(self, served: Served, clock: ManualClock) -> None:
        self.served = served
        self.clock = clock

    def pass_(self, seconds: float) -> None:
        settle(self.served.reactor, 3)
        self.clock.advance(int(seconds * 1e9))
        settle(self.served.reactor, 6)


@pytest.fixture
def times() -> Iterator[Times]:
    clock = ManualClock()
    with serving(echo, clock=clock, first_byte_timeout=3, header_timeout=5, body_timeout=7, idle_timeout=20) as served:
        yield Times(served, clock)


def test_a_connection_that_says_nothing_is_closed(times: Times) -> None:
    client = times.served.dial()
    times.served.until(lambda: times.served.server.engine.open == 1)
    times.pass_(2.9)
    assert times.served.server.engine.open == 1
    times.pass_(0.2)
    assert client.rest() == b""
    assert times.served.count("timeouts") == {"fresh": 1}


def test_bytes_that_trickle_do_not_extend_the_time_for_a_head(times: Times) -> None:
    client = times.served.dial()
    asked = get("/", "X-Field: 0123456789")
    for byte in asked[:4]:
        client.send(bytes((byte,)))
        times.pass_(1.2)
    assert client.got == b""
    times.pass_(0.4)
    received = client.rest()
    assert received.startswith(b"HTTP/1.1 408")
    assert times.served.count("timeouts") == {"head": 1}


def test_content_must_come_at_a_least_rate(times: Times) -> None:
    client = times.served.dial()
    client.send(get("/", "Content-Length: 1000000", method="POST"))
    for _ in range(5):
        client.send(b"x" * 8000)
        times.pass_(6.9)
        assert client.got == b""
    client.send(b"x" * 100)
    times.pass_(7.1)
    assert client.rest().startswith(b"HTTP/1.1 408")
    assert times.served.count("timeouts") == {"body": 1}


def test_an_idle_connection_is_closed(times: Times) -> None:
    client = times.served.dial()
    client.ask(get())
    times.pass_(19.9)
    client.ask(get())
    times.pass_(19.9)
    client.look()
    assert not client.ended
    times.pass_(0.2)
    assert client.rest() == b""
    assert times.served.count("timeouts") == {"idle": 1}


def test_a_peer_that_takes_nothing_is_reset() -> None:
    clock = ManualClock()
    with serving(lambda request: Response(200, b"x" * 20_000_000), clock=clock, send_timeout=4) as served:
        client = served.dial(receive_buffer=4096)
        client.send(get())
        served.until(lambda: served.count("states")["sending"] == 1, "the answer")
        times = Times(served, clock)
        times.pass_(3.9)
        # Some progress begins a new period.
        for _ in range(50):
            client.look(65_536)
            settle(served.reactor, 2)
        times.pass_(3.9)
        assert served.server.engine.open == 1
        times.pass_(4.1)
        times.pass_(4.1)
        served.until(lambda: served.server.engine.open == 0, "the end")
        assert served.count("timeouts") == {"sending": 1}


def test_a_program_that_never_answers_is_given_up() -> None:
    clock = ManualClock()
    asked: list[Request] = []
    told: list[bool] = []

    def handler(request: Request) -> None:
        asked.append(request)
        request.watch(lambda: told.append(True))

    with serving(handler, clock=clock, work_timeout=2) as served:
        client = served.dial()
        client.send(get())
        served.until(lambda: asked, "the request")
        Times(served, clock).pass_(2.1)
        assert client.rest().startswith(b"HTTP/1.1 503")
        served.until(lambda: told, "the news")
        assert not asked[0].respond(Response(200))


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_idle_connections_make_room_for_new_ones() -> None:
    with serving(echo, max_connections=5) as served:
        clients = [served.dial() for _ in range(5)]
        for client in clients:
            client.ask(get())
        more = [served.dial() for _ in range(3)]
        for client in more:
            assert client.ask(get()).status == 200
        for client in clients[:3]:
            client.rest()
        assert served.count("evicted") == 3
        for client in clients[3:]:
            assert client.ask(get()).status == 200


def test_busy_connections_are_not_evicted() -> None:
    asked: list[Request] = []
    with serving(asked.append, max_connections=3) as served:
        for _ in range(3):
            served.dial().send(get())
        served.until(lambda: len(asked) == 3, "requests")
        assert served.dial().rest().startswith(b"HTTP/1.1 503")
        assert served.count("turned_away") == 1


def test_requests_behind_one_in_work_are_bounded() -> None:
    asked: list[Request] = []
    with serving(asked.append) as served:
        client = served.dial()
        client.send(get("/first"))
        served.until(lambda: asked, "the request")
        sent = 0
        piece = get("/more") * 1000
        for _ in range(2000):
            try:
                sent += client.socket.send(piece)
            except BlockingIOError:
                settle(served.reactor, 2)
        # The system's buffers are full, and ours are not beyond their bound.
        assert sent < 20_000_000
        assert client.got == b""


@pytest.mark.parametrize("how", ["answered in pieces", "gone", "given up"])
def test_a_place_in_work_that_becomes_free_is_used_at_once(how: str) -> None:
    clock = ManualClock()
    asked: list[Request] = []
    with serving(asked.append, clock=clock, max_requests_in_work=1, deadline=60, work_timeout=2) as served:
        first, second = served.dial(), served.dial()
        first.send(get("/first"))
        served.until(lambda: asked, "the first request")
        second.send(get("/second"))
        served.until(lambda: served.count("states")["queued"] == 1, "the second one to wait")
        if how == "answered in pieces":
            pieces_so_far: list[bytes | Wait] = [b"a", WAIT]
            asked[0].respond(Response(200, iter(pieces_so_far)))
        elif how == "gone":
            first.close()
        else:
            Times(served, clock).pass_(2.1)
            assert not asked[0].respond(Response(200))
        served.until(lambda: len(asked) == 2, "the second request")


def _asked(served: Served, count: int) -> bool:
    return bool(served.count("requests") == count)


@pytest.mark.parametrize("ends", [False, True])
def test_a_connection_that_is_refused_without_end_rests_for_a_slice_of_time(ends: bool) -> None:
    clock = ManualClock()
    asked: list[Request] = []
    with serving(asked.append, clock=clock, max_requests_in_work=1, max_requests_queued=1, deadline=60) as served:
        for count in (1, 2):
            served.dial().send(get())
            served.until(partial(_asked, served, count), "a request that holds a place")
        flood = served.dial()
        flood.send(get() * 2500)
        if ends:
            flood.end()
        served.until(lambda: served.count("resting") == 1, "the rest")
        settle(served.reactor, 20)
        refused = served.count("refused")["full"]
        assert refused < 2500
        assert served.count("rests") == 1
        # Others are answered meanwhile, and rest when they are refused as well.
        other = served.dial()
        assert other.ask(get()).status == 503
        assert served.count("resting") == 2
        other.close()
        # In every other slice everybody is heard.
        clock.advance(limits.HTTP_THROTTLE_SLICE_NS)
        served.until(lambda: served.count("refused")["full"] == 2501, "the other refusals")
        assert served.count("resting") == 0
        flood.until(lambda: flood.got.count(b"HTTP/1.1 503") == 2500, "all of them")
        if ends:
            flood.rest()


def test_connections_that_rest_may_end() -> None:
    clock = ManualClock()
    with serving(
        lambda request: None, clock=clock, max_requests_in_work=1, max_requests_queued=1, deadline=60
    ) as served:
        for count in (1, 2):
            served.dial().send(get())
            served.until(partial(_asked, served, count), "a request that holds a place")
        flood = served.dial()
        flood.send(get() * 2500)
        served.until(lambda: served.count("resting") == 1, "the rest")
        served.server.engine.abort()
        served.until(lambda: served.server.engine.open == 0, "the end")
        assert served.count("resting") == 0
        assert served.server.engine.recount()["open"] == 0
        clock.advance(60_000_000_000)
        settle(served.reactor)


def test_errors_of_use_are_told() -> None:
    with Reactor() as reactor:
        with pytest.raises(UsageError, match="files to serve or a handler"):
            Server(reactor=reactor, port=0)
        with pytest.raises(UsageError, match="cannot be called"):
            Server("x", reactor=reactor, port=0)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="begins and ends with a slash"):
            Server(echo, reactor=reactor, port=0, prefix="static")
    with pytest.raises(UsageError, match="made by the server"):
        Request()
