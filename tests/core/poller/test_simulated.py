"""The simulated poller: what it reports, in which order, and how its waits move the clock."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.clock import ManualClock
from penstock.core.poller.events import ERROR, HANGUP, READABLE, WRITABLE, PollerLike
from penstock.core.poller.simulated import SimulatedKernel, SimulatedPoller
from penstock.errors import Overflow, Unsupported

FOREVER = -1


class World:
    """A clock, a kernel and a poller, as most tests need them."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock(1_000)
        self.kernel = SimulatedKernel(self.clock, **options)
        self.poller = SimulatedPoller(self.kernel)

    def ready(self, capacity: int = 100) -> list[tuple[int, int]]:
        return self.poller.wait(capacity, 0)


@pytest.fixture
def world() -> World:
    return World()


def refused(number: int) -> Any:
    return pytest.raises(OSError, match=f"^.Errno {number}.")


def test_it_has_the_shape_of_a_poller(world: World) -> None:
    poller: PollerLike = world.poller
    assert (poller.name, poller.supports_edge, poller.simulated) == ("simulated", True, True)


# ---- registrations


def test_registrations_are_refused_as_by_epoll(world: World) -> None:
    one, _ = world.kernel.socketpair()
    with refused(errno.ENOENT):
        world.poller.modify(one, READABLE, False, 1)
    with refused(errno.ENOENT):
        world.poller.remove(one)
    world.poller.add(one, READABLE, False, 1)
    with refused(errno.EEXIST):
        world.poller.add(one, READABLE, False, 1)
    for call in (lambda: world.poller.add(99, READABLE, False, 1), lambda: world.poller.remove(99)):
        with refused(errno.EBADF):
            call()
    file = world.kernel.open_file(b"text")
    with refused(errno.EPERM):
        world.poller.add(file, READABLE, False, 1)
    assert world.kernel.refusals["modify", "ENOENT"] == 1
    assert world.kernel.refusals["add", "EPERM"] == 1


def test_entries_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SIMULATED_WATCHES_MAX", 1)
    one, two = world.kernel.socketpair()
    world.poller.add(one, READABLE, False, 1)
    with refused(errno.ENOSPC):
        world.poller.add(two, READABLE, False, 2)


def test_a_duplicate_keeps_the_entry_of_a_closed_descriptor_alive(world: World) -> None:
    one, two = world.kernel.socketpair()
    world.poller.add(one, READABLE, False, 111)
    kept = world.kernel.dup(one)
    world.kernel.close(one)
    world.kernel.write(two, b"late")
    assert world.ready() == [(111, READABLE)]
    with refused(errno.EBADF):
        world.poller.remove(one)
    # The number is used again: the old entry is neither in the way nor within reach.
    other, _ = world.kernel.pipe()
    assert other == one
    with refused(errno.ENOENT):
        world.poller.remove(other)
    world.poller.add(other, READABLE, False, 222)
    assert world.ready() == [(111, READABLE)]
    world.kernel.close(kept)
    assert world.ready() == []
    assert len(world.poller) == 1


def test_closing_the_last_reference_removes_every_entry(world: World) -> None:
    one, two = world.kernel.socketpair()
    again = world.kernel.dup(one)
    world.poller.add(one, READABLE, False, 1)
    world.poller.add(again, READABLE, False, 2)
    world.kernel.write(two, b"x")
    # The latest comes first, as in a wait queue of Linux.
    assert world.ready() == [(2, READABLE), (1, READABLE)]
    world.kernel.close(one)
    assert len(world.poller) == 2
    world.kernel.close(again)
    assert len(world.poller) == 0
    assert world.ready() == []


def test_reset_forgets_and_close_ends(world: World) -> None:
    one, two = world.kernel.socketpair()
    world.poller.add(one, READABLE, False, 1)
    world.kernel.write(two, b"x")
    world.poller.reset()
    assert world.ready() == []
    world.poller.add(one, READABLE, False, 1)
    world.poller.close()
    with refused(errno.EBADF):
        world.ready()
    with refused(errno.EBADF):
        world.poller.add(two, READABLE, False, 1)


