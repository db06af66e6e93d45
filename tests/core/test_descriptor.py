"""Queues of operations against a slow, obvious model: random starts, cancels, closes, moves and reuse on every poller.

After each step everything is let happen that can happen, so that the model knows exactly what each read must have got:
the bytes that came, in order, to the reads that wait, in order.
"""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.net.worlds import WORLDS, RealWorld, SimulatedWorld

KEYS = (None, "a", 10**20, ("t", 1))

ACTION = st.one_of(
    st.tuples(st.just("read"), st.integers(0, 1), st.integers(1, 6), st.sampled_from(KEYS)),
    st.tuples(st.just("wait"), st.integers(0, 1), st.sampled_from(KEYS)),
    st.tuples(st.just("write"), st.integers(0, 1), st.sampled_from((1, 9_000, 60_000)), st.sampled_from(KEYS)),
    st.tuples(st.just("send"), st.integers(0, 1), st.integers(1, 9)),
    st.tuples(st.just("drain"), st.integers(0, 1)),
    st.tuples(st.just("cancel"), st.integers(0, 1), st.sampled_from((None, "read", "write")), st.sampled_from(KEYS)),
    st.tuples(st.just("move"), st.integers(0, 1)),
    st.tuples(st.just("close"), st.integers(0, 1)),
    st.tuples(st.just("turn"), st.integers(0, 3)),
)


class Model:
    """One descriptor as it should be."""

    def __init__(self, world: RealWorld | SimulatedWorld, told: dict[int, tuple[int | None, Any]]) -> None:
        self.world = world
        self.told = told
        self.one, self.peer = world.pair()
        self.unread = b""
        self.reads: list[tuple[int, int, Any]] = []
        self.writes: list[tuple[int, int, Any]] = []
        self.expected: dict[int, tuple[int | None, Any]] = {}
        self.received = 0
        self.written = 0

    def arrive(self) -> None:
        """Give what has come to who waits."""
        while self.reads and self.unread:
            serial, size, _key = self.reads.pop(0)
            data, rest = self.unread[:size], self.unread[size:]
            if size:
                self.expected[serial] = (None, data)
                self.unread = rest
            else:
                self.expected[serial] = (None, None)

    def cancel(self, kind: str | None, key: Any) -> int:
        count = 0
        for name, queue in (("read", self.reads), ("write", self.writes)):
            if kind in (None, name):
                gone = [item for item in queue if key is None or item[2] == key]
                queue[:] = [item for item in queue if item not in gone]
                for serial, _size, _key in gone:
                    self.expected[serial] = (errno.ECANCELED, ...)
                count += len(gone)
        return count

    def settle(self) -> None:
        """Of writes the model only knows the order: take over which have ended."""
        while self.writes and self.writes[0][0] in self.told:
            serial, size, _key = self.writes.pop(0)
            self.expected[serial] = (None, size)

    def check(self) -> None:
        self.settle()
        for serial, (number, result) in self.expected.items():
            assert serial in self.told, "it has ended, and nobody was told"
            assert self.told[serial][0] == number
            if result is ...:
                self.written += self.told[serial][1] or 0
            else:
                assert self.told[serial][1] == result
                self.written += result if isinstance(result, int) else 0
        self.expected.clear()
        assert self.one.waiting == (len(self.reads), len(self.writes), 0)


