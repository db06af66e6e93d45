# cython: language_level=3
"""The head of a request: its line and its fields, found where they lie and checked (RFC 9110 and 9112).

A head is looked at line by line. Each line is taken apart when its end has come, and never again: bytes that trickle in
cost as much as bytes that come at once. Nothing is copied; places in the head are kept in 16 bits.

Stricter than most: a line ends with CR LF and nothing else; one space, not several, parts the request line; a field is
refused rather than repaired; everything that could make two programs see two different requests is an error. More lenient:
a few empty lines before the request line are skipped, and targets may have what `words.py` says. This file must not know
bodies, sockets or answers.
"""

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_GET_SIZE
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memchr, memcmp, memset
from cython.cimports.penstock.http.target import authority_host, target_parse
from cython.cimports.penstock.http.types import (
    FIELD_CONNECTION,
    FIELD_CONTENT_LENGTH,
    FIELD_COUNT,
    FIELD_EXPECT,
    FIELD_HOST,
    FIELD_OTHER,
    FIELD_TRANSFER_ENCODING,
    HEAD_BAD,
    HEAD_DONE,
    HEAD_FIELDS_MAX,
    HEAD_MORE,
    TARGET_ABSOLUTE,
    TARGET_AUTHORITY,
    TARGET_ORIGIN,
    FieldC,
    HeadC,
    HeadLimitsC,
    SpanC,
)
from cython.cimports.penstock.http.words import (
    CHAR_DIGIT,
    CHAR_PATH,
    CHAR_QUERY,
    CHAR_TOKEN,
    chars,
    clean_value,
    field_of,
    is_token,
    method_of,
    next_item,
    same_word,
)

from penstock import limits

STAGE_LINE = cython.declare(cython.int, 0)
STAGE_FIELDS = cython.declare(cython.int, 1)
STAGE_DONE = cython.declare(cython.int, 2)

HEAD_LIMIT = cython.declare(uint32_t, limits.HTTP_HEAD_LIMIT_BYTES)
# Where the request line begins at the latest: each empty line before it has two bytes.
LINE_START_MAX = cython.declare(uint32_t, 2 * limits.HTTP_EMPTY_LINES_MAX)
# The largest length that there may be: what a file may have.
LENGTH_MAX = cython.declare(uint64_t, (1 << 63) - 1)

if limits.HTTP_FIELDS_MAX != HEAD_FIELDS_MAX or limits.HTTP_HEAD_LIMIT_BYTES > 65_535:
    raise AssertionError("HEAD_FIELDS_MAX of types.pxd, or its 16 bits for a place, do not fit limits.py")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _refuse(head: cython.pointer[HeadC], status: cython.int, reason: cython.p_const_char) -> cython.int:
    head.status = status
    head.reason = reason
    return HEAD_BAD


# ---- the request line ------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _version(head: cython.pointer[HeadC], text: cython.p_const_char, size: uint32_t) -> cython.int:
    """`HTTP/1.0`, or `HTTP/1.` and any other digit, which means 1.1 to us."""
    if size != 8 or memcmp(text, b"HTTP/", 5) != 0 or text[6] != 46:
        return _refuse(head, 400, b"The request line does not end with a version of HTTP.")
    if text[5] < 48 or text[5] > 57 or text[7] < 48 or text[7] > 57:
        return _refuse(head, 400, b"The request line does not end with a version of HTTP.")
    if text[5] != 49:
        return _refuse(head, 505, b"This server speaks HTTP/1.1 and HTTP/1.0.")
    head.minor = 0 if text[7] == 48 else 1
    head.keep_alive = head.minor == 1
    return HEAD_MORE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _bad_target(head: cython.pointer[HeadC], char: cython.char, empty: cython.bint) -> cython.int:
    """Say why a target ends where it does."""
    if char == 35:
        return _refuse(head, 400, b"The target has a fragment.")
    if char == 13:
        return _refuse(head, 400, b"The request line has no version.")
    if empty and char == 32:
        return _refuse(head, 400, b"The request line has more than one space in a row.")
    return _refuse(head, 400, b"The target has a character that must be encoded.")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _request_line(head: cython.pointer[HeadC], data: cython.p_const_char, line: uint32_t, stop: uint32_t) -> cython.int:
    """Method, space, target, space, version. The CR at `stop` belongs to no class of characters and ends every loop."""
    table: cython.pointer[cython.const[uint8_t]] = chars
    at: uint32_t = line
    start: uint32_t
    mark: uint32_t
    wrong: cython.p_const_char
    while table[cython.cast(uint8_t, data[at])] & CHAR_TOKEN:
        at += 1
    if at == line or data[at] != 32:
        return _refuse(head, 400, b"The request line does not begin with a method and a space.")
    head.method_text.start = line
    head.method_text.size = at - line
    head.method = method_of(data + line, at - line)
    at += 1
    start = at
    while table[cython.cast(uint8_t, data[at])] & CHAR_PATH:
        at += 1
    mark = at
    if data[at] == 63:
        at += 1
        while table[cython.cast(uint8_t, data[at])] & CHAR_QUERY:
            at += 1
    if at == start or data[at] != 32:
        return _bad_target(head, data[at], at == start)
    head.target.start = start
    head.target.size = at - start
    if _version(head, data + at + 1, stop - at - 1) == HEAD_BAD:
        return HEAD_BAD
    wrong = target_parse(head, data, mark)
    if wrong != cython.NULL:
        return _refuse(head, 400, wrong)
    head.stage = STAGE_FIELDS
    return HEAD_MORE


