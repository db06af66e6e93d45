"""Readiness by the kqueue of macOS and the BSDs, over any module of the shape of the standard library's `select`.

A kqueue watches filters, one per (descriptor, kind), not descriptors:

    READABLE    the read filter
    WRITABLE    the write filter
    PRIORITY    the out-of-band filter where the system has one; else a flag of the read filter says so

Filters are added when they are asked for, and nothing is asked for when a descriptor is registered (`lazy`). Adding one
that is there looks at its condition anew, also with EV_CLEAR, so a change of interest is told with fresh eyes. The
filters of one descriptor are reported one by one; they become one event here, since their order is the loop's.

A filter that cannot be watched is reported with EV_ERROR; its errno goes up with the event (FAULT_SHIFT), for the
operation that waits for it. EV_EOF on the read filter is a readable end, not a hang-up: the other side may still read.
The end of the write filter is a hang-up. An error that the socket holds (`fflags`) makes it an ERROR, which a system call
will explain.

The loop is woken through the pipe that it registers like any descriptor; timers are the time-out of the wait. Whoever
passes a module with EVFILT_USER (`KQ_FILTER_USER`) may use `wake`. This file must not know what a loop is.
"""

from __future__ import annotations

import errno
import fcntl
import importlib
import os
import struct
import sys
import termios
from typing import Any, Final

from penstock import limits
from penstock.core.poller.events import ERROR, HANGUP, PRIORITY, READABLE, WRITABLE
from penstock.errors import Unsupported

# As in core/types.pxd: an errno above the event bits.
FAULT_SHIFT: Final = 16
_NS_PER_S: Final = 1_000_000_000
_WAKE_IDENT: Final = 0
_INT: Final = struct.Struct("i")


