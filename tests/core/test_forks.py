"""Random operations with forks in the middle of them: in each process every callback is called exactly once.

After a fork parent and child both go on with the rest of the program, forks included, each with what waited before.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import Reactor
from penstock.net import Descriptor
from penstock.net.operations import operation_counters

PAIRS = 3
# Each doubles the number of processes.
FORKS_MAX = 2
ACTIONS = st.tuples(
    st.sampled_from(("read", "write", "wait", "cancel", "cancel key", "close", "open", "turn")),
    st.integers(0, 2 * PAIRS - 1),
)
PROGRAMS = st.lists(st.lists(ACTIONS, max_size=20), min_size=2, max_size=1 + FORKS_MAX)


class Life:
    """Some descriptors, what was started at them, and what was told."""

    def __init__(self, reactor: Reactor, edge: bool) -> None:
        self.reactor = reactor
        self.edge = edge
        self.started = 0
        self.told: Counter[int] = Counter()
        self.wrong: list[object] = []
        self.ends: list[Descriptor] = []
        for _ in range(PAIRS):
            self.ends += [Descriptor(reactor, end, edge=edge) for end in socket.socketpair()]

    def callback(self) -> Callable[[Any, Any], None]:
        number = self.started
        self.started += 1

        def told(error: OSError | None, _result: Any) -> None:
            self.told[number] += 1
            if error and error.errno not in (errno.ECANCELED, errno.EBADF, errno.EPIPE, errno.ECONNRESET):
                self.wrong.append(error)

        return told

    def act(self, what: str, index: int) -> None:
        end = self.ends[index]
        if what == "read":
            end.read(100, self.callback(), key="key")
        elif what == "write":
            end.write(b"x" * 50_000, self.callback(), key="key")
        elif what == "wait":
            end.wait("read", self.callback())
        elif what == "cancel":
            end.cancel()
        elif what == "cancel key":
            end.cancel("read", "key")
        elif what == "close":
            end.close()
        elif what == "open":
            # The numbers are given out anew at once.
            self.ends[index].close()
            self.ends[index ^ 1].close()
            for place, fresh in zip((index, index ^ 1), socket.socketpair(), strict=True):
                self.ends[place] = Descriptor(self.reactor, fresh, edge=self.edge)
        else:
            self.reactor.run_once(0)

    def finish(self) -> bool:
        """Close everything, let everything be told, and say whether it was told once."""
        for end in self.ends:
            end.close()
        self.reactor.run(keep_alive=False)
        counted = operation_counters(self.reactor)
        told_once = len(self.told) == self.started and set(self.told.values()) <= {1}
        return (
            told_once and not self.wrong and (counted["operations"], counted["waiting"], counted["live"]) == (0, 0, 0)
        )


def in_a_child(work: Callable[[], bool]) -> int:
    """The exit status of a child: 0 if its work says so."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def live(life: Life, program: list[list[tuple[str, int]]]) -> bool:
    """Do the first part, fork, and do the rest in both processes; say whether all of it went well in all of them."""
    first, *rest = program
    for what, index in first:
        life.act(what, index)
    if not rest:
        return life.finish()

    def grow_up() -> bool:
        life.reactor.after_fork()
        return live(life, rest)

    return in_a_child(grow_up) == 0 and live(life, rest)


@pytest.mark.parametrize(("poller", "edge"), [("epoll", True), ("epoll", False), ("select", False)])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=PROGRAMS)
def test_every_callback_is_called_once_in_each_process(
    poller: str, edge: bool, program: list[list[tuple[str, int]]]
) -> None:
    with Reactor(poller) as reactor:
        assert live(Life(reactor, edge), program)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("poller", ["epoll", "select"])
def test_forks_with_something_waiting_in_every_queue(poller: str) -> None:
    """What the random programs are about: reads, a write and a wait that wait in three generations."""
    with Reactor(poller) as reactor:
        life = Life(reactor, poller == "epoll")
        begin = [(what, index) for index in range(2 * PAIRS) for what in ("wait", "read", "read")]
        begin += [("write", 0) for _ in range(8)]
        for what, index in begin:
            life.act(what, index)
        reactor.run_once(0)
        assert operation_counters(reactor)["waiting"] > 2 * PAIRS
        assert live(life, [[], [("cancel key", 1), ("turn", 0)], [("open", 2), ("read", 2), ("turn", 0)]])
