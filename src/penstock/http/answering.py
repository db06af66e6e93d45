# cython: language_level=3
"""What becomes of a request that the program has: its answer, whole or piece by piece, and content that streams in.

This is the part of an engine that answers; engine.py has connections and the program's turn, and builds on it. An answer
is whole (bytes, or a part of a file) or made piece by piece by an iterator, which is asked for more only when the peer
has taken everything before. What a program promises as Content-Length is held: less or more ends the connection.

This file must not know listeners, nor how requests are received.
"""

import os

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, PyObject
from cython.cimports.libc.stdint import INT64_MAX, int64_t
from cython.cimports.libc.stdio import snprintf
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.http.account import account_answer
from cython.cimports.penstock.http.admission import admission_done
from cython.cimports.penstock.http.exchange import Request
from cython.cimports.penstock.http.feed import (
    feed_done,
    feed_rest,
    feed_settle,
)
from cython.cimports.penstock.http.output import output_fields, output_flush, output_put, source_add, sources_send
from cython.cimports.penstock.http.progress import step, step_deadline, step_end, step_tell
from cython.cimports.penstock.http.types import (
    EVENT_STALL,
    METHOD_HEAD,
    NEED_CONTENT,
    NEED_PIECE,
    STATE_QUEUED,
    STATE_SENDING,
    STATE_WORKING,
    HttpC,
    RequestC,
    SourceC,
)
from cython.cimports.penstock.net.transfer import stream_interest, stream_note
from cython.cimports.penstock.net.types import END_ABORTED, PULL_DONE, STREAM_OVER

from penstock import limits
from penstock.errors import UsageError
from penstock.http.message import WAIT, FilePart, Response

COPY_MAX = cython.declare(cython.Py_ssize_t, limits.HTTP_COPY_MAX_BYTES)
PIECES_SHARE = cython.declare(cython.int, limits.HTTP_PIECES_SHARE)
RECENT_MAX = limits.HTTP_RECENT_ERRORS

FAILED = Response(500, "The program behind this server failed.\n")


