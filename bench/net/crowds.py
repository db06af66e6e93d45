"""Crowds: 3,000 connections at once; 200 clients of a server with 64 descriptors; 20 peers that never read."""

from __future__ import annotations

import re
import socket
import sys
import time

from common import HERE, PATIENCE_S, echo_server, serve, verdict

AT_ONCE = 3_000
DESCRIPTORS = 64
CLIENTS = 200
DEAD = 20


def at_once() -> bool:
    """All connect without waiting for each other, and all are answered."""
    with echo_server() as server:
        began_s = time.monotonic()
        clients = []
        for _ in range(AT_ONCE):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(server.address)
            clients.append(client)
        for number, client in enumerate(clients):
            client.settimeout(PATIENCE_S)
            client.connect_ex(server.address)
            client.sendall(b"%05d" % number)
        answers = [client.recv(10) for client in clients]
        print(f"  {AT_ONCE:,} connections answered after {time.monotonic() - began_s:.2f} s")
        for client in clients:
            client.close()
    return answers == [b"%05d" % number for number in range(AT_ONCE)]


def starved() -> tuple[bool, float]:
    """The first are served while the others wait in the backlog; as they leave, the others are."""
    with echo_server(nofile=DESCRIPTORS) as server:
        clients = [socket.create_connection(server.address, timeout=PATIENCE_S) for _ in range(CLIENTS)]
        for number, client in enumerate(clients):
            client.sendall(b"%05d" % number)
        time.sleep(0.5)
        before_s = server.cpu_s()
        time.sleep(2)
        cpu_s = server.cpu_s() - before_s
        answers = []
        for client in clients:
            answers.append(client.recv(10))
            client.close()
        print(f"  {cpu_s:.2f} s of CPU in 2 s without descriptors")
    return answers == [b"%05d" % number for number in range(CLIENTS)], cpu_s


def never_read() -> float:
    """Milliseconds from the close to the last end."""
    with serve(str(HERE / "servers.py"), "linger") as server:
        peers = [socket.create_connection(server.address) for _ in range(DEAD)]
        assert server.process.stdout is not None
        line = server.process.stdout.readline()
        print(f"  {line.strip()}")
        found = re.search(r"after ([\d.]+) ms", line)
        for peer in peers:
            peer.close()
    return float(found[1]) if found else 1e9


def main() -> int:
    everybody = at_once()
    all_served, cpu_s = starved()
    gone_ms = never_read()
    return verdict(
        {
            f"{AT_ONCE:,} connections at once are all served": everybody,
            f"{CLIENTS} clients of {DESCRIPTORS} descriptors are all served, nobody is closed": all_served,
            "a server without descriptors does not spin": cpu_s <= 0.1,
            f"{DEAD} peers that never read are gone between 1,000 and 1,100 ms": 1_000 <= gone_ms <= 1_100,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
