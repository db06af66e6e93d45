# cython: language_level=3
"""What can be asked of a descriptor, and what becomes of it: one operation, from the pool and back.

An operation has two steps. `perform` tries the system call, without the GIL where it can, and leaves the result or the
error here; it may be tried many times, and never blocks. The outcome is handed over once, in a later step.

    read            read(2) into memory that exists only while there is something in it
    read into       read(2) into the caller's memory
    write           send(2) or write(2) until everything is written: the next one in the queue must not come in between
    wait            poll(2): is it true now? So a wait behind a read is not told of what that read has taken
    Python          anything else: a callable that answers, or raises BlockingIOError, or answers itself (more, next turn)

Whoever makes a native operation fills `perform` and `complete` and owns the memory; only Python's come from the pool.
This file must not know descriptors' records, queues' order of service, pollers or loops.
"""

import os

import cython
from cython.cimports.cpython.buffer import PyBuffer_Release
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.ref import Py_INCREF, Py_XDECREF, PyObject
from cython.cimports.libc.stdint import int64_t, uint32_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memset
from cython.cimports.penstock.core.system import (
    EAGAIN,
    EBADF,
    ECANCELED,
    EINTR,
    EIO,
    ENOMEM,
    ENOTSUP,
    POLLIN,
    POLLNVAL,
    POLLOUT,
    POLLPRI,
    errno,
    platform_send,
    poll,
    pollfd,
    read,
    write,
)
from cython.cimports.penstock.core.types import (
    ANSWER_BYTES,
    ANSWER_COUNT,
    ANSWER_VALUE,
    PERFORM_BLOCKED,
    PERFORM_DONE,
    PERFORM_EXHAUSTED,
    PERFORM_MORE,
    PRIORITY,
    READABLE,
    WRITABLE,
    DescriptorsC,
    OperationC,
    OperationQueueC,
)

from penstock import limits

_SHARE_BYTES = cython.declare(int64_t, limits.OPERATION_SHARE_BYTES)
_KINDS = ("read", "write", "wait for out-of-band data")

# ---- queues ----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def queue_push(queue: cython.pointer[OperationQueueC], operation: cython.pointer[OperationC]) -> cython.void:
    """Append; an operation is in one queue at a time."""
    operation.next = cython.NULL
    if queue.last != cython.NULL:
        queue.last.next = operation
    else:
        queue.first = operation
    queue.last = operation
    queue.size += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def queue_pop(queue: cython.pointer[OperationQueueC]) -> cython.pointer[OperationC]:
    """Take the first; NULL if there is none."""
    operation: cython.pointer[OperationC] = queue.first
    if operation != cython.NULL:
        queue.first = operation.next
        if queue.first == cython.NULL:
            queue.last = cython.NULL
        queue.size -= 1
        operation.next = cython.NULL
    return operation


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def queue_choose(queue: cython.pointer[OperationQueueC], chosen: cython.pointer[OperationQueueC]) -> cython.void:
    """Move those that are marked to `chosen`; both keep their order."""
    left: uint32_t = queue.size
    while left > 0:
        left -= 1
        operation: cython.pointer[OperationC] = queue_pop(queue)
        if operation.chosen:
            operation.chosen = False
            queue_push(chosen, operation)
        else:
            queue_push(queue, operation)


# ---- the pool --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def operation_new(owner: cython.pointer[DescriptorsC]) -> cython.pointer[OperationC]:
    """A blank operation; NULL beyond the limit, or without memory. The last one that was given back comes first."""
    operation: cython.pointer[OperationC] = owner.operations_free
    if operation != cython.NULL:
        owner.operations_free = operation.next
    else:
        if owner.operations_allocated >= owner.operations_max:
            return cython.NULL
        operation = cython.cast(cython.pointer[OperationC], malloc(cython.sizeof(OperationC)))
        if operation == cython.NULL:
            return cython.NULL
        owner.operations_allocated += 1
    memset(operation, 0, cython.sizeof(OperationC))
    owner.operations += 1
    if owner.operations > owner.operations_high_water:
        owner.operations_high_water = owner.operations
    return operation


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def operation_detach(
    owner: cython.pointer[DescriptorsC], operation: cython.pointer[OperationC], held: cython.pointer[OperationC]
) -> cython.void:
    """Give an operation back to the pool; what it holds is in `held` from now on."""
    held[0] = operation[0]
    operation.next = owner.operations_free
    owner.operations_free = operation
    owner.operations -= 1


