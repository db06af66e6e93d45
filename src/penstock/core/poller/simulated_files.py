"""What a simulated descriptor stands for: pipes, counters and regular files, and what all kinds have in common.

A file knows its buffers, its other end and who watches it. It must not know descriptor numbers, nor how a poller turns
its state into a report: `poll` gives the state as bits, for a poller like epoll; `arrived`, `space`, `ended`, `error`
give it as figures, for one that counts, like kqueue; and `wake` tells either that something has happened.

The rules are those of Linux, because there the simulation can be compared with the real kernel. Two of them surprise:
a wake names the kinds of events that may have changed, and an entry with an edge is reported when it is woken for
something it is interested in, with *all* that is true by then; and a wake may come without a change.
"""

from __future__ import annotations

import errno
import sys
from abc import ABC, abstractmethod
from collections import deque
from os import strerror
from typing import Final, Protocol

from penstock.core.poller.events import ERROR, HANGUP, READABLE, WRITABLE
from penstock.core.poller.simulated_world import Schedule
from penstock.limits import SIMULATED_BUFFER_BYTES_MAX, SIMULATED_PAGE_BYTES

# A wake that concerns every kind of event. It reaches all watchers, since all are interested in errors.
ANYTHING: Final = -1

_COUNTER_BYTES: Final = 8
_COUNTER_MAX: Final = 2**64 - 2


def refusal(number: int) -> OSError:
    """The exception with which a kernel's call fails; its class follows from the number."""
    return OSError(number, strerror(number))


class Watcher(Protocol):
    """Somebody who wants to know about a file."""

    def wake(self, events: int) -> None:
        """Some of these `events` may have become true."""

    def forget(self) -> None:
        """The file is gone: nobody has a descriptor for it any more."""


class File(ABC):
    """An open file description: what several duplicated descriptors share."""

    __slots__ = ("error", "references", "watchers")

    # Whether it can be waited for. Regular files cannot: they are always ready.
    pollable = True

    def __init__(self) -> None:
        self.references = 0
        # The latest comes first, as in the wait queues of Linux.
        self.watchers: list[Watcher] = []
        # The errno that waits to be reported, or 0.
        self.error = 0

    def wake(self, events: int) -> None:
        for watcher in self.watchers:
            watcher.wake(events)

    def drop(self) -> None:
        """Give up one reference; the last one closes the file."""
        self.references -= 1
        if self.references == 0:
            for watcher in tuple(self.watchers):
                watcher.forget()
            self.release()

    def release(self) -> None:  # noqa: B027 - not every kind has something to let go of
        """Close for good."""

    @abstractmethod
    def poll(self) -> int:
        """The events that are true now."""

    @property
    def ended(self) -> bool:
        """Whether nothing will arrive any more after what is unread."""
        return False

    def arrived(self) -> int:
        """How much can be taken now: bytes, or waiting connections, or a count."""
        return 0

    def unread(self) -> int:
        """What FIONREAD says: bytes that can be read now."""
        return self.arrived()

    def space(self) -> int:
        """Bytes that could be written now."""
        return 0

    def read(self, size_bytes: int) -> bytes:
        raise refusal(errno.EBADF)

    def write(self, data: bytes) -> int:
        raise refusal(errno.EBADF)

    def shutdown(self, how: int) -> None:
        raise refusal(errno.ENOTSOCK)

    def reset(self) -> None:
        raise refusal(errno.ENOTSOCK)

    def send_urgent(self, data: bytes) -> int:
        raise refusal(errno.ENOTSOCK)

    def read_urgent(self) -> bytes:
        raise refusal(errno.ENOTSOCK)

    def take_error(self) -> int:
        raise refusal(errno.ENOTSOCK)


class RegularFile(File):
    """Bytes with one position for reading and writing. Always ready, so no poller takes it."""

    __slots__ = ("content", "position")

    pollable = False

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.content = bytearray(content)
        self.position = 0

    def poll(self) -> int:
        return READABLE | WRITABLE

    @property
    def ended(self) -> bool:
        return self.position >= len(self.content)

    def arrived(self) -> int:
        return max(0, len(self.content) - self.position)

    def space(self) -> int:
        return SIMULATED_BUFFER_BYTES_MAX - self.position

    def read(self, size_bytes: int) -> bytes:
        data = bytes(self.content[self.position : self.position + size_bytes])
        self.position += len(data)
        return data

    def write(self, data: bytes) -> int:
        if data and self.space() <= 0:
            raise refusal(errno.EFBIG)
        data = data[: self.space()]
        self.content[self.position : self.position + len(data)] = data
        self.position += len(data)
        return len(data)


