# cython: language_level=3
"""How answers leave: heads and small content are gathered and sent together, large content from where it lies.

Everything that one call makes for a connection is put into the engine's one output; at the end of the call it is handed
to the stream in one send. Content beyond COPY_MAX_BYTES becomes a source: a place in memory or in a file, which is sent
when everything before it is, as fast as the peer takes it, and never copied into a buffer. So a connection that does not
take its answer holds the answer's head and a place.

This file must not know what a request means, nor touch an object of the interpreter but to hand it back.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint16_t, uint32_t
from cython.cimports.libc.stdio import snprintf
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy, memset, strlen
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.core.system import EAGAIN, EINTR, close, platform_sendfile
from cython.cimports.penstock.http.dates import date_format
from cython.cimports.penstock.http.engine_system import pread
from cython.cimports.penstock.http.files import files_release
from cython.cimports.penstock.http.types import (
    METHOD_HEAD,
    NEED_RELEASE,
    AnswerC,
    EngineC,
    HeadC,
    HttpC,
    OutputC,
    SourceC,
)
from cython.cimports.penstock.net.buffer import buffer_waiting
from cython.cimports.penstock.net.system import ENOBUFS, EWOULDBLOCK, NET_MORE_FLAG, iovec
from cython.cimports.penstock.net.transfer import stream_end, stream_note, stream_send, stream_sent, stream_write
from cython.cimports.penstock.net.types import (
    END_ABORTED,
    END_ERROR,
    END_RESET,
    PULL_BLOCKED,
    PULL_DONE,
    PULL_MORE,
    STREAM_OVER,
    TELL_NATIVE,
)

from penstock import limits

CAPACITY = cython.declare(uint32_t, limits.HTTP_OUTPUT_BYTES)
COPY_MAX = cython.declare(int64_t, limits.HTTP_COPY_MAX_BYTES)
SHARE = cython.declare(int64_t, limits.HTTP_SEND_SHARE_BYTES)
SOURCES_KEPT = cython.declare(uint32_t, limits.HTTP_SOURCES_KEPT)
SECOND_NS = cython.declare(int64_t, limits.NS_PER_S)
EXPIRES_BYTES = cython.declare(cython.int, 40)
PIECE = cython.declare(cython.int, 16384)
if PIECE != limits.HTTP_PIECE_BYTES:
    raise AssertionError("an array in _send_secure does not have HTTP_PIECE_BYTES places")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def output_open(engine: cython.pointer[EngineC]) -> cython.int:
    """Room for one call's answers; -1 if there is no memory."""
    engine.out.data = cython.cast(cython.p_char, malloc(CAPACITY))
    engine.out.size = 0
    engine.out.capacity = CAPACITY
    engine.stamp_due_ns = 0
    engine.stamp_size = 0
    return -1 if engine.out.data == cython.NULL else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def output_close(engine: cython.pointer[EngineC]) -> cython.void:
    """Give all memory back; no connection may be left."""
    source: cython.pointer[SourceC]
    free(engine.out.data)
    engine.out.data = cython.NULL
    while engine.free_sources != cython.NULL:
        source = engine.free_sources
        engine.free_sources = source.next
        free(source)


# ---- bytes -----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _hand_over(
    conn: cython.pointer[HttpC], data: cython.p_const_char, size: cython.size_t, more: cython.bint
) -> cython.void:
    """Give bytes to the stream; what it cannot send now it keeps."""
    piece: iovec
    sent: cython.Py_ssize_t
    if conn.tls != cython.NULL:
        conn.engine.tls_send(conn, data, size)
        return
    piece.iov_base = cython.cast(cython.p_void, data)
    piece.iov_len = size
    if more and NET_MORE_FLAG and buffer_waiting(cython.address(conn.stream.out)) == 0:
        sent = stream_send(conn.stream, cython.address(piece), 1, NET_MORE_FLAG)
        if sent == cython.cast(cython.Py_ssize_t, size):
            return
        if sent > 0:
            piece.iov_base = cython.cast(cython.p_void, data + sent)
            piece.iov_len = size - sent
    stream_write(conn.stream, cython.address(piece), 1, piece.iov_len)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def output_flush(conn: cython.pointer[HttpC], more: cython.bint) -> cython.bint:
    """Send what was gathered. True if the system has taken everything."""
    out: cython.pointer[OutputC] = cython.address(conn.engine.out)
    if out.size > 0:
        size: uint32_t = out.size
        out.size = 0
        if conn.stream.state < STREAM_OVER:
            _hand_over(conn, out.data, size, more)
    return buffer_waiting(cython.address(conn.stream.out)) == 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def output_put(conn: cython.pointer[HttpC], data: cython.p_const_char, size: cython.size_t) -> cython.int:
    """Gather bytes."""
    out: cython.pointer[OutputC] = cython.address(conn.engine.out)
    if size > out.capacity - out.size:
        output_flush(conn, True)
        if size > out.capacity:
            if conn.stream.state < STREAM_OVER:
                _hand_over(conn, data, size, True)
            return 0
    memcpy(out.data + out.size, data, size)
    out.size += cython.cast(uint32_t, size)
    return 0