@cython.cfunc
def operation_let_go(held: cython.pointer[OperationC]) -> cython.void:
    """Let go of everything that a detached operation holds. A destructor may do anything, also start another one."""
    if held.viewed:
        PyBuffer_Release(cython.address(held.view))
    else:
        free(held.data)
    Py_XDECREF(cython.cast(cython.pointer[PyObject], held.key))
    Py_XDECREF(held.subject)
    Py_XDECREF(held.value)
    Py_XDECREF(held.failure)
    Py_XDECREF(held.owner)
    Py_XDECREF(held.callback)


@cython.cfunc
def operation_release(owner: cython.pointer[DescriptorsC], operation: cython.pointer[OperationC]) -> cython.void:
    """Let go of everything that an operation of Python holds, and give it back to the pool."""
    held: OperationC
    operation_detach(owner, operation, cython.address(held))
    operation_let_go(cython.address(held))


@cython.cfunc
@cython.exceptval(-1, check=False)
def operation_destroy(owner: cython.pointer[DescriptorsC], operation: cython.pointer[OperationC]) -> cython.int:
    """Release an operation that nobody will be told of; who made the result knows how to get rid of it."""
    subject = cython.cast(object, operation.subject) if operation.subject != cython.NULL else None
    value = cython.cast(object, operation.value) if operation.value != cython.NULL else None
    operation_release(owner, operation)
    discard = getattr(subject, "discard", None)
    if value is not None and discard is not None:
        discard(value)
    return 0


# ---- perform ---------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _failed(operation: cython.pointer[OperationC], number: cython.int) -> cython.int:
    operation.error = number
    return PERFORM_DONE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def perform_read_into(operation: cython.pointer[OperationC], fd: cython.int) -> cython.int:
    """One read into memory that is there."""
    got: cython.Py_ssize_t = read(fd, operation.data, operation.size)
    while got < 0 and errno == EINTR:
        got = read(fd, operation.data, operation.size)
    if got >= 0:
        operation.result = got
        return PERFORM_DONE
    return PERFORM_BLOCKED if errno == EAGAIN else _failed(operation, errno)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def perform_read(operation: cython.pointer[OperationC], fd: cython.int) -> cython.int:
    """One read; while there is nothing to read it holds no memory."""
    operation.data = cython.cast(cython.p_char, malloc(operation.size))
    if operation.data == cython.NULL:
        return _failed(operation, ENOMEM)
    answer: cython.int = perform_read_into(operation, fd)
    if answer == PERFORM_BLOCKED or operation.error:
        free(operation.data)
        operation.data = cython.NULL
    return answer


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def perform_write(operation: cython.pointer[OperationC], fd: cython.int) -> cython.int:
    """Write what is left until it is written, would block, fails or has had its share."""
    moved: int64_t = 0
    while True:
        left: cython.size_t = operation.size - operation.result
        sent: cython.Py_ssize_t
        if operation.socket:
            sent = platform_send(fd, operation.data + operation.result, left)
        else:
            sent = write(fd, operation.data + operation.result, left)
            if sent < 0:
                sent = -errno
        if sent == -EAGAIN:
            return PERFORM_BLOCKED
        if sent < 0 and sent != -EINTR:
            return _failed(operation, cython.cast(cython.int, -sent))
        if sent > 0:
            operation.result += sent
            moved += sent
        if sent >= 0 and cython.cast(cython.size_t, operation.result) >= operation.size:
            return PERFORM_DONE
        if moved >= _SHARE_BYTES:
            return PERFORM_MORE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _look(fd: cython.int, wanted: uint32_t) -> cython.int:
    """What poll(2) says now, without waiting; -errno if it fails, for no edge would follow."""
    look: pollfd
    look.fd = fd
    look.revents = 0
    look.events = 0
    if wanted & READABLE:
        look.events |= POLLIN
    if wanted & WRITABLE:
        look.events |= POLLOUT
    if wanted & PRIORITY:
        look.events |= POLLPRI
    while poll(cython.address(look), 1, 0) < 0:
        if errno != EINTR:
            return -errno
    return look.revents


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def perform_wait(operation: cython.pointer[OperationC], fd: cython.int) -> cython.int:
    """Is it ready? An error or a hang-up ends any wait."""
    seen: cython.int = _look(fd, operation.wanted)
    if seen < 0:
        return _failed(operation, -seen)
    if seen & POLLNVAL:
        return _failed(operation, EBADF)
    return PERFORM_DONE if seen else PERFORM_BLOCKED


