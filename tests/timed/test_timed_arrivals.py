"""What comes from outside: bounded, with every overflow policy, counted, and handled within a turn."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

import penstock
from penstock import ManualClock
from penstock.errors import Overflow
from penstock.timed import (
    Environment,
    Input,
    Mode,
    PhysicalAction,
    ReactionFailed,
    Reactor,
    State,
    Tag,
    Timer,
    ms,
    reaction,
    us,
)
from tests.timed.test_timed_feeding import Sensor, start_thread

GENEROUS_S = 20

# How often a sleeping loop is woken in a test, and how often that is tried.
WAKES = 20
WAKES_TRIED_MAX = 10_000


def test_an_arrival_is_handled_within_a_turn() -> None:
    """What arrives between two turns in the loop's own thread is handled in the first turn that follows."""
    main, loop = Sensor(), penstock.Reactor(clock=ManualClock())
    turns: list[int] = []
    environment = Environment(main, loop=loop)
    environment.scheduler.on_complete = lambda tag: turns.append(loop.stats().turns)
    environment.start()
    loop.run_once(0)
    loop.run_once(0)
    sent: list[int] = []
    for number in (1, 2):
        main.arrival.schedule(number)
        sent.append(loop.stats().turns)
        while len(turns) < number:
            loop.run_once(0)
    loop.close()
    assert all(handled - posted <= 1 for posted, handled in zip(sent, turns, strict=True))


def test_another_thread_wakes_a_sleeping_program_which_reacts_in_that_turn() -> None:
    """The turn that sleeps is woken, takes the event, and runs the reaction before it ends: no turn in between."""
    main, loop = Sensor(), penstock.Reactor()
    environment = Environment(main, loop=loop)
    posts, answers = threading.Semaphore(0), []
    reactions: list[int] = []

    def feed() -> None:
        while posts.acquire(timeout=GENEROUS_S) and not loop.closed:
            answers.append(main.arrival.schedule(0))

    thread = threading.Thread(target=feed)
    try:
        environment.start()
        loop.poll()  # until it has nothing to do
        environment.scheduler.on_complete = lambda tag: reactions.append(loop.stats().turns)
        thread.start()
        asleep = 0
        # A thread that is quicker than the loop finds it awake; the turn is the same, but only a sleeper counts here.
        for number in range(1, WAKES_TRIED_MAX):
            before = loop.stats()
            posts.release()
            loop.run_once(GENEROUS_S)
            after = loop.stats()
            assert (after.turns - before.turns, len(reactions), after.inbox_waiting) == (1, number, 0)
            assert before.turns <= reactions[-1] <= after.turns
            asleep += after.wakes - before.wakes
            if asleep >= WAKES:
                break
        assert asleep >= WAKES
    finally:
        loop.close()
        posts.release()
        thread.join(GENEROUS_S)
    assert all(answers)


def test_a_batch_of_another_thread_is_complete_before_anything_reacts() -> None:
    """However many events one turn takes: the program runs once they are all there, and not once for each of them."""
    main, loop = Sensor(), penstock.Reactor(clock=ManualClock())
    environment = Environment(main, loop=loop)
    tags: list[tuple[Tag, int]] = []
    environment.start()
    loop.poll()
    queue = environment.figures
    environment.scheduler.on_complete = lambda tag: tags.append((tag, queue()["queues"]["main.arrival"]["scheduled"]))
    thread = threading.Thread(target=lambda: [main.arrival.schedule(0) for _ in range(5)])
    thread.start()
    thread.join(GENEROUS_S)
    while len(tags) < 5:
        loop.run_once(0)
    loop.close()
    assert [scheduled for _, scheduled in tags] == [5] * 5


def test_several_programs_share_a_loop_and_may_end_in_any_order() -> None:
    loop = penstock.Reactor(clock=ManualClock())
    mains = [Sensor() for _ in range(4)]
    ended: list[int] = []

    def start(number: int) -> None:
        Environment(mains[number], loop=loop).start(lambda _: ended.append(number))

    start(0)
    start(1)
    loop.defer(mains[0].arrival.schedule, 6)
    for number in (2, 3):
        loop.set_timeout(1, start, number)
    for number in (2, 1, 3):
        loop.set_timeout(2, mains[number].arrival.schedule, 6)
    loop.set_timeout(3, loop.stop)
    loop.run()
    loop.close()
    assert sorted(ended) == [0, 1, 2, 3]
    assert ended[0] == 0


# ---- overflow --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overflow", "left", "counter"),
    [
        ("drop-oldest", [3, 4], "dropped_oldest"),
        ("drop-newest", [1, 2], "dropped_newest"),
        ("coalesce", [1, 4], "coalesced"),
    ],
)
def test_a_physical_action_is_bounded(overflow: Any, left: list[int], counter: str) -> None:
    class Main(Reactor):
        arrival = PhysicalAction(int, capacity=2, overflow=overflow)
        got = State[list[int]](factory=list)

        @reaction(arrival)
        def take(self) -> None:
            self.got.append(self.arrival.value)

    main = Main()
    environment = Environment(main, clock=ManualClock(), timeout=ms(5))

    def flood(_: Tag) -> None:
        for number in (1, 2, 3, 4):
            main.arrival.schedule(number, delay=us(number))

    environment.scheduler.schedule_system(Tag(ms(1), 0), flood)
    environment.run()
    assert main.got == left
    assert environment.figures()["queues"]["main.arrival"][counter] == 2


