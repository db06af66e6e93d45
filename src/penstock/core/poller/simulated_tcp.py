"""Simulated TCP: connections from the first attempt to the last byte, and the listeners that make them.

What it must not know is what the other sockets must not know; how it differs from them is a table in
`simulated_sockets`. Segments, acknowledgements and retransmission do not exist: what is sent arrives, in order, after
the latency of the connection.
"""

from __future__ import annotations

import errno
from collections import deque

from penstock.core.poller.events import ERROR, HANGUP, PRIORITY, READABLE, WRITABLE
from penstock.core.poller.simulated_files import ANYTHING, File, refusal
from penstock.core.poller.simulated_sockets import ARRIVAL, HALVES, NEITHER, NO_READ, NO_WRITE, StreamSocket
from penstock.core.poller.simulated_world import Schedule


class TcpSocket(StreamSocket):
    """One end of a TCP connection, or of an attempt at one."""

    __slots__ = ("closed", "connecting", "cramped", "finished")

    def __init__(self, schedule: Schedule, buffer_bytes: int, delay_ns: int) -> None:
        super().__init__(schedule, buffer_bytes, delay_ns)
        self.connecting = False
        # Nothing connects the two ends any more: both have finished, or there was a reset.
        self.closed = False
        # The other end has sent all it will send.
        self.finished = False
        # Somebody has found too little space and is told when there is more.
        self.cramped = False

    def poll(self) -> int:
        if self.connecting:
            return 0
        events = 0
        if self.queue or self.shut & NO_READ:
            events = READABLE
        if self.shut & NO_WRITE or self.held_bytes * 3 <= self.buffer_bytes * 2:
            events |= WRITABLE
        else:
            self.cramped = True
        if self.closed or self.shut == NEITHER:
            events |= HANGUP
        if self.error:
            events |= ERROR
        if self.urgent:
            events |= PRIORITY
        return events

    def _short_of_space(self) -> None:
        self.cramped = True

    def _refuse_write(self) -> None:
        if self.error:
            raise refusal(self.take_error())
        if self.shut & NO_WRITE or self.closed:
            raise refusal(errno.EPIPE)
        if self.connecting:
            raise refusal(errno.EAGAIN)

    def _at_end(self) -> bytes:
        if self.finished:
            return b""
        if self.error:
            raise refusal(self.take_error())
        if self.shut & NO_READ:
            return b""
        raise refusal(errno.ENOTCONN if self.closed else errno.EAGAIN)

    # ---- connecting

    def connect(self, listener: Listener) -> None:
        """Begin to connect; what becomes of it is seen at a scheduled instant, even without latency."""
        self.connecting = True
        self.schedule.at(self.schedule.now_ns() + self.delay_ns, self._reach, listener)

    def _reach(self, listener: Listener) -> None:
        if not self.connecting:
            return
        self.connecting = False
        if not listener.has_room():
            self.closed = True
            self._broken(errno.ECONNREFUSED)
            return
        other = type(self)(self.schedule, self.buffer_bytes, self.delay_ns)
        self.join(other)
        self.wake(ANYTHING)
        listener.arrive(other)

    def _abandon(self) -> None:
        """Give up an attempt that has not come to a result."""
        self.connecting = False
        self.closed = True
        self.error = errno.ECONNRESET
        self.wake(ANYTHING)

    # ---- arriving

    def _may_arrive(self) -> bool:
        """Whether bytes are taken here; if not, the sender gets a reset."""
        if not self.closed and not self.dead and self.shut != NEITHER:
            return True
        if not self.closed and not self.dead:
            self.reset_arrives()
        if self.peer:
            self._pass(self.peer.reset_arrives)
        return False

    def arrive(self, data: bytes) -> None:
        if self._may_arrive():
            super().arrive(data)
        else:
            self.schedule.lost_bytes += len(data)

    def arrive_urgent(self, data: bytes) -> None:
        if not self.closed and not self.dead and self.shut == NEITHER:
            # Linux looks at the urgent byte before it finds out that it takes no more bytes.
            self.urgent = data[-1:]
        if self._may_arrive():
            super().arrive_urgent(data)
        else:
            self.schedule.lost_bytes += len(data)

    def read_urgent(self) -> bytes:
        if self.urgent and self.closed and not self.finished:
            raise refusal(errno.ENOTCONN)
        return super().read_urgent()

    def consumed(self, read_bytes: int, message_bytes: int) -> None:
        self.held_bytes -= read_bytes
        if self.cramped and self.held_bytes * 3 <= self.buffer_bytes * 2:
            self.cramped = False
            self.wake(WRITABLE)

    def finish_arrives(self) -> None:
        if self.closed:
            return
        self.shut |= NO_READ
        self.finished = True
        self.closed = bool(self.shut & NO_WRITE)
        self.wake(ANYTHING)

    def reset_arrives(self) -> None:
        if self.closed or self.dead:
            return
        self.closed = True
        self._broken(errno.EPIPE if self.finished else errno.ECONNRESET)

    # ---- ending

    def shutdown(self, how: int) -> None:
        halves = HALVES.get(how)
        if halves is None:
            raise refusal(errno.EINVAL)
        if self.closed:
            # Refused, but not without effect: Linux wakes those who wait for a hang-up.
            self.shut |= halves
            self.wake(ANYTHING)
            raise refusal(errno.ENOTCONN)
        if self.connecting:
            self._abandon()
            return
        if halves & ~self.shut & NO_WRITE:
            self.shut |= halves
            self._finish()
        self.shut |= halves
        self.wake(ANYTHING)

    def _finish(self) -> None:
        self.closed = self.finished
        if self.peer:
            self._pass(self.peer.finish_arrives)

    def reset(self) -> None:
        """End the connection at once and tell the other end (RST)."""
        if self.closed:
            raise refusal(errno.ENOTCONN)
        if self.connecting:
            self._abandon()
            return
        if self.peer:
            self._pass(self.peer.reset_arrives)
        self._forget_arrived()
        self.shut = NEITHER
        self.closed = True
        self.wake(ANYTHING)

    def release(self) -> None:
        self.dead = True
        self.connecting = False
        if self.closed or self.peer is None:
            return
        # An urgent byte that was taken is unread all the same, until a read has passed its place.
        if self.queue or self.mark >= 0:
            self.closed = True
            self._pass(self.peer.reset_arrives)
        elif not self.shut & NO_WRITE:
            self._finish()
        self.shut = NEITHER
        self._forget_arrived()


