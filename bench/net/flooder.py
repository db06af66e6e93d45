"""1 flooder beside 99 polite connections: the polite ones are answered in time, and so are 100 new ones.

On a machine that others use, `--first` (as root) measures the server instead of the others: server and flooder go before
other processes, and the clients that take the time before all. Other options are those of `penstock echo`.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import time

from common import echo_server, verdict

POLITE = 99
SECONDS = 5.0
PERIOD_S = 0.02
P99_MAX_S = 0.004
NEW = 100
NEW_MAX_S = 0.025
# As whom the flooder runs: behind the others that share its processor, or before whoever else uses the machine.
FLOODER_NICE = 10
FLOODER_FIRST_NICE = -15
SERVER_FIRST_NICE = -19

# It stands for another machine: what it needs of this one's processors is not the server's fault.
FLOOD = """
import os, selectors, socket, sys
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0)); os.setpriority(os.PRIO_PROCESS, 0, int(sys.argv[2]))
s = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); s.setblocking(False)
piece = b"f" * 262144
choose = selectors.DefaultSelector(); choose.register(s, 3)
while True:
    for _, events in choose.select():
        try:
            if events & 2: s.send(piece)
            if events & 1: s.recv(1 << 20)
        except BlockingIOError: pass
"""


class Polite:
    """One message in flight, the next one a period after the last was sent."""

    def __init__(self, address: tuple[str, int], begins_s: float) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.next_s = begins_s
        self.sent_s = 0.0
        self.asked = 0
        self.took_s: list[float] = []

    def tick(self, now_s: float) -> None:
        if not self.sent_s and now_s >= self.next_s:
            self.next_s += PERIOD_S
            self.sent_s = time.monotonic()
            self.asked += 1
            self.socket.send(b"p" * 64)

    def answered(self) -> None:
        assert self.socket.recv(1000) == b"p" * 64
        self.took_s.append(time.monotonic() - self.sent_s)
        self.sent_s = 0.0


def talk(clients: list[Polite], seconds: float) -> None:
    """Let all of them talk for so long."""
    choose = selectors.DefaultSelector()
    for client in clients:
        choose.register(client.socket, selectors.EVENT_READ, client)
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        for key, _ in choose.select(0.0005):
            key.data.answered()
        now_s = time.monotonic()
        for client in clients:
            client.tick(now_s)
    time.sleep(0.1)
    for key, _ in choose.select(0):
        key.data.answered()


def newcomers(address: tuple[str, int]) -> float:
    """How long 100 new connections take to be answered, from the first connect to the last answer."""
    began_s = time.monotonic()
    sockets = [socket.create_connection(address) for _ in range(NEW)]
    for each in sockets:
        each.send(b"new")
    for each in sockets:
        assert each.recv(10) == b"new"
    took_s = time.monotonic() - began_s
    for each in sockets:
        each.close()
    return took_s


def separate(server: int) -> None:
    """Give the server a processor of its own, if there are two; the others share the last one."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(server, {allowed[0]})
    os.sched_setaffinity(0, {allowed[-1]})


def go_first(server: int) -> None:
    """Let other processes of the machine wait. Not in real time for the server: it would be stopped for taking all."""
    os.setpriority(os.PRIO_PROCESS, server, SERVER_FIRST_NICE)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def without_flooder(address: tuple[str, int]) -> float:
    """The p99 of polite connections alone: what this machine makes of it by itself, with whoever else uses it."""
    now_s = time.monotonic()
    clients = [Polite(address, now_s + number * PERIOD_S / POLITE) for number in range(POLITE)]
    talk(clients, SECONDS / 2)
    took = sorted(took_s for client in clients for took_s in client.took_s)
    for client in clients:
        client.socket.close()
    return took[len(took) * 99 // 100]


def main() -> int:
    first = "--first" in sys.argv
    with echo_server(*(option for option in sys.argv[1:] if option != "--first")) as server:
        separate(server.process.pid)
        if first:
            go_first(server.process.pid)
        print(f"  without a flooder: p99 {without_flooder(server.address) * 1e3:.2f} ms")
        nice = FLOODER_FIRST_NICE if first else FLOODER_NICE
        flooder = subprocess.Popen([sys.executable, "-c", FLOOD, str(server.address[1]), str(nice)])
        try:
            time.sleep(0.3)
            now_s = time.monotonic()
            clients = [Polite(server.address, now_s + number * PERIOD_S / POLITE) for number in range(POLITE)]
            talk(clients, SECONDS)
            new_s = min(newcomers(server.address) for _ in range(3))
        finally:
            flooder.kill()
            flooder.wait()
        took = sorted(took_s for client in clients for took_s in client.took_s)
        asked = sum(client.asked for client in clients)
        p99_s = took[len(took) * 99 // 100]
        print(
            f"  {len(took):,} of {asked:,} answered, p50 {took[len(took) // 2] * 1e3:.2f} ms, p99 {p99_s * 1e3:.2f} ms"
        )
        print(f"  {NEW} new connections served in {new_s * 1e3:.1f} ms")
        for client in clients:
            client.socket.close()
    return verdict(
        {
            "at least 99 % of the polite ones answered": len(took) >= 0.99 * asked,
            f"p99 of the polite ones at most {P99_MAX_S * 1e3:g} ms": p99_s <= P99_MAX_S,
            f"{NEW} new connections served within {NEW_MAX_S * 1e3:g} ms": new_s <= NEW_MAX_S,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
