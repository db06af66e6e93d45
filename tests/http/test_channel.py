"""What a worker and its parent say to each other arrives whole, or not at all."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any

import pytest

from penstock import Reactor, limits
from penstock.http.channel import Channel
from tests.net.rig import turn_until


class Ears:
    def __init__(self, reactor: Reactor, end: socket.socket) -> None:
        self.heard: list[dict[str, Any]] = []
        self.ended = 0
        self.channel = Channel(reactor, end, self.heard.append, self._end)

    def _end(self) -> None:
        self.ended += 1


def test_messages_arrive_in_order_and_the_end_is_told_once() -> None:
    with Reactor() as reactor:
        one, two = (Ears(reactor, end) for end in socket.socketpair())
        for number in range(100):
            one.channel.say(number=number)
        one.channel.close()
        turn_until(reactor, lambda: two.ended)
        assert two.heard == [{"number": number} for number in range(100)]
        assert (one.ended, two.ended) == (1, 1)
        two.channel.say(late=True)


def test_messages_are_put_together_from_any_pieces() -> None:
    with Reactor() as reactor:
        plain, end = socket.socketpair()
        ears = Ears(reactor, end)
        data = b"".join(json.dumps({"number": number}).encode() + b"\n" for number in range(5))
        with plain:
            for at in range(len(data)):
                plain.sendall(data[at : at + 1])
                reactor.run_once(0)
            turn_until(reactor, lambda: len(ears.heard) == 5)


@pytest.mark.parametrize(
    "nonsense",
    [b"hello\n", b"[1]\n", b"\xff\n", b"x" * (limits.HTTP_CHANNEL_MAX_BYTES + 1)],
    ids=["text", "list", "bytes", "long"],
)
def test_nonsense_ends_the_channel(nonsense: bytes) -> None:
    with Reactor() as reactor:
        plain, end = socket.socketpair()
        ears = Ears(reactor, end)
        with plain:
            plain.setblocking(False)
            view = memoryview(nonsense)
            while not ears.ended:
                with contextlib.suppress(OSError):
                    view = view[plain.send(view) :] if view else view
                reactor.run_once(0)
        assert ears.heard == []


def test_who_does_not_listen_is_not_talked_to_without_end() -> None:
    with Reactor() as reactor:
        plain, end = socket.socketpair()
        ears = Ears(reactor, end)
        with plain:
            for _ in range(1_000):
                ears.channel.say(filler="x" * 10_000)
                reactor.run_once(0)
            ears.channel.say(filler="x" * (limits.HTTP_CHANNEL_MAX_BYTES + 1))
            assert not ears.channel.ended
            # Whatever did arrive is whole lines.
            ears.channel.close()
            plain.setblocking(False)
            data = b""
            while not ears.ended or not data.endswith(b"\n"):
                with contextlib.suppress(BlockingIOError):
                    data += plain.recv(1 << 20)
                reactor.run_once(0)
            assert all(json.loads(line) == {"filler": "x" * 10_000} for line in data.splitlines())
