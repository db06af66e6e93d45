"""The whole engine against an obvious model: whatever clients and programs do, every request has one answer, in order,
and the books balance after every step."""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock import Reactor
from penstock.core.clock import ManualClock
from penstock.http.exchange import Request
from penstock.http.message import WAIT, Response
from penstock.http.options import HttpOptions
from penstock.http.server import Server
from tests.http.rig import Answer, Incomplete, take_answer
from tests.net.rig import settle

BODY_MAX = 60
# What the program does with a request whose path begins with this.
MODES = ("now", "now", "later", "later", "pieces", "waits", "large", "never", "raises", "breaks", "short", "long")
BAD = (
    b"NONSENSE\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    b"GET / HTTP/3.0\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\r\n\r\n",
)
UNASKED = {400, 408, 414, 431, 501, 503, 505}


@dataclass
class Asked:
    """One request as the client knows it."""

    number: int
    mode: str
    head: bool
    content: int
    last: bool
    head_end: int = 0  # in the bytes of its connection

    def allows(self, answer: Answer) -> bool:
        """Whether this may be the answer to it."""
        if answer.status == 200:
            return answer.field("X-Number") == str(self.number) and self.mode not in ("never", "raises")
        if answer.status == 500:
            return self.mode == "raises"
        if answer.status == 413:
            return self.content > BODY_MAX
        # A busy server, a program that is too slow, content that is.
        return answer.status in (408, 503)


@dataclass
class Peer:
    """One client, and the slow model of its connection."""

    socket: socket.socket
    out: bytes = b""  # what it is about to send
    made: int = 0  # bytes that were put into `out`, ever
    sent: int = 0
    asked: list[Asked] = field(default_factory=list)
    poisoned: int | None = None  # requests before the first bytes that are none
    ended_half: bool = False
    answers: list[Answer] = field(default_factory=list)
    got: bytes = b""
    ended: bool = False
    broken: bool = False  # by a reset

    def write(self, most: int) -> None:
        with suppress(BlockingIOError):
            try:
                count = self.socket.send(self.out[:most])
            except (ConnectionResetError, BrokenPipeError):
                self.broken = True
                count = len(self.out)
            self.out = self.out[count:]
            self.sent += count

    def read(self, most: int) -> int:
        try:
            data = self.socket.recv(most)
        except BlockingIOError:
            return 0
        except ConnectionResetError:
            self.ended = self.broken = True
            return 0
        self.ended = not data
        self.got += data
        self.take()
        return len(data)

    def take(self) -> None:
        """Compare what has come with what was asked."""
        while self.got:
            asked = self.asked[len(self.answers)] if len(self.answers) < len(self.asked) else None
            assert not self.answers or self.answers[-1].field("Connection") != "close", (
                "something follows the last answer"
            )
            # Half a head, or a connection, was refused by somebody who could not know that this would be a HEAD.
            blind = self.got.startswith((b"HTTP/1.1 408", b"HTTP/1.1 400")) or asked is None
            head = not blind and asked is not None and asked.head
            try:
                answer, self.got = take_answer(self.got, head=head, ended=self.ended)
            except Incomplete:
                return
            self.answers.append(answer)
            self.check(asked, answer)

    def check(self, asked: Asked | None, answer: Answer) -> None:
        index = len(self.answers) - 1
        known = asked is not None and asked.head_end <= self.sent
        if not known or (self.poisoned is not None and index >= self.poisoned):
            assert answer.status in UNASKED, answer
            assert answer.field("Connection") == "close", answer
            return
        assert asked is not None
        assert asked.allows(answer), (asked, answer)
        if asked.last:
            assert answer.field("Connection") == "close", (asked, answer)

    @property
    def over(self) -> bool:
        """Whether no more answers may come."""
        return self.ended or (bool(self.answers) and self.answers[-1].field("Connection") == "close")


