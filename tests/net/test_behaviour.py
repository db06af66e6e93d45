"""One behaviour on every poller: what operations promise, whoever watches readiness."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from penstock import Reactor
from penstock.core.poller.events import READABLE, WRITABLE
from penstock.errors import Overflow
from penstock.limits import Policy
from tests.net.worlds import WORLDS, RealWorld, SimulatedWorld

AnyWorld = RealWorld | SimulatedWorld


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest) -> Iterator[AnyWorld]:
    made = WORLDS[request.param]()
    yield made
    made.close()


def fill(world: AnyWorld, one, peer: int) -> int:
    """Write until a write waits; return how many bytes that one has left for later, at least."""
    data = b"f" * 400_000
    one.write(data, world.note("fill"))
    world.turns()
    assert one.waiting == (0, 1, 0)
    return len(data)


# ---- starting


def test_what_succeeds_at_once_is_told_later(world: AnyWorld) -> None:
    one, peer = world.pair()
    world.send(peer, b"hello")
    one.read(100, world.note("read"))
    assert world.told == []
    assert one.waiting == (0, 0, 0)
    world.reactor.run_once(0)
    assert world.told == [("read", None, b"hello")]
    one.close()


def test_what_would_block_waits_and_is_told_once(world: AnyWorld) -> None:
    one, peer = world.pair()
    one.read(100, world.note("read"))
    world.turns()
    assert (world.told, one.waiting) == ([], (1, 0, 0))
    world.send(peer, b"late")
    world.turns()
    assert world.told == [("read", None, b"late")]
    one.close()


def test_one_kind_keeps_its_order(world: AnyWorld) -> None:
    one, peer = world.pair()
    for index in range(5):
        one.read(2, world.note(f"read {index}"))
    world.send(peer, b"aabbccddee")
    world.turns()
    assert world.told == [(f"read {i}", None, bytes([97 + i]) * 2) for i in range(5)]
    one.close()


def test_a_queue_that_is_not_empty_is_not_jumped(world: AnyWorld) -> None:
    """Data that came meanwhile belongs to who waits first."""
    one, peer = world.pair()
    one.read(3, world.note("first"))
    world.send(peer, b"abcdef")
    one.read(3, world.note("second"))
    assert world.counters()["speculated"] == 1
    world.turns()
    assert world.told == [("first", None, b"abc"), ("second", None, b"def")]
    one.close()


def test_a_long_write_is_whole_before_the_next(world: AnyWorld) -> None:
    one, peer = world.pair()
    size = fill(world, one, peer)
    one.write(b"tail", world.note("tail"))
    got = bytearray()
    for _ in range(10_000):
        got += world.receive(peer)
        world.turns(1)
        if len(got) == size + 4:
            break
    world.turns()
    assert bytes(got) == b"f" * size + b"tail"
    assert world.told == [("fill", None, size), ("tail", None, 4)]
    one.close()


def test_reads_go_on_while_a_write_waits(world: AnyWorld) -> None:
    one, peer = world.pair()
    fill(world, one, peer)
    one.read(10, world.note("read"))
    world.send(peer, b"in")
    world.turns()
    assert world.told == [("read", None, b"in")]
    one.close()


def test_would_block_is_not_tried_again_before_the_next_readiness(world: AnyWorld) -> None:
    one, peer = world.pair()
    one.read(10, world.note("cancelled"))
    one.cancel()
    before = world.counters()["speculated"]
    one.read(10, world.note("read"))
    assert world.counters()["speculated"] == before
    world.send(peer, b"x")
    world.turns()
    one.read(10, world.note("again"))
    assert world.names() == ["cancelled", "read"]
    world.send(peer, b"y")
    world.turns()
    assert world.told[1:] == [("read", None, b"x"), ("again", None, b"y")]
    one.close()


# ---- waits


def test_a_wait_is_told_of_what_is_true_already(world: AnyWorld) -> None:
    """It is never tried at once: the poller looks anew, though the edge is long past."""
    one, peer = world.pair()
    world.send(peer, b"here")
    world.turns()
    for _ in range(3):
        one.wait("read", world.note("wait"))
        assert one.waiting == (1, 0, 0)
        world.turns()
    assert world.told == [("wait", None, None)] * 3
    one.wait("write", world.note("write"))
    world.turns()
    assert world.told[3:] == [("write", None, None)]
    one.close()


def test_a_wait_behind_a_read_is_not_told_of_what_that_took(world: AnyWorld) -> None:
    one, peer = world.pair()
    one.read(10, world.note("read"))
    one.wait("read", world.note("wait"))
    world.send(peer, b"x")
    world.turns()
    assert (world.names(), one.waiting) == (["read"], (1, 0, 0))
    world.send(peer, b"y")
    world.turns()
    assert world.names() == ["read", "wait"]
    one.close()


def test_out_of_band_data_ends_the_wait_for_it_first(world: AnyWorld) -> None:
    one, peer = world.tcp_pair()
    one.wait("except", world.note("except"))
    one.read(10, world.note("read"))
    assert one.waiting == (1, 0, 1)
    world.send(peer, b"ab")
    world.turns()
    assert world.told == [("read", None, b"ab")]
    one.read(10, world.note("read"))
    world.send_urgent(peer, b"cd")
    for _ in range(1000):
        world.turns(1)
        if len(world.told) == 3:
            break
    assert world.told[1:] == [("except", None, None), ("read", None, b"c")]
    one.close()


def test_a_read_is_not_tried_while_somebody_waits_for_out_of_band_data(world: AnyWorld) -> None:
    one, peer = world.tcp_pair()
    one.wait("except", world.note("except"))
    world.send(peer, b"x")
    before = world.counters()["speculated"]
    one.read(10, world.note("read"))
    assert (world.counters()["speculated"], one.waiting) == (before, (1, 0, 1))
    for _ in range(1000):
        world.turns(1)
        if world.told:
            break
    assert world.told == [("read", None, b"x")]
    one.close()


# ---- ends and errors


def test_the_end_is_read_as_nothing_as_often_as_one_asks(world: AnyWorld) -> None:
    one, peer = world.pair()
    world.send(peer, b"last")
    one.read(10, world.note("read"))
    world.hang_up(peer)
    for _ in range(3):
        one.read(10, world.note("end"))
        world.turns()
    assert world.told == [("read", None, b"last")] + [("end", None, b"")] * 3
    one.close()


def test_a_hang_up_ends_what_waits(world: AnyWorld) -> None:
    one, peer = world.pair()
    fill(world, one, peer)
    one.read(10, world.note("read"))
    world.hang_up(peer)
    world.turns()
    outcomes = {name: (number, result) for name, number, result in world.told}
    assert outcomes["fill"][0] in (errno.EPIPE, errno.ECONNRESET)
    assert outcomes["fill"][1] > 0
    assert outcomes["read"] in ((None, b""), (errno.ECONNRESET, None))
    assert one.waiting == (0, 0, 0)
    one.close()


def test_a_hang_up_that_nobody_waits_for_does_not_spin(world: AnyWorld) -> None:
    one, peer = world.pair()
    one.read(10, world.note("read"))
    world.hang_up(peer)
    world.turns(20)
    before = world.reactor.stats().ready
    world.turns(20)
    assert world.reactor.stats().ready == before
    one.close()


def test_data_that_nobody_waits_for_does_not_spin(world: AnyWorld) -> None:
    one, peer = world.pair()
    one.read(1, world.note("read"))
    world.turns()
    world.send(peer, b"12345")
    world.turns(20)
    before = world.reactor.stats().ready
    world.turns(20)
    assert world.reactor.stats().ready == before
    one.read(10, world.note("rest"))
    world.turns()
    assert world.told == [("read", None, b"1"), ("rest", None, b"2345")]
    one.close()


def test_write_interest_ends_when_it_is_drained(world: AnyWorld) -> None:
    one, peer = world.pair()
    assert not one.filters & WRITABLE
    one.write(b"small", world.note("small"))
    world.turns()
    assert not one.filters & WRITABLE, "nothing has blocked"
    size = fill(world, one, peer)
    assert one.filters & WRITABLE
    got = len(world.receive(peer))
    while got < size + 5:
        got += len(world.receive(peer))
        world.turns(1)
    world.turns(20)
    if not (world.edge and "epoll" in type(world.reactor).__name__):
        before = world.reactor.stats().ready
        world.turns(20)
        assert world.reactor.stats().ready == before
    if not world.edge:
        assert not one.filters & WRITABLE
    assert world.names() == ["small", "fill"]
    one.close()


def test_a_closed_reader_of_a_pipe_fails_the_write(world: AnyWorld) -> None:
    one, peer = world.pipe()
    one.write(b"x" * 400_000, world.note("write"))
    world.turns()
    world.hang_up(peer)
    world.turns()
    assert [(name, number) for name, number, _result in world.told] == [("write", errno.EPIPE)]
    one.close()


def test_a_steady_state_tells_the_poller_nothing(world: AnyWorld) -> None:
    one, peer = world.pair()
    got = []

    def echo(error: OSError | None, data: bytes) -> None:
        got.append(data)
        one.write(data, lambda error, count: None)
        one.read(100, echo)

    one.read(100, echo)
    world.turns()
    before = world.counters()["tells"]
    for number in range(20):
        world.send(peer, bytes([number]))
        world.turns(3)
        assert world.receive(peer) == bytes([number])
    assert (len(got), world.counters()["tells"]) == (20, before)
    one.close()


# ---- cancelling and closing


def test_cancel_all_in_order_and_once(world: AnyWorld) -> None:
    one, _peer = world.tcp_pair()
    data = b"w" * 20_000_000
    one.write(data, world.note("write"))
    one.wait("except", world.note("except"))
    one.read(1, world.note("read 1"))
    one.read(1, world.note("read 2"))
    world.turns(50)
    assert one.waiting == (2, 1, 1)
    assert one.cancel() == 4
    assert (world.told, one.cancel()) == ([], 0)
    world.turns()
    assert world.names() == ["read 1", "read 2", "write", "except"]
    assert {number for _name, number, _result in world.told} == {errno.ECANCELED}
    one.close()


def test_cancel_of_one_kind_leaves_the_others(world: AnyWorld) -> None:
    one, peer = world.pair()
    fill(world, one, peer)
    one.read(1, world.note("read"))
    assert one.cancel("read") == 1
    world.turns()
    assert (world.names(), one.waiting) == (["read"], (0, 1, 0))
    one.close()


def test_cancel_by_key_keeps_the_order_of_the_others(world: AnyWorld) -> None:
    one, peer = world.pair()
    for index in range(6):
        one.read(1, world.note(str(index)), key=("odd", 1) if index % 2 else 10**30)
    one.read(1, world.note("none"))
    assert one.cancel(key=("odd", 1)) == 3
    assert one.cancel("write", key=10**30) == 0
    world.send(peer, b"abcd")
    world.turns()
    cancelled = [name for name, number, _result in world.told if number == errno.ECANCELED]
    done = [(name, result) for name, number, result in world.told if number is None]
    assert cancelled == ["1", "3", "5"]
    assert done == [("0", b"a"), ("2", b"b"), ("4", b"c"), ("none", b"d")]
    one.close()


def test_close_cancels_what_waits_and_gives_the_record_back_once(world: AnyWorld) -> None:
    one, _peer = world.pair()
    one.read(1, world.note("read"))
    one.close()
    one.close()
    assert world.counters()["live"] == 0
    two, _peer_two = world.pair()
    assert world.counters()["allocated"] == 1, "the record is used again"
    world.turns()
    assert world.told == [("read", errno.ECANCELED, None)]
    assert (two.waiting, world.counters()["operations"]) == ((0, 0, 0), 0)
    two.close()


def test_an_operation_on_a_closed_descriptor_is_told_so(world: AnyWorld) -> None:
    one, _peer = world.pair()
    one.close()
    one.read(1, world.note("read"))
    one.write(b"x", world.note("write"))
    one.wait("read", world.note("wait"))
    assert (world.told, one.cancel()) == ([], 0)
    world.turns()
    assert [(name, number) for name, number, _result in world.told] == [
        ("read", errno.EBADF),
        ("write", errno.EBADF),
        ("wait", errno.EBADF),
    ]


def test_an_event_of_an_earlier_life_reaches_nobody(world: AnyWorld) -> None:
    """Both are in one batch; the first closes the second, and its number is used again."""
    one, peer_one = world.pair()
    two, peer_two = world.pair()
    other = []

    def replace(error: OSError | None, data: bytes) -> None:
        two.close()
        fresh, _peer = world.pair()
        fresh.read(10, world.note("fresh"))
        other.append(fresh)

    one.read(10, replace)
    two.read(10, world.note("two"))
    world.reactor.defer(lambda: [world.send(peer_one, b"1"), world.send(peer_two, b"2")])
    world.turns()
    assert "fresh" not in world.names()
    assert world.names() in (["two"],)
    one.close()
    other[0].close()


def test_a_registration_under_the_same_number_cancels_what_waits(world: AnyWorld) -> None:
    one, _peer = world.pair()
    one.read(1, world.note("read"))
    if not world.simulated:
        world.reactor.register(one.fileno(), READABLE, lambda fd, events: None)
        world.reactor.deregister(one.fileno())
    else:
        world.reactor.deregister(one.fileno())
    world.turns()
    assert world.told == [("read", errno.ECANCELED, None)]
    one.read(1, world.note("after"))
    world.turns()
    assert world.told[1:] == [("after", errno.EBADF, None)]
    one.close()


def test_a_move_takes_along_what_waits(world: AnyWorld) -> None:
    one, peer = world.pair()
    one.read(10, world.note("read"))
    two = one.move()
    assert (one.closed, two.waiting) == (True, (1, 0, 0))
    world.send(peer, b"x")
    world.turns()
    assert world.told == [("read", None, b"x")]
    one.close()
    two.write(b"y", world.note("write"))
    world.turns()
    assert world.receive(peer) == b"y"
    two.close()


def test_closing_the_reactor_ends_everything_once(world: AnyWorld) -> None:
    one, _peer = world.pair()
    two, peer_two = world.pair()
    world.send(peer_two, b"done")
    one.read(1, world.note("waits"))
    two.read(10, world.note("is to be told"))
    world.reactor.close()
    assert world.told == []
    one.close()
    two.close()


# ---- fairness and work


def test_a_descriptor_has_one_share_per_turn(world: AnyWorld) -> None:
    one, peer = world.pair()
    two, peer_two = world.pair()
    share = world.reactor.policy.operations_share
    for _ in range(share + 5):
        one.read(1, world.note("one"))
    two.read(1, world.note("two"))
    world.send(peer, b"x" * (share + 5))
    world.send(peer_two, b"y")
    world.reactor.run_once(0)
    assert world.names().count("one") == share
    assert "two" in world.names()
    assert world.counters()["shares_used"] == 1
    world.reactor.run_once(0)
    assert world.names().count("one") == share + 5
    one.close()
    two.close()


def test_a_run_without_keep_alive_ends_when_nothing_waits(world: AnyWorld) -> None:
    one, peer = world.pair()
    world.reactor.run(keep_alive=False)
    one.read(10, world.note("read"))
    world.reactor.set_timeout(0.001, world.send, peer, b"x")
    world.reactor.run(keep_alive=False)
    assert world.told == [("read", None, b"x")]
    one.close()


def test_run_one_poll_and_poll_one(world: AnyWorld) -> None:
    one, peer = world.pair()
    reactor = world.reactor
    assert (reactor.run_one(), reactor.poll(), reactor.poll_one()) == (0, 0, 0)
    for index in range(6):
        one.read(1, world.note(str(index)))
    world.send(peer, b"abcd")
    assert (reactor.run_one(), world.names()) == (1, ["0"])
    assert (reactor.poll_one(), world.names()) == (1, ["0", "1"])
    assert (reactor.poll(), world.names()) == (2, ["0", "1", "2", "3"])
    assert (reactor.poll(), reactor.poll_one()) == (0, 0)
    world.reactor.set_timeout(0.001, world.send, peer, b"ef")
    assert (reactor.run_one(), reactor.run_one(), reactor.run_one()) == (1, 1, 1)
    assert (reactor.run_one(), world.names()) == (0, [str(index) for index in range(6)])
    one.close()


def test_a_stop_that_came_early_is_forgotten_by_restart(world: AnyWorld) -> None:
    one, peer = world.pair()
    one.read(1, world.note("read"))
    world.send(peer, b"x")
    world.reactor.stop()
    assert world.reactor.run_one() == 0
    world.reactor.stop()
    world.reactor.restart()
    assert world.reactor.run_one() == 1
    one.close()


def test_a_callback_may_do_anything(world: AnyWorld) -> None:
    one, peer = world.pair()

    def first(error: OSError | None, data: bytes) -> None:
        world.told.append(("first", None, data))
        one.read(10, world.note("own"))
        one.close()
        raise RuntimeError("contained")

    one.read(10, first)
    one.read(10, world.note("second"))
    world.send(peer, b"x")
    reports = []
    world.reactor.defer(lambda: None)
    for _ in range(8):
        world.reactor.run_once(0)
        reports.append(world.reactor.stats().errors)
    assert world.told == [("first", None, b"x"), ("second", errno.ECANCELED, None), ("own", errno.ECANCELED, None)]
    assert reports[-1] == 1


def test_too_many_operations_are_refused() -> None:
    made = RealWorld("select", False)
    made.reactor.close()
    made.reactor = Reactor("select", policy=Policy(operations_per_queue_max=3, operations_max=4))
    one, _peer = made.pair()
    for _ in range(3):
        one.read(1, made.note("read"))
    with pytest.raises(Overflow, match="3 operations of this kind"):
        one.read(1, made.note("refused"))
    one.wait("except", made.note("except"))
    with pytest.raises(Overflow, match="4 operations"):
        one.wait("except", made.note("refused"))
    assert made.counters()["refusals"] == 2
    one.close()
    made.turns()
    assert made.names() == ["read", "read", "read", "except"]
    made.close()