def test_two_pollers_see_the_same(world: World) -> None:
    other = SimulatedPoller(world.kernel)
    one, two = world.kernel.socketpair()
    world.poller.add(one, READABLE, True, 1)
    other.add(one, READABLE, True, 2)
    world.kernel.write(two, b"x")
    assert world.ready() == [(1, READABLE)]
    assert other.wait(1, 0) == [(2, READABLE)]
    assert world.ready() == other.wait(1, 0) == []


def test_unread_is_0_where_it_cannot_be_known(world: World) -> None:
    one, two = world.kernel.socketpair()
    world.kernel.write(two, b"12345")
    assert world.poller.unread(one) == 5
    assert world.poller.unread(world.kernel.eventfd(7)) == 0
    assert world.poller.unread(world.kernel.listen(1)) == 0
    assert world.poller.unread(99) == 0


# ---- level and edge


def test_level_is_reported_while_it_is_true(world: World) -> None:
    one, two = world.kernel.socketpair()
    world.poller.add(one, READABLE, False, 1)
    assert world.ready() == []
    world.kernel.write(two, b"xy")
    assert world.ready() == world.ready() == [(1, READABLE)]
    world.kernel.read(one, 1)
    assert world.ready() == [(1, READABLE)]
    world.kernel.read(one, 1)
    assert world.ready() == []


def test_edge_is_reported_once_per_arrival(world: World) -> None:
    one, two = world.kernel.socketpair()
    world.poller.add(one, READABLE, True, 1)
    for _ in range(3):
        world.kernel.write(two, b"x")
        assert world.ready() == [(1, READABLE)]
        assert world.ready() == []
    world.poller.modify(one, READABLE | WRITABLE, True, 2)
    assert world.ready() == [(2, READABLE | WRITABLE)]
    assert world.ready() == []


def test_an_edge_that_is_over_before_anybody_looks_is_not_reported(world: World) -> None:
    one, two = world.kernel.socketpair()
    world.poller.add(one, READABLE, True, 1)
    world.kernel.write(two, b"x")
    world.kernel.read(one, 1)
    assert world.ready() == []


def test_tcp_tells_of_space_only_who_lacked_it_and_local_sockets_tell_all(world: World) -> None:
    one, two = world.kernel.socketpair(tcp=True, buffer_bytes=300)
    world.poller.add(one, WRITABLE, True, 1)
    assert world.ready() == [(1, WRITABLE)]
    world.kernel.write(one, bytes(100))
    world.kernel.read(two, 100)
    assert world.ready() == []
    assert world.kernel.write(one, bytes(400)) == 300
    world.kernel.read(two, 99)
    assert world.ready() == []
    world.kernel.read(two, 1)
    assert world.ready() == [(1, WRITABLE)]
    world.kernel.read(two, 100)
    assert world.ready() == []
    one, two = world.kernel.socketpair()
    world.poller.add(one, WRITABLE, True, 2)
    assert world.ready() == [(2, WRITABLE)]
    world.kernel.write(one, b"message")
    world.kernel.read(two, 6)
    assert world.ready() == []
    world.kernel.read(two, 1)
    assert world.ready() == [(2, WRITABLE)]


def test_errors_and_hang_ups_come_unasked(world: World) -> None:
    reader, writer = world.kernel.pipe()
    world.poller.add(reader, 0, False, 1)
    world.poller.add(writer, 0, False, 2)
    world.kernel.close(writer)
    assert world.ready() == [(1, HANGUP)]
    reader, writer = world.kernel.pipe()
    world.poller.add(writer, 0, False, 3)
    world.kernel.close(reader)
    assert (3, ERROR) in world.ready()


# ---- order and capacity


def test_ready_descriptors_come_in_the_order_of_becoming_ready(world: World) -> None:
    pairs = [world.kernel.socketpair() for _ in range(4)]
    for one, _ in pairs:
        world.poller.add(one, READABLE, True, one)
    for one, two in (pairs[2], pairs[0], pairs[3], pairs[2]):
        world.kernel.write(two, b"x")
        assert one
    assert [token for token, _ in world.ready()] == [pairs[2][0], pairs[0][0], pairs[3][0]]


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 40))
def test_nobody_starves_whatever_the_capacity(count: int, capacity: int, waits: int) -> None:
    world = World()
    for _ in range(count):
        one, two = world.kernel.socketpair()
        world.poller.add(one, READABLE, False, one)
        world.kernel.write(two, b"x")
    seen: dict[int, int] = {}
    for _ in range(waits):
        ready = world.ready(capacity)
        assert len(ready) == min(capacity, count)
        for token, _ in ready:
            seen[token] = seen.get(token, 0) + 1
    assert max(seen.values()) - (min(seen.values()) if len(seen) == count else 0) <= 1


