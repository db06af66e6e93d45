"""Datagram sockets with bounded queues.

    on_datagram(data, address)   one datagram arrived
    on_drain()                   everything that waited is sent
    on_close(reason)             always, once, last

A datagram is sent at once if nothing waits; else it waits in a queue of `capacity` datagrams, whose overflow policy is
`drop-oldest` (for who wants the present, not the past), `drop-newest` or `reject`. A turn receives and sends up to a
share. Errors that belong to one datagram (nobody listens there, it is too large) are counted, and end nothing.

This file must not know a protocol.
"""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, Protocol

from penstock import limits
from penstock.core.poller.events import READABLE, WRITABLE
from penstock.errors import LoopClosed, Overflow, UsageError
from penstock.net.address import Address, from_system, system_address

OnFull = Literal["drop-oldest", "drop-newest", "reject"]

_LATER = {errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS, errno.ENOMEM}
# What the system says about an earlier datagram, or about this one only.
_OF_ONE_DATAGRAM = {
    errno.ECONNREFUSED,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.EMSGSIZE,
    errno.EPERM,
    errno.EINTR,
    errno.EACCES,
    errno.ENOENT,
    errno.EINVAL,
}


class Registers(Protocol):
    """What a datagram socket needs of a reactor."""

    def register(self, fd: int, events: int, callback: Callable[[int, int], object], /) -> None:
        """Have `callback(fd, events)` called when the descriptor is ready."""

    def modify(self, fd: int, events: int, /) -> None:
        """Ask for other events."""

    def deregister(self, fd: int, /) -> None:
        """Watch it no more."""

    def defer(self, callback: Callable[[str], object], reason: str, /) -> None:
        """Have `callback(reason)` called in a later step."""


