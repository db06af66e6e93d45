# cython: language_level=3
"""Operations on a descriptor for Python: read, write, wait, connect, accept, messages, sendfile; cancel; close.

    d = Descriptor(reactor, sock)
    d.read(4096, lambda error, data: ...)

Every operation ends in exactly one call of its callback with (error or None, result), in a later step of the turn, never
inside the call that started it. Operations of one kind end in the order in which they were started. A write ends when
everything is written; beside an error its result says how much was.

A descriptor belongs to this object until `close` or `release`, and does not block meanwhile. It may be a socket, a pipe,
a terminal, an eventfd; a regular file can be read and written, but not waited for.

This file checks what a program says; queues and readiness are core/descriptor.py's. It must not know a protocol.
"""

import os
import stat
import warnings

import cython
from cython.cimports.cpython.buffer import PyBUF_SIMPLE, PyBUF_WRITABLE, PyObject_GetBuffer
from cython.cimports.cpython.object import PyCallable_Check
from cython.cimports.cpython.ref import Py_INCREF, PyObject
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.penstock.core.crew import CREW_IO, CREW_REGISTRATION, CrewC, crew_enter, crew_leave
from cython.cimports.penstock.core.descriptor import (
    descriptor_cancel,
    descriptor_cancel_chosen,
    descriptor_deregister,
    descriptor_open,
    descriptor_start,
)
from cython.cimports.penstock.core.loop import Loop
from cython.cimports.penstock.core.operation import (
    operation_detach,
    operation_let_go,
    operation_new,
    perform_python,
    perform_read,
    perform_read_into,
    perform_wait,
    perform_write,
)
from cython.cimports.penstock.core.records import record_refuse
from cython.cimports.penstock.core.registry import registry_at
from cython.cimports.penstock.core.sharedloop import crew_of
from cython.cimports.penstock.core.system import EBADF, EMFILE, PyThread_get_thread_ident
from cython.cimports.penstock.core.types import (
    ANSWER_BYTES,
    ANSWER_COUNT,
    ANSWER_NONE,
    ANSWER_VALUE,
    OPERATION_EXCEPT,
    OPERATION_KINDS,
    OPERATION_READ,
    OPERATION_WRITE,
    PRIORITY,
    READABLE,
    WRITABLE,
    DescriptorsC,
    LoopC,
    OperationC,
)

from penstock import limits
from penstock.errors import BadDescriptor, Overflow, Unsupported, UsageError
from penstock.limits import require_whole
from penstock.net.calls import (
    AcceptCall,
    ConnectCall,
    ReadCall,
    ReadIntoCall,
    ReceiveCall,
    SendCall,
    SendfileCall,
    WaitCall,
    WriteCall,
)

_KINDS = {"read": OPERATION_READ, "write": OPERATION_WRITE, "except": OPERATION_EXCEPT}
_WANTED = {OPERATION_READ: READABLE, OPERATION_WRITE: WRITABLE, OPERATION_EXCEPT: PRIORITY}


@cython.cfunc
def _loop_of(reactor) -> Loop:
    """The loop of a reactor, which may be of any model."""
    loop = getattr(reactor, "loop", None)
    if not isinstance(loop, Loop):
        raise UsageError(f"reactor is {reactor!r}; give a penstock.Reactor")
    return loop


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _enter(crew: cython.pointer[CrewC], reason: cython.int) -> cython.void:
    """Take the lock of a shared loop; there is none in others."""
    if crew != cython.NULL:
        crew_enter(crew, reason)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _leave(crew: cython.pointer[CrewC], reason: cython.int) -> cython.void:
    if crew != cython.NULL:
        crew_leave(crew, reason)


def _kind(name):
    """The number of a kind of operation."""
    if name not in _KINDS:
        raise UsageError(f'kind is {name!r}; give "read", "write" or "except"')
    return _KINDS[name]