# ---- fields that frame the message -----------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _host(
    head: cython.pointer[HeadC], text: cython.p_const_char, size: uint32_t, place: cython.pointer[SpanC]
) -> cython.int:
    """RFC 9110, 7.2. Empty is valid grammar, but no URI of http can have that host."""
    host: cython.int = authority_host(text, size)
    head.host_count += 1
    if head.host_count > 1:
        return _refuse(head, 400, b"There is more than one Host.")
    if host < 0 or (size > 0 and host == 0) or (size == 0 and head.form == TARGET_ORIGIN):
        return _refuse(head, 400, b"Host is not a host and perhaps a port.")
    if head.form != TARGET_ABSOLUTE and head.form != TARGET_AUTHORITY:
        head.host = place[0]
    return HEAD_MORE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _content_length(head: cython.pointer[HeadC], value: cython.p_const_char, size: uint32_t) -> cython.int:
    """RFC 9110, 8.6: digits, or the same number several times."""
    at: uint32_t = 0
    index: uint32_t
    item: cython.p_const_char = value
    item_size: uint32_t = 0
    length: uint64_t
    while next_item(value, size, cython.address(at), cython.address(item), cython.address(item_size)):
        length = 0
        for index in range(item_size):
            if not chars[cython.cast(uint8_t, item[index])] & CHAR_DIGIT:
                return _refuse(head, 400, b"Content-Length is not a number.")
            if length <= LENGTH_MAX // 10:
                length = length * 10 + cython.cast(uint64_t, item[index] - 48)
            else:
                length = LENGTH_MAX + 1
            if length > LENGTH_MAX:
                return _refuse(head, 400, b"Content-Length is too large a number.")
        if item_size == 0:
            return _refuse(head, 400, b"Content-Length is not a number.")
        if head.has_length and head.length != length:
            return _refuse(head, 400, b"There are two different values of Content-Length.")
        head.has_length = True
        head.length = length
    return HEAD_MORE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _transfer_encoding(head: cython.pointer[HeadC], value: cython.p_const_char, size: uint32_t) -> cython.int:
    """RFC 9112, 6.1: the only coding is chunked. Empty items of the list are nothing, but a list of nothing is an error."""
    at: uint32_t = 0
    item: cython.p_const_char = value
    item_size: uint32_t = 0
    found: cython.bint = False
    if head.minor == 0:
        return _refuse(head, 400, b"Transfer-Encoding is not for HTTP/1.0.")
    while next_item(value, size, cython.address(at), cython.address(item), cython.address(item_size)):
        if item_size == 0:
            continue
        found = True
        if head.chunked:
            return _refuse(head, 400, b"The transfer coding chunked is not the last one.")
        if same_word(item, item_size, b"chunked", 7):
            head.chunked = True
        elif is_token(item, item_size):
            return _refuse(head, 501, b"Of the transfer codings only chunked is supported.")
        else:
            return _refuse(head, 400, b"Transfer-Encoding is not a list of codings without parameters.")
    return HEAD_MORE if found else _refuse(head, 400, b"Transfer-Encoding is empty.")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _connection(head: cython.pointer[HeadC], value: cython.p_const_char, size: uint32_t) -> cython.int:
    """RFC 9112, 9.3. Options that mean nothing to us are ignored, whatever they look like."""
    at: uint32_t = 0
    item: cython.p_const_char = value
    item_size: uint32_t = 0
    while next_item(value, size, cython.address(at), cython.address(item), cython.address(item_size)):
        if same_word(item, item_size, b"close", 5):
            head.closing = True
        elif same_word(item, item_size, b"keep-alive", 10):
            head.keep_alive = True
    return HEAD_MORE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _expect(head: cython.pointer[HeadC], value: cython.p_const_char, size: uint32_t) -> cython.int:
    """RFC 9110, 10.1.1: what a client of HTTP/1.0 expects is ignored."""
    at: uint32_t = 0
    item: cython.p_const_char = value
    item_size: uint32_t = 0
    if head.minor == 0:
        return HEAD_MORE
    while next_item(value, size, cython.address(at), cython.address(item), cython.address(item_size)):
        if same_word(item, item_size, b"100-continue", 12):
            head.expect_continue = True
        elif item_size > 0:
            return _refuse(head, 417, b"Of the expectations only 100-continue is supported.")
    return HEAD_MORE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _framing(head: cython.pointer[HeadC], field: cython.pointer[FieldC], data: cython.p_const_char) -> cython.int:
    """Take notice of a field that says where the message ends or what becomes of the connection."""
    value: cython.p_const_char = data + field.value.start
    size: uint32_t = field.value.size
    if field.known == FIELD_HOST:
        return _host(head, value, size, cython.address(field.value))
    if field.known == FIELD_CONNECTION:
        return _connection(head, value, size)
    if field.known == FIELD_CONTENT_LENGTH:
        return _content_length(head, value, size)
    if field.known == FIELD_TRANSFER_ENCODING:
        return _transfer_encoding(head, value, size)
    return _expect(head, value, size)


