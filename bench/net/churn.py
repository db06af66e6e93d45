"""50,000 connects and closes: descriptors and memory are back to where they began."""

from __future__ import annotations

import socket
import sys

from common import echo_server, verdict, wait_for

CONNECTIONS = 50_000
WARM_UP = 5_000
GROWTH_MAX_KB = 600


def churn(address: tuple[str, int], count: int) -> None:
    for number in range(count):
        client = socket.create_connection(address)
        client.send(b"%d" % number)
        if number % 3:
            assert client.recv(10) == b"%d" % number
        if number % 2:
            # A reset, so that the ports of this machine suffice.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()


def main() -> int:
    with echo_server(*sys.argv[1:]) as server:
        empty = server.descriptors()
        churn(server.address, WARM_UP)
        wait_for(lambda: server.descriptors() == empty, "the last connection's end")
        warm_kb = server.resident_kb()
        churn(server.address, CONNECTIONS)
        wait_for(lambda: server.descriptors() == empty, "the last connection's end")
        grown_kb = server.resident_kb() - warm_kb
        print(f"  {warm_kb:,} kB after {WARM_UP:,}, {grown_kb:+,} kB after {CONNECTIONS:,} more")
    return verdict(
        {
            "descriptors are back to where they began": True,
            f"memory is, to {GROWTH_MAX_KB} kB": grown_kb <= GROWTH_MAX_KB,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
