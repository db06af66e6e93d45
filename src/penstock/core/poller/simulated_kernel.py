"""A simulated kernel under a manual clock: descriptor numbers and the system calls on them.

It is the oracle of the event loop's tests: all that a loop sees of the world comes through here, moves only when the
clock is moved, and is the same for the same seed and the same calls. It knows numbers, calls, faults and counters; the
state belongs to the files (`simulated_files`, `simulated_sockets`, `simulated_tcp`) that the numbers stand for. It must
not know what a poller or a loop is, and never touches a real descriptor, clock or source of chance.
"""

from __future__ import annotations

import errno
from collections import Counter as Tally
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Final, TypeVar

from penstock import limits
from penstock.core.clock import ManualClock
from penstock.core.poller.simulated_files import Counter, File, PipeReader, PipeWriter, RegularFile, refusal
from penstock.core.poller.simulated_sockets import LocalSocket, StreamSocket
from penstock.core.poller.simulated_tcp import Listener, TcpSocket
from penstock.core.poller.simulated_world import Faults, Schedule
from penstock.errors import UsageError

T = TypeVar("T")

# The names under which calls are counted, and by which faults are planned. The last four are the poller's.
CALLS: Final = frozenset(
    {"socketpair", "pipe", "eventfd", "open_file", "listen", "connect", "accept", "dup", "close"}
    | {"read", "write", "send_urgent", "read_urgent", "shutdown", "reset", "unread", "error"}
    | {"add", "modify", "remove", "wait"}
)


