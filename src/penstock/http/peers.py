# cython: language_level=3
"""Whose word counts about where a connection comes from, and the PROXY header that says it.

A proxy that passes bytes on hides its clients' addresses; the PROXY protocol, in its two versions, has it say them first:
a line of text, or a block that begins with twelve bytes which no other protocol begins with. Both are read here from
whatever has come so far, and what is wrong is said as soon as it can be known. Ports, and what a block says beyond
addresses, are skipped. UDP, an unspecified family and LOCAL (the proxy itself asks) announce nobody.

This file must not know connections.
"""

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uint8_t, uint32_t
from cython.cimports.libc.string import memcmp, memcpy, memset
from cython.cimports.penstock.http.engine_system import address_read, address_text
from cython.cimports.penstock.http.types import (
    ADDRESS_INTERNET,
    ADDRESS_LOCAL,
    ADDRESS_NONE,
    ADDRESS_TEXT_BYTES,
    TRUSTED_MAX,
    AddressC,
    NetworkC,
    TrustC,
)

from penstock import limits
from penstock.errors import UsageError
from penstock.http.options import network

if limits.HTTP_TRUSTED_MAX != TRUSTED_MAX:
    raise AssertionError("TRUSTED_MAX in types.pxd is not that of limits.py")

LINE_MAX = cython.declare(cython.size_t, limits.HTTP_PROXY_LINE_MAX_BYTES)
BLOCK_MAX = cython.declare(cython.size_t, limits.HTTP_PROXY_BLOCK_MAX_BYTES)
# The signature of version 2, with the fixed part behind it: version and command, family and transport, length.
SIGNATURE = cython.declare(cython.size_t, 12)
FIXED = cython.declare(cython.size_t, 16)


# ---- networks --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _within(
    network: cython.pointer[cython.const[NetworkC]], address: cython.pointer[cython.const[uint8_t]]
) -> cython.bint:
    whole: cython.size_t = network.bits >> 3
    rest: cython.int = network.bits & 7
    if memcmp(address, network.bytes, whole) != 0:
        return False
    return rest == 0 or (address[whole] ^ network.bytes[whole]) >> (8 - rest) == 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def trust_has(
    trust: cython.pointer[cython.const[TrustC]], address: cython.pointer[cython.const[AddressC]]
) -> cython.bint:
    index: uint32_t
    if address.kind == ADDRESS_LOCAL:
        return trust.local
    if address.kind == ADDRESS_INTERNET:
        for index in range(trust.count):
            if _within(cython.address(trust.networks[index]), address.bytes):
                return True
    return False


# ---- the line --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _word(data: cython.p_const_char, size: cython.size_t, at: cython.size_t) -> cython.size_t:
    """Where the word ends that begins at a place."""
    while at < size and data[at] != b" ":
        at += 1
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_port(data: cython.p_const_char, size: cython.size_t) -> cython.bint:
    value: cython.uint = 0
    at: cython.size_t
    if size == 0 or size > 5 or (size > 1 and data[0] == b"0"):
        return False
    for at in range(size):
        if not b"0" <= data[at] <= b"9":
            return False
        value = value * 10 + cython.cast(cython.uint, data[at] - 48)
    return value <= 65535


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_words(data: cython.p_const_char, size: cython.size_t, source: cython.pointer[AddressC]) -> cython.bint:
    """What follows "PROXY " up to the end of the line: TCP4 or TCP6, two addresses, two ports."""
    ignored: uint8_t[16]
    index: cython.int
    start: cython.size_t = 5
    end: cython.size_t
    family: cython.int
    if size >= 7 and memcmp(data, b"UNKNOWN", 7) == 0:
        return size == 7 or data[7] == b" "
    if size < 5 or memcmp(data, b"TCP", 3) != 0 or data[4] != b" ":
        return False
    family = data[3] - 48
    if family != 4 and family != 6:
        return False
    for index in range(4):
        end = _word(data, size, start)
        if index == 0 and address_read(data + start, end - start, source.bytes) != family:
            return False
        if index == 1 and address_read(data + start, end - start, ignored) != family:
            return False
        if index >= 2 and not _is_port(data + start, end - start):
            return False
        if (end == size) != (index == 3):
            return False
        start = end + 1
    source.kind = ADDRESS_INTERNET
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_line(data: cython.p_const_char, size: cython.size_t, source: cython.pointer[AddressC]) -> cython.Py_ssize_t:
    most: cython.size_t = min(size, LINE_MAX)
    end: cython.size_t = 6
    if memcmp(data, b"PROXY ", min(size, 6)) != 0:
        return PROXY_BAD
    while end < most and data[end] != b"\r":
        if data[end] == b"\n":
            return PROXY_BAD
        end += 1
    if end + 1 >= LINE_MAX:
        return PROXY_BAD
    if end + 1 >= most:
        return PROXY_MORE
    if data[end + 1] != b"\n" or not _read_words(data + 6, end - 6, source):
        return PROXY_BAD
    return end + 2


