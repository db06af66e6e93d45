"""The simulated kernel call by call, above all what the comparison with Linux cannot make happen."""

from __future__ import annotations

import errno
import socket
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.clock import ManualClock
from penstock.core.poller.events import ERROR, HANGUP, PRIORITY, READABLE, WRITABLE
from penstock.core.poller.simulated import SimulatedKernel
from penstock.errors import UsageError


def refused(number: int) -> Any:
    return pytest.raises(OSError, match=f"^.Errno {number}.")


def state(kernel: SimulatedKernel, fd: int) -> int:
    kernel.schedule.run_due()
    return kernel.file("poll", fd).poll()


@pytest.fixture
def kernel() -> SimulatedKernel:
    return SimulatedKernel(ManualClock())


# ---- numbers


@given(st.integers(0, 10), st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=60))
def test_the_lowest_free_number_is_given(first: int, steps: list[tuple[bool, int]]) -> None:
    kernel = SimulatedKernel(ManualClock(), first_descriptor=first, descriptors_max=20)
    model: set[int] = set()
    for opens, pick in steps:
        free = next(number for number in range(first, first + 21) if number not in model)
        if opens and len(model) < 20:
            assert kernel.eventfd() == free
            model.add(free)
        elif opens:
            with refused(errno.EMFILE):
                kernel.eventfd()
        elif model:
            fd = sorted(model)[pick % len(model)]
            kernel.close(fd)
            model.remove(fd)
        assert kernel.open_descriptors == tuple(sorted(model))


def test_a_pair_that_does_not_fit_takes_nothing() -> None:
    kernel = SimulatedKernel(ManualClock(), descriptors_max=3)
    kernel.socketpair()
    for make in (kernel.socketpair, kernel.pipe):
        with refused(errno.EMFILE):
            make()
    assert kernel.listen(1) == 5
    with refused(errno.EMFILE):
        kernel.dup(5)
    assert kernel.refusals["pipe", "EMFILE"] == 1


def test_a_full_table_leaves_a_connection_waiting() -> None:
    kernel = SimulatedKernel(ManualClock(), descriptors_max=2)
    listener = kernel.listen(1)
    client = kernel.connect(listener)
    with refused(errno.EMFILE):
        kernel.accept(listener)
    assert state(kernel, listener) == READABLE
    kernel.close(client)
    assert kernel.read(kernel.accept(listener), 10) == b""


def test_options_are_bounded() -> None:
    for options in (
        {"descriptors_max": limits.SIMULATED_DESCRIPTORS_MAX + 1},
        {"descriptors_max": 0},
        {"buffer_bytes": 0},
        {"first_descriptor": -1},
    ):
        with pytest.raises(UsageError, match=next(iter(options))):
            SimulatedKernel(ManualClock(), **options)
    with pytest.raises(UsageError, match="delay_ns"):
        SimulatedKernel(ManualClock()).socketpair(delay_ns=-1)


def test_calls_and_bytes_are_counted(kernel: SimulatedKernel) -> None:
    one, two = kernel.socketpair()
    kernel.write(one, b"12345")
    kernel.read(two, 3)
    kernel.close(two)
    with refused(errno.EBADF):
        kernel.read(two, 1)
    assert kernel.calls == {"socketpair": 1, "write": 1, "read": 2, "close": 1}
    assert kernel.refusals == {("read", "EBADF"): 1}
    assert (kernel.written_bytes, kernel.read_bytes, kernel.lost_bytes) == (5, 3, 2)


# ---- buffers


def test_writes_are_short_when_the_buffer_is_nearly_full(kernel: SimulatedKernel) -> None:
    for tcp in (False, True):
        one, two = kernel.socketpair(tcp=tcp)
        assert kernel.write(one, bytes(65_000)) == 65_000
        assert kernel.write(one, bytes(1_000)) == 536
        with pytest.raises(BlockingIOError):
            kernel.write(one, b"x")
        assert state(kernel, one) == 0
        assert kernel.unread(two) == limits.SIMULATED_BUFFER_BYTES


def test_space_comes_back_by_the_byte_for_tcp_and_by_the_message_for_local_sockets(kernel: SimulatedKernel) -> None:
    one, two = kernel.socketpair(tcp=True, buffer_bytes=300)
    kernel.write(one, bytes(300))
    kernel.read(two, 99)
    assert not state(kernel, one) & WRITABLE
    kernel.read(two, 1)
    assert state(kernel, one) & WRITABLE
    one, two = kernel.socketpair(buffer_bytes=400)
    for _ in range(4):
        kernel.write(one, bytes(100))
    kernel.read(two, 399)
    assert kernel.file("space", one).space() == 300
    assert state(kernel, one) & WRITABLE


