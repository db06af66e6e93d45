"""Idle deadlines of 10,000 connections: accurate to 10 ms, and never early."""

from __future__ import annotations

import re
import socket
import sys

from common import HERE, PATIENCE_S, serve, verdict

CONNECTIONS = 10_000
# As they arrive on a busy server: spread over a time in which as many can be served.
LATE_MAX_US = 10_000


def main() -> int:
    with serve(str(HERE / "servers.py"), "idle") as server:
        clients = []
        for _ in range(CONNECTIONS):
            client = socket.create_connection(server.address, timeout=PATIENCE_S)
            client.send(b"x")
            clients.append(client)
        for client in clients:
            assert client.recv(1) == b""
            client.close()
        server.leave()
        assert server.process.stdout is not None
        line = server.process.stdout.readline()
        print(f"  {line.strip()}")
    found = re.search(r"idle (\d+) earliest_us (-?\d+) p99_us (-?\d+) latest_us (-?\d+)", line)
    count, earliest, p99, latest = map(int, found.groups()) if found else (0, -1, 1 << 30, 1 << 30)
    return verdict(
        {
            f"{CONNECTIONS:,} connections ended": count == CONNECTIONS,
            "none was early": earliest >= 0,
            f"99 of 100 at most {LATE_MAX_US:,} us late": p99 <= LATE_MAX_US,
            f"the last at most {LATE_MAX_US:,} us late": latest <= LATE_MAX_US,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
