"""The examples of streams do what their heads say, as programs in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATIENCE_S = 30
# What a proxy may hold for two ends of which one is stuck; the sender offers 256 MiB. The sanitizers' allocator keeps what
# was freed for a while, to see it used again.
HELD_MAX_KB = 32_768 if "PENSTOCK_SANITIZED" in os.environ else 2_048
Serve = Callable[[socket.socket], None]
NAMES = ("net_chat", "net_proxy", "net_forwarder")


@contextmanager
def example(name: str, *arguments: str) -> Iterator[tuple[tuple[str, int], subprocess.Popen[str]]]:
    """A program that listens, until the block ends; it leaves politely."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"listening on ([\d.]+):(\d+)", process.stdout.readline())
        assert found
        yield (found[1], int(found[2])), process
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def dial(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=PATIENCE_S)


def read_until(connection: socket.socket, end: bytes) -> bytes:
    got = b""
    while end not in got:
        piece = connection.recv(1 << 16)
        assert piece, f"the end came after {got[-200:]!r}"
        got += piece
    return got


def everything(connection: socket.socket) -> bytes:
    got = b""
    while piece := connection.recv(1 << 16):
        got += piece
    return got


def over(connection: socket.socket) -> bool:
    """Whether the connection was ended by the other side, in whichever way."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@contextmanager
def target(serve: Serve) -> Iterator[str]:
    """Somebody to connect to: `serve(connection)` for each connection, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.settimeout(PATIENCE_S)
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield "{}:{}".format(*server.getsockname())
        server.shutdown(socket.SHUT_RDWR)


def reverse(connection: socket.socket) -> None:
    """Answer with what was sent, backwards, once it has ended."""
    with connection:
        connection.sendall(everything(connection)[::-1])


@pytest.mark.parametrize("name", NAMES)
def test_help_says_what_it_is(name: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", "--help"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.startswith("usage:")
    assert "default: " in done.stdout


def test_a_slow_reader_of_the_chat_hurts_nobody_and_is_told_what_it_missed() -> None:
    lines_of_batch, batches = 20, 400
    with example("net_chat", "--port", "0") as (address, _), socket.socket() as slow:
        # A window that is full soon.
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        slow.settimeout(PATIENCE_S)
        slow.connect(address)
        with dial(address) as quick, dial(address) as speaker:
            for who, name in ((slow, b"slow"), (quick, b"quick"), (speaker, b"speaker")):
                read_until(who, b"your name?\n")
                who.sendall(name + b"\n")
            read_until(quick, b"* speaker is here\n")
            for batch in range(batches):
                # Only the quick one is waited for.
                speaker.sendall((b"x" * 1_000 + b"\n") * (lines_of_batch - 1) + b"batch %d\n" % batch)
                got = read_until(quick, b"speaker: batch %d\n" % batch)
                assert got.count(b"\n") == lines_of_batch
            # The slow one reads at last. What it lost was counted.
            got = read_until(slow, b" lines\n")
            missed = re.search(rb"\* you missed (\d+) lines\n", got)
            assert missed
            assert got.count(b"speaker: ") + int(missed[1]) == lines_of_batch * batches
        read_until(slow, b"* speaker has left\n")


def test_the_proxy_passes_on_both_directions_and_their_ends() -> None:
    with target(reverse) as there, example("net_proxy", "127.0.0.1:0", there) as (address, _), dial(address) as client:
        question = bytes(range(256)) * 4_000
        client.sendall(question)
        client.shutdown(socket.SHUT_WR)
        assert everything(client) == question[::-1]


def resident_kb(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read from /proc")
@pytest.mark.parametrize("direction", ["up", "down"])
def test_backpressure_goes_through_the_proxy(direction: str) -> None:
    """One side sends without end, the other does not read: the sender is made to wait, and the proxy holds little."""
    stuck, go_on, received = threading.Event(), threading.Event(), []

    def pour(connection: socket.socket) -> int:
        """Send until nobody takes any more for half a second."""
        sent = 0
        connection.settimeout(0.5)
        try:
            while sent < 1 << 28:
                sent += connection.send(b"p" * 65_536)
        except TimeoutError:
            return sent
        raise AssertionError("nobody made the sender wait")

    def serve(connection: socket.socket) -> None:
        with connection:
            if direction == "down":
                received.append(pour(connection))
                stuck.set()
                return
            assert go_on.wait(PATIENCE_S)
            received.append(len(everything(connection)))
            stuck.set()

    with target(serve) as there, example("net_proxy", "127.0.0.1:0", there) as (address, process):
        before_kb = resident_kb(process.pid)
        with dial(address) as client:
            if direction == "up":
                sent = pour(client)
                client.settimeout(PATIENCE_S)
                assert resident_kb(process.pid) - before_kb < HELD_MAX_KB
                client.shutdown(socket.SHUT_WR)
                go_on.set()
                assert everything(client) == b""
                assert stuck.wait(PATIENCE_S)
                assert received == [sent]
            else:
                assert stuck.wait(PATIENCE_S)
                assert resident_kb(process.pid) - before_kb < HELD_MAX_KB
                assert len(everything(client)) == received[0]


def test_a_target_that_is_not_there_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = "{}:{}".format(*taken.getsockname())
    with example("net_proxy", "127.0.0.1:0", nobody) as (address, process):
        # The end may come before the connection is seen to be made.
        with suppress(ConnectionResetError), dial(address) as client:
            assert over(client)
        assert process.poll() is None


def echo(connection: socket.socket) -> None:
    with connection:
        while data := connection.recv(1_000):
            connection.sendall(data)


@contextmanager
def forwarder(serve: Serve, *options: str) -> Iterator[tuple[tuple[str, int], subprocess.Popen[str]]]:
    with target(serve) as there, example("net_forwarder", f"127.0.0.1:0={there}", *options) as started:
        yield started


def test_the_forwarder_keeps_its_limits_and_tells_what_it_refused() -> None:
    with forwarder(echo, "--per-address", "2") as (address, process):
        with dial(address) as one, dial(address) as two:
            for client in (one, two):
                client.sendall(b"hello")
                assert client.recv(10) == b"hello"
            with dial(address) as third:
                assert over(third)
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)
        assert "refused {'per_address_max': 1}" in process.stdout.read()


def test_the_forwarder_evicts_and_ends_who_is_silent() -> None:
    def listen(connection: socket.socket) -> None:
        with connection, suppress(ConnectionResetError):
            everything(connection)

    limits = ("--connections", "1", "--when-full", "evict", "--idle", "1")
    with forwarder(listen, *limits) as (address, _), dial(address) as first:
        first.sendall(b"x")
        with dial(address) as second:
            assert over(first)
            # Nobody says anything for a second.
            assert over(second)


def test_a_rule_that_is_none_is_refused_by_name() -> None:
    command = [sys.executable, str(EXAMPLES / "net_forwarder.py"), "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert "'127.0.0.1:1' is no rule; give LISTEN=TARGET" in done.stderr
