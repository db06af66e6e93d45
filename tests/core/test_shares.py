"""A native handler gets one share per turn, however it asks for more."""

from __future__ import annotations

import os

from penstock import READABLE, Reactor
from penstock.testing.native import Counter


def test_who_stops_at_its_share_waits_for_the_next_turn() -> None:
    read_end, write_end = os.pipe()
    with Reactor() as reactor:
        counter = Counter(reactor, again=3)
        counter.register(read_end, READABLE, True)
        os.write(write_end, b"x")
        calls = []
        for _ in range(5):
            reactor.run_once(0)
            calls.append(counter.calls)
        assert calls == [1, 2, 3, 4, 4]
    os.close(read_end)
    os.close(write_end)
