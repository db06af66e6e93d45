# cython: language_level=3
"""What a stream does without the interpreter: receive, send, wait for room, watch its deadlines.

A stream is registered once. Level-triggered (the default), it is interested in reading until data waits that nobody
wants, and in writing only from a short send until its buffer is empty: while nothing blocks, it makes no epoll_ctl.
Edge triggered, its interest never changes; it reads and sends until that would block, and remembers what it left: no
edge follows a call that moved less than it could.

One receive per message: a receive that filled less than the room it was offered has emptied the socket, and a level
triggered poller tells what comes later. What was received stays in the loop's pool until Python's half of the turn
hands it over; what a stream has for Python is a set of TELL_ bits.

A stream has one timer for all its deadlines. It is not moved when bytes flow: when it fires, it looks when the last
byte flowed, and is set again for the rest of the time. So it is never early and costs nothing per message.

This file must not touch an object of the interpreter.
"""

import cython
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint32_t, uint64_t
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.core.nogil import native_modify, native_note
from cython.cimports.penstock.core.registry import registry_at, registry_token
from cython.cimports.penstock.core.system import EAGAIN, EINTR, ENOMEM, errno, platform_send, recv
from cython.cimports.penstock.core.timers import timers_find, timers_move, timers_start
from cython.cimports.penstock.core.types import (
    ERROR,
    HANGUP,
    PRIORITY,
    READABLE,
    READY_AGAIN,
    READY_DONE,
    READY_PYTHON,
    WRITABLE,
    LoopC,
    RegistrationC,
    TimerC,
)
from cython.cimports.penstock.net.buffer import buffer_append, buffer_consume, buffer_may_grow, buffer_waiting
from cython.cimports.penstock.net.pool import pool_lend, pool_room
from cython.cimports.penstock.net.system import (
    ECONNRESET,
    ENOBUFS,
    EPIPE,
    EWOULDBLOCK,
    NET_SEND_FLAGS,
    SHUT_WR,
    SO_ERROR,
    SOL_SOCKET,
    getsockopt,
    iovec,
    message_clear_control,
    msghdr,
    sendmsg,
    shutdown,
    socklen_t,
)
from cython.cimports.penstock.net.types import (
    END_CLOSED,
    END_CONNECT,
    END_DEADLINE,
    END_EOF,
    END_ERROR,
    END_IDLE,
    END_LINGER,
    END_RESET,
    END_SLOW_PEER,
    END_TOTAL,
    FULL_CLOSE,
    PULL_BLOCKED,
    PULL_DONE,
    PULL_MORE,
    STREAM_CLOSING,
    STREAM_CONNECTING,
    STREAM_OPEN,
    STREAM_OVER,
    TELL_CONNECTED,
    TELL_DATA,
    TELL_DRAIN,
    TELL_EOF,
    TELL_OVER,
    WRITE_ENDED,
    WRITE_LATE,
    WRITE_OVER_CAP,
    WRITE_OVER_TOTAL,
    WRITE_STOP,
    WRITE_TAKEN,
    StreamC,
)

from penstock import limits

ROOM_MIN_BYTES = cython.declare(cython.size_t, limits.READ_ROOM_MIN_BYTES)
SEND_SHARE_BYTES = cython.declare(cython.size_t, limits.WRITE_SHARE_BYTES)
# What a stream notes for itself, to be called without the poller's knowing anything. Streams never ask for it.
NOTE = cython.declare(uint32_t, PRIORITY)


