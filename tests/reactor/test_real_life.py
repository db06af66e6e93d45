"""From opening to closing: nothing leaks, nothing is called too late, and no destructor can make it crash."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from penstock import READABLE, LaneClosed, LoopClosed, Policy, Reactor, Timer, UsageError
from penstock.core.loop import Loop
from penstock.testing.native import Counter
from tests.reactor.conftest import ignore, in_child, in_process, open_descriptors

Make = Callable[..., Reactor]
Pipe = Callable[[], tuple[int, int]]
Pair = Callable[[], tuple[socket.socket, socket.socket]]


class Destructor:
    """Calls something when it dies, and forgets what that raises."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call
        self.errors: list[str] = []

    def __del__(self) -> None:
        try:
            self.call()
        except Exception as error:
            self.errors.append(type(error).__name__)

    def __call__(self, *_: object) -> None:
        """Do nothing, as a handler."""

    def method(self, *_: object) -> None:
        """Do nothing, as a handler whose only reference is a bound method."""


# ---- descriptors -----------------------------------------------------------------------------------------------------


def test_a_thousand_reactors_leave_no_descriptor(poller: str) -> None:
    before = open_descriptors()
    for _ in range(1_000):
        with Reactor(poller) as reactor:
            reactor.defer(int)
            reactor.run(keep_alive=False)
    assert open_descriptors() == before


@pytest.mark.parametrize("cycle", [False, True])
@pytest.mark.parametrize("busy", [False, True])
def test_reactors_that_are_never_closed_leave_no_descriptor(poller: str, busy: bool, cycle: bool) -> None:
    gc.collect()
    before = open_descriptors()
    dead = []
    for _ in range(20):
        holder: list[Any] = []
        reactor = Reactor(poller, on_drop=lambda report: None, on_error=holder.append)
        if cycle:
            holder.append(reactor)
        if busy:
            reactor.set_timeout(60, int)
            reactor.set_interval(60, int)
            reactor.defer(int)
            reactor.defer_threadsafe(int)
            reactor.post(reactor.lane("lane", int), 1)
            reactor.post_threadsafe("lane", 1)
        dead.append(weakref.ref(reactor))
        del reactor, holder
    if cycle:
        gc.collect()
    assert [ref() for ref in dead] == [None] * 20
    assert open_descriptors() == before


def test_everything_that_waits_is_let_go_on_close(make: Make, pipe: Pipe) -> None:
    reactor = make()
    reader, _ = pipe()
    things = [Destructor(int) for _ in range(7)]
    dead = [weakref.ref(thing) for thing in things]
    reactor.register(reader, READABLE, things[0])
    reactor.set_timeout(60, things[1])
    reactor.set_interval(60, ignore, things[2])
    reactor.defer(things[3])
    reactor.defer_threadsafe(ignore, things[4])
    reactor.post(reactor.lane("lane", int), things[5])
    reactor.post_threadsafe("lane", things[6])
    del things
    assert None not in [ref() for ref in dead]
    reactor.close()
    assert [ref() for ref in dead] == [None] * 7
    assert reactor.stats().closed_drops == 3
    assert reactor.stats().lane("lane").dropped_closed == 1


