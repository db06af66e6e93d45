# cython: language_level=3
"""How does a line of the access log look? A format is compiled to parts once, and a line is made from them without the GIL.

    {peer}      address of the client             {status}    the answer's status
    {method}    method of the request             {bytes}     bytes of content that were sent
    {target}    what was asked for, as it came    {time}      10/Oct/2000:13:55:36 +0200, local
    {path}      of that, before the query         {iso_time}  2000-10-10T13:55:36.123+02:00, local
    {query}     of that, behind the question mark {unix}      seconds since 1970, with milliseconds
    {version}   HTTP/1.1 or HTTP/1.0              {took_us}   microseconds from arrival to the last byte
    {referer}   where the client says it is from  {took_s}    the same in seconds, with microseconds
    {agent}     what the client says it is

`{{` and `}}` are braces. A text that is missing is `-` (in JSON an empty string). Credentials and cookies are not among
the placeholders and cannot be logged; with `query=False` queries are left out, also of the referer.

What a client sends never becomes more than a text: control characters, double quotes, backslashes and everything outside
ASCII are written as `\\xHH`; spaces too in methods and targets, and where a placeholder is not between double quotes. In
the format `json` the same become `\\u00HH`, one per byte. What is too long is cut and ends in `...`. So each line is one
line, can be taken apart again, and cannot pass for two.

This file must not know files, rings or threads.
"""

import string

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memchr, memcpy, memset
from cython.cimports.penstock.http.system import localtime_r, time_t, tm
from cython.cimports.penstock.http.types import (
    ESCAPE_BARE,
    ESCAPE_JSON,
    ESCAPE_QUOTED,
    PART_AGENT,
    PART_BYTES,
    PART_ISO_TIME,
    PART_LITERAL,
    PART_METHOD,
    PART_PATH,
    PART_PEER,
    PART_QUERY,
    PART_REFERER,
    PART_STATUS,
    PART_TARGET,
    PART_TIME,
    PART_TOOK_S,
    PART_TOOK_US,
    PART_UNIX,
    PART_VERSION,
    FormatC,
    LogLineC,
    PartC,
)

from penstock import limits
from penstock.errors import UsageError

_COMMON = '{peer} - - [{time}] "{method} {target} {version}" {status} {bytes}'
_JSON = (
    '{{"time":"{iso_time}","peer":"{peer}","method":"{method}","target":"{target}","version":"{version}",'
    '"status":{status},"bytes":{bytes},"referer":"{referer}","agent":"{agent}","took_us":{took_us}}}'
)
FORMATS = {"common": _COMMON, "combined": _COMMON + ' "{referer}" "{agent}"', "json": _JSON}

_KINDS = {
    "peer": PART_PEER,
    "method": PART_METHOD,
    "target": PART_TARGET,
    "path": PART_PATH,
    "query": PART_QUERY,
    "referer": PART_REFERER,
    "agent": PART_AGENT,
    "version": PART_VERSION,
    "status": PART_STATUS,
    "bytes": PART_BYTES,
    "time": PART_TIME,
    "iso_time": PART_ISO_TIME,
    "unix": PART_UNIX,
    "took_us": PART_TOOK_US,
    "took_s": PART_TOOK_S,
}
PLACEHOLDERS = tuple(_KINDS)

FIELD_MAX = cython.declare(uint32_t, limits.HTTP_LOG_FIELD_BYTES)
# More than any number or time takes.
NUMBER_MAX = cython.declare(uint32_t, 48)
HEX = cython.declare(cython.p_char, b"0123456789abcdef")
MONTHS = cython.declare(cython.p_char, b"JanFebMarAprMayJunJulAugSepOctNovDec")


# ---- compiling -------------------------------------------------------------------------------------------------------


def _parse(text):
    """A format as a list of literals (bytes) and names of placeholders (str)."""
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError as error:
        raise UsageError(f"the log's format {text!r} is broken: {error}; write {{{{ and }}}} for braces") from None
    parts: list = []
    for literal, name, spec, conversion in pieces:
        if literal:
            parts.append(literal.encode())
        if name is None:
            continue
        if name not in _KINDS or spec or conversion:
            known = ", ".join(_KINDS)
            raise UsageError(f"the log's format has {{{name}}}; what may stand in braces is: {known}")
        parts.append(name)
    return parts


def _check(text):
    """Raise unless the text can be a format."""
    if not isinstance(text, str) or not text:
        raise UsageError(f"the log's format is {text!r}; give {', '.join(FORMATS)} or a text with {{placeholders}}")
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise UsageError(f"the log's format {text!r} has a control character; a line of the log is one line of text")


