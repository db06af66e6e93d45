# cython: language_level=3
"""A connected socket with bounded buffers, and callbacks for what happens to it.

    on_connect()      an outgoing connection is made
    on_data(bytes)    something arrived
    on_eof()          the peer has ended its half; without this callback the stream closes then
    on_drain()        after a write that said stop: the program may go on
    on_close(reason)  always, once, last

A stream goes CONNECTING - OPEN - CLOSING - OVER - CLOSED, and never back; any step may be left out. Whatever ends it,
the end is told in a readiness step, never inside the call that asked for it. A callback that raises ends its stream,
for what it was given is lost; the error goes to the loop's hook.

A stream owns its descriptor and holds itself alive until it is closed. What it does without the interpreter is
transfer.py's. This file must not know listeners, nor a protocol.
"""

import errno as errnos
import os
import socket

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, PyObject
from cython.cimports.libc.stdint import INT64_MAX, uint32_t
from cython.cimports.libc.string import memset
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.core.loop import Loop
from cython.cimports.penstock.core.nogil import native_cancel_timer, native_complete, native_deregister
from cython.cimports.penstock.core.system import PY_VECTORCALL_ARGUMENTS_OFFSET, PyObject_Vectorcall, close
from cython.cimports.penstock.core.types import READABLE, REGISTRATION_OVER, WRITABLE, LoopC
from cython.cimports.penstock.net.buffer import buffer_free, buffer_init, buffer_total, buffer_waiting
from cython.cimports.penstock.net.pool import pool_give_back
from cython.cimports.penstock.net.shared import net_of
from cython.cimports.penstock.net.system import (
    IPPROTO_TCP,
    PYBUF_SIMPLE,
    SO_LINGER,
    SOL_SOCKET,
    TCP_NODELAY,
    PyBuffer_Release,
    PyObject_GetBuffer,
    iovec,
    linger_s,
    setsockopt,
    view_s,
)
from cython.cimports.penstock.net.transfer import (
    stream_arm,
    stream_discard,
    stream_end,
    stream_end_half,
    stream_interest,
    stream_note,
    stream_park,
    stream_ready,
    stream_resume,
    stream_write,
)
from cython.cimports.penstock.net.types import (
    END_ABORTED,
    END_CLOSED,
    END_CONNECT,
    END_EOF,
    END_ERROR,
    END_EVICTED,
    END_HANDLER,
    END_LOOP,
    END_RESET,
    FULL_CLOSE,
    FULL_REJECT,
    STREAM_CLOSED,
    STREAM_CLOSING,
    STREAM_CONNECTING,
    STREAM_OPEN,
    STREAM_OVER,
    TELL_CONNECTED,
    TELL_DATA,
    TELL_DRAIN,
    TELL_EOF,
    TELL_NATIVE,
    TELL_OVER,
    WRITE_ENDED,
    WRITE_LATE,
    WRITE_OVER_CAP,
    WRITE_STOP,
    WRITE_TAKEN,
    StreamC,
)

from penstock import limits
from penstock.errors import Overflow, UsageError
from penstock.net.address import name_of, set_keepalive, system_address
from penstock.net.options import DEFAULT, OVERFLOWS, StreamOptions, nanoseconds
from penstock.net.shared import REASONS

STATES = ("connecting", "open", "closing", "over", "closed")
PIECES_MAX = cython.declare(cython.int, 64)
if PIECES_MAX != limits.WRITE_PIECES_MAX:
    raise AssertionError("an array in Stream._write_pieces does not have WRITE_PIECES_MAX places")


@cython.cfunc
@cython.exceptval(-1, check=False)
def _complete(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t, context: cython.p_void) -> cython.int:
    """Python's half of the native handler."""
    owner: cython.pointer[PyObject] = cython.cast(cython.pointer[StreamC], context).owner
    stream: Stream = cython.cast(Stream, owner)
    if events & REGISTRATION_OVER:
        stream_end(cython.address(stream.c), END_LOOP, 0)
        return stream._finish(loop.closed)
    return stream._dispatch()


