"""How cases are run: servers that live as long as the tests do, under a clock that stands still, and clients that send
a case whole, byte by byte, cut in two, or through TLS.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.core.clock import ManualClock
from penstock.http import Request, Response, Tls
from tests.http.conformance.table import PROBE, Case
from tests.http.rig import Answer, Client, Incomplete, Served, serving, take_answer
from tests.http.site import make_site, put
from tests.http.test_tls import ONE, PrivateClient, trusting
from tests.net.rig import settle

PREFIX = "/files/"


@dataclass
class World:
    """A server, what its program was asked, and how often its answers were not what a connection may do."""

    served: Served
    kind: str
    asked: list[str] = field(default_factory=list)

    def handler(self, request: Request) -> Response:
        """Answer with what was asked, and remember it."""
        return self.answer(request, request.body)

    def stream(self, request: Request) -> None:
        """The same for a server that streams: the content comes piece by piece."""
        pieces: list[bytes] = []

        def on_content(data: bytes | None) -> None:
            if data is None:
                request.respond(self.answer(request, b"".join(pieces)))
            else:
                pieces.append(data)

        request.receive(on_content)

    def answer(self, request: Request, body: bytes) -> Response:
        """What there is to say to a request."""
        content = body.decode("latin-1")
        self.asked.append(f"{request.method} {request.path}{'?' if request.query else ''}{request.query} {content}")
        told = [("X-Host", request.host), ("X-Field", request.header("X-Field", "") or "")]
        return Response(200, self.asked[-1].encode("latin-1"), told)

    def probe_answered(self, answer: Answer) -> bool:
        """Whether this answers the request behind a case."""
        return answer.status == (404 if self.kind == "files" else 200)


class Worlds:
    """The servers by what they serve and their options; each is started when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = make_conformance_site(root)
        self.stack = ExitStack()
        self.known: dict[tuple[Any, ...], World] = {}

    def world(self, kind: str, options: Mapping[str, Any], *, private: bool = False) -> World:
        """The server of a kind with these options."""
        key = (kind, private, tuple(sorted(options.items())))
        if key not in self.known:
            self.known[key] = self._start(kind, dict(options), private)
        return self.known[key]

    def _start(self, kind: str, options: dict[str, Any], private: bool) -> World:
        world = World(None, kind)  # type: ignore[arg-type]
        more: dict[str, Any] = {"clock": ManualClock(), **options}
        if kind != "program":
            more["files"] = self.root
        if kind == "mixed":
            more["prefix"] = PREFIX
        if private:
            more["secure"] = Tls(*ONE)
        handler = world.stream if options.get("streaming") else world.handler
        world.served = self.stack.enter_context(serving(None if kind == "files" else handler, **more))
        return world

    def close(self) -> None:
        """End all servers."""
        self.stack.close()


def make_conformance_site(root: Path) -> Path:
    """A small site, with secrets beside it."""
    put(root / "secret.txt", b"secret")
    site = root / "site"
    make_site(site)
    put(site / "foo..bar.txt", b"dots")
    put(site / "a b.txt", b"space")
    put(site / "packed.txt", b"as it is" * 10)
    put(site / "packed.txt.gz", b"gzip!")
    put(site / "packed.txt.br", b"brotli!")
    put(site / "empty.txt", b"")
    put(site / ".hidden", b"secret")
    put(site / ".well-known" / "security.txt", b"known")
    (site / "out.txt").symlink_to(root / "secret.txt")
    (site / "up.txt").symlink_to("../secret.txt")
    (site / "up").symlink_to("..")
    (site / "in.txt").symlink_to("page.txt")
    return site


# ---- clients ---------------------------------------------------------------------------------------------------------


class Plain:
    """A client on a bare socket, which sends in pieces."""

    def __init__(self, world: World, sizes: Iterator[int] | None) -> None:
        self.client: Client = world.served.dial()
        self.client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.world = world
        self.sizes = sizes

    def converse(self, sent: bytes) -> bytes:
        """Send it, end our half, and return everything up to the end of the connection."""
        at = 0
        while at < len(sent):
            size = len(sent) if self.sizes is None else next(self.sizes)
            self.client.send(sent[at : at + size])
            at += size
            if at < len(sent):
                settle(self.world.served.reactor, 2)
            self.client.look()
        got = self.client.rest()
        assert not self.client.reset, "the connection was reset"
        self.client.close()
        return got


class Private:
    """A client of a private connection."""

    def __init__(self, world: World) -> None:
        self.client = PrivateClient(world.served, trusting())

    def converse(self, sent: bytes) -> bytes:
        """The same, through TLS."""
        self.client.send(sent)
        got = self.client.rest()
        self.client.plain.close()
        return got


@contextmanager
def watched(world: World) -> Iterator[None]:
    """The server takes no step that its table does not have, and reports nothing."""
    before = world.served.count("missteps"), world.served.count("errors")
    world.asked.clear()
    yield
    assert (world.served.count("missteps"), world.served.count("errors")) == before


def run(
    worlds: Worlds, case: Case, sizes: Iterator[int] | None = None, *, private: bool = False, **options: Any
) -> None:
    """Run a case, with the probe behind it."""
    world = worlds.world(case.world, {**case.options, **options}, private=private)
    with watched(world):
        client = Private(world) if private else Plain(world, sizes)
        judge(world, case, client.converse(case.sent + PROBE))


def judge(world: World, case: Case, got: bytes) -> None:
    """Compare what came back with what must."""
    answers, rest = take_all(got, len(case.statuses) + 1, case.heads)
    statuses = tuple(answer.status for answer in answers)
    expected_asked = list(case.asked)
    if case.kept:
        assert statuses[:-1] == case.statuses, got
        assert len(statuses) == len(case.statuses) + 1, got
        assert world.probe_answered(answers[-1]), got
        if world.kind != "files":
            expected_asked.append("GET /probe ")
            assert answers[-1].body == b"GET /probe "
    else:
        assert statuses == case.statuses, got
    assert rest == b"", f"bytes that belong to no answer: {rest!r}"
    assert world.asked == expected_asked
    for index, answer in enumerate(answers):
        well_formed(answer, final=index == len(answers) - 1, head=index in case.heads)
    if case.check is not None:
        case.check(answers)


def take_all(got: bytes, most: int, heads: tuple[int, ...]) -> tuple[list[Answer], bytes]:
    """Take answers from the bytes of a connection that has ended, up to a number."""
    answers: list[Answer] = []
    while got and len(answers) < most:
        try:
            answer, got = take_answer(got, head=len(answers) in heads, ended=True)
        except Incomplete:
            break
        answers.append(answer)
    return answers, got


def well_formed(answer: Answer, *, final: bool, head: bool) -> None:
    """What holds for every answer of this server, whatever was asked."""
    assert answer.version == "HTTP/1.1"
    date, server = answer.field("Date"), answer.field("Server")
    assert date is not None
    assert date.endswith(" GMT")
    assert len(date) == 29
    assert server == "penstock"
    assert answer.field("Connection") == "close" if final else answer.field("Connection") in (None, "keep-alive")
    framed = (answer.field("Content-Length") is not None) + (answer.field("Transfer-Encoding") is not None)
    if answer.status in (204, 304) or head:
        assert answer.body == b""
    else:
        assert framed == 1
    if answer.status == 405:
        assert answer.field("Allow")
    if answer.status == 503:
        assert answer.field("Retry-After")
