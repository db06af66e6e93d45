# cython: language_level=3
"""The content of a request: where it ends, whichever way the head says so (RFC 9112, 6 and 7).

Content is pointed at where it lies, in pieces as they come; nothing is kept. The chunked coding is a state machine:

    size --> extension --> LF --> content --> CR --> LF --> size ...          a chunk of size 0 leads to:
                            `--> line --> name --> value --> LF --> line ...  the trailer fields, and the empty line
                                  `--> LF --> done

Extensions are ignored, but what they waste is bounded; trailer fields are checked and ignored. Every line ends with CR LF.
This file must not know fields, sockets or answers.
"""

import cython
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memset
from cython.cimports.penstock.http.types import (
    BODY_BAD,
    BODY_CHUNKED,
    BODY_DONE,
    BODY_LENGTH,
    BODY_MORE,
    BODY_NONE,
    BODY_PIECE,
    BodyC,
    BodyLimitsC,
    HeadC,
)
from cython.cimports.penstock.http.words import CHAR_TOKEN, CHAR_VALUE, chars, hex_digit

from penstock import limits

SIZE_FIRST = cython.declare(cython.int, 0)  # the first digit of a size
SIZE = cython.declare(cython.int, 1)
SIZE_SPACE = cython.declare(cython.int, 2)  # white space, which only an extension may follow
EXTENSION = cython.declare(cython.int, 3)
SIZE_LF = cython.declare(cython.int, 4)
DATA = cython.declare(cython.int, 5)
DATA_CR = cython.declare(cython.int, 6)
DATA_LF = cython.declare(cython.int, 7)
TRAILER = cython.declare(cython.int, 8)  # the first byte of a trailer field, or of the empty line
TRAILER_NAME = cython.declare(cython.int, 9)
TRAILER_VALUE = cython.declare(cython.int, 10)
TRAILER_LF = cython.declare(cython.int, 11)
END_LF = cython.declare(cython.int, 12)
OVER = cython.declare(cython.int, 13)

# A size line up to this costs nothing: it is what a chunk needs.
LINE_FREE = cython.declare(uint32_t, 16)
EXCESS_MAX = cython.declare(uint64_t, limits.HTTP_CHUNK_EXCESS_MAX_BYTES)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _refuse(body: cython.pointer[BodyC], status: cython.int, reason: cython.p_const_char) -> cython.int:
    body.status = status
    body.reason = reason
    return BODY_BAD


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def body_begin(
    body: cython.pointer[BodyC],
    head: cython.pointer[cython.const[HeadC]],
    limits: cython.pointer[cython.const[BodyLimitsC]],
) -> cython.int:
    """Take over what the head says."""
    memset(body, 0, cython.sizeof(BodyC))
    if head.chunked:
        body.kind = BODY_CHUNKED
        return BODY_MORE
    if not head.has_length or head.length == 0:
        body.kind = BODY_NONE
        return BODY_DONE
    body.kind = BODY_LENGTH
    body.left = head.length
    if head.length > limits.body_max:
        return _refuse(body, 413, b"The content is too large.")
    return BODY_MORE


# ---- the lines of the chunked coding ---------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _chunk_size(body: cython.pointer[BodyC], char: uint8_t) -> cython.int:
    """A byte of the size: a digit, or what follows it."""
    digit: cython.int = hex_digit(char)
    if digit >= 0:
        if body.left >> 60 != 0:
            return _refuse(body, 400, b"The size of a chunk is too large a number.")
        body.left = (body.left << 4) | cython.cast(uint64_t, digit)
        body.stage = SIZE
    elif body.stage == SIZE_FIRST:
        return _refuse(body, 400, b"A chunk does not begin with its size.")
    elif char == 13:
        body.stage = SIZE_LF
    elif char == 59:
        body.stage = EXTENSION
    elif char == 32 or char == 9:
        body.stage = SIZE_SPACE
    else:
        return _refuse(body, 400, b"The size of a chunk is not a hexadecimal number.")
    return BODY_MORE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _chunk_begins(body: cython.pointer[BodyC], limits: cython.pointer[cython.const[BodyLimitsC]]) -> cython.int:
    """The size line is complete."""
    wasted: uint64_t = body.excess
    if body.line_bytes > LINE_FREE:
        wasted += body.line_bytes - LINE_FREE
    if body.left > limits.body_max - body.received:
        return _refuse(body, 413, b"The content is too large.")
    wasted = wasted - body.left if wasted > body.left else 0
    if wasted > EXCESS_MAX:
        return _refuse(body, 400, b"The chunks have more extensions than content.")
    body.excess = cython.cast(uint32_t, wasted)
    body.line_bytes = 0
    body.stage = DATA if body.left > 0 else TRAILER
    return BODY_MORE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _size_line(
    body: cython.pointer[BodyC], char: uint8_t, limits: cython.pointer[cython.const[BodyLimitsC]]
) -> cython.int:
    """A byte of the line with the size and the extensions of a chunk."""
    body.line_bytes += 1
    if body.line_bytes > limits.chunk_line_max:
        return _refuse(body, 400, b"The line with the size of a chunk is too long.")
    if body.stage <= SIZE:
        return _chunk_size(body, char)
    if body.stage == SIZE_LF:
        return _chunk_begins(body, limits) if char == 10 else _refuse(body, 400, b"A chunk's line has a bare CR.")
    if body.stage == SIZE_SPACE:
        if char == 59:
            body.stage = EXTENSION
        elif char != 32 and char != 9:
            return _refuse(body, 400, b"The size of a chunk is followed by a space and no extension.")
    elif char == 13:
        body.stage = SIZE_LF
    elif not chars[char] & CHAR_VALUE:
        return _refuse(body, 400, b"The extension of a chunk has a control character.")
    return BODY_MORE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _trailer(
    body: cython.pointer[BodyC], char: uint8_t, limits: cython.pointer[cython.const[BodyLimitsC]]
) -> cython.int:
    """A byte of the trailer fields or of the empty line behind them."""
    body.trailer_bytes += 1
    # The two bytes of the empty line are not counted.
    if body.trailer_bytes > limits.trailer_max and body.stage != END_LF and (body.stage != TRAILER or char != 13):
        return _refuse(body, 431, b"The trailer fields are too large.")
    if body.stage == TRAILER_VALUE:
        if char == 13:
            body.stage = TRAILER_LF
        elif not chars[char] & CHAR_VALUE:
            return _refuse(body, 400, b"A trailer field has a control character in its value.")
    elif body.stage == TRAILER_LF or body.stage == END_LF:
        if char != 10:
            return _refuse(body, 400, b"A line of the trailer fields has a bare CR.")
        if body.stage == END_LF:
            body.stage = OVER
            return BODY_DONE
        body.stage = TRAILER
    elif chars[char] & CHAR_TOKEN:
        body.stage = TRAILER_NAME
    elif body.stage == TRAILER and char == 13:
        body.stage = END_LF
    elif body.stage == TRAILER_NAME and char == 58:
        body.stage = TRAILER_VALUE
    else:
        return _refuse(body, 400, b"A trailer field has no valid name with a colon.")
    return BODY_MORE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _between(
    body: cython.pointer[BodyC], char: uint8_t, limits: cython.pointer[cython.const[BodyLimitsC]]
) -> cython.int:
    """A byte of the chunked coding that is not content."""
    if body.stage <= SIZE_LF:
        return _size_line(body, char, limits)
    if body.stage >= TRAILER:
        return _trailer(body, char, limits)
    if body.stage == DATA_CR and char == 13:
        body.stage = DATA_LF
    elif body.stage == DATA_LF and char == 10:
        body.stage = SIZE_FIRST
    else:
        return _refuse(body, 400, b"The content of a chunk is not followed by CR LF.")
    return BODY_MORE


