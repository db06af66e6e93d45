"""Connections that stop in the middle of something: half a head is sent, or a large answer is not read.

They are opened by this process, all at once, and closed when the block ends. This file must not know which server it is
that holds them, nor what its memory is.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

# A head with the cookies of a site that likes them, of which the end does not come.
HALF_A_HEAD = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: half\r\nCookie: " + b"c" * 3_900
# What a client takes that does not read: little, so that the answer stays where it comes from.
RECEIVE_BYTES = 4_096
CONNECT_TIMEOUT_S = 10.0


@contextmanager
def _held(port: int, sent: bytes, count: int) -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            one = socket.socket()
            opened.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            one.settimeout(CONNECT_TIMEOUT_S)
            one.connect(("127.0.0.1", port))
            one.sendall(sent)
        yield opened
    finally:
        for one in opened:
            one.close()


def half_heads(port: int, path: str, count: int) -> AbstractContextManager[list[socket.socket]]:
    """So many connections that have sent 4 KiB of a head and not its end."""
    return _held(port, HALF_A_HEAD % path.encode(), count)


def unread_answers(port: int, path: str, count: int) -> AbstractContextManager[list[socket.socket]]:
    """So many connections that have asked for a path and do not read what comes."""
    return _held(port, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(), count)


def still_open(opened: list[socket.socket]) -> int:
    """How many of them the server has not closed."""
    count = 0
    for one in opened:
        one.setblocking(False)
        try:
            count += one.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            count += 1
        except OSError:
            pass
    return count
