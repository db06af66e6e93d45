# cython: language_level=3
"""What is done with a request whose head is complete: answered at once, or made a record that waits for the program.

A request for a file is answered here, without the interpreter. One for the program gets its content, then a place in the
admission's queue; content that nobody wants is received and thrown away. What the server has to say itself is one
sentence.

This file must not touch an object of the interpreter, nor know where bytes come from.
"""

import cython
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint64_t
from cython.cimports.libc.string import memcmp
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.core.system import platform_data_age_ns
from cython.cimports.penstock.http.account import account_answer
from cython.cimports.penstock.http.admission import admission_offer, admission_withdraw
from cython.cimports.penstock.http.arrival import arrival_request
from cython.cimports.penstock.http.body import body_begin, body_feed
from cython.cimports.penstock.http.engine_system import peer_hash
from cython.cimports.penstock.http.exchange import exchange_free, exchange_keep, exchange_new, exchange_spool
from cython.cimports.penstock.http.files import files_answer
from cython.cimports.penstock.http.output import (
    output_answer,
    output_fields,
    output_flush,
    output_plain,
    output_put,
    sources_send,
)
from cython.cimports.penstock.http.progress import step, step_end, step_tell, step_wants
from cython.cimports.penstock.http.types import (
    ADDRESS_INTERNET,
    BODY_BAD,
    BODY_DONE,
    BODY_PIECE,
    EVENT_ASK,
    EVENT_CONTENT,
    EVENT_REPLY,
    EVENT_STALL,
    METHOD_CONNECT,
    METHOD_GET,
    METHOD_HEAD,
    METHOD_OPTIONS,
    METHOD_OTHER,
    NEED_CONTENT,
    NEED_WORK,
    REFUSE_NONE,
    STATE_QUEUED,
    TARGET_ASTERISK,
    EngineC,
    HeadC,
    HttpC,
    RequestC,
    WorkC,
)
from cython.cimports.penstock.net.types import END_ERROR, PULL_BLOCKED, PULL_DONE, PULL_MORE, STREAM_OVER

LAG_NS = cython.declare(int64_t, 500000)


# ---- answers of the server's own -------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ask_plain(
    conn: cython.pointer[HttpC],
    head: cython.pointer[cython.const[HeadC]],
    bytes: cython.p_const_char,
    status: cython.int,
    reason: cython.p_const_char,
) -> cython.void:
    """Answer with a sentence; the connection goes on unless it was said before that this is the last answer."""
    bodiless: cython.bint = head != cython.NULL and head.method == METHOD_HEAD
    output_plain(conn, status, reason, bodiless)
    account_answer(conn, head, bytes, status, 0)
    step(conn, EVENT_REPLY)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ask_blindly(
    conn: cython.pointer[HttpC],
    head: cython.pointer[cython.const[HeadC]],
    status: cython.int,
    reason: cython.p_const_char,
) -> cython.void:
    """Answer a head that is not complete, or that makes no sense. Of it only the method counts: HEAD gets no content."""
    conn.last = True
    output_plain(conn, status, reason, head != cython.NULL and head.method == METHOD_HEAD)
    account_answer(conn, cython.NULL, b"", status, 0)
    step(conn, EVENT_REPLY)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ask_bad(conn: cython.pointer[HttpC], head: cython.pointer[cython.const[HeadC]]) -> cython.void:
    """Bytes that are no request: answer, and look at nothing more."""
    conn.engine.bad_requests += 1
    ask_blindly(conn, head, head.status, head.reason)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ask_give_up(conn: cython.pointer[HttpC], status: cython.int, reason: cython.p_const_char) -> cython.void:
    """The request that the connection has comes to nothing: answer for it, and that is the last answer."""
    request: cython.pointer[RequestC] = conn.request
    conn.last = True
    conn.request = cython.NULL
    request.conn = cython.NULL
    if request.answered:
        # An answer has begun; only the end of the connection can say that there will be no more of it.
        conn.engine.aborted += 1
        conn.stream.reset = True
        step_end(conn, END_ERROR)
    else:
        ask_plain(conn, cython.address(request.head), request.bytes, status, reason)
    if request.object != cython.NULL:
        conn.cut = request
        request.cut_from = conn
        return
    admission_withdraw(conn.engine.admission, cython.address(request.work))
    exchange_free(request)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ask_refuse(request: cython.pointer[RequestC], why: cython.int) -> cython.void:
    conn: cython.pointer[HttpC] = request.conn
    conn.engine.refused[why] += 1
    conn.rebuffed = True
    conn.request = cython.NULL
    if request.streaming and not request.complete:
        conn.last = True
    ask_plain(conn, cython.address(request.head), request.bytes, 503, b"The server is busy; try again later.")
    exchange_free(request)