def format_init(format: cython.pointer[FormatC], text, query: cython.bint):
    """Compile a format, given by name or as a text. -1: an exception is set."""
    memset(format, 0, cython.sizeof(FormatC))
    json: cython.bint = text == "json"
    _check(text)
    parts = _parse(FORMATS.get(text, text))
    if len(parts) > limits.HTTP_LOG_PARTS_MAX:
        raise UsageError(f"the log's format has {len(parts)} parts; at most {limits.HTTP_LOG_PARTS_MAX} are allowed")
    literals: bytes = b"".join(part for part in parts if isinstance(part, bytes))
    size: cython.size_t = len(literals)
    format.parts = cython.cast(cython.pointer[PartC], calloc(len(parts) + 1, cython.sizeof(PartC)))
    format.literals = cython.cast(cython.p_char, malloc(size + 1))
    if format.parts == cython.NULL or format.literals == cython.NULL:
        format_free(format)
        raise MemoryError("no memory for a log's format")
    memcpy(format.literals, cython.cast(cython.p_char, literals), size)
    format.query = query
    format.field_max = FIELD_MAX
    format.second = -1
    format.line_max = 1
    start: cython.size_t = 0
    quoted: cython.bint = False
    for part in parts:
        one: cython.pointer[PartC] = cython.address(format.parts[format.count])
        format.count += 1
        one.escape = ESCAPE_JSON if json else ESCAPE_QUOTED if quoted else ESCAPE_BARE
        if isinstance(part, bytes):
            one.start = start
            one.size = len(part)
            start += len(part)
            quoted = quoted != (part.count(b'"') % 2 == 1)
            format.line_max += one.size
        else:
            one.kind = _KINDS[part]
            format.line_max += FIELD_MAX + NUMBER_MAX
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def format_free(format: cython.pointer[FormatC]) -> cython.void:
    """Give a format back."""
    free(format.parts)
    free(format.literals)
    format.parts = cython.NULL
    format.literals = cython.NULL
    format.count = 0