@given(st.booleans(), st.lists(st.tuples(st.booleans(), st.integers(0, 400)), max_size=40))
def test_a_stream_gives_what_it_took(tcp: bool, steps: list[tuple[bool, int]]) -> None:
    kernel = SimulatedKernel(ManualClock())
    one, two = kernel.socketpair(tcp=tcp, buffer_bytes=700)
    sent = received = b""
    for writes, size_bytes in steps:
        data = bytes(range(256)) * 2
        try:
            if writes:
                sent += data[: kernel.write(one, data[:size_bytes])]
            else:
                received += kernel.read(two, size_bytes)
        except BlockingIOError:
            assert len(sent) == len(received) or writes
        assert sent.startswith(received)
        assert kernel.unread(two) == len(sent) - len(received) <= 700


def test_a_regular_file_has_one_position_for_all_its_numbers(kernel: SimulatedKernel) -> None:
    fd = kernel.open_file(b"abcdef")
    again = kernel.dup(fd)
    assert kernel.read(fd, 2) == b"ab"
    assert kernel.write(again, b"XY") == 2
    assert kernel.unread(fd) == 2
    assert kernel.read(fd, 10) == b"ef"
    assert kernel.read(fd, 10) == b""


def test_a_regular_file_is_bounded(kernel: SimulatedKernel) -> None:
    fd = kernel.open_file(bytes(limits.SIMULATED_BUFFER_BYTES_MAX))
    kernel.read(fd, limits.SIMULATED_BUFFER_BYTES_MAX - 1)
    assert kernel.write(fd, b"xy") == 1
    with refused(errno.EFBIG):
        kernel.write(fd, b"y")


def test_calls_on_the_wrong_kind(kernel: SimulatedKernel) -> None:
    reader, writer = kernel.pipe()
    counter = kernel.eventfd()
    listener = kernel.listen(1)
    for number, call in (
        (errno.EBADF, lambda: kernel.read(writer, 1)),
        (errno.EBADF, lambda: kernel.write(reader, b"x")),
        (errno.ENOTSOCK, lambda: kernel.shutdown(reader, 2)),
        (errno.ENOTSOCK, lambda: kernel.reset(reader)),
        (errno.ENOTSOCK, lambda: kernel.error(reader)),
        (errno.ENOTSOCK, lambda: kernel.send_urgent(reader, b"x")),
        (errno.ENOTSOCK, lambda: kernel.read_urgent(reader)),
        (errno.ENOTSOCK, lambda: kernel.accept(reader)),
        (errno.EINVAL, lambda: kernel.accept(kernel.socketpair()[0])),
        (errno.ENOTTY, lambda: kernel.unread(counter)),
        (errno.EINVAL, lambda: kernel.read(counter, 7)),
        (errno.EINVAL, lambda: kernel.write(counter, b"x")),
        (errno.EINVAL, lambda: kernel.unread(listener)),
        (errno.ENOTCONN, lambda: kernel.read(listener, 1)),
        (errno.EPIPE, lambda: kernel.write(listener, b"x")),
        (errno.ECONNREFUSED, lambda: kernel.connect(counter)),
        (errno.EINVAL, lambda: kernel.shutdown(listener, 9)),
    ):
        with refused(number):
            call()


def test_a_counter_counts(kernel: SimulatedKernel) -> None:
    fd = kernel.eventfd()
    for added in (1, 2, 4):
        kernel.write(fd, added.to_bytes(8, sys.byteorder))
    assert int.from_bytes(kernel.read(fd, 8), sys.byteorder) == 7
    with pytest.raises(BlockingIOError):
        kernel.read(fd, 8)


# ---- connecting


def test_a_connection_comes_about_after_its_latency(kernel: SimulatedKernel) -> None:
    listener = kernel.listen(5)
    client = kernel.connect(listener, delay_ns=1_000)
    assert state(kernel, client) == state(kernel, listener) == 0
    for call in (lambda: kernel.write(client, b"x"), lambda: kernel.read(client, 1), lambda: kernel.accept(listener)):
        with pytest.raises(BlockingIOError):
            call()
    kernel.clock.advance(1_000)
    assert state(kernel, client) == WRITABLE
    assert state(kernel, listener) == READABLE
    server = kernel.accept(listener)
    assert state(kernel, server) == WRITABLE
    kernel.write(client, b"hello")
    assert kernel.unread(server) == 0
    kernel.clock.advance(1_000)
    assert kernel.read(server, 10) == b"hello"


def test_a_connection_without_latency_is_made_at_the_next_call(kernel: SimulatedKernel) -> None:
    listener = kernel.listen(5)
    client = kernel.connect(listener)
    assert kernel.file("poll", client).poll() == 0
    assert kernel.write(client, b"x") == 1


