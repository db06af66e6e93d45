"""Records and replays: the same again, exactly; and nothing that would come back as something else."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import ManualClock, limits
from penstock.errors import Overflow, UsageError
from penstock.testing.timed import Arrival, arrivals, play
from penstock.timed import (
    Environment,
    LogicalAction,
    Output,
    PhysicalAction,
    Reactor,
    ReplayMismatch,
    Startup,
    State,
    ms,
    reaction,
)


class Recorded(Reactor):
    start = Startup()
    sensor = PhysicalAction(int)
    done = LogicalAction(int)
    log = State[list[str]](factory=list)

    def __init__(self, slow: ManualClock | None = None) -> None:
        self._clock = slow

    @reaction(sensor, effects=[done])
    def take(self) -> None:
        if self._clock is not None and self.sensor.value % 2:
            self._clock.advance(ms(3))
        self.done.schedule(self.sensor.value, delay=ms(self.random.randrange(3)))

    def missed(self) -> None:
        self.log.append("missed")

    @reaction(sensor, deadline=ms(2), on_deadline=missed)
    def act(self) -> None:
        self.log.append("in time")

    @reaction(done)
    def finish(self) -> None:
        self.log.append(f"{self.done.value} {self.tag}")


@settings(max_examples=25, deadline=None)
@given(arrivals({"main.sensor": st.integers(0, 9)}, within=ms(30)), st.integers(0, 3))
def test_a_replay_gives_the_identical_trace(tmp_path_factory: Any, schedule: list[Arrival], seed: int) -> None:
    record = tmp_path_factory.mktemp("record") / "run.jsonl"
    clock = ManualClock()
    main = Recorded(clock)
    trace = play(Environment(main, clock=clock, timeout=ms(40), seed=seed, record=record), schedule)
    again = Recorded()
    environment = Environment(again, replay=record)
    replayed = environment.trace()
    environment.run()
    assert replayed.text(values=True) == trace.text(values=True)
    assert again.log == main.log


def test_a_record_holds_plain_data_only(tmp_path: Path) -> None:
    class Main(Reactor):
        sensor = PhysicalAction(object)

    environment = Environment(Main(), clock=ManualClock(), timeout=ms(5), record=tmp_path / "r")
    with pytest.raises(UsageError, match=r"main\.sensor carries \(1, 2\), which JSON cannot give back"):
        play(environment, [Arrival(ms(1), "main.sensor", (1, 2))])


class Colour(enum.IntEnum):
    RED = 1


NESTED: list[Any] = []
for _ in range(100_000):
    NESTED = [NESTED]


@pytest.mark.parametrize("value", [float("nan"), [float("inf"), -0.0, 1, 1.0, True], {"a": None}, "\ud800", ""])
def test_a_record_gives_back_exactly_what_it_was_given(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "r"
    first = play(
        Environment(Anything(), clock=ManualClock(), timeout=ms(5), record=path), [Arrival(ms(1), "main.x", value)]
    )
    environment = Environment(Anything(), replay=path)
    again = environment.trace()
    environment.run()
    assert again.text(values=True) == first.text(values=True)
    assert repr(value) in first.text(values=True)


@pytest.mark.parametrize("value", [Colour.RED, (1, 2), {1: 2}, b"x", "\ud83d\ude00", NESTED])
def test_a_record_refuses_what_would_come_back_as_something_else(tmp_path: Path, value: Any) -> None:
    environment = Environment(Anything(), clock=ManualClock(), timeout=ms(5), record=tmp_path / "r")
    with pytest.raises(UsageError, match="which JSON cannot give back"):
        play(environment, [Arrival(ms(1), "main.x", value)])


class Anything(Reactor):
    x = PhysicalAction(object)
    y = Output(object)

    @reaction(x, effects=[y])
    def go(self) -> None:
        self.y.set(self.x.value)


def test_a_record_stays_within_what_a_replay_takes(tmp_path: Path) -> None:
    environment = Environment(Anything(), clock=ManualClock(), timeout=ms(5), record=tmp_path / "r")
    with pytest.raises(Overflow, match="record a shorter run") as caught:
        play(environment, [Arrival(ms(1), "main.x", "x" * limits.RECORD_LINE_BYTES_MAX)])
    assert caught.value.limit == "RECORD_LINE_BYTES_MAX"


@pytest.mark.parametrize(
    "text",
    ["", "no json", "[]", '{"format":"x"}', '{"format":"penstock timed record","version":1,"seed":0}\n{"tag":[-1,0]}'],
)
def test_a_broken_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r"
    path.write_text(text)
    with pytest.raises(ReplayMismatch):
        Environment(Recorded(), replay=path).run()


def test_a_record_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r"
    environment = Environment(Recorded(), clock=ManualClock(), timeout=ms(5), record=path)
    play(environment, [Arrival(ms(1), "main.sensor", 1)])
    with pytest.raises(ReplayMismatch, match=r"'main\.sensor', which this program does not have"):
        Environment(Anything(), replay=path)
