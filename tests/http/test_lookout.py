"""The status at an address of its own: what an address may be, all three kinds of servers, children that keep nothing."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path

import pytest

from penstock import Reactor
from penstock.errors import UsageError
from penstock.http.lookout import Lookout, parse
from tests.http.rig import Client, Served, get
from tests.http.serving import ask, serving
from tests.net.rig import PATIENCE_S

KINDS = [(), ("--threads", "2"), ("--workers", "2")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:9000", ("127.0.0.1", 9000)),
        (":9000", ("127.0.0.1", 9000)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:65535", ("localhost", 65_535)),
    ],
)
def test_addresses(text: str, found: tuple[str, int]) -> None:
    assert parse(text) == found


@pytest.mark.parametrize("text", ["", "9000", "a:b", "a:65536", "::1:9000", "a:-1", "a:", "[::1]", "a:٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="give host:port"):
        parse(text)


def test_an_address_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, Reactor() as reactor:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"status is '127.0.0.1:{port}': .*in use"):
            Lookout(f"127.0.0.1:{port}", reactor, dict)


def test_it_says_what_it_has_open() -> None:
    with Reactor() as reactor:
        lookout = Lookout("127.0.0.1:0", reactor, lambda: {"open": 7})
        served = Served(lookout._server, reactor)
        client: Client = served.dial()
        assert client.ask(get("/status")).body.startswith(b"connections: 7\n")
        numbers = lookout.descriptors()
        assert len(numbers) == 2
        for number in numbers:
            os.fstat(number)
        client.close()
        lookout.close()
        served.until(lambda: not lookout.descriptors(), "the end")


def look(address: tuple[str, int], path: str = "/status") -> str:
    with socket.create_connection(address, timeout=PATIENCE_S) as client:
        return ask(client, path, close=True)[2].decode()


def shown(head: str) -> tuple[str, int]:
    found = re.search(r"live counts at http://127.0.0.1:(\d+)/", head)
    assert found, head
    return "127.0.0.1", int(found[1])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0] if kind else "one")
def test_everybody_is_counted_together(tmp_path: Path, kind: tuple[str, ...]) -> None:
    (tmp_path / "index.html").write_text("hello")
    with serving(str(tmp_path), "--status", "127.0.0.1:0", *kind) as server:
        address = shown(server.head)
        for _ in range(5):
            assert server.get()[0] == 200
        # The counts of other loops and processes come once a second: ask until they are there.
        counts = ""
        while "requests: 5\n" not in counts:
            counts = look(address)
        assert "penstock_requests_total 5\n" in look(address, "/metrics")
        assert server.leave()[0] == 0


def test_a_worker_keeps_nothing_of_it(tmp_path: Path) -> None:
    """Who watches while a worker is started again learns of the end of the server, although the worker would live on."""
    (tmp_path / "index.html").write_text("hello")
    with serving(str(tmp_path), "--status", "127.0.0.1:0", "--workers", "2", "--drain-timeout", "1") as server:
        address = shown(server.head)
        watcher = socket.create_connection(address, timeout=PATIENCE_S)
        watcher.sendall(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
        assert watcher.recv(65_536)
        pids = children(server.process.pid)
        os.kill(pids[0], signal.SIGKILL)
        while len(after := children(server.process.pid)) < 2 or pids[0] in after:
            assert watcher.recv(65_536)
        inodes = {os.stat(f"/proc/{server.process.pid}/fd/{fd}").st_ino for fd in sockets(server.process.pid)}
        mine = socket_inode(server.process.pid, address[1])
        assert mine & inodes
        for pid in after:
            assert not mine & {os.stat(f"/proc/{pid}/fd/{fd}").st_ino for fd in sockets(pid)}
        watcher.close()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def sockets(pid: int) -> list[str]:
    folder = Path(f"/proc/{pid}/fd")
    return [fd.name for fd in folder.iterdir() if os.readlink(fd).startswith("socket:")]


def socket_inode(pid: int, port: int) -> set[int]:
    """The sockets of this machine whose own port is that one: the listener, and its connections."""
    found = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if int(words[1].rpartition(":")[2], 16) == port and words[9] != "0":
            found.add(int(words[9]))
    return found
