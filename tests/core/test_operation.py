"""Perform and complete: when each happens, how often, and what a poller's fault does to them."""

from __future__ import annotations

import errno
import gc
import os
import socket
import threading
from typing import Any

import pytest

from penstock import ForkedLoop, ManualClock, Reactor, UsageError
from penstock.core.poller.events import ERROR, READABLE, WRITABLE
from penstock.core.poller.kqueue import KqueuePoller
from penstock.core.poller.simulated_kernel import SimulatedKernel
from penstock.core.poller.simulated_kqueue import READ, SimulatedSelect
from penstock.limits import Policy
from penstock.net.operations import Descriptor, operation_counters
from penstock.testing.reading import NativeRead
from tests.net.worlds import SimulatedCalls


class KqueueWorld:
    """A reactor on a simulated kqueue, and what its descriptors were told."""

    def __init__(self) -> None:
        self.kernel = SimulatedKernel(ManualClock())
        self.module = SimulatedSelect(self.kernel)
        self.poller = KqueuePoller(self.module)
        self.reactor = Reactor(self.poller, clock=self.kernel.clock)
        self.told: list[tuple[str, int | None, Any]] = []

    def open(self) -> tuple[Descriptor, int]:
        one, two = self.kernel.socketpair()
        return Descriptor(self.reactor, one, calls=SimulatedCalls(self.kernel)), two

    def note(self, name: str) -> Any:
        return lambda error, result: self.told.append((name, error.errno if error else None, result))

    def turns(self) -> None:
        for _ in range(5):
            self.reactor.run_once(0)


def test_a_fault_completes_the_head_instead_of_performing_it() -> None:
    """Data is there: performing too would take it, and complete the next operation, or one of them twice."""
    world = KqueueWorld()
    one, peer = world.open()
    for name in ("head", "second", "third"):
        one.read(10, world.note(name))
    reads = world.kernel.calls["read"]
    world.module.break_filter(one.fileno(), READ, errno.EIO)
    world.kernel.write(peer, b"data")
    world.reactor.run_once(0)
    assert world.told == [("head", errno.EIO, None)]
    assert world.kernel.calls["read"] == reads
    world.turns()
    assert world.told == [("head", errno.EIO, None), ("second", None, b"data")], "the others are watched anew"
    assert one.waiting == (1, 0, 0)
    assert operation_counters(world.reactor)["faults"] == 1
    one.close()
    world.reactor.close()


def test_a_fault_that_lasts_ends_the_others_with_its_reason() -> None:
    world = KqueueWorld()
    one, _peer = world.open()
    for name in ("head", "second", "third"):
        one.read(10, world.note(name))
    world.module.break_filter(one.fileno(), READ, errno.EIO)
    world.kernel.fail_next("add", None, errno.ENOMEM)
    world.turns()
    assert world.told == [("head", errno.EIO, None), ("second", errno.ENOMEM, None), ("third", errno.ENOMEM, None)]
    one.close()
    world.reactor.close()


def test_filters_are_added_when_they_are_needed() -> None:
    world = KqueueWorld()
    one, peer = world.open()
    assert (one.filters, world.poller.changes) == (0, 0)
    world.kernel.write(peer, b"x")
    one.read(10, world.note("at once"))
    assert (one.filters, world.poller.changes) == (0, 0)
    one.read(10, world.note("waits"))
    assert (one.filters, world.poller.changes) == (READABLE, 1)
    one.write(b"w" * 300_000, world.note("write"))
    assert (one.filters, world.poller.changes) == (READABLE | WRITABLE, 2)
    one.close()
    world.reactor.close()


def test_a_write_filter_that_nobody_waits_for_is_removed() -> None:
    """A serial port would report it for ever."""
    world = KqueueWorld()
    one, peer = world.open()
    one.write(b"w" * 100_000, world.note("write"))
    one.cancel("write")
    assert one.filters == READABLE | WRITABLE
    while world.kernel.unread(peer):
        world.kernel.read(peer, 100_000)
    world.turns()
    assert one.filters == READABLE
    one.close()
    world.reactor.close()


