"""Operations, streams and datagrams whose system calls fail: `python faulty_work.py WHAT POLLER MODE SEED PER_MILLE KINDS`,
with faults.c preloaded.

WHAT is "move": everything that moves bytes does so, and each byte is compared; "wake": a thread hands work to a loop that
sleeps; or "open": things are made and closed again and again, and what cannot be made says so. It prints what struck, as
one line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from penstock import Policy, Reactor
from penstock.errors import PenstockError
from penstock.net import Datagram, Descriptor, Listener, StreamOptions, connect

PATIENCE_S = 60
ROUNDS = 3
OPENINGS = 60
WAKES = 60
# Little enough for many calls per transfer.
SMALL_BYTES = 8_192
MUCH = bytes(range(251)) * 400
KINDS = ("interrupt", "block", "short", "reset", "starve", "poll", "refuse")

library = ctypes.CDLL(None)
library.faults_arm.argtypes = (ctypes.c_uint64, ctypes.c_int, ctypes.c_int)
library.faults_struck.restype = library.faults_struck_at.restype = ctypes.c_long
library.faults_calls.restype = ctypes.c_char_p


class Work:
    """Some transfers on one loop, which goes on until all of them are done."""

    def __init__(self, reactor: Reactor, edge: bool) -> None:
        self.reactor = reactor
        self.edge = edge
        self.open = 0
        self.things = ExitStack()

    def descriptor(self, what: Any) -> Descriptor:
        one = Descriptor(self.reactor, what, edge=self.edge)
        self.things.callback(one.close)
        return one

    def done(self, error: Any = None, _result: Any = None) -> None:
        assert error is None, error
        self.open -= 1

    def read_all(self, one: Descriptor, wanted: bytes) -> None:
        """Read until it is all there; every other time into memory of ours, and after a wait."""
        self.open += 1
        got = bytearray()
        room = bytearray(7_000)

        def came(error: Any, result: Any) -> None:
            assert error is None, error
            got.extend(room[:result] if isinstance(result, int) else result)
            assert wanted.startswith(got), "other bytes than were sent"
            if len(got) < len(wanted):
                go_on()
            else:
                self.done()

        def go_on() -> None:
            if len(got) % 2:
                one.wait("read", lambda error, _: one.read_into(room, came) if not error else came(error, None))
            else:
                one.read(5_000, came)

        go_on()

    def until_done(self) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while self.open:
            assert time.monotonic() < deadline_s, f"{self.open} transfers never end"
            self.reactor.run_once(0.01)
        self.things.close()
        self.reactor.run_once(0)

    # ---- what is moved ----------------------------------------------------------------------------------------------

    def tcp(self) -> None:
        """accept, connect, write, read, sendfile."""
        listening = socket.create_server(("127.0.0.1", 0))
        listener = self.descriptor(listening)
        caller = socket.socket()
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BYTES)
        client = self.descriptor(caller)
        source = tempfile.TemporaryFile()  # noqa: SIM115 - open until everything is sent
        self.things.callback(source.close)
        source.write(MUCH)
        source.flush()
        self.open += 4

        def accepted(error: Any, result: Any) -> None:
            self.done(error)
            result[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BYTES)
            server = self.descriptor(result[0])
            self.read_all(server, MUCH)
            server.sendfile(source.fileno(), self.done, offset=0, count=len(MUCH))

        def connected(error: Any, _result: Any) -> None:
            self.done(error)
            self.read_all(client, MUCH)
            client.write(MUCH, self.done)

        listener.accept(accepted)
        client.connect(listening.getsockname(), connected)

    def pipe(self) -> None:
        ends = os.pipe()
        reader, writer = (
            self.descriptor(os.fdopen(end, "rb" if end == ends[0] else "wb", buffering=0)) for end in ends
        )
        self.open += 1
        self.read_all(reader, MUCH)
        writer.write(MUCH, self.done)

    def messages(self) -> None:
        """sendmsg and recvmsg, in pieces, one of which brings a descriptor."""
        one, two = map(self.descriptor, socket.socketpair())
        self.open += 2
        got = bytearray()
        left = memoryview(MUCH)
        came: list[int] = []

        def sent(error: Any, count: Any) -> None:
            nonlocal left
            assert error is None, error
            left = left[count:]
            if left:
                one.sendmsg([left[:3_000], left[3_000:9_000]], sent)
            else:
                self.done()

        def received(error: Any, message: Any) -> None:
            assert error is None, error
            got.extend(message.data)
            came.extend(message.descriptors)
            if len(got) < len(MUCH):
                two.recvmsg(8_000, received, descriptors=1)
                return
            assert got == MUCH
            assert [os.fstat(number).st_ino for number in came] == [os.fstat(1).st_ino]
            os.close(came[0])
            self.done()

        one.sendmsg([left[:10]], sent, descriptors=[1])
        two.recvmsg(8_000, received, descriptors=1)

    def datagrams(self) -> None:
        """20 there, each answered."""
        one, two = (Datagram(self.reactor, ("127.0.0.1", 0)) for _ in range(2))
        self.things.callback(one.close)
        self.things.callback(two.close)
        self.open += 1
        expected = [b"%d" % number for number in range(20)]
        got: list[bytes] = []

        def answered(data: bytes, _address: Any) -> None:
            got.append(data)
            if len(got) == len(expected):
                assert got == expected
                self.done()

        one.on_datagram = answered
        two.on_datagram = two.send
        for data in expected:
            one.send(data, two.address)

    def streams(self) -> None:
        """A stream to a listener that echoes, both of them watching edges or levels."""
        options = StreamOptions(mode="et" if self.edge else "lt")

        def echo(stream: Any) -> None:
            stream.on_data = stream.write

        listener = Listener(self.reactor, ("127.0.0.1", 0), echo, options=options)
        self.things.callback(listener.close)
        self.open += 1
        got = bytearray()

        def came(data: bytes) -> None:
            got.extend(data)
            if len(got) == len(MUCH):
                assert got == MUCH
                self.done()

        address = listener.address
        assert address is not None
        stream = connect(self.reactor, address, options=options, on_data=came)
        self.things.callback(stream.close)
        stream.write((MUCH[:7], MUCH[7:]))


def move(poller: Any, edge: bool, eventfd: bool) -> None:
    with Reactor(poller, policy=Policy(use_eventfd=eventfd)) as reactor:
        for _ in range(ROUNDS):
            work = Work(reactor, edge)
            for begin in (work.tcp, work.pipe, work.messages, work.datagrams, work.streams):
                begin()
            work.until_done()


def wake(poller: Any, eventfd: bool) -> None:
    """Another thread hands work over, each time when the last was done: a wake that is lost ends this for good."""
    with Reactor(poller, policy=Policy(use_eventfd=eventfd)) as reactor:
        done = threading.Semaphore(0)

        def hand_over() -> None:
            for _ in range(WAKES):
                reactor.defer_threadsafe(done.release)
                done.acquire()
            reactor.stop()

        thread = threading.Thread(target=hand_over, daemon=True)
        thread.start()
        reactor.run()
        thread.join()


def open_and_close(poller: Any, eventfd: bool) -> Iterator[BaseException]:
    """Make one of each, from whatever can be made; what cannot be is yielded."""
    here, there = socket.socketpair()
    with here, there, ExitStack() as things:
        try:
            reactor = things.enter_context(Reactor(poller, policy=Policy(use_eventfd=eventfd), on_error=lambda _: None))
        except (OSError, PenstockError) as error:
            yield error
            return
        makers: tuple[Callable[[], Any], ...] = (
            lambda: Descriptor(reactor, here),
            lambda: Datagram(reactor, ("127.0.0.1", 0)),
            lambda: Listener(reactor, ("127.0.0.1", 0), lambda stream: None),
            lambda: connect(reactor, ("127.0.0.1", 9)),
        )
        for make in makers:
            try:
                things.callback(make().close)
            except (OSError, PenstockError) as error:
                yield error
        reactor.run_once(0)


def main(what: str, poller: Any, mode: str, seed: int, per_mille: int, kinds: int) -> None:
    counted: dict[str, Any] = {"refusals": []}
    before = set(os.listdir("/proc/self/fd"))
    library.faults_arm(seed, per_mille, kinds)
    if what == "move":
        move(poller, mode == "et", seed % 2 == 0)
    elif what == "wake":
        wake(poller, seed % 2 == 0)
    else:
        for number in range(OPENINGS):
            counted["refusals"] += map(str, open_and_close(poller, number % 2 == 0))
    library.faults_arm(0, 0, 0)
    counted["left"] = sorted(set(os.listdir("/proc/self/fd")) - before)
    calls = library.faults_calls().decode().split()
    counted["struck"] = {kind: library.faults_struck(index) for index, kind in enumerate(KINDS)}
    counted["struck_at"] = {call: library.faults_struck_at(index) for index, call in enumerate(calls)}
    print(json.dumps(counted))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