def test_a_physical_action_may_refuse() -> None:
    class Main(Reactor):
        arrival = PhysicalAction(int, capacity=1, overflow="reject")

    main = Main()
    environment = Environment(main, clock=ManualClock(), timeout=ms(5))
    refused: list[str] = []

    def flood(_: Tag) -> None:
        main.arrival.schedule(1)
        try:
            main.arrival.schedule(2)
        except Overflow as error:
            refused.append(error.limit)

    environment.scheduler.schedule_system(Tag(ms(1), 0), flood)
    environment.run()
    assert refused == ["PHYSICAL_ACTION_CAPACITY"]


class Gated(Reactor):
    """Blocks those who feed it when two events wait."""

    arrival = PhysicalAction(int, capacity=2, overflow="block")
    got = State[list[int]](factory=list)

    @reaction(arrival)
    def take(self) -> None:
        self.got.append(self.arrival.value)
        if len(self.got) == 50:
            self.request_stop()


def test_a_physical_action_may_let_threads_wait_for_room() -> None:
    main = Gated()
    # The fiftieth event ends it; a program that loses one shall not wait for it for ever.
    environment = Environment(main, timeout=ms(GENEROUS_S * 1_000))
    threads: list[threading.Thread] = []
    taken: list[bool] = []

    def feed() -> None:
        taken.extend(main.arrival.schedule(number) for number in range(25))

    for _ in range(2):
        environment.scheduler.schedule_system(Tag(0, 0), lambda _: start_thread(threads, feed))
    environment.run()
    for thread in threads:
        thread.join(GENEROUS_S)
    # None is lost, none is refused, and there were never more than there is room for.
    assert sorted(main.got) == sorted([*range(25), *range(25)])
    assert taken == [True] * 50
    figures = environment.figures()["queues"]["main.arrival"]
    assert (figures["scheduled"], figures["rejected"], figures["dropped_oldest"], figures["dropped_newest"]) == (
        50,
        0,
        0,
        0,
    )
    assert figures["high_water"] <= 2


def test_a_waiting_thread_is_let_in_when_there_is_room() -> None:
    """Step by step: the third event waits, is counted as blocked, and goes in when the first is taken out."""
    main, loop = Gated(), penstock.Reactor(clock=ManualClock())
    environment = Environment(main, loop=loop)
    environment.start()
    loop.run_once(0)
    for number in (1, 2):
        main.arrival.schedule(number, delay=ms(number))
    gate = main.arrival.gate
    assert gate is not None
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(main.arrival.schedule(3)))
    thread.start()
    while gate.blocked == 0:
        thread.join(0.001)
    assert (answers, main.got) == ([], [])
    while len(main.got) < 3:
        loop.run_once(0.01)
    thread.join(GENEROUS_S)
    # Where the third one stands depends on how late its thread is let in.
    assert (answers, main.got[0], sorted(main.got)) == ([True], 1, [1, 2, 3])
    assert environment.figures()["queues"]["main.arrival"]["blocked"] == 1
    loop.close()


def test_the_programs_own_thread_is_refused_instead_of_waiting_for_itself() -> None:
    main = Gated()
    environment = Environment(main, clock=ManualClock(), timeout=ms(5))
    refused: list[str] = []

    def flood(_: Tag) -> None:
        for number in range(4):
            try:
                main.arrival.schedule(number, delay=us(number))
            except Overflow as error:
                refused.append(str(error))

    environment.scheduler.schedule_system(Tag(ms(1), 0), flood)
    environment.run()
    assert main.got == [0, 1]
    assert len(refused) == 2
    assert "main.arrival has 2 events pending" in refused[0]
    assert environment.figures()["queues"]["main.arrival"]["rejected"] == 2


def test_who_waits_too_long_is_refused() -> None:
    main = Gated()
    loop = penstock.Reactor(clock=ManualClock(), policy=penstock.Policy(block_timeout_ns=1))
    environment = Environment(main, loop=loop)
    environment.start()
    for number in (1, 2):
        main.arrival.schedule(number)
    raised: list[Exception] = []

    def feed() -> None:
        try:
            main.arrival.schedule(3)
        except Overflow as error:
            raised.append(error)

    thread = threading.Thread(target=feed)
    thread.start()
    thread.join(GENEROUS_S)
    loop.close()
    assert len(raised) == 1
    figures = environment.figures()["queues"]["main.arrival"]
    assert (figures["blocked"], figures["rejected"]) == (1, 1)