# ---- fields ----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _bad_name(head: cython.pointer[HeadC], char: cython.char, first: cython.bint) -> cython.int:
    """Say why a field's name ends where it does."""
    if char == 32 or char == 9:
        if first:
            return _refuse(head, 400, b"A header field is folded over several lines.")
        return _refuse(head, 400, b"A header field has a space in its name or before its colon.")
    if char == 58:
        return _refuse(head, 400, b"A header field has no name.")
    if char == 13:
        return _refuse(head, 400, b"A header field has no colon.")
    return _refuse(head, 400, b"A header field has a character in its name that is not allowed there.")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _field(
    head: cython.pointer[HeadC],
    data: cython.p_const_char,
    stop: uint32_t,
    limits: cython.pointer[cython.const[HeadLimitsC]],
) -> cython.int:
    """Name, colon, value, with white space around the value only. Of the loops the first ends at the CR at `stop`."""
    table: cython.pointer[cython.const[uint8_t]] = chars
    field: cython.pointer[FieldC]
    line: uint32_t = head.line
    at: uint32_t = line
    colon: uint32_t
    known: cython.int
    while table[cython.cast(uint8_t, data[at])] & CHAR_TOKEN:
        at += 1
    if at == line or data[at] != 58:
        return _bad_name(head, data[at], at == line)
    colon = at
    at += 1
    while data[at] == 32 or data[at] == 9:
        at += 1
    while stop > at and (data[stop - 1] == 32 or data[stop - 1] == 9):
        stop -= 1
    if not clean_value(data + at, stop - at):
        return _refuse(head, 400, b"A header field has a control character in its value.")
    if head.field_count >= limits.fields_max or head.field_count >= HEAD_FIELDS_MAX:
        return _refuse(head, 431, b"There are too many header fields.")
    known = field_of(data + line, colon - line)
    field = cython.address(head.fields[head.field_count])
    field.name.start = line
    field.name.size = colon - line
    field.value.start = at
    field.value.size = stop - at
    field.known = known
    head.field_count += 1
    if known == FIELD_OTHER:
        return HEAD_MORE
    head.again[known] += 1
    if head.first[known] == 0:
        head.first[known] = head.field_count
    return HEAD_MORE if known > FIELD_EXPECT else _framing(head, field, data)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _finish(head: cython.pointer[HeadC], size: uint32_t) -> cython.int:
    """The empty line has come: what only the whole head can tell."""
    if head.host_count == 0 and head.minor > 0:
        return _refuse(head, 400, b"There is no Host.")
    if head.chunked and head.has_length:
        return _refuse(head, 400, b"There are both Transfer-Encoding and Content-Length.")
    if head.closing:
        head.keep_alive = False
    head.size = size
    head.stage = STAGE_DONE
    return HEAD_DONE


