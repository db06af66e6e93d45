"""Streams: what is written arrives, what blocks waits within bounds, and every end is told once."""

from __future__ import annotations

import array
import socket
import struct
from contextlib import suppress

import pytest

from penstock import Overflow, Reactor, UsageError
from penstock.net import Stream, StreamOptions, counters, set_write_total
from penstock.net.buffer import total_bytes, total_limit
from penstock.net.options import Mode
from tests.net.rig import MODES, Log, drain, fill, pair, settle, tcp_pair, turn_until

both_modes = pytest.mark.parametrize("mode", MODES)


# ---- reading ---------------------------------------------------------------------------------------------------------


@both_modes
def test_what_is_sent_is_given_as_bytes(mode: Mode) -> None:
    with pair(mode=mode) as (reactor, log, far):
        far.send(b"hello")
        turn_until(reactor, lambda: log.data == b"hello")
        assert counters(reactor)["pool_bytes"] == 0


@both_modes
def test_a_share_bounds_what_one_stream_reads_in_a_turn(mode: Mode) -> None:
    with pair(mode=mode, share_bytes=1000) as (reactor, log, far):
        far.send(b"a" * 2500)
        seen = []
        for _ in range(4):
            reactor.run_once(0)
            seen.append(len(log.data))
        assert seen == [1000, 2000, 2500, 2500]


def test_a_share_of_operations_bounds_an_edge_triggered_stream() -> None:
    with Reactor() as reactor:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        log = Log(Stream(reactor, near, options=StreamOptions(mode="et", share_operations=3)))
        with far:
            for _ in range(7):
                far.send(b"p")
            reactor.run_once(0)
            assert log.data == b"ppp"
            turn_until(reactor, lambda: log.data == b"p" * 7)


@both_modes
def test_a_paused_stream_is_silent_and_loses_nothing(mode: Mode) -> None:
    with pair(mode=mode) as (reactor, log, far):
        far.send(b"1")
        turn_until(reactor, lambda: log.data)
        log.stream.pause()
        far.send(b"2")
        settle(reactor)
        assert log.data == b"1"
        log.stream.resume()
        turn_until(reactor, lambda: log.data == b"12")


@both_modes
def test_a_stream_paused_by_a_neighbour_of_the_same_batch_gets_no_data(mode: Mode) -> None:
    with Reactor() as reactor:
        ends = [socket.socketpair() for _ in range(2)]
        logs = [Log(Stream(reactor, near, options=StreamOptions(mode=mode))) for near, _ in ends]
        for log, other in zip(logs, reversed(logs), strict=True):
            log.stream.on_data = lambda data, log=log, other=other: (log.on_data(data), other.stream.pause())
        for _, far in ends:
            far.send(b"x")
        settle(reactor)
        told = [log for log in logs if log.data]
        assert len(told) == 1
        held = logs[1 - logs.index(told[0])]
        assert counters(reactor)["pool_bytes"] == 0
        held.stream.resume()
        turn_until(reactor, lambda: held.data == b"x")
        ends[logs.index(held)][1].send(b"y")
        turn_until(reactor, lambda: held.data == b"xy")
        for _, far in ends:
            far.close()


@both_modes
def test_the_end_comes_after_data_that_is_held(mode: Mode) -> None:
    with pair(mode=mode, eof=True) as (reactor, log, far):
        log.stream.on_data = None
        far.send(b"last words")
        settle(reactor)
        far.close()
        settle(reactor)
        assert log.events == []
        log.stream.on_data = log.on_data
        turn_until(reactor, lambda: "eof" in log.events)
        assert log.events[:2] == ["data", "eof"]
        assert log.data == b"last words"


@both_modes
def test_a_paused_stream_whose_peer_has_gone_does_not_spin(mode: Mode) -> None:
    with pair(mode=mode) as (reactor, log, far):
        log.stream.pause()
        far.send(b"unread")
        far.close()
        settle(reactor)
        before = reactor.stats().ready
        settle(reactor, 20)
        assert reactor.stats().ready == before
        log.stream.resume()
        turn_until(reactor, lambda: log.reason)
        assert (log.data, log.reason) == (b"unread", "eof")


