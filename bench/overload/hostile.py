"""Clients that take their time: `python hostile.py heads|bodies|readers PORT COUNT SECONDS` prints what became of them.

heads    send a head a byte per second (slowloris)
bodies   send a whole head that promises 1 MB, and then of that a byte per second
readers  ask for 1 MB and read 256 bytes of it per second, into a small buffer

Bounded in connections and time; it ends by itself. This file must not know which server it torments.
"""

from __future__ import annotations

import json
import resource
import select
import socket
import sys
import time

COUNT_MAX, SECONDS_MAX = 10_000, 300
ADDRESSES = 100
PERIOD_S = 1.0
READ_BYTES = 256
HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * SECONDS_MAX
BODY = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
FILE = b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Client:
    """One slow connection."""

    def __init__(self, kind: str, address: tuple[str, int], number: int) -> None:
        self.kind = kind
        self.sent = 0
        self.end = ""
        self.status = b""
        self.socket = socket.socket()
        if kind == "readers":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.bind((f"127.0.8.{1 + number % ADDRESSES}", 0))
        self.socket.settimeout(5)
        try:
            self.socket.connect(address)
            self.socket.setblocking(False)
            first = {"heads": b"", "bodies": BODY, "readers": FILE}[kind]
            self.socket.send(first)
        except OSError as failure:
            self.over(f"not opened: {type(failure).__name__}")

    def over(self, how: str) -> None:
        self.end = how
        self.socket.close()

    def tick(self) -> None:
        """A second has passed: a little further."""
        try:
            if self.kind == "readers":
                self._read(READ_BYTES)
                return
            self.socket.send(HEAD[self.sent : self.sent + 1] if self.kind == "heads" else b"b")
            self.sent += 1
            self._read(4096)
        except BlockingIOError:
            pass
        except OSError as failure:
            self.over(f"status {self.status.decode()}" if self.status else type(failure).__name__)

    def _read(self, most: int) -> None:
        got = self.socket.recv(most)
        if not self.status and got:
            self.status = got[9:12]
        if not got:
            self.over(f"status {self.status.decode()}" if self.status else "closed")


def main() -> None:
    kind, port, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    if kind not in {"heads", "bodies", "readers"} or not 0 < count <= COUNT_MAX or not 0 < seconds <= SECONDS_MAX:
        sys.exit(
            f"hostile.py: give heads, bodies or readers, a port, 1 to {COUNT_MAX} connections, up to {SECONDS_MAX} s"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    clients = [Client(kind, ("127.0.0.1", port), number) for number in range(count)]
    print("open", flush=True)
    end_s = time.monotonic() + seconds
    next_s = time.monotonic()
    while (now_s := time.monotonic()) < end_s:
        for client in clients:
            if not client.end:
                client.tick()
        next_s += PERIOD_S
        select.select([], [], [], max(0.0, min(next_s, end_s) - now_s))
    ends: dict[str, int] = {}
    for client in clients:
        how = client.end or "still open"
        ends[how] = ends.get(how, 0) + 1
    print(json.dumps(ends))


if __name__ == "__main__":
    main()
