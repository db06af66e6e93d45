# cython: language_level=3
"""What a request asks for: the four forms of a target (RFC 9112, 3.2), and the grammar of a host (RFC 3986, 3.2.2).

    /path?query                     origin form
    http://host:port/path?query     absolute form: its host counts, not that of the field
    *                               of OPTIONS only
    host:port                       of CONNECT only

User information before a host is refused: nobody needs it, and it serves to deceive. This file must not know fields.
"""

import cython
from cython.cimports.libc.stdint import uint8_t, uint32_t
from cython.cimports.penstock.http.types import (
    METHOD_CONNECT,
    METHOD_OPTIONS,
    TARGET_ABSOLUTE,
    TARGET_ASTERISK,
    TARGET_AUTHORITY,
    TARGET_ORIGIN,
    HeadC,
    SpanC,
)
from cython.cimports.penstock.http.words import CHAR_DIGIT, CHAR_HEX, CHAR_NAME, chars, same_word


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _is(char: cython.char, what: cython.int) -> cython.bint:
    return (chars[cython.cast(uint8_t, char)] & what) != 0


# ---- hosts -----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _ipv4(text: cython.p_const_char, size: uint32_t) -> cython.bint:
    """Four numbers up to 255, without leading zeros."""
    at: uint32_t = 0
    start: uint32_t
    value: cython.int
    parts: cython.int = 0
    while parts < 4:
        start = at
        value = 0
        while at < size and at - start < 3 and _is(text[at], CHAR_DIGIT):
            value = value * 10 + text[at] - 48
            at += 1
        if at == start or value > 255 or (text[start] == 48 and at - start > 1):
            return False
        parts += 1
        if parts < 4:
            if at >= size or text[at] != 46:
                return False
            at += 1
    return at == size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _ipv6(text: cython.p_const_char, size: uint32_t) -> cython.bint:
    """Eight groups of four digits; `::` once instead of at least one of them; the last two may be written as IPv4."""
    at: uint32_t = 0
    start: uint32_t
    groups: cython.int = 0
    shortened: cython.bint = False
    if size >= 2 and text[0] == 58 and text[1] == 58:
        shortened = True
        at = 2
    while at < size:
        start = at
        while at < size and at - start < 5 and _is(text[at], CHAR_HEX):
            at += 1
        if at < size and text[at] == 46:
            groups += 2
            if not _ipv4(text + start, size - start):
                return False
            break
        if at == start or at - start > 4:
            return False
        groups += 1
        if at == size:
            break
        if text[at] != 58 or at + 1 == size:
            return False
        at += 1
        if text[at] == 58:
            if shortened:
                return False
            shortened = True
            at += 1
    return groups <= 7 if shortened else groups == 8


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _future(text: cython.p_const_char, size: uint32_t) -> cython.bint:
    """An address of a version to come: `v` digits `.` and anything that a name may have, and colons."""
    at: uint32_t = 1
    start: uint32_t
    while at < size and _is(text[at], CHAR_HEX):
        at += 1
    if at == 1 or at >= size or text[at] != 46:
        return False
    at += 1
    start = at
    while at < size and (text[at] == 58 or _is(text[at], CHAR_NAME)):
        at += 1
    return at == size and at > start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _literal(text: cython.p_const_char, size: uint32_t) -> cython.int:
    """The bytes of an address in brackets that a text begins with; -1 if it is none."""
    end: uint32_t = 1
    fine: cython.bint
    while end < size and text[end] != 93:
        end += 1
    if end == size or end == 1:
        return -1
    if text[1] == 118 or text[1] == 86:
        fine = _future(text + 1, end - 1)
    else:
        fine = _ipv6(text + 1, end - 1)
    return cython.cast(cython.int, end + 1) if fine else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _name(text: cython.p_const_char, size: uint32_t) -> cython.int:
    """The bytes of a registered name, or of an IPv4 address, that a text begins with; -1 if a percent sign is misused."""
    at: uint32_t = 0
    while at < size:
        if _is(text[at], CHAR_NAME):
            at += 1
        elif text[at] == 37:
            if at + 2 >= size or not _is(text[at + 1], CHAR_HEX) or not _is(text[at + 2], CHAR_HEX):
                return -1
            at += 3
        else:
            break
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _port(text: cython.p_const_char, size: uint32_t) -> cython.int:
    """A port; an empty one is 0, as is "0". -1 if it is none."""
    at: uint32_t
    value: cython.int = 0
    for at in range(size):
        if not _is(text[at], CHAR_DIGIT):
            return -1
        value = value * 10 + text[at] - 48
        if value > 65535:
            return -1
    return value


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def authority_host(text: cython.p_const_char, size: uint32_t) -> cython.int:
    """Look at `host [":" port]`: the bytes of the host, or -1."""
    host: cython.int
    if size > 0 and text[0] == 91:
        host = _literal(text, size)
    else:
        host = _name(text, size)
    if host < 0 or cython.cast(uint32_t, host) == size:
        return host
    if text[host] != 58 or _port(text + host + 1, size - host - 1) < 0:
        return -1
    return host


# ---- targets ---------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _set(span: cython.pointer[SpanC], start: uint32_t, end: uint32_t) -> cython.void:
    span.start = start
    span.size = end - start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _tunnel(head: cython.pointer[HeadC], data: cython.p_const_char) -> cython.p_const_char:
    """The target of CONNECT: a port must be there, and not be 0."""
    text: cython.p_const_char = data + head.target.start
    size: uint32_t = head.target.size
    host: cython.int = authority_host(text, size)
    if host <= 0 or cython.cast(uint32_t, host) == size or _port(text + host + 1, size - host - 1) <= 0:
        return b"The target of CONNECT is not a host and a port."
    head.form = TARGET_AUTHORITY
    head.host = head.target
    return cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _absolute(head: cython.pointer[HeadC], data: cython.p_const_char, mark: uint32_t) -> cython.p_const_char:
    """A whole URI. An empty path is that of the root, for which one of the slashes before the host stands."""
    start: uint32_t = head.target.start
    at: uint32_t
    if head.target.size >= 7 and same_word(data + start, 7, b"http://", 7):
        start += 7
    elif head.target.size >= 8 and same_word(data + start, 8, b"https://", 8):
        start += 8
    else:
        return b"The target is neither a path nor a URI of http or https."
    at = start
    while at < mark and data[at] != 47:
        at += 1
    if authority_host(data + start, at - start) <= 0:
        return b"The host in the target is not valid."
    head.form = TARGET_ABSOLUTE
    _set(cython.address(head.host), start, at)
    if at < mark:
        _set(cython.address(head.path), at, mark)
    else:
        _set(cython.address(head.path), start - 1, start)
    return cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def target_parse(head: cython.pointer[HeadC], data: cython.p_const_char, mark: uint32_t) -> cython.p_const_char:
    """Take a target apart. Its characters are checked already, and it is not empty."""
    start: uint32_t = head.target.start
    end: uint32_t = start + head.target.size
    if head.method == METHOD_CONNECT:
        return _tunnel(head, data)
    if mark < end:
        _set(cython.address(head.query), mark + 1, end)
    if data[start] == 47:
        head.form = TARGET_ORIGIN
        _set(cython.address(head.path), start, mark)
        return cython.NULL
    if data[start] == 42 and head.target.size == 1:
        if head.method != METHOD_OPTIONS:
            return b"The target * is for OPTIONS only."
        head.form = TARGET_ASTERISK
        return cython.NULL
    return _absolute(head, data, mark)
