# cython: language_level=3
"""For whom a trusted proxy asks: X-Forwarded-For with X-Forwarded-Proto, or Forwarded (RFC 7239).

Every proxy on the way adds at the right end where its request came from. So the client is the right-most address that is
not a trusted proxy's own; what stands left of it was said by somebody who is not trusted. If all are trusted the
left-most one counts. A hop without an address ("unknown", "_hidden", nonsense) hides what is left of it, and the trusted
hop right of it counts, if there is one.

That is found in one walk from left to right: an address that is not trusted replaces what was found before, one that is
trusted only takes the place of nothing. If there are X-Forwarded fields, Forwarded is not looked at: proxies that add the
former pass the latter on as it comes, from anybody.

This file must not know connections.
"""

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.string import memset
from cython.cimports.penstock.http.engine_system import address_hash, address_read, address_text
from cython.cimports.penstock.http.head import head_feed, head_reset
from cython.cimports.penstock.http.peers import trust_has, trust_of
from cython.cimports.penstock.http.types import (
    ADDRESS_INTERNET,
    ADDRESS_NONE,
    FIELD_FORWARDED,
    FIELD_X_FORWARDED_FOR,
    FIELD_X_FORWARDED_PROTO,
    HEAD_DONE,
    SCHEME_HTTP,
    SCHEME_HTTPS,
    SCHEME_OWN,
    AddressC,
    FieldC,
    HeadC,
    HeadLimitsC,
    TrustC,
    ViaC,
)

from penstock import limits
from penstock.errors import UsageError

LINE_BYTES = limits.HTTP_LINE_MAX_BYTES
HEAD_BYTES = limits.HTTP_HEAD_MAX_BYTES
FIELDS = limits.HTTP_FIELDS_MAX


# ---- words -----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _skip(text: cython.p_const_char, size: cython.size_t, at: cython.size_t) -> cython.size_t:
    while at < size and (text[at] == b" " or text[at] == b"\t"):
        at += 1
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is(
    text: cython.p_const_char, size: cython.size_t, word: cython.p_const_char, length: cython.size_t
) -> cython.bint:
    """Whether a text is a word of small letters, in any case."""
    at: cython.size_t
    if size != length:
        return False
    for at in range(length):  # noqa: SIM110 - C
        if (text[at] | 32) != word[at]:
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _scheme(text: cython.p_const_char, size: cython.size_t) -> cython.int:
    if _is(text, size, b"https", 5):
        return SCHEME_HTTPS
    return SCHEME_HTTP if _is(text, size, b"http", 4) else SCHEME_OWN


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _digits(text: cython.p_const_char, size: cython.size_t) -> cython.bint:
    at: cython.size_t
    for at in range(size):
        if not 48 <= text[at] <= 57:
            return False
    return 0 < size <= 5


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _node(text: cython.p_const_char, size: cython.size_t, address: cython.pointer[AddressC]) -> cython.void:
    """An address, perhaps in brackets, perhaps with a port; ADDRESS_NONE for anything else."""
    end: cython.size_t = 0
    family: cython.int
    address.kind = ADDRESS_NONE
    if size > 0 and text[0] == b"[":
        while end < size and text[end] != b"]":
            end += 1
        if end == size or address_read(text + 1, end - 1, address.bytes) != 6:
            return
        if end + 1 == size or (text[end + 1] == b":" and _digits(text + end + 2, size - end - 2)):
            address.kind = ADDRESS_INTERNET
        return
    if address_read(text, size, address.bytes):
        address.kind = ADDRESS_INTERNET
        return
    while end < size and text[end] != b":":
        end += 1
    if end < size and _digits(text + end + 1, size - end - 1):
        family = address_read(text, end, address.bytes)
        if family == 4:
            address.kind = ADDRESS_INTERNET


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _hop(
    trust: cython.pointer[cython.const[TrustC]],
    via: cython.pointer[ViaC],
    address: cython.pointer[AddressC],
    scheme: cython.int,
) -> cython.void:
    """One hop more to the right."""
    if via.client.kind != ADDRESS_NONE and trust_has(trust, address):
        return
    via.client = address[0]
    via.scheme = scheme


# ---- X-Forwarded-For, X-Forwarded-Proto ------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_list(
    trust: cython.pointer[cython.const[TrustC]],
    text: cython.p_const_char,
    size: cython.size_t,
    proto: cython.bint,
    via: cython.pointer[ViaC],
) -> cython.bint:
    """The parts between commas: hops, or schemes of which the last one counts. False: one is no address."""
    address: AddressC
    start: cython.size_t = 0
    end: cython.size_t
    stop: cython.size_t
    fine: cython.bint = True
    while start < size:
        start = _skip(text, size, start)
        stop = start
        while stop < size and text[stop] != b",":
            stop += 1
        end = stop
        while end > start and (text[end - 1] == b" " or text[end - 1] == b"\t"):
            end -= 1
        if proto and end > start:
            via.scheme = _scheme(text + start, end - start)
        elif end > start:
            _node(text + start, end - start, cython.address(address))
            _hop(trust, via, cython.address(address), SCHEME_OWN)
            fine = fine and address.kind != ADDRESS_NONE
        start = stop + 1
    return fine


