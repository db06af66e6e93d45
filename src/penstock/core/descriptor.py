# cython: language_level=3
"""What waits at which descriptor? Records with three queues of operations, tried as soon as they may succeed.

A record has one queue per kind: read, write (a connect is one), and out-of-band. An operation that may succeed at once
is tried at once (speculation); else it waits for readiness, and the poller is told what it did not know. Whatever
becomes of it, it is completed through one queue per loop, in the order in which operations ended, in step 7 of a turn:
never inside the caller, and exactly once.

How much the poller is told depends on it:

    edge            everything but write interest when the record opens; that follows with the first blocked write, and
                    stays. After "would block" no try is made before the next readiness: it would be in vain
    edge, lazy      (kqueue) nothing when it opens; a filter when something blocks. A write filter that is reported while
                    nothing is written is removed: a serial port would spin
    level           interest when something blocks; removed when it is reported and nobody waits. A hang-up that nobody
                    waits for cannot be turned off, so the descriptor is taken out until somebody does

Where records come from is records.py's. The loop belongs to one thread, and no lock is taken.

This file must not know what an operation does, nor touch an object except to let go of it.
"""

import cython
from cython.cimports.libc.stdint import int32_t, uint32_t
from cython.cimports.libc.string import memset
from cython.cimports.penstock.core.operation import operation_destroy, queue_choose, queue_pop, queue_push
from cython.cimports.penstock.core.records import (
    record_arm,
    record_bit,
    record_complete,
    record_give_back,
    record_next,
    record_refuse,
    record_registration,
    record_take,
    record_tell,
    record_untell,
)
from cython.cimports.penstock.core.registry import registry_close, registry_note_again, registry_open
from cython.cimports.penstock.core.system import EBADF, ECANCELED, EMFILE, ENOMEM, ENOTSUP
from cython.cimports.penstock.core.types import (
    ERROR,
    FAULT_SHIFT,
    HANGUP,
    OPERATION_EXCEPT,
    OPERATION_KINDS,
    OPERATION_READ,
    PERFORM_BLOCKED,
    PERFORM_DONE,
    PERFORM_EXHAUSTED,
    PERFORM_MORE,
    PRIORITY,
    READABLE,
    READY_AGAIN,
    READY_DONE,
    WRITABLE,
    DescriptorC,
    DescriptorsC,
    LoopC,
    OperationC,
    OperationQueueC,
    RegistrationC,
)

# ---- opening and ending ----------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def descriptor_open(
    loop: cython.pointer[LoopC], fd: cython.int, edge: cython.bint, failed: cython.p_int
) -> cython.pointer[DescriptorC]:
    """A record for a descriptor that has no registration. NULL: see `failed` for the reason."""
    kind: cython.int
    registration: cython.pointer[RegistrationC] = registry_open(cython.address(loop.registry), fd)
    failed[0] = -EMFILE
    if registration == cython.NULL:
        return cython.NULL
    one: cython.pointer[DescriptorC] = record_take(cython.address(loop.descriptors))
    if one == cython.NULL:
        failed[0] = -ENOMEM
        registry_close(cython.address(loop.registry), fd)
        return cython.NULL
    one.fd = fd
    one.registration = registration.generation
    one.filters = 0
    one.watched = False
    one.refused = False
    one.edge = edge
    one.lazy = edge and loop.poller.lazy
    for kind in range(OPERATION_KINDS):
        one.speculative[kind] = True
    registration.interest = 0
    registration.applied = 0
    registration.edge = edge
    registration.internal = False
    registration.callback = cython.NULL
    registration.number = cython.NULL
    registration.native = _ready
    registration.complete = _over
    registration.context = one
    registration.owned = True
    loop.registry.owned += 1
    failed[0] = 0
    if one.edge and not one.lazy:
        failed[0] = record_tell(loop, one, READABLE | PRIORITY)
    if failed[0] == -ENOTSUP:
        # It may be read and written; only waiting is beyond it. There is nothing to register.
        registry_close(cython.address(loop.registry), fd)
        one.registration = 0
        failed[0] = 0
    if failed[0] < 0:
        registry_close(cython.address(loop.registry), fd)
        record_give_back(cython.address(loop.descriptors), one)
        return cython.NULL
    return one


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def descriptor_open_internal(
    loop: cython.pointer[LoopC],
    fd: cython.int,
    edge: cython.bint,
    operation: cython.pointer[OperationC],
    failed: cython.p_int,
) -> cython.pointer[DescriptorC]:
    """A record of the loop's own, with a read waiting from the start: no event can come before it, and it is no work."""
    one: cython.pointer[DescriptorC] = descriptor_open(loop, fd, edge, failed)
    if one == cython.NULL:
        return cython.NULL
    operation.internal = True
    operation.kind = OPERATION_READ
    operation.fd = fd
    queue_push(cython.address(one.queues[OPERATION_READ]), operation)
    failed[0] = record_arm(loop, one, OPERATION_READ, True)
    if failed[0] < 0:
        queue_pop(cython.address(one.queues[OPERATION_READ]))
        descriptor_deregister(loop, one)
        return cython.NULL
    return one


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def descriptor_deregister(loop: cython.pointer[LoopC], one: cython.pointer[DescriptorC]) -> uint32_t:
    """End a record: what waits is cancelled, in order. Returns how many that were; 0 for a record that is over.

    The poller is told explicitly, also by those who are about to close: a duplicate would keep the file watched.
    """
    if not one.live:
        return 0
    if record_registration(loop, one) != cython.NULL:
        record_untell(loop, one)
        registry_close(cython.address(loop.registry), one.fd)
    one.registration = 0
    cancelled: uint32_t = descriptor_cancel(loop, one, -1)
    record_give_back(cython.address(loop.descriptors), one)
    return cancelled