# ---- the block -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _addresses(family: cython.int) -> cython.size_t:
    """Bytes of the two addresses and ports of a family."""
    if family == 1:
        return 12
    if family == 2:
        return 36
    return 216 if family == 3 else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_source(data: cython.pointer[cython.const[uint8_t]], source: cython.pointer[AddressC]) -> cython.void:
    """Whom a complete block announces."""
    if data[12] & 15 == 0 or data[13] & 15 != 1:
        return
    if data[13] >> 4 == 1:
        source.bytes[10] = 255
        source.bytes[11] = 255
        memcpy(cython.address(source.bytes[12]), data + FIXED, 4)
        source.kind = ADDRESS_INTERNET
    elif data[13] >> 4 == 2:
        memcpy(source.bytes, data + FIXED, 16)
        source.kind = ADDRESS_INTERNET
    elif data[13] >> 4 == 3:
        source.kind = ADDRESS_LOCAL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_block(
    data: cython.pointer[cython.const[uint8_t]], size: cython.size_t, source: cython.pointer[AddressC]
) -> cython.Py_ssize_t:
    length: cython.size_t
    if memcmp(data, b"\r\n\r\n\0\r\nQUIT\n", min(size, SIGNATURE)) != 0:
        return PROXY_BAD
    if size > SIGNATURE and (data[12] >> 4 != 2 or data[12] & 15 > 1):
        return PROXY_BAD
    if size < FIXED:
        return PROXY_MORE
    length = (cython.cast(cython.size_t, data[14]) << 8) | data[15]
    if length > BLOCK_MAX:
        return PROXY_BAD
    # What a LOCAL block says of families is to be ignored.
    if data[12] & 15 == 1 and (data[13] >> 4 > 3 or data[13] & 15 > 2 or length < _addresses(data[13] >> 4)):
        return PROXY_BAD
    if size < FIXED + length:
        return PROXY_MORE
    _read_source(data, source)
    return FIXED + length


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proxy_read(data: cython.p_const_char, size: cython.size_t, source: cython.pointer[AddressC]) -> cython.Py_ssize_t:
    memset(source, 0, cython.sizeof(AddressC))
    if size == 0:
        return PROXY_MORE
    if data[0] == b"P":
        return _read_line(data, size, source)
    return _read_block(cython.cast(cython.pointer[cython.const[uint8_t]], data), size, source)


# ---- the same for Python ---------------------------------------------------------------------------------------------


def read_announcement(data: bytes):
    """Read a PROXY header: its size and whom it announces ("unix" for a Unix socket, None: nobody). 0: more, -1: wrong."""
    source: AddressC
    text: cython.char[46]
    found: cython.Py_ssize_t = proxy_read(PyBytes_AS_STRING(data), len(data), cython.address(source))
    if found <= 0 or source.kind == ADDRESS_NONE:
        return found, None
    if source.kind == ADDRESS_LOCAL:
        return found, "unix"
    size: cython.int = address_text(source.bytes, text)
    return found, PyBytes_FromStringAndSize(text, size).decode("ascii")


def trust_of(trust):
    """The structure inside a Trust, for compiled code; it lives as long as the object."""
    if not isinstance(trust, Trust):
        raise UsageError(f"the trust {trust!r} is none; give a penstock.http.peers.Trust")
    return cython.address(cython.cast(Trust, trust).c)


class Trust:
    """Networks whose proxies are believed: `Trust(("127.0.0.1", "198.18.0.0/16", "unix"))`."""

    def __cinit__(self, *args, **kwargs):
        memset(cython.address(self.c), 0, cython.sizeof(TrustC))

    def __init__(self, networks):
        self.networks = tuple(networks)
        if len(self.networks) > TRUSTED_MAX:
            raise UsageError(f"{len(self.networks)} networks are trusted; give at most {TRUSTED_MAX}")
        self.c.count = 0
        for text in self.networks:
            packed, bits = network(text)
            if packed is None:
                self.c.local = True
                continue
            place: cython.pointer[NetworkC] = cython.address(self.c.networks[self.c.count])
            memcpy(place.bytes, PyBytes_AS_STRING(packed), 16)
            place.bits = bits
            self.c.count += 1

    def __contains__(self, address: str):
        asked: AddressC
        text: bytes = address.encode("ascii", "replace")
        asked.kind = ADDRESS_LOCAL
        if text != b"unix":
            read: cython.int = address_read(PyBytes_AS_STRING(text), len(text), asked.bytes)
            asked.kind = ADDRESS_INTERNET if read else ADDRESS_NONE
        return bool(trust_has(cython.address(self.c), cython.address(asked)))

    def __repr__(self):
        return f"<Trust in {', '.join(self.networks) or 'nobody'}>"


if limits.HTTP_ADDRESS_SLOTS & (limits.HTTP_ADDRESS_SLOTS - 1) or ADDRESS_TEXT_BYTES != 46:
    raise AssertionError("the slots of the table by address are a power of two, and an address has 46 bytes of text")
