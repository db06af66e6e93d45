# cython: language_level=3
"""Records of descriptors: where they come from, what the poller is told for them, and how their operations end.

Records live as long as the loop, in a live list or a free list (last in, first out), so that a pointer is always good;
a generation tells lives apart. What is told to the poller is known here (`filters`), so that it is told only what it does
not know. This file must not know when an operation is tried: that is descriptor.py.
"""

import cython
from cython.cimports.libc.stdint import uint32_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memset
from cython.cimports.penstock.core.operation import queue_pop, queue_push
from cython.cimports.penstock.core.registry import registry_token
from cython.cimports.penstock.core.system import EBADF, ECANCELED, EEXIST, ENOENT, ENOMEM, ENOTSUP, EPERM
from cython.cimports.penstock.core.types import (
    OPERATION_READ,
    OPERATION_WRITE,
    PRIORITY,
    READABLE,
    WRITABLE,
    DescriptorC,
    DescriptorsC,
    LoopC,
    OperationC,
    OperationQueueC,
    RegistrationC,
)

# ---- the pool --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def descriptors_init(
    every: cython.pointer[DescriptorsC], operations_max: uint32_t, queue_max: uint32_t, share: uint32_t
) -> cython.void:
    """No records yet; memory comes when it is needed."""
    memset(every, 0, cython.sizeof(DescriptorsC))
    every.operations_max = operations_max
    every.queue_max = queue_max
    every.share = share


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def descriptors_reserve(every: cython.pointer[DescriptorsC], count: uint32_t) -> cython.int:
    """Make records before they are needed. -ENOMEM if there is no memory for so many."""
    while count > 0:
        count -= 1
        one: cython.pointer[DescriptorC] = cython.cast(
            cython.pointer[DescriptorC], calloc(1, cython.sizeof(DescriptorC))
        )
        if one == cython.NULL:
            return -ENOMEM
        one.next = every.free_first
        every.free_first = one
        every.allocated += 1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def record_take(every: cython.pointer[DescriptorsC]) -> cython.pointer[DescriptorC]:
    if every.free_first == cython.NULL and descriptors_reserve(every, 1) < 0:
        return cython.NULL
    one: cython.pointer[DescriptorC] = every.free_first
    every.free_first = one.next
    one.previous = cython.NULL
    one.next = every.live_first
    if one.next != cython.NULL:
        one.next.previous = one
    every.live_first = one
    every.live += 1
    if every.live > every.high_water:
        every.high_water = every.live
    one.generation += 1
    one.live = True
    return one


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def record_give_back(every: cython.pointer[DescriptorsC], one: cython.pointer[DescriptorC]) -> cython.void:
    """The end of a record's life; the next one to open takes this place."""
    if one.previous != cython.NULL:
        one.previous.next = one.next
    else:
        every.live_first = one.next
    if one.next != cython.NULL:
        one.next.previous = one.previous
    one.live = False
    one.generation += 1
    one.next = every.free_first
    every.free_first = one
    every.live -= 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _free_list(one: cython.pointer[DescriptorC]) -> cython.void:
    while one != cython.NULL:
        after: cython.pointer[DescriptorC] = one.next
        free(one)
        one = after


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def descriptors_free(every: cython.pointer[DescriptorsC]) -> cython.void:
    """Give the memory back. Everything must have been shut down."""
    _free_list(every.live_first)
    _free_list(every.free_first)
    every.live_first = cython.NULL
    every.free_first = cython.NULL
    while every.operations_free != cython.NULL:
        operation: cython.pointer[OperationC] = every.operations_free
        every.operations_free = operation.next
        free(operation)


# ---- completing ------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def record_complete(loop: cython.pointer[LoopC], operation: cython.pointer[OperationC]) -> cython.void:
    """The operation has its outcome, and is handed over in step 7."""
    loop.descriptors.completed_all += 1
    queue_push(cython.address(loop.descriptors.completed), operation)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def record_refuse(
    loop: cython.pointer[LoopC],
    operation: cython.pointer[OperationC],
    kind: cython.int,
    fd: cython.int,
    error: cython.int,
) -> cython.void:
    """Complete an operation that has not begun, or not ended, with an error."""
    operation.kind = kind
    operation.fd = fd
    operation.error = error
    if error == ECANCELED:
        loop.descriptors.cancelled += 1
    record_complete(loop, operation)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def record_next(loop: cython.pointer[LoopC], queue: cython.pointer[OperationQueueC]) -> cython.pointer[OperationC]:
    """Take the first of a queue; it waits no more."""
    operation: cython.pointer[OperationC] = queue_pop(queue)
    if operation != cython.NULL and not operation.internal:
        loop.descriptors.waiting -= 1
    return operation


# ---- what the poller is told -----------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def record_registration(loop: cython.pointer[LoopC], one: cython.pointer[DescriptorC]) -> cython.pointer[RegistrationC]:
    registration: cython.pointer[RegistrationC]
    if one.registration == 0 or cython.cast(uint32_t, one.fd) >= loop.registry.size:
        return cython.NULL
    registration = loop.registry.table + one.fd
    if not registration.live or registration.generation != one.registration:
        return cython.NULL
    return registration


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def record_tell(loop: cython.pointer[LoopC], one: cython.pointer[DescriptorC], filters: uint32_t) -> cython.int:
    """Let the poller watch for exactly this; an edge is looked at anew. -ENOTSUP for what cannot be waited for."""
    registration: cython.pointer[RegistrationC] = record_registration(loop, one)
    answer: cython.int
    if registration == cython.NULL:
        return -EBADF
    token = registry_token(registration, one.fd)
    loop.descriptors.tells += 1
    if one.watched:
        answer = loop.poller.modify(loop.poller, one.fd, filters, one.edge, token)
        if answer == -ENOENT:
            # Closed and opened behind our back, or a poller that was started afresh.
            answer = loop.poller.add(loop.poller, one.fd, filters, one.edge, token)
    else:
        answer = loop.poller.add(loop.poller, one.fd, filters, one.edge, token)
        if answer == -EEXIST:
            answer = loop.poller.modify(loop.poller, one.fd, filters, one.edge, token)
    if answer < 0:
        one.refused = answer == -EPERM
        return -ENOTSUP if answer == -EPERM else answer
    one.watched = True
    one.filters = filters
    registration.interest = filters
    registration.applied = filters
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def record_untell(loop: cython.pointer[LoopC], one: cython.pointer[DescriptorC]) -> cython.void:
    """Take the descriptor out of the poller; the registration stays."""
    registration: cython.pointer[RegistrationC] = record_registration(loop, one)
    if one.watched:
        loop.poller.remove(loop.poller, one.fd)
        loop.descriptors.tells += 1
    one.watched = False
    one.filters = 0
    if registration != cython.NULL:
        registration.interest = 0
        registration.applied = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def record_bit(kind: cython.int) -> uint32_t:
    if kind == OPERATION_READ:
        return READABLE
    return WRITABLE if kind == OPERATION_WRITE else PRIORITY


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def record_arm(
    loop: cython.pointer[LoopC], one: cython.pointer[DescriptorC], kind: cython.int, anew: cython.bint
) -> cython.int:
    """Make sure that the poller tells of this kind; `anew`: also of what is true already."""
    wanted: uint32_t = one.filters | record_bit(kind)
    if one.refused:
        return -ENOTSUP
    if one.lazy:
        # A write filter never stands alone, nor does out-of-band data come without the read filter.
        wanted |= READABLE
    if one.filters == wanted and one.watched and not (anew and one.edge):
        return 0
    return record_tell(loop, one, wanted)