class EngineAgainstTheModel(RuleBasedStateMachine):
    """Clients that do anything, a program that does anything, a clock that jumps."""

    @initialize(
        connections=st.integers(1, 6),
        queued=st.integers(1, 4),
        in_work=st.integers(1, 4),
        streaming=st.booleans(),
        spooling=st.booleans(),
    )
    def start(self, connections: int, queued: int, in_work: int, streaming: bool, spooling: bool) -> None:
        self.descriptors = descriptors()
        self.clock = ManualClock()
        self.reactor = Reactor(clock=self.clock)
        options = HttpOptions(
            first_byte_timeout=3, header_timeout=4, body_timeout=5, send_timeout=4, idle_timeout=10, work_timeout=6,
            linger=1, deadline=0.5, max_connections=connections, max_requests_queued=queued,
            max_requests_in_work=in_work, max_body=BODY_MAX, max_body_kept=BODY_MAX, max_fields=8,
        )  # fmt: skip
        self.server = Server(
            self.handle, reactor=self.reactor, port=0, options=options, streaming=streaming, spooling=spooling,
            on_error=lambda error, what: None,
        )  # fmt: skip
        self.streaming = streaming
        self.connections = connections
        self.engine = self.server.engine
        self.peers: list[Peer] = []
        self.later: list[Request] = []
        self.waiting: list[tuple[Request, list[bytes]]] = []
        self.number = 0
        self.handled: set[int] = set()

    # ---- the program -------------------------------------------------------------------------------------------------

    def handle(self, request: Request) -> Response | None:
        _, mode, number = request.path.split("/")
        assert int(number) not in self.handled, "a request was given to the program twice"
        self.handled.add(int(number))
        if self.streaming and int(number) % 2:
            request.receive(lambda data: None)
        if mode == "raises":
            raise ValueError(number)
        if mode in ("later", "never"):
            self.later.append(request)
            return None
        body: Any = request.body
        mark = [("X-Number", number)]
        if mode == "large":
            body = bytes(400_000)
        elif mode == "pieces":
            body = iter([b"a", b"", b"bc" * 1000])
        elif mode == "waits":
            left = [b"x", b"y" * 30_000]
            self.waiting.append((request, left))
            body = trickle(left)
        elif mode == "breaks":
            body = broken()
        elif mode in ("short", "long"):
            body = iter([b"abc"])
            mark.append(("Content-Length", "5" if mode == "short" else "1"))
        return Response(200, body, mark)

    @precondition(lambda self: self.later)
    @rule(which=st.integers(0, 9), large=st.booleans())
    def answer(self, which: int, large: bool) -> None:
        request = self.later.pop(which % len(self.later))
        _, mode, number = request.path.split("/")
        if mode == "never" and not request.gone:
            self.later.append(request)
            return
        gone = request.gone
        done = request.respond(Response(200, bytes(300_000) if large else b"late", [("X-Number", number)]))
        assert done is not gone

    @precondition(lambda self: self.waiting)
    @rule(which=st.integers(0, 9))
    def resume(self, which: int) -> None:
        request, left = self.waiting[which % len(self.waiting)]
        left.append(b"z") if which % 2 else left.append(b"")
        if not left[-1]:
            self.waiting.remove((request, left))
        request.resume()

    # ---- clients -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.peers) < 8)
    @rule(small=st.booleans())
    def dial(self, small: bool) -> None:
        handle = socket.socket()
        if small:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # Everything that is sent is there for the next turn.
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        handle.settimeout(30)
        handle.connect(self.server.address)
        handle.setblocking(False)
        self.peers.append(Peer(handle))

    def peer(self, which: int) -> Peer:
        return self.peers[which % len(self.peers)]

    @precondition(lambda self: self.peers)
    @rule(
        which=st.integers(0, 9),
        count=st.integers(1, 4),
        mode=st.sampled_from(MODES),
        method=st.sampled_from(["GET", "GET", "HEAD", "POST", "POST"]),
        size=st.sampled_from([0, 1, 20, BODY_MAX, BODY_MAX + 1, 500]),
        chunked=st.booleans(),
        extra=st.sampled_from(["", "", "", "Connection: close\r\n", "Expect: 100-continue\r\n"]),
        most=st.sampled_from([10_000, 10_000, 10_000, 60, 30, 1]),
        turns=st.sampled_from([3, 1, 0]),
    )
    def ask(
        self,
        which: int,
        count: int,
        mode: str,
        method: str,
        size: int,
        chunked: bool,
        extra: str,
        most: int,
        turns: int,
    ) -> None:
        peer = self.peer(which)
        for _ in range(0 if peer.ended_half else count):
            self.number += 1
            content = size if method == "POST" else 0
            head = f"{method} /{mode}/{self.number} HTTP/1.1\r\nHost: x\r\n{extra}"
            body = b"b" * content
            if content and chunked:
                head += "Transfer-Encoding: chunked\r\n"
                cut = content // 2 + 1
                body = (
                    b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part)
                    + b"0\r\n\r\n"
                )
            elif content:
                head += f"Content-Length: {content}\r\n"
            asked = Asked(self.number, mode, method == "HEAD", content, "close" in extra)
            asked.head_end = peer.made + len(head) + 2
            if peer.poisoned is None:
                peer.asked.append(asked)
            data = head.encode() + b"\r\n" + body
            peer.out += data
            peer.made += len(data)
        peer.write(most)
        settle(self.reactor, turns)

    @precondition(lambda self: self.peers)
    @rule(which=st.integers(0, 9), modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=6))
    def pipeline(self, which: int, modes: list[str]) -> None:
        for mode in modes:
            self.ask(
                which=which, count=1, mode=mode, method="GET", size=0, chunked=False, extra="", most=10_000, turns=0
            )
        settle(self.reactor, 2)

    @precondition(lambda self: self.peers)
    @rule(which=st.integers(0, 9), data=st.sampled_from(BAD))
    def spoil(self, which: int, data: bytes) -> None:
        peer = self.peer(which)
        if not peer.ended_half:
            peer.out += data
            peer.made += len(data)
            if peer.poisoned is None:
                peer.poisoned = len(peer.asked)
            peer.write(10_000)

    @precondition(lambda self: self.peers)
    @rule(which=st.integers(0, 9), most=st.sampled_from([1, 7, 100, 10_000]))
    def send(self, which: int, most: int) -> None:
        self.peer(which).write(most)

    @precondition(lambda self: self.peers)
    @rule(which=st.integers(0, 9), most=st.sampled_from([1, 100, 5000, 1_000_000]))
    def read(self, which: int, most: int) -> None:
        self.peer(which).read(most)

    @precondition(lambda self: self.peers)
    @rule(which=st.integers(0, 9))
    def end_half(self, which: int) -> None:
        peer = self.peer(which)
        peer.ended_half = True
        peer.out = b""
        with suppress(OSError):
            peer.socket.shutdown(socket.SHUT_WR)

    @precondition(lambda self: self.peers)
    @rule(which=st.integers(0, 9), reset=st.booleans())
    def leave(self, which: int, reset: bool) -> None:
        peer = self.peers.pop(which % len(self.peers))
        if reset:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.socket.close()

    # ---- the loop and time -------------------------------------------------------------------------------------------

    @rule(turns=st.integers(1, 8))
    def turn(self, turns: int) -> None:
        settle(self.reactor, turns)

    @rule(ms=st.sampled_from([1, 3, 100, 499, 501, 1100, 4100, 6100, 10100, 60_000]))
    def jump(self, ms: int) -> None:
        self.clock.advance(ms * 1_000_000)

    # ---- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def books_balance(self) -> None:
        if hasattr(self, "engine"):
            self.check_books(self.engine.counters(), self.engine.recount(), self.engine.admission.counters())

    def check_books(self, book: dict[str, Any], found: dict[str, Any], admission: dict[str, Any]) -> None:
        assert book["open"] == found["open"] == sum(book["states"].values())
        assert book["states"] == found["states"]
        assert book["missteps"] == 0
        answered = sum(book["answers"].values()) - book["unasked"]
        assert book["requests"] == answered + book["given_up"] + found["unanswered"]
        assert book["requests_live"] >= found["requests_live"]
        assert book["sources_live"] == found["sources_live"]
        assert book["resting"] == found["resting"]
        assert admission["waiting"] == book["states"]["queued"]
        assert admission["offered"] == admission["begun"] + admission["waiting"] + self.turned_down(admission)
        assert book["open"] <= self.connections + len(self.peers) + book["evicted"]

    def turned_down(self, admission: dict[str, Any]) -> int:
        return int(sum(admission["refused"].values()))

    # ---- the end -----------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        try:
            self.finish()
        finally:
            for peer in self.peers:
                peer.socket.close()
            self.server.close()
            self.reactor.close()
        assert descriptors() == self.descriptors

    def finish(self) -> None:
        """Everybody does what is left to do; nobody may be owed an answer then, and nothing may be left."""
        for _ in range(200):
            before = self.progress()
            self.push()
            self.books_balance()
            if before == self.progress() and not self.waiting and all(self.is_stuck(request) for request in self.later):
                break
        for peer in self.peers:
            self.check_end(peer)
        self.leave_all()

    def progress(self) -> list[Any]:
        ends = [(peer.sent, len(peer.answers), len(peer.got), peer.ended) for peer in self.peers]
        book = self.engine.counters()
        return [*ends, book["open"], book["connections"], len(self.handled)]

    def is_stuck(self, request: Request) -> bool:
        return "/never/" in request.path and not request.gone

    def push(self) -> None:
        free = [request for request in self.later if not self.is_stuck(request)]
        self.later = [request for request in self.later if self.is_stuck(request)]
        for request in free:
            request.respond(Response(200, b"late", [("X-Number", request.path.split("/")[2])]))
        for request, left in self.waiting:
            left.append(b"")
            request.resume()
        self.waiting.clear()
        for peer in self.peers:
            if peer.out:
                peer.write(1_000_000)
            while not peer.ended and peer.read(1_000_000):
                pass
        # Slices of reading pass, deadlines do not.
        settle(self.reactor, 6)

    def check_end(self, peer: Peer) -> None:
        """Answers are missing only where there is a reason."""
        owed = [asked for asked in peer.asked[len(peer.answers) :] if asked.head_end <= peer.sent]
        if not owed or peer.over or peer.broken:
            return
        # Either the program keeps the first one of them, or one before them in the queue, or its content is not all there.
        stuck = any(self.is_stuck(request) for request in self.later)
        whole = peer.sent == peer.made
        assert stuck or not whole, (owed, self.engine.counters(), self.engine.recount())

    def leave_all(self) -> None:
        for peer in self.peers:
            peer.socket.close()
        self.peers.clear()
        for _ in range(4):
            settle(self.reactor, 8)
            self.clock.advance(61_000_000_000)
        settle(self.reactor, 8)
        # Some of these were begun just now.
        self.waiting.clear()
        while self.later:
            assert not self.later.pop().respond(Response(200))
        self.books_balance()
        book, admission = self.engine.counters(), self.engine.admission.counters()
        left = {name: book[name] for name in ("open", "requests_live", "sources_live", "resting")}
        assert not any(left.values()), left
        assert (admission["waiting"], admission["in_work"]) == (0, 0)


