"""`penstock serve` in a process of its own, and clients that talk to it.

Every wait is for an event, with a deadline that only a broken server meets.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE_S = 120
# As a user has it.
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED" and not name.startswith("PENSTOCK_")
}

# A handler and a WSGI application that say who answers, and can be asked to misbehave. What is held is in work until
# there is a file of the name "release".
APPLICATION = """
import os
import time

from penstock.http import Response

NAME = "first"


def handler(request):
    if request.path == "/die":
        os._exit(3)
    return Response(200, f"{NAME} {os.getpid()}")


def wsgi(environ, start_response):
    if environ["PATH_INFO"] == "/hold":
        open("held", "w").close()
        while not os.path.exists("release"):
            time.sleep(0.005)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"wsgi %d" % os.getpid()]
"""


class Serving:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], address: Any, head: str) -> None:
        self.process = process
        self.address = address
        self.head = head
        self.complaints: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.complaints.extend(iter(self.process.stderr.readline, ""))

    def complained(self, words: str, times: int = 1) -> Callable[[], bool]:
        """Whether it has said something so often; to be waited for."""
        return lambda: sum(words in line for line in list(self.complaints)) >= times

    def connect(self) -> socket.socket:
        if isinstance(self.address, str):
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(PATIENCE_S)
            client.connect(self.address)
            return client
        return socket.create_connection(self.address, timeout=PATIENCE_S)

    def get(self, path: str = "/") -> tuple[int, str, bytes]:
        """Ask on a connection of its own; return the status, the head and the content."""
        with self.connect() as client:
            return ask(client, path, close=True)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def leave(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Tell it to leave; return the exit status and what it printed in the end."""
        self.send(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status, rest


@contextmanager
def serving(*arguments: str, cwd: Path | None = None, port: bool = True, **more: Any) -> Iterator[Serving]:
    """Start `penstock serve` on a port that the system chooses, and wait until it serves."""
    command = [sys.executable, "-m", "penstock", "serve", *arguments, *(["--port", "0"] if port else [])]
    if not {"--max-connections", "--config"} & set(arguments):
        # Fewer than any machine allows descriptors, or it would complain.
        command += ["--max-connections", "1000"]
    with started(command, cwd, **more) as server:
        yield server


@contextmanager
def started(command: list[str], cwd: Path | None = None, **more: Any) -> Iterator[Serving]:
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**ENVIRONMENT, **more.pop("environment", {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )
    try:
        yield Serving(process, *_introduction(process))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _introduction(process: subprocess.Popen[str]) -> tuple[Any, str]:
    assert process.stdout is not None
    head = ""
    while "Ctrl-C stops it" not in head:
        line = process.stdout.readline()
        assert line, process.communicate(timeout=PATIENCE_S)
        head += line
    if found := re.search(r" at https?://\[?([^\]/]+?)\]?:(\d+)/\n", head):
        return (found[1], int(found[2])), head
    found = re.search(r" at unix:(.+)\n", head)
    assert found, head
    return found[1], head


def ask(client: socket.socket, path: str = "/", *, close: bool = False) -> tuple[int, str, bytes]:
    """Send a request and read the whole answer."""
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n{'Connection: close' if close else 'X: y'}\r\n\r\n".encode())
    return answer(client)


def answer(client: socket.socket) -> tuple[int, str, bytes]:
    """Read one answer that says its length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += some(client, data)
    head, _, content = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    size = int(length[1]) if length else 0
    while len(content) < size:
        content += some(client, content)
    return int(head.split()[1]), head.decode(), content


def some(client: socket.socket, so_far: bytes) -> bytes:
    piece = client.recv(65_536)
    if not piece:
        raise ConnectionResetError(f"ended after {so_far!r}")
    return piece


def eventually(condition: Callable[[], Any], what: str = "") -> Any:
    """Wait until something is true; return it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain: {what or condition}"
        select.select([], [], [], 0.005)
    return found


def gone(pid: int) -> bool:
    """Whether a process has ended; one that waits for its parent's attention has."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] in "ZX"


class Load:
    """Clients that ask as fast as they get answers, each request on a connection of its own or all on one.

    `lost` has what went wrong with requests of connections that had been made. Being refused is no loss: it ends the
    client.
    """

    def __init__(self, server: Serving, clients: int = 4, path: str = "/", *, keep: bool = False) -> None:
        self.server = server
        self.path = path
        self.keep = keep
        self.answered = 0
        self.contents: set[bytes] = set()
        self.lost: list[str] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def more(self, count: int = 20) -> None:
        """Wait for so many more answers."""
        wanted = self.answered + count
        eventually(lambda: self.answered >= wanted or self.lost, "more answers")

    def _run(self) -> None:
        client = None
        while not self._stop.is_set():
            try:
                if client is None:
                    client = self.server.connect()
            except OSError:
                return
            try:
                status, head, content = ask(client, self.path, close=not self.keep)
            except OSError as error:
                with self._lock:
                    self.lost.append(repr(error))
                client.close()
                return
            with self._lock:
                self.answered += 1
                self.contents.add(content)
                if status != 200:
                    self.lost.append(head)
            if not self.keep or "connection: close" in head.lower():
                client.close()
                client = None
        if client is not None:
            with suppress(OSError):
                client.close()