class Answering:
    """Requests that the program has."""

    # ---- the end of a request -------------------------------------------------------------------------------------------

    def _done(self, request: Request):
        """The program is through with a request: the admission hears of it once."""
        if request.c.begun:
            request.c.begun = False
            admission_done(self.c.admission, cython.address(request.c.work), clock_now(self.c.loop.clock))
            if self.c.by_state[STATE_QUEUED] > 0 and not self.c.working:
                # Its place in work is free, and nothing else may come that would look for who waits for it.
                self._schedule()
        return 0

    def _let_go(self, request: Request):
        """A request is answered, or nobody waits for it any more: its record lets go of the object."""
        self._done(request)
        if request.c.owned:
            request.c.owned = False
            if request.c.cut_from != cython.NULL:
                request.c.cut_from.cut = cython.NULL
                request.c.cut_from = cython.NULL
            Py_DECREF(request)
        return 0

    def _schedule(self):
        if not self.c.scheduled:
            self.c.scheduled = True
            self.loop.defer_call(self.work, None)
        return 0

    def _failed(self, error, what):
        """Report what the program has raised."""
        self.c.errors += 1
        if len(self.recent) >= RECENT_MAX:
            del self.recent[0]
        self.recent.append(f"{type(error).__name__}: {error}")
        if self.on_error is not None:
            self.on_error(error, what)
        else:
            self.loop._report(error, self.handler, "request")
        return 0

    # ---- answers --------------------------------------------------------------------------------------------------------

    # ---- what the program answers ------------------------------------------------------------------------------------

    def respond(self, request: Request, response):
        """Answer a request; False if there is nobody any more to be answered."""
        self.loop.check()
        if not isinstance(response, Response):
            raise UsageError(f"the handler gave {response!r}; give a penstock.http.Response, or None to answer later")
        if request.c.answered:
            raise UsageError(f"{request!r} is answered already; a request has one answer")
        conn: cython.pointer[HttpC] = request.c.conn
        if conn == cython.NULL:
            self._discard(response.body)
            self._let_go(request)
            return False
        whole: cython.bint = self._begin_answer(request, response)
        if not response.holds:
            # A peer that takes its answer slowly does not keep the program from others.
            self._done(request)
        if whole:
            self._finish(request)
        else:
            self._piece(request)
        return True

    def _begin_answer(self, request: Request, response) -> cython.bint:
        """Send the head, and content that is there already. True: that is all."""
        c: cython.pointer[RequestC] = request.c
        conn: cython.pointer[HttpC] = c.conn
        status: cython.int = response.status
        head: bytes = response.head
        body = response.body
        size: int64_t = -1
        c.answered = True
        c.status = status
        c.bodiless = c.head.method == METHOD_HEAD or status == 204 or status == 205 or status == 304
        if isinstance(body, bytes):
            size = len(body)
        elif isinstance(body, FilePart):
            size = body.size
        c.promised = size if response.length is None else response.length
        if status == 205:
            # It has no content, and says so (RFC 9110, 15.3.6).
            c.promised = 0
        if self.c.draining:
            conn.last = True
        if c.promised < 0 and not c.bodiless:
            # Without a length, HTTP/1.0 knows only one way to say that this is all.
            c.chunked = c.head.minor > 0
            if not c.chunked:
                conn.last = True
        if c.streaming and not c.complete:
            conn.last = True
        output_put(conn, PyBytes_AS_STRING(head), len(head))
        _framing(c)
        output_fields(conn, c.head.minor == 0 and not conn.last)
        if size < 0:
            if c.bodiless:
                self._discard(body)
                size = 0
            else:
                request.pieces = iter(body)
        elif c.bodiless:
            self._discard(body)
            size = 0
        elif size != c.promised:
            self._broken(request, conn, size)
            size = 0
        c.sent = max(0, size)
        c.finished = size >= 0
        if size > 0:
            self._put_content(conn, body, size)
        account_answer(conn, cython.address(c.head), c.bytes, status, c.sent)
        return c.finished

    def _broken(self, request: Request, conn: cython.pointer[HttpC], size: int64_t):
        """The content is not as long as the program has said: nothing that follows could be believed."""
        self.c.broken_promises += 1
        body_size: object = size
        promised: object = request.c.promised
        self._failed(
            UsageError(f"the answer has {body_size:,} bytes of content, but its Content-Length says {promised:,}"),
            request,
        )
        output_flush(conn, False)
        conn.stream.reset = True
        step_end(conn, END_ABORTED)
        return 0

    def _put_content(self, conn: cython.pointer[HttpC], body, size: int64_t):
        source: cython.pointer[SourceC]
        if size <= COPY_MAX and isinstance(body, bytes):
            output_put(conn, PyBytes_AS_STRING(body), size)
            return 0
        source = source_add(conn, size)
        if source == cython.NULL:
            raise MemoryError("no memory to send an answer")
        if isinstance(body, bytes):
            Py_INCREF(body)
            source.owner = cython.cast(cython.pointer[PyObject], body)
            source.data = PyBytes_AS_STRING(body)
        else:
            source.fd = body.fd
            source.owns_fd = True
            source.offset = body.offset
        return 0

    def _discard(self, body):
        """Content that nobody will get."""
        if isinstance(body, FilePart):
            os.close(body.fd)
        elif not isinstance(body, bytes) and hasattr(body, "close"):
            try:
                body.close()
            except Exception as error:
                self._failed(error, body)

    def _finish(self, request: Request):
        """The answer is complete."""
        c: cython.pointer[RequestC] = request.c
        conn: cython.pointer[HttpC] = c.conn
        request.pieces = None
        request.on_content = None
        request.on_gone = None
        self._let_go(request)
        if conn != cython.NULL:
            feed_done(conn, c)
        return 0

    def _piece(self, request: Request):
        """Make more of an answer, as fast as the peer takes it."""
        c: cython.pointer[RequestC] = request.c
        count: cython.int = 0
        try:
            while c.conn != cython.NULL and request.pieces is not None:
                if not output_flush(c.conn, False) or sources_send(c.conn) != PULL_DONE:
                    return self._wait(c.conn)
                if count == PIECES_SHARE:
                    step_tell(c.conn, NEED_PIECE)
                    return 0
                count += 1
                piece = next(request.pieces, None)
                if piece is None:
                    self._end_pieces(request)
                elif piece is WAIT:
                    return self._pause(request)
                elif not isinstance(piece, bytes):
                    raise UsageError(f"a piece of an answer is {type(piece).__name__}; give bytes")
                elif piece:
                    self._send_piece(request, piece)
        except Exception as error:
            self._failed(error, request)
            self._abort(request)
        return 0

    def _wait(self, conn: cython.pointer[HttpC]):
        """The peer has to take what there is before more is made."""
        if conn.stream.state < STREAM_OVER:
            if conn.state == STATE_WORKING:
                step(conn, EVENT_STALL)
            conn.stream.pulling = True
            stream_interest(conn.stream)
        elif not conn.feeding:
            stream_note(conn.stream)
        return 0

    def _pause(self, request: Request):
        """There is nothing to send until the program says `resume`; that is not the peer's doing, so no deadline runs."""
        conn: cython.pointer[HttpC] = request.c.conn
        conn.stream.deadline_ns = INT64_MAX
        return 0

    def resume(self, request: Request):
        """Ask the answer's iterable for more, after it has yielded `WAIT`."""
        self.loop.check()
        if request.c.conn != cython.NULL and request.pieces is not None:
            if request.c.conn.state == STATE_SENDING or request.c.conn.state == STATE_WORKING:
                step_deadline(request.c.conn)
            self._piece(request)
            if request.c.conn != cython.NULL:
                feed_settle(request.c.conn)

    def _send_piece(self, request: Request, piece: bytes):
        c: cython.pointer[RequestC] = request.c
        size: cython.Py_ssize_t = len(piece)
        line: cython.char[24]
        c.sent += size
        self.c.sent_content += size
        if c.promised >= 0 and c.sent > c.promised:
            c.sent -= size
            self._too_much(request, piece)
            return 0
        if c.chunked:
            # The end of a chunk is sent with the beginning of the next one: what is between may be sent from its place.
            start: cython.p_const_char = b"\r\n%zx\r\n" if c.within else b"%zx\r\n"
            count: cython.int = snprintf(line, 24, start, cython.cast(cython.size_t, size))
            output_put(c.conn, line, count)
            c.within = True
        return self._put_content(c.conn, piece, size)

    def _too_much(self, request: Request, piece: bytes):
        """More content than was promised: what was promised is sent, and the connection ends."""
        c: cython.pointer[RequestC] = request.c
        fits: cython.Py_ssize_t = c.promised - c.sent
        c.conn.last = True
        self._put_content(c.conn, piece[:fits], fits)
        c.sent += fits
        self.c.broken_promises += 1
        pieces, request.pieces = request.pieces, None
        self._discard(pieces)
        promised: object = c.promised
        self._failed(
            UsageError(f"the answer has more content than its Content-Length says, {promised:,} bytes"), request
        )
        self._finish(request)
        return 0

    def _end_pieces(self, request: Request):
        c: cython.pointer[RequestC] = request.c
        if c.promised >= 0 and c.sent < c.promised:
            self.c.broken_promises += 1
            sent: object = c.sent
            promised: object = c.promised
            raise UsageError(f"the answer has {sent:,} bytes of content, but its Content-Length says {promised:,}")
        if c.chunked:
            output_put(c.conn, b"\r\n0\r\n\r\n" if c.within else b"0\r\n\r\n", 7 if c.within else 5)
        self._finish(request)
        return 0

    def _abort(self, request: Request):
        """An answer will not be complete; only the end of the connection can say so."""
        conn: cython.pointer[HttpC] = request.c.conn
        pieces, request.pieces = request.pieces, None
        self._discard(pieces)
        if conn != cython.NULL:
            output_flush(conn, False)
            conn.stream.reset = True
            step_end(conn, END_ABORTED)
        return 0

    def fail(self, request: Request, error):
        """Say that the program failed on a request that it was to answer later."""
        self.loop.check()
        self._failed(error, request)
        if request.c.answered:
            self._abort(request)
        elif request.c.conn != cython.NULL:
            self.respond(request, FAILED)

    # ---- content that streams ----------------------------------------------------------------------------------------

    def receive(self, request: Request, on_content):
        """Have the content of a request given to a callback as it comes."""
        self.loop.check()
        if not callable(on_content):
            raise UsageError(f"the callback {on_content!r} cannot be called")
        if request.on_content is not None:
            raise UsageError(f"{request!r} has a receiver already")
        request.on_content = on_content
        if request.c.conn != cython.NULL:
            step_tell(request.c.conn, NEED_CONTENT)

    def _give_content(self, request: Request):
        """Give the program what has come, and let the peer send more."""
        c: cython.pointer[RequestC] = request.c
        callback = request.on_content
        if callback is None:
            return 0
        try:
            if c.content_size > 0:
                data = PyBytes_FromStringAndSize(c.content, c.content_size)
                c.content_size = 0
                callback(data)
            if c.complete and c.content_size == 0 and request.on_content is not None:
                request.on_content = None
                callback(None)
        except Exception as error:
            self._failed(error, request)
            if not c.answered and c.conn != cython.NULL:
                self.respond(request, FAILED)
            return 0
        if c.conn != cython.NULL and not c.complete:
            feed_rest(c.conn)
            feed_settle(c.conn)
        return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _framing(c: cython.pointer[RequestC]) -> cython.void:
    """The field that says where the content of an answer ends."""
    line: cython.char[48]
    count: cython.int
    if c.chunked:
        output_put(c.conn, b"Transfer-Encoding: chunked\r\n", 28)
    elif c.promised >= 0 and c.status != 204 and (c.status != 304 or c.promised > 0):
        count = snprintf(line, 48, b"Content-Length: %lld\r\n", cython.cast(cython.longlong, c.promised))
        output_put(c.conn, line, count)