class Counter(File):
    """An eventfd: writes add up, a read takes the sum."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def poll(self) -> int:
        return (READABLE if self.count else 0) | (WRITABLE if self.count < _COUNTER_MAX else 0)

    def arrived(self) -> int:
        return self.count

    def unread(self) -> int:
        raise refusal(errno.ENOTTY)

    def space(self) -> int:
        return _COUNTER_BYTES

    def read(self, size_bytes: int) -> bytes:
        if size_bytes < _COUNTER_BYTES:
            raise refusal(errno.EINVAL)
        if not self.count:
            raise refusal(errno.EAGAIN)
        data = self.count.to_bytes(_COUNTER_BYTES, sys.byteorder)
        self.count = 0
        self.wake(WRITABLE)
        return data

    def write(self, data: bytes) -> int:
        added = int.from_bytes(data[:_COUNTER_BYTES], sys.byteorder)
        if len(data) < _COUNTER_BYTES or added > _COUNTER_MAX:
            raise refusal(errno.EINVAL)
        if self.count + added > _COUNTER_MAX:
            raise refusal(errno.EAGAIN)
        self.count += added
        self.wake(READABLE)
        return _COUNTER_BYTES


class PipeReader(File):
    """The end of a pipe that reads; it owns the pages.

    Linux counts the space of a pipe in pages. A write joins the last page only if its odd bytes fit there, and a page
    is free again when its last byte is read: so a pipe can be full with few bytes in it, and this decides readiness.
    """

    __slots__ = ("closed", "pages", "pages_max", "schedule", "start", "unread_bytes", "writer")

    def __init__(self, schedule: Schedule, buffer_bytes: int) -> None:
        super().__init__()
        self.schedule = schedule
        self.pages: deque[bytearray] = deque()
        self.pages_max = max(1, buffer_bytes // SIMULATED_PAGE_BYTES)
        # Where the first page's unread bytes begin.
        self.start = 0
        self.unread_bytes = 0
        self.writer: PipeWriter | None = None
        self.closed = False

    def poll(self) -> int:
        return (READABLE if self.pages else 0) | (0 if self.writer else HANGUP)

    @property
    def ended(self) -> bool:
        return self.writer is None

    def arrived(self) -> int:
        return self.unread_bytes

    def full(self) -> bool:
        return len(self.pages) >= self.pages_max

    def read(self, size_bytes: int) -> bytes:
        if size_bytes <= 0:
            return b""
        if not self.pages:
            if self.writer:
                raise refusal(errno.EAGAIN)
            return b""
        was_full = self.full()
        data = self._take(size_bytes)
        self.unread_bytes -= len(data)
        if was_full and self.writer and not self.full():
            self.writer.wake(WRITABLE)
        return data

    def _take(self, size_bytes: int) -> bytes:
        pages = self.pages
        parts: list[bytearray] = []
        while size_bytes and pages:
            page = pages[0]
            part = page[self.start : self.start + size_bytes]
            self.start += len(part)
            size_bytes -= len(part)
            parts.append(part)
            if self.start == len(page):
                pages.popleft()
                self.start = 0
        return b"".join(parts)

    def fill(self, data: bytes) -> int:
        """Take what fits of `data`, and return how many bytes that was."""
        odd = len(data) % SIMULATED_PAGE_BYTES
        done = 0
        if odd and self.pages and len(self.pages[-1]) + odd <= SIMULATED_PAGE_BYTES:
            self.pages[-1] += data[:odd]
            done = odd
        while done < len(data) and not self.full():
            self.pages.append(bytearray(data[done : done + SIMULATED_PAGE_BYTES]))
            done += len(self.pages[-1])
        self.unread_bytes += done
        return done

    def release(self) -> None:
        self.closed = True
        self.schedule.lost_bytes += self.unread_bytes
        if self.writer:
            self.writer.wake(ANYTHING)


class PipeWriter(File):
    """The end of a pipe that writes. The pages stay as they are when the reader has gone, and so does a full pipe."""

    __slots__ = ("reader",)

    def __init__(self, reader: PipeReader) -> None:
        super().__init__()
        self.reader = reader
        reader.writer = self

    def poll(self) -> int:
        return (0 if self.reader.full() else WRITABLE) | (ERROR if self.reader.closed else 0)

    def arrived(self) -> int:
        return self.reader.unread_bytes

    def space(self) -> int:
        return (self.reader.pages_max - len(self.reader.pages)) * SIMULATED_PAGE_BYTES

    def write(self, data: bytes) -> int:
        if not data:
            return 0
        reader = self.reader
        if reader.closed:
            raise refusal(errno.EPIPE)
        size_bytes = reader.fill(data)
        # Linux wakes the reader even if nothing has fitted.
        reader.wake(READABLE)
        if not size_bytes:
            raise refusal(errno.EAGAIN)
        return size_bytes

    def release(self) -> None:
        self.reader.writer = None
        self.reader.wake(ANYTHING)
