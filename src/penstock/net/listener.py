# cython: language_level=3
"""An accepting socket that survives: budgets, limits, and patience when the system has no descriptor left.

The native half accepts what waits, up to the budget of a turn; Python's half makes a stream of each connection and
gives it to `on_accept(stream)`, which sets the callbacks. Nothing can arrive before they are set.

A full listener refuses, or evicts the connection that was silent for longest and to which nothing waits to be sent.
When the system has no descriptor or memory for another connection, the listener stops asking until one is freed or
ACCEPT_PAUSE_NS has passed; the connections wait in the backlog meanwhile, and nobody is closed. All of this is counted.

This file must not know a protocol.
"""

import contextlib
import errno
import heapq
import os
import socket
import stat

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, PyObject
from cython.cimports.libc.stdint import uint32_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcmp, memset
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.core.loop import Loop
from cython.cimports.penstock.core.nogil import native_complete, native_deregister, native_modify, native_note
from cython.cimports.penstock.core.system import (
    EAGAIN,
    EINTR,
    EMFILE,
    ENOMEM,
    PY_VECTORCALL_ARGUMENTS_OFFSET,
    PyObject_Vectorcall,
    close,
    platform_accept,
)
from cython.cimports.penstock.core.types import (
    PRIORITY,
    READABLE,
    READY_DONE,
    READY_PYTHON,
    REGISTRATION_OVER,
    LoopC,
)
from cython.cimports.penstock.net.buffer import buffer_waiting
from cython.cimports.penstock.net.shared import net_of
from cython.cimports.penstock.net.stream import Stream, stream_adopt, stream_evict, stream_fail
from cython.cimports.penstock.net.system import (
    AF_INET,
    AF_INET6,
    ECONNABORTED,
    ENFILE,
    ENOBUFS,
    EPROTO,
    EWOULDBLOCK,
    getpeername,
    sockaddr,
    sockaddr_in,
    sockaddr_in6,
    sockaddr_storage,
    socklen_t,
)
from cython.cimports.penstock.net.types import STREAM_OPEN

from penstock import limits
from penstock.core.names import name_of, report_error
from penstock.errors import BadDescriptor, PenstockError, UsageError
from penstock.net.address import name_of as address_of
from penstock.net.address import show, system_address
from penstock.net.options import DEFAULT, StreamOptions
from penstock.stats import ErrorReport

# What may help when an address cannot be listened on.
_REMEDIES = {
    errno.EADDRINUSE: "give another port (0 lets the system choose), or end who has it",
    errno.EACCES: "give a port from 1,024 on, or a directory that may be written to",
    errno.EADDRNOTAVAIL: "give an address of this machine",
}

# Connections that are looked at to find one to evict. Those to which something waits to be sent are passed over.
_LOOKS_MAX = 64
# A backlog is at most 65,535 connections, and a round accepts at least one.
_ROUNDS_MAX = cython.declare(cython.int, 65535)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _accept(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t, context: cython.p_void) -> cython.int:
    """Accept what waits, up to the budget."""
    listener: cython.pointer[ListenerC] = cython.cast(cython.pointer[ListenerC], context)
    tries: uint32_t = listener.budget
    peer: cython.int
    if listener.next < listener.count:
        # Left by an exception that left the loop.
        return READY_PYTHON
    listener.next = 0
    listener.count = 0
    while tries > 0:
        tries -= 1
        peer = platform_accept(fd)
        if peer >= 0:
            listener.accepted[listener.count] = peer
            listener.count += 1
        elif peer in (-EAGAIN, -EWOULDBLOCK):
            break
        elif peer not in (-EINTR, -ECONNABORTED, -EPROTO):
            listener.error = -peer
            native_modify(loop, fd, 0)
            break
    return READY_PYTHON if listener.count or listener.error else READY_DONE


@cython.cfunc
@cython.exceptval(-1, check=False)
def _complete(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t, context: cython.p_void) -> cython.int:
    owner: cython.pointer[PyObject] = cython.cast(cython.pointer[ListenerC], context).owner
    listener: Listener = cython.cast(Listener, owner)
    if events & REGISTRATION_OVER:
        return listener._finish(loop.closed)
    return listener._dispatch()


