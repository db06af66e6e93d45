"""A kqueue on a simulated kernel, in the shape of the standard library's `select` module: the oracle of the kqueue poller.

    module = SimulatedSelect(kernel)
    queue = module.kqueue()
    queue.control([module.kevent(fd, module.KQ_FILTER_READ, module.KQ_EV_ADD | module.KQ_EV_CLEAR)], 0, 0)

The rules are those of the BSDs. One filter per (ident, kind); adding one that is there changes its user data and its
request, keeps its flags, and looks at its condition anew. A scan takes filters in the order of their activation, asks
each once more whether it is true, and then: EV_ONESHOT deletes, EV_DISPATCH disables, EV_CLEAR forgets until the next
change, and nothing of these puts it to the back. Closing a *number* removes its filters, also while a duplicate keeps
the file open. The end of a stream is EV_EOF, the socket's error in `fflags`, bytes or space in `data`. A change that fails
becomes an event with EV_ERROR if there is room, else the call fails.

Out-of-band data is a flag of the read filter (`out_of_band="flag"`, as on macOS) or a filter of its own ("filter").
This file must not know a poller or a loop.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Literal

from penstock import limits
from penstock.core.poller.events import ERROR, HANGUP, PRIORITY, READABLE, WRITABLE
from penstock.core.poller.simulated_files import File
from penstock.core.poller.simulated_kernel import SimulatedKernel
from penstock.errors import UsageError

READ: Final = -1
WRITE: Final = -2
SIGNAL: Final = -6
TIMER: Final = -7
USER: Final = -11
EXCEPT: Final = -15

EV_ADD: Final = 0x0001
EV_DELETE: Final = 0x0002
EV_ENABLE: Final = 0x0004
EV_DISABLE: Final = 0x0008
EV_ONESHOT: Final = 0x0010
EV_CLEAR: Final = 0x0020
EV_RECEIPT: Final = 0x0040
EV_DISPATCH: Final = 0x0080
EV_OOBAND: Final = 0x2000
EV_ERROR: Final = 0x4000
EV_EOF: Final = 0x8000
_KEPT: Final = EV_ONESHOT | EV_CLEAR | EV_DISPATCH

NOTE_OOB: Final = 2
NOTE_TRIGGER: Final = 0x01000000
NOTE_FFAND: Final = 0x40000000
NOTE_FFOR: Final = 0x80000000
NOTE_FFCOPY: Final = 0xC0000000
_FFLAGS: Final = 0x00FFFFFF
# Nanoseconds per unit of a timer.
_UNITS: Final = {0: 1_000_000, 1: 1_000_000_000, 2: 1_000_000, 4: 1_000, 8: 1}


class Kevent:
    """One change or event, with the attributes of `select.kevent`."""

    __slots__ = ("data", "fflags", "filter", "flags", "ident", "udata")

    def __init__(
        self, ident: int, filter: int = READ, flags: int = EV_ADD, fflags: int = 0, data: int = 0, udata: int = 0
    ) -> None:
        self.ident = ident
        self.filter = filter
        self.flags = flags
        self.fflags = fflags
        self.data = data
        self.udata = udata

    def __repr__(self) -> str:
        return (
            f"<kevent ident={self.ident} filter={self.filter} flags={self.flags:#x} fflags={self.fflags:#x} "
            f"data={self.data} udata={self.udata:#x}>"
        )


class Filter:
    """One filter of a kqueue: what is asked, and whether it is in the ready list."""

    def __init__(self, queue: SimulatedKqueue, change: Kevent, file: File | None) -> None:
        self.queue = queue
        self.ident = change.ident
        self.kind = change.filter
        self.flags = change.flags & _KEPT
        self.file = file
        self.udata = 0
        self.request = 0
        self.fflags = 0
        self.period_ns = 0
        self.disabled = False
        # Of timers and signals: how often since the last report. Of the user's: whether it was triggered.
        self.count = 0
        # A failure that the next report will tell.
        self.broken = 0
        self.starts = 0

    # ---- what a file calls

    def wake(self, events: int) -> None:
        """Something about the file may have changed."""
        self.look()

    def forget(self) -> None:
        """The file is gone."""
        self.queue.drop(self)

    # ---- conditions

    def look(self) -> None:
        """Activate if the condition holds."""
        if not self.disabled and self.state() is not None:
            self.queue.ready[self] = None

    def state(self) -> tuple[int, int, int] | None:
        """(flags, fflags, data) if the condition holds."""
        if self.broken:
            return EV_ERROR, 0, self.broken
        if self.file is None:
            return (0, self.fflags, self.count if self.kind != USER else 0) if self.count else None
        if self.kind == READ:
            return self._readable(self.file)
        if self.kind == WRITE:
            return self._writable(self.file)
        return (0, NOTE_OOB, 0) if self.file.poll() & PRIORITY else None

    def _readable(self, file: File) -> tuple[int, int, int] | None:
        now = file.poll()
        flags = EV_OOBAND if now & PRIORITY and self.queue.flags_out_of_band else 0
        if file.ended and not file.pollable:
            # A regular file has an end, but no end of the stream.
            return None
        if file.ended or now & HANGUP:
            return flags | EV_EOF, file.error, file.arrived()
        if now & (READABLE | ERROR) or flags:
            return flags, 0, file.arrived()
        return None

    def _writable(self, file: File) -> tuple[int, int, int] | None:
        now = file.poll()
        if now & (HANGUP | ERROR):
            return EV_EOF, file.error, file.space()
        return (0, 0, file.space()) if now & WRITABLE else None

    def expire(self, start: int) -> None:
        """A timer is due."""
        if start != self.starts:
            return
        self.count += 1
        if not self.flags & EV_ONESHOT:
            self.queue.start_timer(self)
        self.look()

    def report(self) -> Kevent | None:
        """The event, if the condition still holds; then what the flags say happens."""
        state = None if self.disabled else self.state()
        if state is None:
            return None
        flags, fflags, data = state
        event = Kevent(self.ident, self.kind, self.flags | flags, fflags, data, self.udata)
        if self.flags & EV_ONESHOT or self.broken:
            self.queue.drop(self)
            return event
        if self.flags & EV_CLEAR:
            self.count = 0
            self.fflags = 0 if self.kind == USER else self.fflags
        if self.flags & EV_DISPATCH:
            self.disabled = True
        if not self.flags & (EV_CLEAR | EV_DISPATCH):
            self.queue.ready[self] = None
        return event


class SimulatedKqueue:
    """What `select.kqueue()` gives."""

    def __init__(self, kernel: SimulatedKernel, flags_out_of_band: bool) -> None:
        self.kernel = kernel
        self.flags_out_of_band = flags_out_of_band
        self.filters: dict[tuple[int, int], Filter] = {}
        self.ready: OrderedDict[Filter, None] = OrderedDict()
        self.closed = False
        kernel.on_close.append(self.number_closed)

    def close(self) -> None:
        for one in tuple(self.filters.values()):
            self.drop(one)
        if not self.closed:
            self.kernel.on_close.remove(self.number_closed)
        self.closed = True

    def drop(self, one: Filter) -> None:
        """Delete a filter."""
        if self.filters.get((one.ident, one.kind)) is one:
            del self.filters[one.ident, one.kind]
            if one.file is not None:
                one.file.watchers.remove(one)
        one.starts += 1
        self.ready.pop(one, None)

    def number_closed(self, fd: int) -> None:
        for kind in (READ, WRITE, EXCEPT):
            one = self.filters.get((fd, kind))
            if one is not None:
                self.drop(one)

    # ---- changes

    def _change(self, change: Kevent) -> None:
        one = self.filters.get((change.ident, change.filter))
        call = "remove" if change.flags & EV_DELETE else "modify" if one else "add"
        self.kernel.enter(call, change.ident)
        if one is None:
            if not change.flags & EV_ADD:
                raise self.kernel.refuse(call, errno.ENOENT)
            one = self._make(call, change)
        elif change.flags & EV_DELETE:
            self.drop(one)
            return
        self._set(one, change)

    def _make(self, call: str, change: Kevent) -> Filter:
        if len(self.filters) >= limits.SIMULATED_FILTERS_MAX:
            raise self.kernel.refuse(call, errno.ENOMEM)
        file = None
        if change.filter in (READ, WRITE) or (change.filter == EXCEPT and not self.flags_out_of_band):
            file = self.kernel.file(call, change.ident)
        elif change.filter not in (TIMER, USER, SIGNAL):
            raise self.kernel.refuse(call, errno.EINVAL)
        one = Filter(self, change, file)
        if change.filter in (TIMER, SIGNAL):
            one.flags |= EV_CLEAR
        self.filters[one.ident, one.kind] = one
        if file is not None:
            file.watchers.insert(0, one)
        return one

    def _set(self, one: Filter, change: Kevent) -> None:
        if change.flags & EV_ADD:
            one.udata = change.udata
            if one.kind == TIMER:
                one.period_ns = max(1, change.data) * _UNITS[change.fflags & 0xF]
                one.count = 0
                self.start_timer(one)
        if one.kind == USER:
            self._set_user(one, change.fflags)
        if change.flags & EV_DISABLE:
            one.disabled = True
        if change.flags & EV_ENABLE:
            one.disabled = False
        one.look()

    def _set_user(self, one: Filter, fflags: int) -> None:
        operation, value = fflags & NOTE_FFCOPY, fflags & _FFLAGS
        if operation == NOTE_FFAND:
            one.fflags &= value
        elif operation == NOTE_FFOR:
            one.fflags |= value
        elif operation == NOTE_FFCOPY:
            one.fflags = value
        if fflags & NOTE_TRIGGER:
            one.count = 1

    def start_timer(self, one: Filter) -> None:
        one.starts += 1
        self.kernel.at(self.kernel.schedule.now_ns() + one.period_ns, one.expire, one.starts)

    def deliver(self, number: int) -> None:
        """A signal arrives."""
        one = self.filters.get((number, SIGNAL))
        if one is not None:
            one.count += 1
            one.look()

    # ---- the call

    def control(
        self, changelist: Iterable[Kevent] | None, max_events: int, timeout: float | None = None
    ) -> list[Kevent]:
        """Apply changes, then wait for at most `max_events`; the clock is moved rather than that anybody blocks."""
        if self.closed:
            raise ValueError("I/O operation on closed kqueue object")
        told: list[Kevent] = []
        for change in changelist or ():
            number = 0
            try:
                self._change(change)
            except OSError as error:
                number = error.errno or errno.EIO
                if len(told) >= max_events:
                    raise
            if number or (change.flags & EV_RECEIPT and len(told) < max_events):
                told.append(Kevent(change.ident, change.filter, EV_ERROR, 0, number, change.udata))
        if told or not max_events:
            return told
        self.kernel.enter("wait", None)
        found = self._scan(max_events)
        return found if found or timeout == 0 else self._jump(max_events, timeout)

    def _scan(self, max_events: int) -> list[Kevent]:
        found: list[Kevent] = []
        for _ in range(len(self.ready)):
            if len(found) >= max_events:
                break
            one, _nothing = self.ready.popitem(last=False)
            event = one.report()
            if event is not None:
                found.append(event)
        return found

    def _jump(self, max_events: int, timeout: float | None) -> list[Kevent]:
        schedule, clock = self.kernel.schedule, self.kernel.clock
        started = schedule.ran
        until_ns = None if timeout is None else clock.now_ns() + round(timeout * 1e9)
        while True:
            next_ns = schedule.next_ns()
            if next_ns is None and until_ns is None:
                raise OSError(errno.EDEADLK, "nothing is ready or scheduled, and the wait has no timeout")
            if next_ns is None or (until_ns is not None and next_ns > until_ns):
                clock.advance_to(until_ns or 0)
                return []
            clock.advance_to(next_ns)
            schedule.run_due()
            found = self._scan(max_events)
            if found:
                return found
            schedule.check_spent(started)


class SimulatedSelect:
    """A module with kqueues, on a simulated kernel."""

    simulated = True
    kevent = Kevent
    KQ_FILTER_READ = READ
    KQ_FILTER_WRITE = WRITE
    KQ_FILTER_SIGNAL = SIGNAL
    KQ_FILTER_TIMER = TIMER
    KQ_FILTER_USER = USER
    KQ_EV_ADD = EV_ADD
    KQ_EV_DELETE = EV_DELETE
    KQ_EV_ENABLE = EV_ENABLE
    KQ_EV_DISABLE = EV_DISABLE
    KQ_EV_ONESHOT = EV_ONESHOT
    KQ_EV_CLEAR = EV_CLEAR
    KQ_EV_RECEIPT = EV_RECEIPT
    KQ_EV_DISPATCH = EV_DISPATCH
    KQ_EV_EOF = EV_EOF
    KQ_EV_ERROR = EV_ERROR
    KQ_NOTE_TRIGGER = NOTE_TRIGGER

    def __init__(self, kernel: SimulatedKernel, *, out_of_band: Literal["flag", "filter"] = "flag") -> None:
        if out_of_band not in ("flag", "filter"):
            raise UsageError(f'out_of_band is {out_of_band!r}; give "flag" (as on macOS) or "filter"')
        self.kernel = kernel
        self.queues: list[SimulatedKqueue] = []
        self._flags_out_of_band = out_of_band == "flag"
        if self._flags_out_of_band:
            self.KQ_EV_OOBAND = EV_OOBAND
        else:
            self.KQ_FILTER_EXCEPT = EXCEPT
            self.KQ_NOTE_OOB = NOTE_OOB

    def kqueue(self) -> SimulatedKqueue:
        queue = SimulatedKqueue(self.kernel, self._flags_out_of_band)
        self.queues = [one for one in self.queues if not one.closed] + [queue]
        return queue

    def unread(self, fd: int) -> int:
        """Bytes that a read would give now."""
        return self.kernel.unread(fd)

    def deliver(self, number: int) -> None:
        """Let a signal arrive."""
        for queue in self.queues:
            queue.deliver(number)

    def break_filter(self, fd: int, kind: int, number: int) -> None:
        """Let a filter report EV_ERROR with that errno, and be gone: what it watched has been torn out."""
        for queue in self.queues:
            one = queue.filters.get((fd, kind))
            if one is None:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            one.broken = number
            one.look()
