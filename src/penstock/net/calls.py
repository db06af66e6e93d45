"""Operations whose system call is made by the interpreter: one object per operation, called until it answers.

Called with a descriptor's number, it tries its system call once. It answers with the result, raises BlockingIOError if
that would block, any other OSError if it fails, or answers itself if there is more to do but not now. `exhausted` says
that the next one of its kind would block; `moved` is what was done before an error.

`SystemCalls` is the seam for those who bring system calls of their own: a simulated kernel, or one that fails on purpose.
This file must not know operations' queues, callbacks or loops.
"""

from __future__ import annotations

import array
import errno
import os
import select
import socket
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from penstock import limits
from penstock.core.loop import Loop
from penstock.core.poller.events import ERROR, HANGUP

Address = Any
Buffer = bytes | bytearray | memoryview
Ancillary = tuple[int, int, bytes]
SocketOf = Callable[[], socket.socket]
Kind = Literal["read", "write", "except"]
# Called with (error or None, result).
Callback = Callable[[Any, Any], object]


class HasFileno(Protocol):
    """A socket, a file, or whatever else has a descriptor."""

    def fileno(self) -> int: ...


class HasLoop(Protocol):
    """A reactor, of whichever model."""

    @property
    def loop(self) -> Loop: ...


class SystemCalls(Protocol):
    """What a descriptor needs of a system that is not the real one. Every call raises OSError as a kernel would."""

    def read(self, fd: int, size_bytes: int) -> bytes: ...
    def write(self, fd: int, data: bytes) -> int: ...
    def accept(self, fd: int) -> Any: ...
    def ready(self, fd: int) -> int:
        """The events that are true now, as bits of penstock.core.poller.events."""
        ...

    def close(self, fd: int) -> None: ...


class Message(NamedTuple):
    """What `recvmsg` gives: the descriptors are yours to close."""

    data: bytes
    descriptors: tuple[int, ...]
    ancillary: tuple[Ancillary, ...]
    flags: int
    address: Address


def blocked() -> BlockingIOError:
    """What an operation raises that has to wait."""
    return BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


class ReadCall:
    """A read by system calls of one's own."""

    __slots__ = ("calls", "size_bytes")

    def __init__(self, calls: SystemCalls, size_bytes: int) -> None:
        self.calls = calls
        self.size_bytes = size_bytes

    def __call__(self, fd: int) -> bytes:
        return self.calls.read(fd, self.size_bytes)


class ReadIntoCall:
    """A read into the caller's memory by system calls of one's own."""

    __slots__ = ("buffer", "calls")

    def __init__(self, calls: SystemCalls, buffer: memoryview) -> None:
        self.calls = calls
        self.buffer = buffer

    def __call__(self, fd: int) -> int:
        data = self.calls.read(fd, len(self.buffer))
        self.buffer[: len(data)] = data
        return len(data)


class WriteCall:
    """A write of everything by system calls of one's own."""

    __slots__ = ("calls", "data", "moved")

    def __init__(self, calls: SystemCalls, data: bytes) -> None:
        self.calls = calls
        self.data = data
        self.moved = 0

    def __call__(self, fd: int) -> int | WriteCall:
        share = limits.OPERATION_SHARE_BYTES
        while True:
            sent = self.calls.write(fd, self.data[self.moved :])
            self.moved += sent
            share -= sent
            if self.moved >= len(self.data):
                return self.moved
            if share <= 0:
                return self


class WaitCall:
    """A wait as system calls of one's own see it."""

    __slots__ = ("calls", "wanted")

    def __init__(self, calls: SystemCalls, wanted: int) -> None:
        self.calls = calls
        self.wanted = wanted

    def __call__(self, fd: int) -> None:
        if not self.calls.ready(fd) & (self.wanted | ERROR | HANGUP):
            raise blocked()


class AcceptCall:
    """One connection: (socket, address), not blocking and closed on exec."""

    __slots__ = ("calls", "socket_of")

    def __init__(self, calls: SystemCalls | None, socket_of: SocketOf) -> None:
        self.calls = calls
        self.socket_of = socket_of

    def __call__(self, fd: int) -> Any:
        if self.calls is not None:
            return self.calls.accept(fd)
        peer, address = self.socket_of().accept()
        peer.setblocking(False)
        return peer, address

    def discard(self, value: Any) -> None:
        """Nobody will ever get this connection."""
        if isinstance(value, tuple) and isinstance(value[0], socket.socket):
            value[0].close()


