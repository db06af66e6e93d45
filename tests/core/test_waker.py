"""The waker: readable from the first wake until it is drained, however often it was woken."""

from __future__ import annotations

import os
import select
import stat
import threading

import pytest

from penstock import Policy, Reactor
from penstock.core.waker import Waker


def readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


@pytest.mark.parametrize("wakes", [1, 2, 1_000])
def test_many_wakes_are_one(wakes: int) -> None:
    waker = Waker()
    fd = waker.fileno()
    assert not readable(fd)
    for _ in range(wakes):
        waker.wake()
    assert readable(fd)
    waker.drain()
    assert not readable(fd)
    waker.drain()
    waker.wake()
    assert readable(fd)
    waker.close()


def test_it_wakes_another_thread() -> None:
    waker = Waker()
    woken = threading.Event()

    def sleep() -> None:
        poll = select.poll()
        poll.register(waker.fileno(), select.POLLIN)
        if poll.poll(10_000):
            woken.set()

    thread = threading.Thread(target=sleep)
    thread.start()
    waker.wake()
    thread.join(10)
    assert woken.is_set()
    waker.close()


def test_it_is_closed_once_and_not_inherited() -> None:
    waker = Waker()
    fd = waker.fileno()
    assert not os.get_inheritable(fd)
    assert not os.get_blocking(fd)
    waker.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert waker.fileno() == -1
    waker.close()
    # Nobody is there any more: nothing happens.
    waker.wake()
    waker.drain()


def test_one_that_is_forgotten_closes_its_descriptor() -> None:
    waker = Waker()
    fd = waker.fileno()
    del waker
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_reactor_can_do_without_an_eventfd() -> None:
    """Then it is a pipe, whose two ends differ; posts wake the loop as well."""
    for eventfd in (True, False):
        with Reactor(policy=Policy(use_eventfd=eventfd)) as reactor:
            poster = threading.Timer(0.01, reactor.defer_threadsafe, (reactor.stop,))
            poster.start()
            reactor.run()
            poster.join()
    waker = Waker(eventfd=False)
    assert stat.S_ISFIFO(os.fstat(waker.fileno()).st_mode)
    waker.wake()
    assert readable(waker.fileno())
    waker.drain()
    assert not readable(waker.fileno())
    waker.close()
