"""The Python door: what declarations become, what is refused, and what is said then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import Overflow, Unsupported, UsageError, WrongThread
from penstock.timed import (
    AssemblyError,
    Bank,
    CausalityCycle,
    Duration,
    Environment,
    Input,
    LogicalAction,
    Mode,
    MultiInput,
    MultiOutput,
    Output,
    Parameter,
    ReactionFailed,
    Reactor,
    SchedulerStopped,
    Startup,
    State,
    Tag,
    Timer,
    UndeclaredUse,
    bank,
    child,
    interleaved,
    ms,
    ns,
    reaction,
    run,
    sec,
    us,
)


class Ramp(Reactor):
    tick = Timer(period=ms(10))
    y = Output(int)

    def __init__(self, step: int = 1) -> None:
        self.value, self.step = 0, step

    @reaction(tick, effects=[y])
    def grow(self) -> None:
        self.value += self.step
        self.y.set(self.value)


class Collect(Reactor):
    x = Input(int)

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    @reaction(x)
    def note(self) -> None:
        self.seen.append((self.elapsed // 1_000_000, self.x.value))


class Pair(Reactor):
    ramp = child(Ramp, step=Parameter("step"))
    collect = child(Collect)

    def __init__(self, step: int = 2) -> None:
        self.connect(self.ramp.y, self.collect.x)


def test_a_program_runs() -> None:
    main = Pair(3)
    run(main, fast=True, timeout=ms(30))
    assert main.collect.seen == [(0, 3), (10, 6), (20, 9), (30, 12)]


def test_durations_keep_their_unit() -> None:
    assert ms(10) + us(5) == ns(10_005_000)
    assert isinstance(ms(1) * 3, Duration)
    assert isinstance(-ms(1), Duration)
    assert str(ms(1_500)) == "1500 ms"
    assert str(sec(2) - ms(1)) == "1999 ms"


@pytest.mark.parametrize("wrong", [lambda: ms(1) + 1, lambda: ms(1) - 5, lambda: ms(2) * ms(3)])
def test_a_misuse_of_units_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError):
        wrong()


def test_a_bare_number_is_no_duration() -> None:
    class Main(Reactor):
        t = Timer(period=10)  # type: ignore[arg-type]

    with pytest.raises(UsageError, match=r"Main\.t\.period is 10; give a duration such as ms\(10\)"):
        Main()


def test_tags_are_ordered_and_delayed() -> None:
    assert Tag(5, 0).after(0) == Tag(5, 1) < Tag(6, 0)
    assert Tag(5, 3).after(2) == Tag(7, 0)
    assert str(Tag(10_000_000, 1)) == "(10 ms, 1)"


def test_inheritance_keeps_the_order_of_the_base_class() -> None:
    class Base(Reactor):
        start = Startup()
        log = State[list[str]](factory=list)

        @reaction(start)
        def first(self) -> None:
            self.log.append("base first")

        @reaction(start)
        def second(self) -> None:
            self.log.append("base second")

    class Derived(Base):
        @reaction(Base.start)
        def third(self) -> None:
            self.log.append("derived third")

        @reaction(Base.start)
        def first(self) -> None:
            self.log.append("derived first")

    main = Derived()
    run(main, fast=True)
    assert main.log == ["derived first", "base second", "derived third"]


def test_banks_multiports_and_interleaving() -> None:
    class Source(Reactor):
        start = Startup()
        outs = MultiOutput(int, width=2)

        def __init__(self, bank_index: int = 0) -> None:
            self.index = bank_index

        @reaction(start, effects=[outs])
        def go(self) -> None:
            for place, port in enumerate(self.outs):
                port.set(10 * self.index + place)

    class Join(Reactor):
        ins = MultiInput(int, width=Parameter("width"))
        got = State[list[int]](factory=list)

        def __init__(self, width: int) -> None:
            pass

        @reaction(ins)
        def take(self) -> None:
            self.got = [port.value for port in self.ins]

    class Main(Reactor):
        sources = bank(Source, 2)
        plain = child(Join, 4)
        across = child(Join, 4)

        def __init__(self) -> None:
            rows = self.sources.each(lambda source: source.outs)
            self.connect(rows, self.plain.ins)
            self.connect(interleaved(rows), self.across.ins)

    main = Main()
    run(main, fast=True)
    assert main.plain.got == [0, 1, 10, 11]
    assert main.across.got == [0, 10, 1, 11]
    assert isinstance(main.sources, Bank)


def test_reactions_to_children_and_back() -> None:
    class Main(Reactor):
        ramp = child(Ramp)
        collects = bank(Collect, 2)

        @reaction(ramp.y, effects=[collects.each(lambda one: one.x)])
        def pass_on(self) -> None:
            for index, one in enumerate(self.collects):
                one.x.set(self.ramp.y.value * (index + 1))

    main = Main()
    run(main, fast=True, timeout=ms(10))
    assert [one.seen for one in main.collects] == [[(0, 1), (10, 2)], [(0, 2), (10, 4)]]


# ---- errors of assembly ----------------------------------------------------------------------------------------------


class Loop(Reactor):
    x = Input(int)
    y = Output(int)

    @reaction(x, effects=[y])
    def go(self) -> None:
        self.y.set(self.x.value)


def test_a_cycle_is_named_in_full() -> None:
    class Main(Reactor):
        def __init__(self) -> None:
            self.a, self.b, self.c = Loop(), Loop(), Loop()
            self.connect([self.a.y, self.b.y, self.c.y], [self.b.x, self.c.x, self.a.x])

    with pytest.raises(CausalityCycle) as caught:
        Environment(Main())
    assert set(caught.value.path) == {"main.a.go", "main.b.go", "main.c.go"}
    assert "main.a.go -> (main.a.y) -> main.b.go" in str(caught.value)


class Through(Reactor):
    """Passes on what comes in, in either of two modes."""

    x = Input(int)
    y = Output(int)
    on = Mode(initial=True)
    off = Mode()

    def __init__(self) -> None:
        for mode in (self.on, self.off):
            self.connect(self.x, self.y, mode=mode)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_circle_of_ports_is_named_in_full(length: int) -> None:
    class Main(Reactor):
        def __init__(self) -> None:
            self.some = [Through() for _ in range(length)]
            for place, one in enumerate(self.some):
                self.connect(one.y, self.some[(place + 1) % length].x)

    with pytest.raises(CausalityCycle) as caught:
        Environment(Main())
    whole = {f"main.some[{place}].{port}" for place in range(length) for port in "xy"}
    assert set(caught.value.path) == whole
    assert all(name in str(caught.value) for name in whole)


def test_a_delay_breaks_a_cycle() -> None:
    class Main(Reactor):
        def __init__(self) -> None:
            self.a = Loop()
            self.connect(self.a.y, self.a.x, after=ms(1))

    run(Main(), fast=True)


def test_widths_must_fit() -> None:
    class Main(Reactor):
        def __init__(self) -> None:
            self.a, self.b, self.c = Ramp(), Collect(), Collect()
            self.connect(self.a.y, [self.b.x, self.c.x])

    with pytest.raises(AssemblyError, match=r"connects 1 port.*to 2.*broadcast=True"):
        Main()


def test_a_port_has_one_writer() -> None:
    class Main(Reactor):
        def __init__(self) -> None:
            self.a, self.b, self.c = Ramp(), Ramp(), Collect()
            self.connect(self.a.y, self.c.x)
            self.connect(self.b.y, self.c.x)

    with pytest.raises(AssemblyError, match=r"main\.c\.x has 2 writers: .*main\.a\.y.*main\.b\.y"):
        Environment(Main())


def test_a_name_is_used_once_in_a_class() -> None:
    with pytest.raises(AssemblyError, match="uses the name `tick` twice"):

        class Main(Reactor):
            tick = Timer(period=ms(1))

            @reaction(tick)  # type: ignore[no-redef]
            def tick(self) -> None: ...


def test_a_name_of_an_element_cannot_be_assigned() -> None:
    class Main(Reactor):
        y = Output(int)

        def __init__(self) -> None:
            self.y = 5  # type: ignore[assignment]

    with pytest.raises(AssemblyError, match="main uses the name `y` twice"):
        Environment(Main())


def test_a_reactor_has_one_place() -> None:
    class Main(Reactor):
        def __init__(self) -> None:
            self.a = Ramp()
            self.b = self.a

    with pytest.raises(AssemblyError, match=r"both main\.a and main\.b"):
        Environment(Main())


def test_an_undeclared_effect_is_found_before_anything_runs() -> None:
    class Main(Reactor):
        tick = Timer(period=ms(1))
        y = Output(int)

        @reaction(tick)
        def go(self) -> None:
            self.y.set(1)

    with pytest.raises(UndeclaredUse, match=r"main\.go writes main\.y; declare it in effects"):
        Environment(Main())


def test_an_undeclared_use_in_a_method_is_found_when_it_runs() -> None:
    class Main(Reactor):
        tick = Timer(period=ms(1))
        a = LogicalAction(int)

        @reaction(tick)
        def go(self) -> None:
            self.helper()

        def helper(self) -> int:
            return self.a.value

    with pytest.raises(ReactionFailed, match=r"main\.go uses main\.a; declare it") as caught:
        run(Main(), fast=True)
    assert isinstance(caught.value.__cause__, UndeclaredUse)


def test_exactly_one_mode_is_initial() -> None:
    class Main(Reactor):
        a = Mode()
        b = Mode()

    with pytest.raises(AssemblyError, match="main has 0 initial modes"):
        Environment(Main())


# ---- errors while running --------------------------------------------------------------------------------------------


def test_debug_checks_types() -> None:
    class Main(Reactor):
        start = Startup()
        y = Output(int)

        @reaction(start, effects=[y])
        def go(self) -> None:
            self.y.set("no")  # type: ignore[arg-type]

    with pytest.raises(ReactionFailed, match=r"main\.y takes int, not str 'no'"):
        run(Main(), fast=True, debug=True)


class Failing(Reactor):
    tick = Timer(period=ms(1))

    def __init__(self) -> None:
        self.ran = 0

    @reaction(tick)
    def go(self) -> None:
        self.ran += 1
        raise ValueError("no")


def test_a_reaction_that_raises_stops_the_program() -> None:
    main = Failing()
    with pytest.raises(ReactionFailed, match=r"main\.go raised ValueError at tag \(0 s, 0\): no") as caught:
        run(main, fast=True)
    assert isinstance(caught.value.__cause__, ValueError)
    assert main.ran == 1


def test_a_handler_may_take_the_error() -> None:
    main, errors = Failing(), list[ReactionFailed]()
    run(main, fast=True, timeout=ms(2), on_error=errors.append)
    assert [error.tag for error in errors] == [(0, 0), (1_000_000, 0), (2_000_000, 0)]


def test_a_full_action_refuses() -> None:
    class Main(Reactor):
        start = Startup()
        a = LogicalAction(int, capacity=2)

        @reaction(start, effects=[a])
        def go(self) -> None:
            for number in range(3):
                self.a.schedule(number, delay=ms(1))

    with pytest.raises(ReactionFailed) as caught:
        run(Main(), fast=True)
    assert isinstance(caught.value.__cause__, Overflow)


def test_a_port_is_written_by_its_program_only() -> None:
    main = Pair()
    with pytest.raises(SchedulerStopped, match="belongs to no environment"):
        main.ramp.y.set(1)
    environment = Environment(main, fast=True, timeout=ms(1))
    environment.run()
    with pytest.raises((UsageError, WrongThread)):
        main.ramp.y.set(1)
    with pytest.raises(AssemblyError, match="ran in an environment before"):
        Environment(main)


def test_a_program_runs_once() -> None:
    environment = run(Pair(), fast=True, timeout=ms(1))
    with pytest.raises(SchedulerStopped):
        environment.run()


def test_more_workers_are_refused_with_the_reason() -> None:
    with pytest.raises(Unsupported, match="one process per core"):
        Environment(Pair(), workers=2)


# ---- types -----------------------------------------------------------------------------------------------------------

GOOD = """
from penstock.timed import Duration, Input, LogicalAction, Mode, MultiOutput, Output, Reactor, State, Timer
from penstock.timed import child, ms, reaction

