"""Who may schedule what comes from outside: threads, green threads, coroutines, handlers of descriptors."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from types import coroutine
from typing import Any

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

import penstock
from penstock.timed import Environment, PhysicalAction, Reactor, State, Tag, reaction

GENEROUS_S = 20


class Sensor(Reactor):
    """Counts what arrives; stops at the third."""

    arrival = PhysicalAction(int)
    total = State(0)

    @reaction(arrival)
    def take(self) -> None:
        self.total += self.arrival.value
        if self.total >= 6:
            self.request_stop()


def test_a_thread_wakes_a_sleeping_program() -> None:
    main = Sensor()
    environment = Environment(main)
    threads: list[threading.Thread] = []

    def feed() -> None:
        for number in (1, 2, 3):
            main.arrival.schedule(number)

    environment.scheduler.schedule_system(Tag(0, 0), lambda _: start_thread(threads, feed))
    environment.run()
    threads[0].join(GENEROUS_S)
    assert main.total == 6
    assert environment.figures()["queues"]["main.arrival"]["scheduled"] == 3


def start_thread(threads: list[threading.Thread], target: Any) -> None:
    threads.append(threading.Thread(target=target))
    threads[-1].start()


def test_a_readable_descriptor_and_a_deferred_call_feed_a_program() -> None:
    main, loop = Sensor(), penstock.Reactor()
    reader, writer = os.pipe()
    ended: list[BaseException | None] = []

    def readable(fd: int, events: int) -> None:
        os.read(fd, 1)
        main.arrival.schedule(4)

    def done(error: BaseException | None) -> None:
        ended.append(error)
        loop.stop()

    try:
        loop.register(reader, penstock.READABLE, readable)
        environment = Environment(main, loop=loop)
        environment.start(done)
        loop.defer(lambda: main.arrival.schedule(2))
        loop.defer(os.write, writer, b"x")
        loop.run()
    finally:
        loop.close()
        os.close(reader)
        os.close(writer)
    assert main.total == 6
    assert ended == [None]


def test_a_coroutine_on_another_loop_feeds_a_program() -> None:
    main = Sensor()
    environment = Environment(main)
    threads: list[threading.Thread] = []

    async def feed() -> None:
        for number in (1, 2, 3):
            await asyncio.sleep(0)
            assert main.arrival.schedule(number)

    environment.scheduler.schedule_system(Tag(0, 0), lambda _: start_thread(threads, lambda: asyncio.run(feed())))
    environment.run()
    threads[0].join(GENEROUS_S)
    assert main.total == 6


@coroutine
def pause(loop: penstock.Reactor, go_on: Callable[[], None]) -> Generator[None, None, None]:
    """Let the loop go on, and be continued by it."""
    loop.defer(go_on)
    yield


def test_a_coroutine_on_the_same_loop_feeds_a_program() -> None:
    main, loop = Sensor(), penstock.Reactor()

    async def feed() -> None:
        for number in (1, 2, 3):
            await pause(loop, go_on)
            main.arrival.schedule(number)

    fed = feed()

    def go_on() -> None:
        try:
            fed.send(None)
        except StopIteration:
            return

    environment = Environment(main, loop=loop)
    environment.start(lambda _: loop.stop())
    loop.defer(go_on)
    loop.run()
    loop.close()
    assert main.total == 6


def feeding(main: Sensor, loop: penstock.Reactor) -> Callable[[], object]:
    """A green thread that blocks three times and schedules after each; what is returned lets it begin, from the loop."""

    def sleep() -> None:
        current = getcurrent()
        loop.set_timeout(0.001, current.switch)
        assert current.parent is not None
        current.parent.switch()

    def feed() -> None:
        for number in (1, 2, 3):
            sleep()
            assert main.arrival.schedule(number)

    begin: Callable[[], object] = greenlet(feed).switch
    return begin


def test_a_green_thread_on_the_same_loop_feeds_a_program() -> None:
    main, loop = Sensor(), penstock.Reactor()
    environment = Environment(main, loop=loop)
    environment.start(lambda _: loop.stop())
    loop.defer(feeding(main, loop))
    loop.run()
    loop.close()
    assert main.total == 6


def test_a_green_thread_on_another_loop_feeds_a_program() -> None:
    main = Sensor()
    environment = Environment(main)
    threads: list[threading.Thread] = []

    def other() -> None:
        with penstock.Reactor() as loop:
            loop.defer(feeding(main, loop))
            loop.run(keep_alive=False)

    environment.scheduler.schedule_system(Tag(0, 0), lambda _: start_thread(threads, other))
    environment.run()
    threads[0].join(GENEROUS_S)
    assert main.total == 6