def test_a_handler_that_is_gone_is_let_go(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    os.write(writer, b"x")
    handler = Destructor(int)
    dead = weakref.ref(handler)
    reactor.register(reader, READABLE, handler)
    reactor.run_once(0)
    reactor.deregister(reader)
    del handler
    # The slowest handler of the longest turn is remembered by name until there is a longer one.
    reactor.close()
    assert dead() is None


def test_closing_leaves_the_programs_descriptors_open(make: Make, pair: Pair) -> None:
    reactor = make()
    near, far = pair()
    reactor.register(near, READABLE, ignore)
    reactor.close()
    far.send(b"x")
    assert near.recv(1) == b"x"


def test_a_lane_outlives_its_loop(make: Make) -> None:
    reactor = make()
    lane = reactor.lane("lane", int)
    reactor.post(lane, 1)
    reactor.close()
    del reactor
    assert (len(lane), lane.closed, lane.ok) == (0, True, True)
    assert lane.counters()["dropped_closed"] == 1
    assert lane.close() == 0


def test_a_lane_outlives_its_loop_in_a_cycle_that_is_collected() -> None:
    holder: list[Any] = []
    reactor = Reactor(on_error=holder.append)
    holder.append(reactor)
    dead = weakref.ref(reactor)
    lane = reactor.lane("lane", int)
    reactor.post(lane, 1)
    del reactor, holder
    gc.collect()
    # The loop is gone, and has closed its lane.
    assert dead() is None
    with pytest.raises(LaneClosed):
        lane.offer(1)
    assert lane.close() == 0
    assert lane.ok


# ---- destructors that call back --------------------------------------------------------------------------------------


def calls_back(reactor: Reactor, fd: int) -> dict[str, Callable[[], object]]:
    return {
        "close": reactor.close,
        "stats": reactor.stats,
        "stop": reactor.stop,
        "run_once": lambda: reactor.run_once(0),
        "register": lambda: reactor.register(fd, READABLE, ignore),
        "deregister": lambda: reactor.deregister(fd),
        "set_timeout": lambda: reactor.set_timeout(0, int),
        "defer": lambda: reactor.defer(int),
        "post": lambda: reactor.post("lane", 1),
        "lane": lambda: reactor.lane("another", int),
        "collect": gc.collect,
    }


CALLS_BACK = (
    *("close", "stats", "stop", "run_once", "register", "deregister"),
    *("set_timeout", "defer", "post", "lane", "collect"),
)


@pytest.mark.usefixtures("quick_collector")
@pytest.mark.parametrize("call", CALLS_BACK)
@pytest.mark.parametrize("dies", ["in its turn", "on close", "displaced"])
def test_a_destructor_may_call_back(make: Make, pipe: Pipe, call: str, dies: str) -> None:
    reactor = make(on_error=lambda report: None)
    reader, writer = pipe()
    other, _ = pipe()
    os.write(writer, b"x")
    armed: list[int] = []
    really = calls_back(reactor, other)[call]

    def back() -> None:
        if armed:
            really()

    lane = reactor.lane("lane", int, capacity=2)
    reactor.register(other, READABLE, Destructor(back).method)
    reactor.register(reader, READABLE, Destructor(back).method)
    for _ in range(2):
        reactor.post(lane, Destructor(back))
        reactor.defer(Destructor(back).method, Destructor(back))
        reactor.defer_threadsafe(Destructor(back).method, Destructor(back))
        reactor.set_timeout(0, Destructor(back).method, Destructor(back))
        timer = reactor.set_interval(0.000_001, Destructor(back).method, Destructor(back))
    armed.append(1)
    reactor.post(lane, Destructor(back))
    if reactor.closed:
        assert dies
    elif dies == "in its turn":
        with contextlib.suppress(LoopClosed):
            timer.cancel()
            for _ in range(3):
                reactor.run_once(0)
    elif dies == "displaced":
        with contextlib.suppress(LoopClosed):
            reactor.register(reader, READABLE, ignore)
            reactor.register(other, READABLE, ignore)
            lane.close()
    reactor.close()
    gc.collect()
    assert lane.ok


def test_a_destructor_that_registers_the_very_number_keeps_the_books_right(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    seen: list[str] = []
    reactor.register(
        reader, READABLE, Destructor(lambda: reactor.register(reader, READABLE, lambda *_: seen.append("last")))
    )
    reactor.register(reader, READABLE, lambda *_: seen.append("replaced"))
    assert reactor.stats().registered == 1
    os.write(writer, b"x")
    reactor.run_once(0)
    assert seen == ["last"]
    reactor.deregister(reader)
    assert reactor.stats().registered == 0
    reactor.run(keep_alive=False)


def test_stats_may_be_asked_for_while_the_slowest_handler_dies() -> None:
    # In a process of its own: it was a double free.
    done = in_process(
        """
        from penstock import ManualClock, Reactor
        clock = ManualClock()
        reactor = Reactor(clock=clock)
        class Slow:
            def method(self):
                clock.advance(1000 * step)
            def __del__(self):
                reactor.stats()
        for step in range(1, 50):
            reactor.defer(Slow().method)
            reactor.run_once(0)
        reactor.close()
        print(reactor.stats().turns)
        """,
        "-X",
        "dev",
    )
    assert (done.returncode, done.stdout.strip()) == (0, "49"), done.stderr


@pytest.mark.usefixtures("quick_collector")
def test_the_collector_runs_in_every_handler(reactor: Reactor, pipe: Pipe) -> None:
    def collect(*_: object) -> None:
        cycle: list[Any] = [Destructor(int)]
        cycle.append(cycle)
        gc.collect()

    for _ in range(5):
        reader, writer = pipe()
        os.write(writer, b"x")
        reactor.register(reader, READABLE, collect)
        reactor.set_timeout(0, collect)
        reactor.defer(collect)
        reactor.defer_threadsafe(collect)
    reactor.post(reactor.lane("lane", collect), 1)
    assert reactor.run_once(0) == 21


# ---- half-made objects -----------------------------------------------------------------------------------------------

HALF_MADE = (
    "Reactor.__new__(Reactor).register(0, 1, ignore)",
    "Reactor.__new__(Reactor).run()",
    "Reactor.__new__(Reactor).now_ns()",
    "Reactor.__new__(Reactor).closed",
    "Reactor.__new__(Reactor).name",
    "Reactor.__new__(Reactor).close()",
    "Reactor.__new__(Reactor).post_threadsafe(None, 1)",
    "repr(Reactor.__new__(Reactor))",
    "Timer.__new__(Timer).active",
    "Timer.__new__(Timer).cancel()",
    "Timer.__new__(Timer).deadline_ns",
    "repr(Timer.__new__(Timer))",
    "Reactor().cancel_timer(Timer.__new__(Timer))",
    "Loop.__new__(Loop).run()",
    "Loop.__new__(Loop).close()",
    "Loop.__new__(Loop).stats()",
    "Loop.__new__(Loop).defer_threadsafe(int, None)",
    "repr(Loop.__new__(Loop))",
    "Counter.__new__(Counter).register(0)",
)


def test_half_made_objects_raise_and_do_not_crash() -> None:
    script = """
        from penstock import Reactor, Timer
        from penstock.core.loop import Loop
        from penstock.testing.native import Counter
        for call in CALLS:
            print(call, flush=True)
            try:
                eval(call)
            except Exception:
                pass
    """
    done = in_process(f"CALLS = {HALF_MADE!r}\n" + "\n".join(line[8:] for line in script.splitlines()))
    assert done.returncode == 0, (done.stdout.splitlines()[-1], done.stderr)


def test_a_reactor_is_made_once(reactor: Reactor) -> None:
    with pytest.raises(UsageError, match="made by set_timeout or set_interval"):
        Timer()
    loop = reactor.loop
    assert isinstance(loop, Loop)
    with pytest.raises(RuntimeError, match="cannot be initialised twice"):
        loop.__init__(None)  # type: ignore[misc]


def test_a_reactor_that_is_initialised_again_by_its_handler_goes_on_with_its_run(keep: contextlib.ExitStack) -> None:
    reactor = keep.enter_context(Reactor())
    seen: list[str] = []

    def again() -> None:
        reactor.__init__(name="second")  # type: ignore[misc]
        gc.collect()
        seen.append("again")

    reactor.set_timeout(0, again)
    reactor.set_timeout(0, seen.append, "first loop")
    reactor.run_once(0)
    assert seen == ["again", "first loop"]
    assert reactor.name == "second"
    assert reactor.run_once(0) == 0


# ---- forks -----------------------------------------------------------------------------------------------------------


def test_a_forked_child_is_told_and_the_parent_is_unharmed(make: Make, pipe: Pipe) -> None:
    reactor = make(name="mine")
    reader, writer = pipe()
    seen: list[str] = []
    reactor.register(reader, READABLE, lambda fd, events: seen.append(os.read(fd, 1).decode()))
    reactor.set_timeout(0, seen.append, "timer")
    lane = reactor.lane("lane", seen.append)
    for call in (
        lambda: reactor.run_once(0),
        reactor.run,
        lambda: reactor.defer(int),
        lambda: reactor.register(reader, READABLE, ignore),
        lambda: reactor.deregister(reader),
        lambda: reactor.post_threadsafe(lane, 1),
        lambda: reactor.defer_threadsafe(int),
        lane.close,
    ):
        assert in_child(lambda call=call: str(call())) == (  # type: ignore[misc]
            "ForkedLoop: mine was made before a fork; make a new loop in the child process"
        )
    os.write(writer, b"x")
    reactor.run_once(0)
    reactor.post(lane, "lane")
    reactor.run_once(0)
    assert seen == ["timer", "x", "lane"]


def test_a_child_closes_the_loop_of_its_parent_without_disturbing_it(make: Make, pipe: Pipe) -> None:
    reactor = make()
    reader, writer = pipe()
    seen: list[bytes] = []
    reactor.register(reader, READABLE, lambda fd, events: seen.append(os.read(fd, 1)))

    def child() -> str:
        reactor.stop()
        reactor.close()
        reactor.close()
        return f"{reactor.closed}, {open_descriptors() < before}"

    before = open_descriptors()
    assert in_child(child) == "True, True"
    os.write(writer, b"x")
    assert reactor.run_once(0) == 1
    assert seen == [b"x"]
    assert reactor.is_registered(reader)


def test_a_child_makes_a_loop_of_its_own(make: Make) -> None:
    reactor = make()

    def child() -> str:
        with Reactor(reactor.poller) as own:
            seen: list[str] = []
            own.set_timeout(0.001, seen.append, "timer")
            own.defer_threadsafe(seen.append, "post")
            own.run(keep_alive=False)
            return ", ".join(seen)

    assert in_child(child) == "post, timer"


def test_a_handler_that_forks_ends_the_run_in_the_child_only(make: Make, pipe: Pipe) -> None:
    reactor = make(name="mine")
    log_reader, log_writer = pipe()
    parent = os.getpid()
    children: list[int] = []

    def fork() -> None:
        child = os.fork()
        if child:
            children.append(child)
            os.waitpid(child, 0)

    def say(word: str) -> None:
        os.write(log_writer, f"{word} {'parent' if os.getpid() == parent else 'child'}\n".encode())

    reactor.set_timeout(0, fork)
    reactor.set_timeout(0, say, "timer")
    reactor.defer(say, "deferred")
    try:
        reactor.run(keep_alive=False)
    except BaseException as error:
        if os.getpid() == parent:
            raise
        os.write(log_writer, f"{type(error).__name__} child\n".encode())
    finally:
        if os.getpid() != parent:
            os._exit(0)
    # Of the batch of its parent, the child has run nothing.
    assert os.read(log_reader, 1_000).decode().splitlines() == ["ForkedLoop child", "timer parent", "deferred parent"]
    assert len(children) == 1


def test_a_child_does_not_wait_for_threads_that_exist_in_the_parent_only() -> None:
    done = in_process(
        """
        import os, threading, time, warnings
        from penstock import Reactor
        warnings.simplefilter("ignore")
        reactor = Reactor()
        lane = reactor.lane("lane", int, capacity=1, overflow="block")
        reactor.post(lane, 1)
        thread = threading.Thread(target=reactor.post_threadsafe, args=(lane, 2, 60))
        thread.start()
        while not reactor.stats().inbox_waited:
            time.sleep(0.001)
        children = []
        for closes in (True, False):
            child = os.fork()
            if not child:
                if closes:
                    reactor.close()
                thread = None
                del reactor, lane
                import gc
                gc.collect()
                os._exit(0)
            children.append(child)
        for child in children:
            assert os.waitpid(child, 0)[1] == 0
        while len(lane) or thread.is_alive():
            reactor.run_once(0.01)
        print(reactor.stats().lane("lane").run)
        """
    )
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr


# ---- tables that grow ------------------------------------------------------------------------------------------------


def test_native_and_python_registrations_come_and_go(make: Make, pipe: Pipe) -> None:
    reactor = make(policy=Policy(ready_batch=7))
    pipes = [pipe() for _ in range(60)]
    counter = Counter(reactor, again=500)
    calls: list[int] = []

    def replace(fd: int, events: int) -> None:
        calls.append(fd)
        victim = pipes[(len(calls) * 7) % len(pipes)][0]
        if reactor.is_registered(victim) and len(calls) % 3:
            reactor.deregister(victim)
        elif len(calls) % 2:
            counter.register(victim, READABLE)
        else:
            reactor.register(victim, READABLE, replace)

    for number, (reader, writer) in enumerate(pipes):
        os.write(writer, b"x")
        if number % 2:
            counter.register(reader, READABLE)
        else:
            reactor.register(reader, READABLE, replace)
    for _ in range(300):
        reactor.run_once(0)
    registered = sum(reactor.is_registered(reader) for reader, _ in pipes)
    assert reactor.stats().registered == registered
    for reader, _ in pipes:
        if reactor.is_registered(reader):
            reactor.deregister(reader)
    assert reactor.run_once(0) == 0
