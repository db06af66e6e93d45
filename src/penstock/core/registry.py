# cython: language_level=3
"""Who watches which descriptor? A table by number, and two queues through it that need no memory of their own.

Numbers are reused by the system, so each registration carries a generation. What goes to the poller as a token is
generation << 32 | number: an event of an earlier life of the number finds nothing here.

The queues are lists through the table: `changed` holds the registrations whose interest the poller does not know yet,
`again` those that stopped at their share and are still ready. A registration is in each at most once.

This file must not know pollers or handlers; it keeps what belongs to them.
"""

import cython
from cython.cimports.libc.stdint import uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memset
from cython.cimports.penstock.core.types import RegistrationC, RegistryC

FIRST_REGISTRATIONS = cython.declare(uint32_t, 64)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_init(registry: cython.pointer[RegistryC], capacity: uint32_t) -> cython.void:
    """An empty table for the numbers below `capacity`; memory comes when it is needed."""
    memset(registry, 0, cython.sizeof(RegistryC))
    registry.capacity = capacity
    registry.changed_first = -1
    registry.changed_last = -1
    registry.again_first = -1
    registry.again_last = -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_free(registry: cython.pointer[RegistryC]) -> cython.void:
    """Give the memory back. The objects of the registrations must be gone already."""
    free(registry.table)
    registry_init(registry, registry.capacity)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_at(registry: cython.pointer[RegistryC], fd: cython.int) -> cython.pointer[RegistrationC]:
    """The live registration of a descriptor; NULL if there is none."""
    if fd < 0 or cython.cast(uint32_t, fd) >= registry.size or not registry.table[fd].live:
        return cython.NULL
    return registry.table + fd


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_of(registry: cython.pointer[RegistryC], token: uint64_t) -> cython.pointer[RegistrationC]:
    """The registration that a token was made for; NULL if it is over, even if the number is watched again."""
    fd: uint32_t = cython.cast(uint32_t, token)
    if fd >= registry.size or not registry.table[fd].live:
        return cython.NULL
    if registry.table[fd].generation != cython.cast(uint32_t, token >> 32):
        return cython.NULL
    return registry.table + fd


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_token(registration: cython.pointer[cython.const[RegistrationC]], fd: cython.int) -> uint64_t:
    return (cython.cast(uint64_t, registration.generation) << 32) | cython.cast(uint32_t, fd)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _grow(registry: cython.pointer[RegistryC], fd: cython.int) -> cython.int:
    size: uint64_t = registry.size if registry.size else FIRST_REGISTRATIONS
    while size <= cython.cast(uint64_t, fd):
        size *= 2
    table: cython.p_void = realloc(registry.table, size * cython.sizeof(RegistrationC))
    if table == cython.NULL:
        return -1
    registry.table = cython.cast(cython.pointer[RegistrationC], table)
    memset(registry.table + registry.size, 0, (size - registry.size) * cython.sizeof(RegistrationC))
    registry.size = cython.cast(uint32_t, size)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_open(registry: cython.pointer[RegistryC], fd: cython.int) -> cython.pointer[RegistrationC]:
    """Begin a life of that number with a new generation; NULL if it is beyond the capacity or there is no memory."""
    if fd < 0 or cython.cast(uint32_t, fd) >= registry.capacity:
        return cython.NULL
    if cython.cast(uint32_t, fd) >= registry.size and _grow(registry, fd) < 0:
        return cython.NULL
    one: cython.pointer[RegistrationC] = registry.table + fd
    # A queue may still go through this slot from its earlier life; the links stay, the meaning is checked when taken.
    registry.generation += 1
    one.generation = registry.generation
    one.live = True
    one.owned = False
    one.again_events = 0
    registry.registered += 1
    registry.live += 1
    if registry.live > registry.high_water:
        registry.high_water = registry.live
    return one


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_close(registry: cython.pointer[RegistryC], fd: cython.int) -> cython.void:
    """End the present life of that number."""
    one: cython.pointer[RegistrationC] = registry.table + fd
    if one.owned:
        registry.owned -= 1
    one.live = False
    one.owned = False
    one.again_events = 0
    one.callback = cython.NULL
    one.number = cython.NULL
    one.native = cython.NULL
    one.complete = cython.NULL
    one.context = cython.NULL
    registry.live -= 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_note_change(registry: cython.pointer[RegistryC], fd: cython.int) -> cython.void:
    """Queue a registration whose interest the poller does not know."""
    one: cython.pointer[RegistrationC] = registry.table + fd
    if one.changed:
        return
    one.changed = True
    one.changed_next = -1
    if registry.changed_last >= 0:
        registry.table[registry.changed_last].changed_next = fd
    else:
        registry.changed_first = fd
    registry.changed_last = fd


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_next_change(registry: cython.pointer[RegistryC]) -> cython.int:
    """Take the first of the changed ones; -1 if there is none. It may be over by now."""
    fd: cython.int = registry.changed_first
    if fd >= 0:
        registry.changed_first = registry.table[fd].changed_next
        if registry.changed_first < 0:
            registry.changed_last = -1
        registry.table[fd].changed = False
    return fd


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_note_again(registry: cython.pointer[RegistryC], fd: cython.int, events: uint32_t) -> cython.void:
    """Queue a registration that is still ready behind the others."""
    one: cython.pointer[RegistrationC] = registry.table + fd
    one.again_events |= events
    if one.again:
        return
    one.again = True
    one.again_next = -1
    if registry.again_last >= 0:
        registry.table[registry.again_last].again_next = fd
    else:
        registry.again_first = fd
    registry.again_last = fd


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_next_again(registry: cython.pointer[RegistryC]) -> cython.int:
    """Take the first of those still ready; -1 if there is none. It may be over by now."""
    fd: cython.int = registry.again_first
    if fd >= 0:
        registry.again_first = registry.table[fd].again_next
        if registry.again_first < 0:
            registry.again_last = -1
        registry.table[fd].again = False
    return fd


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def registry_ok(registry: cython.pointer[cython.const[RegistryC]]) -> cython.bint:
    """The invariants that take constant time: counts within bounds, queues with two ends or none."""
    return (
        registry.live <= registry.size
        and registry.owned <= registry.live
        and registry.size <= 2 * cython.cast(uint64_t, registry.capacity) + FIRST_REGISTRATIONS
        and (registry.changed_first < 0) == (registry.changed_last < 0)
        and (registry.again_first < 0) == (registry.again_last < 0)
    )
