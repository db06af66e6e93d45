"""Names become addresses without holding up the loop.

Literals and what stands in the hosts file are answered without any thread: in the next step of the turn. All else goes
to a few threads, for the system's resolver blocks; the names that wait for them are bounded, and one more is refused.
Several questions for the same name at the same time are asked once.

The answers come back through the loop's inbox, and callbacks run on the loop's thread. This file must not know sockets.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Protocol

from penstock import limits
from penstock.errors import LoopClosed, Overflow, UsageError
from penstock.net.address import Address, from_system, is_literal

Answer = Callable[[OSError | None, list[Address]], object]
LookUp = Callable[[str], list[str]]

HOSTS_FILE: Final = Path("/etc/hosts")
# A hosts file that is larger than this is none.
HOSTS_MAX_BYTES: Final = 1 << 20


class Defers(Protocol):
    """What a resolver needs of a reactor."""

    def defer(self, callback: Callable[..., object], /, *args: object) -> None:
        """Have it called in a later step."""

    def defer_threadsafe(self, callback: Callable[..., object], /, *args: object) -> None:
        """Have it called by the loop, from another thread."""


def system_look_up(host: str) -> list[str]:
    """Ask the system, which may take long."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    hosts = [address[0] for _, _, _, _, name in found if isinstance(address := from_system(name), tuple)]
    return list(dict.fromkeys(hosts))


class Resolver:
    """Looks names up for one reactor. `resolve(host, port, callback)` calls `callback(error_or_None, addresses)`."""

    def __init__(
        self,
        reactor: Defers,
        *,
        threads: int = limits.RESOLVE_THREADS,
        capacity: int = limits.RESOLVE_CAPACITY,
        hosts_file: Path = HOSTS_FILE,
        look_up: LookUp = system_look_up,
    ) -> None:
        limits.require_whole("threads", threads, 1, 64)
        limits.require_whole("capacity", capacity, 1, 65_536)
        self.asked = 0
        self.at_once = 0
        self.refused = 0
        self.undelivered = 0
        self._reactor = reactor
        self._threads_max = threads
        self._capacity = capacity
        self._look_up = look_up
        self._hosts_file = hosts_file
        self._hosts: dict[str, list[str]] = {}
        self._hosts_stamp: tuple[int, int] | None = None
        # By name, and only touched by the loop's thread: who waits for it.
        self._waiting: dict[str, list[tuple[int, Answer]]] = {}
        self._names: deque[str | None] = deque()
        self._lock = threading.Lock()
        self._more = threading.Condition(self._lock)
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._closed = False

    def resolve(self, host: str, port: int, callback: Answer) -> None:
        """Look a host up. The callback is called later, also if the answer is known."""
        if self._closed:
            raise UsageError("the resolver is closed; make a new one")
        if not host or len(host) > 253 or "\0" in host:
            raise UsageError(f"host is {host!r}; give a name or a literal of 1 to 253 characters")
        self.asked += 1
        known = [host] if is_literal(host) else self._in_hosts_file(host)
        if known:
            self.at_once += 1
            self._reactor.defer(callback, None, [(one, port) for one in known])
            return
        if host in self._waiting:
            if sum(map(len, self._waiting.values())) >= self._capacity:
                self._refuse(host)
            self._waiting[host].append((port, callback))
            return
        if sum(map(len, self._waiting.values())) >= self._capacity:
            self._refuse(host)
        self._waiting[host] = [(port, callback)]
        self._enqueue(host)

    def close(self) -> None:
        """Ask nothing more. Who still waits is told that it was cancelled; threads end with what they are doing."""
        if self._closed:
            return
        self._closed = True
        with self._lock:
            self._names.clear()
            self._names.extend([None] * len(self._threads))
            self._more.notify_all()
        for host in list(self._waiting):
            self._deliver(host, OSError(f"the resolver was closed while {host!r} was looked up"), [])

    @property
    def waiting(self) -> int:
        """Questions that are not answered yet."""
        return sum(map(len, self._waiting.values()))

    # ---- at once -----------------------------------------------------------------------------------------------------

    def _in_hosts_file(self, host: str) -> list[str]:
        """What the hosts file says; it is read again when it has changed."""
        try:
            about = os.stat(self._hosts_file)
        except OSError:
            return []
        stamp = (about.st_mtime_ns, about.st_size)
        if stamp != self._hosts_stamp:
            self._hosts_stamp = stamp
            self._hosts = read_hosts(self._hosts_file) if about.st_size <= HOSTS_MAX_BYTES else {}
        return self._hosts.get(host.lower().rstrip("."), [])

    # ---- by threads --------------------------------------------------------------------------------------------------

    def _refuse(self, host: str) -> None:
        self.refused += 1
        raise Overflow(
            f"{self._capacity:,} names wait to be looked up, {host!r} is one too many; ask later, or raise capacity",
            limit="RESOLVE_CAPACITY",
            capacity=self._capacity,
        )

    def _enqueue(self, host: str) -> None:
        with self._lock:
            self._names.append(host)
            if self._idle >= len(self._names) or len(self._threads) >= self._threads_max:
                self._more.notify()
                return
        thread = threading.Thread(target=self._work, name=f"penstock-resolve-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        """Look up one name after the other."""
        while True:
            with self._lock:
                self._idle += 1
                while not self._names:
                    self._more.wait()
                self._idle -= 1
                host = self._names.popleft()
            if host is None:
                return
            error: OSError | None = None
            found: list[str] = []
            try:
                found = self._look_up(host)
            except OSError as failure:
                error = failure
            except (UnicodeError, ValueError) as failure:
                error = OSError(f"{host!r} is no name: {failure}")
            try:
                self._reactor.defer_threadsafe(self._deliver, host, error, found)
            except LoopClosed:
                return
            except Overflow:
                self._insist(host, error, found)

    def _insist(self, host: str, error: OSError | None, found: list[str]) -> None:
        """The inbox is full: an answer must not get lost, and this thread may wait."""
        pause = threading.Event()
        while not self._closed:
            pause.wait(0.01)
            try:
                self._reactor.defer_threadsafe(self._deliver, host, error, found)
                return
            except Overflow:
                continue
            except LoopClosed:
                return

    def _deliver(self, host: str, error: OSError | None, found: Iterable[str]) -> None:
        """Answer everybody who waits for a name, on the loop's thread."""
        waiting = self._waiting.pop(host, None)
        if waiting is None:
            self.undelivered += 1
            return
        for port, callback in waiting:
            self._reactor.defer(callback, error, [(one, port) for one in found])


def read_hosts(path: Path) -> dict[str, list[str]]:
    """Return the addresses of each name in a hosts file; lines that make no sense are passed over."""
    table: dict[str, list[str]] = {}
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return table
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) >= 2 and is_literal(words[0]):
            for name in words[1:]:
                known = table.setdefault(name.lower(), [])
                if words[0] not in known:
                    known.append(words[0])
    return table