def _number_of(fd):
    """A descriptor's number, from a number or from an object with `fileno()`."""
    number = fd if isinstance(fd, int) else fd.fileno() if hasattr(fd, "fileno") else None
    if number is None:
        raise BadDescriptor(f"descriptor is {fd!r}; give a number, or an object with fileno()")
    if not 0 <= number <= 0x7FFFFFFF:
        raise BadDescriptor(f"descriptor {number} is closed, or was never open")
    return number


class Descriptor:
    """A descriptor with operations. `edge` chooses how readiness is watched (None: the best that the poller has);
    `calls` brings system calls of one's own."""

    def __init__(self, reactor, fd, *, edge=None, calls=None):
        loop: Loop = _loop_of(reactor)
        if self.loop is not None:
            raise UsageError("a Descriptor cannot be initialised twice; make a new one")
        loop.check()
        self.closed = True
        self.loop = loop
        self.crew = crew_of(loop)
        self.number = _number_of(fd)
        self.given = None if isinstance(fd, int) else fd
        self.calls = calls
        if edge and not loop.poller.supports_edge:
            raise Unsupported(f"poller {loop.poller.name!r} knows no edges; use edge=False, or another poller")
        if calls is None:
            try:
                self.is_socket = stat.S_ISSOCK(os.fstat(self.number).st_mode)
            except OSError as error:
                raise BadDescriptor(f"descriptor {self.number} is not open") from error
        _enter(self.crew, CREW_REGISTRATION)
        try:
            self._open(loop.poller.supports_edge if edge is None else edge)
        finally:
            _leave(self.crew, CREW_REGISTRATION)
        if calls is None:
            self.was_blocking = os.get_blocking(self.number)
            os.set_blocking(self.number, False)

    def _open(self, edge: cython.bint):
        failed: cython.int = 0
        loop: cython.pointer[LoopC] = cython.address(self.loop.c)
        if registry_at(cython.address(loop.registry), self.number) != cython.NULL:
            # The number begins a new life; whoever had it before is told, or not called again.
            loop.poller.remove(loop.poller, self.number)
            self.loop._retire(self.number)
            loop.registry.replaced += 1
        self.c = descriptor_open(loop, self.number, edge, cython.address(failed))
        if self.c == cython.NULL and failed == -EMFILE and self.number >= self.loop.policy.descriptors_max:
            raise Overflow(
                f"descriptor {self.number} is beyond the {self.loop.policy.descriptors_max:,} that {self.loop.name} may "
                "watch; raise descriptors_max in its Policy",
                limit="descriptors_max",
                capacity=self.loop.policy.descriptors_max,
            )
        if self.c == cython.NULL:
            self.loop._refuse(self.number, -failed, edge)
        self.generation = self.c.generation
        self.closed = False
        return 0

    def _alive(self):
        return not self.closed and self.c != cython.NULL and self.c.live and self.c.generation == self.generation

    # ---- starting ----------------------------------------------------------------------------------------------------

    def _new(self, callback, key):
        """A blank operation that holds its callback, its key and us."""
        self.loop.check()
        if not PyCallable_Check(callback):
            raise UsageError(f"the callback {callback!r} cannot be called")
        _enter(self.crew, CREW_IO)
        operation: cython.pointer[OperationC] = operation_new(cython.address(self.loop.c.descriptors))
        if operation == cython.NULL:
            self.loop.c.descriptors.refusals += 1
        _leave(self.crew, CREW_IO)
        if operation == cython.NULL:
            raise Overflow(
                f"{self.loop.name} has {self.loop.policy.operations_max:,} operations that are not handed over; start fewer",
                limit="operations_max",
                capacity=self.loop.policy.operations_max,
            )
        Py_INCREF(callback)
        operation.callback = cython.cast(cython.pointer[PyObject], callback)
        Py_INCREF(self)
        operation.owner = cython.cast(cython.pointer[PyObject], self)
        operation.socket = self.is_socket
        if key is not None:
            Py_INCREF(key)
            operation.key = cython.cast(cython.p_void, key)
        return operation

    def _start(self, operation: cython.pointer[OperationC], kind: cython.int, speculative: cython.bint):
        loop: cython.pointer[LoopC] = cython.address(self.loop.c)
        begun: cython.bint = True
        _enter(self.crew, CREW_IO)
        if self._alive():
            begun = descriptor_start(loop, self.c, operation, kind, speculative)
        else:
            record_refuse(loop, operation, kind, self.number, EBADF)
        _leave(self.crew, CREW_IO)
        if begun:
            return 0
        self._take_back(operation)
        raise Overflow(
            f"descriptor {self.number} has {self.loop.policy.operations_per_queue_max:,} operations of this kind waiting; "
            "start the next one when one has ended",
            limit="operations_per_queue_max",
            capacity=self.loop.policy.operations_per_queue_max,
        )

    def _take_back(self, operation: cython.pointer[OperationC]):
        """An operation that nothing will come of. What it holds is let go without the lock."""
        held: OperationC
        _enter(self.crew, CREW_IO)
        operation_detach(cython.address(self.loop.c.descriptors), operation, cython.address(held))
        _leave(self.crew, CREW_IO)
        operation_let_go(cython.address(held))
        return 0

    def _start_call(self, kind: cython.int, call, callback, key, speculative: cython.bint):
        """Start an operation whose system call the interpreter makes."""
        operation: cython.pointer[OperationC] = self._new(callback, key)
        Py_INCREF(call)
        operation.subject = cython.cast(cython.pointer[PyObject], call)
        operation.perform = perform_python
        operation.answer = ANSWER_VALUE
        return self._start(operation, kind, speculative)

    # ---- reading and writing -----------------------------------------------------------------------------------------

    def read(self, n, callback, key=None):
        """Read once, at most `n` bytes; b"" is the end."""
        require_whole("n", n, 1, limits.OPERATION_READ_MAX_BYTES)
        if self.calls is not None:
            self._start_call(OPERATION_READ, ReadCall(self.calls, n), callback, key, True)
            return
        operation: cython.pointer[OperationC] = self._new(callback, key)
        operation.size = n
        operation.perform = perform_read
        operation.answer = ANSWER_BYTES
        self._start(operation, OPERATION_READ, True)

    def read_into(self, buffer, callback, key=None):
        """Read once into a writable buffer that is not resized meanwhile. The result counts bytes; 0 is the end."""
        view = memoryview(buffer)
        if view.readonly or not view.nbytes or not view.contiguous:
            raise UsageError(f"buffer is {buffer!r}; give contiguous memory of 1 byte or more that can be written")
        if self.calls is not None:
            self._start_call(OPERATION_READ, ReadIntoCall(self.calls, view.cast("B")), callback, key, True)
            return
        operation: cython.pointer[OperationC] = self._new(callback, key)
        operation.perform = perform_read_into
        self._lend(operation, buffer, PyBUF_WRITABLE)
        self._start(operation, OPERATION_READ, True)

    def write(self, data, callback, key=None):
        """Write all of it. Do not change it before the callback."""
        view = memoryview(data)
        if not view.contiguous:
            raise UsageError(f"data is {data!r}; give contiguous memory")
        if self.calls is not None:
            self._start_call(OPERATION_WRITE, WriteCall(self.calls, bytes(view)), callback, key, True)
            return
        operation: cython.pointer[OperationC] = self._new(callback, key)
        operation.perform = perform_write
        self._lend(operation, data, PyBUF_SIMPLE)
        self._start(operation, OPERATION_WRITE, True)

    def _lend(self, operation: cython.pointer[OperationC], memory, flags: cython.int):
        try:
            PyObject_GetBuffer(memory, cython.address(operation.view), flags)
        except BaseException:
            self._take_back(operation)
            raise
        operation.viewed = True
        operation.data = cython.cast(cython.p_char, operation.view.buf)
        operation.size = operation.view.len
        operation.answer = ANSWER_COUNT

    def wait(self, kind, callback, key=None):
        """Wait until it is readable ("read"), writable ("write") or has out-of-band data ("except")."""
        index: cython.int = _kind(kind)
        if self.calls is not None:
            self._start_call(index, WaitCall(self.calls, _WANTED[index]), callback, key, False)
            return
        operation: cython.pointer[OperationC] = self._new(callback, key)
        operation.wanted = _WANTED[index]
        operation.perform = perform_wait
        operation.answer = ANSWER_NONE
        self._start(operation, index, False)

    # ---- sockets -----------------------------------------------------------------------------------------------------

    def _socket(self):
        """A socket object on our number. It never closes it: see `_deregister`."""
        # Here, because those who only read pipes need no sockets.
        import socket

        if self.helper is None:
            self.helper = socket.socket(fileno=self.number)
            self.helper.setblocking(False)
        return self.helper

    def connect(self, address, callback, key=None):
        """Connect a socket. It counts as a write."""
        self._start_call(OPERATION_WRITE, ConnectCall(self._socket, address), callback, key, True)

    def accept(self, callback, key=None):
        """Take one connection from a listening socket: (socket, address)."""
        self._start_call(OPERATION_READ, AcceptCall(self.calls, self._socket), callback, key, True)

    def recvmsg(self, n, callback, key=None, *, descriptors=0, ancillary_bytes=0, flags=0):
        """Receive one message with at most `n` bytes and so many descriptors: (data, descriptors, ancillary, flags,
        address)."""
        require_whole("n", n, 1, limits.OPERATION_READ_MAX_BYTES)
        require_whole("descriptors", descriptors, 0, limits.MESSAGE_DESCRIPTORS_MAX)
        require_whole("ancillary_bytes", ancillary_bytes, 0, limits.OPERATION_READ_MAX_BYTES)
        call = ReceiveCall(self._socket, n, descriptors, ancillary_bytes, flags)
        self._start_call(OPERATION_READ, call, callback, key, True)

    def sendmsg(self, data, callback, key=None, *, descriptors=(), ancillary=(), flags=0, address=None):
        """Send one message, also with descriptors. A stream may take less than all of it: the result says how much."""
        parts = (data,) if isinstance(data, (bytes, bytearray, memoryview)) else tuple(data)
        numbers = [_number_of(one) for one in descriptors]
        require_whole("the number of descriptors", len(numbers), 0, limits.MESSAGE_DESCRIPTORS_MAX)
        call = SendCall(self._socket, parts, numbers, ancillary, flags, address)
        self._start_call(OPERATION_WRITE, call, callback, key, True)

    def sendfile(self, file, callback, key=None, *, offset=0, count=None):
        """Send a file from `offset` on, `count` bytes or all of it."""
        source = _number_of(file)
        left = max(0, os.fstat(source).st_size - offset) if count is None else count
        require_whole("offset", offset, 0, 2**63 - 1)
        require_whole("count", left, 0, 2**63 - 1)
        self._start_call(OPERATION_WRITE, SendfileCall(source, offset, left), callback, key, True)

    # ---- cancelling and ending ---------------------------------------------------------------------------------------

    def cancel(self, kind=None, key=None):
        """Cancel what waits: everything, or of one kind, or what was started with an equal key. Returns how many."""
        self.loop.check()
        index: cython.int = -1 if kind is None else _kind(kind)
        _enter(self.crew, CREW_IO)
        try:
            if not self._alive():
                return 0
            if key is None:
                return descriptor_cancel(cython.address(self.loop.c), self.c, index)
            kinds = range(OPERATION_KINDS) if index < 0 else (index,)
            return sum([self._cancel_equal(one, key) for one in kinds])
        finally:
            _leave(self.crew, CREW_IO)

    def _cancel_equal(self, kind: cython.int, key):
        """Compare first, cancel then: a comparison may do anything, also start and cancel operations."""
        operation: cython.pointer[OperationC] = self.c.queues[kind].first
        keys = {}
        while operation != cython.NULL:
            if operation.key != cython.NULL:
                keys[cython.cast(uint64_t, operation.key)] = cython.cast(object, operation.key)
            operation = operation.next
        equal = {address for address, other in keys.items() if other is key or other == key}
        if not self._alive():
            return 0
        operation = self.c.queues[kind].first
        while operation != cython.NULL:
            operation.chosen = operation.key != cython.NULL and cython.cast(uint64_t, operation.key) in equal
            operation = operation.next
        return descriptor_cancel_chosen(cython.address(self.loop.c), self.c, kind)

    def _deregister(self):
        """End the record, and keep the number. False if another thread has done so meanwhile."""
        # In a child of a fork the record is the parent's, and only the number is ours.
        here: cython.bint = self.loop.c.forks == self.loop.c.fork_count[0]
        if here and not self.loop.c.closed:
            self.loop.check()
        if here:
            _enter(self.crew, CREW_REGISTRATION)
        ended: cython.bint = not self.closed
        if here and self._alive():
            descriptor_deregister(cython.address(self.loop.c), self.c)
        self.closed = True
        if here:
            _leave(self.crew, CREW_REGISTRATION)
        if ended and self.helper is not None:
            helper, self.helper = self.helper, None
            helper.detach()
        return ended

    def close(self):
        """Cancel what waits, and close the descriptor. Closing twice changes nothing."""
        if self.closed or not self._deregister():
            return
        given, self.given = self.given, None
        if self.calls is not None:
            self.calls.close(self.number)
        elif given is not None and hasattr(given, "close"):
            given.close()
        else:
            os.close(self.number)

    def release(self):
        """Cancel what waits, and give the descriptor back as it was: open, and blocking if it did."""
        if self.closed or not self._deregister():
            raise BadDescriptor(f"descriptor {self.number} is closed; there is nothing to release")
        self.given = None
        if self.was_blocking:
            os.set_blocking(self.number, True)
        return self.number

    def move(self):
        """Hand everything over to a new owner: the descriptor, and what waits. This object is closed then."""
        self.loop.check()
        if not self._alive():
            raise BadDescriptor(f"descriptor {self.number} is closed; there is nothing to move")
        other: Descriptor = Descriptor.__new__(Descriptor)
        other.c, other.generation, other.loop, other.number = self.c, self.generation, self.loop, self.number
        other.crew = self.crew
        other.is_socket, other.was_blocking = self.is_socket, self.was_blocking
        other.given, other.calls, other.helper = self.given, self.calls, self.helper
        self.given = self.helper = None
        self.closed = True
        return other

    def __del__(self):
        if self.loop is None or self.closed:
            return
        loop: cython.pointer[LoopC] = cython.address(self.loop.c)
        if (self.crew != cython.NULL or loop.owner == PyThread_get_thread_ident()) and loop.forks == loop.fork_count[0]:
            message = f"{self!r} was not closed; close it, or release its descriptor"
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
            self.close()

    # ---- looking -----------------------------------------------------------------------------------------------------

    def fileno(self):
        """The number."""
        if self.closed:
            raise BadDescriptor(f"descriptor {self.number} is closed")
        return self.number

    @property
    def waiting(self):
        """How many operations wait: (reads, writes, out-of-band waits)."""
        if not self._alive():
            return (0, 0, 0)
        return tuple([self.c.queues[kind].size for kind in range(OPERATION_KINDS)])

    @property
    def filters(self):
        """The events that the poller watches for, as bits."""
        return self.c.filters if self._alive() else 0

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        state = "closed" if self.closed else "open, waiting {} reads, {} writes, {} out-of-band".format(*self.waiting)
        return f"<Descriptor {self.number}, {state}>"


def operation_counters(reactor):
    """What the operations of a reactor count."""
    loop: Loop = _loop_of(reactor)
    loop.check()
    c: cython.pointer[DescriptorsC] = cython.address(loop.c.descriptors)
    return {
        "live": c.live,
        "allocated": c.allocated,
        "high_water": c.high_water,
        "operations": c.operations,
        "operations_high_water": c.operations_high_water,
        "waiting": c.waiting,
        "completing": c.completed.size,
        "started": c.started,
        "speculated": c.speculated,
        "performed": c.performed,
        "blocked": c.blocked,
        "completed": c.completed_all,
        "cancelled": c.cancelled,
        "faults": c.faults,
        "refusals": c.refusals,
        "tells": c.tells,
        "shares_used": c.shares_used,
    }