# ---- lines -----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _line(
    head: cython.pointer[HeadC],
    data: cython.p_const_char,
    end: uint32_t,
    limits: cython.pointer[cython.const[HeadLimitsC]],
) -> cython.int:
    """Take the line apart that begins at `head.line` and whose LF is the byte before `end`."""
    line: uint32_t = head.line
    stop: uint32_t = end - 2
    if head.stage == STAGE_LINE and end - line > limits.line_max + 2:
        return _refuse(head, 414, b"The request line is too long.")
    if end - line < 2 or data[stop] != 13:
        return _refuse(head, 400, b"A line of the head does not end with CR LF.")
    if head.stage == STAGE_FIELDS:
        return _finish(head, end) if stop == line else _field(head, data, stop, limits)
    if stop > line:
        return _request_line(head, data, line, stop)
    if line >= LINE_START_MAX:
        return _refuse(head, 400, b"There are too many empty lines before the request line.")
    return HEAD_MORE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def head_reset(head: cython.pointer[HeadC]) -> cython.void:
    """Begin anew. The places of fields are written before they are read."""
    memset(
        head, 0, cython.cast(cython.size_t, cython.cast(cython.p_char, head.fields) - cython.cast(cython.p_char, head))
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def head_feed(
    head: cython.pointer[HeadC],
    data: cython.p_const_char,
    size: uint32_t,
    limits: cython.pointer[cython.const[HeadLimitsC]],
) -> cython.int:
    """Look at what is new of `data`, which is the head from its first byte: HEAD_MORE, HEAD_DONE or HEAD_BAD.

    Bytes beyond the limit are not looked at. Whether a head is too large does not depend on how it was cut to pieces.
    """
    most: uint32_t = limits.head_max if limits.head_max < HEAD_LIMIT else HEAD_LIMIT
    end: uint32_t
    said: cython.int
    found: cython.p_const_char
    if head.status != 0:
        return HEAD_BAD
    if head.stage == STAGE_DONE:
        return HEAD_DONE
    if size < most:
        most = size
    while head.scanned < most:
        found = cython.cast(cython.p_const_char, memchr(data + head.scanned, 10, most - head.scanned))
        if found == cython.NULL:
            head.scanned = most
            break
        end = cython.cast(uint32_t, found - data) + 1
        head.scanned = end
        said = _line(head, data, end, limits)
        if said != HEAD_MORE:
            return said
        head.line = end
    if head.stage == STAGE_LINE and most - head.line >= limits.line_max + 2:
        return _refuse(head, 414, b"The request line is too long.")
    if most >= limits.head_max or most >= HEAD_LIMIT:
        if head.stage == STAGE_LINE:
            return _refuse(head, 414, b"The request line is too long.")
        return _refuse(head, 431, b"The head is too large.")
    return HEAD_MORE


# ---- one head by itself ----------------------------------------------------------------------------------------------


class HeadReader:
    """A head by itself, for tests and measurements; `parser.py` is what a program uses."""

    def __cinit__(self, line_max: int = 8_190, head_max: int = 16_384, fields_max: int = HEAD_FIELDS_MAX):
        self.limits.line_max = line_max
        self.limits.head_max = head_max
        self.limits.fields_max = fields_max
        self.data = b""
        memset(cython.address(self.head), 0xA5, cython.sizeof(HeadC))
        head_reset(cython.address(self.head))

    def feed(self, data: bytes):
        """Look at the head from its first byte: 0 more must come, 1 done, 2 bad."""
        self.data = data
        return head_feed(cython.address(self.head), data, len(data), cython.address(self.limits))

    def repeat(self, data: bytes, times: int):
        """Parse a head anew so many times, without the GIL; what the last one came to."""
        text: cython.p_const_char = PyBytes_AS_STRING(data)
        size: uint32_t = PyBytes_GET_SIZE(data)
        left: uint64_t = times
        said: cython.int = HEAD_MORE
        self.data = data
        with cython.nogil:
            while left > 0:
                head_reset(cython.address(self.head))
                said = head_feed(cython.address(self.head), text, size, cython.address(self.limits))
                left -= 1
        return said

    def _text(self, span: SpanC):
        return self.data[span.start : span.start + span.size]

    def facts(self):
        """Everything that is known, by name."""
        head: cython.pointer[HeadC] = cython.address(self.head)
        facts: dict = {}
        facts["fields"] = tuple(
            [(self._text(head.fields[i].name), self._text(head.fields[i].value)) for i in range(head.field_count)]
        )
        facts["known"] = tuple([head.fields[i].known for i in range(head.field_count)])
        facts["first"] = tuple([head.first[i] for i in range(FIELD_COUNT)])
        facts["again"] = tuple([head.again[i] for i in range(FIELD_COUNT)])
        facts["method"] = self._text(head.method_text)
        facts["method_number"] = head.method
        facts["minor"] = head.minor
        facts["form"] = head.form
        facts["target"] = self._text(head.target)
        facts["path"] = self._text(head.path)
        facts["query"] = self._text(head.query)
        facts["host"] = self._text(head.host)
        facts["keep_alive"] = bool(head.keep_alive)
        facts["expect_continue"] = bool(head.expect_continue)
        facts["chunked"] = bool(head.chunked)
        facts["length"] = head.length if head.has_length else None
        facts["size"] = head.size
        return facts

    @property
    def status(self):
        """What to refuse the request with; 0 if it is not bad."""
        return self.head.status

    @property
    def reason(self):
        """The sentence for that."""
        return self.head.reason.decode() if self.head.reason != cython.NULL else ""

    @property
    def scanned(self):
        """Bytes that were looked at."""
        return self.head.scanned