# ---- texts -----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _plain(byte: uint8_t, escape: uint8_t) -> cython.bint:
    """Whether a byte may stand in the log as it is."""
    if byte <= 32:
        return byte == 32 and escape != ESCAPE_BARE
    return byte < 127 and byte != 34 and byte != 92


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_text(
    out: cython.p_char,
    text: cython.pointer[cython.const[cython.char]],
    size: uint32_t,
    escape: uint8_t,
    most: uint32_t,
) -> uint32_t:
    """Write a text so that it stays one. Never more than `most` bytes; a cut text ends in three dots."""
    if size == 0:
        if escape == ESCAPE_JSON:
            return 0
        out[0] = 45
        return 1
    used: uint32_t = 0
    index: uint32_t
    for index in range(size):
        if used + 9 > most:
            memcpy(out + used, b"...", 3)
            return used + 3
        byte: uint8_t = cython.cast(uint8_t, text[index])
        if _plain(byte, escape):
            out[used] = byte
            used += 1
            continue
        if escape == ESCAPE_JSON:
            memcpy(out + used, b"\\u00", 4)
            used += 4
        else:
            memcpy(out + used, b"\\x", 2)
            used += 2
        out[used] = HEX[byte >> 4]
        out[used + 1] = HEX[byte & 15]
        used += 2
    return used


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_number(out: cython.p_char, value: uint64_t, width: uint32_t) -> uint32_t:
    """Write a number in decimal, with zeros before it up to a width."""
    digits: cython.char[24]
    count: uint32_t = 0
    while value > 0 or count < width or count == 0:
        digits[count] = cython.cast(cython.char, 48 + value % 10)
        value //= 10
        count += 1
    index: uint32_t
    for index in range(count):
        out[index] = digits[count - 1 - index]
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_fraction(out: cython.p_char, value: uint64_t, unit: uint64_t, width: uint32_t) -> uint32_t:
    """Write value / unit with so many digits behind the point."""
    used: uint32_t = _put_number(out, value // unit, 1)
    out[used] = 46
    return used + 1 + _put_number(out + used + 1, value % unit, width)


# ---- times -----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _refresh(format: cython.pointer[FormatC], second: int64_t) -> cython.void:
    """Make the texts of a second: the calendar is asked once for all lines of it."""
    when: time_t = second
    local: tm
    memset(cython.address(local), 0, cython.sizeof(tm))
    localtime_r(cython.address(when), cython.address(local))
    minutes: cython.long = local.tm_gmtoff // 60
    negative: cython.bint = minutes < 0
    if negative:
        minutes = -minutes
    out: cython.p_char = format.offset
    out[0] = 45 if negative else 43
    _put_number(out + 1, minutes // 60 % 100, 2)
    out[3] = 58
    _put_number(out + 4, minutes % 60, 2)
    year: uint64_t = (local.tm_year + 1900) % 10000
    out = format.local
    _put_number(out, local.tm_mday, 2)
    out[2] = 47
    memcpy(out + 3, MONTHS + 3 * (local.tm_mon % 12), 3)
    out[6] = 47
    _put_number(out + 7, year, 4)
    out[11] = 58
    _put_number(out + 12, local.tm_hour, 2)
    out[14] = 58
    _put_number(out + 15, local.tm_min, 2)
    out[17] = 58
    _put_number(out + 18, local.tm_sec, 2)
    out[20] = 32
    memcpy(out + 21, format.offset, 3)
    memcpy(out + 24, format.offset + 4, 2)
    format.local_size = 26
    _refresh_iso(format, cython.address(local), year)
    format.second = second


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _refresh_iso(format: cython.pointer[FormatC], local: cython.pointer[tm], year: uint64_t) -> cython.void:
    out: cython.p_char = format.iso
    _put_number(out, year, 4)
    out[4] = 45
    _put_number(out + 5, local.tm_mon + 1, 2)
    out[7] = 45
    _put_number(out + 8, local.tm_mday, 2)
    out[10] = 84
    memcpy(out + 11, format.local + 12, 8)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_time(format: cython.pointer[FormatC], kind: uint8_t, wall_ns: int64_t, out: cython.p_char) -> uint32_t:
    """Write when a request ended, in one of three ways."""
    if wall_ns < 0:
        wall_ns = 0
    if kind == PART_UNIX:
        return _put_fraction(out, wall_ns // 1000000, 1000, 3)
    second: int64_t = wall_ns // 1000000000
    if second != format.second:
        _refresh(format, second)
    if kind == PART_TIME:
        memcpy(out, format.local, format.local_size)
        return format.local_size
    memcpy(out, format.iso, 19)
    out[19] = 46
    _put_number(out + 20, wall_ns // 1000000 % 1000, 3)
    memcpy(out + 23, format.offset, 6)
    return 29


# ---- lines -----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _before_query(text: cython.pointer[cython.const[cython.char]], size: uint32_t) -> uint32_t:
    """The size of a target without its query."""
    mark: cython.p_void = cython.NULL if size == 0 else cython.cast(cython.p_void, memchr(text, 63, size))
    if mark == cython.NULL:
        return size
    return cython.cast(cython.p_char, mark) - cython.cast(cython.p_char, text)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_target(
    format: cython.pointer[FormatC],
    part: cython.pointer[PartC],
    line: cython.pointer[cython.const[LogLineC]],
    out: cython.p_char,
) -> uint32_t:
    """Write the target, or a part of it, or the referer: what may have a query."""
    text: cython.pointer[cython.const[cython.char]] = line.target
    size: uint32_t = line.target_size
    if part.kind == PART_REFERER:
        text = line.referer
        size = line.referer_size
    path: uint32_t = _before_query(text, size)
    if part.kind == PART_QUERY:
        text += path + 1 if path < size else path
        size = size - path - 1 if path < size and format.query else 0
    elif part.kind == PART_PATH or not format.query:
        size = path
    escape: uint8_t = part.escape
    if escape == ESCAPE_QUOTED and part.kind != PART_REFERER:
        escape = ESCAPE_BARE
    return _put_text(out, text, size, escape, format.field_max)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_part(
    format: cython.pointer[FormatC],
    part: cython.pointer[PartC],
    line: cython.pointer[cython.const[LogLineC]],
    out: cython.p_char,
) -> uint32_t:
    """Write one part of a line."""
    kind: uint8_t = part.kind
    took_us: int64_t = line.took_ns // 1000 if line.took_ns > 0 else 0
    if kind == PART_LITERAL:
        memcpy(out, format.literals + part.start, part.size)
        return part.size
    if kind == PART_PEER:
        return _put_text(out, line.peer, line.peer_size, part.escape, format.field_max)
    if kind == PART_METHOD:
        escape: uint8_t = ESCAPE_BARE if part.escape == ESCAPE_QUOTED else part.escape
        return _put_text(out, line.method, line.method_size, escape, format.field_max)
    if kind in (PART_TARGET, PART_PATH, PART_QUERY, PART_REFERER):
        return _put_target(format, part, line, out)
    if kind == PART_AGENT:
        return _put_text(out, line.agent, line.agent_size, part.escape, format.field_max)
    if kind == PART_VERSION:
        memcpy(out, b"HTTP/1.", 7)
        out[7] = 48 + line.minor % 10
        return 8
    if kind == PART_STATUS:
        return _put_number(out, line.status, 3)
    if kind == PART_BYTES:
        return _put_number(out, line.sent_bytes, 1)
    if kind == PART_TOOK_US:
        return _put_number(out, took_us, 1)
    if kind == PART_TOOK_S:
        return _put_fraction(out, took_us, 1000000, 6)
    return _put_time(format, kind, line.wall_ns, out)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def format_line(
    format: cython.pointer[FormatC], line: cython.pointer[cython.const[LogLineC]], out: cython.p_char
) -> uint32_t:
    """Write a line with its end; `out` has at least `line_max` bytes. Returns its size."""
    used: uint32_t = 0
    index: uint32_t
    for index in range(format.count):
        used += _put_part(format, cython.address(format.parts[index]), line, out + used)
    out[used] = 10
    return used + 1