@pytest.mark.parametrize(("call", "number"), [("add", errno.ENOMEM), ("add", errno.EBADF)])
def test_a_filter_that_is_refused_ends_the_operation(call: str, number: int) -> None:
    world = KqueueWorld()
    one, _peer = world.open()
    world.kernel.fail_next(call, None, number)
    one.read(10, world.note("read"))
    assert (world.told, one.waiting) == ([], (0, 0, 0))
    world.turns()
    assert world.told == [("read", number, None)]
    one.close()
    world.reactor.close()


def test_completions_and_what_they_start_take_turns() -> None:
    """What a completion starts is completed in a later turn, and deferred tasks of that turn come after."""
    with Reactor() as reactor:
        read_fd, write_fd = os.pipe()
        one = Descriptor(reactor, write_fd)
        order: list[str] = []

        def again(error: OSError | None, result: int) -> None:
            order.append("first")
            one.write(b"y", lambda error, result: order.append("second"))

        reactor.defer(order.append, "deferred")
        one.write(b"x", again)
        reactor.run_once(0)
        assert order == ["first", "deferred"]
        reactor.run_once(0)
        assert order == ["first", "deferred", "second"]
        one.close()
        os.close(read_fd)


def test_an_operation_keeps_its_descriptor_and_lets_everything_go() -> None:
    with Reactor() as reactor:
        read_fd, write_fd = os.pipe()
        told: list[bytes] = []
        buffer = bytearray(b"content")
        one = Descriptor(reactor, read_fd)
        one.read(10, lambda error, data: told.append(data))
        del one
        gc.collect()
        os.write(write_fd, b"x")
        with pytest.warns(ResourceWarning, match="was not closed"):
            reactor.poll()
        assert told == [b"x"]
        two = Descriptor(reactor, write_fd)
        two.write(buffer, lambda error, count: None)
        with pytest.raises(BufferError):
            buffer.append(1)
        two.close()
        reactor.run_once(0)
        buffer.append(1)
        counters = operation_counters(reactor)
        assert (counters["operations"], counters["live"]) == (0, 0)


def test_churn_leaves_nothing_behind() -> None:
    descriptors = len(os.listdir("/dev/fd"))
    with Reactor(policy=Policy(preallocated_descriptors=3)) as reactor:
        assert operation_counters(reactor)["allocated"] == 3
        for _ in range(2_000):
            one, two = socket.socketpair()
            first, second = Descriptor(reactor, one), Descriptor(reactor, two)
            first.read(10, lambda error, data: None)
            second.write(b"x", lambda error, count: None)
            second.read(10, lambda error, data: None)
            reactor.run_once(0)
            first.close()
            second.close()
        reactor.poll()
        counters = operation_counters(reactor)
        assert (counters["operations"], counters["live"], counters["allocated"]) == (0, 0, 3)
        assert counters["completed"] == 6_000
    assert len(os.listdir("/dev/fd")) == descriptors


def test_the_wrong_thread_is_told_so() -> None:
    with Reactor() as reactor:
        one, two = socket.socketpair()
        made = Descriptor(reactor, one)
        errors: list[str] = []

        def elsewhere() -> None:
            for call in (lambda: made.read(1, print), made.cancel, made.close):
                try:
                    call()
                except RuntimeError as error:
                    errors.append(type(error).__name__)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert errors == ["WrongThread"] * 3
        made.close()
        two.close()


@pytest.mark.parametrize("poller", ["epoll", "select"])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_gets_everything_registered_once_more(poller: str) -> None:
    """The child answers by its exit status; the parent goes on as if nothing had happened."""
    reactor = Reactor(poller)
    one, two = socket.socketpair()
    made = Descriptor(reactor, one)
    told: list[bytes] = []
    made.read(100, lambda error, data: told.append(data))
    reactor.set_timeout(3600, print)
    with pytest.raises(UsageError, match="for the child"):
        reactor.after_fork()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                reactor.run_once(0)
            except ForkedLoop:
                reactor.after_fork()
                two.send(b"from the child")
                reactor.defer_threadsafe(told.append, b"posted")
                while len(told) < 2:
                    reactor.run_once(5)
                status = 0 if sorted(told) == [b"from the child", b"posted"] else 2
        finally:
            os._exit(status)
    _pid, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    two.send(b"from the parent")
    while not told:
        reactor.run_once(5)
    assert told == [b"from the parent"]
    made.close()
    two.close()
    reactor.close()


