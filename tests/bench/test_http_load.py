"""The generator of the HTTP benchmarks counts right: whatever a server does, every planned request ends in one count."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
RUN_TIMEOUT_S = 120
OUTCOMES = ("answered", "refused", "wrong", "reset", "closed", "connect_failed", "timed_out", "abandoned")
CONTENT = b"0123456789" * 30

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="the generator is a C program"
)


def fnv1a(content: bytes) -> str:
    value = 14695981039346656037
    for byte in content:
        value = (value ^ byte) * 1099511628211 & (1 << 64) - 1
    return f"{value:x}"


def plain(status: str, content: bytes, *fields: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", *fields, "", "")
    return "\r\n".join(lines).encode() + content


def chunked(content: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"%x;ext=1\r\n%s\r\n7\r\n1234567\r\n0\r\nTrailer: x\r\n\r\n" % (len(content), content)


ANSWERS = {
    "/ok": plain("200 OK", CONTENT),
    "/empty": plain("204 No Content", b""),
    "/interim": b"HTTP/1.1 100 Continue\r\n\r\n" + plain("200 OK", CONTENT),
    "/chunked": chunked(CONTENT),
    "/large": plain("200 OK", CONTENT * 5_000),
    "/until-end": b"HTTP/1.1 200 OK\r\n\r\n" + CONTENT,
    "/last": plain("200 OK", CONTENT, "Connection: close"),
    "/busy": plain("503 Service Unavailable", b"later", "Retry-After: 1"),
    "/many": plain("429 Too Many Requests", b""),
    "/missing": plain("404 Not Found", b""),
    "/short": plain("200 OK", CONTENT)[:-1],
    "/nonsense": b"220 smtp.example ESMTP\r\n",
    "/drip": plain("200 OK", CONTENT),
}
ENDING = ("/until-end", "/last", "/short")


class Peer:
    """A tiny server: the path says how it behaves. `/reset` resets, `/never` does not answer."""

    def __init__(self) -> None:
        self.requests = 0
        self.connections = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            while await self.one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.tasks.discard(task)
            writer.transport.abort()

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split()[1].decode()
        self.requests += 1
        if path == "/reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return False
        if path == "/never":
            return True
        pieces = [ANSWERS[path]] if path != "/drip" else [bytes([byte]) for byte in ANSWERS[path]]
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if path in ENDING:
            writer.close()
            await writer.wait_closed()
            return False
        return True


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("paced")
    command = [sys.executable, "-c", "import pathlib, load, sys; load.build(pathlib.Path(sys.argv[1]))", str(directory)]
    subprocess.run(command, check=True, timeout=RUN_TIMEOUT_S, cwd=BENCH / "http")
    return directory / "paced"


def ask(generator: Path, path: str, *options: str, port: int | None = None) -> tuple[dict[str, Any], Peer]:
    """Run the generator against a peer, or against a port where nobody listens; return its counts."""
    peer = Peer()

    async def play() -> bytes:
        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        there = port or server.sockets[0].getsockname()[1]
        command = (str(generator), "--port", str(there), "--path", path, *options)
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        out, _ = await asyncio.wait_for(process.communicate(), RUN_TIMEOUT_S)
        assert process.returncode == 0
        server.close()
        while peer.tasks:
            await asyncio.wait(set(peer.tasks), timeout=RUN_TIMEOUT_S)
        return out

    report: dict[str, Any] = json.loads(asyncio.run(play()))
    assert report["asked"] == sum(report[outcome] for outcome in OUTCOMES)
    assert report["asked"] == report["sent"] + report["unsent"]
    for name in ("asked", "answered", "good", "refused"):
        assert sum(second[name] for second in report["series"]) == report[name]
    assert report["latency_ms"]["accepted"]["count"] == report["answered"]
    assert report["latency_ms"]["refused"]["count"] == report["refused"]
    return report, peer


# 50 requests.
BRIEFLY = ("--seconds", "0.1", "--connections", "5", "--rate", "500", "--patience", "60")


@pytest.mark.parametrize("path", ["/ok", "/interim", "/chunked", "/until-end", "/last", "/large", "/drip"])
def test_every_form_of_answer_is_understood(generator: Path, path: str) -> None:
    content = {"/chunked": CONTENT + b"1234567", "/large": CONTENT * 5_000}.get(path, CONTENT)
    report, peer = ask(generator, path, *BRIEFLY, "--expect-bytes", str(len(content)))
    assert report["asked"] == report["answered"] == peer.requests == 50
    assert report["bytes"] == 50 * len(content)
    assert report["connects"] == peer.connections == (50 if path in ENDING else 5)


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("/busy", "refused"),
        ("/many", "refused"),
        ("/missing", "wrong"),
        ("/nonsense", "wrong"),
        ("/reset", "reset"),
        ("/short", "closed"),
    ],
)
def test_what_is_no_answer_is_counted_as_what_it_is(generator: Path, path: str, outcome: str) -> None:
    report, peer = ask(generator, path, *BRIEFLY)
    assert report["asked"] == report[outcome] == peer.requests == 50


def test_another_status_can_be_expected(generator: Path) -> None:
    report, _ = ask(generator, "/empty", *BRIEFLY, "--expect-status", "204")
    assert report["answered"] == 50
    assert report["statuses"] == {"204": 50}


def test_who_is_never_answered_loses_patience_on_schedule(generator: Path) -> None:
    """The schedule does not wait: requests fall due although the first of their connection has no answer."""
    report, peer = ask(generator, "/never", *BRIEFLY, "--patience", "0.02")
    assert report["asked"] == report["timed_out"] == 50
    assert 0 < peer.requests <= report["sent"]


def test_nobody_listens(generator: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        report, _ = ask(generator, "/ok", *BRIEFLY, port=unused.getsockname()[1])
    assert report["asked"] == report["connect_failed"] == report["unsent"] == 50
    assert report["ready"] == 0


def test_content_is_verified(generator: Path) -> None:
    right, _ = ask(generator, "/ok", *BRIEFLY, "--expect-hash", fnv1a(CONTENT))
    wrong, _ = ask(generator, "/ok", *BRIEFLY, "--expect-hash", fnv1a(CONTENT + b"!"))
    longer, _ = ask(generator, "/ok", *BRIEFLY, "--expect-bytes", str(len(CONTENT) + 1))
    assert (right["answered"], wrong["wrong"], longer["wrong"]) == (50, 50, 50)


def test_pipelines_are_answered_in_full(generator: Path) -> None:
    report, peer = ask(generator, "/ok", *BRIEFLY, "--pipeline", "10")
    assert report["asked"] == report["answered"] == peer.requests == 50
    assert report["latency_ms"]["lag"]["count"] == 5
    cut, _ = ask(generator, "/last", *BRIEFLY, "--pipeline", "10")
    assert (cut["answered"], cut["closed"]) == (5, 45)


def test_a_new_connection_for_each_request(generator: Path) -> None:
    report, peer = ask(generator, "/ok", *BRIEFLY, "--new", "--sources", "127.0.0.2-127.0.0.4", "--samples")
    assert report["answered"] == report["connects"] == peer.connections == 50
    assert [outcome for _, outcome, _ in report["samples"]] == ["answered"] * 50


def test_abandoned_requests_are_reset(generator: Path) -> None:
    report, _ = ask(generator, "/never", *BRIEFLY, "--reset-after", "1")
    assert report["asked"] == report["abandoned"] == 50


def test_flat_out_is_bounded_in_groups(generator: Path) -> None:
    report, peer = ask(generator, "/ok", "--seconds", "60", "--connections", "3", "--per-connection", "20")
    assert report["flat_out"] is True
    assert report["asked"] == report["answered"] == peer.requests == 60


@pytest.mark.parametrize("gaps", ["--poisson", "--random-phase"])
def test_random_schedules_repeat_with_their_seed(generator: Path, gaps: str) -> None:
    """The number of requests that fall due is decided by the seed alone."""
    asked = {ask(generator, "/ok", *BRIEFLY, gaps, "--seed", "7")[0]["asked"] for _ in range(2)}
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ("--port", "name the port")),
        (("--port", "80", "--connections", "0"), ("--connections 0", "from 1 to 60000")),
        (("--port", "80", "--seconds", "soon"), ("--seconds soon", "give a number")),
        (("--port", "80", "--path", "index.html"), ("--path index.html", "give a path")),
        (("--port", "80", "--header", "nonsense"), ("--header nonsense", "NAME: VALUE")),
        (("--port", "80", "--sources", "127.0.0.9-127.0.0.1"), ("--sources", "below the first")),
    ],
)
def test_a_wrong_option_is_named_with_the_remedy(
    generator: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = subprocess.run([str(generator), *options], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert all(word in done.stderr for word in words), done.stderr
