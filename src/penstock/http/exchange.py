# cython: language_level=3
"""A request that outlives the call which received it: its memory, and how a program sees it.

`RequestC` is made by the native half when a request is for the program. `Request` is made when the program's turn comes,
and owns the record from then on; when the connection ends before the answer, the record is cut off from it and the
program finds `gone` true.

This file must not know sockets, nor how an answer is sent.
"""

import io
import os

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.ref import Py_INCREF, PyObject
from cython.cimports.cpython.unicode import PyUnicode_DecodeLatin1
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.libc.stdlib import free, malloc, realloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.penstock.core.system import PyThread_get_thread_ident, close, platform_nameless_file, write
from cython.cimports.penstock.http.types import (
    SCHEME_HTTPS,
    SCHEME_OWN,
    EngineC,
    FieldC,
    HeadC,
    HttpC,
    RecordsC,
    RequestC,
    SpanC,
)
from cython.cimports.penstock.net.system import ATOMIC_RELAXED, atomic_add

from penstock import limits
from penstock.errors import UsageError

KEPT = cython.declare(cython.uint, limits.HTTP_REQUESTS_KEPT)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def exchange_new(
    engine: cython.pointer[EngineC],
    conn: cython.pointer[HttpC],
    head: cython.pointer[cython.const[HeadC]],
    bytes: cython.p_const_char,
) -> cython.pointer[RequestC]:
    """A record of a request, with a copy of its head; NULL if there is no memory."""
    records: cython.pointer[RecordsC] = engine.records
    request: cython.pointer[RequestC] = records.first
    if request != cython.NULL:
        records.first = request.next
        records.kept -= 1
    else:
        request = cython.cast(cython.pointer[RequestC], malloc(cython.sizeof(RequestC)))
        if request == cython.NULL:
            return cython.NULL
    # All but the head, which is copied over it.
    memset(request, 0, cython.sizeof(RequestC) - cython.sizeof(HeadC))
    request.bytes = cython.cast(cython.p_char, malloc(head.size))
    if request.bytes == cython.NULL:
        free(request)
        return cython.NULL
    memcpy(request.bytes, bytes, head.size)
    memcpy(cython.address(request.head), head, cython.sizeof(HeadC))
    request.size = head.size
    request.engine = engine
    request.records = records
    request.conn = conn
    request.promised = -1
    request.spool = -1
    request.work.owner = request
    atomic_add(cython.address(records.live), 1, ATOMIC_RELAXED)
    atomic_add(cython.address(records.owners), 1, ATOMIC_RELAXED)
    return request


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def exchange_free(request: cython.pointer[RequestC]) -> cython.void:
    """Give a record back; nobody may know it any more."""
    records: cython.pointer[RecordsC] = request.records
    _empty(request)
    if not records.closed and records.kept < KEPT:
        request.next = records.first
        records.first = request
        records.kept += 1
    else:
        free(request)
    _disown(records)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _empty(request: cython.pointer[RequestC]) -> cython.void:
    """Give back what a record holds."""
    free(request.bytes)
    free(request.content)
    if request.spool >= 0:
        close(request.spool)
    atomic_add(cython.address(request.records.live), -1, ATOMIC_RELAXED)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _disown(records: cython.pointer[RecordsC]) -> cython.void:
    if atomic_add(cython.address(records.owners), -1, ATOMIC_RELAXED) == 0:
        free(records)


@cython.cfunc
@cython.exceptval(check=False)
def exchange_open(engine: cython.pointer[EngineC]) -> cython.int:
    """Make the place for an engine's records; -1 if there is no memory."""
    engine.records = cython.cast(cython.pointer[RecordsC], malloc(cython.sizeof(RecordsC)))
    if engine.records == cython.NULL:
        return -1
    memset(engine.records, 0, cython.sizeof(RecordsC))
    engine.records.owners = 1
    engine.records.thread = PyThread_get_thread_ident()
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def exchange_close(engine: cython.pointer[EngineC]) -> cython.void:
    """The engine goes. Requests that a program still keeps, or a collector has yet to find, know nothing of it any more."""
    records: cython.pointer[RecordsC] = engine.records
    request: cython.pointer[RequestC]
    if records == cython.NULL:
        return
    engine.records = cython.NULL
    records.closed = True
    while records.first != cython.NULL:
        request = records.first
        records.first = request.next
        free(request)
    _disown(records)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def exchange_keep(
    request: cython.pointer[RequestC], data: cython.p_const_char, size: cython.size_t, most: uint64_t
) -> cython.int:
    """Keep a piece of content. -1: that is more than may be kept, or there is no memory."""
    needed: uint64_t = request.content_size + size
    if needed > most:
        return -1
    if needed > request.content_capacity:
        capacity: uint64_t = max(needed, min(2 * request.content_capacity, most))
        grown: cython.p_char = cython.cast(cython.p_char, realloc(request.content, capacity))
        if grown == cython.NULL:
            return -1
        request.content = grown
        request.content_capacity = capacity
    memcpy(request.content + request.content_size, data, size)
    request.content_size = needed
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _write_all(fd: cython.int, data: cython.p_const_char, size: cython.size_t) -> cython.int:
    written: cython.Py_ssize_t
    while size > 0:
        written = write(fd, data, size)
        if written <= 0:
            return -1
        data += written
        size -= written
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def exchange_spool(request: cython.pointer[RequestC], data: cython.p_const_char, size: cython.size_t) -> cython.int:
    """Keep a piece of content in a file without a name, and what is in memory before it. -1: the disk does not take it."""
    if request.spool < 0:
        request.spool = platform_nameless_file()
        if request.spool < 0:
            request.spool = -1
            return -1
        if _write_all(request.spool, request.content, request.content_size) < 0:
            return -1
        request.spooled = request.content_size
        free(request.content)
        request.content = cython.NULL
        request.content_size = 0
        request.content_capacity = 0
    request.spooled += size
    return _write_all(request.spool, data, size)