@cython.cfunc
def _peer_key(fd: cython.int) -> bytes:
    """What is the same for all connections of one host."""
    storage: sockaddr_storage
    size: socklen_t = cython.sizeof(sockaddr_storage)
    if getpeername(fd, cython.cast(cython.pointer[sockaddr], cython.address(storage)), cython.address(size)) < 0:
        return b"gone"
    if storage.ss_family == AF_INET:
        four = cython.cast(cython.pointer[sockaddr_in], cython.address(storage))
        return PyBytes_FromStringAndSize(cython.cast(cython.p_char, cython.address(four.sin_addr)), 4)
    if storage.ss_family == AF_INET6:
        six = cython.cast(cython.pointer[sockaddr_in6], cython.address(storage))
        raw = cython.cast(cython.p_char, cython.address(six.sin6_addr))
        if memcmp(raw, b"\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0:
            return PyBytes_FromStringAndSize(raw + 12, 4)
        return PyBytes_FromStringAndSize(raw, 16)
    return b"local"


class Listener:
    """Accepts connections and makes streams of them.

    `address` is (host, port) or the path of a Unix socket; `fd` instead is a listening socket that was inherited.
    `connections_max` and `per_address_max` bound what is open at once; `when_full` is "refuse" or "evict". `on_refuse`
    is called with the limit's name for each connection that was closed unheard.
    """

    def __cinit__(self, *args, **kwargs):
        memset(cython.address(self.c), 0, cython.sizeof(ListenerC))
        self.c.fd = -1
        self.c.owner = cython.cast(cython.pointer[PyObject], self)
        self.open = self.accepted = self.refused = self.evicted = self.starved = 0

    def __init__(
        self,
        reactor,
        address,
        on_accept,
        *,
        fd=None,
        options=None,
        backlog: int = limits.LISTEN_BACKLOG,
        reuse_port: bool = False,
        dual_stack: bool = False,
        connections_max: int = limits.CONNECTIONS_MAX,
        per_address_max=None,
        when_full: str = "refuse",
        accept_budget: int = limits.ACCEPT_BUDGET,
        on_refuse=None,
    ):
        if self.loop is not None:
            raise UsageError("a listener cannot be initialised twice; make a new one")
        limits.require_whole("backlog", backlog, 1, 65_535)
        limits.require_whole("connections_max", connections_max, 1, limits.CONNECTIONS_MAX)
        limits.require_whole("accept_budget", accept_budget, 1, limits.ACCEPT_BUDGET_MAX)
        if per_address_max is not None:
            limits.require_whole("per_address_max", per_address_max, 1, limits.CONNECTIONS_MAX)
            self.by_address = {}
        if when_full not in ("refuse", "evict"):
            raise UsageError(f'when_full is {when_full!r}; give "refuse" or "evict"')
        if options is not None and not isinstance(options, StreamOptions):
            raise UsageError(f"options is {options!r}; give a penstock.net.StreamOptions")
        if (address is None) == (fd is None):
            raise UsageError("give either an address or fd, a listening socket that was inherited")
        self.options = DEFAULT if options is None else options
        self.on_accept = on_accept
        self.on_refuse = on_refuse
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.when_full = when_full
        self.ages = []
        self.c.budget = accept_budget
        self.c.accepted = cython.cast(cython.p_int, malloc(self.c.budget * cython.sizeof(cython.int)))
        if self.c.accepted == cython.NULL:
            raise MemoryError("no memory for a listener")
        handle = _inherit(fd) if address is None else _bind(address, backlog, reuse_port, dual_stack)
        try:
            self._begin(reactor.loop, handle.fileno())
        except BaseException:
            handle.detach() if address is None else handle.close()
            raise
        handle.detach()
        self.path = address if isinstance(address, str) and not address.startswith("\0") else None

    def _begin(self, loop: Loop, fd: cython.int):
        loop.check()
        self.net = net_of(loop)
        self.c.loop = cython.address(loop.c)
        loop.register_native(fd, READABLE, _accept, cython.address(self.c), False)
        native_complete(self.c.loop, fd, _complete)
        self.loop = loop
        self.c.fd = fd
        Py_INCREF(self)
        return 0

    def __dealloc__(self):
        free(self.c.accepted)

    # ---- Python's half of a turn -------------------------------------------------------------------------------------

    def _dispatch(self):
        try:
            while self.c.next < self.c.count:
                fd: cython.int = self.c.accepted[self.c.next]
                self.c.next += 1
                self._admit(fd)
        finally:
            if self.c.fd >= 0 and self.c.next < self.c.count:
                native_note(self.c.loop, self.c.fd, PRIORITY)
        if self.c.error and self.c.fd >= 0:
            error: cython.int = self.c.error
            self.c.error = 0
            self._starve(error)
        return 0

    def _admit(self, fd: cython.int):
        """Make a stream of a connection, if there is a place for it."""
        args: cython.pointer[PyObject][2]
        key: bytes = None
        if self.open >= self.connections_max and not self._make_room(None):
            return self._refuse(fd, "connections_max")
        if self.by_address is not None:
            key = _peer_key(fd)
            if len(self.by_address.get(key, ())) >= self.per_address_max and not self._make_room(key):
                return self._refuse(fd, "per_address_max")
        try:
            stream: Stream = stream_adopt(self.loop, fd, self.options, self)
        except (PenstockError, OSError) as error:
            self._report(error)
            return self._refuse(fd, "descriptors_max")
        self.open += 1
        self.accepted += 1
        self.net.c.accepted += 1
        if key is not None:
            self.by_address.setdefault(key, set()).add(stream)
            stream.key = key
        if self.when_full == "evict":
            heapq.heappush(self.ages, (stream.c.active_ns, self.accepted, stream))
            if len(self.ages) > 2 * self.open + _LOOKS_MAX:
                self.ages = [entry for entry in self.ages if entry[2].fileno() >= 0]
                heapq.heapify(self.ages)
        handler = self.on_accept
        callback: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], handler)
        args[0] = cython.NULL
        args[1] = cython.cast(cython.pointer[PyObject], stream)
        answer: cython.pointer[PyObject] = PyObject_Vectorcall(
            callback, args + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, cython.NULL
        )
        if answer == cython.NULL:
            stream_fail(stream)
        return self.loop._settle(answer, callback, fd, "accept")

    def _refuse(self, fd: cython.int, why: str):
        self.refused += 1
        self.net.c.refused += 1
        close(fd)
        if self.on_refuse is not None:
            handler = self.on_refuse
            try:
                handler(why)
            except Exception as error:
                self._report(error)
        return 0

    def _make_room(self, key):
        """Evict the connection that was idle for longest: of the peer `key`, or of all."""
        stream: Stream = None
        other: Stream
        if self.when_full != "evict":
            return False
        if key is None:
            stream = self._oldest()
        else:
            for other in self.by_address[key]:
                if _is_idle(other) and (stream is None or other.c.active_ns < stream.c.active_ns):
                    stream = other
        if stream is None:
            return False
        self.evicted += 1
        self.net.c.evicted += 1
        self._lost(stream)
        stream.listener = None
        stream_evict(stream)
        return True

    def _oldest(self) -> Stream:
        """The least recently active of all that are idle.

        The heap knows when a stream was active as it was put in; one that was active since is put in again, so that
        the first one whose time is still true is the oldest.
        """
        stream: Stream
        busy = []
        found = None
        while self.ages and len(busy) < _LOOKS_MAX:
            then, number, stream = heapq.heappop(self.ages)
            if stream.c.fd < 0 or stream.listener is not self:
                continue
            if then != stream.c.active_ns:
                heapq.heappush(self.ages, (stream.c.active_ns, number, stream))
            elif _is_idle(stream):
                found = stream
                break
            else:
                busy.append((then, number, stream))
        for entry in busy:
            heapq.heappush(self.ages, entry)
        return found

    def _lost(self, stream: Stream):
        """One of its streams is over."""
        self.open -= 1
        if stream.key is not None:
            peers = self.by_address[stream.key]
            peers.discard(stream)
            if not peers:
                del self.by_address[stream.key]

    # ---- when the system has nothing left ----------------------------------------------------------------------------

    def _starve(self, error: cython.int):
        """Wait for a descriptor. The native half has stopped asking already."""
        self._report(OSError(error, f"{self!r} cannot accept: {os.strerror(error)}; the connections wait"))
        if error in (EMFILE, ENFILE, ENOBUFS, ENOMEM):
            self.starved += 1
            self.net.c.starved += 1
            self.net.starving.append(self._resume)
        if self.pause_timer is None:
            self.pause_timer = self.loop.start_timer(limits.ACCEPT_PAUSE_NS, 0, self._resume, ())
        return 0

    def _resume(self):
        """Ask again."""
        if self.pause_timer is not None:
            self.loop.cancel_timer(self.pause_timer)
            self.pause_timer = None
        if self.c.fd >= 0:
            native_modify(self.c.loop, self.c.fd, READABLE)

    def _report(self, error):
        """Tell the loop's hook, at most once per REPORT_PERIOD_NS; the counters say how often it was."""
        now_ns = clock_now(self.c.loop.clock)
        if self.reported_ns is None or now_ns - self.reported_ns >= limits.REPORT_PERIOD_NS:
            self.reported_ns = now_ns
            report = ErrorReport(error, name_of(self.on_accept), "accept", self.loop.name)
            report_error(self.loop.on_error, report, self.loop.reported, now_ns)

    # ---- ending ------------------------------------------------------------------------------------------------------

    def accept_all(self):
        """Accept everything that has connected by now, without regard to the budget, and return how many that were.

        For a server that leaves: what waits in the system's queue when it closes is reset.
        """
        self.loop.check()
        before = self.accepted
        rounds: cython.int = 0
        while self.c.fd >= 0 and rounds < _ROUNDS_MAX:
            rounds += 1
            if _accept(self.c.loop, self.c.fd, READABLE, cython.address(self.c)) == READY_DONE:
                break
            self._dispatch()
        return self.accepted - before

    def close(self):
        """Accept nothing more. Streams live on; connections that were not accepted yet are reset by the system."""
        if self.c.fd >= 0:
            self.loop.check()
            self._finish(True)

    def _finish(self, ours: cython.bint):
        if self.c.fd < 0:
            return 0
        native_deregister(self.c.loop, self.c.fd)
        if self.pause_timer is not None:
            self.loop.cancel_timer(self.pause_timer)
            self.pause_timer = None
        if self.path is not None:
            with contextlib.suppress(OSError):
                if address_of(self.c.fd, False) == self.path:
                    os.unlink(self.path)
        if ours:
            close(self.c.fd)
        self.c.fd = -1
        while self.c.next < self.c.count:
            self._refuse(self.c.accepted[self.c.next], "closed")
            self.c.next += 1
        Py_DECREF(self)
        return 0

    # ---- what it is --------------------------------------------------------------------------------------------------

    def fileno(self):
        """The descriptor's number; -1 when it is closed."""
        return self.c.fd

    @property
    def address(self):
        """Where it listens, with the port that the system chose; None when it is closed."""
        return address_of(self.c.fd, False) if self.c.fd >= 0 else None

    def __repr__(self):
        return f"<Listener on {show(self.address)}, {self.open:,} open>"