# ---- heads -----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _stamp(engine: cython.pointer[EngineC]) -> cython.void:
    """Make the fields that change once a second."""
    now_ns: int64_t = engine.loop.now_ns
    wall_ns: int64_t = clock_now(engine.loop.clock) + engine.wall_offset_ns
    memcpy(engine.stamp, b"Date: ", 6)
    date_format(wall_ns // SECOND_NS, engine.stamp + 6)
    memcpy(engine.stamp + 35, b"\r\nServer: penstock\r\n", 20)
    engine.stamp_size = 55
    if engine.files != cython.NULL and engine.files.expires_s >= 0:
        memcpy(engine.expires, b"Expires: ", 9)
        date_format(wall_ns // SECOND_NS + engine.files.expires_s, engine.expires + 9)
        memcpy(engine.expires + 38, b"\r\n", 2)
    engine.stamp_due_ns = now_ns + SECOND_NS - wall_ns % SECOND_NS


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def output_fields(conn: cython.pointer[HttpC], asked_to_stay: cython.bint) -> cython.int:
    """The fields that every answer has, and the empty line."""
    engine: cython.pointer[EngineC] = conn.engine
    if engine.loop.now_ns >= engine.stamp_due_ns:
        _stamp(engine)
    output_put(conn, engine.stamp, engine.stamp_size)
    if conn.last:
        return output_put(conn, b"Connection: close\r\n\r\n", 21)
    if asked_to_stay:
        # A client of HTTP/1.0, which would otherwise expect the end.
        return output_put(conn, b"Connection: keep-alive\r\n\r\n", 26)
    return output_put(conn, b"\r\n", 2)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_expires(conn: cython.pointer[HttpC], status: uint16_t) -> cython.void:
    """Until when a file may be kept, for those who do not know Cache-Control."""
    engine: cython.pointer[EngineC] = conn.engine
    if status == 200 or status == 206 or status == 304:
        if engine.loop.now_ns >= engine.stamp_due_ns:
            _stamp(engine)
        output_put(conn, engine.expires, EXPIRES_BYTES)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _status_line(status: cython.int) -> cython.p_const_char:
    """The first line and fields of what the server itself answers."""
    if status == 503:
        return b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
    if status == 400:
        return b"HTTP/1.1 400 Bad Request\r\n"
    if status == 404:
        return b"HTTP/1.1 404 Not Found\r\n"
    if status == 405:
        return b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD, OPTIONS\r\n"
    if status == 408:
        return b"HTTP/1.1 408 Request Timeout\r\n"
    if status == 413:
        return b"HTTP/1.1 413 Content Too Large\r\n"
    if status == 414:
        return b"HTTP/1.1 414 URI Too Long\r\n"
    if status == 417:
        return b"HTTP/1.1 417 Expectation Failed\r\n"
    if status == 431:
        return b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    if status == 501:
        return b"HTTP/1.1 501 Not Implemented\r\n"
    if status == 504:
        return b"HTTP/1.1 504 Gateway Timeout\r\n"
    if status == 505:
        return b"HTTP/1.1 505 HTTP Version Not Supported\r\n"
    return b"HTTP/1.1 500 Internal Server Error\r\n"


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def output_plain(
    conn: cython.pointer[HttpC], status: cython.int, reason: cython.p_const_char, bodiless: cython.bint
) -> cython.int:
    """Answer with a status and a sentence of the server's own."""
    field: cython.char[64]
    line: cython.p_const_char = _status_line(status)
    size: cython.size_t = strlen(reason)
    count: cython.int = snprintf(field, 64, b"Content-Type: text/plain\r\nContent-Length: %zu\r\n", size + 1)
    output_put(conn, line, strlen(line))
    output_put(conn, field, count)
    output_fields(conn, False)
    if bodiless:
        return 0
    output_put(conn, reason, size)
    return output_put(conn, b"\n", 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def output_answer(conn: cython.pointer[HttpC], head: cython.pointer[cython.const[HeadC]]) -> int64_t:
    """Send what files.py has made into the engine's answer; the number of bytes of its content."""
    engine: cython.pointer[EngineC] = conn.engine
    answer: cython.pointer[AnswerC] = cython.address(engine.answer)
    source: cython.pointer[SourceC]
    size: int64_t = 0 if head.method == METHOD_HEAD else answer.size
    if answer.close:
        conn.last = True
    if answer.shared != cython.NULL:
        output_put(conn, answer.shared, answer.shared_size)
    else:
        output_put(conn, answer.head, answer.head_size)
    if engine.files.expires_s >= 0:
        _put_expires(conn, answer.status)
    output_fields(conn, head.minor == 0 and not conn.last)
    if size > 0 and answer.fd < 0 and size <= COPY_MAX:
        output_put(conn, answer.body, size)
    elif size > 0:
        source = source_add(conn, size)
        if source == cython.NULL:
            # The head has promised what cannot be sent.
            conn.stream.reset = True
            stream_end(conn.stream, END_ERROR, 0)
        else:
            source.data = answer.body
            source.fd = answer.fd
            source.offset = answer.offset if answer.fd >= 0 else 0
            source.entry = answer.entry
            answer.entry = cython.NULL
    if answer.entry != cython.NULL:
        files_release(engine.files, answer.entry)
        answer.entry = cython.NULL
    return size


# ---- sources ---------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def source_add(conn: cython.pointer[HttpC], size: int64_t) -> cython.pointer[SourceC]:
    """A place for content that is sent after everything that is there by now; NULL if there is no memory."""
    engine: cython.pointer[EngineC] = conn.engine
    source: cython.pointer[SourceC] = engine.free_sources
    if source != cython.NULL:
        engine.free_sources = source.next
        engine.sources_free -= 1
    else:
        source = cython.cast(cython.pointer[SourceC], malloc(cython.sizeof(SourceC)))
        if source == cython.NULL:
            return cython.NULL
    engine.sources_live += 1
    memset(source, 0, cython.sizeof(SourceC))
    source.fd = -1
    source.left = size
    if conn.last_source == cython.NULL:
        conn.first_source = source
    else:
        conn.last_source.next = source
    conn.last_source = source
    return source


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _retire(conn: cython.pointer[HttpC]) -> cython.void:
    """The first source is done with."""
    engine: cython.pointer[EngineC] = conn.engine
    source: cython.pointer[SourceC] = conn.first_source
    engine.sources_live -= 1
    conn.first_source = source.next
    if conn.first_source == cython.NULL:
        conn.last_source = cython.NULL
    if source.owns_fd:
        close(source.fd)
    if source.entry != cython.NULL:
        files_release(engine.files, source.entry)
    if source.owner != cython.NULL:
        source.next = engine.dead_sources
        engine.dead_sources = source
        conn.need |= NEED_RELEASE
        conn.stream.tell |= TELL_NATIVE
        if not conn.feeding:
            stream_note(conn.stream)
    elif engine.sources_free < SOURCES_KEPT:
        source.next = engine.free_sources
        engine.free_sources = source
        engine.sources_free += 1
    else:
        free(source)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def sources_drop(conn: cython.pointer[HttpC]) -> cython.void:
    """Nothing of them will be sent any more."""
    while conn.first_source != cython.NULL:
        _retire(conn)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def sources_left(conn: cython.pointer[cython.const[HttpC]]) -> int64_t:
    """Bytes that were promised and are not sent."""
    left: int64_t = 0
    source: cython.pointer[SourceC] = conn.first_source
    while source != cython.NULL:
        left += source.left
        source = source.next
    return left


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _send_secure(conn: cython.pointer[HttpC], source: cython.pointer[SourceC], wanted: int64_t) -> cython.Py_ssize_t:
    """Encrypt a piece of a source; the stream keeps what it cannot send, so one piece at a time."""
    buffer: cython.char[16384]
    got: cython.Py_ssize_t = min(wanted, PIECE)
    if source.fd < 0:
        conn.engine.tls_send(conn, source.data + source.offset, got)
        return got
    got = pread(source.fd, buffer, got, source.offset)
    if got > 0:
        conn.engine.tls_send(conn, buffer, got)
    return got


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _send_source(conn: cython.pointer[HttpC], source: cython.pointer[SourceC], wanted: int64_t) -> cython.Py_ssize_t:
    """Send up to `wanted` bytes of a source: how many, 0 if its file has ended, -EAGAIN or another -errno."""
    piece: iovec
    sent: cython.Py_ssize_t
    if conn.tls != cython.NULL:
        if buffer_waiting(cython.address(conn.stream.out)) > 0:
            return -EAGAIN
        return _send_secure(conn, source, wanted)
    if source.fd < 0:
        piece.iov_base = cython.cast(cython.p_void, source.data + source.offset)
        piece.iov_len = wanted
        sent = stream_send(conn.stream, cython.address(piece), 1, 0)
        return -EAGAIN if sent == 0 else sent
    conn.stream.net.sends += 1
    sent = platform_sendfile(conn.stream.fd, source.fd, source.offset, wanted)
    if sent > 0:
        stream_sent(conn.stream, sent)
    return sent


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def sources_send(conn: cython.pointer[HttpC]) -> cython.int:
    """Send from the sources up to a share: PULL_DONE, PULL_BLOCKED or PULL_MORE. Everything before them must be sent."""
    share: int64_t = SHARE
    sent: cython.Py_ssize_t
    source: cython.pointer[SourceC]
    while conn.first_source != cython.NULL:
        source = conn.first_source
        while source.left > 0:
            if share <= 0:
                return PULL_MORE
            sent = _send_source(conn, source, min(source.left, share))
            if sent == -EINTR:
                continue
            if sent in (-EAGAIN, -EWOULDBLOCK, -ENOBUFS):
                return PULL_BLOCKED
            if sent <= 0:
                # A file that ends too early breaks the promise of the head; only the end of the connection can say so.
                if sent == 0:
                    conn.engine.truncated += 1
                    conn.stream.reset = True
                stream_end(conn.stream, END_ABORTED if sent == 0 else END_RESET, cython.cast(cython.int, -sent))
                return PULL_DONE
            source.offset += sent
            source.left -= sent
            share -= sent
        _retire(conn)
    return PULL_DONE
