"""Listeners: everybody who can be served is accepted, and who is not is counted."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from penstock import BadDescriptor, ErrorReport, Reactor, UsageError
from penstock.net import Listener, Stream, counters
from tests.net.rig import PATIENCE_S, dial, drain, fill, listen, settle, turn_until


def close_all(clients: list[socket.socket]) -> None:
    for client in clients:
        client.close()


def answered(client: socket.socket) -> bytes | None:
    """What a client has got: None nothing yet, b"" the end."""
    try:
        return client.recv(100)
    except BlockingIOError:
        return None


# ---- accepting -------------------------------------------------------------------------------------------------------


def test_the_backlog_is_drained_up_to_the_budget_of_a_turn() -> None:
    with Reactor() as reactor:
        listener, accepted = listen(reactor, accept_budget=4)
        clients = [dial(listener) for _ in range(10)]
        seen = []
        for _ in range(3):
            reactor.run_once(0)
            seen.append(len(accepted))
        assert seen == [4, 8, 10]
        assert (listener.open, listener.accepted) == (10, 10)
        close_all(clients)
        turn_until(reactor, lambda: listener.open == 0)


def test_a_connection_echoes() -> None:
    def accept(stream: Stream) -> None:
        stream.on_data = stream.write

    with Reactor() as reactor:
        listener = Listener(reactor, ("127.0.0.1", 0), accept)
        client = dial(listener)
        client.send(b"ping")
        assert drain(client, 4, reactor) == b"ping"
        client.close()


def test_a_unix_socket_and_the_file_that_is_left_over(tmp_path: Path) -> None:
    path = str(tmp_path / "door")
    left_over = socket.socket(socket.AF_UNIX)
    left_over.bind(path)
    left_over.close()
    with Reactor() as reactor:
        accepted: list[Stream] = []
        listener = Listener(reactor, path, accepted.append)
        with pytest.raises(OSError, match="cannot listen on unix:"):
            Listener(reactor, path, accepted.append)
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        turn_until(reactor, lambda: accepted)
        assert (listener.address, accepted[0].peer, accepted[0].name) == (path, None, path)
        client.close()
        listener.close()
        assert not os.path.exists(path)


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
@pytest.mark.parametrize("dual_stack", [False, True])
def test_ipv6_alone_and_with_ipv4(dual_stack: bool) -> None:
    with Reactor() as reactor:
        accepted: list[Stream] = []
        try:
            listener = Listener(reactor, ("::", 0), accepted.append, dual_stack=dual_stack)
        except OSError as error:
            pytest.skip(f"this machine has no IPv6: {error}")
        assert isinstance(listener.address, tuple)
        port = listener.address[1]
        six = socket.create_connection(("::1", port), timeout=PATIENCE_S)
        turn_until(reactor, lambda: len(accepted) == 1)
        if dual_stack:
            four = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            turn_until(reactor, lambda: len(accepted) == 2)
            assert accepted[1].peer == four.getsockname()
            four.close()
        else:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        six.close()


def test_several_listeners_share_a_port() -> None:
    with Reactor() as reactor:
        first, one = listen(reactor, reuse_port=True)
        two: list[Stream] = []
        Listener(reactor, first.address, two.append, reuse_port=True)
        with pytest.raises(OSError, match="cannot listen"):
            Listener(reactor, first.address, two.append)
        clients = [dial(first) for _ in range(32)]
        turn_until(reactor, lambda: len(one) + len(two) == 32)
        assert one
        assert two
        close_all(clients)


def test_an_inherited_descriptor() -> None:
    with Reactor() as reactor:
        server = socket.create_server(("127.0.0.1", 0))
        accepted: list[Stream] = []
        listener = Listener(reactor, None, accepted.append, fd=server)
        client = dial(listener)
        turn_until(reactor, lambda: accepted)
        client.close()
        assert server.fileno() == -1
        deaf = socket.socket()
        with pytest.raises(BadDescriptor, match="does not listen"):
            Listener(reactor, None, accepted.append, fd=deaf.fileno())
        deaf.close()
        read_end, write_end = os.pipe()
        with pytest.raises(BadDescriptor, match="no socket"):
            Listener(reactor, None, accepted.append, fd=read_end)
        os.close(read_end)
        os.close(write_end)


@pytest.mark.parametrize(
    "wrong",
    [
        {"backlog": 0},
        {"connections_max": 0},
        {"per_address_max": 0},
        {"accept_budget": 0},
        {"when_full": "panic"},
        {"options": {}},
        {"fd": 3},
    ],
)
def test_what_cannot_be_meant(wrong: dict[str, object]) -> None:
    with Reactor() as reactor, pytest.raises(UsageError):
        Listener(reactor, ("127.0.0.1", 0), print, **wrong)  # type: ignore[arg-type]


def test_a_handler_that_fails_ends_its_connection_only() -> None:
    errors: list[ErrorReport] = []
    with Reactor(on_error=errors.append) as reactor:
        streams: list[Stream] = []

        def accept(stream: Stream) -> None:
            streams.append(stream)
            if len(streams) == 1:
                raise ValueError("no")

        listener = Listener(reactor, ("127.0.0.1", 0), accept)
        clients = [dial(listener) for _ in range(3)]
        turn_until(reactor, lambda: listener.accepted == 3 and listener.open == 2)
        assert [str(report.error) for report in errors] == ["no"]
        assert streams[0].reason == "handler failed"
        close_all(clients)


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_a_full_listener_refuses_and_says_so() -> None:
    with Reactor() as reactor:
        refusals: list[str] = []
        listener, _ = listen(reactor, connections_max=2, on_refuse=refusals.append)
        clients = [dial(listener) for _ in range(4)]
        turn_until(reactor, lambda: listener.accepted + listener.refused == 4)
        assert (listener.open, refusals) == (2, ["connections_max"] * 2)
        assert [answered(client) for client in clients] == [None, None, b"", b""]
        clients[0].close()
        turn_until(reactor, lambda: listener.open == 1)
        clients.append(dial(listener))
        turn_until(reactor, lambda: listener.open == 2)
        assert counters(reactor)["refused"] == 2
        close_all(clients)


def test_a_full_listener_evicts_who_was_silent_for_longest() -> None:
    with Reactor() as reactor:
        listener, accepted = listen(reactor, connections_max=3, when_full="evict")
        clients = []
        for _ in range(3):
            clients.append(dial(listener))
            turn_until(reactor, lambda: len(accepted) == len(clients))
        for stream in accepted:
            stream.on_data = lambda _data: None
        clients[0].send(b"I am here")
        turn_until(reactor, lambda: accepted[0].received_bytes)
        clients.append(dial(listener))
        turn_until(reactor, lambda: accepted[1].state == "closed")
        assert [stream.reason for stream in accepted] == [None, "evicted", None, None]
        assert (listener.open, listener.evicted) == (3, 1)
        close_all(clients)
        turn_until(reactor, lambda: listener.open == 0)


def test_who_is_being_served_is_not_evicted() -> None:
    with Reactor() as reactor:
        listener, accepted = listen(reactor, connections_max=2, when_full="evict")
        clients = [dial(listener) for _ in range(2)]
        turn_until(reactor, lambda: len(accepted) == 2)
        fill(accepted[0])
        fill(accepted[1])
        clients.append(dial(listener))
        turn_until(reactor, lambda: listener.refused == 1)
        assert [stream.state for stream in accepted] == ["open", "open"]
        close_all(clients)


@pytest.mark.parametrize("when_full", ["refuse", "evict"])
def test_one_address_may_have_so_many(when_full: str) -> None:
    with Reactor() as reactor:
        listener, accepted = listen(reactor, per_address_max=2, when_full=when_full)
        clients = [dial(listener) for _ in range(2)]
        assert isinstance(listener.address, tuple)
        other = socket.socket()
        other.bind(("127.0.0.2", 0))
        other.connect(listener.address)
        turn_until(reactor, lambda: listener.open == 3)
        clients.append(dial(listener))
        turn_until(reactor, lambda: listener.refused + listener.evicted == 1)
        settle(reactor)
        assert listener.open == 3
        peers = sorted(str(stream.peer[0]) for stream in accepted if stream.peer)
        assert peers == ["127.0.0.1", "127.0.0.1", "127.0.0.2"]
        close_all(clients)
        other.close()
        turn_until(reactor, lambda: listener.open == 0)


# ---- the system has nothing left -------------------------------------------------------------------------------------

STARVED = """
import resource, socket, sys
from penstock import Reactor
from penstock.net import Listener, counters
import time
reports = []
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
with Reactor(on_error=reports.append) as reactor:
    streams = []
    def accept(stream):
        stream.on_data = lambda data: (stream.write(data), stream.close())
        streams.append(stream)
    listener = Listener(reactor, ("127.0.0.1", 0), accept)
    print(listener.address[1], flush=True)
    deadline = time.monotonic() + 50
    while listener.accepted < 60 or listener.open:
        assert time.monotonic() < deadline
        reactor.run_once(0.02)
    assert listener.refused == 0, "somebody was closed"
    assert listener.starved >= 1, "there was no shortage"
    assert len(reports) <= 1 + (50 - deadline + time.monotonic()), reports
    assert "Too many open files" in str(reports[0].error)
    print(reactor.stats().turns, listener.starved)