def test_a_full_backlog_refuses(kernel: SimulatedKernel) -> None:
    listener = kernel.listen(1)
    clients = [kernel.connect(listener) for _ in range(3)]
    assert [state(kernel, client) for client in clients[:2]] == [WRITABLE, WRITABLE]
    assert state(kernel, clients[2]) == READABLE | WRITABLE | ERROR | HANGUP
    assert kernel.error(clients[2]) == errno.ECONNREFUSED
    assert kernel.error(clients[2]) == 0
    with pytest.raises(BrokenPipeError):
        kernel.write(clients[2], b"x")
    kernel.accept(listener)
    assert state(kernel, kernel.connect(listener)) == WRITABLE


def test_a_listener_that_is_closed_in_time_refuses_and_late_resets(kernel: SimulatedKernel) -> None:
    listener = kernel.listen(5)
    early = kernel.connect(listener)
    late = kernel.connect(listener, delay_ns=10)
    assert state(kernel, early) == WRITABLE
    kernel.close(listener)
    with pytest.raises(ConnectionResetError):
        kernel.read(early, 1)
    kernel.clock.advance(10)
    with pytest.raises(ConnectionRefusedError):
        kernel.write(late, b"x")


def test_an_attempt_can_be_given_up(kernel: SimulatedKernel) -> None:
    listener = kernel.listen(5)
    kernel.close(kernel.connect(listener, delay_ns=10))
    for end in (kernel.reset, lambda fd: kernel.shutdown(fd, socket.SHUT_RDWR)):
        client = kernel.connect(listener, delay_ns=10)
        end(client)
        assert state(kernel, client) & (ERROR | HANGUP) == ERROR | HANGUP
        assert kernel.error(client) == errno.ECONNRESET
    kernel.clock.advance(10)
    with pytest.raises(BlockingIOError):
        kernel.accept(listener)


def test_a_listener_can_be_shut(kernel: SimulatedKernel) -> None:
    listener = kernel.listen(5)
    kernel.shutdown(listener, socket.SHUT_RDWR)
    assert state(kernel, listener) == WRITABLE | HANGUP
    with refused(errno.EINVAL):
        kernel.accept(listener)
    with refused(errno.ENOTCONN):
        kernel.shutdown(listener, socket.SHUT_RDWR)


# ---- latency and ends


@pytest.mark.parametrize("tcp", [False, True])
def test_what_is_sent_arrives_in_order_after_the_latency(kernel: SimulatedKernel, tcp: bool) -> None:
    one, two = kernel.socketpair(tcp=tcp, delay_ns=100, buffer_bytes=1_000)
    kernel.write(one, b"ab")
    kernel.clock.advance(50)
    kernel.write(one, b"cd")
    kernel.close(one)
    with pytest.raises(BlockingIOError):
        kernel.read(two, 10)
    kernel.clock.advance(50)
    assert kernel.read(two, 10) == b"ab"
    with pytest.raises(BlockingIOError):
        kernel.read(two, 10)
    kernel.clock.advance(50)
    assert kernel.read(two, 10) == b"cd"
    assert kernel.read(two, 10) == b""
    assert bool(state(kernel, two) & HANGUP) is not tcp


def test_bytes_on_the_way_take_space(kernel: SimulatedKernel) -> None:
    one, _ = kernel.socketpair(delay_ns=100, buffer_bytes=1_000)
    assert kernel.write(one, bytes(2_000)) == 1_000
    with pytest.raises(BlockingIOError):
        kernel.write(one, b"x")


@pytest.mark.parametrize("tcp", [False, True])
def test_a_reset_reaches_the_other_end(kernel: SimulatedKernel, tcp: bool) -> None:
    one, two = kernel.socketpair(tcp=tcp, delay_ns=100)
    kernel.write(one, b"last words")
    kernel.write(two, b"not heard")
    kernel.clock.advance(100)
    kernel.reset(one)
    assert kernel.lost_bytes == 9
    kernel.clock.advance(100)
    assert state(kernel, two) == READABLE | WRITABLE | ERROR | HANGUP
    assert kernel.read(two, 100) == b"last words"
    with pytest.raises(ConnectionResetError):
        kernel.read(two, 100)
    assert kernel.read(two, 100) == b""
    with pytest.raises(BrokenPipeError):
        kernel.write(two, b"x")
    kernel.close(one)
    assert state(kernel, two) == READABLE | WRITABLE | HANGUP


@pytest.mark.parametrize("tcp", [False, True])
def test_bytes_sent_to_who_has_left_are_counted(kernel: SimulatedKernel, tcp: bool) -> None:
    one, two = kernel.socketpair(tcp=tcp, delay_ns=100)
    kernel.close(two)
    assert kernel.write(one, b"nobody") == 6
    kernel.clock.advance(100)
    kernel.schedule.run_due()
    assert kernel.lost_bytes == 6
    # TCP learns of it by a reset, which takes its time too.
    kernel.clock.advance(100)
    assert state(kernel, one) == READABLE | WRITABLE | HANGUP | (ERROR if tcp else 0)
    with pytest.raises(BrokenPipeError):
        kernel.write(one, b"x")


