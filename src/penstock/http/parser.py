# cython: language_level=3
"""Requests from bytes, without any input or output: feed bytes, get events.

>>> from penstock.http.parser import Parser
>>> parser = Parser()
>>> parser.feed(b"POST /notes?to=all HTTP/1.1\\r\\nHost: example.org\\r\\nContent-Length: 5\\r\\n\\r\\nhel")
[<Head POST /notes?to=all HTTP/1.1>, Content(b'hel')]
>>> parser.feed(b"lo")
[Content(b'lo'), End(())]
>>> parser.feed(b"GET / HTTP/1.1\\r\\nHost: a b\\r\\n\\r\\n")
Traceback (most recent call last):
penstock.http.errors.BadRequest: 400: Host is not a host and perhaps a port.

Bytes may be cut anywhere; the content comes in the pieces in which it arrived. This is the same parser that the server
uses, with a door for Python. This file must not know sockets, connections or answers.
"""

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uint32_t
from cython.cimports.penstock.http.body import body_begin, body_feed
from cython.cimports.penstock.http.head import head_feed, head_reset
from cython.cimports.penstock.http.types import (
    BODY_BAD,
    BODY_DONE,
    BODY_PIECE,
    HEAD_BAD,
    HEAD_MORE,
    FieldC,
    SpanC,
)

from penstock import limits
from penstock.http.errors import BadRequest
from penstock.http.options import RANGES
from penstock.limits import require_whole

STATE_HEAD = cython.declare(cython.int, 0)
STATE_BODY = cython.declare(cython.int, 1)
STATE_OVER = cython.declare(cython.int, 2)  # after the last request of the connection
STATE_BAD = cython.declare(cython.int, 3)

HEAD_LIMIT = cython.declare(cython.Py_ssize_t, limits.HTTP_HEAD_LIMIT_BYTES)


class Head:
    """The head of a request. Names and values of `fields` are as they came, without the white space around them.

    `host` is that of the target if it has one, else of the Host field, with its port; None if there is none. `length` is
    None without a Content-Length. `keep_alive` says whether the client wants to go on after this request.
    """

    def __repr__(self):
        return f"<Head {self.method.decode()} {self.target.decode()} HTTP/1.{self.version_minor}>"


class Content:
    """A piece of a request's content."""

    def __init__(self, data: bytes):
        self.data = data

    def __eq__(self, other):
        return isinstance(other, Content) and self.data == other.data

    def __hash__(self):
        return hash(self.data)

    def __repr__(self):
        return f"Content({self.data!r})"


class End:
    """The end of a request, with the trailer fields of a chunked one, which must not be taken for fields of the head."""

    def __init__(self, trailers: tuple = ()):
        self.trailers = trailers

    def __eq__(self, other):
        return isinstance(other, End) and self.trailers == other.trailers

    def __hash__(self):
        return hash(self.trailers)

    def __repr__(self):
        return f"End({self.trailers!r})"


# Nearly every request ends without trailer fields.
END: End = End()


@cython.cfunc
@cython.inline
def _text(data: cython.p_const_char, span: SpanC) -> bytes:
    return PyBytes_FromStringAndSize(data + span.start, span.size)


@cython.cfunc
def _split_trailers(section: bytearray) -> tuple:
    """The fields of a trailer section, whose form is checked already."""
    if len(section) <= 2:
        return ()
    pairs = [line.partition(b":") for line in bytes(section).split(b"\r\n")[:-2]]
    return tuple([(name, value.strip(b" \t")) for name, _, value in pairs])