def test_a_wait_needs_room(world: World) -> None:
    with refused(errno.EINVAL):
        world.poller.wait(0, 0)


# ---- waiting


def test_a_wait_ends_when_something_is_ready(world: World) -> None:
    one, two = world.kernel.socketpair()
    world.poller.add(one, READABLE, False, 7)
    world.kernel.at(5_000, world.kernel.socketpair)
    world.kernel.at(9_000, world.kernel.write, two, b"x")
    world.kernel.at(9_000, world.kernel.write, two, b"y")
    world.kernel.at(9_001, world.kernel.close, two)
    assert world.poller.wait(10, FOREVER) == [(7, READABLE)]
    assert world.clock.now_ns() == 9_000
    assert world.kernel.read(one, 10) == b"xy"
    assert world.poller.wait(10, 1_000_000) == [(7, READABLE | HANGUP)]
    assert world.clock.now_ns() == 9_001


def test_a_wait_ends_at_its_timeout(world: World) -> None:
    one, two = world.kernel.socketpair()
    world.poller.add(one, READABLE, False, 7)
    world.kernel.at(5_000, world.kernel.write, two, b"x")
    assert world.poller.wait(10, 3_999) == []
    assert world.clock.now_ns() == 4_999
    assert world.poller.wait(10, 0) == []
    assert world.poller.wait(10, 1) == [(7, READABLE)]
    world.poller.remove(one)
    assert world.poller.wait(10, 700) == []
    assert world.clock.now_ns() == 5_700


def test_a_wait_for_ever_for_nothing_is_an_error(world: World) -> None:
    with pytest.raises(Unsupported, match="would last for ever"):
        world.poller.wait(10, FOREVER)


def test_a_wait_that_never_ends_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SIMULATED_ACTIONS_PER_CALL_MAX", 100)

    def heartbeat() -> None:
        world.kernel.at(world.kernel.schedule.now_ns() + 10, heartbeat)

    heartbeat()
    with pytest.raises(Overflow) as caught:
        world.poller.wait(10, FOREVER)
    assert caught.value.limit == "SIMULATED_ACTIONS_PER_CALL_MAX"
    assert world.kernel.schedule.ran == 101


def test_a_failing_wait(world: World) -> None:
    world.kernel.fail_next("wait", None, errno.EINTR)
    with pytest.raises(InterruptedError):
        world.ready()
    assert world.ready() == []


def test_a_simulated_hour_of_flood_is_the_same_twice() -> None:
    """Also: a thousand seconds pass in no time."""

    def run(seed: int) -> tuple[list[tuple[int, int, int]], dict[str, int]]:
        world = World(seed=seed)
        kernel = world.kernel
        pairs = [kernel.socketpair(tcp=number % 2 == 0, delay_ns=number * 1_000) for number in range(8)]
        for one, _ in pairs:
            world.poller.add(one, READABLE, True, one)

        def flood() -> None:
            kernel.write(kernel.random.choice(pairs)[1], bytes(kernel.random.randint(1, 500)))
            kernel.at(kernel.schedule.now_ns() + kernel.random.randint(1, 10_000_000_000), flood)

        flood()
        kernel.faults.fail_sometimes("read", None, errno.EINTR, 0.1)
        kernel.faults.short_sometimes("read", None, 0.5)
        log = []
        while world.clock.now_ns() < 1_000_000_000_000:
            for token, events in world.poller.wait(4, FOREVER):
                try:
                    log.append((world.clock.now_ns(), events, len(kernel.read(token, 65_536))))
                except InterruptedError:
                    log.append((world.clock.now_ns(), events, -1))
        return log, dict(kernel.calls)

    assert run(1) == run(1)
    assert run(1) != run(2)