def test_data_is_kept_until_somebody_wants_it() -> None:
    with Reactor() as reactor:
        near, far = socket.socketpair()
        stream = Stream(reactor, near)
        far.send(b"early")
        settle(reactor)
        log = Log(stream)
        turn_until(reactor, lambda: log.data == b"early")
        far.close()


@both_modes
def test_a_native_pool_that_is_full_makes_others_wait_a_turn(mode: Mode) -> None:
    with Reactor() as reactor:
        ends = [socket.socketpair() for _ in range(5)]
        options = StreamOptions(mode=mode, share_bytes=1 << 19)
        logs = [Log(Stream(reactor, near, options=options)) for near, _ in ends]
        for _, far in ends:
            far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            far.send(b"f" * 100_000)
        turn_until(reactor, lambda: all(len(log.data) == 100_000 for log in logs))
        assert counters(reactor)["pool_high_water"] <= 1 << 20
        for _, far in ends:
            far.close()


# ---- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"abcdef",
        bytearray(b"abcdef"),
        memoryview(b"abcdef"),
        memoryview(b"a_b_c_d_e_f")[::2],
        [b"abc", b"", bytearray(b"de"), memoryview(b"f")],
        (b"abcdef",),
        [b"a"] * 0 + [b"ab", b"cdef"],
        array.array("B", b"abcdef"),
        (piece for piece in [b"abc", b"def"]),
    ],
    ids=["bytes", "bytearray", "memoryview", "gaps", "list", "tuple", "two", "array", "generator"],
)
def test_everything_that_holds_bytes_can_be_written(data: object) -> None:
    with pair() as (reactor, log, far):
        assert log.stream.write(data)  # type: ignore[arg-type]
        assert far.recv(100) == b"abcdef"
        assert counters(reactor)["sends"] == 1


def test_a_long_sequence_is_one_system_call_too() -> None:
    with pair() as (reactor, log, far):
        assert log.stream.write([b"%03d" % number for number in range(500)])
        assert counters(reactor)["sends"] == 1
        assert far.recv(10_000) == b"".join(b"%03d" % number for number in range(500))


@pytest.mark.parametrize("data", ["text", ["text"], 7, [7], None])
def test_what_is_no_bytes_is_refused(data: object) -> None:
    with pair() as (_, log, _far), pytest.raises((TypeError, UsageError, ValueError)):
        log.stream.write(data)  # type: ignore[arg-type]


def test_nothing_is_nothing() -> None:
    with pair() as (reactor, log, _far):
        assert log.stream.write(b"")
        assert log.stream.write([b"", b""])
        assert log.stream.write([])
        assert counters(reactor)["sends"] == 0


@both_modes
def test_what_blocks_waits_and_arrives_in_order(mode: Mode) -> None:
    with pair(mode=mode, cap_bytes=1 << 20) as (reactor, log, far):
        written = b""
        number = 0
        while log.stream.write(piece := [struct.pack("!I", number), b"." * 1000]):
            written += b"".join(piece)
            number += 1
        written += b"".join(piece)
        assert log.stream.congested
        assert log.stream.waiting_bytes > 65_536
        assert drain(far, len(written), reactor) == written
        turn_until(reactor, lambda: "drain" in log.events)
        assert log.events == ["drain"]
        assert (log.stream.waiting_bytes, log.stream.buffer_bytes) == (0, 0)
        assert log.stream.write(b"more")


def test_nothing_that_does_not_block_touches_the_poller() -> None:
    with pair() as (reactor, log, far):
        log.stream.on_data = log.stream.write
        far.send(b"warm")
        settle(reactor)
        before = reactor.stats().changes
        for _ in range(50):
            far.send(b"ping")
            settle(reactor, 2)
        assert reactor.stats().changes == before


def test_write_interest_is_armed_once_and_disarmed_once() -> None:
    with pair(cap_bytes=1 << 20) as (reactor, log, far):
        written = fill(log.stream)
        settle(reactor)
        assert reactor.stats().changes == 1
        before = reactor.stats().ready
        settle(reactor, 20)
        assert reactor.stats().ready == before
        drain(far, written, reactor)
        settle(reactor)
        assert reactor.stats().changes == 2


