# cython: language_level=3
"""How a connection goes from state to state, and how long it may stay in each.

The table of connection.py says what may follow what. A step that it does not have is a bug: it is counted and ends the
connection. This file must not know bytes, requests or answers.
"""

import cython
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint64_t
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.http.connection import connection_step
from cython.cimports.penstock.http.types import (
    STATE_BODY,
    STATE_FRESH,
    STATE_HEAD,
    STATE_IDLE,
    STATE_LINGER,
    STATE_OVER,
    STATE_WORKING,
    EngineC,
    HttpC,
    RequestC,
)
from cython.cimports.penstock.net.transfer import stream_arm, stream_end, stream_note
from cython.cimports.penstock.net.types import END_ERROR, TELL_NATIVE

from penstock import limits

WINDOW = cython.declare(uint64_t, limits.HTTP_STREAM_WINDOW_BYTES)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def step_end(conn: cython.pointer[HttpC], end: cython.int) -> cython.void:
    """End the connection; what was handed to the stream before is sent."""
    stream_end(conn.stream, end, 0)
    if not conn.feeding:
        stream_note(conn.stream)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def step_tell(conn: cython.pointer[HttpC], need: cython.int) -> cython.void:
    """Have the half with the GIL called in this turn, or the next one."""
    conn.need |= need
    conn.stream.tell |= TELL_NATIVE
    if not conn.feeding:
        stream_note(conn.stream)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def step_deadline(conn: cython.pointer[HttpC]) -> cython.void:
    """Set the deadline of the state that the connection is in, from now on."""
    engine: cython.pointer[EngineC] = conn.engine
    state: cython.int = conn.state
    request: cython.pointer[RequestC] = conn.request
    conn.mark = conn.stream.sent_bytes
    if state == STATE_BODY:
        conn.mark = conn.stream.received_bytes
    elif state == STATE_WORKING and request != cython.NULL and request.streaming and not request.complete:
        conn.mark = conn.stream.received_bytes
        state = STATE_BODY
    length: int64_t = engine.state_ns[state]
    if length == 0:
        conn.stream.deadline_ns = INT64_MAX
        return
    if state == STATE_HEAD:
        conn.stream.deadline_ns = conn.arrival_ns + length
    else:
        conn.stream.deadline_ns = clock_now(engine.loop.clock) + length
    if stream_arm(conn.stream) < 0:
        step_end(conn, END_ERROR)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def step(conn: cython.pointer[HttpC], event: cython.int) -> cython.bint:
    """Go to the next state. False: there is none, which is a bug; the connection is over."""
    engine: cython.pointer[EngineC] = conn.engine
    after: cython.int = connection_step(conn.state, event)
    if after < 0:
        engine.missteps += 1
        conn.stream.reset = True
        step_end(conn, END_ERROR)
        return False
    if after != conn.state:
        engine.by_state[conn.state] -= 1
        engine.by_state[after] += 1
        conn.state = after
        if after != STATE_IDLE:
            # That one is set once for all answers of a call, when the call ends.
            step_deadline(conn)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def step_wants(conn: cython.pointer[cython.const[HttpC]]) -> cython.bint:
    """Whether received bytes can be worked on."""
    state: cython.int = conn.state
    request: cython.pointer[RequestC] = conn.request
    if conn.resting:
        return False
    if state == STATE_BODY:
        return True
    if state == STATE_FRESH or state == STATE_IDLE or state == STATE_HEAD:
        return not conn.last
    if request == cython.NULL or not request.streaming or request.complete:
        return False
    return state != STATE_LINGER and state != STATE_OVER and request.content_size < WINDOW