# ---- urgent bytes


@pytest.mark.parametrize("tcp", [False, True])
def test_an_urgent_byte_overtakes(kernel: SimulatedKernel, tcp: bool) -> None:
    one, two = kernel.socketpair(tcp=tcp)
    kernel.write(one, b"ab")
    assert kernel.send_urgent(one, b"cU") == 2
    kernel.write(one, b"de")
    assert state(kernel, two) == READABLE | WRITABLE | PRIORITY
    assert kernel.read_urgent(two) == b"U"
    with refused(errno.EINVAL):
        kernel.read_urgent(two)
    assert state(kernel, two) == READABLE | WRITABLE
    # A read stops where the urgent byte was.
    assert kernel.read(two, 100) == b"abc"
    assert kernel.read(two, 100) == b"de"


@pytest.mark.parametrize("tcp", [False, True])
def test_an_urgent_byte_that_is_passed_or_overtaken(kernel: SimulatedKernel, tcp: bool) -> None:
    one, two = kernel.socketpair(tcp=tcp)
    kernel.send_urgent(one, b"U")
    with pytest.raises(BlockingIOError):
        kernel.read(two, 100)
    assert state(kernel, two) == WRITABLE
    assert kernel.lost_bytes == 1
    kernel.write(one, b"ab")
    kernel.send_urgent(one, b"V")
    kernel.send_urgent(one, b"W")
    assert kernel.read(two, 100) == b"abV"
    assert kernel.read_urgent(two) == b"W"
    with pytest.raises(BlockingIOError):
        kernel.read(two, 100)
    assert kernel.file("space", one).space() == limits.SIMULATED_BUFFER_BYTES


def test_tcp_resets_for_an_urgent_byte_that_no_read_has_passed(kernel: SimulatedKernel) -> None:
    one, two = kernel.socketpair(tcp=True)
    kernel.send_urgent(one, b"U")
    kernel.read_urgent(two)
    kernel.close(two)
    assert state(kernel, one) == READABLE | WRITABLE | ERROR | HANGUP


def test_urgent_bytes_need_space_too(kernel: SimulatedKernel) -> None:
    one, _ = kernel.socketpair(tcp=True, buffer_bytes=10)
    kernel.write(one, bytes(9))
    with pytest.raises(BlockingIOError):
        kernel.send_urgent(one, b"ab")
    with refused(errno.EOPNOTSUPP):
        kernel.send_urgent(one, b"")
    assert kernel.send_urgent(one, b"a") == 1


# ---- figures, for a poller that counts


def figures(kernel: SimulatedKernel, fd: int) -> tuple[int, int, bool]:
    file = kernel.file("figures", fd)
    return file.arrived(), file.space(), file.ended


def test_files_tell_in_figures_what_they_tell_in_bits(kernel: SimulatedKernel) -> None:
    page_bytes, buffer_bytes = limits.SIMULATED_PAGE_BYTES, limits.SIMULATED_BUFFER_BYTES
    reader, writer = kernel.pipe()
    kernel.write(writer, b"abc")
    assert figures(kernel, reader) == (3, 0, False)
    assert figures(kernel, writer) == (3, buffer_bytes - page_bytes, False)
    kernel.close(writer)
    assert figures(kernel, reader) == (3, 0, True)
    for tcp in (False, True):
        one, two = kernel.socketpair(tcp=tcp)
        kernel.write(one, b"abcd")
        assert figures(kernel, two) == (4, buffer_bytes, False)
        kernel.shutdown(one, socket.SHUT_WR)
        assert figures(kernel, one) == (0, 0, False)
        assert figures(kernel, two) == (4, buffer_bytes, True)
    assert figures(kernel, kernel.eventfd(9)) == (9, 8, False)
    listener = kernel.listen(1)
    kernel.connect(listener)
    kernel.schedule.run_due()
    assert figures(kernel, listener) == (1, 0, False)
    kernel.close(kernel.dup(listener))
    kernel.shutdown(listener, socket.SHUT_RD)
    assert figures(kernel, listener) == (0, 0, True)
    file = kernel.open_file(b"ab")
    assert figures(kernel, file) == (2, limits.SIMULATED_BUFFER_BYTES_MAX, False)
    kernel.read(file, 2)
    assert figures(kernel, file)[2]


def test_a_shutdown_of_no_half_is_refused(kernel: SimulatedKernel) -> None:
    for tcp in (False, True):
        one, _ = kernel.socketpair(tcp=tcp)
        with refused(errno.EINVAL):
            kernel.shutdown(one, 3)