@both_modes
def test_a_slow_peer_is_closed_by_default(mode: Mode) -> None:
    with pair(mode=mode) as (reactor, log, _far):
        while log.stream.state == "open":
            log.stream.write(b"x" * 10_000)
            assert log.stream.buffer_bytes <= 2 * 262_144
        assert not log.stream.write(b"late")
        assert not log.events
        turn_until(reactor, lambda: log.reason)
        assert log.reason == "slow peer"
        counted = counters(reactor)
        assert counted["ends"]["slow peer"] == 1
        assert counted["late_writes"] == 1
        assert counted["unsent_bytes"] > 200_000
        assert total_bytes() == 0


def test_a_full_buffer_can_refuse() -> None:
    with pair(overflow="reject", cap_bytes=100_000) as (reactor, log, far):
        written = 0
        while log.stream.waiting_bytes <= 90_000:
            log.stream.write(b"x" * 10_000)
            written += 10_000
        with pytest.raises(Overflow, match="cap_bytes") as refused:
            log.stream.write(b"x" * 10_000)
        assert (refused.value.limit, refused.value.capacity) == ("cap_bytes", 100_000)
        assert counters(reactor)["rejected_writes"] == 1
        assert len(drain(far, written, reactor)) == written
        turn_until(reactor, lambda: "drain" in log.events)
        with pytest.raises(Overflow):
            log.stream.write(b"x" * 100_001)
        assert log.stream.write(b"fits")


def test_a_full_buffer_can_drop_what_comes() -> None:
    with pair(overflow="drop-newest", cap_bytes=100_000) as (reactor, log, far):
        written = 0
        while not counters(reactor)["dropped_writes"]:
            written += 10_000
            log.stream.write(b"x" * 10_000)
        written -= 10_000
        assert len(drain(far, written, reactor)) == written
        settle(reactor)
        with pytest.raises(BlockingIOError):
            far.recv(1)
        assert log.stream.state == "open"


@pytest.mark.parametrize("overflow", ["close", "reject", "drop-newest"])
def test_all_write_buffers_together_have_a_limit(overflow: str) -> None:
    before = total_limit()
    set_write_total(1 << 17)
    try:
        with pair(overflow=overflow, high_bytes=1 << 20, cap_bytes=1 << 20) as (reactor, log, _far):
            refused = False
            while not refused and log.stream.state == "open":
                try:
                    log.stream.write(b"x" * 1000)
                except Overflow as full:
                    refused = full.limit == "WRITE_TOTAL_BYTES"
                assert total_bytes() <= 1 << 17
                refused |= counters(reactor)["dropped_writes"] > 0
            if overflow == "close":
                turn_until(reactor, lambda: log.reason)
                assert log.reason == "write memory"
        assert total_bytes() == 0
    finally:
        set_write_total(before)


# ---- ends ------------------------------------------------------------------------------------------------------------


@both_modes
def test_the_peer_ends_and_the_stream_closes(mode: Mode) -> None:
    with pair(mode=mode) as (reactor, log, far):
        far.send(b"bye")
        far.close()
        turn_until(reactor, lambda: log.reason)
        assert log.events == ["data", "close"]
        assert (log.reason, log.stream.state, log.stream.fileno()) == ("eof", "closed", -1)


@both_modes
def test_half_closed_by_the_peer(mode: Mode) -> None:
    with pair(mode=mode, eof=True) as (reactor, log, far):
        far.shutdown(socket.SHUT_WR)
        turn_until(reactor, lambda: log.events == ["eof"])
        settle(reactor)
        before = reactor.stats().ready
        settle(reactor, 20)
        assert reactor.stats().ready == before
        assert log.stream.write(b"answer")
        log.stream.close()
        turn_until(reactor, lambda: log.reason)
        assert (far.recv(10), far.recv(10), log.reason) == (b"answer", b"", "closed")


@both_modes
def test_half_closed_by_us_after_what_waits(mode: Mode) -> None:
    with pair(mode=mode, cap_bytes=1 << 20) as (reactor, log, far):
        written = fill(log.stream)
        log.stream.end_writing()
        log.stream.end_writing()
        with pytest.raises(UsageError, match="end_writing"):
            log.stream.write(b"too late")
        drain(far, written, reactor)
        turn_until(reactor, lambda: log.stream.waiting_bytes == 0)
        assert far.recv(1) == b""
        far.send(b"still heard")
        turn_until(reactor, lambda: log.data)
        far.close()
        turn_until(reactor, lambda: log.reason)
        assert (log.data, log.reason) == (b"still heard", "eof")


