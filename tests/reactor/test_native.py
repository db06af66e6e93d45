"""Handlers without the interpreter: others run meanwhile, and Python's are dispatched in one batch per turn."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable

import pytest

from penstock import READABLE, BadDescriptor, ManualClock, Overflow, Policy, Reactor
from penstock.testing.native import Counter, EchoServer, NativeTimer, deregister_native
from tests.reactor.conftest import DEADLINE_S, join

Make = Callable[..., Reactor]
Spawn = Callable[..., threading.Thread]
Pipe = Callable[[], tuple[int, int]]
Pair = Callable[[], tuple[socket.socket, socket.socket]]


def test_another_thread_makes_progress_while_native_handlers_run(reactor: Reactor, pipe: Pipe, spawn: Spawn) -> None:
    reader, writer = pipe()
    os.write(writer, b"x")
    counter = Counter(reactor)
    counter.register(reader, READABLE)
    timer = NativeTimer(reactor, 0, 100_000)
    progress: list[int] = []

    def count() -> None:
        # The loop below never sleeps and never gives anything away: this runs because it holds no lock.
        before = counter.calls
        while counter.calls < before + 100:
            progress.append(counter.calls)
        reactor.stop()

    worker = spawn(count)
    reactor.run()
    join(worker)
    stats = reactor.stats()
    assert progress
    assert counter.calls >= 100
    assert timer.calls > 0
    assert stats.python_turns == 0
    assert stats.ready_native == counter.calls
    assert stats.turns >= counter.calls


def test_many_ready_callbacks_are_one_batch(reactor: Reactor, pipe: Pipe) -> None:
    called: list[int] = []
    for _ in range(50):
        reader, writer = pipe()
        os.write(writer, b"x")
        reactor.register(reader, READABLE, lambda fd, events: called.append(fd))
    for number in range(20):
        reactor.set_timeout(0, called.append, -number)
        reactor.defer(called.append, -number)
    assert reactor.run_once(0) == 90
    assert len(called) == 90
    stats = reactor.stats()
    assert (stats.turns, stats.python_turns) == (1, 1)
    assert stats.ready_python == 50


def test_native_and_python_handlers_of_one_turn(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    other, other_writer = pipe()
    counter = Counter(reactor)
    seen: list[int] = []
    counter.register(reader, READABLE)
    # Native handlers of a turn run before Python's, whatever the order of registration.
    reactor.register(other, READABLE, lambda fd, events: seen.append(counter.calls))
    os.write(writer, b"x")
    os.write(other_writer, b"x")
    assert reactor.run_once(0) == 2
    assert seen == [1]
    assert counter.events == READABLE


def test_who_is_still_ready_gets_another_share_behind_the_others(plain: Make, pipe: Pipe) -> None:
    reactor = plain(poller="epoll")
    reader, writer = pipe()
    other, other_writer = pipe()
    counter = Counter(reactor, again=4)
    # An edge: the poller reports it once, the rest is the loop's memory.
    counter.register(reader, READABLE, edge=True)
    calls: list[int] = []
    reactor.register(other, READABLE, lambda fd, events: calls.append(counter.calls))
    os.write(writer, b"x")
    os.write(other_writer, b"x")
    for _ in range(8):
        reactor.run_once(0)
    assert counter.calls == 5
    assert calls == [1, 2, 3, 4, 5, 5, 5, 5]


def test_a_loop_with_somebody_still_ready_does_not_sleep(plain: Make, pipe: Pipe) -> None:
    reactor = plain(poller="epoll")
    reader, writer = pipe()
    counter = Counter(reactor, again=100)
    counter.register(reader, READABLE, edge=True)
    os.write(writer, b"x")
    reactor.run_once(0)
    for _ in range(100):
        assert reactor.run_once(DEADLINE_S) == 1
    assert reactor.stats().waits == 0
    assert counter.calls == 101


def test_those_still_ready_are_served_a_batch_a_turn(plain: Make, pipe: Pipe) -> None:
    reactor = plain(poller="epoll", policy=Policy(ready_batch=2))
    counters = []
    for _ in range(5):
        reader, writer = pipe()
        counter = Counter(reactor, again=1_000)
        counter.register(reader, READABLE, edge=True)
        os.write(writer, b"x")
        counters.append(counter)
    for _ in range(100):
        reactor.run_once(0)
    calls = [counter.calls for counter in counters]
    assert max(calls) - min(calls) <= 3
    assert reactor.stats().ready_left > 0


def test_a_deregistered_native_handler_is_not_called_again(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    counter = Counter(reactor, again=10)
    counter.register(reader, READABLE)
    os.write(writer, b"x")
    reactor.run_once(0)
    deregister_native(reactor, reader)
    reactor.run_once(0)
    assert counter.calls == 1
    with pytest.raises(BadDescriptor, match=f"descriptor {reader} has no native registration"):
        deregister_native(reactor, reader)
    assert reactor.stats().registered == 0


def test_a_native_handler_replaced_by_python_and_back(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    os.write(writer, b"x")
    counter = Counter(reactor, again=10)
    seen: list[int] = []
    counter.register(reader, READABLE)
    reactor.run_once(0)
    reactor.register(reader, READABLE, lambda fd, events: seen.append(events))
    with pytest.raises(BadDescriptor):
        deregister_native(reactor, reader)
    reactor.run_once(0)
    counter.register(reader, READABLE)
    reactor.run_once(0)
    assert seen == [READABLE]
    assert counter.calls == 2
    assert reactor.stats().registered == 1


def test_native_timers(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock, policy=Policy(timers_max=3))
    once, often = NativeTimer(reactor, 5_000), NativeTimer(reactor, 2_000, 2_000)
    cancelled = NativeTimer(reactor, 1_000)
    with pytest.raises(Overflow):
        NativeTimer(reactor, 1_000)
    assert cancelled.cancel()
    assert not cancelled.cancel()
    while clock.now_ns() < 10_000:
        reactor.run_once(1e-5)
    assert (once.calls, often.calls, cancelled.calls) == (1, 5, 0)
    assert (once.last_ns, often.last_ns) == (5_000, 10_000)
    assert reactor.stats().python_turns == 0


def test_echo_without_the_interpreter(reactor: Reactor, keep: contextlib.ExitStack, spawn: Spawn) -> None:
    listener = keep.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
    listener.setblocking(False)
    echo = EchoServer(reactor, listener.fileno())
    answers: list[bytes] = []

    def client() -> None:
        with contextlib.ExitStack() as clients:
            peers = [
                clients.enter_context(socket.create_connection(listener.getsockname(), DEADLINE_S)) for _ in range(100)
            ]
            for number, peer in enumerate(peers):
                peer.sendall(b"%04d" % number)
            answers.extend(peer.recv(4) for peer in peers)
        reactor.stop()

    worker = spawn(client)
    reactor.run()
    join(worker)
    assert answers == [b"%04d" % number for number in range(100)]
    assert echo.counters()["accepted"] == 100
    assert echo.counters()["received_bytes"] == 400
    assert reactor.stats().python_turns == 0
    # The ends of the connections are seen too.
    while echo.counters()["closed"] < 100:
        reactor.run_once(DEADLINE_S)
    assert reactor.stats().registered == 1


def test_accepting_stops_at_its_budget(reactor: Reactor, keep: contextlib.ExitStack) -> None:
    listener = keep.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
    listener.setblocking(False)
    echo = EchoServer(reactor, listener.fileno(), accept_budget=30)
    peers = [keep.enter_context(socket.create_connection(listener.getsockname())) for _ in range(100)]
    accepted = []
    for _ in range(4):
        reactor.run_once(0)
        accepted.append(echo.counters()["accepted"])
    assert accepted == [30, 60, 90, 100]
    # Nothing stays open: the server closes a connection when its peer has.
    for peer in peers:
        peer.close()
    while echo.counters()["closed"] < 100:
        reactor.run_once(DEADLINE_S)


def test_an_adopted_connection_is_echoed_and_closed(reactor: Reactor, pair: Pair, keep: contextlib.ExitStack) -> None:
    listener = keep.enter_context(socket.create_server(("127.0.0.1", 0)))
    echo = EchoServer(reactor, listener.fileno())
    near, far = pair()
    fd = near.detach()
    echo.adopt(fd)
    far.send(b"hello")
    reactor.run_once(0)
    assert far.recv(10) == b"hello"
    far.close()
    reactor.run_once(0)
    assert echo.counters()["closed"] == 1
    assert not reactor.is_registered(fd)