class Datagram:
    """A datagram socket: UDP, or a Unix socket with messages."""

    def __init__(
        self,
        reactor: Registers,
        address: Address | socket.socket | None = None,
        *,
        peer: Address | None = None,
        on_datagram: Callable[[bytes, Address | None], object] | None = None,
        on_drain: Callable[[], object] | None = None,
        on_close: Callable[[str], object] | None = None,
        capacity: int = limits.DATAGRAM_QUEUE_CAPACITY,
        overflow: OnFull = "drop-oldest",
        share: int = limits.DATAGRAM_SHARE,
        receive_bytes: int = limits.DATAGRAM_MAX_BYTES,
        reuse_port: bool = False,
    ) -> None:
        limits.require_whole("capacity", capacity, 1, limits.LANE_CAPACITY_MAX)
        limits.require_whole("share", share, 1, limits.READY_BATCH)
        limits.require_whole("receive_bytes", receive_bytes, 1, limits.DATAGRAM_MAX_BYTES)
        if overflow not in ("drop-oldest", "drop-newest", "reject"):
            raise UsageError(f'overflow is {overflow!r}; give "drop-oldest", "drop-newest" or "reject"')
        self.on_datagram = on_datagram
        self.on_drain = on_drain
        self.on_close = on_close
        self.received = 0
        self.sent = 0
        self.dropped_oldest = 0
        self.dropped_newest = 0
        self.rejected = 0
        self.failed = 0
        self.truncated = 0
        self.dropped_closed = 0
        self.last_error: OSError | None = None
        self._reactor = reactor
        self._capacity = capacity
        self._overflow = overflow
        self._share = share
        self._receive_bytes = receive_bytes
        self._queue: deque[tuple[bytes, Any]] = deque()
        self._interest = READABLE
        self._socket = _open(address, peer, reuse_port)
        self._fd = self._socket.fileno()
        try:
            reactor.register(self._fd, READABLE, self._ready)
        except BaseException:
            self._socket.close()
            raise

    # ---- sending -----------------------------------------------------------------------------------------------------

    def send(self, data: bytes | bytearray | memoryview, address: Address | None = None) -> bool:
        """Send one datagram, to the peer or to `address`. False: it, or an older one in its place, was dropped."""
        if self.closed:
            self.dropped_closed += 1
            return False
        if len(data) > limits.DATAGRAM_MAX_BYTES:
            raise UsageError(f"a datagram of {len(data):,} bytes; give at most {limits.DATAGRAM_MAX_BYTES:,}")
        target = None if address is None else system_address(address)[1]
        if not self._queue:
            done = self._try(data, target)
            if done is not None:
                return done
        return self._enqueue(bytes(data), target)

    def _try(self, data: bytes | bytearray | memoryview, target: Any) -> bool | None:
        """Send now: True it is sent, False it failed, None the system has no room."""
        try:
            if target is None:
                self._socket.send(data)
            else:
                self._socket.sendto(data, target)
        except OSError as error:
            if error.errno in _LATER:
                return None
            self.failed += 1
            self.last_error = error
            return False
        self.sent += 1
        return True

    def _enqueue(self, data: bytes, target: Any) -> bool:
        whole = True
        if len(self._queue) >= self._capacity:
            if self._overflow == "reject":
                self.rejected += 1
                raise Overflow(
                    f"{self._capacity:,} datagrams wait to be sent by {self!r}; send less, or raise its capacity",
                    limit="DATAGRAM_QUEUE_CAPACITY",
                    capacity=self._capacity,
                )
            if self._overflow == "drop-newest":
                self.dropped_newest += 1
                return False
            self._queue.popleft()
            self.dropped_oldest += 1
            whole = False
        self._queue.append((data, target))
        self._want(READABLE | WRITABLE)
        return whole

    def _flush(self) -> None:
        for _ in range(self._share):
            if not self._queue:
                break
            data, target = self._queue[0]
            if self._try(data, target) is None:
                return
            self._queue.popleft()
        if not self._queue:
            self._want(READABLE)
            if self.on_drain is not None:
                self.on_drain()

    # ---- receiving ---------------------------------------------------------------------------------------------------

    def _ready(self, _fd: int, events: int) -> None:
        if events & WRITABLE and self._queue:
            self._flush()
        if not self.closed:
            self._receive()

    def _receive(self) -> None:
        for _ in range(self._share):
            try:
                data, _, flags, name = self._socket.recvmsg(self._receive_bytes)
            except OSError as error:
                if error.errno in _LATER:
                    return
                self.failed += 1
                self.last_error = error
                if error.errno not in _OF_ONE_DATAGRAM:
                    self._end("error")
                    return
                continue
            self.received += 1
            if flags & socket.MSG_TRUNC:
                self.truncated += 1
            if self.on_datagram is not None:
                self.on_datagram(data, from_system(name) if name else None)
            if self.closed:
                return

    # ---- ending ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close; what waits is dropped and counted."""
        if not self.closed:
            self._end("closed")

    def _end(self, reason: str) -> None:
        self.dropped_closed += len(self._queue)
        self._queue.clear()
        on_close, self.on_close = self.on_close, None
        self.on_datagram = self.on_drain = None
        try:
            self._reactor.deregister(self._fd)
            if on_close is not None:
                self._reactor.defer(on_close, reason)
        except LoopClosed:
            # The loop was closed first, and has let go of the descriptor; nobody is left to call back.
            pass
        finally:
            self._socket.close()

    # ---- what it is --------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._socket.fileno() < 0

    @property
    def waiting(self) -> int:
        """Datagrams that wait to be sent."""
        return len(self._queue)

    @property
    def address(self) -> Address | None:
        """Where it receives; None when it is closed, or has no name."""
        return None if self.closed else from_system(self._socket.getsockname())

    def fileno(self) -> int:
        """Return the descriptor's number; -1 when it is closed."""
        return self._socket.fileno()

    def _want(self, interest: int) -> None:
        if interest != self._interest:
            self._interest = interest
            self._reactor.modify(self._fd, interest)

    def __repr__(self) -> str:
        return f"<Datagram on descriptor {self.fileno()}, {self.waiting:,} waiting>"


def _open(address: Address | socket.socket | None, peer: Address | None, reuse_port: bool) -> socket.socket:
    """Return a non-blocking socket: the given one, or a new one bound to `address` and connected to `peer`."""
    if isinstance(address, socket.socket):
        address.setblocking(False)
        return address
    named = address if address is not None else peer
    if named is None:
        raise UsageError("a datagram socket needs an address to receive at, a peer to send to, or both")
    handle = socket.socket(system_address(named)[0], socket.SOCK_DGRAM)
    try:
        handle.setblocking(False)
        if reuse_port:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if address is not None:
            handle.bind(system_address(address)[1])
        if peer is not None:
            handle.connect(system_address(peer)[1])
    except BaseException:
        handle.close()
        raise
    return handle