@both_modes
def test_close_sends_what_waits(mode: Mode) -> None:
    with pair(mode=mode, cap_bytes=1 << 20) as (reactor, log, far):
        written = fill(log.stream)
        log.stream.close()
        assert log.stream.state == "closing"
        assert not log.stream.write(b"late")
        assert len(drain(far, written, reactor)) == written
        turn_until(reactor, lambda: log.reason)
        assert (log.reason, far.recv(1)) == ("closed", b"")


@both_modes
def test_close_ends_in_time_against_a_dead_peer(mode: Mode) -> None:
    with pair(mode=mode, tcp=True, cap_bytes=1 << 23, high_bytes=1 << 22) as (reactor, log, far):
        fill(log.stream, b"x" * 65_536)
        log.stream.close(linger=0.05)
        turn_until(reactor, lambda: log.reason)
        assert log.reason == "linger"
        assert counters(reactor)["unsent_bytes"] > 0
        with pytest.raises(ConnectionResetError):
            drain(far, 1 << 30, reactor)


def test_close_does_not_call_back_at_once() -> None:
    with pair() as (reactor, log, _far):
        log.stream.close()
        log.stream.close()
        assert not log.events
        turn_until(reactor, lambda: log.reason)
        assert log.reason == "closed"
        log.stream.close()
        log.stream.abort()


def test_close_over_unread_data_is_no_reset() -> None:
    with pair(tcp=True) as (reactor, log, far):
        log.stream.pause()
        far.send(b"nobody reads this")
        log.stream.write(b"but you read this")
        settle(reactor)
        log.stream.close()
        turn_until(reactor, lambda: log.reason)
        assert (far.recv(100), far.recv(1)) == (b"but you read this", b"")
        assert counters(reactor)["unread_bytes"] == len(b"nobody reads this")


@both_modes
def test_abort_resets(mode: Mode) -> None:
    with pair(mode=mode, tcp=True) as (reactor, log, far):
        log.stream.write(b"never mind")
        log.stream.abort()
        turn_until(reactor, lambda: log.reason)
        assert log.reason == "aborted"
        far.setblocking(True)
        with pytest.raises(ConnectionResetError):
            list(iter(lambda: far.recv(100), b""))


@both_modes
def test_a_reset_is_an_end_with_an_error(mode: Mode) -> None:
    with pair(mode=mode, tcp=True) as (reactor, log, far):
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        turn_until(reactor, lambda: log.reason)
        assert log.reason == "reset"
        assert isinstance(log.stream.error, ConnectionResetError)


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_while_paused_is_an_end_too(mode: Mode) -> None:
    with pair(mode=mode, tcp=True) as (reactor, log, far):
        log.stream.pause()
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        turn_until(reactor, lambda: log.reason)
        assert log.reason == "reset"


def test_a_write_to_a_peer_that_has_gone_is_an_end() -> None:
    with pair() as (reactor, log, far):
        far.close()
        assert not log.stream.write(b"anybody?")
        assert not log.events
        turn_until(reactor, lambda: log.reason)
        assert log.reason == "reset"


def test_a_callback_that_fails_ends_its_stream_only() -> None:
    errors: list[str] = []
    with Reactor(on_error=lambda report: errors.append(str(report.error))) as reactor:
        ends = [socket.socketpair() for _ in range(2)]
        logs = [Log(Stream(reactor, near)) for near, _ in ends]

        def fails(_data: bytes) -> None:
            raise ValueError("no")

        logs[0].stream.on_data = fails
        for _, far in ends:
            far.send(b"x")
        turn_until(reactor, lambda: logs[0].reason and logs[1].data)
        assert (logs[0].reason, logs[1].reason, errors) == ("handler failed", None, ["no"])
        for _, far in ends:
            far.close()


def test_an_exception_that_leaves_the_loop_loses_nothing() -> None:
    with pair(eof=True) as (reactor, log, far):
        calls = []

        def interrupted(data: bytes) -> None:
            calls.append(data)
            raise KeyboardInterrupt

        log.stream.on_data = interrupted
        far.send(b"x")
        far.close()
        with pytest.raises(KeyboardInterrupt):
            turn_until(reactor, lambda: False)
        log.stream.on_data = log.on_data
        turn_until(reactor, lambda: log.reason)
        assert calls == [b"x"]