@cython.cfunc
@cython.with_gil
@cython.exceptval(check=False)
def perform_python(operation: cython.pointer[OperationC], fd: cython.int) -> cython.int:
    """Call the subject with the descriptor's number; it answers, or raises BlockingIOError."""
    subject = cython.cast(object, operation.subject)
    value = None
    try:
        while True:
            try:
                value = subject(fd)
                break
            except InterruptedError:
                continue
    except BlockingIOError:
        return PERFORM_BLOCKED
    except BaseException as error:
        operation.error = EIO
        if isinstance(error, OSError) and error.errno:
            operation.error = error.errno
        Py_INCREF(error)
        operation.failure = cython.cast(cython.pointer[PyObject], error)
        return PERFORM_DONE
    if value is subject:
        return PERFORM_MORE
    Py_INCREF(value)
    operation.value = cython.cast(cython.pointer[PyObject], value)
    return PERFORM_EXHAUSTED if getattr(subject, "exhausted", False) else PERFORM_DONE


# ---- the outcome -----------------------------------------------------------------------------------------------------


@cython.cfunc
def _error_of(operation: cython.pointer[OperationC]):
    if operation.failure != cython.NULL:
        return cython.cast(object, operation.failure)
    number = operation.error
    if number == 0:
        return None
    what = f"{_KINDS[operation.kind]} of descriptor {operation.fd}"
    if number == ECANCELED:
        return OSError(number, f"the {what} was cancelled")
    if number == ENOTSUP:
        return OSError(
            number, f"the {what} cannot wait: a regular file is always ready, and no poller takes it; read or write it"
        )
    return OSError(number, f"{what}: {os.strerror(number)}")


@cython.cfunc
def _result_of(operation: cython.pointer[OperationC]):
    if operation.answer == ANSWER_COUNT:
        # Also beside an error: what was written is written.
        return operation.result
    if operation.error:
        return (
            getattr(cython.cast(object, operation.subject), "moved", None) if operation.subject != cython.NULL else None
        )
    if operation.answer == ANSWER_BYTES:
        return PyBytes_FromStringAndSize(operation.data, operation.result)
    if operation.answer == ANSWER_VALUE and operation.value != cython.NULL:
        return cython.cast(object, operation.value)
    return None


@cython.cfunc
def operation_told(held: cython.pointer[OperationC]) -> tuple:
    """What the callback of a detached operation is told: (error or None, result). It is over."""
    try:
        return _error_of(held), _result_of(held)
    finally:
        operation_let_go(held)


@cython.cfunc
def operation_outcome(owner: cython.pointer[DescriptorsC], operation: cython.pointer[OperationC]) -> tuple:
    """What the callback is told: (error or None, result). The operation goes back to the pool."""
    try:
        return _error_of(operation), _result_of(operation)
    finally:
        operation_release(owner, operation)
