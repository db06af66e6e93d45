"""Random operations, a fork in the middle of them, and more: in each process every callback is called exactly once."""

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
ACTIONS = st.tuples(
    st.sampled_from(("read", "write", "wait", "cancel", "cancel key", "close", "open", "turn")),
    st.integers(0, 2 * PAIRS - 1),
)


class Life:
    """Some descriptors, what was started at them, and what was told."""

    def __init__(self, reactor: Reactor) -> None:
        self.reactor = reactor
        self.started = 0
        self.told: Counter[int] = Counter()
        self.wrong: list[object] = []
        self.ends: list[Descriptor] = []
        for _ in range(PAIRS):
            self.ends += [Descriptor(reactor, end) for end in socket.socketpair()]

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
                self.ends[place] = Descriptor(self.reactor, fresh)
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


@pytest.mark.parametrize("poller", ["epoll", "select"])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    before=st.lists(ACTIONS, max_size=25), child=st.lists(ACTIONS, max_size=15), after=st.lists(ACTIONS, max_size=15)
)
def test_every_callback_is_called_once_in_both_processes(
    poller: str, before: list[tuple[str, int]], child: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    with Reactor(poller) as reactor:
        life = Life(reactor)
        for what, index in before:
            life.act(what, index)

        def grow_up() -> bool:
            reactor.after_fork()
            for what, index in child:
                life.act(what, index)
            return life.finish()

        assert in_a_child(grow_up) == 0
        for what, index in after:
            life.act(what, index)
        assert life.finish()
