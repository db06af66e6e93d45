# cython: language_level=3
"""The lists that the connections of an engine stand in: all of them, those of one address, those that rest.

All lists run through the connections themselves, so entering and leaving one takes no memory. Those of one address are a
chain in a table by hash; with at most so many per address the walk along a chain is short.

This file must not know what a connection does.
"""

import cython
from cython.cimports.libc.stdint import uint32_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memcmp
from cython.cimports.penstock.http.engine_system import address_hash
from cython.cimports.penstock.http.types import ADDRESS_INTERNET, EngineC, HttpC

from penstock import limits

SLOTS = cython.declare(uint32_t, limits.HTTP_ADDRESS_SLOTS)


# ---- all -------------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def roster_add(conn: cython.pointer[HttpC]) -> cython.void:
    engine: cython.pointer[EngineC] = conn.engine
    conn.next = cython.NULL
    conn.previous = engine.newest
    if engine.newest == cython.NULL:
        engine.first = conn
    else:
        engine.newest.next = conn
    engine.newest = conn


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def roster_drop(conn: cython.pointer[HttpC]) -> cython.void:
    engine: cython.pointer[EngineC] = conn.engine
    if conn.previous == cython.NULL:
        engine.first = conn.next
    else:
        conn.previous.next = conn.next
    if conn.next == cython.NULL:
        engine.newest = conn.previous
    else:
        conn.next.previous = conn.previous


# ---- by address ------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def roster_open(engine: cython.pointer[EngineC]) -> cython.int:
    engine.slots = cython.cast(
        cython.pointer[cython.pointer[HttpC]], calloc(SLOTS, cython.sizeof(cython.pointer[HttpC]))
    )
    engine.slots_mask = SLOTS - 1
    return -1 if engine.slots == cython.NULL else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def roster_close(engine: cython.pointer[EngineC]) -> cython.void:
    free(engine.slots)
    engine.slots = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _slot(conn: cython.pointer[HttpC]) -> cython.pointer[cython.pointer[HttpC]]:
    """The place of the first one in the chain that a connection belongs to."""
    engine: cython.pointer[EngineC] = conn.engine
    return engine.slots + (cython.cast(uint32_t, address_hash(conn.address.bytes)) & engine.slots_mask)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def roster_count(conn: cython.pointer[HttpC]) -> cython.bint:
    engine: cython.pointer[EngineC] = conn.engine
    found: uint32_t = 0
    if engine.slots == cython.NULL or conn.address.kind != ADDRESS_INTERNET or conn.counted:
        return True
    place: cython.pointer[cython.pointer[HttpC]] = _slot(conn)
    other: cython.pointer[HttpC] = place[0]
    while other != cython.NULL:
        if memcmp(other.address.bytes, conn.address.bytes, 16) == 0:
            found += 1
        other = other.neighbour
    if found >= engine.address_max:
        return False
    conn.neighbour = place[0]
    place[0] = conn
    conn.counted = True
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def roster_uncount(conn: cython.pointer[HttpC]) -> cython.void:
    if not conn.counted:
        return
    place: cython.pointer[cython.pointer[HttpC]] = _slot(conn)
    while place[0] != conn:
        place = cython.address(place[0].neighbour)
    place[0] = conn.neighbour
    conn.counted = False


# ---- those that rest -------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def roster_rest(conn: cython.pointer[HttpC]) -> cython.void:
    engine: cython.pointer[EngineC] = conn.engine
    conn.resting = True
    conn.rests_after = cython.NULL
    conn.rests_before = engine.last_resting
    if engine.last_resting == cython.NULL:
        engine.first_resting = conn
    else:
        engine.last_resting.rests_after = conn
    engine.last_resting = conn
    engine.resting += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def roster_wake(conn: cython.pointer[HttpC]) -> cython.void:
    engine: cython.pointer[EngineC] = conn.engine
    if not conn.resting:
        return
    conn.resting = False
    if conn.rests_before == cython.NULL:
        engine.first_resting = conn.rests_after
    else:
        conn.rests_before.rests_after = conn.rests_after
    if conn.rests_after == cython.NULL:
        engine.last_resting = conn.rests_before
    else:
        conn.rests_after.rests_before = conn.rests_before
    engine.resting -= 1
