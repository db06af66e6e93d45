# cython: language_level=3
"""What a connection does with what it receives, without the interpreter: the table of connection.py, walked.

Bytes are worked on where they lie. What cannot be used yet (half a head, requests behind one that is being answered) is
kept in `rest`, which begins where the partial head does; beyond REST_MAX the stream is paused, and the peer waits.
A request for a file is answered at once; one for the program becomes a record that waits in the admission's queue. All
answers that one call makes leave in one send, in the order of their requests, because a connection looks at no further
request while one is being worked on or sent.

This file must not touch an object of the interpreter, nor know what a file or a program is.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memcpy, memmove
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.core.nogil import native_start_timer
from cython.cimports.penstock.core.types import LoopC
from cython.cimports.penstock.http.account import account_end
from cython.cimports.penstock.http.admission import admission_expired, admission_throttled
from cython.cimports.penstock.http.arrival import arrival_bytes, arrival_eof
from cython.cimports.penstock.http.asking import (
    ask_bad,
    ask_blindly,
    ask_content,
    ask_give_up,
    ask_push,
    ask_refuse,
    ask_request,
)
from cython.cimports.penstock.http.head import head_feed, head_reset
from cython.cimports.penstock.http.output import output_flush, sources_send
from cython.cimports.penstock.http.progress import step, step_deadline, step_end, step_tell, step_wants
from cython.cimports.penstock.http.roster import roster_rest, roster_wake
from cython.cimports.penstock.http.types import (
    EVENT_BYTES,
    EVENT_LAST,
    EVENT_REPLY,
    EVENT_STALL,
    HEAD_BAD,
    HEAD_FIELDS_MAX,
    HEAD_MORE,
    NEED_PIECE,
    STATE_BODY,
    STATE_FRESH,
    STATE_HEAD,
    STATE_IDLE,
    STATE_LINGER,
    STATE_QUEUED,
    STATE_SENDING,
    STATE_WORKING,
    EngineC,
    FieldC,
    HeadC,
    HttpC,
    RequestC,
    WorkC,
)
from cython.cimports.penstock.net.buffer import buffer_waiting
from cython.cimports.penstock.net.transfer import (
    stream_end,
    stream_end_half,
    stream_interest,
    stream_note,
    stream_resume,
)
from cython.cimports.penstock.net.types import (
    END_CLOSED,
    END_EOF,
    END_ERROR,
    END_SLOW_PEER,
    PULL_BLOCKED,
    PULL_DONE,
    PULL_MORE,
    STREAM_OVER,
    StreamC,
)

from penstock import limits

REST_MAX = cython.declare(uint32_t, limits.HTTP_REST_MAX_BYTES)
LINGER_MAX = cython.declare(uint64_t, limits.HTTP_LINGER_MAX_BYTES)
ANSWERS_SHARE = cython.declare(uint32_t, limits.HTTP_PIPELINE_SHARE)
WINDOW = cython.declare(uint64_t, limits.HTTP_STREAM_WINDOW_BYTES)
SLICE_NS = cython.declare(int64_t, limits.HTTP_THROTTLE_SLICE_NS)
SECOND_NS = cython.declare(int64_t, limits.NS_PER_S)


# ---- bytes -----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _keep(conn: cython.pointer[HttpC], data: cython.p_const_char, size: cython.size_t) -> cython.int:
    """Keep bytes behind what is kept. -1: there is no memory, and the connection is over."""
    needed: uint64_t = conn.rest_size + size
    if needed > conn.rest_capacity:
        capacity: uint64_t = max(needed, min(cython.cast(uint64_t, 2) * conn.rest_capacity, REST_MAX))
        grown: cython.p_char = cython.cast(cython.p_char, realloc(conn.rest, capacity))
        if grown == cython.NULL:
            step_end(conn, END_ERROR)
            return -1
        conn.rest = grown
        conn.rest_capacity = cython.cast(uint32_t, capacity)
    memcpy(conn.rest + conn.rest_size, data, size)
    conn.rest_size = cython.cast(uint32_t, needed)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _forget_rest(conn: cython.pointer[HttpC]) -> cython.void:
    free(conn.rest)
    conn.rest = cython.NULL
    conn.rest_size = 0
    conn.rest_capacity = 0
    free(conn.partial)
    conn.partial = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _hold(conn: cython.pointer[HttpC]) -> cython.void:
    """Let the peer wait while too much is kept, and not longer."""
    hold: cython.bint = conn.rest_size >= REST_MAX or conn.resting
    if hold and not conn.held:
        conn.held = True
        conn.stream.paused = True
    elif conn.held and not hold:
        conn.held = False
        conn.stream.paused = False
        stream_resume(conn.stream)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _head_bytes(head: cython.pointer[cython.const[HeadC]]) -> cython.size_t:
    """How much of a head's structure is in use: there is room for many more fields than most heads have."""
    return cython.sizeof(HeadC) - (HEAD_FIELDS_MAX - head.field_count) * cython.sizeof(FieldC)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _partial(conn: cython.pointer[HttpC], head: cython.pointer[HeadC]) -> cython.void:
    """Half a head: remember how far it was looked at, in no more memory than that takes."""
    if conn.partial == cython.NULL or conn.partial.field_count != head.field_count:
        room: cython.p_void = realloc(conn.partial, _head_bytes(head))
        if room == cython.NULL:
            step_end(conn, END_ERROR)
            return
        conn.partial = cython.cast(cython.pointer[HeadC], room)
    memcpy(conn.partial, head, _head_bytes(head))
    step(conn, EVENT_BYTES)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _head(conn: cython.pointer[HttpC], data: cython.p_const_char, size: cython.size_t) -> cython.size_t:
    """Look at a head; the number of bytes that are done with."""
    engine: cython.pointer[EngineC] = conn.engine
    head: cython.pointer[HeadC] = cython.address(engine.head)
    used: cython.size_t = size
    if conn.partial != cython.NULL:
        memcpy(head, conn.partial, _head_bytes(conn.partial))
    else:
        head_reset(head)
        conn.arrival_ns = engine.loop.now_ns
    # A head ends before its limit, which is below the most that 32 bits can say.
    most: uint32_t = cython.cast(uint32_t, min(size, cython.cast(cython.size_t, 0x7FFFFFFF)))
    outcome: cython.int = head_feed(head, data, most, cython.address(engine.head_limits))
    if outcome == HEAD_MORE:
        _partial(conn, head)
        return 0
    if outcome == HEAD_BAD:
        ask_bad(conn, head)
    else:
        used = head.size
        ask_request(conn, head, data)
    free(conn.partial)
    conn.partial = cython.NULL
    return used


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _rest(conn: cython.pointer[HttpC]) -> cython.void:
    """It was refused. If refusing takes all the time, what it sends next waits, unread, for the next slice."""
    engine: cython.pointer[EngineC] = conn.engine
    now_ns: int64_t = clock_now(engine.loop.clock)
    conn.rebuffed = False
    if conn.resting or conn.last or conn.stream.state >= STREAM_OVER:
        return
    if not admission_throttled(engine.admission, now_ns):
        return
    if engine.rest_timer == 0:
        engine.rest_timer = native_start_timer(
            engine.loop, SLICE_NS - now_ns % SLICE_NS, 0, feed_rested, cython.cast(cython.p_void, engine)
        )
        if engine.rest_timer == 0:
            return
    engine.rests += 1
    roster_rest(conn)
    _hold(conn)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_rested(loop: cython.pointer[LoopC], timer: uint64_t, context: cython.p_void) -> cython.void:
    """The slice is over: read again from all that rest. Who is refused again rests again, but not for this timer."""
    engine: cython.pointer[EngineC] = cython.cast(cython.pointer[EngineC], context)
    count: uint32_t = engine.resting
    conn: cython.pointer[HttpC]
    engine.rest_timer = 0
    while count > 0 and engine.first_resting != cython.NULL:
        count -= 1
        conn = engine.first_resting
        roster_wake(conn)
        if conn.stream.state < STREAM_OVER:
            _hold(conn)
            feed_rest(conn)
            feed_settle(conn)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _work(conn: cython.pointer[HttpC], data: cython.p_const_char, size: cython.size_t) -> cython.size_t:
    """Work on bytes as far as that is possible now; how many are done with."""
    used: cython.size_t = 0
    done: cython.size_t
    answers: uint32_t = 0
    conn.more = False
    while used < size and step_wants(conn) and conn.stream.state < STREAM_OVER:
        if conn.state == STATE_FRESH or conn.state == STATE_IDLE or conn.state == STATE_HEAD:
            if answers == ANSWERS_SHARE:
                conn.more = True
                break
            answers += 1
            done = _head(conn, data + used, size - used)
        else:
            done = ask_content(conn, data + used, size - used)
        if conn.rebuffed:
            _rest(conn)
        if done == 0:
            break
        used += done
        if conn.state == STATE_IDLE and buffer_waiting(cython.address(conn.stream.out)) > 0:
            # The peer does not take answers as fast as they are made.
            step(conn, EVENT_STALL)
    return used


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_rest(conn: cython.pointer[HttpC]) -> cython.void:
    """Work on what was kept."""
    used: cython.size_t
    if conn.rest_size == 0 or not step_wants(conn):
        return
    used = _work(conn, conn.rest, conn.rest_size)
    if used >= conn.rest_size:
        free(conn.rest)
        conn.rest = cython.NULL
        conn.rest_size = 0
        conn.rest_capacity = 0
    elif used > 0:
        memmove(conn.rest, conn.rest + used, conn.rest_size - used)
        conn.rest_size -= cython.cast(uint32_t, used)
    _hold(conn)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_bytes(conn: cython.pointer[HttpC], data: cython.p_const_char, size: cython.size_t) -> cython.void:
    """Bytes have come."""
    used: cython.size_t = 0
    if conn.state == STATE_LINGER:
        conn.engine.lingered_bytes += size
        conn.mark += size
        if conn.mark > LINGER_MAX:
            step_end(conn, END_CLOSED)
        return
    if conn.rest_size > 0 or not step_wants(conn):
        if _keep(conn, data, size) < 0:
            return
        _hold(conn)
        feed_rest(conn)
    else:
        used = _work(conn, data, size)
        if used < size and conn.stream.state < STREAM_OVER:
            _keep(conn, data + used, size - used)
            _hold(conn)
    feed_settle(conn)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _last(conn: cython.pointer[HttpC]) -> cython.void:
    """The last answer is handed to the system: say so, and throw away what still comes, so that it is not lost."""
    _forget_rest(conn)
    roster_wake(conn)
    step(conn, EVENT_LAST)
    conn.mark = 0
    _hold(conn)
    if conn.tls != cython.NULL:
        conn.engine.tls_end(conn)
    stream_end_half(conn.stream)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _half_streamed(conn: cython.pointer[HttpC]) -> cython.bint:
    """Whether a program waits for content, and everything that has come is with it."""
    request: cython.pointer[RequestC] = conn.request
    if request == cython.NULL or not request.streaming or request.complete or request.answered:
        return False
    return conn.rest_size == 0 and (conn.state == STATE_QUEUED or conn.state == STATE_WORKING)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_settle(conn: cython.pointer[HttpC]) -> cython.void:
    """The end of a call: send what it has made, and see what the connection waits for now."""
    stream: cython.pointer[StreamC] = conn.stream
    empty: cython.bint = output_flush(conn, False)
    if stream.state >= STREAM_OVER:
        if not conn.feeding:
            stream_note(stream)
        return
    if conn.state == STATE_IDLE and (not empty or conn.first_source != cython.NULL):
        step(conn, EVENT_STALL)
    if conn.state == STATE_SENDING or conn.more:
        if not stream.pulling or conn.more:
            stream.pulling = True
            if conn.more and empty:
                stream_note(stream)
            else:
                stream_interest(stream)
        return
    receiving: cython.bint = conn.state in (STATE_IDLE, STATE_FRESH, STATE_HEAD, STATE_BODY) or _half_streamed(conn)
    if conn.state == STATE_IDLE and conn.last:
        _last(conn)
    elif conn.eof and receiving and not conn.resting:
        # What it has begun to ask will not come to an end.
        step_end(conn, END_EOF)
    elif conn.state == STATE_IDLE:
        step_deadline(conn)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_done(conn: cython.pointer[HttpC], request: cython.pointer[RequestC]) -> cython.void:
    """The program's answer is complete: go on with what is behind the request."""
    request.finished = True
    if request.streaming and not request.complete:
        # What is still to come of its content would be taken for a request.
        conn.last = True
    if conn.first_source == cython.NULL:
        account_end(conn)
    conn.request = cython.NULL
    request.conn = cython.NULL
    step(conn, EVENT_REPLY)
    if conn.first_source != cython.NULL:
        ask_push(conn)
    feed_rest(conn)
    feed_settle(conn)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_refuse(request: cython.pointer[RequestC], why: cython.int) -> cython.void:
    """Refuse a request that has waited, and go on with its connection."""
    conn: cython.pointer[HttpC] = request.conn
    ask_refuse(request, why)
    _rest(conn)
    feed_rest(conn)
    feed_settle(conn)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_expired(engine: cython.pointer[EngineC]) -> cython.void:
    """Refuse what has waited for too long."""
    why: cython.int = 0
    work: cython.pointer[WorkC] = admission_expired(engine.admission, clock_now(engine.loop.clock), cython.address(why))
    while work != cython.NULL:
        feed_refuse(cython.cast(cython.pointer[RequestC], work.owner), why)
        work = admission_expired(engine.admission, clock_now(engine.loop.clock), cython.address(why))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_ended(conn: cython.pointer[HttpC]) -> cython.void:
    """Nothing more will come; what was asked is answered."""
    conn.eof = True
    if conn.state != STATE_LINGER:
        feed_settle(conn)