class Listener(File):
    """A listening TCP socket: connections wait here until they are accepted."""

    __slots__ = ("backlog", "listening", "shut", "waiting")

    def __init__(self, backlog: int) -> None:
        super().__init__()
        self.backlog = backlog
        self.listening = True
        self.shut = 0
        self.waiting: deque[TcpSocket] = deque()

    def poll(self) -> int:
        if not self.listening:
            return WRITABLE | HANGUP | (READABLE if self.shut & NO_READ else 0)
        return READABLE if self.waiting else 0

    @property
    def ended(self) -> bool:
        return not self.listening

    def arrived(self) -> int:
        return len(self.waiting)

    def unread(self) -> int:
        raise refusal(errno.EINVAL)

    def has_room(self) -> bool:
        # One more than the backlog, as in Linux.
        return self.listening and len(self.waiting) <= self.backlog

    def arrive(self, connection: TcpSocket) -> None:
        self.waiting.append(connection)
        self.wake(ARRIVAL)

    def accept(self) -> TcpSocket:
        if not self.listening:
            raise refusal(errno.EINVAL)
        if not self.waiting:
            raise refusal(errno.EAGAIN)
        return self.waiting.popleft()

    def read(self, size_bytes: int) -> bytes:
        if self.shut & NO_READ:
            return b""
        raise refusal(errno.ENOTCONN)

    def write(self, data: bytes) -> int:
        raise refusal(errno.EPIPE)

    def shutdown(self, how: int) -> None:
        halves = HALVES.get(how)
        if halves is None:
            raise refusal(errno.EINVAL)
        was_listening = self.listening
        if not was_listening:
            self.shut |= halves
        elif halves & NO_READ:
            self.release()
        self.wake(ANYTHING)
        if not was_listening:
            raise refusal(errno.ENOTCONN)

    def take_error(self) -> int:
        return 0

    def release(self) -> None:
        """Stop listening; who waits to be accepted gets a reset."""
        self.listening = False
        while self.waiting:
            connection = self.waiting.popleft()
            connection.dead = True
            if not connection.closed:
                connection.reset()