class A(Reactor):
    tick = Timer(period=ms(10))
    y = Output(int)
    ys = MultiOutput(float, width=2)
    a = LogicalAction(str, min_delay=ms(1))
    on = Mode(initial=True)
    count = State(0)

    @reaction(tick, a, effects=[y, ys, a, on], deadline=ms(2))
    def go(self) -> None:
        self.y.set(self.count)
        self.ys[0].set(1.5)
        self.a.schedule("x", delay=ms(3) + ms(1))
        self.on.enter(history=True)
        self.count += 1

class B(Reactor):
    x = Input[int]()
    a = child(A)

    @reaction(a.y, x)
    def go(self) -> None:
        total: int = self.x.value + self.a.y.value
        late: Duration = self.lag

    def __init__(self) -> None:
        self.connect(self.x, [self.x], after=ms(1))
"""

BAD = {
    "self.y.set('x')": "arg-type",
    "self.ys[0].set('x')": "arg-type",
    "self.a.schedule(5)": "arg-type",
    "self.a.schedule('x', delay=5)": "arg-type",
    "self.count = 'x'": "assignment",
    "word: str = self.y.value": "assignment",
    "Timer(period=10)": "arg-type",
    "self.connect(self.y, self.word)": "misc|arg-type",
}


@pytest.fixture(scope="module")
def mypy_output(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, int]]:
    """One run of mypy over everything: it takes seconds to start."""
    lines = GOOD.rstrip().splitlines()
    lines += ["", "class C(A):", "    word = Output(str)", "    def wrong(self) -> None:"]
    places = {}
    for snippet in BAD:
        lines.append(f"        {snippet}")
        places[snippet] = len(lines)
    folder = tmp_path_factory.mktemp("types")
    (folder / "program.py").write_text("\n".join(lines) + "\n")
    source = Path(__file__).resolve().parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"MYPYPATH": str(source), "PATH": "/usr/bin"},
    )
    return done.stdout + done.stderr, places


def test_good_programs_pass_mypy(mypy_output: tuple[str, dict[str, int]]) -> None:
    output, places = mypy_output
    wrong = [line for line in output.splitlines() if ": error:" in line]
    numbers = {int(line.split(":")[1]) for line in wrong if line.startswith("program.py")}
    assert all(line.startswith("program.py") for line in wrong), output
    assert numbers == set(places.values()), output


@pytest.mark.parametrize("snippet", BAD)
def test_a_wrong_program_fails_mypy(snippet: str, mypy_output: tuple[str, dict[str, int]]) -> None:
    output, places = mypy_output
    lines = [line for line in output.splitlines() if line.startswith(f"program.py:{places[snippet]}: error:")]
    assert any(f"[{code}]" in line for line in lines for code in BAD[snippet].split("|")), output