@cython.cfunc
def _is_idle(stream: Stream) -> cython.bint:
    waiting: cython.size_t = buffer_waiting(cython.address(stream.c.out))
    return stream.c.state == STREAM_OPEN and waiting == 0 and not stream.c.tell and not stream.c.busy


def _inherit(fd):
    """A listening socket that somebody else has opened."""
    try:
        handle = socket.socket(fileno=fd if isinstance(fd, int) else fd.fileno())
    except OSError as error:
        raise BadDescriptor(f"fd {fd!r} is no socket: {error.strerror}") from None
    if not handle.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        handle.detach()
        raise BadDescriptor(f"fd {fd!r} does not listen; call listen() before it is handed over")
    handle.setblocking(False)
    if not isinstance(fd, int) and hasattr(fd, "detach"):
        fd.detach()
    return handle


def _bind(address, backlog, reuse_port, dual_stack):
    family, target = system_address(address)
    handle = socket.socket(family, socket.SOCK_STREAM)
    try:
        handle.setblocking(False)
        if family == socket.AF_UNIX:
            _remove_stale(target)
        else:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            handle.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual_stack else 1)
        handle.bind(target)
        handle.listen(backlog)
    except OSError as error:
        handle.close()
        remedy = _REMEDIES.get(error.errno, "give another address")
        raise OSError(error.errno, f"cannot listen on {show(address)}: {error.strerror}; {remedy}") from None
    return handle


def _remove_stale(path):
    """Remove the file of a Unix socket behind which nobody listens any more."""
    if path.startswith("\0"):
        return
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                probe.setblocking(False)
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
            except OSError:
                pass
            finally:
                probe.close()
