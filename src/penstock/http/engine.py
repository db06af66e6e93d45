# cython: language_level=3
"""The server's part of one loop: its connections, the program's turn, and what the program answers.

The native half (feed.py) receives, answers what is a file, and queues what is for the program. This half runs the
program: the work step is deferred when something waits, takes requests from the admission in its order until its share
of the turn is used, and refuses what has waited for too long.

A handler is called with a `Request` and returns a `Response`, or None if it will answer later. One that raises is
answered for with 500; the error is reported and the server goes on. This file must not know listeners, processes or
signals.
"""

import time

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, PyObject
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.core.loop import Loop
from cython.cimports.penstock.core.nogil import native_cancel_timer, native_start_timer
from cython.cimports.penstock.core.types import LoopC
from cython.cimports.penstock.http.account import account_end, account_peer
from cython.cimports.penstock.http.admission import (
    admission_drain,
    admission_due_ns,
    admission_next,
    admission_of,
    admission_withdraw,
)
from cython.cimports.penstock.http.answering import Answering
from cython.cimports.penstock.http.arrival import arrival_begin, arrival_bytes, arrival_over
from cython.cimports.penstock.http.exchange import Request, exchange_close, exchange_free, exchange_open, request_for
from cython.cimports.penstock.http.feed import (
    feed_bytes,
    feed_data,
    feed_deadline,
    feed_ended,
    feed_eof,
    feed_expired,
    feed_pull,
)
from cython.cimports.penstock.http.files import files_of
from cython.cimports.penstock.http.log import log_of
from cython.cimports.penstock.http.output import output_close, output_open, sources_drop
from cython.cimports.penstock.http.peers import trust_of
from cython.cimports.penstock.http.progress import step
from cython.cimports.penstock.http.roster import roster_add, roster_close, roster_drop, roster_open, roster_wake
from cython.cimports.penstock.http.tally import tally, tally_again
from cython.cimports.penstock.http.types import (
    ADDRESS_INTERNET,
    EVENT_START,
    NEED_CONTENT,
    NEED_PIECE,
    NEED_RELEASE,
    NEED_WORK,
    STATE_BODY,
    STATE_FRESH,
    STATE_HEAD,
    STATE_IDLE,
    STATE_LINGER,
    STATE_SENDING,
    STATE_WORKING,
    EngineC,
    FieldC,
    HttpC,
    RequestC,
    SourceC,
    WorkC,
)
from cython.cimports.penstock.net.stream import Stream
from cython.cimports.penstock.net.transfer import stream_arm, stream_end, stream_note
from cython.cimports.penstock.net.types import END_ABORTED, END_EVICTED, STREAM_OVER, TELL_NATIVE, StreamC, StreamHooksC

from penstock import limits
from penstock.errors import UsageError
from penstock.http.answering import FAILED
from penstock.http.options import DEFAULT, HttpOptions
from penstock.http.peers import Trust

LOOKS = cython.declare(cython.int, limits.HTTP_EVICT_LOOKS)

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


# ---- hooks -----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def _hook_tell(stream: cython.pointer[StreamC], what: cython.int, context: cython.p_void) -> cython.int:
    conn: cython.pointer[HttpC] = cython.cast(cython.pointer[HttpC], context)
    engine: Engine = cython.cast(Engine, conn.engine.owner)
    if what & TELL_NATIVE:
        engine._tell(conn)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _hook_closed(stream: cython.pointer[StreamC], context: cython.p_void) -> cython.int:
    conn: cython.pointer[HttpC] = cython.cast(cython.pointer[HttpC], context)
    engine: Engine = cython.cast(Engine, conn.engine.owner)
    # The stream's reference to the engine goes with this call.
    Py_INCREF(engine)
    try:
        engine._over(conn)
    finally:
        Py_DECREF(engine)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _hook_timer(loop: cython.pointer[LoopC], timer: uint64_t, context: cython.p_void) -> cython.void:
    """Something that waits for the program has waited for too long."""
    engine: cython.pointer[EngineC] = cython.cast(cython.pointer[EngineC], context)
    engine.timer = 0
    feed_expired(engine)
    _arm(engine)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _arm(engine: cython.pointer[EngineC]) -> cython.void:
    """See to it that what waits too long is refused in time, also if the program never returns to the queue."""
    due_ns: int64_t = admission_due_ns(engine.admission)
    if engine.timer == 0 and due_ns != INT64_MAX:
        now_ns: int64_t = clock_now(engine.loop.clock)
        # A millisecond later than the instant: then one timer refuses many.
        engine.timer = native_start_timer(engine.loop, max(0, due_ns - now_ns) + 1000000, 0, _hook_timer, engine)