@cython.cfunc
@cython.exceptval(-1, check=False)
def descriptors_shutdown(loop: cython.pointer[LoopC]) -> cython.int:
    """The loop closes: everything that waits or is about to be handed over is destroyed, once, and counted."""
    every: cython.pointer[DescriptorsC] = cython.address(loop.descriptors)
    every.shut = True
    while every.live_first != cython.NULL:
        descriptor_deregister(loop, every.live_first)
    operation: cython.pointer[OperationC] = queue_pop(cython.address(every.completed))
    while operation != cython.NULL:
        loop.probes.closed_drops += 1
        if operation.complete != cython.NULL:
            operation.complete(loop, operation)
        else:
            operation_destroy(every, operation)
        operation = queue_pop(cython.address(every.completed))
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def descriptors_after_fork(loop: cython.pointer[LoopC]) -> cython.void:
    """The poller was started afresh, with the interest of each registration. What stood open may be tried again."""
    kind: cython.int
    one: cython.pointer[DescriptorC] = loop.descriptors.live_first
    while one != cython.NULL:
        one.watched = one.registration != 0
        for kind in range(OPERATION_KINDS):
            one.speculative[kind] = True
        one = one.next


# ---- starting --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _speculate(
    loop: cython.pointer[LoopC], one: cython.pointer[DescriptorC], operation: cython.pointer[OperationC]
) -> cython.int:
    """Try at once. What cannot be waited for is tried until it is through."""
    kind: cython.int = operation.kind
    answer: cython.int = PERFORM_MORE
    loop.descriptors.speculated += 1
    while answer == PERFORM_MORE:
        answer = operation.perform(operation, one.fd)
        if not one.refused:
            break
    if answer in (PERFORM_DONE, PERFORM_EXHAUSTED):
        loop.descriptors.performed += 1
        # Without a filter there would be no readiness to allow the next try.
        one.speculative[kind] = answer == PERFORM_DONE or not one.watched
    elif answer == PERFORM_BLOCKED:
        loop.descriptors.blocked += 1
        one.speculative[kind] = False
    return answer


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def descriptor_start(
    loop: cython.pointer[LoopC],
    one: cython.pointer[DescriptorC],
    operation: cython.pointer[OperationC],
    kind: cython.int,
    speculative: cython.bint,
) -> cython.bint:
    """Start an operation; it is completed whatever happens. False: its queue is full, and nothing has begun."""
    queue: cython.pointer[OperationQueueC] = cython.address(one.queues[kind])
    generation: uint32_t = one.generation
    answer: cython.int = PERFORM_BLOCKED
    failed: cython.int = 0
    if queue.size >= loop.descriptors.queue_max:
        loop.descriptors.refusals += 1
        return False
    loop.descriptors.started += 1
    operation.kind = kind
    operation.fd = one.fd
    if loop.descriptors.shut or not one.live:
        record_refuse(loop, operation, kind, one.fd, ECANCELED if loop.descriptors.shut else EBADF)
        return True
    if queue.first == cython.NULL:
        if speculative and (kind != OPERATION_READ or one.queues[OPERATION_EXCEPT].first == cython.NULL):
            if one.speculative[kind]:
                answer = _speculate(loop, one, operation)
            if answer in (PERFORM_DONE, PERFORM_EXHAUSTED):
                record_complete(loop, operation)
                return True
            if not one.live or one.generation != generation:
                # The try has run somebody's destructor, and that has closed us.
                record_refuse(loop, operation, kind, one.fd, ECANCELED)
                return True
            if answer == PERFORM_BLOCKED:
                failed = record_arm(loop, one, kind, False)
        else:
            failed = record_arm(loop, one, kind, True)
    if failed < 0:
        record_refuse(loop, operation, kind, one.fd, -failed)
        return True
    queue_push(queue, operation)
    if not operation.internal:
        loop.descriptors.waiting += 1
    if answer == PERFORM_MORE:
        registry_note_again(cython.address(loop.registry), one.fd, record_bit(kind))
    return True