# ---- the hooks of the stream -----------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_data(
    stream: cython.pointer[StreamC], data: cython.p_const_char, size: cython.size_t, context: cython.p_void
) -> cython.bint:
    """Something was received."""
    conn: cython.pointer[HttpC] = cython.cast(cython.pointer[HttpC], context)
    used: cython.Py_ssize_t = 0
    if conn.tls != cython.NULL:
        return False
    conn.feeding = True
    if conn.awaits:
        used = arrival_bytes(conn, data, size)
    if used >= 0 and cython.cast(cython.size_t, used) < size:
        feed_bytes(conn, data + used, size - used)
    conn.feeding = False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_eof(stream: cython.pointer[StreamC], context: cython.p_void) -> cython.bint:
    """The peer has ended its half: what it has asked is answered, then the connection ends."""
    conn: cython.pointer[HttpC] = cython.cast(cython.pointer[HttpC], context)
    arrival_eof(conn)
    if conn.tls != cython.NULL:
        return False
    conn.feeding = True
    feed_ended(conn)
    conn.feeding = False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_pull(stream: cython.pointer[StreamC], context: cython.p_void) -> cython.int:
    """Everything that was handed over before has left: send more, and go on when that is done."""
    conn: cython.pointer[HttpC] = cython.cast(cython.pointer[HttpC], context)
    outcome: cython.int = PULL_DONE
    conn.feeding = True
    # What was left for this call is done in it; whether there is more again is seen anew.
    conn.more = False
    if conn.state == STATE_SENDING:
        outcome = sources_send(conn)
        if conn.stream.state >= STREAM_OVER:
            outcome = PULL_DONE
        elif outcome == PULL_DONE and conn.request != cython.NULL:
            # An answer that is made piece by piece.
            step_tell(conn, NEED_PIECE)
        elif outcome == PULL_DONE:
            account_end(conn)
            step(conn, EVENT_REPLY)
    if outcome == PULL_DONE and conn.stream.state < STREAM_OVER and conn.state != STATE_SENDING:
        feed_rest(conn)
        feed_settle(conn)
        if conn.state == STATE_SENDING or conn.more:
            outcome = PULL_MORE if conn.more else PULL_BLOCKED
    conn.feeding = False
    return outcome


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _slow_content(conn: cython.pointer[HttpC]) -> cython.bint:
    """Whether less content came than the least rate asks for; if not, a new period begins."""
    engine: cython.pointer[EngineC] = conn.engine
    came: uint64_t = conn.stream.received_bytes - conn.mark
    period_ns: uint64_t = cython.cast(uint64_t, engine.state_ns[STATE_BODY])
    least: uint64_t = engine.body_rate * period_ns // cython.cast(uint64_t, SECOND_NS)
    # A program that does not take what is there makes the peer wait; that is not the peer's doing.
    ours: cython.bint = conn.request.streaming and conn.request.content_size >= WINDOW
    if (came < least or came == 0) and not ours:
        return True
    step_deadline(conn)
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _overdue(conn: cython.pointer[HttpC]) -> cython.bint:
    """The deadline of a state has passed. False: the connection is to be closed, there is nobody to tell."""
    request: cython.pointer[RequestC] = conn.request
    if conn.state == STATE_SENDING and conn.stream.sent_bytes != conn.mark:
        step_deadline(conn)
        return True
    if conn.state == STATE_BODY and not _slow_content(conn):
        return True
    arriving: cython.bint = request != cython.NULL and request.streaming and not request.complete
    if conn.state == STATE_WORKING and arriving and not _slow_content(conn):
        return True
    conn.engine.timeouts[conn.state] += 1
    if conn.state == STATE_HEAD:
        ask_blindly(conn, conn.partial, 408, b"The request did not come in time.")
    elif conn.state == STATE_BODY or (conn.state == STATE_WORKING and arriving):
        ask_give_up(conn, 408, b"The content did not come in time.")
    elif conn.state == STATE_WORKING:
        ask_give_up(conn, 503, b"The program did not answer in time.")
    elif conn.state == STATE_SENDING:
        conn.stream.reset = True
        stream_end(conn.stream, END_SLOW_PEER, 0)
    else:
        return False
    feed_settle(conn)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_deadline(stream: cython.pointer[StreamC], context: cython.p_void) -> cython.bint:
    """The deadline has passed."""
    conn: cython.pointer[HttpC] = cython.cast(cython.pointer[HttpC], context)
    conn.feeding = True
    handled: cython.bint = _overdue(conn)
    conn.feeding = False
    return handled