def test_a_closed_loop_ends_its_streams() -> None:
    near, far = socket.socketpair()
    with Reactor() as reactor:
        log = Log(Stream(reactor, near))
        number = log.stream.fileno()
        assert number >= 0
    assert (log.reason, log.stream.fileno()) == ("loop closed", -1)
    assert far.recv(1) == b""
    far.close()


def test_callbacks_may_close_in_the_middle_of_a_batch() -> None:
    with Reactor() as reactor:
        ends = [socket.socketpair() for _ in range(2)]
        logs = [Log(Stream(reactor, near)) for near, _ in ends]
        for log, other in zip(logs, reversed(logs), strict=True):
            log.stream.on_data = lambda data, log=log, other=other: (log.on_data(data), other.stream.abort())
        for _, far in ends:
            far.send(b"x")
        turn_until(reactor, lambda: any(log.reason for log in logs))
        assert sorted(len(log.data) for log in logs) == [0, 1]
        assert counters(reactor)["unread_bytes"] == 1
        assert counters(reactor)["pool_bytes"] == 0
        for _, far in ends:
            far.close()


# ---- deadlines -------------------------------------------------------------------------------------------------------


@both_modes
def test_an_idle_stream_ends_and_never_early(mode: Mode) -> None:
    with pair(mode=mode, idle=0.05) as (reactor, log, far):
        far.send(b"x")
        turn_until(reactor, lambda: log.data)
        active_ns = log.stream.active_ns
        turn_until(reactor, lambda: log.reason)
        assert log.reason == "idle"
        assert reactor.now_ns() - active_ns >= 50_000_000


def test_activity_costs_no_timer() -> None:
    with pair(idle=30) as (reactor, log, far):
        log.stream.on_data = log.stream.write
        for _ in range(20):
            far.send(b"x")
            settle(reactor, 2)
        stats = reactor.stats()
        assert (stats.timers, stats.timers_started, stats.timers_moved) == (1, 1, 0)
        log.stream.close()
        turn_until(reactor, lambda: log.reason)
        assert reactor.stats().timers == 0


def test_a_deadline_ends_also_who_is_busy() -> None:
    with pair(deadline=0.05) as (reactor, log, far):
        began_ns = reactor.now_ns()

        def over() -> bool:
            with suppress(OSError):
                far.send(b"x")
            return log.reason is not None

        turn_until(reactor, over)
        assert log.reason == "deadline"
        assert reactor.now_ns() - began_ns >= 50_000_000


def test_deadlines_can_be_changed() -> None:
    with pair(idle=3600) as (reactor, log, _far):
        log.stream.set_idle(None)
        log.stream.set_deadline(3600)
        log.stream.set_deadline(None)
        log.stream.set_idle(0.01)
        turn_until(reactor, lambda: log.reason)
        assert log.reason == "idle"


# ---- options ---------------------------------------------------------------------------------------------------------


def test_nagle_is_off_unless_asked_for() -> None:
    with Reactor() as reactor:
        for asked in (True, False):
            near, far = tcp_pair()
            number = near.fileno()
            Stream(reactor, near, options=StreamOptions(nodelay=asked, keepalive=30))
            look = socket.socket(fileno=number)
            assert bool(look.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) is asked
            assert look.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            look.detach()
            far.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "edge"},
        {"overflow": "block"},
        {"cap_bytes": 0},
        {"low_bytes": 10, "high_bytes": 5},
        {"idle": 0},
        {"deadline": -1},
        {"idle": float("nan")},
        {"keepalive": 0},
        {"share_bytes": 1 << 30},
    ],
)
def test_options_that_cannot_be_meant(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        StreamOptions(**wrong)  # type: ignore[arg-type]


def test_a_stream_describes_itself() -> None:
    with pair(tcp=True) as (reactor, log, far):
        assert log.stream.peer == far.getsockname()
        assert log.stream.name == far.getpeername()
        assert "open" in repr(log.stream)
        log.stream.close()
        turn_until(reactor, lambda: log.reason)
        assert log.stream.peer is None
        assert "closed" in repr(log.stream)