"""


def test_without_descriptors_the_others_wait_and_all_are_served() -> None:
    with subprocess.Popen([sys.executable, "-c", STARVED], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        clients = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(60)]
        for number, client in enumerate(clients):
            client.send(b"%d" % number)
        for number, client in enumerate(clients):
            assert client.recv(100) == b"%d" % number
            client.close()
        words = server.stdout.read().split()
        assert server.wait(PATIENCE_S) == 0
        # Nobody span while nothing could be accepted.
        assert int(words[0]) < 5_000


def test_a_closed_listener_leaves_its_streams_alone() -> None:
    with Reactor() as reactor:
        listener, accepted = listen(reactor)
        client = dial(listener)
        turn_until(reactor, lambda: accepted)
        listener.close()
        listener.close()
        accepted[0].write(b"still here")
        settle(reactor)
        assert client.recv(100) == b"still here"
        assert (listener.fileno(), listener.address) == (-1, None)
        client.close()
        turn_until(reactor, lambda: accepted[0].state == "closed")
        assert listener.open == 0


def test_a_closed_loop_closes_the_listener() -> None:
    with Reactor() as reactor:
        listener, _ = listen(reactor)
        client = dial(listener)
    assert listener.fileno() == -1
    # The connection was never accepted.
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    client.close()


def test_churn_leaves_nothing_behind() -> None:
    with Reactor() as reactor:
        listener, accepted = listen(reactor)
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

        def settled(accepted_by_now: int) -> bool:
            return listener.accepted == accepted_by_now and not listener.open

        for done in range(0, 500, 10):
            clients = [dial(listener) for _ in range(10)]
            close_all(clients)
            turn_until(reactor, partial(settled, done + 10))
            accepted.clear()
        assert listener.accepted == 500
        if before:
            assert len(os.listdir("/proc/self/fd")) == before
        counted = counters(reactor)
        assert (counted["open"], counted["opened"], counted["closed"]) == (0, 500, 500)