# ---- ends, notes, interest -------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_end(stream: cython.pointer[StreamC], end: cython.int, error: cython.int) -> cython.void:
    """Nothing is left but to tell the end. The first reason counts."""
    if stream.state >= STREAM_OVER:
        return
    stream.state = STREAM_OVER
    stream.end = end
    stream.error = error
    stream.tell |= TELL_OVER


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_note(stream: cython.pointer[StreamC]) -> cython.void:
    """Be called in the next readiness step."""
    native_note(stream.loop, stream.fd, NOTE)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fail(stream: cython.pointer[StreamC], error: cython.int) -> cython.void:
    stream_end(stream, END_RESET if error in (ECONNRESET, EPIPE) else END_ERROR, error)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _socket_error(stream: cython.pointer[StreamC]) -> cython.int:
    error: cython.int = 0
    size: socklen_t = cython.sizeof(cython.int)
    if getsockopt(stream.fd, SOL_SOCKET, SO_ERROR, cython.address(error), cython.address(size)) < 0:
        return errno
    return error


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_interest(stream: cython.pointer[StreamC]) -> cython.void:
    """Ask the poller for what the stream can use now; a change reaches it in step 6, there and back costs nothing."""
    wanted: uint32_t = 0
    if stream.edge or stream.parked:
        return
    if stream.state == STREAM_OPEN and not stream.eof and not stream.quiet:
        wanted |= READABLE
    if stream.state == STREAM_CONNECTING or buffer_waiting(cython.address(stream.out)) > 0 or stream.pulling:
        wanted |= WRITABLE
    native_modify(stream.loop, stream.fd, wanted)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_park(stream: cython.pointer[StreamC]) -> cython.void:
    """The peer has hung up, and data waits that nobody wants yet: a poller would tell that again and again."""
    one: cython.pointer[RegistrationC] = registry_at(cython.address(stream.loop.registry), stream.fd)
    if one != cython.NULL and not stream.parked:
        one.interest = one.applied
        stream.loop.poller.remove(stream.loop.poller, stream.fd)
        stream.parked = True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_resume(stream: cython.pointer[StreamC]) -> cython.void:
    """Want data again: what the poller said meanwhile is looked at in the next step."""
    failed: cython.int
    one: cython.pointer[RegistrationC] = registry_at(cython.address(stream.loop.registry), stream.fd)
    if one == cython.NULL:
        return
    if stream.parked:
        stream.parked = False
        failed = stream.loop.poller.add(
            stream.loop.poller, stream.fd, one.applied, one.edge, registry_token(one, stream.fd)
        )
        if failed < 0:
            _fail(stream, -failed)
    stream.quiet = False
    stream_interest(stream)
    if stream.unread or stream.tell or stream.held:
        stream_note(stream)