@cython.cfunc
def stream_adopt(loop: Loop, fd: cython.int, options, listener) -> Stream:
    """A stream for a connection that was just accepted. If it cannot be registered, the caller closes it."""
    stream: Stream = Stream.__new__(Stream)
    stream._begin(loop, fd, options, False)
    stream.listener = listener
    return stream


@cython.cfunc
@cython.exceptval(-1, check=False)
def stream_evict(stream: Stream) -> cython.int:
    """End a stream in favour of another one."""
    return stream._end(END_EVICTED, 0)


@cython.cfunc
@cython.exceptval(-1, check=False)
def stream_fail(stream: Stream) -> cython.int:
    """End a stream because whoever should have taken it over failed."""
    return stream._end(END_HANDLER, 0)


class Stream:
    """A connected socket under backpressure."""

    def __cinit__(self, *args, **kwargs):
        memset(cython.address(self.c), 0, cython.sizeof(StreamC))
        self.c.fd = -1
        self.c.state = STREAM_CLOSED
        self.c.owner = cython.cast(cython.pointer[PyObject], self)
        buffer_init(cython.address(self.c.out), buffer_total())

    def __init__(self, reactor, connection, *, options=None, on_data=None, on_eof=None, on_drain=None, on_close=None):
        if self.loop is not None:
            raise UsageError("a stream cannot be initialised twice; make a new one")
        loop: Loop = reactor.loop
        number: cython.int = connection if isinstance(connection, int) else connection.fileno()
        os.set_blocking(number, False)
        self.data_callback = on_data
        self.on_eof = on_eof
        self.on_drain = on_drain
        self.on_close = on_close
        self._begin(loop, number, options, False)
        if hasattr(connection, "detach"):
            connection.detach()

    def _begin(self, loop: Loop, fd: cython.int, options, connecting: cython.bint):
        c: cython.pointer[StreamC] = cython.address(self.c)
        one: cython.int = 1
        if options is None:
            options = DEFAULT
        elif not isinstance(options, StreamOptions):
            raise UsageError(f"options is {options!r}; give a penstock.net.StreamOptions")
        loop.check()
        self.net = net_of(loop)
        self.loop = loop
        self.options = options
        c.loop = cython.address(loop.c)
        c.net = cython.address(self.net.c)
        c.high_bytes = options.high_bytes
        c.low_bytes = options.low_bytes
        c.cap_bytes = options.cap_bytes
        c.overflow = OVERFLOWS[options.overflow]
        c.share_bytes = options.share_bytes
        c.share_operations = options.share_operations
        c.edge = options.mode == "et"
        c.idle_ns = options.idle_ns
        c.active_ns = clock_now(c.loop.clock)
        c.deadline_ns = c.active_ns + options.deadline_ns if options.deadline is not None else INT64_MAX
        c.linger_ns = INT64_MAX
        if options.nodelay:
            # Not every socket is TCP; those that are not refuse, and need nothing.
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, cython.address(one), cython.sizeof(cython.int))
        if options.keepalive is not None:
            set_keepalive(fd, options.keepalive, options.keepalive_probes)
        interest: uint32_t = READABLE | WRITABLE if c.edge else WRITABLE if connecting else READABLE
        loop.register_native(fd, interest, stream_ready, c, c.edge)
        native_complete(c.loop, fd, _complete)
        c.fd = fd
        c.state = STREAM_CONNECTING if connecting else STREAM_OPEN
        if stream_arm(c) < 0:
            native_deregister(c.loop, fd)
            c.fd = -1
            c.state = STREAM_CLOSED
            raise Overflow(
                f"{loop.name} has {loop.policy.timers_max:,} timers; raise timers_max in its Policy",
                limit="timers_max",
                capacity=loop.policy.timers_max,
            )
        self.net.c.opened += 1
        Py_INCREF(self)
        return 0

    def __dealloc__(self):
        # A stream that began holds itself until it is finished: here is only what never began, or is over.
        buffer_free(cython.address(self.c.out))

    # ---- writing -----------------------------------------------------------------------------------------------------

    def write(self, data):
        """Send bytes, or a sequence of them in one system call. False: stop until `on_drain`, or the stream is over.

        What cannot be sent now is kept, up to the cap; above that the policy decides. A write is taken as a whole or
        not at all.
        """
        piece: iovec
        self.loop.check()
        if PyBytes_CheckExact(data):
            piece.iov_base = PyBytes_AS_STRING(data)
            piece.iov_len = len(data)
            if piece.iov_len == 0:
                return not self.c.congested and self.c.state <= STREAM_OPEN
            return self._written(stream_write(cython.address(self.c), cython.address(piece), 1, piece.iov_len), 0)
        if isinstance(data, (list, tuple)):
            return self._write_pieces(tuple(data))
        if isinstance(data, str):
            raise UsageError("data is a str; encode it first")
        if isinstance(data, (bytes, bytearray, memoryview)) or not hasattr(data, "__iter__"):
            return self._write_pieces((data,))
        try:
            return self._write_pieces((memoryview(data),))
        except TypeError:
            return self._write_pieces(tuple(data))

    def _write_pieces(self, pieces: tuple):
        """Write what offers its memory; a long sequence, and memory with gaps, is joined first."""
        views: view_s[64]
        vector: iovec[64]
        count: cython.int = 0
        size: cython.size_t = 0
        if len(pieces) > PIECES_MAX:
            pieces = (b"".join(pieces),)
        try:
            for piece in pieces:
                if isinstance(piece, memoryview) and not piece.c_contiguous:
                    piece = piece.tobytes()
                if isinstance(piece, str):
                    raise UsageError("data is a str; encode it first")
                PyObject_GetBuffer(piece, cython.address(views[count]), PYBUF_SIMPLE)
                vector[count].iov_base = views[count].buf
                vector[count].iov_len = views[count].len
                size += views[count].len
                count += 1
            if size == 0:
                return not self.c.congested and self.c.state <= STREAM_OPEN
            return self._written(stream_write(cython.address(self.c), vector, count, size), size)
        finally:
            while count > 0:
                count -= 1
                PyBuffer_Release(cython.address(views[count]))

    def _written(self, outcome: cython.int, size: cython.size_t):
        if outcome == WRITE_TAKEN:
            return True
        if outcome in (WRITE_STOP, WRITE_LATE):
            return False
        if outcome == WRITE_ENDED:
            raise UsageError("write after end_writing: the stream's writing half is ended; end it after the last write")
        # Full. A stream that closes has counted it, and is over.
        if self.c.overflow == FULL_CLOSE:
            return False
        if self.c.overflow == FULL_REJECT:
            self.net.c.rejected_writes += 1
            cap: cython.bint = outcome == WRITE_OVER_CAP
            limit: object = self.c.cap_bytes if cap else self.c.out.total.limit_bytes
            raise Overflow(
                f"{buffer_waiting(cython.address(self.c.out)):,} bytes wait for {self!r}, and "
                f"{'its buffer' if cap else 'all write buffers together'} may hold {limit:,}; "
                f"write less until on_drain, or raise {'its cap_bytes' if cap else 'that by net.set_write_total'}",
                limit="cap_bytes" if cap else "WRITE_TOTAL_BYTES",
                capacity=limit,
            )
        self.net.c.dropped_writes += 1
        # With nothing waiting no on_drain will come: the program may go on, and lose more.
        return buffer_waiting(cython.address(self.c.out)) == 0

    def end_writing(self):
        """End this half of the connection when everything is sent; the peer's half stays open."""
        self.loop.check()
        if self.c.state <= STREAM_OPEN and not self.c.ended:
            stream_end_half(cython.address(self.c))

    # ---- reading -----------------------------------------------------------------------------------------------------

    def pause(self):
        """Read nothing more, so that the peer has to wait. `on_data` is not called until `resume`."""
        self.loop.check()
        self.c.paused = True

    def resume(self):
        """Read again."""
        self.loop.check()
        if self.c.paused:
            self.c.paused = False
            self._wanted()

    def _wanted(self):
        c: cython.pointer[StreamC] = cython.address(self.c)
        if c.paused or c.fd < 0:
            return 0
        if c.held and self.data_callback is not None:
            c.tell |= TELL_DATA
        if not c.held or self.data_callback is not None:
            stream_resume(c)
        return 0

    @property
    def on_data(self):
        """Called with what arrives. Without it nothing is read, and what was read is kept."""
        return self.data_callback

    @on_data.setter
    def on_data(self, callback):
        self.data_callback = callback
        if callback is not None and self.c.held:
            self._wanted()

    # ---- ending ------------------------------------------------------------------------------------------------------

    def close(self, linger=None):
        """Send what waits, for at most `linger` seconds, then close; with a reset if the peer did not take it.

        Nothing is read any more, and nothing can be written.
        """
        c: cython.pointer[StreamC] = cython.address(self.c)
        if c.state >= STREAM_OVER:
            return
        self.loop.check()
        linger_ns = limits.LINGER_NS if linger is None else nanoseconds("linger", linger, limits.LINGER_MAX_NS)
        if c.state == STREAM_CONNECTING or buffer_waiting(cython.address(c.out)) == 0:
            self._end(END_CLOSED, 0)
            return
        c.state = STREAM_CLOSING
        c.linger_ns = min(c.linger_ns, clock_now(c.loop.clock) + linger_ns)
        stream_interest(c)
        if stream_arm(c) < 0:
            c.reset = True
            self._end(END_ABORTED, 0)

    def abort(self):
        """Reset the connection: what waits in either direction is lost."""
        if self.c.state >= STREAM_OVER:
            return
        self.loop.check()
        self.c.reset = True
        self._end(END_ABORTED, 0)

    def _end(self, end: cython.int, error: cython.int):
        c: cython.pointer[StreamC] = cython.address(self.c)
        stream_end(c, end, error)
        if not c.dispatching and c.fd >= 0:
            stream_note(c)
        return 0

    def set_idle(self, seconds):
        """End the stream after so many seconds without a byte in either direction, from now on; None: never."""
        self.loop.check()
        self.c.idle_ns = 0 if seconds is None else nanoseconds("idle", seconds)
        self.c.active_ns = clock_now(self.c.loop.clock)
        self._armed()

    def set_deadline(self, seconds):
        """End the stream in so many seconds, whatever happens; None: never."""
        self.loop.check()
        now_ns = clock_now(self.c.loop.clock)
        self.c.deadline_ns = INT64_MAX if seconds is None else now_ns + nanoseconds("deadline", seconds)
        self._armed()

    def _armed(self):
        if self.c.state < STREAM_OVER and stream_arm(cython.address(self.c)) < 0:
            raise Overflow(
                f"{self.loop.name} has {self.loop.policy.timers_max:,} timers; raise timers_max in its Policy",
                limit="timers_max",
                capacity=self.loop.policy.timers_max,
            )
        return 0

    # ---- Python's half of a turn -------------------------------------------------------------------------------------

    def _dispatch(self):
        """Tell the program everything that the native half found."""
        c: cython.pointer[StreamC] = cython.address(self.c)
        c.dispatching = True
        try:
            self._tell()
        finally:
            c.dispatching = False
            if c.fd >= 0 and c.tell and not c.parked:
                # An exception left the loop between two callbacks, or the last one asked for more.
                stream_note(c)
        return 0

    def _call(self, handler, argument: cython.pointer[PyObject]):
        """Call the program. Its failure is reported, and ends the stream."""
        args: cython.pointer[PyObject][2]
        if handler is None:
            return 0
        args[0] = cython.NULL
        args[1] = argument
        count: cython.size_t = 0 if argument == cython.NULL else 1
        callback: cython.pointer[PyObject] = cython.cast(cython.pointer[PyObject], handler)
        answer: cython.pointer[PyObject] = PyObject_Vectorcall(
            callback, args + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, cython.NULL
        )
        if answer == cython.NULL:
            stream_end(cython.address(self.c), END_HANDLER, 0)
        return self.loop._settle(answer, callback, self.c.fd, "readiness")

    def _tell(self):
        c: cython.pointer[StreamC] = cython.address(self.c)
        if c.tell & TELL_CONNECTED:
            c.tell &= ~TELL_CONNECTED
            self._call(self.on_connect, cython.NULL)
        if c.tell & TELL_DATA:
            self._tell_data()
        if c.tell & (TELL_NATIVE | TELL_DRAIN) and c.hooks != cython.NULL and c.hooks.tell != cython.NULL:
            what: cython.int = c.tell & (TELL_NATIVE | TELL_DRAIN)
            c.tell &= ~what
            c.hooks.tell(c, what, c.context)
        elif c.tell & TELL_DRAIN:
            c.tell &= ~TELL_DRAIN
            if c.state == STREAM_OPEN:
                self._call(self.on_drain, cython.NULL)
        if c.held and c.tell & (TELL_EOF | TELL_OVER) and (c.state < STREAM_OVER or c.end == END_EOF):
            # The end comes after the data, and that waits until somebody wants it.
            stream_park(c)
            return 0
        if c.tell & TELL_EOF:
            c.tell &= ~TELL_EOF
            if c.state == STREAM_OPEN or c.end == END_EOF:
                self._tell_eof()
        if c.tell & TELL_OVER:
            self._finish(True)
        return 0

    def _tell_eof(self):
        if self.on_eof is not None:
            self._call(self.on_eof, cython.NULL)
        elif self.c.state == STREAM_OPEN and buffer_waiting(cython.address(self.c.out)) == 0:
            stream_end(cython.address(self.c), END_EOF, 0)
        elif self.c.state == STREAM_OPEN:
            self.close()
        return 0

    def _tell_data(self):
        c: cython.pointer[StreamC] = cython.address(self.c)
        was_held: cython.bint = c.held
        c.tell &= ~TELL_DATA
        if was_held:
            data, self.held = self.held, None
            c.held = False
        else:
            data = PyBytes_FromStringAndSize(c.chunk, c.chunk_bytes)
            c.chunk = cython.NULL
            pool_give_back(cython.address(c.net.pool))
        if c.state >= STREAM_CLOSING and c.end not in (END_EOF, END_RESET, END_ERROR):
            # The program has closed it, in this very turn.
            c.net.unread_bytes += len(data)
        elif c.paused or self.data_callback is None:
            self.held = data
            c.held = True
        else:
            self._call(self.data_callback, cython.cast(cython.pointer[PyObject], data))
            if was_held and not c.paused:
                stream_resume(c)
        return 0

    def _finish(self, ours: cython.bint):
        """Close the descriptor, tell the end, and let go of everything. `ours`: the number is still this stream's."""
        c: cython.pointer[StreamC] = cython.address(self.c)
        if c.state == STREAM_CLOSED:
            return 0
        c.state = STREAM_CLOSED
        c.tell = 0
        if c.timer:
            native_cancel_timer(c.loop, c.timer)
            c.timer = 0
        c.net.unsent_bytes += buffer_waiting(cython.address(c.out))
        buffer_free(cython.address(c.out))
        if c.chunk != cython.NULL:
            c.chunk = cython.NULL
            c.net.unread_bytes += c.chunk_bytes
            pool_give_back(cython.address(c.net.pool))
        if self.held is not None:
            c.net.unread_bytes += len(self.held)
            self.held = None
            c.held = False
        c.net.closed += 1
        c.net.ends[c.end] += 1
        native_deregister(c.loop, c.fd)
        if ours:
            self._close_fd()
        c.fd = -1
        listener, self.listener = self.listener, None
        on_close = self.on_close
        self.on_connect = self.data_callback = self.on_eof = self.on_drain = self.on_close = None
        try:
            if listener is not None:
                listener._lost(self)
            self.net.freed()
            if c.hooks != cython.NULL and c.hooks.closed != cython.NULL:
                c.hooks.closed(c, c.context)
            reason = REASONS[c.end]
            self._call(on_close, cython.cast(cython.pointer[PyObject], reason))
        finally:
            Py_DECREF(self)
        return 0

    def _close_fd(self):
        at_once: linger_s
        if self.c.reset:
            at_once.l_onoff = 1
            at_once.l_linger = 0
            setsockopt(self.c.fd, SOL_SOCKET, SO_LINGER, cython.address(at_once), cython.sizeof(linger_s))
        elif self.c.end == END_CLOSED and not self.c.eof:
            self.c.net.unread_bytes += stream_discard(cython.address(self.c))
        close(self.c.fd)
        return 0

    # ---- what it is --------------------------------------------------------------------------------------------------

    def fileno(self):
        """The descriptor's number; -1 when it is closed."""
        return self.c.fd

    @property
    def state(self):
        """One of connecting, open, closing, over, closed."""
        return STATES[self.c.state]

    @property
    def reason(self):
        """Why it ended; None as long as it has not."""
        return REASONS[self.c.end] if self.c.state >= STREAM_OVER else None

    @property
    def error(self):
        """The system's error that ended it, or None."""
        if not self.c.error:
            return None
        return OSError(self.c.error, os.strerror(self.c.error))

    @property
    def paused(self):
        """Whether the program wants no data."""
        return bool(self.c.paused)

    @property
    def congested(self):
        """Whether a write has said stop and `on_drain` is owed."""
        return bool(self.c.congested)

    @property
    def waiting_bytes(self):
        """Bytes that wait to be sent."""
        return buffer_waiting(cython.address(self.c.out))

    @property
    def buffer_bytes(self):
        """The memory that its write buffer holds."""
        return self.c.out.capacity

    @property
    def received_bytes(self):
        """Bytes received so far."""
        return self.c.received_bytes

    @property
    def sent_bytes(self):
        """Bytes that the system has taken so far."""
        return self.c.sent_bytes

    @property
    def active_ns(self):
        """When the last byte flowed, by the loop's clock."""
        return self.c.active_ns

    @property
    def peer(self):
        """Who is at the other end: (host, port), or a path; None if that has no name (any more)."""
        return name_of(self.c.fd, True) if self.c.fd >= 0 else None

    @property
    def name(self):
        """This end's address."""
        return name_of(self.c.fd, False) if self.c.fd >= 0 else None

    def __repr__(self):
        why = f": {self.reason}" if self.reason else ""
        return f"<Stream on descriptor {self.c.fd}, {self.state}{why}>"