class Run:
    """A world, two descriptors and their models."""

    def __init__(self, world: RealWorld | SimulatedWorld) -> None:
        self.world = world
        self.told: dict[int, tuple[int | None, Any]] = {}
        self.serial = 0
        # Counted here, because the loop contains what a callback raises.
        self.twice = 0
        self.models = [Model(world, self.told), Model(world, self.told)]
        self.sent = 0

    def callback(self) -> Any:
        self.serial += 1
        serial = self.serial

        def ended(error: OSError | None, result: Any) -> None:
            self.twice += serial in self.told
            self.told[serial] = (error.errno if error else None, result)

        return ended

    def step(self, action: tuple[Any, ...]) -> None:
        name, index, *rest = action
        if name == "turn":
            self.world.turns(index)
            return
        getattr(self, name)(self.models[index], *rest)

    def read(self, model: Model, size: int, key: Any) -> None:
        model.one.read(size, self.callback(), key)
        model.reads.append((self.serial, size, key))
        model.arrive()

    def wait(self, model: Model, key: Any) -> None:
        model.one.wait("read", self.callback(), key)
        model.reads.append((self.serial, 0, key))
        self.quiet()

    def write(self, model: Model, size: int, key: Any) -> None:
        model.one.write(b"w" * size, self.callback(), key)
        model.writes.append((self.serial, size, key))

    def send(self, model: Model, size: int) -> None:
        self.sent += 1
        data = bytes([self.sent % 256]) * size
        self.world.send(model.peer, data)
        model.unread += data
        self.quiet()

    def drain(self, model: Model) -> None:
        while data := self.world.receive(model.peer):
            model.received += len(data)
            self.world.turns(2)
        self.quiet()

    def cancel(self, model: Model, kind: Any, key: Any) -> None:
        self.quiet()
        assert model.one.cancel(kind, key) == model.cancel(kind, key)

    def move(self, model: Model) -> None:
        model.one = model.one.move()

    def close(self, model: Model) -> None:
        """And begin a new life, usually under the same number and in the same record."""
        self.quiet()
        model.cancel(None, None)
        model.one.close()
        self.world.turns(1)
        expected, model.expected = model.expected, {}
        for serial in expected:
            assert self.told[serial][0] == errno.ECANCELED
        self.world.hang_up(model.peer)
        self.models[self.models.index(model)] = Model(self.world, self.told)

    def quiet(self) -> None:
        self.world.turns(4)
        for model in self.models:
            model.arrive()
            model.check()

    def end(self) -> None:
        for model in self.models:
            self.drain(model)
            self.drain(model)
            assert not model.writes
            assert model.received == model.written
            self.close(model)
        assert (len(self.told), self.twice) == (self.serial, 0)
        for model in self.models:
            model.one.close()
        counters = self.world.counters()
        assert (counters["operations"], counters["live"], counters["waiting"]) == (0, 0, 0)
        assert counters["completed"] == self.serial


@pytest.mark.parametrize("name", sorted(WORLDS))
@settings(max_examples=40, deadline=None)
@given(actions=st.lists(ACTION, max_size=40))
def test_operations_end_as_the_model_says(name: str, actions: list[tuple[Any, ...]]) -> None:
    world = WORLDS[name]()
    try:
        run = Run(world)
        for action in actions:
            run.step(action)
        run.quiet()
        run.end()
    finally:
        world.close()


CALLS = st.sampled_from((errno.EINTR, errno.EAGAIN, errno.ECONNRESET, errno.EPIPE, errno.ENOBUFS))


@pytest.mark.parametrize("name", [name for name in sorted(WORLDS) if name.startswith("simulated")])
@settings(max_examples=40, deadline=None)
@given(
    actions=st.lists(ACTION, max_size=30),
    faults=st.lists(st.tuples(st.sampled_from(("read", "write", "add", "modify")), CALLS), max_size=4),
    shorts=st.lists(st.tuples(st.sampled_from(("read", "write")), st.integers(1, 3)), max_size=3),
)
def test_every_operation_ends_once_whatever_fails(
    name: str, actions: list[tuple[Any, ...]], faults: list[tuple[str, int]], shorts: list[tuple[str, int]]
) -> None:
    """With failing and short system calls no model knows the outcome; but each is told exactly once."""
    world = WORLDS[name]()
    assert isinstance(world, SimulatedWorld)
    run = Run(world)
    for call, number in faults:
        world.kernel.fail_next(call, None, number)
    for call, size in shorts:
        world.kernel.short_next(call, None, size)
    for action in actions:
        try:
            run.step((action[0] if action[0] not in ("close", "cancel") else "turn", *action[1:]))
        except (AssertionError, OSError):
            # The model is not told of faults, and the outside world may be hit by them.
            world.turns(2)
    for model in run.models:
        model.one.cancel()
        model.one.close()
    world.turns(4)
    assert (len(run.told), run.twice) == (run.serial, 0)
    counters = world.counters()
    assert (counters["operations"], counters["live"], counters["waiting"]) == (0, 0, 0)
    world.close()
