"""A poller on a simulated kernel that reports readiness exactly as epoll does.

It knows files, interests and tokens. It must not know what a loop is. Since epoll watches files, not numbers, it sets
the same trap: while a duplicate keeps a file open, the entry of a closed number stays, reports under its old token, and
cannot be removed by that number any more.
"""

from __future__ import annotations

import errno
from collections import OrderedDict

from penstock import limits
from penstock.core.poller.events import ERROR, HANGUP
from penstock.core.poller.simulated_files import File
from penstock.core.poller.simulated_kernel import SimulatedKernel
from penstock.errors import Unsupported

__all__ = ["SimulatedKernel", "SimulatedPoller"]


class _Entry:
    """One registration: a file under one of its numbers. Ready entries are linked in the poller's ready list."""

    __slots__ = ("edge", "entries", "fd", "file", "interest", "ready", "token")

    def __init__(
        self,
        file: File,
        fd: int,
        ready: OrderedDict[_Entry, None],
        entries: dict[tuple[File, int], _Entry],
    ) -> None:
        self.file = file
        self.fd = fd
        self.ready = ready
        self.entries = entries
        self.interest = 0
        self.edge = False
        self.token = 0

    def set(self, interest: int, edge: bool, token: int) -> None:
        """Ask anew, and look whether that is true already: so a changed entry with an edge is reported again."""
        self.interest = interest | ERROR | HANGUP
        self.edge = edge
        self.token = token
        if self.file.poll() & self.interest:
            self.ready[self] = None

    def wake(self, events: int) -> None:
        if events & self.interest:
            # An entry that is linked already keeps its place.
            self.ready[self] = None

    def forget(self) -> None:
        self.file.watchers.remove(self)
        del self.entries[self.file, self.fd]
        self.ready.pop(self, None)


class SimulatedPoller:
    """Readiness as epoll reports it, level and edge. It takes no descriptor number for itself.

    The ready list holds the entries that were woken, first woken first. A wait takes from its front, asks each file
    what is true, drops who has nothing, and puts those without an edge to the back again: so those who did not get a
    place come first the next time, and nobody starves.
    """

    name = "simulated"
    supports_edge = True
    simulated = True

    def __init__(self, kernel: SimulatedKernel) -> None:
        self.kernel = kernel
        self._entries: dict[tuple[File, int], _Entry] = {}
        self._ready: OrderedDict[_Entry, None] = OrderedDict()
        self._closed = False

    def __len__(self) -> int:
        return len(self._entries)

    # ---- registrations

    def _watchable(self, call: str, fd: int) -> File:
        self.kernel.enter(call, fd)
        if self._closed:
            raise self.kernel.refuse(call, errno.EBADF)
        file = self.kernel.file(call, fd)
        if not file.pollable:
            raise self.kernel.refuse(call, errno.EPERM)
        return file

    def add(self, fd: int, interest: int, edge: bool, token: int) -> None:
        file = self._watchable("add", fd)
        if (file, fd) in self._entries:
            raise self.kernel.refuse("add", errno.EEXIST)
        if len(self._entries) >= limits.SIMULATED_WATCHES_MAX:
            raise self.kernel.refuse("add", errno.ENOSPC)
        entry = _Entry(file, fd, self._ready, self._entries)
        self._entries[file, fd] = entry
        file.watchers.insert(0, entry)
        entry.set(interest, edge, token)

    def modify(self, fd: int, interest: int, edge: bool, token: int) -> None:
        self._entry("modify", fd).set(interest, edge, token)

    def remove(self, fd: int) -> None:
        self._entry("remove", fd).forget()

    def _entry(self, call: str, fd: int) -> _Entry:
        entry = self._entries.get((self._watchable(call, fd), fd))
        if entry is None:
            raise self.kernel.refuse(call, errno.ENOENT)
        return entry

    def unread(self, fd: int) -> int:
        try:
            return self.kernel.unread(fd)
        except OSError:
            return 0

    def reset(self) -> None:
        """Forget everything that was added."""
        for entry in tuple(self._entries.values()):
            entry.forget()

    def close(self) -> None:
        self.reset()
        self._closed = True

    # ---- waiting

    def wait(self, capacity: int, timeout_ns: int) -> list[tuple[int, int]]:
        """Return at most `capacity` pairs of (token, events); move the clock rather than block.

        While nothing is ready, the clock jumps to the next scheduled action, which then runs, by at most `timeout_ns`.
        """
        kernel = self.kernel
        kernel.enter("wait", None)
        if self._closed or capacity < 1:
            raise kernel.refuse("wait", errno.EBADF if self._closed else errno.EINVAL)
        ready = self._collect(capacity)
        if ready or not timeout_ns:
            return ready
        return self._jump(capacity, timeout_ns)

    def _jump(self, capacity: int, timeout_ns: int) -> list[tuple[int, int]]:
        schedule, clock = self.kernel.schedule, self.kernel.clock
        started = schedule.ran
        until_ns = clock.now_ns() + timeout_ns
        while True:
            next_ns = schedule.next_ns()
            if next_ns is None and timeout_ns < 0:
                raise Unsupported(
                    f"nothing is ready of {len(self._entries):,} entries, nothing is scheduled in {self.kernel!r} and "
                    "the wait has no timeout: it would last for ever; schedule an action with at() or give a timeout"
                )
            if next_ns is None or (timeout_ns >= 0 and next_ns > until_ns):
                clock.advance_to(until_ns)
                return []
            clock.advance_to(next_ns)
            schedule.run_due()
            ready = self._collect(capacity)
            if ready:
                return ready
            schedule.check_spent(started)

    def _collect(self, capacity: int) -> list[tuple[int, int]]:
        ready = self._ready
        found: list[tuple[int, int]] = []
        for _ in range(len(ready)):
            if len(found) >= capacity:
                break
            entry, _nothing = ready.popitem(last=False)
            events = entry.file.poll() & entry.interest
            if events:
                found.append((entry.token, events))
                if not entry.edge:
                    ready[entry] = None
        return found
