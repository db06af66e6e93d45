"""Every rule is watched: an interpreter in which one rule is wrong disagrees with the scheduler on some program.

The comparison is an equation, so a scheduler with the same fault would disagree with the right interpreter on the same
program: a mutation of either side is caught by the same test.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.timed import timed_build as build
from tests.timed import timed_spec as s
from tests.timed.timed_corpus import CORPUS, WORLDS
from tests.timed.timed_interpreter import Event, Interpreter, Running, Tag


class ReversedOrder(Interpreter):
    def must_precede(self, a: Running, b: Running) -> bool:
        if a.instance is b.instance:
            return a.place == b.place + 1
        return super().must_precede(a, b)


class ReversedLevels(Interpreter):
    def order_key(self, number: int) -> tuple[int, ...]:
        deadline, level, instance, place = super().order_key(number)
        return (deadline, -level, instance, place)


class NoLevels(Interpreter):
    def order_key(self, number: int) -> tuple[int, ...]:
        deadline, _, instance, place = super().order_key(number)
        return (deadline, instance, place)


class DeadlinesIgnored(Interpreter):
    def order_key(self, number: int) -> tuple[int, ...]:
        return super().order_key(number)[1:]


class DeadlinesNotInherited(Interpreter):
    def inherit_deadline(self, a: int, b: int) -> bool:
        return False


class LevelsBeforeDeadlines(Interpreter):
    def order_key(self, number: int) -> tuple[int, ...]:
        deadline, level, instance, place = super().order_key(number)
        return (level, deadline, instance, place)


class LostMicrostep(Interpreter):
    def delay(self, tag: Tag, by: int) -> Tag:
        return super().delay(tag, max(by, 1))


class KeptMicrostep(Interpreter):
    def delay(self, tag: Tag, by: int) -> Tag:
        later = super().delay(tag, by)
        return (later[0], max(tag[1], later[1]))


class StickyPresence(Interpreter):
    def forget_presence(self) -> None:
        pass


class ValueForgotten(Interpreter):
    def forget_presence(self) -> None:
        super().forget_presence()
        self.value.clear()


class FirstWriteWins(Interpreter):
    def store(self, port: str, value: Any) -> None:
        if port not in self.present:
            super().store(port, value)


class NoMinDelay(Interpreter):
    def total_delay(self, action: s.Action, delay: int) -> int:
        return delay


class NoSpacing(Interpreter):
    def schedule(self, instance: Any, name: str, path: str, value: int, delay: int) -> None:
        self.last.pop(path, None)
        super().schedule(instance, name, path, value, delay)


class ModesIgnored(Interpreter):
    def execute(self, number: int) -> None:
        self.forced.add(number)
        super().execute(number)


class HistoryAlwaysReset(Interpreter):
    def carry_out(self, running: Running, op: s.Op, value: int, written: list[tuple[str, Any]]) -> None:
        super().carry_out(running, s.Op(op.kind, op.ref, op.every, op.delay, False), value, written)


class TimeGoesOnInModes(Interpreter):
    def local_tag(self, tag: Tag, left: Tag) -> Tag:
        return max(tag, (self.now[0], self.now[1] + 1))


class StartupEveryTime(Interpreter):
    def begin(self, mode: Any, first: Tag) -> None:
        self.started.discard(mode)
        super().begin(mode, first)


class ResetOfStateForgotten(Interpreter):
    def reset(self, mode: Any, entering: bool) -> None:
        counts = [instance.count for instance in self.instances]
        super().reset(mode, entering)
        for instance, count in zip(self.instances, counts, strict=True):
            instance.count = count


class OneShotTimers(Interpreter):
    def happen(self, event: Event) -> None:
        super().happen(event)
        timer = None if event.target.startswith("#") else self.timer_at(event.target)
        if timer is not None and timer.period > 0:
            self.events.pop()


class NoShutdown(Interpreter):
    def shut_down(self) -> None:
        pass


class StopTagCutOff(Interpreter):
    def __init__(self, main: s.Reactor, timeout: int | None, world: s.World | None = None) -> None:
        super().__init__(main, timeout, world)
        if timeout is not None:
            self.shorter: Tag = (timeout - 1, 10**6)

    def run(self) -> None:
        real, self.stop = self.stop, min(self.stop, self.shorter)
        super().run()
        self.stop = real


class PhysicalAsLogical(Interpreter):
    def physical_tag(self, after: int) -> Tag:
        return self.delay(self.now, after)


class PhysicalBeforeThePresent(Interpreter):
    """The clock alone decides, also where it is behind the program."""

    def physical_tag(self, after: int) -> Tag:
        return max((self.physical + after, 0), (0, 0))


class PhysicalWithoutDelay(Interpreter):
    def physical_tag(self, after: int) -> Tag:
        return super().physical_tag(0)


class NoWaiting(Interpreter):
    def wait(self) -> None:
        pass


class NotInterleaved(Interpreter):
    def interleave(self, rows: list[list[str]]) -> list[str]:
        return [path for row in rows for path in row]


class LateUnmarked(Interpreter):
    def note_late(self, port: str, intended: Tag) -> None:
        pass


class LateHandlerForgotten(Interpreter):
    def handles_late(self, running: Running, late: list[Tag]) -> bool:
        super().handles_late(running, late)
        return False


class LateIsNotShownByConnections(Interpreter):
    def write(self, port: str, value: Any, intended: Tag | None = None) -> None:
        super().write(port, value, intended if port.count(".") == 1 else None)


class LatenessStays(Interpreter):
    def forget_presence(self) -> None:
        late = dict(self.late)
        super().forget_presence()
        self.late = late


class LateWithoutIntendedTag(Interpreter):
    def note_late(self, port: str, intended: Tag) -> None:
        super().note_late(port, self.now)


class LateInputsLost(Interpreter):
    def arrive(self) -> None:
        self.world.arrivals, kept = [one for one in self.world.arrivals if one.tag > self.now], self.world.arrivals
        super().arrive()
        self.world.arrivals = kept


MUTANTS = [value for value in list(globals().values()) if isinstance(value, type) and issubclass(value, Interpreter)]
MUTANTS.remove(Interpreter)


def traces(interpreter: type[Interpreter], name: str) -> list[Any]:
    run = interpreter(CORPUS[name], 12, WORLDS.get(name))
    run.run()
    return run.trace


@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus_agrees(name: str) -> None:
    assert build.run(CORPUS[name], 12, WORLDS.get(name)) == traces(Interpreter, name)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_wrong_rule_is_caught(mutant: type[Interpreter]) -> None:
    differing = [name for name in CORPUS if _differs(mutant, name)]
    assert differing, f"no program of the corpus notices {mutant.__name__}"


def _differs(mutant: type[Interpreter], name: str) -> bool:
    return build.run(CORPUS[name], 12, WORLDS.get(name)) != traces(mutant, name)
