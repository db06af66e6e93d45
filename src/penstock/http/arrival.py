# cython: language_level=3
"""Where connections and requests come from: the peer itself, or whom a trusted peer announces.

Only an engine that trusts somebody comes here for more than nothing. With `proxy_protocol` a trusted peer begins with a
PROXY header, before anything else, a TLS handshake included; whom it announces is the connection's peer from then on, for
the log, the program, fair shares and the limit per address. Without one, or with a malformed one, it is closed unheard.
Others are ordinary clients: a PROXY header from them is a bad request. A peer that is trusted after that (a proxy that
was announced by another one, or one that nobody has announced) is believed in what it says of single requests.

The limit of connections per address holds for who is not trusted. This file must not know states or answers.
"""

import cython
from cython.cimports.libc.stdlib import free, malloc, realloc
from cython.cimports.libc.string import memcpy
from cython.cimports.penstock.http.engine_system import address_hash, address_text, peer_address
from cython.cimports.penstock.http.forwarded import forwarded_is, forwarded_read
from cython.cimports.penstock.http.peers import PROXY_MORE, proxy_read, trust_has
from cython.cimports.penstock.http.progress import step_end
from cython.cimports.penstock.http.roster import roster_count, roster_uncount
from cython.cimports.penstock.http.types import (
    ADDRESS_INTERNET,
    ADDRESS_NONE,
    ADDRESS_TEXT_BYTES,
    SCHEME_OWN,
    AddressC,
    EngineC,
    HeadC,
    HttpC,
    ViaC,
)
from cython.cimports.penstock.net.types import END_ERROR

from penstock import limits

# More than any header that is not refused.
MOST = cython.declare(cython.size_t, limits.HTTP_PROXY_BLOCK_MAX_BYTES + 16)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _counts(conn: cython.pointer[HttpC]) -> cython.bint:
    """Whether its address may have one connection more. Proxies may."""
    if conn.trusted or roster_count(conn):
        return True
    conn.engine.crowded += 1
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def arrival_begin(conn: cython.pointer[HttpC]) -> cython.bint:
    engine: cython.pointer[EngineC] = conn.engine
    if engine.trust == cython.NULL:
        return True
    conn.address.kind = peer_address(conn.stream.fd, conn.address.bytes)
    conn.trusted = trust_has(engine.trust, cython.address(conn.address))
    conn.awaits = engine.announces and conn.trusted
    return conn.awaits or _counts(conn)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _become(conn: cython.pointer[HttpC], source: cython.pointer[AddressC]) -> cython.bint:
    """The connection is somebody else's. False: there is no memory for the name."""
    peer: cython.p_char = cython.cast(cython.p_char, malloc(ADDRESS_TEXT_BYTES))
    if peer == cython.NULL:
        return False
    conn.address = source[0]
    free(conn.peer)
    conn.peer = peer
    if source.kind == ADDRESS_INTERNET:
        conn.trusted = trust_has(conn.engine.trust, source)
        conn.peer_size = address_text(source.bytes, peer)
    else:
        # A Unix socket of the proxy's machine: that ours are trusted says nothing about those.
        conn.trusted = False
        conn.peer_size = 4
        memcpy(peer, b"unix", 4)
    conn.peer_hash = address_hash(source.bytes)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _gather(conn: cython.pointer[HttpC], data: cython.p_const_char, size: cython.size_t) -> cython.bint:
    """Keep a part of an announcement. False: there is no memory."""
    grown: cython.p_char = cython.cast(cython.p_char, realloc(conn.rest, conn.rest_size + size))
    if grown == cython.NULL:
        return False
    memcpy(grown + conn.rest_size, data, size)
    conn.rest = grown
    conn.rest_size += size
    conn.rest_capacity = conn.rest_size
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _refuse(conn: cython.pointer[HttpC]) -> cython.Py_ssize_t:
    step_end(conn, END_ERROR)
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def arrival_bytes(conn: cython.pointer[HttpC], data: cython.p_const_char, size: cython.size_t) -> cython.Py_ssize_t:
    engine: cython.pointer[EngineC] = conn.engine
    source: AddressC
    kept: cython.size_t = conn.rest_size
    whole: cython.p_const_char = data
    total: cython.size_t = size
    if kept > 0:
        total = min(kept + size, MOST)
        if not _gather(conn, data, total - kept):
            return _refuse(conn)
        whole = conn.rest
    found: cython.Py_ssize_t = proxy_read(whole, total, cython.address(source))
    if found == PROXY_MORE:
        return -1 if kept > 0 or _gather(conn, data, size) else _refuse(conn)
    free(conn.rest)
    conn.rest = cython.NULL
    conn.rest_size = 0
    conn.rest_capacity = 0
    if found < 0:
        engine.announced_bad += 1
        return _refuse(conn)
    conn.awaits = False
    engine.announced += 1
    if source.kind != ADDRESS_NONE and not _become(conn, cython.address(source)):
        return _refuse(conn)
    if not _counts(conn):
        return _refuse(conn)
    return found - cython.cast(cython.Py_ssize_t, kept)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def arrival_eof(conn: cython.pointer[HttpC]) -> cython.void:
    # One that has said nothing only wanted to know whether somebody listens.
    if conn.awaits and conn.rest_size > 0:
        conn.engine.announced_bad += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def arrival_request(
    conn: cython.pointer[HttpC], head: cython.pointer[cython.const[HeadC]], bytes: cython.p_const_char
) -> cython.void:
    engine: cython.pointer[EngineC] = conn.engine
    if conn.via != cython.NULL:
        conn.via.client.kind = ADDRESS_NONE
        conn.via.scheme = SCHEME_OWN
    if not conn.trusted or not forwarded_is(head):
        return
    if conn.via == cython.NULL:
        conn.via = cython.cast(cython.pointer[ViaC], malloc(cython.sizeof(ViaC)))
        if conn.via == cython.NULL:
            return
    if not forwarded_read(engine.trust, head, bytes, conn.via):
        engine.forwarded_bad += 1
    if conn.via.client.kind != ADDRESS_NONE:
        engine.forwarded += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def arrival_over(conn: cython.pointer[HttpC]) -> cython.void:
    roster_uncount(conn)
    free(conn.via)
    conn.via = cython.NULL