class KqueuePoller:
    """A kqueue. `module` is the standard library's `select`, or something of its shape."""

    name = "kqueue"
    supports_edge = True
    lazy = True

    def __init__(self, module: Any = None, *, batch: int = limits.KQUEUE_BATCH) -> None:
        limits.require_whole("batch", batch, 1, limits.READY_BATCH)
        module = importlib.import_module("select") if module is None else module
        if not hasattr(module, "kqueue"):
            raise Unsupported("this system has no kqueue; use poller='auto'")
        self.module = module
        self.simulated: bool = getattr(module, "simulated", False)
        self.batch = batch
        self.changes = 0
        self._queue = module.kqueue()
        self._process = os.getpid()
        self._lost: list[Any] = []
        # By descriptor: interest, edge, token.
        self._watched: dict[int, tuple[int, bool, int]] = {}
        self._read: int = module.KQ_FILTER_READ
        self._write: int = module.KQ_FILTER_WRITE
        self._except: int | None = getattr(module, "KQ_FILTER_EXCEPT", None)
        self._except_flags: int = getattr(module, "KQ_NOTE_OOB", 0)
        self._out_of_band: int = getattr(module, "KQ_EV_OOBAND", 0)
        if not self._out_of_band and sys.platform == "darwin":
            self._out_of_band = module.KQ_EV_FLAG1
        self._user: int | None = getattr(module, "KQ_FILTER_USER", None)
        self._user_ready = False

    def __len__(self) -> int:
        return len(self._watched)

    # ---- registrations

    def _filters(self, interest: int) -> set[int]:
        filters = set()
        if interest & READABLE or (interest & PRIORITY and self._except is None):
            filters.add(self._read)
        if interest & WRITABLE:
            filters.add(self._write)
        if interest & PRIORITY and self._except is not None:
            filters.add(self._except)
        return filters

    def _add_event(self, fd: int, kind: int, edge: bool, token: int) -> Any:
        flags = self.module.KQ_EV_ADD | (self.module.KQ_EV_CLEAR if edge else 0)
        fflags = self._except_flags if kind == self._except else 0
        return self.module.kevent(fd, kind, flags, fflags, 0, token)

    def _apply(self, fd: int, interest: int, edge: bool, token: int) -> None:
        """Add every filter that is wanted, also those that are there: that is what makes it look anew."""
        before, was_edge, _token = self._watched.get(fd, (0, edge, 0))
        wanted = self._filters(interest)
        surplus = self._filters(before) - wanted
        if was_edge != edge:
            # EV_CLEAR stays on a filter that is only modified.
            surplus = self._filters(before)
        changes = [self.module.kevent(fd, kind, self.module.KQ_EV_DELETE) for kind in sorted(surplus)]
        changes += [self._add_event(fd, kind, edge, token) for kind in sorted(wanted, reverse=True)]
        if changes:
            self.changes += 1
            self._queue.control(changes, 0, 0)
        self._watched[fd] = (interest, edge, token)

    def add(self, fd: int, interest: int, edge: bool, token: int) -> None:
        if fd in self._watched:
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._apply(fd, interest, edge, token)

    def modify(self, fd: int, interest: int, edge: bool, token: int) -> None:
        if fd not in self._watched:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        try:
            self._apply(fd, interest, edge, token)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            # The number was closed and is open again: the kernel has forgotten its filters, and so do we.
            del self._watched[fd]
            self._apply(fd, interest, edge, token)

    def remove(self, fd: int) -> None:
        if fd not in self._watched:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        interest, _edge, _token = self._watched.pop(fd)
        for kind in sorted(self._filters(interest)):
            self.changes += 1
            try:
                self._queue.control([self.module.kevent(fd, kind, self.module.KQ_EV_DELETE)], 0, 0)
            except OSError as error:
                # A descriptor that is closed has lost its filters.
                if error.errno not in (errno.ENOENT, errno.EBADF):
                    raise

    # ---- waiting

    def wait(self, capacity: int, timeout_ns: int) -> list[tuple[int, int]]:
        """At most `capacity` pairs of (token, events); at most `batch` filters are looked at."""
        timeout = None if timeout_ns < 0 else timeout_ns / _NS_PER_S
        found: dict[int, int] = {}
        for event in self._queue.control(None, min(capacity, self.batch), timeout):
            if event.filter == self._user:
                continue
            bits = self._bits(event)
            known = found.get(event.udata, 0)
            # One errno per event: the later one is as true as the first.
            found[event.udata] = (known & 0xFFFF if bits >> FAULT_SHIFT else known) | bits
        return list(found.items())

    def _bits(self, event: Any) -> int:
        module = self.module
        bits = {self._read: READABLE, self._write: WRITABLE}.get(event.filter, PRIORITY)
        if event.flags & module.KQ_EV_ERROR:
            return bits | ERROR | (event.data << FAULT_SHIFT) if event.data else bits
        if event.filter == self._read and event.flags & self._out_of_band:
            bits |= PRIORITY
        if event.flags & module.KQ_EV_EOF:
            if event.fflags and event.filter != self._except:
                bits |= ERROR
            if event.filter == self._write:
                bits |= HANGUP
        return bits

    def wake(self) -> None:
        """End a wait, from any thread, by a filter of the user's own where the module has it."""
        if self._user is None:
            raise Unsupported("this kqueue has no EVFILT_USER; use a pipe as waker")
        module = self.module
        if not self._user_ready:
            self._queue.control([module.kevent(_WAKE_IDENT, self._user, module.KQ_EV_ADD | module.KQ_EV_CLEAR)], 0, 0)
            self._user_ready = True
        self._queue.control([module.kevent(_WAKE_IDENT, self._user, 0, module.KQ_NOTE_TRIGGER)], 0, 0)

    # ---- the rest

    def unread(self, fd: int) -> int:
        """Bytes that a read would give now, or 0 where that cannot be known."""
        ask = getattr(self.module, "unread", None)
        try:
            if ask is not None:
                return int(ask(fd))
            count: int = _INT.unpack(fcntl.ioctl(fd, termios.FIONREAD, _INT.pack(0)))[0]
        except OSError:
            return 0
        return max(count, 0)

    def reset(self) -> None:
        """Begin with an empty kqueue. In a child process there is none any more: its number may be somebody else's."""
        if self._process == os.getpid():
            self._queue.close()
        else:
            # Kept for ever, since it would close its number when it is let go.
            self._lost.append(self._queue)
            self._process = os.getpid()
        self._queue = self.module.kqueue()
        self._watched.clear()
        self._user_ready = False

    def close(self) -> None:
        """Close the kqueue, unless it was the parent process's."""
        self._watched.clear()
        if self._process == os.getpid():
            self._queue.close()