def test_the_end_of_a_program_lets_waiting_threads_go() -> None:
    main = Gated()
    environment = Environment(main)
    threads: list[threading.Thread] = []
    answers: list[bool] = []
    gate = main.arrival.gate
    assert gate is not None

    def feed() -> None:
        answers.append(main.arrival.schedule(3))

    def fill(_: Tag) -> None:
        for number in (1, 2):
            main.arrival.schedule(number, delay=ms(60_000))
        start_thread(threads, feed)
        while gate.blocked == 0:
            threads[0].join(0.001)
        environment.request_stop()

    environment.scheduler.schedule_system(Tag(0, 0), fill)
    environment.run()
    threads[0].join(GENEROUS_S)
    assert not threads[0].is_alive()
    assert answers == [False]
    assert environment.figures()["queues"]["main.arrival"]["dropped_stopped"] == 2


def test_a_reset_of_a_mode_makes_room() -> None:
    class Modal(Reactor):
        on = Mode(initial=True)
        off = Mode()
        tick = Timer(offset=ms(1))
        arrival = PhysicalAction(int, capacity=1, overflow="block", mode=on)

        @reaction(tick, effects=[on])
        def again(self) -> None:
            self.arrival.schedule(1, delay=ms(60_000))
            self.on.enter()

    main = Modal()
    environment = Environment(main, clock=ManualClock(), timeout=ms(3))
    room: list[int] = []
    on_room = environment.scheduler.on_room
    assert on_room is not None

    def note(index: int) -> None:
        room.append(index)
        on_room(index)

    environment.scheduler.on_room = note
    environment.run()
    assert room == [environment.program.triggers[main.arrival]] * 2


def test_a_gated_program_is_collected_when_it_is_done() -> None:
    main = Gated()
    environment = Environment(main, clock=ManualClock(), timeout=ms(1))
    environment.run()
    gone = weakref.ref(main)
    del main, environment
    gc.collect()
    assert gone() is None


# ---- nothing is lost silently ----------------------------------------------------------------------------------------


def test_what_is_posted_before_the_beginning_is_counted() -> None:
    main = Sensor()
    environment = Environment(main, clock=ManualClock(), timeout=ms(1))
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(main.arrival.schedule(1)))
    thread.start()
    thread.join(GENEROUS_S)
    environment.run()
    assert answers == [False]
    assert environment.figures()["arrivals_refused"] == 1


def test_what_is_on_its_way_when_the_program_ends_is_counted() -> None:
    main, loop = Sensor(), penstock.Reactor(clock=ManualClock())
    environment = Environment(main, loop=loop)
    environment.start()
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(main.arrival.schedule(1)))
    thread.start()
    thread.join(GENEROUS_S)
    environment.request_stop()
    for _ in range(3):
        loop.run_once(0)
    loop.close()
    figures = environment.figures()
    queue = figures["queues"]["main.arrival"]
    assert answers == [True]
    assert queue["scheduled"] + queue["dropped_stopped"] + figures["arrivals_dropped"] == 1


# ---- types in debug mode ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (int, [1], ["x", True, 1.5]),
        (float, [1, 1.5], ["x"]),
        (list[int], [[1]], [(1,), 5]),
        (int | None, [1, None], ["x"]),
        (list[int] | str, [[1], "x"], [5]),
        (object, [1, None, "x"], []),
        (Any, [1, None, "x"], []),
    ],
)
def test_debug_mode_checks_what_a_type_says(kind: Any, good: list[Any], bad: list[Any]) -> None:
    class Main(Reactor):
        arrival = PhysicalAction(kind)
        twin = PhysicalAction[kind]()

    main = Main()
    environment = Environment(main, clock=ManualClock(), timeout=ms(1), debug=True)
    environment.scheduler.begin(0)
    for action in (main.arrival, main.twin):
        for value in good:
            assert action.schedule(value)
        for value in bad:
            with pytest.raises(TypeError, match=f"main.{action.name} takes"):
                action.schedule(value)


def test_debug_mode_checks_what_is_injected() -> None:
    class Main(Reactor):
        x = Input(int)

    main = Main()
    environment = Environment(main, clock=ManualClock(), timeout=ms(1), debug=True)
    environment.scheduler.begin(0)
    wrong: Any = "word"
    with pytest.raises(TypeError, match=r"main\.x takes int, not str 'word'"):
        environment.inject(main.x, wrong, Tag(0, 0))
    assert environment.inject(main.x, 1, Tag(0, 0))


def test_a_reaction_that_fails_leaves_no_thread_waiting() -> None:
    class Main(Reactor):
        tick = Timer(offset=ms(1))
        arrival = PhysicalAction(int, capacity=1, overflow="block")

        @reaction(tick)
        def go(self) -> None:
            raise ValueError("no")

    main = Main()
    environment = Environment(main, clock=ManualClock())
    with pytest.raises(ReactionFailed):
        environment.run()
    gate = main.arrival.gate
    assert gate is not None
    gate.enter()
