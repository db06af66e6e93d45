"""Signals: run within one turn, whatever the loop does, and everything is put back."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from penstock import READABLE, Reactor, Unsupported, UsageError
from penstock.testing.native import Counter, NativeTimer
from tests.reactor.conftest import DEADLINE_S, in_process, join

Make = Callable[..., Reactor]
Spawn = Callable[..., threading.Thread]
Pipe = Callable[[], tuple[int, int]]


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Every test leaves the process' signals as it found them."""
    numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGRTMIN)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before
    wakeup_fd = signal.set_wakeup_fd(-1)
    assert wakeup_fd == -1


def send(number: int = signal.SIGUSR1) -> None:
    """Send a signal to this process."""
    os.kill(os.getpid(), number)


def send_in_run(reactor: Reactor, number: int, spawn: Spawn) -> threading.Thread:
    """Have another thread send a signal to the main thread, once, when the loop runs: it must not be overlooked."""
    main = threading.main_thread().ident
    assert main is not None
    running = threading.Event()
    reactor.defer(running.set)

    def send_once() -> None:
        running.wait(DEADLINE_S)
        signal.pthread_kill(main, number)

    return spawn(send_once)


def test_a_callback_runs_with_its_arguments(reactor: Reactor) -> None:
    seen: list[tuple[object, ...]] = []
    reactor.add_signal(signal.SIGUSR1, lambda *args: seen.append(args), 1, None)
    send()
    assert reactor.run_once(0) == 1
    assert seen == [(1, None)]
    assert reactor.run_once(0) == 0


def test_several_arrivals_are_one_call_and_signals_run_in_their_order(reactor: Reactor) -> None:
    seen: list[int] = []
    for number in (signal.SIGUSR2, signal.SIGUSR1):
        reactor.add_signal(number, seen.append, number)
        send(number)
        send(number)
    reactor.run_once(0)
    reactor.run_once(0)
    assert seen == sorted([signal.SIGUSR1, signal.SIGUSR2])


def test_a_sleeping_loop_is_stopped_by_a_signal(reactor: Reactor, spawn: Spawn) -> None:
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        reactor.stop()

    reactor.add_signal(signal.SIGUSR1, stop)
    send_in_run(reactor, signal.SIGUSR1, spawn)
    reactor.run()
    assert stopped.is_set()


def test_stop_in_the_interpreters_own_handler_ends_the_run(reactor: Reactor, spawn: Spawn) -> None:
    stopped = threading.Event()

    def handler(number: int, frame: object) -> None:
        stopped.set()
        reactor.stop()

    former = signal.signal(signal.SIGUSR1, handler)
    try:
        send_in_run(reactor, signal.SIGUSR1, spawn)
        reactor.run()
        assert stopped.is_set()
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_a_signal_is_seen_while_the_loop_runs_only_native_work(reactor: Reactor, pipe: Pipe, spawn: Spawn) -> None:
    reader, writer = pipe()
    os.write(writer, b"x")
    counter = Counter(reactor)
    # Ready for ever: no turn of this loop takes the interpreter's lock by itself.
    counter.register(reader, READABLE)
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        reactor.stop()

    reactor.add_signal(signal.SIGUSR1, stop)
    send_in_run(reactor, signal.SIGUSR1, spawn)
    reactor.run()
    assert counter.calls > 0
    stats = reactor.stats()
    assert stats.ready_python == 0
    # The deferred start, and the signal; what is native needs the interpreter for nothing.
    assert stats.python_turns <= 3


def test_a_signal_runs_within_the_turn_that_sees_it(reactor: Reactor, pipe: Pipe) -> None:
    seen: list[int] = []
    timer = NativeTimer(reactor, 0, 1_000)
    reactor.add_signal(signal.SIGUSR1, lambda: seen.append(reactor.stats().turns))
    for turn in range(5):
        send()
        reactor.run_once(0)
        assert seen.pop() == turn
        assert seen == []
    assert timer.calls


def test_keyboard_interrupt_leaves_the_run(reactor: Reactor, spawn: Spawn) -> None:
    send_in_run(reactor, signal.SIGINT, spawn)
    with pytest.raises(KeyboardInterrupt):
        reactor.run()
    assert reactor.run_once(0) == 0


