"""Outgoing connections: made, refused, too slow; what is written early is sent when they are made."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock import Reactor, UsageError
from penstock.net import StreamOptions, connect
from tests.net.rig import MODES, Log, listen, settle, turn_until


@pytest.mark.parametrize("mode", MODES)
def test_a_connection_is_made_and_early_bytes_are_sent(mode: str) -> None:
    with Reactor() as reactor:
        listener, accepted = listen(reactor)
        assert listener.address is not None
        log = Log(connect(reactor, listener.address, options=StreamOptions(mode=mode)))  # type: ignore[arg-type]
        assert log.stream.state == "connecting"
        log.stream.write(b"early")
        turn_until(reactor, lambda: accepted and "connect" in log.events)
        server = Log(accepted[0])
        turn_until(reactor, lambda: server.data == b"early")
        accepted[0].write(b"answer")
        turn_until(reactor, lambda: log.data == b"answer")
        log.stream.close()
        turn_until(reactor, lambda: server.reason == "eof")
        assert log.events[0] == "connect"


def test_a_refused_connection_is_an_end() -> None:
    with Reactor() as reactor:
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()
        log = Log(connect(reactor, address))
        log.stream.write(b"never sent")
        turn_until(reactor, lambda: log.reason)
        assert (log.reason, log.events) == ("not connected", ["close"])
        assert isinstance(log.stream.error, ConnectionRefusedError)


def test_a_connection_that_takes_too_long_is_given_up() -> None:
    with Reactor() as reactor, socket.socket() as server:
        # A backlog that is full answers nobody.
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        settle(reactor)
        log = Log(connect(reactor, server.getsockname(), timeout=0.05))
        turn_until(reactor, lambda: log.reason)
        assert (log.reason, log.stream.error) == ("not connected", None)
        for filler in fillers:
            filler.close()


def test_a_unix_socket_that_is_not_there(tmp_path: Path) -> None:
    with Reactor() as reactor:
        log = Log(connect(reactor, str(tmp_path / "nobody")))
        turn_until(reactor, lambda: log.reason)
        assert isinstance(log.stream.error, FileNotFoundError)


def test_closing_before_the_connection_is_made() -> None:
    with Reactor() as reactor:
        listener, _ = listen(reactor)
        assert listener.address is not None
        log = Log(connect(reactor, listener.address))
        log.stream.close()
        turn_until(reactor, lambda: log.reason)
        assert log.reason == "closed"


def test_a_name_must_be_looked_up_first() -> None:
    with Reactor() as reactor, pytest.raises(UsageError, match="Resolver"):
        connect(reactor, ("localhost", 80))
