# cython: language_level=3
"""What is counted and logged of each answer.

An answer that has left is one line of the log; one that the peer has still to take waits for its end with the texts it
needs, so that the log says what was sent and how long it took. This file must not know how a line looks.
"""

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.http.engine_system import peer_text
from cython.cimports.penstock.http.log import log_line
from cython.cimports.penstock.http.output import sources_left
from cython.cimports.penstock.http.types import (
    ADDRESS_INTERNET,
    FIELD_REFERER,
    FIELD_USER_AGENT,
    HeadC,
    HttpC,
    LineC,
    LogLineC,
    SpanC,
)

PEER_MAX = cython.declare(cython.int, 108)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def account_peer(conn: cython.pointer[HttpC]) -> cython.void:
    """See to it that the peer's name is there, if it can be had."""
    if conn.peer == cython.NULL:
        conn.peer = cython.cast(cython.p_char, malloc(PEER_MAX))
        if conn.peer != cython.NULL:
            conn.peer_size = peer_text(conn.stream.fd, conn.peer, PEER_MAX, 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _field(head: cython.pointer[cython.const[HeadC]], known: cython.int, span: cython.pointer[SpanC]) -> cython.void:
    span.start = 0
    span.size = 0
    if head.first[known]:
        span[0] = head.fields[head.first[known] - 1].value


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill(
    line: cython.pointer[LogLineC],
    conn: cython.pointer[HttpC],
    head: cython.pointer[cython.const[HeadC]],
    bytes: cython.p_const_char,
) -> cython.void:
    span: SpanC
    account_peer(conn)
    memset(line, 0, cython.sizeof(LogLineC))
    line.peer = conn.peer
    line.peer_size = conn.peer_size
    if head == cython.NULL:
        return
    if conn.via != cython.NULL and conn.via.client.kind == ADDRESS_INTERNET:
        line.peer = conn.via.text
        line.peer_size = conn.via.size
    line.method = bytes + head.method_text.start
    line.method_size = head.method_text.size
    line.target = bytes + head.target.start
    line.target_size = head.target.size
    _field(head, FIELD_REFERER, cython.address(span))
    line.referer = bytes + span.start
    line.referer_size = span.size
    _field(head, FIELD_USER_AGENT, cython.address(span))
    line.agent = bytes + span.start
    line.agent_size = span.size
    line.minor = head.minor


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _copy(place: cython.p_char, text: cython.pointer[cython.p_const_char], size: cython.size_t) -> cython.p_char:
    if size > 0:
        memcpy(place, text[0], size)
    text[0] = place
    return place + size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _keep(conn: cython.pointer[HttpC], line: cython.pointer[LogLineC]) -> cython.void:
    """Keep a line until its answer is complete. Without memory for it, it is written as if it were."""
    texts: cython.size_t = line.method_size + line.target_size + line.referer_size + line.agent_size
    kept: cython.pointer[LineC] = cython.cast(cython.pointer[LineC], malloc(cython.sizeof(LineC) + texts))
    if kept == cython.NULL:
        log_line(conn.engine.log, line)
        return
    kept.line = line[0]
    place: cython.p_char = cython.cast(cython.p_char, kept) + cython.sizeof(LineC)
    place = _copy(place, cython.address(kept.line.method), line.method_size)
    place = _copy(place, cython.address(kept.line.target), line.target_size)
    place = _copy(place, cython.address(kept.line.referer), line.referer_size)
    _copy(place, cython.address(kept.line.agent), line.agent_size)
    conn.line = kept


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def account_answer(
    conn: cython.pointer[HttpC],
    head: cython.pointer[cython.const[HeadC]],
    bytes: cython.p_const_char,
    status: cython.int,
    size: int64_t,
) -> cython.void:
    """An answer is made, with so many bytes of content by now; `head` is NULL for what was no request."""
    line: LogLineC
    now_ns: int64_t
    conn.engine.answers[status // 100 % 6] += 1
    conn.engine.sent_content += size
    if head == cython.NULL:
        conn.engine.unasked += 1
    if conn.engine.log == cython.NULL:
        return
    account_end(conn)
    _fill(cython.address(line), conn, head, bytes)
    now_ns = clock_now(conn.engine.loop.clock)
    line.status = status
    line.sent_bytes = size
    line.wall_ns = now_ns + conn.engine.wall_offset_ns
    line.took_ns = now_ns - conn.arrival_ns
    if conn.first_source != cython.NULL or (conn.request != cython.NULL and not conn.request.finished):
        _keep(conn, cython.address(line))
    else:
        log_line(conn.engine.log, cython.address(line))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def account_end(conn: cython.pointer[HttpC]) -> cython.void:
    """The answer that was not complete is, or will never be."""
    kept: cython.pointer[LineC] = conn.line
    now_ns: int64_t
    if kept == cython.NULL:
        return
    conn.line = cython.NULL
    now_ns = clock_now(conn.engine.loop.clock)
    if conn.request != cython.NULL and conn.request.answered:
        kept.line.sent_bytes = conn.request.sent
    kept.line.sent_bytes -= min(cython.cast(int64_t, kept.line.sent_bytes), sources_left(conn))
    kept.line.took_ns += now_ns + conn.engine.wall_offset_ns - kept.line.wall_ns
    kept.line.wall_ns = now_ns + conn.engine.wall_offset_ns
    log_line(conn.engine.log, cython.address(kept.line))
    free(kept)