@cython.cfunc
@cython.exceptval(-1, check=False)
def engine_receive(conn: cython.pointer[HttpC], data: bytes) -> cython.int:
    """Bytes that were decrypted."""
    feed_bytes(conn, PyBytes_AS_STRING(data), len(data))
    return 0


@cython.cfunc
def engine_announced(conn: cython.pointer[HttpC], data: bytes) -> bytes:
    """What is left of bytes that came before anything is encrypted, when what announces the connection is taken off."""
    used: cython.Py_ssize_t = 0
    if conn.awaits:
        used = arrival_bytes(conn, PyBytes_AS_STRING(data), len(data))
    return b"" if used < 0 else data[used:]


@cython.cfunc
@cython.exceptval(-1, check=False)
def engine_eof(conn: cython.pointer[HttpC]) -> cython.int:
    """The peer has said that nothing follows."""
    feed_ended(conn)
    return 0


hooks = cython.declare(StreamHooksC)
hooks.data = feed_data
hooks.eof = feed_eof
hooks.pull = feed_pull
hooks.expired = feed_deadline
hooks.tell = _hook_tell
hooks.closed = _hook_closed


class Engine(Answering):
    """Connections of one loop, and the program behind them.

    `files` is a `Files`, `handler(request)` the program; one of them may be None. With both, paths that begin with
    `prefix` are files. With `streaming` the program gets requests before their content has come; with
    `spooling` content that is too large to be kept in memory is kept in files instead of being refused.
    """

    def __cinit__(self, *args, **kwargs):
        memset(cython.address(self.c), 0, cython.sizeof(EngineC))
        self.c.owner = cython.cast(cython.pointer[PyObject], self)
        if output_open(cython.address(self.c)) < 0 or exchange_open(cython.address(self.c)) < 0:
            raise MemoryError("no memory for the answers of a server")

    def __init__(
        self,
        reactor,
        *,
        admission,
        files=None,
        handler=None,
        log=None,
        options=None,
        prefix: bytes = b"",
        health: bytes = b"",
        streaming: bool = False,
        spooling: bool = False,
        secure=None,
        on_error=None,
    ):
        if self.loop is not None:
            raise UsageError("an engine cannot be initialised twice; make a new one")
        if options is not None and not isinstance(options, HttpOptions):
            raise UsageError(f"options is {options!r}; give a penstock.http.HttpOptions")
        if files is None and handler is None:
            raise UsageError("a server needs files to serve or a handler to ask; give one of them")
        if handler is not None and not callable(handler):
            raise UsageError(f"the handler {handler!r} cannot be called")
        if prefix and not (prefix.startswith(b"/") and prefix.endswith(b"/")):
            raise UsageError(f"the prefix of the files is {prefix!r}; it begins and ends with a slash")
        loop: Loop = reactor.loop
        loop.check()
        self.loop = loop
        self.files = files
        self.handler = handler
        self.log = log
        self.admission = admission
        self.secure = secure
        self.options = DEFAULT if options is None else options
        self.on_error = on_error
        self.recent = []
        self.work = self._work
        c: cython.pointer[EngineC] = cython.address(self.c)
        c.loop = cython.address(loop.c)
        c.files = cython.NULL if files is None else files_of(files)
        c.log = cython.NULL if log is None else log_of(log)
        c.admission = admission_of(admission)
        c.handler = handler is not None
        c.streaming = streaming
        c.spooling = spooling
        c.secure = secure is not None
        c.prefix = _text(prefix)
        c.prefix_size = len(prefix)
        c.health = _text(health)
        c.health_size = len(health)
        self._set_times()
        self._set_trust()

    def _set_times(self):
        c: cython.pointer[EngineC] = cython.address(self.c)
        options = self.options
        c.head_limits.line_max = options.max_line
        c.head_limits.head_max = options.max_head
        c.head_limits.fields_max = options.max_fields
        c.body_limits.body_max = options.max_body
        c.body_limits.chunk_line_max = limits.HTTP_CHUNK_LINE_MAX_BYTES
        c.body_limits.trailer_max = limits.HTTP_TRAILER_MAX_BYTES
        c.kept_max = options.max_body_kept
        c.body_rate = options.min_body_rate
        c.open_max = options.max_connections
        c.work_ns = limits.HTTP_WORK_BUDGET_NS
        c.state_ns[STATE_FRESH] = options.ns("first_byte_timeout")
        c.state_ns[STATE_HEAD] = options.ns("header_timeout")
        c.state_ns[STATE_BODY] = options.ns("body_timeout")
        c.state_ns[STATE_WORKING] = options.ns("work_timeout")
        c.state_ns[STATE_SENDING] = options.ns("send_timeout")
        c.state_ns[STATE_IDLE] = options.ns("idle_timeout")
        c.state_ns[STATE_LINGER] = max(1, options.ns("linger"))
        self.set_wall_clock(time.time_ns())
        return 0

    def _set_trust(self):
        c: cython.pointer[EngineC] = cython.address(self.c)
        options = self.options
        if not options.trusted:
            # The listener knows all that is to be known about addresses.
            return 0
        self.trust = Trust(options.trusted)
        c.trust = trust_of(self.trust)
        c.announces = options.proxy_protocol
        if options.max_connections_per_address is not None:
            c.address_max = options.max_connections_per_address
            if roster_open(c) < 0:
                raise MemoryError("no memory for a table of addresses")
        return 0

    def __dealloc__(self):
        exchange_close(cython.address(self.c))
        output_close(cython.address(self.c))
        roster_close(cython.address(self.c))
        free(self.c.prefix)
        free(self.c.health)

    def set_wall_clock(self, wall_ns: int64_t):
        """Say what time it is outside; dates of answers follow the loop's clock from there on."""
        self.c.wall_offset_ns = wall_ns - clock_now(self.c.loop.clock)
        self.c.stamp_due_ns = 0

    # ---- connections -------------------------------------------------------------------------------------------------

    def accept(self, stream: Stream):
        """Take a connection over: what a listener does with every stream."""
        c: cython.pointer[EngineC] = cython.address(self.c)
        if c.open - c.leaving >= c.open_max and not self._make_room():
            c.turned_away += 1
            if self.secure is None:
                stream.write(_BUSY)
            stream.close()
            return
        conn: cython.pointer[HttpC] = cython.cast(cython.pointer[HttpC], malloc(cython.sizeof(HttpC)))
        if conn == cython.NULL:
            c.turned_away += 1
            stream.abort()
            return
        memset(conn, 0, cython.sizeof(HttpC))
        conn.engine = c
        conn.stream = cython.address(stream.c)
        conn.state = STATE_FRESH
        conn.looked_ns = c.loop.now_ns
        roster_add(conn)
        c.open += 1
        c.connections += 1
        c.by_state[STATE_FRESH] += 1
        stream.c.context = conn
        stream.c.hooks = cython.address(hooks)
        stream.context = self
        stream.c.deadline_ns = clock_now(c.loop.clock) + c.state_ns[STATE_FRESH]
        if not arrival_begin(conn) or stream_arm(conn.stream) < 0:
            stream_end(conn.stream, END_ABORTED, 0)
            stream_note(conn.stream)
        elif self.secure is not None:
            self.secure.begin(self, stream)

    def _make_room(self) -> cython.bint:
        """End the connection that has been idle for longest, as far as a few looks tell."""
        c: cython.pointer[EngineC] = cython.address(self.c)
        conn: cython.pointer[HttpC]
        looks: cython.int = 0
        while looks < LOOKS and c.first != cython.NULL:
            looks += 1
            conn = c.first
            idle: cython.bint = conn.state == STATE_IDLE or conn.state == STATE_FRESH or conn.state == STATE_LINGER
            if idle and conn.stream.active_ns <= conn.looked_ns and conn.stream.state < STREAM_OVER:
                c.evicted += 1
                c.leaving += 1
                conn.leaving = True
                stream_end(conn.stream, END_EVICTED, 0)
                stream_note(conn.stream)
                # Its place is free as of now; it is gone in the next step.
                return True
            conn.looked_ns = conn.stream.active_ns
            roster_drop(conn)
            roster_add(conn)
        return False

    def _over(self, conn: cython.pointer[HttpC]):
        """A connection has ended."""
        c: cython.pointer[EngineC] = cython.address(self.c)
        request: cython.pointer[RequestC] = conn.request
        gone: cython.pointer[RequestC] = conn.cut
        if conn.line != cython.NULL:
            account_end(conn)
        if request != cython.NULL:
            conn.request = cython.NULL
            request.conn = cython.NULL
            if not request.answered:
                c.given_up += 1
            elif not request.finished:
                c.aborted += 1
            if request.object == cython.NULL:
                admission_withdraw(c.admission, cython.address(request.work))
                exchange_free(request)
            else:
                gone = request
        elif conn.first_source != cython.NULL:
            c.aborted += 1
        sources_drop(conn)
        if conn.tls != cython.NULL:
            c.tls_gone(conn)
        c.by_state[conn.state] -= 1
        c.open -= 1
        if conn.leaving:
            c.leaving -= 1
        roster_drop(conn)
        roster_wake(conn)
        arrival_over(conn)
        self._release()
        if conn.cut != cython.NULL:
            conn.cut.cut_from = cython.NULL
        free(conn.rest)
        free(conn.partial)
        free(conn.peer)
        free(conn)
        if gone != cython.NULL:
            # A name of our own: its record lets go of it.
            request_object: Request = cython.cast(Request, gone.object)
            self._end_request(request_object)
        if c.open == 0:
            self._rest_over()
            if c.draining and self.on_idle is not None:
                self.on_idle()
        return 0

    def _rest_over(self):
        """Nothing waits without a connection: no timer may outlive this engine."""
        c: cython.pointer[EngineC] = cython.address(self.c)
        if c.timer:
            native_cancel_timer(c.loop, c.timer)
            c.timer = 0
        if c.rest_timer:
            native_cancel_timer(c.loop, c.rest_timer)
            c.rest_timer = 0
        return 0

    def _end_request(self, request: Request):
        """The connection of a request that the program has is over."""
        pieces, request.pieces = request.pieces, None
        told, request.on_gone = request.on_gone, None
        request.on_content = None
        self._let_go(request)
        try:
            if pieces is not None and hasattr(pieces, "close"):
                pieces.close()
            if told is not None:
                told()
        except Exception as error:
            self._failed(error, request)
        return 0

    def _peer(self, conn: cython.pointer[HttpC]):
        if conn.via != cython.NULL and conn.via.client.kind == ADDRESS_INTERNET:
            return PyBytes_FromStringAndSize(conn.via.text, conn.via.size).decode("ascii")
        account_peer(conn)
        return PyBytes_FromStringAndSize(conn.peer, conn.peer_size).decode("ascii") if conn.peer_size else ""

    # ---- the half with the GIL ---------------------------------------------------------------------------------------

    def _release(self):
        """Let go of objects whose content was sent."""
        source: cython.pointer[SourceC]
        while self.c.dead_sources != cython.NULL:
            source = self.c.dead_sources
            self.c.dead_sources = source.next
            owner: cython.pointer[PyObject] = source.owner
            free(source)
            Py_DECREF(cython.cast(object, owner))
        return 0

    def _tell(self, conn: cython.pointer[HttpC]):
        need: cython.int = conn.need
        conn.need = 0
        if need & NEED_RELEASE:
            self._release()
        if need & NEED_WORK:
            self._schedule()
        request: cython.pointer[RequestC] = conn.request
        if request == cython.NULL or request.object == cython.NULL:
            return 0
        if need & NEED_CONTENT:
            self._give_content(cython.cast(Request, request.object))
            request = conn.request
        if need & NEED_PIECE and request != cython.NULL and request.object != cython.NULL:
            self._piece(cython.cast(Request, request.object))
        return 0

    def _work(self):
        """The work step: let the program have what waits, in the admission's order, for a share of the turn."""
        c: cython.pointer[EngineC] = cython.address(self.c)
        begin_ns: int64_t = clock_now(c.loop.clock)
        now_ns: int64_t = begin_ns
        c.scheduled = False
        c.working = True
        while True:
            # What is too late goes first: then what is next is still worth the work.
            feed_expired(c)
            work: cython.pointer[WorkC] = admission_next(c.admission, now_ns)
            if work == cython.NULL:
                break
            c_request: cython.pointer[RequestC] = cython.cast(cython.pointer[RequestC], work.owner)
            conn: cython.pointer[HttpC] = c_request.conn
            request: Request = request_for(c_request, self, self._peer(conn))
            step(conn, EVENT_START)
            try:
                self._run(request)
            except BaseException:
                # It leaves the loop; what waits is taken up when that runs again.
                c.working = False
                self._schedule()
                raise
            now_ns = clock_now(c.loop.clock)
            if now_ns - begin_ns >= c.work_ns:
                self._schedule()
                break
        c.working = False
        feed_expired(c)
        c.lag_ns = now_ns - begin_ns
        _arm(c)

    def _run(self, request: Request):
        """Ask the program, or the files' long way."""
        try:
            if request.c.slow:
                response = self._slow(request)
            else:
                response = self.handler(request)
            if response is not None:
                self.respond(request, response)
        except Exception as error:
            self._failed(error, request)
            if not request.c.answered and not request.gone:
                self.respond(request, FAILED)
        return 0

    def _slow(self, request: Request):
        c: cython.pointer[RequestC] = request.c
        fields = []
        index: cython.int
        for index in range(c.head.field_count):
            field: cython.pointer[FieldC] = cython.address(c.head.fields[index])
            fields.append(
                (
                    PyBytes_FromStringAndSize(c.bytes + field.name.start, field.name.size),
                    PyBytes_FromStringAndSize(c.bytes + field.value.start, field.value.size),
                )
            )
        path = PyBytes_FromStringAndSize(c.bytes + c.head.path.start, c.head.path.size)
        query = PyBytes_FromStringAndSize(c.bytes + c.head.query.start, c.head.query.size)
        method = PyBytes_FromStringAndSize(c.bytes + c.head.method_text.start, c.head.method_text.size)
        return self.files.slow(method, path, query, fields)

    # ---- looking in, ending ------------------------------------------------------------------------------------------

    def drain(self):
        """Take nothing more: every answer from now on is the last one of its connection.

        Connections between two requests get `linger` to send one that is under way, and are closed then.
        """
        c: cython.pointer[EngineC] = cython.address(self.c)
        conn: cython.pointer[HttpC] = c.first
        self.loop.check()
        c.draining = True
        until_ns: int64_t = clock_now(c.loop.clock) + c.state_ns[STATE_LINGER]
        while conn != cython.NULL:
            idle: cython.bint = conn.state == STATE_IDLE or conn.state == STATE_FRESH
            if idle and conn.stream.deadline_ns > until_ns:
                conn.stream.deadline_ns = until_ns
                stream_arm(conn.stream)
            conn = conn.next
        if c.open == 0 and self.on_idle is not None:
            self.on_idle()

    def abort(self):
        """End all connections at once; what waits is refused."""
        c: cython.pointer[EngineC] = cython.address(self.c)
        admission_drain(c.admission, clock_now(c.loop.clock))
        feed_expired(c)
        conn: cython.pointer[HttpC] = c.first
        while conn != cython.NULL:
            conn.stream.reset = True
            stream_end(conn.stream, END_ABORTED, 0)
            stream_note(conn.stream)
            conn = conn.next

    def descriptors(self):
        """The numbers of the descriptors of all connections, for who forks and must close them in the child."""
        numbers = []
        conn: cython.pointer[HttpC] = self.c.first
        while conn != cython.NULL:
            numbers.append(conn.stream.fd)
            conn = conn.next
        return numbers

    @property
    def open(self):
        """Connections that are open."""
        return self.c.open

    @property
    def draining(self):
        """Whether it takes nothing more."""
        return bool(self.c.draining)

    def counters(self):
        """Everything that is counted."""
        return tally(cython.address(self.c))

    def recount(self):
        """Count anew, from the connections themselves, what `counters` knows by book: for tests and in doubt."""
        return tally_again(cython.address(self.c))

    def __repr__(self):
        return f"<Engine, {self.open:,} connections{', draining' * self.c.draining}>"


# ---- small pieces ----------------------------------------------------------------------------------------------------


@cython.cfunc
def _text(text: bytes) -> cython.p_char:
    """A copy of bytes for the native half; NULL for none."""
    size: cython.size_t = len(text)
    if size == 0:
        return cython.NULL
    copy: cython.p_char = cython.cast(cython.p_char, malloc(size))
    if copy == cython.NULL:
        raise MemoryError("no memory for a path")
    memcpy(copy, PyBytes_AS_STRING(text), size)
    return copy
