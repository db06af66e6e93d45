"""`penstock echo` as a user meets it: in a process of its own, on a port that the system chose."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

PATIENCE_S = 60


@contextmanager
def server(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], tuple[str, int]]]:
    command = [sys.executable, "-m", "penstock", "echo", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.fullmatch(r"listening on \[?([^\]]+)\]?:(\d+) \((lt|et)\)\n", process.stdout.readline())
        assert found, process.communicate(timeout=PATIENCE_S)
        yield process, (found[1], int(found[2]))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = client.recv(size - len(data))
        assert piece
        data += piece
    return data


@pytest.mark.parametrize("mode", ["lt", "et"])
def test_it_sends_back_what_it_gets(mode: str) -> None:
    with server("--mode", mode) as (process, address):
        with socket.create_connection(address, timeout=PATIENCE_S) as one, socket.create_connection(address) as two:
            for number in range(20):
                one.sendall(b"one %d" % number)
                two.sendall(b"two %d" % number)
                assert read_exactly(one, len(b"one %d" % number)) == b"one %d" % number
                assert read_exactly(two, len(b"two %d" % number)) == b"two %d" % number
            large = bytes(range(256)) * 4_000
            one.setblocking(False)
            got, rest = b"", memoryview(large)
            while len(got) < len(large):
                if rest:
                    with suppress(BlockingIOError):
                        rest = rest[one.send(rest[:65_536]) :]
                with suppress(BlockingIOError):
                    got += one.recv(65_536)
            assert got == large
        process.send_signal(signal.SIGTERM)
        out, complaints = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, complaints) == (0, "")
        assert out.startswith("served 2 connections, 1,024,")


def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    with server() as (process, address), socket.create_connection(address) as client:
        client.setblocking(False)
        sent = 0
        idle = 0
        # The buffers of both sides fill, and then it stands still instead of growing.
        while idle < 20:
            try:
                sent += client.send(b"x" * 65_536)
                idle = 0
            except BlockingIOError:
                idle += 1
                with socket.create_connection(address, timeout=PATIENCE_S) as other:
                    other.sendall(b"still there?")
                    assert read_exactly(other, 12) == b"still there?"
        assert sent < 64 << 20
        with open(f"/proc/{process.pid}/status") if sys.platform == "linux" else open("/dev/null") as status:
            resident = re.search(r"VmRSS:\s+(\d+) kB", status.read())
        assert resident is None or int(resident[1]) < 400_000


def test_a_silent_connection_is_closed() -> None:
    with server("--idle", "1") as (_process, address), socket.create_connection(address, timeout=PATIENCE_S) as client:
        assert client.recv(1) == b""


def test_ctrl_c_ends_it() -> None:
    with server() as (process, _address):
        process.send_signal(signal.SIGINT)
        out, complaints = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, complaints) == (130, "")
        assert out == "served 0 connections, 0 bytes in, 0 bytes out (none ended)\n"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--mode", "fast"], 2, "invalid choice: 'fast'"),
        (["--port", "65536"], 2, "no whole number from 0 to 65,535"),
        (["--host", "localhost"], 2, "is a name"),
        (["--host", "192.0.2.1", "--port", "0"], 1, "cannot listen on 192.0.2.1:0"),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(arguments: list[str], status: int, words: str) -> None:
    command = [sys.executable, "-m", "penstock", "echo", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_port_that_is_taken_is_named_with_a_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "penstock", "echo", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; give another port" in done.stderr
    assert done.stderr.count("\n") == 1
