"""Descriptors on real pollers: the classic traps of event loops, each of them once."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections.abc import Callable

import pytest

from penstock import ERROR, HANGUP, READABLE, WRITABLE, BadDescriptor, Policy, Reactor, Unsupported
from penstock.stats import ErrorReport

Pipe = Callable[[], tuple[int, int]]
Pair = Callable[[], tuple[socket.socket, socket.socket]]
Make = Callable[..., Reactor]

MANY = 10_000


class Calls(list[tuple[int, int]]):
    """A callback that remembers its calls."""

    def __call__(self, fd: int, events: int) -> None:
        self.append((fd, events))


# ---- what is reported ------------------------------------------------------------------------------------------------


def test_events_are_reported_as_they_are(reactor: Reactor, pair: Pair) -> None:
    near, far = pair()
    calls = Calls()
    fd = near.fileno()
    reactor.register(near, READABLE | WRITABLE, calls)
    reactor.run_once(0)
    far.send(b"x")
    reactor.run_once(0)
    reactor.modify(near, READABLE)
    reactor.run_once(0)
    assert calls == [(fd, WRITABLE), (fd, READABLE | WRITABLE), (fd, READABLE)]


def test_a_hang_up_is_told_when_everything_is_read(reactor: Reactor, pair: Pair) -> None:
    near, far = pair()
    calls = Calls()
    reactor.register(near, READABLE, calls)
    far.send(b"last words")
    far.close()
    reactor.run_once(0)
    assert calls.pop() == (near.fileno(), READABLE)
    near.recv(100)
    reactor.run_once(0)
    assert calls.pop() == (near.fileno(), READABLE | HANGUP)


def test_the_reading_end_of_a_pipe_is_gone(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    calls = Calls()
    reactor.register(writer, WRITABLE, calls)
    os.close(reader)
    reactor.run_once(0)
    assert calls
    assert calls[0][1] & ERROR


def test_without_interest_nothing_but_trouble_is_told(plain: Make, pair: Pair) -> None:
    reactor = plain(poller="epoll")
    near, far = pair()
    calls = Calls()
    reactor.register(near, 0, calls)
    far.send(b"x")
    assert reactor.run_once(0) == 0
    far.close()
    reactor.run_once(0)
    assert calls == [(near.fileno(), HANGUP)]


# ---- edge-triggered --------------------------------------------------------------------------------------------------


def test_a_single_read_under_edge_triggering_stalls_and_a_drain_does_not(plain: Make, pair: Pair) -> None:
    reactor = plain(poller="epoll")
    received = {"single": b"", "drain": b""}
    pairs = {name: pair() for name in received}

    def single(fd: int, events: int) -> None:
        received["single"] += os.read(fd, 1)

    def drain(fd: int, events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                received["drain"] += os.read(fd, 1)

    for name, callback in (("single", single), ("drain", drain)):
        reactor.register(pairs[name][0], READABLE, callback, edge=True)
        pairs[name][1].send(b"abc")
    for _ in range(5):
        reactor.run_once(0)
    assert received == {"single": b"a", "drain": b"abc"}
    # Only new data makes another edge.
    pairs["single"][1].send(b"d")
    reactor.run_once(0)
    assert received["single"] == b"ab"


def test_a_poller_without_edges_says_so(plain: Make, pair: Pair) -> None:
    near, _ = pair()
    reactor = plain(poller="select")
    with pytest.raises(Unsupported, match=r"'select' knows no edge-triggered.*edge=False"):
        reactor.register(near, READABLE, Calls(), edge=True)
    assert not reactor.is_registered(near)
    reactor.register(near, READABLE, Calls())


# ---- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drain", [True, False])
def test_a_burst_of_100_connections_between_two_polls(
    make: Make, keep: contextlib.ExitStack, drain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reactor = make()
    listener = keep.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
    listener.setblocking(False)
    accepted: list[socket.socket] = []

    def accept(fd: int, events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                accepted.append(keep.enter_context(listener.accept()[0]))
                if not drain:
                    return

    reactor.register(listener, READABLE, accept)
    for _ in range(100):
        keep.enter_context(socket.create_connection(listener.getsockname()))
    turns = 0
    while len(accepted) < 100:
        assert reactor.run_once(0) == 1
        turns += 1
    assert turns == (1 if drain else 100)
    assert reactor.run_once(0) == 0


@pytest.mark.parametrize("also_close", [True, False])
def test_two_are_ready_and_one_closes_the_other(reactor: Reactor, pipe: Pipe, also_close: bool) -> None:
    readers: list[int] = []
    called: list[int] = []

    def close_the_other(fd: int, events: int) -> None:
        called.append(fd)
        other = readers[1 - readers.index(fd)]
        reactor.deregister(other)
        if also_close:
            os.close(other)

    for _ in range(2):
        reader, writer = pipe()
        readers.append(reader)
        os.write(writer, b"x")
        reactor.register(reader, READABLE, close_the_other)
    assert reactor.run_once(0) == 1
    assert len(called) == 1
    assert reactor.stats().stale == 1


def test_an_event_never_reaches_the_next_owner_of_a_number(reactor: Reactor, pipe: Pipe) -> None:
    fresh = Calls()
    readers: list[int] = []
    quiet, _ = pipe()

    def reuse_the_other(fd: int, events: int) -> None:
        other = readers[1 - readers.index(fd)]
        reactor.deregister(other)
        os.dup2(quiet, other)
        reactor.register(other, READABLE, fresh)

    for _ in range(2):
        reader, writer = pipe()
        readers.append(reader)
        os.write(writer, b"x")
        reactor.register(reader, READABLE, reuse_the_other)
    reactor.run_once(0)
    assert fresh == []
    assert reactor.stats().registered == 2
    for reader in readers:
        os.close(reader)


def test_interest_that_is_lost_in_the_batch_is_not_served(reactor: Reactor, pipe: Pipe) -> None:
    readers: list[int] = []
    called: list[int] = []

    def silence_the_other(fd: int, events: int) -> None:
        called.append(fd)
        reactor.modify(readers[1 - readers.index(fd)], 0)

    for _ in range(2):
        reader, writer = pipe()
        readers.append(reader)
        os.write(writer, b"x")
        reactor.register(reader, READABLE, silence_the_other)
    reactor.run_once(0)
    reactor.run_once(0)
    assert called in ([readers[0]] * 2, [readers[1]] * 2)


def test_a_callback_deregisters_everything(reactor: Reactor, pipe: Pipe) -> None:
    readers: list[int] = []
    called: list[int] = []

    def end(fd: int, events: int) -> None:
        called.append(fd)
        for reader in readers:
            reactor.deregister(reader)

    for _ in range(20):
        reader, writer = pipe()
        readers.append(reader)
        os.write(writer, b"x")
        reactor.register(reader, READABLE, end)
    reactor.run(keep_alive=False)
    assert len(called) == 1
    assert reactor.stats().registered == 0


def test_ten_thousand_descriptors(plain: Make, keep: contextlib.ExitStack) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < MANY + 500:
        pytest.skip(f"this system allows a process {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} descriptors only")
    reactor = plain(poller="epoll")
    calls: dict[int, int] = {}

    def ready(fd: int, events: int) -> None:
        os.eventfd_read(fd)
        calls[fd] = calls.get(fd, 0) + 1

    fds = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(MANY)]
    for fd in fds:
        keep.callback(os.close, fd)
        reactor.register(fd, READABLE, ready)
    assert reactor.stats().registered == MANY
    chosen = {fds[0], fds[MANY // 2], fds[-1]}
    for fd in chosen:
        os.eventfd_write(fd, 1)
    assert reactor.run_once(0) == 3
    assert set(calls) == chosen
    for fd in fds:
        os.eventfd_write(fd, 1)
    while sum(calls.values()) < MANY + 3:
        assert 0 < reactor.run_once(0) <= reactor.policy.ready_batch
    assert calls.keys() == set(fds)
    for fd in fds:
        reactor.deregister(fd)
    assert reactor.run_once(0) == 0


def test_select_says_where_it_ends(plain: Make, keep: contextlib.ExitStack) -> None:
    high = 1_024
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= high:
        pytest.skip("this system allows a process no descriptor that select cannot watch")
    reader, writer = os.pipe()
    keep.callback(os.close, reader)
    keep.callback(os.close, writer)
    keep.callback(os.close, os.dup2(reader, high))
    with pytest.raises(Unsupported, match=r"cannot watch descriptor 1024: it ends at 1,023; use poller='epoll'"):
        plain(poller="select").register(high, READABLE, Calls())


# ---- changes ---------------------------------------------------------------------------------------------------------


def test_a_change_there_and_back_makes_no_system_call(reactor: Reactor, pair: Pair) -> None:
    near, _ = pair()
    reactor.register(near, READABLE, Calls())

    def there_and_back() -> None:
        for _ in range(10):
            reactor.modify(near, READABLE | WRITABLE)
            reactor.modify(near, READABLE)

    reactor.set_timeout(0, there_and_back)
    there_and_back()
    reactor.run_once(0)
    reactor.run_once(0)
    assert reactor.stats().changes == 0
    reactor.modify(near, WRITABLE)
    reactor.modify(near, WRITABLE | READABLE)
    reactor.run_once(0)
    assert reactor.stats().changes == 1


def test_a_change_of_a_closed_descriptor_is_reported(make: Make, pipe: Pipe) -> None:
    reports: list[ErrorReport] = []
    reactor = make(on_error=reports.append)
    reader, _ = pipe()
    reactor.register(reader, READABLE, Calls())
    os.close(reader)
    reactor.modify(reader, WRITABLE)
    reactor.run_once(0)
    reactor.run_once(0)
    [report] = reports
    assert isinstance(report.error, BadDescriptor)
    assert str(report.error) == (
        f"descriptor {reader} was closed while it is registered; deregister it before closing it"
    )
    assert (report.handler, report.step) == ("modify", "changes")
    assert reactor.stats().changes_failed == 1


def test_registering_again_begins_a_new_life(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    old, new = Calls(), Calls()
    reactor.register(reader, READABLE, old)
    os.write(writer, b"x")
    reactor.register(reader, READABLE, new)
    reactor.run_once(0)
    assert (old, new) == ([], [(reader, READABLE)])
    assert reactor.stats().registered == 1


def test_a_callback_replaces_itself(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    os.write(writer, b"x")
    calls = Calls()
    reactor.register(reader, READABLE, lambda fd, events: reactor.register(fd, READABLE, calls))
    reactor.run_once(0)
    assert calls == []
    reactor.run_once(0)
    assert calls == [(reader, READABLE)]


# ---- closed behind the back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reused", [True, False])
def test_closed_while_a_duplicate_is_open_does_not_spin_for_ever(plain: Make, pipe: Pipe, reused: bool) -> None:
    reactor = plain(poller="epoll")
    reader, writer = pipe()
    quiet, other_writer = pipe()
    other, live_writer = pipe()
    calls, live = Calls(), Calls()
    reactor.register(other, READABLE, live)
    reactor.register(reader, READABLE, Calls())
    os.write(writer, b"x")
    duplicate = os.dup(reader)
    os.close(reader)
    if reused:
        # Another file gets the number, and is registered in its place.
        os.dup2(quiet, reader)
        reactor.register(reader, READABLE, calls)
    else:
        reactor.deregister(reader)
    turns = 0
    while reactor.stats().poller_resets == 0:
        assert reactor.run_once(0) == 0
        turns += 1
        assert turns < 100
    # The kernel has forgotten the duplicate, and nothing else.
    polled = reactor.stats().ready
    assert reactor.run_once(0) == 0
    assert reactor.stats().ready == polled
    os.write(live_writer, b"x")
    os.write(other_writer, b"x")
    reactor.run_once(0)
    assert live == [(other, READABLE)]
    assert calls == ([(reader, READABLE)] if reused else [])
    os.close(duplicate)
    if reused:
        reactor.deregister(reader)
        os.close(reader)


def test_a_reset_keeps_interest_and_changes_that_wait(plain: Make, pipe: Pipe, pair: Pair) -> None:
    reactor = plain(poller="epoll")
    reader, writer = pipe()
    near, _ = pair()
    calls = Calls()
    reactor.register(near, 0, calls)
    reactor.register(reader, READABLE, Calls())
    os.write(writer, b"x")
    duplicate = os.dup(reader)
    os.close(reader)
    reactor.deregister(reader)
    for _ in range(15):
        reactor.run_once(0)
    assert reactor.stats().poller_resets == 0
    reactor.modify(near, WRITABLE)
    reactor.run_once(0)
    reactor.run_once(0)
    assert reactor.stats().poller_resets == 1
    assert (near.fileno(), WRITABLE) in calls
    os.close(duplicate)


def test_closed_without_being_deregistered_is_forgotten(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    other, other_writer = pipe()
    calls = Calls()
    reactor.register(reader, READABLE, Calls())
    reactor.register(other, READABLE, calls)
    os.write(writer, b"x")
    os.close(reader)
    os.write(other_writer, b"x")
    reactor.run_once(0)
    reactor.run_once(0)
    assert calls[-1] == (other, READABLE)
    reactor.deregister(reader)
    assert reactor.stats().registered == 1


# ---- the loop's own descriptors --------------------------------------------------------------------------------------


def test_the_loops_own_descriptors_cannot_be_touched(make: Make, keep: contextlib.ExitStack) -> None:
    before = set(os.listdir("/proc/self/fd"))
    reactor = make()
    own = [int(name) for name in set(os.listdir("/proc/self/fd")) - before if os.path.exists(f"/proc/self/fd/{name}")]
    assert len(own) >= 2
    for fd in own:
        assert not reactor.is_registered(fd)
        with pytest.raises(BadDescriptor, match=f"descriptor {fd} is not registered"):
            reactor.deregister(fd)
        with pytest.raises(BadDescriptor, match=f"descriptor {fd} is not registered"):
            reactor.modify(fd, READABLE)
    assert reactor.stats().registered == 0
    assert reactor.stats().registrations == 0
    reactor.run(keep_alive=False)


def test_the_table_ends_at_the_policy(make: Make, pipe: Pipe, keep: contextlib.ExitStack) -> None:
    reader, _ = pipe()
    high = 4_000
    keep.callback(os.close, os.dup2(reader, high))
    reactor = make(poller="epoll", policy=Policy(descriptors_max=high))
    with pytest.raises(Exception, match=rf"descriptor {high} is beyond the 4,000 .* raise descriptors_max") as caught:
        reactor.register(high, READABLE, Calls())
    assert caught.value.limit == "descriptors_max"  # type: ignore[attr-defined]
    reactor.register(reader, READABLE, Calls())