def _whole(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise UsageError(f"{name} is {value:,}; give a whole number from {least:,} to {most:,}")
    return value


class SimulatedKernel:
    """System calls on simulated descriptors. Whatever Linux would refuse raises `OSError` with the errno of Linux.

    No call blocks: where a real one would wait, this one refuses with EAGAIN. Every call first lets happen what the
    world outside has done by now, and can be made to fail or to be short through `faults`.
    """

    def __init__(
        self,
        clock: ManualClock,
        seed: int = 0,
        *,
        first_descriptor: int = 3,
        descriptors_max: int = limits.SIMULATED_DESCRIPTORS_MAX,
        buffer_bytes: int = limits.SIMULATED_BUFFER_BYTES,
    ) -> None:
        self.clock = clock
        self.seed = seed
        self.random = Random(seed)
        self.schedule = Schedule(clock)
        self.faults = Faults(CALLS, self.random)
        self.descriptors_max = _whole("descriptors_max", descriptors_max, 1, limits.SIMULATED_DESCRIPTORS_MAX)
        self.buffer_bytes = _whole("buffer_bytes", buffer_bytes, 1, limits.SIMULATED_BUFFER_BYTES_MAX)
        self._table: dict[int, File] = {}
        # Called with each number that is closed, by those who watch numbers and not files, as a kqueue does.
        self.on_close: list[Callable[[int], None]] = []
        # Numbers that were given and are free again, as a heap; and the first that was never given.
        self._freed: list[int] = []
        self._next = _whole("first_descriptor", first_descriptor, 0, limits.SIMULATED_DESCRIPTORS_MAX)
        # Counters: calls by name, refused calls by (name, errno name), bytes moved.
        self.calls: Tally[str] = Tally()
        self.refusals: Tally[tuple[str, str]] = Tally()
        self.read_bytes = 0
        self.written_bytes = 0

    def __repr__(self) -> str:
        return (
            f"<SimulatedKernel seed={self.seed} now_ns={self.schedule.now_ns():,} "
            f"open={len(self._table)} scheduled={len(self.schedule)}>"
        )

    @property
    def open_descriptors(self) -> tuple[int, ...]:
        """The numbers in use, lowest first."""
        return tuple(sorted(self._table))

    @property
    def lost_bytes(self) -> int:
        """Bytes that were written and that nobody will read any more: unread at a close, or sent after it."""
        return self.schedule.lost_bytes

    # ---- the outside world

    def at(self, time_ns: int, action: Callable[..., object], *args: object) -> None:
        """Let the world outside do something at `time_ns`. An `OSError` there is counted in `schedule.errors`."""
        self.schedule.at(time_ns, action, *args)

    def fail_next(self, call: str, fd: int | None, number: int, times: int = 1) -> None:
        """Let the next `times` calls of that name, on `fd` or (None) on any, fail with that errno and do nothing."""
        self.faults.fail_next(call, fd, number, times)

    def short_next(self, call: str, fd: int | None, size_bytes: int) -> None:
        """Let the next read or write, on `fd` or (None) on any, move no more than `size_bytes`."""
        self.faults.short_next(call, fd, size_bytes)

    # ---- the frame of a call

    def enter(self, call: str, fd: int | None) -> None:
        """Begin a call: count it, let the world catch up, and fail if that is planned."""
        self.calls[call] += 1
        self.schedule.run_due()
        if self.faults.armed:
            number = self.faults.strike(call, fd)
            if number:
                raise self.refuse(call, number)

    def refuse(self, call: str, number: int) -> OSError:
        """Count a refusal and return the exception to raise."""
        self.refusals[call, errno.errorcode.get(number, str(number))] += 1
        return refusal(number)

    def file(self, call: str, fd: int) -> File:
        file = self._table.get(fd)
        if file is None:
            raise self.refuse(call, errno.EBADF)
        return file

    def _on(self, call: str, fd: int, act: Callable[[File], T]) -> T:
        """The frame of a call on one descriptor that is not called often."""
        self.enter(call, fd)
        file = self.file(call, fd)
        try:
            return act(file)
        except OSError as error:
            raise self.refuse(call, error.errno or 0) from None

    # ---- numbers

    def _room_for(self, call: str, count: int) -> None:
        if len(self._table) + count > self.descriptors_max:
            raise self.refuse(call, errno.EMFILE)

    def _open(self, file: File) -> int:
        """Give the lowest number that is free."""
        if self._freed:
            fd = heappop(self._freed)
        else:
            fd, self._next = self._next, self._next + 1
        file.references += 1
        self._table[fd] = file
        return fd

    def dup(self, fd: int) -> int:
        self.enter("dup", fd)
        file = self.file("dup", fd)
        self._room_for("dup", 1)
        return self._open(file)

    def close(self, fd: int) -> None:
        """Free the number; the file is closed with its last number. As in Linux, a close that fails has closed."""
        number = 0
        try:
            self.enter("close", fd)
        except OSError as error:
            number = error.errno or 0
        file = self._table.pop(fd, None)
        if file is None:
            raise self.refuse("close", errno.EBADF)
        heappush(self._freed, fd)
        for hook in tuple(self.on_close):
            hook(fd)
        file.drop()
        if number:
            raise refusal(number)

    # ---- making descriptors

    def socketpair(self, *, tcp: bool = False, delay_ns: int = 0, buffer_bytes: int = 0) -> tuple[int, int]:
        """A pair of connected stream sockets: local (Unix) ones, or the ends of a TCP connection.

        Whatever is sent takes `delay_ns` to arrive.
        """
        self.enter("socketpair", None)
        self._room_for("socketpair", 2)
        size_bytes = self._buffer_bytes(buffer_bytes)
        _whole("delay_ns", delay_ns, 0, limits.TIMER_DELAY_MAX_NS)
        return self._tcp_pair(size_bytes, delay_ns) if tcp else self._local_pair(size_bytes, delay_ns)

    def _local_pair(self, size_bytes: int, delay_ns: int) -> tuple[int, int]:
        one = LocalSocket(self.schedule, size_bytes, delay_ns)
        two = LocalSocket(self.schedule, size_bytes, delay_ns)
        one.join(two)
        return self._open(one), self._open(two)

    def _tcp_pair(self, size_bytes: int, delay_ns: int) -> tuple[int, int]:
        one = TcpSocket(self.schedule, size_bytes, delay_ns)
        two = TcpSocket(self.schedule, size_bytes, delay_ns)
        one.join(two)
        return self._open(one), self._open(two)

    def _buffer_bytes(self, size_bytes: int) -> int:
        if not size_bytes:
            return self.buffer_bytes
        return _whole("buffer_bytes", size_bytes, 1, limits.SIMULATED_BUFFER_BYTES_MAX)

    def pipe(self, *, buffer_bytes: int = 0) -> tuple[int, int]:
        """The reading and the writing end of a pipe, which has at least one page of buffer."""
        self.enter("pipe", None)
        self._room_for("pipe", 2)
        reader = PipeReader(self.schedule, self._buffer_bytes(buffer_bytes))
        writer = PipeWriter(reader)
        return self._open(reader), self._open(writer)

    def eventfd(self, count: int = 0) -> int:
        """A counter of 8 bytes in the machine's order: writes add to it, a read takes it all."""
        self.enter("eventfd", None)
        self._room_for("eventfd", 1)
        return self._open(Counter(_whole("count", count, 0, 2**32 - 1)))

    def open_file(self, content: bytes = b"") -> int:
        """A regular file, which no poller takes."""
        self.enter("open_file", None)
        self._room_for("open_file", 1)
        return self._open(RegularFile(content))

    def listen(self, backlog: int) -> int:
        self.enter("listen", None)
        self._room_for("listen", 1)
        return self._open(Listener(max(0, min(backlog, limits.SIMULATED_BACKLOG_MAX))))

    def connect(self, listener: int, *, delay_ns: int = 0, buffer_bytes: int = 0) -> int:
        """A socket that is connecting. After `delay_ns`, and not before the next call, it is connected or refused.

        It is refused when the listener has `backlog` + 1 connections waiting. (Linux would let the client try again
        for minutes; a refusal makes the same limit visible at once.)
        """
        self.enter("connect", listener)
        file = self.file("connect", listener)
        if not isinstance(file, Listener):
            raise self.refuse("connect", errno.ECONNREFUSED)
        self._room_for("connect", 1)
        _whole("delay_ns", delay_ns, 0, limits.TIMER_DELAY_MAX_NS)
        socket = TcpSocket(self.schedule, self._buffer_bytes(buffer_bytes), delay_ns)
        socket.connect(file)
        return self._open(socket)

    def accept(self, listener: int) -> int:
        self.enter("accept", listener)
        file = self.file("accept", listener)
        if not isinstance(file, Listener):
            raise self.refuse("accept", errno.EINVAL if isinstance(file, StreamSocket) else errno.ENOTSOCK)
        self._room_for("accept", 1)
        try:
            return self._open(file.accept())
        except OSError as error:
            raise self.refuse("accept", error.errno or 0) from None

    # ---- using descriptors

    def read(self, fd: int, size_bytes: int) -> bytes:
        self.enter("read", fd)
        file = self._table.get(fd)
        if file is None:
            raise self.refuse("read", errno.EBADF)
        if self.faults.armed:
            size_bytes = self.faults.cut("read", fd, size_bytes)
        try:
            data = file.read(size_bytes)
        except OSError as error:
            raise self.refuse("read", error.errno or 0) from None
        self.read_bytes += len(data)
        return data

    def write(self, fd: int, data: bytes) -> int:
        """Write what fits and return how many bytes that was."""
        self.enter("write", fd)
        file = self._table.get(fd)
        if file is None:
            raise self.refuse("write", errno.EBADF)
        if self.faults.armed:
            data = data[: self.faults.cut("write", fd, len(data))]
        try:
            size_bytes = file.write(data)
        except OSError as error:
            raise self.refuse("write", error.errno or 0) from None
        self.written_bytes += size_bytes
        return size_bytes

    def send_urgent(self, fd: int, data: bytes) -> int:
        """Send as with MSG_OOB: the last byte of `data` is urgent."""
        return self._on("send_urgent", fd, lambda file: file.send_urgent(data))

    def read_urgent(self, fd: int) -> bytes:
        """Take the urgent byte, as with MSG_OOB; EINVAL if there is none."""
        return self._on("read_urgent", fd, lambda file: file.read_urgent())

    def shutdown(self, fd: int, how: int) -> None:
        self._on("shutdown", fd, lambda file: file.shutdown(how))

    def reset(self, fd: int) -> None:
        """Break the connection off (RST): the other end gets ECONNRESET. The number stays open until it is closed."""
        self._on("reset", fd, lambda file: file.reset())

    def unread(self, fd: int) -> int:
        """Bytes that a read would give now."""
        return self._on("unread", fd, lambda file: file.unread())

    def error(self, fd: int) -> int:
        """The error that is pending on a socket, or 0; asking takes it away (SO_ERROR)."""
        return self._on("error", fd, lambda file: file.take_error())
