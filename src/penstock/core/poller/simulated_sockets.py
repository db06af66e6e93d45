"""Simulated stream sockets: what all have in common, and the two ends of a local (Unix) pair.

A socket knows its other end, the bytes on the way and the schedule that delivers them. It must not know descriptor
numbers or pollers.

Local sockets and TCP (`simulated_tcp`) differ in what a program sees, and both exist because loops meet both:

    what                        local                                 TCP
    the peer closes             hang-up at once                       end of file; hang-up when both sides are shut
    the peer shuts reading      a write fails                         nothing, the bytes are taken
    a write after a close       EPIPE                                 taken once, then a reset comes back
    writable again              at a quarter of the buffer, reported  at two thirds, reported only to who
                                each time a message is consumed       found it full before
"""

from __future__ import annotations

import errno
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, Self

from penstock.core.poller.events import ERROR, HANGUP, PRIORITY, READABLE, WRITABLE
from penstock.core.poller.simulated_files import ANYTHING, File, refusal
from penstock.core.poller.simulated_world import Schedule

# The halves of a connection that are shut.
NO_READ: Final = 1
NO_WRITE: Final = 2
NEITHER: Final = NO_READ | NO_WRITE

# socket.SHUT_RD, SHUT_WR, SHUT_RDWR.
HALVES: Final = {0: NO_READ, 1: NO_WRITE, 2: NEITHER}

ARRIVAL: Final = READABLE | PRIORITY


class StreamSocket(File):
    """What both kinds share: a queue of arrived messages, a mark for an urgent byte, and a way to the other end."""

    __slots__ = (
        "buffer_bytes",
        "dead",
        "delay_ns",
        "held_bytes",
        "mark",
        "peer",
        "queue",
        "schedule",
        "shut",
        "start",
        "unread_bytes",
        "urgent",
    )

    def __init__(self, schedule: Schedule, buffer_bytes: int, delay_ns: int) -> None:
        super().__init__()
        self.schedule = schedule
        self.buffer_bytes = buffer_bytes
        self.delay_ns = delay_ns
        self.peer: Self | None = None
        self.shut = 0
        # No descriptor leads here any more.
        self.dead = False
        self.queue: deque[bytes] = deque()
        # Where the first message's unread bytes begin.
        self.start = 0
        self.unread_bytes = 0
        # Bytes of our own that the other end has not consumed yet: on the way, or unread there.
        self.held_bytes = 0
        # Where in the unread bytes an urgent one was sent, or -1; and that byte, until it is taken.
        self.mark = -1
        self.urgent = b""

    def join(self, other: Self) -> None:
        self.peer, other.peer = other, self

    def _pass(self, effect: Callable[..., object], *args: object) -> None:
        """Let something happen at the other end: now, or after the latency of the connection."""
        if self.delay_ns:
            self.schedule.at(self.schedule.now_ns() + self.delay_ns, effect, *args)
        else:
            effect(*args)

    @property
    def ended(self) -> bool:
        return bool(self.shut & NO_READ)

    def arrived(self) -> int:
        return self.mark if self.mark >= 0 else self.unread_bytes

    def space(self) -> int:
        return 0 if self.shut & NO_WRITE else max(0, self.buffer_bytes - self.held_bytes)

    def take_error(self) -> int:
        error, self.error = self.error, 0
        return error

    # ---- sending

    @abstractmethod
    def _refuse_write(self) -> None:
        """Raise if nothing can be sent, whatever the space."""

    def _short_of_space(self) -> None:
        """A write has found less space than it wanted."""

    def write(self, data: bytes) -> int:
        if self.shut or self.error or self.peer is None:
            self._refuse_write()
        space = self.buffer_bytes - self.held_bytes
        size_bytes = len(data)
        if size_bytes > space:
            self._short_of_space()
            if space <= 0:
                raise refusal(errno.EAGAIN)
            data, size_bytes = data[:space], space
        if size_bytes and self.peer:
            self._pass(self.peer.arrive, bytes(data))
            self.held_bytes += size_bytes
        return size_bytes

    def send_urgent(self, data: bytes) -> int:
        """Send as with MSG_OOB: the last byte is the urgent one."""
        if not data:
            raise refusal(errno.EOPNOTSUPP)
        if len(data) > self.buffer_bytes - self.held_bytes:
            self._short_of_space()
            raise refusal(errno.EAGAIN)
        if self.shut or self.error or self.peer is None:
            self._refuse_write()
        if self.peer:
            self._pass(self.peer.arrive_urgent, bytes(data))
            self.held_bytes += len(data)
        return len(data)

    # ---- arriving

    def arrive(self, data: bytes) -> None:
        self.queue.append(data)
        self.unread_bytes += len(data)
        self.wake(ARRIVAL)

    def arrive_urgent(self, data: bytes) -> None:
        if self.urgent:
            self._make_ordinary()
        if len(data) > 1:
            self.queue.append(data[:-1])
            self.unread_bytes += len(data) - 1
        self.urgent = data[-1:]
        self.mark = self.unread_bytes
        self.wake(ARRIVAL)

    def _make_ordinary(self) -> None:
        """An urgent byte that nobody has taken before the next one came is an ordinary byte at its place."""
        place, left = 0, self.mark + self.start if self.mark else 0
        while left > 0:
            left -= len(self.queue[place])
            place += 1
        self.queue.insert(place, self.urgent)
        self.unread_bytes += 1

    # ---- reading

    @abstractmethod
    def _at_end(self) -> bytes:
        """Nothing is unread: return the end of the file, or raise."""

    @abstractmethod
    def consumed(self, read_bytes: int, message_bytes: int) -> None:
        """The other end has read so much of what we sent, and has finished messages of so much."""

    def read(self, size_bytes: int) -> bytes:
        if size_bytes <= 0:
            return b""
        if self.mark >= 0:
            if self.mark:
                size_bytes = min(size_bytes, self.mark)
                self.mark -= size_bytes
            else:
                self._pass_mark()
        if not self.queue:
            return self._at_end()
        data, message_bytes = self._take(size_bytes)
        self.unread_bytes -= len(data)
        if self.peer:
            self.peer.consumed(len(data), message_bytes)
        return data

    def _pass_mark(self) -> None:
        """A read that begins at the mark skips the urgent byte, taken or not."""
        self.schedule.lost_bytes += len(self.urgent)
        self.mark, self.urgent = -1, b""
        if self.peer:
            self.peer.consumed(1, 1)

    def _take(self, size_bytes: int) -> tuple[bytes, int]:
        """Return at most so many unread bytes, and the size of the messages that are read to their end thereby."""
        queue = self.queue
        first = queue[0]
        if (len(first) == size_bytes and not self.start) or (len(queue) == 1 and len(first) <= size_bytes + self.start):
            del queue[0]
            data = first[self.start :] if self.start else first
            self.start = 0
            return data, len(first)
        parts: list[bytes] = []
        message_bytes = 0
        while size_bytes and queue:
            part = queue[0][self.start : self.start + size_bytes]
            parts.append(part)
            self.start += len(part)
            size_bytes -= len(part)
            if self.start == len(queue[0]):
                message_bytes += len(queue.popleft())
                self.start = 0
        return b"".join(parts), message_bytes

    def read_urgent(self) -> bytes:
        if not self.urgent:
            raise refusal(errno.EINVAL)
        byte, self.urgent = self.urgent, b""
        return byte

    # ---- ending

    def _forget_arrived(self) -> None:
        marked_bytes = int(self.mark >= 0)
        read_bytes = self.unread_bytes + marked_bytes
        message_bytes = sum(map(len, self.queue)) + marked_bytes
        self.schedule.lost_bytes += self.unread_bytes + len(self.urgent)
        self.queue.clear()
        self.start = self.unread_bytes = 0
        self.mark, self.urgent = -1, b""
        if self.peer:
            self.peer.consumed(read_bytes, message_bytes)

    def _broken(self, error: int) -> None:
        """The connection is gone in both directions; what has arrived before can still be read."""
        self.shut = NEITHER
        self.error = error
        self.wake(ANYTHING)