# ---- requests --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _for_files(engine: cython.pointer[EngineC], head: cython.pointer[HeadC], bytes: cython.p_const_char) -> cython.bint:
    """Whether the path is one of the files'; what stands before it is cut off."""
    if engine.files == cython.NULL:
        return False
    if engine.prefix_size == 0:
        return True
    if head.path.size < engine.prefix_size or memcmp(bytes + head.path.start, engine.prefix, engine.prefix_size) != 0:
        return False
    # The prefix ends with a slash, with which the path of the file begins.
    head.path.start += engine.prefix_size - 1
    head.path.size -= engine.prefix_size - 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _allowed(
    conn: cython.pointer[HttpC], head: cython.pointer[cython.const[HeadC]], bytes: cython.p_const_char
) -> cython.void:
    """Answer OPTIONS for files, or for the server as a whole."""
    text: cython.p_const_char = b"HTTP/1.1 204 No Content\r\nAllow: GET, HEAD, OPTIONS\r\n"
    output_put(conn, text, 52)
    _fields(conn, head)
    account_answer(conn, head, bytes, 204, 0)
    step(conn, EVENT_REPLY)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fields(conn: cython.pointer[HttpC], head: cython.pointer[cython.const[HeadC]]) -> cython.void:
    output_fields(conn, head.minor == 0 and not conn.last)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ask_push(conn: cython.pointer[HttpC]) -> cython.void:
    """Send what was gathered and the sources behind it; what does not leave now makes the connection wait."""
    outcome: cython.int = PULL_BLOCKED
    if output_flush(conn, True):
        outcome = sources_send(conn)
    if conn.stream.state < STREAM_OVER and outcome != PULL_DONE:
        conn.more = outcome == PULL_MORE
        step(conn, EVENT_STALL)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _answer(
    conn: cython.pointer[HttpC], head: cython.pointer[cython.const[HeadC]], bytes: cython.p_const_char
) -> cython.bint:
    """Answer with a file, or with what is to be said of it. False: that takes the interpreter."""
    engine: cython.pointer[EngineC] = conn.engine
    size: int64_t
    if head.method == METHOD_OPTIONS:
        _allowed(conn, head, bytes)
        return True
    if head.method != METHOD_GET and head.method != METHOD_HEAD:
        if head.method == METHOD_OTHER:
            ask_plain(conn, head, bytes, 501, b"This server does not know that method.")
        else:
            ask_plain(conn, head, bytes, 405, b"Files can be read, and nothing else.")
        return True
    files_answer(engine.files, engine.loop.now_ns, head, bytes, cython.address(engine.answer))
    if engine.answer.python:
        return False
    size = output_answer(conn, head)
    account_answer(conn, head, bytes, engine.answer.status, size)
    step(conn, EVENT_REPLY)
    if conn.first_source != cython.NULL:
        ask_push(conn)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _ask(conn: cython.pointer[HttpC]) -> cython.void:
    """Queue a request for the program, or for the files' long way."""
    engine: cython.pointer[EngineC] = conn.engine
    request: cython.pointer[RequestC] = conn.request
    work: cython.pointer[WorkC] = cython.address(request.work)
    head: cython.pointer[HeadC] = cython.address(request.head)
    now_ns: int64_t = clock_now(engine.loop.clock)
    # The age of a request counts from its last byte: how long the client took to send it is not our delay.
    work.arrival_ns = engine.loop.now_ns
    if engine.lag_ns > LAG_NS or engine.by_state[STATE_QUEUED] > 0:
        age_ns: int64_t = platform_data_age_ns(conn.stream.fd)
        if now_ns - age_ns < work.arrival_ns:
            work.arrival_ns = now_ns - age_ns
    if conn.peer_hash == 0:
        conn.peer_hash = peer_hash(conn.stream.fd)
    work.peer = conn.peer_hash
    if conn.via != cython.NULL and conn.via.client.kind == ADDRESS_INTERNET:
        work.peer = conn.via.hash
    work.reserved = (
        engine.health_size > 0
        and head.path.size == engine.health_size
        and memcmp(request.bytes + head.path.start, engine.health, engine.health_size) == 0
    )
    if not step(conn, EVENT_ASK):
        return
    why: cython.int = admission_offer(engine.admission, work, now_ns)
    if why != REFUSE_NONE:
        ask_refuse(request, why)
    else:
        step_tell(conn, NEED_WORK)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _exchange(
    conn: cython.pointer[HttpC], head: cython.pointer[HeadC], bytes: cython.p_const_char, slow: cython.bint
) -> cython.void:
    """Make a record of a request that cannot be answered at once."""
    engine: cython.pointer[EngineC] = conn.engine
    request: cython.pointer[RequestC] = exchange_new(engine, conn, head, bytes)
    if request == cython.NULL:
        conn.last = True
        ask_plain(conn, head, bytes, 503, b"The server is out of memory; try again later.")
        return
    conn.request = request
    request.slow = slow
    if conn.via != cython.NULL:
        request.scheme = conn.via.scheme
    request.wanted = not slow
    outcome: cython.int = body_begin(
        cython.address(request.body), cython.address(request.head), cython.address(engine.body_limits)
    )
    if outcome == BODY_BAD:
        ask_give_up(conn, request.body.status, request.body.reason)
        return
    if outcome == BODY_DONE:
        request.complete = True
        _complete(conn)
        return
    kept: cython.bint = request.wanted and not engine.streaming and not engine.spooling
    if kept and head.has_length and head.length > engine.kept_max:
        ask_give_up(conn, 413, b"The content is too large.")
        return
    if head.expect_continue and not request.wanted:
        # The answer is known without the content, and so the client need not send it.
        conn.last = True
        request.complete = True
        _complete(conn)
        return
    if head.expect_continue:
        output_put(conn, b"HTTP/1.1 100 Continue\r\n\r\n", 25)
    step(conn, EVENT_CONTENT)
    if request.wanted and engine.streaming:
        request.streaming = True
        _ask(conn)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _complete(conn: cython.pointer[HttpC]) -> cython.void:
    """A request is there with all of its content."""
    request: cython.pointer[RequestC] = conn.request
    if request.slow:
        conn.request = cython.NULL
        if _answer(conn, cython.address(request.head), request.bytes):
            exchange_free(request)
            return
        conn.request = request
    _ask(conn)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ask_request(conn: cython.pointer[HttpC], head: cython.pointer[HeadC], bytes: cython.p_const_char) -> cython.void:
    """A head is complete: answer it, or see to it that it will be."""
    engine: cython.pointer[EngineC] = conn.engine
    engine.requests += 1
    arrival_request(conn, head, bytes)
    if not head.keep_alive or engine.draining:
        conn.last = True
    if head.method == METHOD_CONNECT:
        conn.last = True
        ask_plain(conn, head, bytes, 405, b"This server is no proxy.")
        return
    content: cython.bint = head.chunked or head.length > 0
    if head.form == TARGET_ASTERISK:
        if not content and not engine.handler:
            _allowed(conn, head, bytes)
            return
        _exchange(conn, head, bytes, not engine.handler)
    elif _for_files(engine, head, bytes):
        if not content and _answer(conn, head, bytes):
            return
        _exchange(conn, head, bytes, True)
    elif engine.handler:
        _exchange(conn, head, bytes, False)
    else:
        if content:
            conn.last = True
        ask_plain(conn, head, bytes, 404, b"There is nothing here.")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _keep(
    request: cython.pointer[RequestC], data: cython.p_const_char, size: cython.size_t, most: uint64_t
) -> cython.int:
    """Keep a piece of content, in memory or in a file."""
    if request.spool < 0 and exchange_keep(request, data, size, most) == 0:
        return 0
    return exchange_spool(request, data, size) if request.engine.spooling else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ask_content(conn: cython.pointer[HttpC], data: cython.p_const_char, size: cython.size_t) -> cython.size_t:
    """Content of the request that is being received; the number of bytes that were used."""
    engine: cython.pointer[EngineC] = conn.engine
    request: cython.pointer[RequestC] = conn.request
    most: uint64_t = INT64_MAX if request.streaming else engine.kept_max
    piece: cython.p_const_char = cython.NULL
    piece_size: cython.size_t = 0
    used: cython.size_t = 0
    step: cython.size_t
    outcome: cython.int = BODY_PIECE
    while outcome == BODY_PIECE and step_wants(conn):
        step = 0
        outcome = body_feed(
            cython.address(request.body),
            data + used,
            size - used,
            cython.address(step),
            cython.address(piece),
            cython.address(piece_size),
            cython.address(engine.body_limits),
        )
        used += step
        if outcome == BODY_PIECE:
            engine.received_content += piece_size
            if request.wanted and _keep(request, piece, piece_size, most) < 0:
                if engine.spooling:
                    ask_give_up(conn, 503, b"The server has no room for the content; try again later.")
                else:
                    ask_give_up(conn, 413, b"The content is too large.")
                return size
    if outcome == BODY_BAD:
        engine.bad_requests += 1
        ask_give_up(conn, request.body.status, request.body.reason)
        return size
    if outcome == BODY_DONE:
        request.complete = True
        if not request.streaming:
            _complete(conn)
    if request.streaming and request.object != cython.NULL:
        step_tell(conn, NEED_CONTENT)
    return used