# ---- cancelling ------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _cancel_queue(loop: cython.pointer[LoopC], queue: cython.pointer[OperationQueueC]) -> uint32_t:
    count: uint32_t = 0
    operation: cython.pointer[OperationC] = record_next(loop, queue)
    while operation != cython.NULL:
        operation.error = ECANCELED
        loop.descriptors.cancelled += 1
        count += 1
        record_complete(loop, operation)
        operation = record_next(loop, queue)
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def descriptor_cancel(loop: cython.pointer[LoopC], one: cython.pointer[DescriptorC], kind: cython.int) -> uint32_t:
    """Cancel everything of one kind, or (-1) of all kinds: read, write, out-of-band, each in order."""
    count: uint32_t = 0
    index: cython.int
    for index in range(OPERATION_KINDS):
        if kind < 0 or kind == index:
            count += _cancel_queue(loop, cython.address(one.queues[index]))
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def descriptor_cancel_chosen(
    loop: cython.pointer[LoopC], one: cython.pointer[DescriptorC], kind: cython.int
) -> uint32_t:
    """Cancel the marked ones of one kind, in order; the others keep theirs."""
    chosen: OperationQueueC
    memset(cython.address(chosen), 0, cython.sizeof(OperationQueueC))
    queue_choose(cython.address(one.queues[kind]), cython.address(chosen))
    return _cancel_queue(loop, cython.address(chosen))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def descriptor_cancel_key(
    loop: cython.pointer[LoopC],
    one: cython.pointer[DescriptorC],
    kind: cython.int,
    key: cython.pointer[cython.const[cython.void]],
) -> uint32_t:
    """Cancel those of one kind that were started with this key (the same address)."""
    operation: cython.pointer[OperationC] = one.queues[kind].first
    while operation != cython.NULL:
        operation.chosen = operation.key == key
        operation = operation.next
    return descriptor_cancel_chosen(loop, one, kind)