def test_an_exception_of_the_callback_is_contained(make: Make) -> None:
    reports: list[str] = []
    reactor = make(on_error=lambda report: reports.append(f"{report.step}: {report.error!r}"))
    reactor.add_signal(signal.SIGUSR1, ["nothing"].index, "something")
    send()
    reactor.run_once(0)
    assert reports == ["signal: ValueError(\"'something' is not in list\")"]


def test_what_handled_a_signal_before_is_put_back(make: Make) -> None:
    handled: list[int] = []

    def handler(number: int, frame: object) -> None:
        handled.append(number)

    former = signal.signal(signal.SIGUSR1, handler)
    try:
        reactor = make()
        reactor.add_signal(signal.SIGUSR1, int)
        reactor.add_signal(signal.SIGUSR1, int)
        assert reactor.remove_signal(signal.SIGUSR1)
        assert not reactor.remove_signal(signal.SIGUSR1)
        assert signal.getsignal(signal.SIGUSR1) is handler
        reactor.add_signal(signal.SIGUSR1, int)
        reactor.close()
        assert signal.getsignal(signal.SIGUSR1) is handler
    finally:
        signal.signal(signal.SIGUSR1, former)


@pytest.mark.parametrize("first", ["the former", "the latter"])
def test_two_loops_that_took_one_signal_close_in_any_order(make: Make, first: str) -> None:
    handled: list[str] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: handled.append("before"))
    try:
        loops = {"the former": make(), "the latter": make()}
        for name, loop in loops.items():
            loop.add_signal(signal.SIGUSR1, handled.append, name)
        loops.pop(first).close()
        (name, other) = loops.popitem()
        send()
        other.run_once(0)
        assert handled == [name]
        other.close()
        send()
        assert handled == [name, "before"]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_callback_removes_a_signal_that_has_arrived_too(reactor: Reactor) -> None:
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        reactor.remove_signal(signal.SIGRTMIN)

    reactor.add_signal(signal.SIGUSR1, first)
    reactor.add_signal(signal.SIGRTMIN, seen.append, "second")
    send(signal.SIGUSR1)
    send(signal.SIGRTMIN)
    reactor.run_once(0)
    reactor.run_once(0)
    assert seen == ["first"]


def test_the_wakeup_descriptor_is_only_borrowed(make: Make, pipe: Pipe) -> None:
    _, writer = pipe()
    outer, inner = make(), make()
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    seen: list[str] = []
    try:
        inner.defer(seen.append, "inner")
        outer.defer(lambda: inner.run_once(0))
        outer.defer(seen.append, "outer")
        outer.run_once(0)
        assert seen == ["inner", "outer"]
    finally:
        assert signal.set_wakeup_fd(-1) == writer


def test_an_interrupted_entry_leaves_the_loop_usable(reactor: Reactor, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(reactor.loop.signals), "lend", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reactor.run()
    assert reactor.run_once(0) == 0


def test_only_the_main_thread_receives_signals(spawn: Spawn) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        with Reactor(name="aside") as reactor:
            try:
                reactor.add_signal(signal.SIGUSR1, int)
            except Unsupported as error:
                errors.append(error)
            assert reactor.run_once(0) == 0

    join(spawn(work))
    assert "cannot be received by aside: only the main thread receives signals" in str(errors[0])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, 0, 10_000, -1, 1 << 40])
def test_signals_that_cannot_be_received(plain: Make, number: int) -> None:
    with pytest.raises(UsageError, match=rf"signal {int(number)} (cannot be caught|does not exist)"):
        plain().add_signal(number, int)


def test_a_run_without_keep_alive_stays_for_signals() -> None:
    done = in_process(
        """
        import os, signal, threading
        from penstock import Reactor
        with Reactor() as reactor:
            reactor.add_signal(signal.SIGTERM, lambda: (print("term"), reactor.remove_signal(signal.SIGTERM)))
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
            reactor.run(keep_alive=False)
        print("end")
        """
    )
    assert (done.returncode, done.stdout.split()) == (0, ["term", "end"]), done.stderr