# ---- deadlines -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _due_ns(stream: cython.pointer[StreamC]) -> int64_t:
    """The earliest instant at which a deadline could have passed; INT64_MAX if there is none."""
    due: int64_t = stream.deadline_ns
    if stream.linger_ns < due:
        due = stream.linger_ns
    if stream.idle_ns and stream.state == STREAM_OPEN and stream.active_ns + stream.idle_ns < due:
        due = stream.active_ns + stream.idle_ns
    return due


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_arm(stream: cython.pointer[StreamC]) -> cython.int:
    """See to it that the timer fires not later than the next deadline. -1: there are too many timers."""
    due: int64_t = _due_ns(stream)
    timer: cython.pointer[TimerC]
    if due == INT64_MAX:
        return 0
    if stream.timer:
        timer = timers_find(cython.address(stream.loop.timers), stream.timer)
        if timer != cython.NULL:
            if timer.deadline_ns > due:
                timers_move(cython.address(stream.loop.timers), stream.timer, due)
            return 0
    stream.timer = 0
    return timers_start(
        cython.address(stream.loop.timers),
        due,
        0,
        cython.cast(cython.p_void, stream_timer),
        cython.cast(cython.p_void, stream),
        True,
        cython.address(stream.timer),
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_timer(loop: cython.pointer[LoopC], timer: uint64_t, context: cython.p_void) -> cython.void:
    """Look whether a deadline has passed; the readiness step of this turn reads once more before it believes so."""
    stream: cython.pointer[StreamC] = cython.cast(cython.pointer[StreamC], context)
    stream.timer = 0
    if _due_ns(stream) <= loop.now_ns:
        stream.expired = True
        stream_note(stream)
    else:
        # As many timers as before this one fired: there is a place.
        stream_arm(stream)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _hook_expired(stream: cython.pointer[StreamC]) -> cython.bint:
    if stream.hooks == cython.NULL or stream.hooks.expired == cython.NULL or stream.state == STREAM_CONNECTING:
        return False
    return stream.hooks.expired(stream, stream.context)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _expire(stream: cython.pointer[StreamC]) -> cython.void:
    now_ns: int64_t = stream.loop.now_ns
    stream.expired = False
    if stream.linger_ns <= now_ns:
        stream.reset = True
        stream_end(stream, END_LINGER, 0)
    elif stream.deadline_ns <= now_ns and _hook_expired(stream):
        stream_arm(stream)
    elif stream.deadline_ns <= now_ns:
        stream.reset = stream.state == STREAM_CONNECTING
        stream_end(stream, END_CONNECT if stream.state == STREAM_CONNECTING else END_DEADLINE, 0)
    elif stream.state == STREAM_OPEN and stream.idle_ns and stream.active_ns + stream.idle_ns <= now_ns:
        stream_end(stream, END_IDLE, 0)
    else:
        stream_arm(stream)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _active(stream: cython.pointer[StreamC]) -> cython.void:
    # Read afresh, not the turn's present: an idle deadline must not be early, however long this turn already takes.
    stream.active_ns = clock_now(stream.loop.clock) if stream.idle_ns else stream.loop.now_ns


# ---- sending ---------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_sent(stream: cython.pointer[StreamC], size: cython.size_t) -> cython.void:
    """Count bytes that the system has taken."""
    stream.sent_bytes += size
    stream.net.sent_bytes += size
    _active(stream)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _size_of(pieces: cython.pointer[iovec], count: cython.int) -> cython.size_t:
    size: cython.size_t = 0
    index: cython.int
    for index in range(count):
        size += pieces[index].iov_len
    return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_send(
    stream: cython.pointer[StreamC], pieces: cython.pointer[iovec], count: cython.int, flags: cython.int
) -> cython.Py_ssize_t:
    """Send what fits, past the buffer, which must be empty: the number of bytes, also 0, or -errno."""
    message: msghdr
    sent: cython.Py_ssize_t = -EINTR
    while sent == -EINTR:
        stream.net.sends += 1
        if count == 1 and flags == 0:
            sent = platform_send(stream.fd, pieces.iov_base, pieces.iov_len)
        else:
            message.msg_name = cython.NULL
            message.msg_namelen = 0
            message.msg_iov = pieces
            message.msg_iovlen = count
            message_clear_control(cython.address(message))
            sent = sendmsg(stream.fd, cython.address(message), NET_SEND_FLAGS | flags)
            if sent < 0:
                sent = -errno
    if sent > 0:
        stream_sent(stream, sent)
        if stream.edge and cython.cast(cython.size_t, sent) < _size_of(pieces, count):
            # Whether the next one would block is only known from trying: no edge need follow.
            stream_note(stream)
    elif sent in (-EAGAIN, -EWOULDBLOCK):
        return 0
    elif sent in (-ENOBUFS, -ENOMEM):
        # The system is short of memory: later. An edge-triggered poller would not say when.
        if stream.edge:
            stream_note(stream)
        return 0
    return sent


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _keep(
    stream: cython.pointer[StreamC], pieces: cython.pointer[iovec], count: cython.int, skip: cython.size_t
) -> cython.int:
    """Buffer all of the pieces but the first `skip` bytes."""
    index: cython.int
    failed: cython.int
    for index in range(count):
        size: cython.size_t = pieces[index].iov_len
        if skip >= size:
            skip -= size
            continue
        failed = buffer_append(
            cython.address(stream.out), cython.cast(cython.p_char, pieces[index].iov_base) + skip, size - skip
        )
        if failed < 0:
            return failed
        skip = 0
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _refuse(stream: cython.pointer[StreamC], why: cython.int) -> cython.int:
    """There is no place for a write. If the policy is to close, this is the end."""
    if stream.overflow == FULL_CLOSE:
        stream.reset = True
        stream_end(stream, END_SLOW_PEER if why == WRITE_OVER_CAP else END_TOTAL, 0)
        if not stream.dispatching:
            stream_note(stream)
    elif buffer_waiting(cython.address(stream.out)) > 0:
        stream.congested = True
    return why


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fits(stream: cython.pointer[StreamC], size: cython.size_t) -> cython.int:
    if buffer_waiting(cython.address(stream.out)) + size > stream.cap_bytes:
        return WRITE_OVER_CAP
    return WRITE_TAKEN if buffer_may_grow(cython.address(stream.out), size) else WRITE_OVER_TOTAL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_write(
    stream: cython.pointer[StreamC], pieces: cython.pointer[iovec], count: cython.int, size: cython.size_t
) -> cython.int:
    """Send directly what can be sent now, keep the rest; WRITE_... says what became of it.

    A write is taken as a whole or not at all, except by a stream that is closed for what it cannot take.
    """
    sent: cython.Py_ssize_t = 0
    full: cython.int
    if stream.state >= STREAM_CLOSING:
        stream.net.late_writes += 1
        return WRITE_LATE
    if stream.ended:
        return WRITE_ENDED
    empty: cython.bint = buffer_waiting(cython.address(stream.out)) == 0
    direct: cython.bint = empty and stream.state == STREAM_OPEN
    if stream.overflow != FULL_CLOSE:
        # Before anything is sent, for a part cannot be taken back.
        full = _fits(stream, size)
        if full != WRITE_TAKEN:
            return _refuse(stream, full)
    if direct:
        sent = stream_send(stream, pieces, count, 0)
        if sent == cython.cast(cython.Py_ssize_t, size):
            return WRITE_TAKEN
        if sent < 0:
            _fail(stream, cython.cast(cython.int, -sent))
            stream.net.unsent_bytes += size
            if not stream.dispatching:
                stream_note(stream)
            return WRITE_LATE
        stream.net.short_sends += 1
    full = _fits(stream, size - sent)
    if full == WRITE_TAKEN and _keep(stream, pieces, count, sent) < 0:
        full = WRITE_OVER_TOTAL
    if full != WRITE_TAKEN:
        stream.net.unsent_bytes += size - sent
        # Between the look and the growth another thread can have taken the room: half a write is an end.
        stream.overflow = FULL_CLOSE
        return _refuse(stream, full)
    if direct:
        stream_interest(stream)
    if buffer_waiting(cython.address(stream.out)) > stream.high_bytes:
        stream.congested = True
    return WRITE_STOP if stream.congested else WRITE_TAKEN


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _emptied(stream: cython.pointer[StreamC]) -> cython.void:
    """Everything is sent: what was to come after that comes now."""
    stream_interest(stream)
    if stream.state == STREAM_CLOSING:
        stream_end(stream, END_CLOSED, 0)
    elif stream.ended:
        shutdown(stream.fd, SHUT_WR)
        if stream.eof:
            stream_end(stream, END_EOF, 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_end_half(stream: cython.pointer[StreamC]) -> cython.void:
    """End our half as soon as everything is sent."""
    stream.ended = True
    if stream.state == STREAM_OPEN and buffer_waiting(cython.address(stream.out)) == 0:
        _emptied(stream)
        if stream.tell and not stream.dispatching:
            stream_note(stream)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _flush(stream: cython.pointer[StreamC]) -> cython.int:
    """Send from the buffer, up to the share."""
    piece: iovec
    piece.iov_base = stream.out.data + stream.out.start
    piece.iov_len = min(buffer_waiting(cython.address(stream.out)), SEND_SHARE_BYTES)
    sent: cython.Py_ssize_t = stream_send(stream, cython.address(piece), 1, 0)
    if sent < 0:
        _fail(stream, cython.cast(cython.int, -sent))
        return READY_DONE
    buffer_consume(cython.address(stream.out), sent)
    waiting: cython.size_t = buffer_waiting(cython.address(stream.out))
    if stream.congested and waiting <= stream.low_bytes:
        stream.congested = False
        if stream.state == STREAM_OPEN:
            stream.tell |= TELL_DRAIN
    if waiting == 0:
        _emptied(stream)
    elif stream.edge and cython.cast(cython.size_t, sent) == piece.iov_len:
        return READY_AGAIN
    return READY_DONE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_pull(stream: cython.pointer[StreamC]) -> cython.void:
    """Let a protocol send what the buffer does not hold: now if that is empty, and until the hook says PULL_DONE."""
    answer: cython.int = PULL_BLOCKED
    if stream.state >= STREAM_OVER:
        return
    if buffer_waiting(cython.address(stream.out)) == 0:
        answer = stream.hooks.pull(stream, stream.context)
    if stream.state >= STREAM_OVER:
        stream.pulling = False
        return
    stream.pulling = answer != PULL_DONE
    if answer == PULL_MORE:
        # The socket may well take more: no need to ask the poller.
        stream_note(stream)
    else:
        stream_interest(stream)


# ---- receiving -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unwanted(stream: cython.pointer[StreamC], events: uint32_t) -> cython.void:
    """Something can be read that nobody wants now."""
    error: cython.int = 0
    stream.unread = True
    if events & ERROR:
        error = _socket_error(stream)
    if error:
        _fail(stream, error)
    elif stream.edge:
        return
    elif events & (HANGUP | ERROR):
        stream_park(stream)
    elif not stream.quiet:
        stream.quiet = True
        stream_interest(stream)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _after_eof(stream: cython.pointer[StreamC], events: uint32_t) -> cython.void:
    """The peer ended its half before; a hang-up now means that it takes nothing either."""
    if events & (HANGUP | ERROR):
        error: cython.int = _socket_error(stream)
        if error:
            _fail(stream, error)
        else:
            stream_end(stream, END_EOF, 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _received(stream: cython.pointer[StreamC], data: cython.p_char, size: cython.size_t) -> cython.void:
    stream.received_bytes += size
    stream.net.received_bytes += size
    _active(stream)
    if stream.hooks != cython.NULL and stream.hooks.data(stream, data, size, stream.context):
        return
    pool_lend(cython.address(stream.net.pool), size)
    stream.chunk = data
    stream.chunk_bytes = size
    stream.tell |= TELL_DATA


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _receive(stream: cython.pointer[StreamC], events: uint32_t) -> cython.int:
    """Receive up to the share."""
    data: cython.p_char = cython.NULL
    size: cython.size_t = 0
    operations: uint32_t = stream.share_operations
    got: cython.Py_ssize_t
    if stream.eof:
        _after_eof(stream, events)
        return READY_DONE
    if stream.paused or stream.held:
        if events & (READABLE | ERROR | HANGUP):
            _unwanted(stream, events)
        return READY_DONE
    if stream.tell & TELL_DATA:
        # Left by an exception that left the loop: first this.
        return READY_AGAIN
    room: cython.size_t = pool_room(
        cython.address(stream.net.pool), stream.share_bytes, ROOM_MIN_BYTES, cython.address(data)
    )
    stream.unread = True
    if room == 0:
        return READY_AGAIN
    while size < room and operations > 0:
        operations -= 1
        stream.net.receives += 1
        got = recv(stream.fd, data + size, room - size, 0)
        if got > 0:
            size += got
            if stream.edge or size == room:
                continue
            # Less than there was room for: all that there was.
            stream.unread = False
        elif got == 0:
            stream.eof = True
            stream.unread = False
        elif errno == EINTR:
            continue
        elif errno in (EAGAIN, EWOULDBLOCK):
            stream.unread = False
        elif errno in (ENOBUFS, ENOMEM):
            # The system is short of memory: later. An edge-triggered poller would not say when.
            stream.unread = stream.edge
        else:
            _fail(stream, errno)
        break
    if size > 0:
        _received(stream, data, size)
    if stream.eof:
        if (
            stream.hooks == cython.NULL
            or stream.hooks.eof == cython.NULL
            or not stream.hooks.eof(stream, stream.context)
        ):
            stream.tell |= TELL_EOF
        stream_interest(stream)
        if stream.ended and buffer_waiting(cython.address(stream.out)) == 0:
            stream_end(stream, END_EOF, 0)
    return READY_AGAIN if stream.unread and stream.edge else READY_DONE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_discard(stream: cython.pointer[StreamC]) -> cython.size_t:
    """Receive what has arrived and nobody will read, up to a share: closing over it would reset the connection, and the
    peer would lose the end of what was sent."""
    buffer: cython.char[4096]
    size: cython.size_t = 0
    got: cython.Py_ssize_t = 1
    while (got > 0 or errno == EINTR) and size < stream.share_bytes:
        got = recv(stream.fd, buffer, 4096, 0)
        if got > 0:
            size += got
        elif got == 0:
            break
    return size


# ---- the handler -----------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _connected(stream: cython.pointer[StreamC]) -> cython.void:
    """An outgoing connection is made, or it is not."""
    error: cython.int = _socket_error(stream)
    if error:
        stream_end(stream, END_CONNECT, error)
        return
    stream.state = STREAM_OPEN
    stream.deadline_ns = stream.after_ns
    stream.tell |= TELL_CONNECTED
    _active(stream)
    stream_arm(stream)
    if buffer_waiting(cython.address(stream.out)) == 0:
        _emptied(stream)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stream_ready(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t, context: cython.p_void) -> cython.int:
    """The native handler of every stream."""
    stream: cython.pointer[StreamC] = cython.cast(cython.pointer[StreamC], context)
    answer: cython.int = READY_DONE
    if stream.state == STREAM_CONNECTING and events & (WRITABLE | ERROR | HANGUP):
        _connected(stream)
    if (
        events & (WRITABLE | ERROR | HANGUP | NOTE)
        and (stream.state == STREAM_OPEN or stream.state == STREAM_CLOSING)
        and buffer_waiting(cython.address(stream.out)) > 0
    ):
        answer |= _flush(stream)
    if (
        stream.pulling
        and events & (WRITABLE | ERROR | HANGUP | NOTE)
        and stream.state < STREAM_OVER
        and buffer_waiting(cython.address(stream.out)) == 0
    ):
        stream_pull(stream)
    if stream.state == STREAM_OPEN and (
        events & (READABLE | ERROR | HANGUP) or stream.expired or (stream.unread and not stream.paused)
    ):
        answer |= _receive(stream, events)
    if stream.state == STREAM_CLOSING and events & (ERROR | HANGUP):
        _after_eof(stream, events)
    if stream.expired:
        _expire(stream)
    return answer | READY_PYTHON if stream.tell else answer