# ---- readiness -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fault(
    loop: cython.pointer[LoopC], one: cython.pointer[DescriptorC], kind: cython.int, number: cython.int
) -> cython.void:
    """The poller cannot watch: the operation at the head gets that error *instead of* a try. The others are watched
    anew; if that fails too, each gets the reason."""
    queue: cython.pointer[OperationQueueC] = cython.address(one.queues[kind])
    operation: cython.pointer[OperationC] = record_next(loop, queue)
    failed: cython.int = 0
    loop.descriptors.faults += 1
    one.filters &= ~record_bit(kind)
    if operation == cython.NULL:
        return
    record_refuse(loop, operation, kind, one.fd, number)
    if queue.first != cython.NULL:
        failed = record_arm(loop, one, kind, True)
    while failed < 0 and queue.first != cython.NULL:
        record_refuse(loop, record_next(loop, queue), kind, one.fd, -failed)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _serve(loop: cython.pointer[LoopC], one: cython.pointer[DescriptorC], kind: cython.int, share: uint32_t) -> int32_t:
    """Perform what waits in one queue, in order. Returns what is left of the share; -1 if it is used up and more waits,
    -2 if the record is over."""
    queue: cython.pointer[OperationQueueC] = cython.address(one.queues[kind])
    generation: uint32_t = one.generation
    one.speculative[kind] = True
    while queue.first != cython.NULL:
        if share == 0:
            return -1
        operation: cython.pointer[OperationC] = queue.first
        answer: cython.int = operation.perform(operation, one.fd)
        if one.generation != generation:
            return -2
        if queue.first != operation:
            # The try has run somebody's destructor, and that has cancelled it.
            continue
        if answer == PERFORM_BLOCKED:
            loop.descriptors.blocked += 1
            one.speculative[kind] = False
            break
        if answer == PERFORM_MORE:
            return -1
        share -= 1
        loop.descriptors.performed += 1
        record_complete(loop, record_next(loop, queue))
        if answer == PERFORM_EXHAUSTED:
            one.speculative[kind] = False
            break
    return cython.cast(int32_t, share)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _disarm(
    loop: cython.pointer[LoopC], one: cython.pointer[DescriptorC], events: uint32_t, idle: uint32_t
) -> cython.void:
    """Stop the poller from telling what nobody waits for. `idle`: what it told in vain."""
    waiting: uint32_t = 0
    kind: cython.int
    for kind in range(OPERATION_KINDS):
        if one.queues[kind].first != cython.NULL:
            waiting |= record_bit(kind)
    if one.lazy:
        if idle & one.filters & WRITABLE and not waiting & WRITABLE:
            record_tell(loop, one, one.filters & ~cython.cast(uint32_t, WRITABLE))
        return
    if one.edge:
        return
    # A write that is drained is disarmed at once; a read usually comes again.
    if not waiting & WRITABLE:
        idle |= WRITABLE
    if not waiting and events & (ERROR | HANGUP):
        record_untell(loop, one)
    elif idle & one.filters & ~waiting:
        record_tell(loop, one, one.filters & ~(idle & ~waiting))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _ready(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t, context: cython.p_void) -> cython.int:
    """Step 5: out-of-band, then writes, then reads, up to the share of this descriptor."""
    one: cython.pointer[DescriptorC] = cython.cast(cython.pointer[DescriptorC], context)
    kind: cython.int
    bit: uint32_t
    idle: uint32_t = 0
    served: uint32_t = events
    share: int32_t = cython.cast(int32_t, loop.descriptors.share)
    if events >> FAULT_SHIFT:
        for kind in range(OPERATION_KINDS):
            if events & record_bit(kind):
                _fault(loop, one, kind, cython.cast(cython.int, events >> FAULT_SHIFT))
        return READY_DONE
    if events & (ERROR | HANGUP):
        # The system call of whoever waits knows what it is.
        served |= READABLE | WRITABLE | PRIORITY
    for kind in range(OPERATION_EXCEPT, OPERATION_READ - 1, -1):
        bit = record_bit(kind)
        if not served & bit:
            continue
        if one.queues[kind].first == cython.NULL:
            idle |= bit
        share = _serve(loop, one, kind, share)
        if share == -2:
            return READY_DONE
        if share == -1:
            loop.descriptors.shares_used += 1
            return READY_AGAIN
    _disarm(loop, one, events, idle)
    return READY_DONE


@cython.cfunc
@cython.exceptval(-1, check=False)
def _over(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t, context: cython.p_void) -> cython.int:
    """The registration has ended without our doing, and the poller is told by whoever ended it: what waits would wait
    for ever."""
    one: cython.pointer[DescriptorC] = cython.cast(cython.pointer[DescriptorC], context)
    one.watched = False
    descriptor_deregister(loop, one)
    return 0