def trickle(left: list[bytes]) -> Iterator[Any]:
    """Pieces as they come; an empty one is the last."""
    while True:
        while left:
            piece = left.pop(0)
            if not piece:
                return
            yield piece
        yield WAIT


def broken() -> Iterator[bytes]:
    yield b"a"
    raise ValueError("broken")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


EngineAgainstTheModel.TestCase.settings = settings(stateful_step_count=50)
TestEngineAgainstTheModel = EngineAgainstTheModel.TestCase


# How often a long walk does what; disasters are seldom, so that there is something for them to strike.
WEIGHTS = {
    "dial": 6, "ask": 20, "pipeline": 4, "send": 10, "read": 12, "turn": 20, "answer": 10, "resume": 6,
    "jump": 4, "spoil": 1, "end_half": 1, "leave": 2,
}  # fmt: skip


def choices(draw: random.Random) -> dict[str, dict[str, Any]]:
    """What each rule may be given, drawn at random."""
    which = draw.randrange(10)
    return {
        "dial": {"small": draw.random() < 0.3},
        "ask": {
            "which": which,
            "count": draw.randint(1, 3),
            "mode": draw.choice(MODES),
            "method": draw.choice(["GET", "HEAD", "POST", "POST"]),
            "size": draw.choice([0, 1, 20, 20, BODY_MAX, BODY_MAX + 1, 500] if draw.random() < 0.3 else [5, 20]),
            "chunked": draw.random() < 0.5,
            "extra": draw.choice([""] * 8 + ["Connection: close\r\n", "Expect: 100-continue\r\n"]),
            "most": draw.choice([10_000, 10_000, draw.randint(1, 120)]),
            "turns": draw.choice([0, 1, 3]),
        },
        "pipeline": {"which": which, "modes": draw.choices(MODES, k=draw.randint(1, 6))},
        "send": {"which": which, "most": draw.choice([1, 10, 100, 10_000])},
        "read": {"which": which, "most": draw.choice([1, 1000, 1_000_000])},
        "turn": {"turns": draw.randint(1, 6)},
        "answer": {"which": which, "large": draw.random() < 0.3},
        "resume": {"which": which},
        "jump": {"ms": draw.choice([1, 3, 20, 100] * 4 + [300, 501, 1100, 4100, 6100, 60_000])},
        "spoil": {"which": which, "data": draw.choice(BAD)},
        "end_half": {"which": which},
        "leave": {"which": which, "reset": draw.random() < 0.5},
    }


def possible(machine: EngineAgainstTheModel, name: str) -> bool:
    if name == "dial":
        return len(machine.peers) < 8
    if name in ("turn", "jump"):
        return True
    return bool({"answer": machine.later, "resume": machine.waiting}.get(name, machine.peers))


@settings(max_examples=settings().max_examples // 2)
@given(
    seed=st.integers(0, 1 << 32),
    steps=st.integers(1, 250),
    connections=st.integers(2, 8),
    queued=st.integers(1, 6),
    in_work=st.integers(1, 6),
    streaming=st.booleans(),
    spooling=st.booleans(),
)
def test_long_walks_keep_the_books(seed: int, steps: int, **limits: Any) -> None:
    draw = random.Random(seed)
    machine = EngineAgainstTheModel()
    machine.start(**limits)
    try:
        for _ in range(steps):
            name = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            chosen = choices(draw)[name]
            if possible(machine, name):
                getattr(machine, name)(**chosen)
                machine.books_balance()
    finally:
        machine.teardown()