def test_an_error_bit_alone_performs() -> None:
    """A poller that reports an error without a reason: the system call knows it."""

    class Poller:
        name = "told"
        supports_edge = True
        simulated = False
        events: list[tuple[int, int]]

        def __init__(self) -> None:
            self.events = []
            self.tokens: dict[int, int] = {}

        def add(self, fd: int, interest: int, edge: bool, token: int) -> None:
            self.tokens[fd] = token

        modify = add

        def remove(self, fd: int) -> None: ...

        def wait(self, capacity: int, timeout_ns: int) -> list[tuple[int, int]]:
            events, self.events = self.events, []
            return events

        def unread(self, fd: int) -> int:
            return 0

        def reset(self) -> None: ...
        def close(self) -> None: ...

    poller = Poller()
    told: list[Any] = []
    with Reactor(poller) as reactor:
        one, two = socket.socketpair()
        made = Descriptor(reactor, one)
        made.read(10, lambda error, data: told.append(data))
        two.close()
        poller.events = [(poller.tokens[made.fileno()], ERROR)]
        reactor.run_once(0)
        assert told == [b""]
        made.close()


@pytest.mark.parametrize(("poller", "edge"), [("epoll", True), ("epoll", False), ("select", False)])
def test_a_descriptor_of_the_loop_has_its_operation_from_the_start_and_is_no_work(poller: str, edge: bool) -> None:
    with Reactor(poller) as reactor:
        read_fd, write_fd = os.pipe()
        os.set_blocking(read_fd, False)
        os.write(write_fd, b"before")
        drain = NativeRead(reactor, stays=True)
        drain.open_internal(read_fd, edge)
        reactor.run(keep_alive=False)
        for count in range(1, 4):
            reactor.run_once(0)
            assert (drain.performs, drain.completes) == (count, 0)
            os.write(write_fd, b"x")
        reactor.run_once(0)
        assert drain.read_bytes == 9
        assert (drain.close(), drain.close()) == (1, 0)
        reactor.run_once(0)
        assert (drain.completes, drain.error) == (1, errno.ECANCELED)
        os.close(read_fd)
        os.close(write_fd)


def test_native_operations_share_the_queue_and_are_cancelled_by_their_key() -> None:
    with Reactor() as reactor:
        one, two = socket.socketpair()
        made = Descriptor(reactor, one)
        told: list[Any] = []
        natives = [NativeRead(reactor) for _ in range(3)]
        natives[0].start(made)
        made.read(100, lambda error, data: told.append(data))
        natives[1].start(made)
        natives[2].start(made)
        assert (natives[1].cancel(made), natives[1].cancel(made)) == (1, 0)
        for data in (b"native", b"python", b"native too"):
            two.send(data)
            reactor.run_once(1)
        assert told == [b"python"]
        reactor.poll()
        assert [(native.read_bytes, native.completes, native.error) for native in natives] == [
            (6, 1, 0),
            (0, 1, errno.ECANCELED),
            (10, 1, 0),
        ]
        made.close()
        two.close()


def test_closing_the_reactor_completes_native_operations_once() -> None:
    one, two = socket.socketpair()
    reactor = Reactor()
    made = Descriptor(reactor, one)
    waits, drain = NativeRead(reactor), NativeRead(reactor, stays=True)
    waits.start(made)
    drain.open_internal(two.fileno())
    reactor.close()
    assert [(native.completes, native.error) for native in (waits, drain)] == [(1, errno.ECANCELED)] * 2
    made.close()
    two.close()
