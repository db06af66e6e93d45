"""A shared reactor: several threads run it at once, and everything runs on exactly one of them."""

from __future__ import annotations

import errno
import gc
import os
import random
import signal
import socket
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from penstock import LoopRunning, ManualClock, Overflow, Policy, Reactor, Unsupported, UsageError
from penstock.core.sharedloop import SharedLoop
from penstock.net import Datagram, Descriptor, Listener, Stream
from penstock.net.operations import operation_counters

PATIENCE_S = 60
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads share a loop on epoll only")


def shared(**options: Any) -> Reactor:
    return Reactor("epoll", shared=True, policy=Policy(**options))


def counters(reactor: Reactor) -> dict[str, int]:
    assert isinstance(reactor.loop, SharedLoop)
    return reactor.loop.lock_counters()


@contextmanager
def crew(reactor: Reactor, size: int, run: Callable[[], object] | None = None) -> Iterator[list[threading.Thread]]:
    """So many threads that run a reactor, until the block ends."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            (run or reactor.run)()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, name=f"crew-{number}") for number in range(size)]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        reactor.stop()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads), "a thread did not return"
    assert failures == []


def pairs(reactor: Reactor, count: int) -> list[tuple[Descriptor, Descriptor]]:
    return [tuple(Descriptor(reactor, end) for end in socket.socketpair()) for _ in range(count)]  # type: ignore[misc]


def close_all(every: list[tuple[Descriptor, Descriptor]]) -> None:
    for pair in every:
        for end in pair:
            end.close()


def wait(event: threading.Event) -> None:
    assert event.wait(PATIENCE_S), "it did not happen"


def test_two_completions_are_in_two_threads_at_once() -> None:
    """Each callback waits for the other one: a single thread would wait for ever."""
    meeting = threading.Barrier(2, timeout=PATIENCE_S)
    seen: set[str] = set()
    done = threading.Semaphore(0)

    def met(_error: Any, _data: Any) -> None:
        meeting.wait()
        seen.add(threading.current_thread().name)
        done.release()

    with shared() as reactor:
        every = pairs(reactor, 2)
        with crew(reactor, 2):
            for here, there in every:
                here.read(10, met)
                there.write(b"come", lambda error, count: None)
            for _ in range(2):
                assert done.acquire(timeout=PATIENCE_S)
        close_all(every)
    assert len(seen) == 2


def test_a_slow_handler_holds_up_nobody_else() -> None:
    """While one thread is in a handler, the other one leads, waits in the poller, and serves."""
    slow, served, go_on = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        slow.set()
        wait(go_on)

    with shared() as reactor:
        every = pairs(reactor, 1)
        with crew(reactor, 2):
            reactor.defer_threadsafe(hold)
            wait(slow)
            every[0][0].read(10, lambda error, data: served.set())
            every[0][1].write(b"x", lambda error, count: None)
            wait(served)
            go_on.set()
        close_all(every)


class Game:
    """Ping-pong over many pairs, with cancels and closes in between. Every callback takes note that it was called."""

    def __init__(self, reactor: Reactor, games: int) -> None:
        self.reactor = reactor
        self.left = games
        self.lock = threading.Lock()
        self.chance = random.Random(7)
        self.started = 0
        self.ended: Counter[int] = Counter()
        self.outcomes: Counter[object] = Counter()
        self.finished = threading.Event()

    def told(self, then: Callable[[Any], None] | None = None) -> Callable[[Any, Any], None]:
        """A callback of its own for one operation."""
        with self.lock:
            number = self.started
            self.started += 1

        def callback(error: OSError | None, _result: Any) -> None:
            with self.lock:
                self.ended[number] += 1
                self.outcomes[error.errno if error else None] += 1
            if then is not None:
                then(error)

        return callback

    def play(self, here: Descriptor, there: Descriptor, rounds: int) -> None:
        def answered(error: OSError | None) -> None:
            if rounds and not error:
                self.play(there, here, rounds - 1)
            else:
                self.end(here, there)

        with self.lock:
            cancelling = self.chance.random() < 0.3
        if cancelling:
            there.read(5, self.told(), key := object())
            there.cancel("read", key)
        there.read(100, self.told(answered))
        here.write(b"ball", self.told())

    def end(self, here: Descriptor, there: Descriptor) -> None:
        here.close()
        there.close()
        here.read(1, self.told())
        with self.lock:
            self.left -= 1
            if not self.left:
                self.finished.set()


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("spins", [0, 1000])
def test_every_operation_ends_exactly_once(threads: int, spins: int) -> None:
    games = 24
    with shared(io_spins=spins) as reactor:
        game = Game(reactor, games)
        every = pairs(reactor, games)
        with crew(reactor, threads):
            for here, there in every:
                game.play(here, there, 60)
            wait(game.finished)
        reactor.restart()
        reactor.run(keep_alive=False)
        counted = operation_counters(reactor)
    assert set(game.ended.values()) == {1}
    assert len(game.ended) == game.started
    assert game.outcomes[errno.EBADF] == games
    assert game.outcomes[errno.ECANCELED] > 0
    assert (counted["waiting"], counted["operations"], counted["live"]) == (0, 0, 0)


def test_timers_and_tasks_run_on_one_thread_each() -> None:
    ran: Counter[tuple[str, int]] = Counter()
    lock = threading.Lock()
    enough = threading.Event()

    def note(what: str, number: int) -> None:
        with lock:
            ran[what, number] += 1
            if len(ran) == 600:
                enough.set()

    with shared() as reactor, crew(reactor, 3):
        for number in range(200):
            reactor.set_timeout(0.0001 * (number % 7), note, "timer", number)
            reactor.defer(note, "deferred", number)
            reactor.defer_threadsafe(note, "post", number)
        wait(enough)
    assert set(ran.values()) == {1}


def test_an_earlier_timer_wakes_the_thread_that_sleeps() -> None:
    fired = threading.Event()
    with shared() as reactor, crew(reactor, 1):
        asleep = threading.Event()
        reactor.defer_threadsafe(asleep.set)
        wait(asleep)
        reactor.set_timeout(0.001, fired.set)
        wait(fired)


def test_an_interval_goes_on_and_a_cancelled_timer_does_not_fire() -> None:
    beats = threading.Semaphore(0)
    fired: list[int] = []
    with shared() as reactor, crew(reactor, 2):
        timer = reactor.set_timeout(3600, fired.append, 1)
        beat = reactor.set_interval(0.001, beats.release)
        for _ in range(5):
            assert beats.acquire(timeout=PATIENCE_S)
        assert reactor.cancel_timer(beat)
        assert reactor.move_timer(timer, 7200)
        assert timer.cancel()
        assert not reactor.cancel_timer(timer)
    assert fired == []


def test_everybody_returns_when_nothing_is_left() -> None:
    with shared() as reactor:
        every = pairs(reactor, 1)
        go_on = threading.Event()

        def last(_error: Any, _data: Any) -> None:
            wait(go_on)

        every[0][0].read(1, last)
        threads = [threading.Thread(target=reactor.run, args=(False,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        every[0][1].write(b"x", lambda error, count: None)
        go_on.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads)
        close_all(every)


def test_a_stop_ends_every_run_until_restart() -> None:
    with shared() as reactor:
        with crew(reactor, 3):
            running = threading.Event()
            reactor.defer_threadsafe(running.set)
            wait(running)
            assert repr(reactor).endswith("running>")
        assert repr(reactor).endswith("ready>")
        reactor.run()  # returns at once: it was stopped
        reactor.restart()
        reactor.defer(reactor.stop)
        reactor.run()
        assert counters(reactor)["threads"] == 0


def test_run_one_poll_and_poll_one() -> None:
    with shared() as reactor:
        ran: list[int] = []
        assert reactor.run_one() == 0
        for number in range(4):
            reactor.defer(ran.append, number)
        assert (reactor.poll_one(), ran) == (1, [0])
        assert (reactor.run_one(), ran) == (1, [0, 1])
        assert (reactor.poll(), ran) == (2, [0, 1, 2, 3])
        assert reactor.poll_one() == 0
        reactor.set_timeout(0, ran.append, 4)
        assert reactor.run_once(PATIENCE_S) == 1
        assert reactor.run_once(0) == 0


def test_a_handler_that_raises_is_reported_and_an_interrupt_ends_one_thread() -> None:
    reports: list[Any] = []
    with Reactor("epoll", shared=True, on_error=reports.append) as reactor:
        reactor.defer(lambda: 1 // 0)
        reactor.run(keep_alive=False)
        assert [(type(report.error), report.step) for report in reports] == [(ZeroDivisionError, "deferred")]

        def interrupt() -> None:
            raise KeyboardInterrupt

        reactor.defer(interrupt)
        with pytest.raises(KeyboardInterrupt):
            reactor.run()
        assert counters(reactor)["threads"] == 0
        reactor.defer(reports.append, "still")
        reactor.run(keep_alive=False)
        assert reports[-1] == "still"


def test_a_signal_reaches_its_callback_though_the_main_thread_follows() -> None:
    told = threading.Event()
    with shared() as reactor:

        def heard() -> None:
            told.set()
            reactor.stop()

        reactor.add_signal(signal.SIGUSR1, heard)
        with crew(reactor, 2):
            reactor.defer_threadsafe(os.kill, os.getpid(), signal.SIGUSR1)
            reactor.run()
            wait(told)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_of_a_fork_goes_on() -> None:
    with shared() as reactor:
        here, there = pairs(reactor, 1)[0]
        got: list[object] = []
        with crew(reactor, 2):
            running = threading.Event()
            reactor.defer_threadsafe(running.set)
            wait(running)
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    reactor.after_fork()
                    # The parent, whose socket this is too, reads nothing.
                    here.read(10, lambda error, data: got.append(data))
                    there.write(b"child", lambda error, count: None)
                    reactor.restart()
                    reactor.run(keep_alive=False)
                    status = 0 if got == [b"child"] else 2
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        here.close()
        there.close()


def test_what_belongs_to_one_thread_is_refused_by_name() -> None:
    with shared() as reactor:
        one, two = socket.socketpair()
        with one, two:
            with pytest.raises(Unsupported, match=r"callback of readiness belongs to one.*Descriptor"):
                reactor.register(one, 1, print)
            with pytest.raises(Unsupported, match=r"a stream, a listener"):
                Stream(reactor, one)
            with pytest.raises(Unsupported, match=r"a stream, a listener"):
                Listener(reactor, ("127.0.0.1", 0), print)
            with pytest.raises(Unsupported, match=r"belongs to one"):
                Datagram(reactor, ("127.0.0.1", 0))
            with pytest.raises(Unsupported, match=r"a lane belongs to one"):
                reactor.lane("work", print)
    with pytest.raises(Unsupported, match=r"poller 'select' cannot be told.*'epoll'"):
        Reactor("select", shared=True)
    with pytest.raises(UsageError, match=r"manual clock"):
        Reactor("epoll", shared=True, clock=ManualClock())


def test_bounds_and_misuse() -> None:
    with shared(shared_threads_max=1) as reactor:
        nested: list[type[BaseException]] = []

        def again() -> None:
            for what in (reactor.run, reactor.close):
                try:
                    what()
                except LoopRunning as error:
                    nested.append(type(error))

        reactor.defer(again)
        reactor.run(keep_alive=False)
        assert nested == [LoopRunning, LoopRunning]
        running = threading.Event()
        with crew(reactor, 1):
            reactor.defer_threadsafe(running.set)
            wait(running)
            with pytest.raises(Overflow, match="shared_threads_max"):
                reactor.run()
    with pytest.raises(UsageError, match="io_locking is 3"):
        Policy(io_locking=3)  # type: ignore[arg-type]


def test_locks_only_where_they_are_asked_for() -> None:
    """The lock of a reason that is configured off is not taken; a reactor of one thread has none at all."""

    def locks(reactor: Reactor, what: Callable[[], object]) -> int:
        before = counters(reactor)["locks"]
        what()
        return counters(reactor)["locks"] - before

    def ignore(_error: Any, _result: Any) -> None:
        return None

    for io, registration in ((True, True), (False, True), (True, False), (False, False)):
        with shared(io_locking=io, registration_locking=registration) as reactor:
            one, two = socket.socketpair()
            two.close()
            timer = reactor.set_timeout(5, print)
            assert bool(locks(reactor, timer.cancel)) == registration
            before = counters(reactor)["locks"]
            held = Descriptor(reactor, one)
            assert (counters(reactor)["locks"] > before) == registration
            assert bool(locks(reactor, partial(held.read, 1, ignore))) == io
            assert bool(locks(reactor, held.cancel)) == io
            assert bool(locks(reactor, held.close)) == registration
            reactor.run(keep_alive=False)
    with Reactor("epoll") as reactor:
        assert not isinstance(reactor.loop, SharedLoop)


def test_a_thread_that_finds_the_lock_taken_spins_or_waits() -> None:
    """A Python system call is made under the lock; another thread that comes meanwhile waits until it is made."""
    inside, go_on, after = threading.Event(), threading.Event(), threading.Event()

    class Slow:
        def read(self, fd: int, _size: int) -> bytes:
            inside.set()
            wait(go_on)
            return os.read(fd, 1)

        def close(self, fd: int) -> None:
            os.close(fd)

    with shared(io_spins=3) as reactor:
        read_fd, write_fd = os.pipe()
        os.write(write_fd, b"x")
        slow = Descriptor(reactor, read_fd, calls=Slow())  # type: ignore[arg-type]
        reader = threading.Thread(target=slow.read, args=(1, lambda error, data: None))
        reader.start()
        wait(inside)

        def defer() -> None:
            reactor.defer(int)
            after.set()

        other = threading.Thread(target=defer)
        other.start()
        assert not after.is_set()
        go_on.set()
        reader.join(PATIENCE_S)
        other.join(PATIENCE_S)
        assert after.is_set()
        reactor.run(keep_alive=False)
        slow.close()
        os.close(write_fd)


def test_one_that_nobody_closed_lets_go_of_everything() -> None:
    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)
    reactor = shared()
    reactor.set_timeout(60, lambda _held: None, held)
    reactor.defer(lambda _held: None, held)
    del held, reactor
    gc.collect()
    assert gone() is None