def connect(
    reactor,
    address,
    *,
    options=None,
    timeout=None,
    source=None,
    on_connect=None,
    on_data=None,
    on_eof=None,
    on_drain=None,
    on_close=None,
):
    """Return a stream that is being connected. What is written before `on_connect` waits.

    If the connection is not made within `timeout` seconds, or at all, `on_close("not connected")` is called, and the
    stream's `error` says what the system said.
    """
    family, target = system_address(address)
    timeout_ns = limits.CONNECT_TIMEOUT_NS if timeout is None else nanoseconds("timeout", timeout)
    handle = socket.socket(family, socket.SOCK_STREAM)
    stream: Stream = Stream.__new__(Stream)
    try:
        handle.setblocking(False)
        if source is not None:
            handle.bind(system_address(source)[1])
        failed: cython.int = handle.connect_ex(target)
        stream.on_connect = on_connect
        stream.data_callback = on_data
        stream.on_eof = on_eof
        stream.on_drain = on_drain
        stream.on_close = on_close
        stream._begin(reactor.loop, handle.fileno(), options, True)
        stream.c.after_ns = stream.c.deadline_ns
        stream.c.deadline_ns = clock_now(stream.c.loop.clock) + timeout_ns
        stream._armed()
    except BaseException:
        handle.close()
        raise
    handle.detach()
    if failed and failed not in (errnos.EINPROGRESS, errnos.EINTR):
        stream._end(END_CONNECT, failed)
    return stream
