# cython: language_level=3
"""A native operation, for tests, and as the example of how one is written: no object of the interpreter is touched.

It reads, counts how often it was tried and completed, and uses its own address as the key to cancel it by. One that
`stays` never ends, however much it has read: so a loop's own descriptor is drained.

Keep the object until its operation is completed, or the reactor is closed.
"""

import cython
from cython.cimports.penstock.core.descriptor import (
    descriptor_cancel_key,
    descriptor_deregister,
    descriptor_open_internal,
    descriptor_start,
)
from cython.cimports.penstock.core.system import EAGAIN, errno, read
from cython.cimports.penstock.core.types import (
    OPERATION_READ,
    PERFORM_BLOCKED,
    PERFORM_DONE,
    LoopC,
    OperationC,
)
from cython.cimports.penstock.net.operations import Descriptor
from cython.cimports.penstock.reactor import Reactor

from penstock.errors import BadDescriptor


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _perform(operation: cython.pointer[OperationC], fd: cython.int) -> cython.int:
    reading: cython.pointer[ReadingC] = cython.cast(cython.pointer[ReadingC], operation)
    buffer: cython.char[256]
    reading.performs += 1
    got: cython.Py_ssize_t = read(fd, buffer, 256)
    if got >= 0:
        reading.read_bytes += got
        return PERFORM_BLOCKED if reading.stays else PERFORM_DONE
    if errno == EAGAIN:
        return PERFORM_BLOCKED
    operation.error = errno
    return PERFORM_DONE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _complete(loop: cython.pointer[LoopC], operation: cython.pointer[OperationC]) -> cython.void:
    cython.cast(cython.pointer[ReadingC], operation).completes += 1


class NativeRead:
    """One read, all in C."""

    def __init__(self, reactor: Reactor, *, stays: bool = False):
        self.loop = reactor.loop
        self.c.stays = stays
        self.c.operation.perform = _perform
        self.c.operation.complete = _complete
        self.c.operation.key = cython.address(self.c)

    def open_internal(self, fd: int, edge: bool = True):
        """Let the loop have this descriptor for itself, with this operation waiting from the start."""
        failed: cython.int = 0
        self.loop.check()
        self.record = descriptor_open_internal(
            cython.address(self.loop.c), fd, edge, cython.address(self.c.operation), cython.address(failed)
        )
        if self.record == cython.NULL:
            raise BadDescriptor(f"descriptor {fd} cannot be the loop's own: error {-failed}")
        self.generation = self.record.generation

    def start(self, descriptor: Descriptor):
        """Start this operation on a descriptor."""
        self.loop.check()
        descriptor_start(
            cython.address(self.loop.c), descriptor.c, cython.address(self.c.operation), OPERATION_READ, True
        )

    def cancel(self, descriptor: Descriptor):
        """Cancel this operation by its key; returns how many that were."""
        self.loop.check()
        return descriptor_cancel_key(cython.address(self.loop.c), descriptor.c, OPERATION_READ, cython.address(self.c))

    def close(self):
        """End the record that `open_internal` made; returns how many operations were cancelled."""
        self.loop.check()
        if self.record == cython.NULL or self.record.generation != self.generation:
            return 0
        return descriptor_deregister(cython.address(self.loop.c), self.record)

    @property
    def performs(self):
        """How often it was tried."""
        return self.c.performs

    @property
    def completes(self):
        """How often it was completed."""
        return self.c.completes

    @property
    def read_bytes(self):
        """What it has read."""
        return self.c.read_bytes

    @property
    def error(self):
        """The errno of its end, or 0."""
        return self.c.operation.error