# ---- what a program sees ---------------------------------------------------------------------------------------------


@cython.cfunc
def request_for(c: cython.pointer[RequestC], engine, peer: str) -> Request:
    """The object for a request; it owns the record from now on, and lives until that is answered or cut off."""
    request: Request = Request.__new__(Request)
    request.c = c
    request.engine = engine
    request.peer = peer
    c.object = cython.cast(cython.pointer[PyObject], request)
    c.begun = True
    c.owned = True
    Py_INCREF(request)
    return request


class Request:
    """A request: method, target, fields and content, and the way to answer it later.

    A handler that returns a `Response` has answered it. One that returns None answers by `respond(response)` when it is
    ready, from the loop's thread.
    """

    def __cinit__(self):
        self.c = cython.NULL

    def __init__(self):
        raise UsageError("a Request is made by the server; to test a handler, serve it on a simulated or real socket")

    def __dealloc__(self):
        if self.c != cython.NULL:
            self.c.object = cython.NULL
            # Not a word of the engine here: a collector may have taken it away before.
            records: cython.pointer[RecordsC] = self.c.records
            if PyThread_get_thread_ident() == records.thread:
                exchange_free(self.c)
            else:
                # A thread that worked for the program was the last to know it; the free list is the loop's own.
                _empty(self.c)
                free(self.c)
                _disown(records)

    def _text(self, span: SpanC):
        return PyUnicode_DecodeLatin1(self.c.bytes + span.start, span.size, cython.NULL)

    # ---- what was asked ----------------------------------------------------------------------------------------------

    @property
    def method(self):
        """The method, as it came."""
        return self._text(self.c.head.method_text)

    @property
    def target(self):
        """What was asked for, as it came."""
        return self._text(self.c.head.target)

    @property
    def path(self):
        """The path of the target, not decoded; "*" for the server as a whole."""
        return self._text(self.c.head.path) if self.c.head.path.size else "*"

    @property
    def query(self):
        """What follows the question mark, not decoded; empty without one."""
        return self._text(self.c.head.query)

    @property
    def host(self):
        """The host that was asked, with its port if it has one."""
        return self._text(self.c.head.host)

    @property
    def version(self):
        """The version of the protocol: "1.0" or "1.1"."""
        return "1.0" if self.c.head.minor == 0 else "1.1"

    @property
    def scheme(self):
        """How the request came, to us or to the trusted proxy that passes it on: "http" or "https"."""
        if self.c.scheme != SCHEME_OWN:
            return "https" if self.c.scheme == SCHEME_HTTPS else "http"
        return "https" if self.c.engine.secure else "http"

    @property
    def certificate(self):
        """What the client has shown of itself on a private connection, as the ssl module tells it; or None."""
        if self.c.conn == cython.NULL or self.c.conn.tls == cython.NULL:
            return None
        return cython.cast(object, self.c.conn.tls).certificate

    @property
    def headers(self):
        """The fields in their order, as pairs of name and value."""
        c: cython.pointer[RequestC] = self.c
        pairs = []
        index: cython.int
        for index in range(c.head.field_count):
            field: cython.pointer[FieldC] = cython.address(c.head.fields[index])
            pairs.append((self._text(field.name), self._text(field.value)))
        return pairs

    def header(self, name: str, default=None):
        """The value of a field; several of that name are joined by commas."""
        wanted = name.lower()
        values = [value for key, value in self.headers if key.lower() == wanted]
        return ", ".join(values) if values else default

    @property
    def content_length(self):
        """The length that was announced; None without content, or if it comes in chunks."""
        return self.c.head.length if self.c.head.has_length else None

    @property
    def body(self):
        """The content, as far as it has come and was not taken by `receive`."""
        if self.c.spool >= 0:
            with self.open_body() as file:
                return file.read()
        return PyBytes_FromStringAndSize(self.c.content, self.c.content_size)

    def open_body(self):
        """The content as a binary file to read from, wherever it is kept; one such file at a time."""
        if self.c.spool < 0:
            return io.BytesIO(self.body)
        file = os.fdopen(os.dup(self.c.spool), "rb")
        file.seek(0)
        return file

    @property
    def body_bytes(self):
        """How much content there is by now."""
        return self.c.spooled if self.c.spool >= 0 else self.c.content_size

    @property
    def arrival_ns(self):
        """When it had arrived, by the loop's clock."""
        return self.c.work.arrival_ns

    # ---- what becomes of it ------------------------------------------------------------------------------------------

    @property
    def gone(self):
        """Whether there is nobody any more to be answered."""
        return self.c.conn == cython.NULL

    @property
    def answered(self):
        """Whether an answer has begun."""
        return bool(self.c.answered)

    def respond(self, response):
        """Answer it. False if the connection is gone."""
        return self.engine.respond(self, response)

    def resume(self):
        """Have the answer's iterable asked for more, after it has yielded `WAIT`. From the loop's thread."""
        self.engine.resume(self)

    def receive(self, on_content):
        """Have `on_content(bytes)` called with the content as it comes, and `on_content(None)` at its end.

        Only for a server that streams requests. What the callback does not take fast enough makes the peer wait.
        """
        self.engine.receive(self, on_content)

    def watch(self, on_gone):
        """Have `on_gone()` called if the connection ends before the answer is complete."""
        self.on_gone = on_gone

    def __repr__(self):
        return f"<Request {self.method} {self.target} from {self.peer}>"