class LocalSocket(StreamSocket):
    """One end of a pair of Unix stream sockets."""

    __slots__ = ()

    def poll(self) -> int:
        events = 0
        if self.queue or self.shut & NO_READ or self.mark >= 0:
            events = READABLE
        if self.held_bytes * 4 <= self.buffer_bytes:
            events |= WRITABLE
        if self.shut == NEITHER:
            events |= HANGUP
        if self.error:
            events |= ERROR
        if self.urgent:
            events |= PRIORITY
        return events

    def arrived(self) -> int:
        return self.unread_bytes + len(self.urgent)

    def _refuse_write(self) -> None:
        if self.shut & NO_WRITE:
            raise refusal(errno.EPIPE)
        if self.error:
            raise refusal(self.take_error())

    def _at_end(self) -> bytes:
        if self.error:
            raise refusal(self.take_error())
        if self.shut & NO_READ:
            return b""
        raise refusal(errno.EAGAIN)

    def arrive(self, data: bytes) -> None:
        if not self.dead:
            super().arrive(data)
            return
        self.schedule.lost_bytes += len(data)
        if self.peer:
            self.peer.consumed(len(data), len(data))

    def consumed(self, read_bytes: int, message_bytes: int) -> None:
        self.held_bytes -= message_bytes
        if message_bytes and self.held_bytes * 4 <= self.buffer_bytes:
            self.wake(WRITABLE)

    def shutdown(self, how: int) -> None:
        halves = HALVES.get(how)
        if halves is None:
            raise refusal(errno.EINVAL)
        self._shut(halves)
        if self.peer:
            other = (NO_WRITE if halves & NO_READ else 0) | (NO_READ if halves & NO_WRITE else 0)
            self._pass(self.peer._shut, other)

    def _shut(self, halves: int) -> None:
        self.shut |= halves
        self.wake(ANYTHING)

    def reset(self) -> None:
        """End the connection as a process does that ends with bytes unread."""
        if self.peer:
            self._pass(self.peer._broken, errno.ECONNRESET)
        self._forget_arrived()
        self._shut(NEITHER)

    def release(self) -> None:
        self.dead = True
        self.shut = NEITHER
        if self.peer:
            if self.queue or self.urgent:
                self._pass(self.peer._broken, errno.ECONNRESET)
            else:
                self._pass(self.peer._shut, NEITHER)
        self._forget_arrived()
