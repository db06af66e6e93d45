"""Streams and listeners on the real kernel, whose system calls are made to fail by a library that the loader puts first.

What does no harm (an interrupt, a call that would block, a piece of what was asked) loses no byte and no connection. What
ends a connection ends that one only, and a listener that is short of descriptors keeps everybody who waits.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PATIENCE_S = 60
HARMLESS = ("interrupt", "block", "short", "poll")
# What is asked for in one go, so that server and client never wait for each other.
SENT_BYTES = 20_000
BITS = {"interrupt": 1, "block": 2, "short": 4, "reset": 8, "starve": 16, "poll": 32, "refuse": 64}

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the library is written for Linux' calls"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="the library must be compiled, and there is no cc"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", built, HERE / "faults.c", "-ldl"], check=True)
    return built


class Served:
    """A server in a process of its own, and what it counted."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.address = ("127.0.0.1", port)
        self.counted: dict[str, Any] = {}


def start(library: Path, program: str, *args: object, kinds: tuple[str, ...]) -> subprocess.Popen[str]:
    bits = sum(BITS[kind] for kind in kinds)
    preload = " ".join((*os.environ.get("LD_PRELOAD", "").split(), str(library)))
    return subprocess.Popen(
        [sys.executable, str(HERE / program), *map(str, args), str(bits)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LD_PRELOAD": preload},
    )


@contextmanager
def server(library: Path, mode: str, seed: int, per_mille: int, kinds: tuple[str, ...]) -> Iterator[Served]:
    process = start(library, "faulty_server.py", mode, seed, per_mille, kinds=kinds)
    assert process.stdout is not None
    try:
        served = Served(process, int(process.stdout.readline()))
        yield served
        process.send_signal(signal.SIGTERM)
        served.counted = json.loads(process.communicate(timeout=PATIENCE_S)[0])
        assert process.returncode == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def talk(address: tuple[str, int], data: bytes) -> tuple[bytes, bool]:
    """Send, end, and read: what came back, and whether that ended in good order."""
    got = b""
    with socket.create_connection(address, timeout=PATIENCE_S) as client:
        try:
            while len(got) < len(data):
                # Not more at once than comes back before more is sent.
                client.sendall(data[len(got) : len(got) + 2_000])
                wanted = min(len(got) + 2_000, len(data))
                while len(got) < wanted:
                    piece = client.recv(65_536)
                    if not piece:
                        return got, False
                    got += piece
            client.shutdown(socket.SHUT_WR)
            return got, client.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            return got, False


def messages(count: int) -> list[bytes]:
    return [bytes((number + place) % 251 for place in range(SENT_BYTES)) for number in range(count)]


@pytest.mark.parametrize("mode", ["lt", "et"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_does_no_harm_loses_nothing(library: Path, mode: str, seed: int) -> None:
    with server(library, mode, seed, 300, HARMLESS) as served:
        for data in messages(12):
            assert talk(served.address, data) == (data, True)
    assert served.counted["ends"]["closed"] == 12
    assert served.counted["still"] == 0
    assert served.counted["received_bytes"] == served.counted["sent_bytes"] == 12 * SENT_BYTES
    for kind in HARMLESS:
        assert served.counted["struck"][kind] > 0


@pytest.mark.parametrize("mode", ["lt", "et"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_ends_a_connection_ends_no_other(library: Path, mode: str, seed: int) -> None:
    with server(library, mode, seed, 40, ("reset", "starve", "short")) as served:
        outcomes = []
        for data in messages(40):
            got, in_order = talk(served.address, data)
            # Never a wrong byte, and never a good end of less than everything.
            assert data.startswith(got)
            assert in_order <= (got == data)
            outcomes.append(in_order)
    assert True in outcomes
    assert False in outcomes
    counted = served.counted
    assert counted["open"] == counted["still"] == 0
    assert counted["opened"] == counted["closed"] == sum(counted["ends"].values())
    assert counted["struck"]["reset"] > 0


@pytest.mark.parametrize("mode", ["lt", "et"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_listener_that_is_starved_closes_nobody(library: Path, mode: str, seed: int) -> None:
    """It pauses for 0.1 s each time, and everybody who waits is served then; a stream waits for memory, too."""
    with server(library, mode, seed, 300, ("interrupt", "starve")) as served:
        clients = [socket.create_connection(served.address, timeout=PATIENCE_S) for _ in range(10)]
        for client in clients:
            client.sendall(b"hello")
        answers = []
        for client in clients:
            answer = b""
            while len(answer) < 5 and (piece := client.recv(10)):
                answer += piece
            answers.append(answer)
            client.close()
    assert answers == 10 * [b"hello"]
    assert served.counted["accepted"] == 10
    assert served.counted["struck"]["starve"] > 0
    assert all("cannot accept" in report for report in served.counted["reports"])


def test_a_connection_that_the_poller_refuses_is_told_of(library: Path) -> None:
    with server(library, "lt", 1, 400, ("refuse",)) as served:
        answered = 0
        for _ in range(20):
            with socket.create_connection(served.address, timeout=PATIENCE_S) as client:
                try:
                    client.sendall(b"hello")
                    answered += client.recv(10) != b""
                except (ConnectionResetError, BrokenPipeError):
                    pass
    assert 0 < answered == served.counted["accepted"] < 20
    assert served.counted["refused"] == 20 - answered == served.counted["struck"]["refuse"]
    assert any("refuses descriptor" in report for report in served.counted["reports"])


# ---- operations, streams and datagrams in one process ----------------------------------------------------------------

# What is done, with which poller and mode and from which seeds; what goes wrong; and the calls that must have been struck.
WORK: dict[str, tuple[list[tuple[str, str, int]], tuple[str, ...], set[str]]] = {
    "move": (
        [("epoll", "et", 1), ("epoll", "et", 2), ("epoll", "lt", 3), ("epoll", "lt", 4), ("select", "lt", 5)],
        HARMLESS,
        {
            *("recv", "read", "recvmsg", "send", "sendto", "sendmsg", "write", "sendfile", "accept4", "connect"),
            *("epoll_wait", "poll", "pselect"),
        },
    ),
    "wake": (
        [("epoll", "lt", 1), ("epoll", "lt", 2), ("select", "lt", 3)],
        HARMLESS,
        {"read", "write", "epoll_pwait2", "pselect", "poll"},
    ),
    "open": (
        [("epoll", "et", 1), ("select", "lt", 2)],
        ("starve", "refuse"),
        {"socket", "connect", "eventfd", "pipe", "epoll_create1", "epoll_ctl"},
    ),
}


@pytest.mark.parametrize("what", WORK)
def test_each_system_call_may_fail(library: Path, what: str) -> None:
    """What does no harm loses no byte and no wake; what cannot be had is told, and leaves no descriptor behind."""
    hows, kinds, calls = WORK[what]
    struck: Counter[str] = Counter()
    refusals: list[str] = []
    for how in hows:
        process = start(library, "faulty_work.py", what, *how, 200, kinds=kinds)
        try:
            printed = process.communicate(timeout=PATIENCE_S)[0]
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0
        counted = json.loads(printed)
        assert counted["left"] == []
        struck.update(counted["struck_at"])
        refusals += counted["refusals"]
    assert {call for call in calls if not struck[call]} == set()
    # Want of descriptors is not want of a poller: see that nobody is sent to a lesser one for it.
    assert not [refusal for refusal in refusals if "available here" in refusal or "has no epoll" in refusal]


def test_the_work_strikes_every_call_of_the_library() -> None:
    listed = (HERE / "faults.c").read_text().partition("#define CALLS(X)")[2].partition("#define AS_NUMBER")[0]
    assert set(re.findall(r"X\((\w+)\)", listed)) == set().union(*(calls for _, _, calls in WORK.values()))
