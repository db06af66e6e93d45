"""One behaviour for every poller: epoll, epoll with coarse waits, select, and the simulated one.

Where they differ, a test says so by its name. Each test runs with real descriptors, or with those of the simulated
kernel, behind the same calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.core.poller.choice import available, open_poller
from penstock.core.poller.events import ERROR, HANGUP, READABLE, WRITABLE
from penstock.errors import Unsupported, UsageError
from tests.core.poller.channel_model import ChannelModel
from tests.core.worlds import PLACES, POLLERS, World, drain, fill, number_of, open_world

TOKEN = 0xFEDCBA98_76543210


@pytest.fixture(params=POLLERS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = open_world(request.param)
    yield world
    world.close_all()
    world.poller.close()


def is_select(world: World) -> bool:
    return world.poller.name == "select"


def refused(call: Any, *arguments: object) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011  # what matters is the number
        call(*arguments)
    return number_of(caught.value)


# ---- state: level-triggered ------------------------------------------------------------------------------------------


def test_nothing_watched_is_nothing_ready(world: World) -> None:
    assert world.poller.wait(8, 0) == []


def test_only_what_was_asked_for_is_reported_with_its_token(world: World) -> None:
    other = world.open(0)
    fd = world.number(0)
    world.poller.add(fd, READABLE, False, TOKEN)
    assert world.poller.wait(8, 0) == []
    world.write(other, b"1")
    assert world.poller.wait(8, 0) == [(TOKEN, READABLE)]
    world.poller.modify(fd, READABLE | WRITABLE, False, 7)
    assert world.poller.wait(8, 0) == [(7, READABLE | WRITABLE)]
    world.poller.modify(fd, WRITABLE, False, 0)
    assert world.poller.wait(8, 0) == [(0, WRITABLE)]
    world.poller.modify(fd, 0, False, TOKEN)
    assert world.poller.wait(8, 0) == []


def test_a_state_is_reported_as_long_as_it_lasts(world: World) -> None:
    other = world.open(0)
    fd = world.number(0)
    world.poller.add(fd, READABLE, False, TOKEN)
    world.write(other, b"123")
    for left in (b"1", b"2", b"3"):
        assert world.poller.wait(8, 0) == [(TOKEN, READABLE)]
        assert world.read(fd, 1) == left
    assert world.poller.wait(8, 0) == []


def test_a_full_socket_is_not_writable_until_it_is_drained(world: World) -> None:
    other = world.open(0)
    fd = world.number(0)
    world.poller.add(fd, WRITABLE, False, TOKEN)
    assert world.poller.wait(8, 0) == [(TOKEN, WRITABLE)]
    fill(world, fd)
    assert world.poller.wait(8, 0) == []
    drain(world, other)
    assert world.poller.wait(8, 0) == [(TOKEN, WRITABLE)]


def test_a_hang_up_is_reported_unasked(world: World) -> None:
    reader, writer = world.pipe()
    world.poller.add(reader, READABLE, False, TOKEN)
    world.write(writer, b"1")
    world.close(writer)
    assert world.poller.wait(8, 0) == [(TOKEN, READABLE | HANGUP)]
    assert world.poller.unread(reader) == 1
    world.read(reader, 1)
    assert world.poller.unread(reader) == 0
    [(token, events)] = world.poller.wait(8, 0)
    assert token == TOKEN
    assert events & HANGUP


def test_a_broken_connection_is_an_error_unasked(world: World) -> None:
    other = world.open(0)
    fd = world.number(0)
    world.poller.add(fd, READABLE, False, TOKEN)
    world.write(fd, b"never read")
    world.close(other)
    [(token, events)] = world.poller.wait(8, 0)
    assert token == TOKEN
    assert events & (ERROR | HANGUP) == ERROR | HANGUP


# ---- change: edge-triggered ------------------------------------------------------------------------------------------


def test_a_change_is_reported_once(world: World) -> None:
    if not world.poller.supports_edge:
        other = world.open(0)
        assert refused(world.poller.add, world.number(0), READABLE, True, TOKEN) in {"ENOTSUP", "EOPNOTSUPP"}
        return
    other = world.open(0)
    fd = world.number(0)
    world.poller.add(fd, READABLE | WRITABLE, True, TOKEN)
    assert world.poller.wait(8, 0) == [(TOKEN, WRITABLE)]
    assert world.poller.wait(8, 0) == []
    for _ in range(2):
        # Also while there is something unread from before.
        world.write(other, b"1")
        assert world.poller.wait(8, 0) == [(TOKEN, READABLE | WRITABLE)]
        assert world.poller.wait(8, 0) == []
    world.poller.modify(fd, READABLE, True, 7)
    assert world.poller.wait(8, 0) == [(7, READABLE)]


# ---- fairness and bounds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_when_not_all_fit_everybody_has_his_turn(world: World, capacity: int) -> None:
    for place in range(PLACES):
        world.write(world.open(place), b"1")
        world.poller.add(world.number(place), READABLE, False, place)
    rounds = -(-PLACES // capacity)
    for _ in range(4):
        seen: list[int] = []
        for _ in range(rounds):
            ready = [token for token, _ in world.poller.wait(capacity, 0)]
            assert len(ready) == len(set(ready)) == capacity
            seen += ready
        assert set(seen) == set(range(PLACES))


@pytest.mark.parametrize("capacity", [0, -1, 1_025])
def test_a_batch_has_bounds(world: World, capacity: int) -> None:
    with pytest.raises(UsageError, match="1 to 1024"):
        world.poller.wait(capacity, 0)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def test_refusals_have_the_numbers_of_the_kernel(world: World) -> None:
    world.open(0)
    world.open(1)
    fd, unknown = world.number(0), world.number(1)
    world.poller.add(fd, READABLE, False, TOKEN)
    assert refused(world.poller.add, fd, READABLE, False, TOKEN) == "EEXIST"
    assert refused(world.poller.modify, unknown, READABLE, False, TOKEN) == "ENOENT"
    assert refused(world.poller.remove, unknown) == "ENOENT"
    world.close(unknown)
    assert refused(world.poller.add, unknown, READABLE, False, TOKEN) == "EBADF"
    assert refused(world.poller.add, -1, READABLE, False, TOKEN) == "EBADF"


def test_who_was_removed_is_not_reported(world: World) -> None:
    for place in range(3):
        world.write(world.open(place), b"1")
        world.poller.add(world.number(place), READABLE, False, place)
    world.poller.remove(world.number(1))
    assert {token for token, _ in world.poller.wait(8, 0)} == {0, 2}
    world.poller.add(world.number(1), READABLE, False, 11)
    assert {token for token, _ in world.poller.wait(8, 0)} == {0, 2, 11}


def test_who_was_closed_is_forgotten_and_the_others_are_not(world: World) -> None:
    for place in range(3):
        world.write(world.open(place), b"1")
        world.poller.add(world.number(place), READABLE, False, place)
    world.close(world.number(1))
    assert {token for token, _ in world.poller.wait(8, 0)} == {0, 2}


def test_a_number_that_is_used_again_begins_anew(world: World) -> None:
    world.write(world.open(0), b"1")
    fd = world.number(0)
    world.poller.add(fd, READABLE, False, 1)
    world.close(fd)
    world.poller.wait(8, 0)
    other = world.open(0)
    world.poller.add(fd, READABLE, False, 2)
    assert world.poller.wait(8, 0) == []
    world.write(other, b"1")
    assert world.poller.wait(8, 0) == [(2, READABLE)]


def test_a_closed_number_with_a_duplicate_is_still_reported_except_by_select(world: World) -> None:
    """The trap of epoll: it watches files. The loop finds such events by their token, and starts the poller afresh."""
    world.write(world.open(0), b"1")
    fd = world.number(0)
    world.poller.add(fd, READABLE, False, TOKEN)
    other = world.dup(fd)
    world.close(fd)
    expected = [] if is_select(world) else [(TOKEN, READABLE)]
    assert world.poller.wait(8, 0) == expected
    assert refused(world.poller.remove, fd) in {"EBADF", "ENOENT"}
    assert world.poller.wait(8, 0) == expected
    world.poller.reset()
    assert world.poller.wait(8, 0) == []
    world.close(other)


def test_after_a_reset_it_works_as_new(world: World) -> None:
    world.write(world.open(0), b"1")
    fd = world.number(0)
    world.poller.add(fd, READABLE, False, 1)
    world.poller.reset()
    assert world.poller.wait(8, 0) == []
    world.poller.add(fd, READABLE, False, 2)
    assert world.poller.wait(8, 0) == [(2, READABLE)]


def test_unread_bytes_are_counted_and_unknown_ones_are_none(world: World) -> None:
    other = world.open(0)
    fd = world.number(0)
    assert world.poller.unread(fd) == 0
    world.write(other, b"12345")
    assert world.poller.unread(fd) == 5
    world.close(fd)
    assert world.poller.unread(fd) == 0


# ---- waiting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ns", [1, 1_000, 1_500_000])
def test_a_wait_is_never_short(world: World, timeout_ns: int) -> None:
    """The simulated one moves its clock by exactly so much."""
    from penstock.core.clock import Clock

    clock = world.clock if world.poller.simulated else Clock()
    before_ns = clock.now_ns()
    assert world.poller.wait(8, timeout_ns) == []
    assert clock.now_ns() >= before_ns + timeout_ns
    if world.poller.simulated:
        assert clock.now_ns() == before_ns + timeout_ns


def test_a_wait_without_end_ends_when_something_is_ready(world: World) -> None:
    world.write(world.open(0), b"1")
    world.poller.add(world.number(0), READABLE, False, TOKEN)
    assert world.poller.wait(8, -1) == [(TOKEN, READABLE)]


# ---- which one -------------------------------------------------------------------------------------------------------


def test_pollers_are_chosen_by_name() -> None:
    assert available() == ("epoll", "select")
    assert open_poller("auto").name == "epoll"
    assert open_poller("select").name == "select"
    with pytest.raises(Unsupported, match="'auto', 'epoll', 'select'"):
        open_poller("kqueue")
    with pytest.raises(UsageError, match="has no name, supports_edge, simulated, add, modify, remove, wait, unread"):
        open_poller(3)  # type: ignore[arg-type]


def test_select_ends_at_1023() -> None:
    poller = open_poller("select")
    with pytest.raises(OSError, match="cannot watch descriptor 1024"):
        poller.add(1_024, READABLE, False, 0)


def test_a_coarse_epoll_says_so() -> None:
    from penstock.core.poller.epoll import EpollPoller

    assert EpollPoller(coarse=True).coarse is True


# ---- anything, in any order ------------------------------------------------------------------------------------------


class AgainstTheModel(RuleBasedStateMachine):
    """Five places at which connections are opened, watched, used and closed; after each step all reports are right."""

    kind = ""

    @initialize()
    def start(self) -> None:
        self.world = open_world(self.kind)
        self.channels: dict[int, ChannelModel] = {}
        self.others: dict[int, int] = {}
        self.tokens = 0

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close_all()
            self.world.poller.close()

    @rule(place=st.integers(0, PLACES - 1))
    def open_or_close(self, place: int) -> None:
        fd = self.world.number(place)
        if place not in self.channels:
            self.others[place] = self.world.open(place)
            self.channels[place] = ChannelModel()
            return
        channel = self.channels.pop(place)
        if channel.watch and self.kind == "select":
            # select watches numbers: it cannot tell a new life from the old one if it has not looked in between.
            self.world.poller.remove(fd)
        self.world.close(fd)
        if not channel.hung_up:
            self.world.close(self.others[place])

    @precondition(lambda self: self.channels)
    @rule(data=st.data(), interest=st.integers(0, 3), edge=st.booleans())
    def watch(self, data: st.DataObject, interest: int, edge: bool) -> None:
        place = data.draw(st.sampled_from(sorted(self.channels)))
        channel = self.channels[place]
        edge = edge and self.world.poller.supports_edge
        if self.kind == "select":
            # Who asks select for nothing is told nothing, not even of a hang-up.
            interest = max(interest, READABLE)
        self.tokens += 1
        call = self.world.poller.modify if channel.watch else self.world.poller.add
        call(self.world.number(place), interest, edge, self.tokens)
        channel.set_watch(interest, edge, self.tokens)

    @precondition(lambda self: any(channel.watch for channel in self.channels.values()))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        watched = [place for place in sorted(self.channels) if self.channels[place].watch]
        place = data.draw(st.sampled_from(watched))
        self.world.poller.remove(self.world.number(place))
        self.channels[place].watch = None

    @precondition(lambda self: self.channels)
    @rule(data=st.data(), what=st.sampled_from(["arrive", "read", "fill", "drain", "hang up"]), size=st.integers(1, 3))
    def use(self, data: st.DataObject, what: str, size: int) -> None:
        place = data.draw(st.sampled_from(sorted(self.channels)))
        use(self.world, self.channels[place], place, self.others[place], what, size)

    @rule(capacity=st.sampled_from([1, 2, 1_024]))
    def wait(self, capacity: int) -> None:
        expected = {c.watch.token: c.reported for c in self.channels.values() if c.watch and c.reported}
        ready = self.world.poller.wait(capacity, 0)
        assert len(ready) == min(capacity, len(expected))
        for token, events in ready:
            assert expected.pop(token) == events
        for channel in self.channels.values():
            if channel.watch and (capacity >= PLACES or channel.watch.token in dict(ready)):
                channel.was_reported()

    @invariant()
    def unread_is_known(self) -> None:
        for place, channel in getattr(self, "channels", {}).items():
            assert self.world.poller.unread(self.world.number(place)) == channel.unread


def use(world: World, channel: ChannelModel, place: int, other: int, what: str, size: int) -> None:
    """Let something happen on a connection, in the world and in the model."""
    fd = world.number(place)
    if what == "read":
        if channel.unread:
            assert len(world.read(fd, size)) == channel.read(size)
    elif channel.hung_up:
        return
    elif what == "arrive":
        world.write(other, b"x" * size)
        channel.arrive(size)
    elif what == "fill":
        fill(world, fd)
        channel.fill()
    elif what == "drain":
        drain(world, other)
        channel.drained()
    else:
        drain(world, other)
        world.close(other)
        channel.hang_up()


def machine(kind: str) -> Any:
    test: Any = type(f"On_{kind}", (AgainstTheModel,), {"kind": kind}).TestCase  # type: ignore[attr-defined]
    test.settings = settings(max_examples=60, stateful_step_count=40)
    return test


TestOnEpoll = machine("epoll")
TestOnCoarseEpoll = machine("epoll-coarse")
TestOnSelect = machine("select")
TestOnSimulated = machine("simulated")