class Parser:
    """The requests of one connection.

    The limits are those of `HttpOptions`, with the same names and defaults.
    """

    def __init__(
        self,
        *,
        max_line=limits.HTTP_LINE_MAX_BYTES,
        max_head=limits.HTTP_HEAD_MAX_BYTES,
        max_fields=limits.HTTP_FIELDS_MAX,
        max_body=limits.HTTP_BODY_MAX_BYTES,
    ):
        require_whole("max_line", max_line, *RANGES["max_line"])
        require_whole("max_head", max_head, *RANGES["max_head"])
        require_whole("max_fields", max_fields, *RANGES["max_fields"])
        require_whole("max_body", max_body, *RANGES["max_body"])
        self.head_limits.line_max = max_line
        self.head_limits.head_max = max_head
        self.head_limits.fields_max = max_fields
        self.body_limits.body_max = max_body
        self.body_limits.chunk_line_max = limits.HTTP_CHUNK_LINE_MAX_BYTES
        self.body_limits.trailer_max = limits.HTTP_TRAILER_MAX_BYTES
        self.partial = bytearray()
        self.trailers = bytearray()
        self.state = STATE_HEAD
        head_reset(cython.address(self.head))

    def feed(self, data: bytes):
        """Take bytes; return the events that they complete.

        BadRequest: this request must be refused, and the connection closed; `events` of the exception come before it.
        After the last request of a connection nothing is taken any more: see `over`.
        """
        events: list = []
        used: cython.Py_ssize_t
        if self.state >= STATE_OVER:
            self._complain(events)
            return events
        if len(self.partial) == 0:
            used = self._requests(PyBytes_AS_STRING(data), len(data), events)
            if used < len(data):
                self.partial += data[used:]
        else:
            self.partial += data
            used = self._requests(PyByteArray_AS_STRING(self.partial), len(self.partial), events)
            if used > 0:
                self.partial = self.partial[used:]
        self._complain(events)
        return events

    def eof(self):
        """Say that no more bytes will come. BadRequest: a request is not complete."""
        skipped: cython.bint = len(self.partial) == self.head.line and self.head.method_text.size == 0
        if self.state == STATE_BODY or (self.state == STATE_HEAD and not skipped):
            self.state = STATE_BAD
            self.status = 400
            self.reason = "The connection ended in the middle of a request."
        elif self.state == STATE_HEAD:
            self.state = STATE_OVER
        self._complain([])

    @property
    def over(self):
        """Whether the last request of the connection is complete: its client wants to close, or has closed."""
        return self.state == STATE_OVER

    @property
    def rest(self):
        """Bytes that belong to no event: of a head that is not complete, from a bad head on, or after the last request."""
        return bytes(self.partial)

    def _complain(self, events: list):
        if self.state == STATE_BAD:
            raise BadRequest(self.status, self.reason, tuple(events))
        return 0

    def _refuse(self, status: cython.int, reason: cython.p_const_char):
        self.state = STATE_BAD
        self.status = status
        self.reason = reason.decode()
        return 0

    def _requests(self, data: cython.p_const_char, size: cython.Py_ssize_t, events: list):
        """Parse as many requests as there are; return how many bytes are done with."""
        at: cython.Py_ssize_t = 0
        used: cython.Py_ssize_t = 0
        while at < size and self.state < STATE_OVER:
            if self.state == STATE_HEAD:
                used = self._take_head(data + at, size - at, events)
            else:
                used = self._take_body(data + at, size - at, events)
            if used == 0:
                break
            at += used
        return at

    def _take_head(self, data: cython.p_const_char, size: cython.Py_ssize_t, events: list):
        """Parse a head that begins here. 0: it is not complete, or bad."""
        # More than a head may have is not looked at.
        most: uint32_t = cython.cast(uint32_t, min(size, HEAD_LIMIT))
        said: cython.int = head_feed(cython.address(self.head), data, most, cython.address(self.head_limits))
        if said == HEAD_MORE:
            return 0
        if said == HEAD_BAD:
            self._refuse(self.head.status, self.head.reason)
            return 0
        said = body_begin(cython.address(self.body), cython.address(self.head), cython.address(self.body_limits))
        if said == BODY_BAD:
            self._refuse(self.body.status, self.body.reason)
            return 0
        events.append(self._event(data))
        self.keep_alive = self.head.keep_alive
        used: cython.Py_ssize_t = self.head.size
        self.state = STATE_BODY
        head_reset(cython.address(self.head))
        if said == BODY_DONE:
            self._end(events)
        return used

    def _take_body(self, data: cython.p_const_char, size: cython.Py_ssize_t, events: list):
        """Take content and what is between it, up to its end or that of the bytes."""
        at: cython.size_t = 0
        used: cython.size_t = 0
        piece: cython.p_const_char = cython.NULL
        piece_size: cython.size_t = 0
        before: uint32_t = self.body.trailer_bytes
        said: cython.int = BODY_PIECE
        while said == BODY_PIECE:
            said = body_feed(
                cython.address(self.body),
                data + at,
                cython.cast(cython.size_t, size) - at,
                cython.address(used),
                cython.address(piece),
                cython.address(piece_size),
                cython.address(self.body_limits),
            )
            at += used
            if said == BODY_PIECE:
                events.append(Content(PyBytes_FromStringAndSize(piece, piece_size)))
        # The trailer section comes last, so what there is of it are the last of the bytes used.
        before = self.body.trailer_bytes - before
        if before > 0:
            self.trailers += PyBytes_FromStringAndSize(data + at - before, before)
        if said == BODY_DONE:
            self._end(events)
        elif said == BODY_BAD:
            self._refuse(self.body.status, self.body.reason)
        return at

    def _end(self, events: list):
        events.append(End(_split_trailers(self.trailers)) if len(self.trailers) else END)
        if len(self.trailers):
            self.trailers = bytearray()
        self.state = STATE_HEAD if self.keep_alive else STATE_OVER
        return 0

    def _event(self, data: cython.p_const_char):
        """Make the event of a head that is done."""
        event: Head = Head.__new__(Head)
        field: cython.pointer[FieldC]
        pairs: list = []
        index: cython.int
        for index in range(self.head.field_count):
            field = cython.address(self.head.fields[index])
            pairs.append((_text(data, field.name), _text(data, field.value)))
        event.method = _text(data, self.head.method_text)
        event.target = _text(data, self.head.target)
        event.path = _text(data, self.head.path)
        event.query = _text(data, self.head.query)
        event.host = _text(data, self.head.host) if self._has_host() else None
        event.version_minor = self.head.minor
        event.fields = tuple(pairs)
        event.keep_alive = self.head.keep_alive
        event.expect_continue = self.head.expect_continue
        event.length = self.head.length if self.head.has_length else None
        event.chunked = self.head.chunked
        return event

    def _has_host(self):
        return self.head.host_count > 0 or self.head.host.size > 0