class ConnectCall:
    """A connection: begun by the first call, decided by a later one."""

    __slots__ = ("address", "begun", "socket_of")

    def __init__(self, socket_of: SocketOf, address: Address) -> None:
        self.socket_of = socket_of
        self.address = address
        self.begun = False

    def __call__(self, fd: int) -> None:
        if self.begun:
            self._decide(fd)
            return
        number = self.socket_of().connect_ex(self.address)
        if number in (errno.EINPROGRESS, errno.EINTR):
            self.begun = True
            raise blocked()
        if number == errno.EAGAIN:
            # A local listener whose backlog is full: no readiness will ever say that there is room.
            raise OSError(errno.ECONNREFUSED, f"{self.address!r} has no room for another connection; try again later")
        self._answer(number)

    def _decide(self, fd: int) -> None:
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        if not poll.poll(0):
            raise blocked()
        self._answer(self.socket_of().getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _answer(self, number: int) -> None:
        if number:
            raise OSError(number, f"cannot connect to {self.address!r}: {os.strerror(number)}")


class ReceiveCall:
    """One message with whatever comes beside it."""

    __slots__ = ("ancillary_bytes", "descriptors_max", "flags", "size_bytes", "socket_of")

    def __init__(
        self, socket_of: SocketOf, size_bytes: int, descriptors_max: int, ancillary_bytes: int, flags: int
    ) -> None:
        self.socket_of = socket_of
        self.size_bytes = size_bytes
        self.descriptors_max = descriptors_max
        self.ancillary_bytes = ancillary_bytes
        self.flags = flags | getattr(socket, "MSG_CMSG_CLOEXEC", 0)

    def __call__(self, fd: int) -> Message:
        room = self.ancillary_bytes
        if self.descriptors_max:
            room += socket.CMSG_SPACE(self.descriptors_max * array.array("i").itemsize)
        data, ancillary, flags, address = self.socket_of().recvmsg(self.size_bytes, room, self.flags)
        descriptors = array.array("i")
        rest = []
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
            else:
                rest.append((level, kind, content))
        return Message(data, tuple(descriptors), tuple(rest), flags, address)

    def discard(self, value: Any) -> None:
        """Nobody will ever get these descriptors."""
        for number in value.descriptors:
            os.close(number)


class SendCall:
    """One message, with whatever goes beside it. A stream may take less than all of it."""

    __slots__ = ("address", "ancillary", "buffers", "exhausted", "flags", "size_bytes", "socket_of")

    def __init__(
        self,
        socket_of: SocketOf,
        buffers: Sequence[Buffer],
        descriptors: Sequence[int],
        ancillary: Sequence[Ancillary],
        flags: int,
        address: Address,
    ) -> None:
        self.socket_of = socket_of
        self.buffers = buffers
        self.size_bytes = sum(memoryview(part).nbytes for part in buffers)
        self.ancillary: list[tuple[int, int, Any]] = list(ancillary)
        if descriptors:
            self.ancillary.append((socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors)))
        self.flags = flags | getattr(socket, "MSG_NOSIGNAL", 0)
        self.address = address
        self.exhausted = False

    def __call__(self, fd: int) -> int:
        sent = self.socket_of().sendmsg(self.buffers, self.ancillary, self.flags, self.address)
        self.exhausted = sent < self.size_bytes
        return sent


class SendfileCall:
    """Part of a file, without copying it where the system can."""

    __slots__ = ("_copies", "left", "moved", "offset", "source")

    def __init__(self, source: int, offset: int, count: int) -> None:
        self.source = source
        self.offset = offset
        self.left = count
        self.moved = 0
        self._copies = False

    def __call__(self, fd: int) -> int | SendfileCall:
        share = limits.OPERATION_SHARE_BYTES
        while self.left:
            sent = self._some(fd, min(self.left, share))
            if not sent:
                break
            self.offset += sent
            self.moved += sent
            self.left -= sent
            share -= sent
            if share <= 0 and self.left:
                return self
        return self.moved

    def _some(self, fd: int, size_bytes: int) -> int:
        if not self._copies and hasattr(os, "sendfile"):
            try:
                return os.sendfile(fd, self.source, self.offset, size_bytes)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.ENOTSOCK):
                    raise
                self._copies = True
        data = os.pread(self.source, min(size_bytes, limits.SENDFILE_COPY_BYTES), self.offset)
        return os.write(fd, data) if data else 0