# ---- content ---------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take(body: cython.pointer[BodyC], size: cython.size_t) -> cython.size_t:
    """How much of so many bytes is content; it counts as received."""
    if size > body.left:
        size = body.left
    body.left -= size
    body.received += size
    return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def body_feed(
    body: cython.pointer[BodyC],
    data: cython.p_const_char,
    size: cython.size_t,
    used: cython.pointer[cython.size_t],
    piece: cython.pointer[cython.p_const_char],
    piece_size: cython.pointer[cython.size_t],
    limits: cython.pointer[cython.const[BodyLimitsC]],
) -> cython.int:
    """Use up bytes until there is a piece of the content, or the end of it or of them."""
    at: cython.size_t = 0
    said: cython.int
    used[0] = 0
    piece[0] = cython.NULL
    piece_size[0] = 0
    if body.status != 0:
        return BODY_BAD
    if body.kind == BODY_NONE or body.stage == OVER or (body.kind == BODY_LENGTH and body.left == 0):
        return BODY_DONE
    while at < size:
        if body.kind == BODY_LENGTH or body.stage == DATA:
            piece[0] = data + at
            piece_size[0] = _take(body, size - at)
            used[0] = at + piece_size[0]
            if body.kind == BODY_CHUNKED and body.left == 0:
                body.stage = DATA_CR
            return BODY_PIECE
        said = _between(body, cython.cast(uint8_t, data[at]), limits)
        at += 1
        used[0] = at
        if said != BODY_MORE:
            return said
    return BODY_MORE


# ---- one body by itself ----------------------------------------------------------------------------------------------


class BodyReader:
    """A body by itself, for tests: of a length, or chunked if that is None."""

    def __cinit__(
        self, length: int | None, body_max: int = 1 << 24, chunk_line_max: int = 256, trailer_max: int = 4_096
    ):
        memset(cython.address(self.head), 0, cython.sizeof(HeadC))
        memset(cython.address(self.body), 0xA5, cython.sizeof(BodyC))
        self.limits.body_max = body_max
        self.limits.chunk_line_max = chunk_line_max
        self.limits.trailer_max = trailer_max
        self.head.chunked = length is None
        self.head.has_length = length is not None
        self.head.length = length or 0

    def begin(self):
        """Begin: 0 more must come, 2 done, 3 bad."""
        return body_begin(cython.address(self.body), cython.address(self.head), cython.address(self.limits))

    def feed(self, data: bytes):
        """Look at some bytes once: what was said, how many were used, and the piece: 0 more, 1 piece, 2 done, 3 bad."""
        used: cython.size_t = 0
        piece: cython.p_const_char = cython.NULL
        size: cython.size_t = 0
        said: cython.int = body_feed(
            cython.address(self.body),
            data,
            len(data),
            cython.address(used),
            cython.address(piece),
            cython.address(size),
            cython.address(self.limits),
        )
        return said, used, piece[:size] if size else b""

    @property
    def status(self):
        """What to refuse the request with; 0 if it is not bad."""
        return self.body.status

    @property
    def reason(self):
        """The sentence for that."""
        return self.body.reason.decode() if self.body.reason != cython.NULL else ""

    @property
    def received(self):
        """Bytes of content so far."""
        return self.body.received

    @property
    def trailer_bytes(self):
        """Bytes of trailer fields so far."""
        return self.body.trailer_bytes
