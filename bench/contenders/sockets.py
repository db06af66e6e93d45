"""The listening socket that every Python server of the benchmark starts from."""

from __future__ import annotations

import socket

from contenders.base import LISTEN_BACKLOG


def listen_on_loopback() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(LISTEN_BACKLOG)
    listener.setblocking(False)
    return listener


def accept_all(listener: socket.socket) -> list[socket.socket]:
    """Every connection that waits, non-blocking and without Nagle."""
    accepted: list[socket.socket] = []
    while True:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return accepted
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.append(connection)


def port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port