# ---- Forwarded -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _token(text: cython.p_const_char, size: cython.size_t, at: cython.size_t) -> cython.size_t:
    """Where a token ends. A colon and brackets should be quoted, and often are not."""
    while at < size and 32 < text[at] < 127 and text[at] not in (b"=", b";", b",", b'"', b"\\", b"(", b")"):
        at += 1
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _quoted(text: cython.p_const_char, size: cython.size_t, at: cython.size_t) -> cython.size_t:
    """Where a quoted string ends, given its first character: at its second quote; `size` if it does not end."""
    while at < size and text[at] != b'"':
        at += 2 if text[at] == b"\\" else 1
    return min(at, size)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_pair(
    text: cython.p_const_char,
    size: cython.size_t,
    at: cython.size_t,
    address: cython.pointer[AddressC],
    scheme: cython.p_int,
    seen: cython.p_int,
) -> cython.size_t:
    """One name=value; where it ends, or beyond `size` if it is none or says again what was said."""
    name: cython.size_t = at
    colon: cython.size_t = _token(text, size, at)
    bit: cython.int = 0
    if colon == name or colon == size or text[colon] != b"=":
        return size + 1
    at = colon + 1
    value: cython.size_t = at
    end: cython.size_t
    if at < size and text[at] == b'"':
        value = at + 1
        end = _quoted(text, size, value)
        if end == size:
            return size + 1
        at = end + 1
    else:
        end = _token(text, size, at)
        at = end
        if end == value:
            return size + 1
    if _is(text + name, colon - name, b"for", 3):
        bit = 1
        _node(text + value, end - value, address)
    elif _is(text + name, colon - name, b"proto", 5):
        bit = 2
        scheme[0] = _scheme(text + value, end - value)
    if seen[0] & bit:
        return size + 1
    seen[0] |= bit
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_elements(
    trust: cython.pointer[cython.const[TrustC]],
    text: cython.p_const_char,
    size: cython.size_t,
    via: cython.pointer[ViaC],
) -> cython.bint:
    """Hops of one Forwarded field. False: it is malformed, and hides whatever was said."""
    address: AddressC
    scheme: cython.int
    seen: cython.int
    at: cython.size_t = 0
    while True:
        at = _skip(text, size, at)
        if at >= size:
            return True
        if text[at] == b",":
            at += 1
            continue
        address.kind = ADDRESS_NONE
        scheme = SCHEME_OWN
        seen = 0
        while at < size and text[at] != b",":
            if text[at] == b";":
                at = _skip(text, size, at + 1)
                continue
            at = _read_pair(text, size, at, cython.address(address), cython.address(scheme), cython.address(seen))
            at = _skip(text, size, at)
            if at < size and text[at] != b";" and text[at] != b",":
                at = size + 1
        if at > size:
            via.client.kind = ADDRESS_NONE
            via.scheme = SCHEME_OWN
            return False
        _hop(trust, via, cython.address(address), scheme)


# ---- a request -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def forwarded_is(head: cython.pointer[cython.const[HeadC]]) -> cython.bint:
    return (head.first[FIELD_X_FORWARDED_FOR] | head.first[FIELD_X_FORWARDED_PROTO] | head.first[FIELD_FORWARDED]) != 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def forwarded_read(
    trust: cython.pointer[cython.const[TrustC]],
    head: cython.pointer[cython.const[HeadC]],
    bytes: cython.p_const_char,
    via: cython.pointer[ViaC],
) -> cython.bint:
    index: cython.uint
    field: cython.pointer[cython.const[FieldC]]
    text: cython.p_const_char
    fine: cython.bint = True
    memset(via, 0, cython.sizeof(ViaC))
    usual: cython.bint = head.first[FIELD_X_FORWARDED_FOR] or head.first[FIELD_X_FORWARDED_PROTO]
    for index in range(head.field_count):
        field = cython.address(head.fields[index])
        text = bytes + field.value.start
        if usual and field.known == FIELD_X_FORWARDED_FOR:
            fine = _read_list(trust, text, field.value.size, False, via) and fine
        elif not usual and field.known == FIELD_FORWARDED:
            fine = _read_elements(trust, text, field.value.size, via) and fine
    # After the hops, which have no scheme of their own.
    for index in range(head.field_count if usual else 0):
        field = cython.address(head.fields[index])
        if field.known == FIELD_X_FORWARDED_PROTO:
            _read_list(trust, bytes + field.value.start, field.value.size, True, via)
    if via.client.kind == ADDRESS_INTERNET:
        via.size = address_text(via.client.bytes, via.text)
        via.hash = address_hash(via.client.bytes)
    return fine


def client_of(trust, data: bytes):
    """Read a head from a trusted peer: its client (None: the peer itself), its scheme (None: the connection's), and whether
    all of it was understood."""
    head: HeadC
    bounds: HeadLimitsC
    via: ViaC
    bounds.line_max = LINE_BYTES
    bounds.head_max = HEAD_BYTES
    bounds.fields_max = FIELDS
    head_reset(cython.address(head))
    if head_feed(cython.address(head), PyBytes_AS_STRING(data), len(data), cython.address(bounds)) != HEAD_DONE:
        raise UsageError("this is not the head of a request")
    fine: cython.bint = forwarded_read(
        trust_of(trust), cython.address(head), PyBytes_AS_STRING(data), cython.address(via)
    )
    client = None
    if via.client.kind == ADDRESS_INTERNET:
        client = PyBytes_FromStringAndSize(via.text, via.size).decode("ascii")
    return client, (None, "http", "https")[via.scheme], bool(fine)
