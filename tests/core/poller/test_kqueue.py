"""The kqueue poller over a simulated kqueue, and the rules of that, which stand in for a BSD."""

from __future__ import annotations

import errno
import select
from typing import Any

import pytest

from penstock import ManualClock, Reactor, Unsupported
from penstock.core.poller.choice import available, open_poller
from penstock.core.poller.events import ERROR, HANGUP, PRIORITY, READABLE, WRITABLE
from penstock.core.poller.kqueue import FAULT_SHIFT, KqueuePoller
from penstock.core.poller.simulated_kernel import SimulatedKernel
from penstock.core.poller.simulated_kqueue import NOTE_FFCOPY, SimulatedKqueue, SimulatedSelect
from penstock.errors import UsageError


class Bench:
    """A kernel, a kqueue on it, and a poller on another."""

    def __init__(self, out_of_band: Any = "flag") -> None:
        self.kernel = SimulatedKernel(ManualClock())
        self.module = SimulatedSelect(self.kernel, out_of_band=out_of_band)
        self.queue: SimulatedKqueue = self.module.kqueue()
        self.poller = KqueuePoller(self.module)

    def change(self, ident: int, kind: int, *rest: int, **named: int) -> None:
        self.queue.control([self.module.kevent(ident, kind, *rest, **named)], 0, 0)

    def scan(self, timeout: float | None = 0) -> list[tuple[int, int, int]]:
        return [(event.ident, event.filter, event.data) for event in self.queue.control(None, 100, timeout)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


READ, WRITE = SimulatedSelect.KQ_FILTER_READ, SimulatedSelect.KQ_FILTER_WRITE
ADD, CLEAR = SimulatedSelect.KQ_EV_ADD, SimulatedSelect.KQ_EV_CLEAR
ONESHOT, DISPATCH = SimulatedSelect.KQ_EV_ONESHOT, SimulatedSelect.KQ_EV_DISPATCH
DELETE, ENABLE, DISABLE = SimulatedSelect.KQ_EV_DELETE, SimulatedSelect.KQ_EV_ENABLE, SimulatedSelect.KQ_EV_DISABLE
TIMER, USER, SIGNAL = SimulatedSelect.KQ_FILTER_TIMER, SimulatedSelect.KQ_FILTER_USER, SimulatedSelect.KQ_FILTER_SIGNAL


# ---- the rules of the simulated kqueue


def test_a_filter_without_flags_reports_a_state(bench: Bench) -> None:
    one, two = bench.kernel.socketpair()
    bench.change(one, READ, ADD)
    assert bench.scan() == []
    bench.kernel.write(two, b"abc")
    assert bench.scan() == bench.scan() == [(one, READ, 3)]
    bench.kernel.read(one, 10)
    assert bench.scan() == []


def test_clear_reports_a_change_once(bench: Bench) -> None:
    one, two = bench.kernel.socketpair()
    bench.change(one, READ, ADD | CLEAR)
    bench.kernel.write(two, b"abc")
    assert (bench.scan(), bench.scan()) == ([(one, READ, 3)], [])
    bench.kernel.write(two, b"d")
    assert bench.scan() == [(one, READ, 4)]


def test_adding_again_looks_anew_and_changes_the_user_data_only(bench: Bench) -> None:
    one, two = bench.kernel.socketpair()
    bench.kernel.write(two, b"abc")
    bench.change(one, READ, ADD | CLEAR, udata=1)
    bench.scan()
    bench.change(one, READ, ADD, udata=2)
    events = bench.queue.control(None, 10, 0)
    assert [event.udata for event in events] == [2]
    assert bench.scan() == [], "EV_CLEAR stays"
    assert len(bench.queue.filters) == 1


def test_oneshot_dispatch_disable_enable(bench: Bench) -> None:
    one, two = bench.kernel.socketpair()
    bench.kernel.write(two, b"abc")
    bench.change(one, READ, ADD | ONESHOT)
    assert (bench.scan(), bench.scan(), bench.queue.filters) == ([(one, READ, 3)], [], {})
    bench.change(one, READ, ADD | DISPATCH)
    assert (bench.scan(), bench.scan()) == ([(one, READ, 3)], [])
    bench.change(one, READ, ENABLE)
    assert (bench.scan(), bench.scan()) == ([(one, READ, 3)], [])
    bench.change(one, READ, DELETE)
    bench.change(one, READ, ADD | DISABLE)
    assert bench.scan() == []
    bench.change(one, READ, ENABLE)
    assert bench.scan() == bench.scan() == [(one, READ, 3)]


def test_closing_a_number_removes_its_filters_though_a_duplicate_is_open(bench: Bench) -> None:
    one, two = bench.kernel.socketpair()
    bench.change(one, READ, ADD)
    other = bench.kernel.dup(one)
    bench.kernel.close(one)
    bench.kernel.write(two, b"abc")
    assert (bench.scan(), bench.queue.filters) == ([], {})
    assert bench.kernel.read(other, 10) == b"abc"


def test_the_end_is_told_with_the_error(bench: Bench) -> None:
    one, two = bench.kernel.socketpair(tcp=True)
    bench.change(one, READ, ADD)
    bench.kernel.write(two, b"abc")
    bench.kernel.reset(two)
    (event,) = bench.queue.control(None, 10, 0)
    assert event.flags & bench.module.KQ_EV_EOF
    assert event.fflags == errno.ECONNRESET


def test_a_failed_change_is_an_event_if_there_is_room(bench: Bench) -> None:
    module = bench.module
    change = module.kevent(99, READ, ADD, udata=7)
    (event,) = bench.queue.control([change], 1, None)
    assert (event.flags & module.KQ_EV_ERROR, event.data, event.udata) == (module.KQ_EV_ERROR, errno.EBADF, 7)
    with pytest.raises(OSError, match="Bad file descriptor"):
        bench.queue.control([change], 0, None)
    with pytest.raises(OSError, match="No such file"):
        bench.change(5, READ, DELETE)
    with pytest.raises(OSError, match="Invalid argument"):
        bench.change(5, -99, ADD)


def test_receipts_say_that_all_is_well(bench: Bench) -> None:
    one, _two = bench.kernel.socketpair()
    (event,) = bench.queue.control([bench.module.kevent(one, READ, ADD | bench.module.KQ_EV_RECEIPT)], 1, None)
    assert (event.flags, event.data) == (bench.module.KQ_EV_ERROR, 0)


def test_timers_count_their_periods(bench: Bench) -> None:
    bench.change(1, TIMER, ADD, data=10)
    assert bench.scan(0.009) == []
    assert bench.scan(0.002) == [(1, TIMER, 1)]
    bench.kernel.clock.advance_to(bench.kernel.clock.now_ns() + 30_000_000)
    bench.kernel.schedule.run_due()
    assert bench.scan() == [(1, TIMER, 3)]
    bench.change(1, TIMER, DELETE)
    bench.change(2, TIMER, ADD | ONESHOT, fflags=1, data=1)
    assert bench.scan(2) == [(2, TIMER, 1)]
    assert bench.queue.filters == {}


def test_user_filters_and_signals(bench: Bench) -> None:
    module = bench.module
    bench.change(0, USER, ADD | CLEAR)
    assert bench.scan() == []
    for _ in range(3):
        bench.change(0, USER, 0, module.KQ_NOTE_TRIGGER | NOTE_FFCOPY | 5)
    (event,) = bench.queue.control(None, 10, 0)
    assert (event.filter, event.fflags) == (USER, 5)
    assert bench.scan() == []
    bench.change(15, SIGNAL, ADD)
    module.deliver(15)
    module.deliver(15)
    module.deliver(9)
    assert (bench.scan(), bench.scan()) == ([(15, SIGNAL, 2)], [])


def test_nothing_to_wait_for_is_said(bench: Bench) -> None:
    with pytest.raises(OSError, match="no timeout"):
        bench.scan(None)
    bench.queue.close()
    with pytest.raises(ValueError, match="closed"):
        bench.scan()
    with pytest.raises(UsageError, match="out_of_band"):
        Bench("loud")


# ---- the poller


def test_registering_makes_no_system_call_before_something_is_wanted(bench: Bench) -> None:
    one, _two = bench.kernel.socketpair()
    bench.poller.add(one, 0, True, 5)
    assert bench.poller.changes == 0
    bench.poller.modify(one, READABLE, True, 5)
    assert bench.poller.changes == 1


def test_filters_of_one_descriptor_become_one_event(bench: Bench) -> None:
    one, two = bench.kernel.socketpair()
    bench.poller.add(one, READABLE | WRITABLE, False, 5)
    assert bench.poller.wait(10, 0) == [(5, WRITABLE)]
    bench.kernel.write(two, b"x")
    assert bench.poller.wait(10, 0) == [(5, READABLE | WRITABLE)]
    bench.poller.modify(one, READABLE, False, 6)
    assert bench.poller.wait(10, 0) == [(6, READABLE)]
    bench.poller.modify(one, READABLE, True, 7)
    assert (bench.poller.wait(10, 0), bench.poller.wait(10, 0)) == ([(7, READABLE)], [])
    bench.poller.remove(one)
    assert len(bench.poller) == 0


def test_a_batch_has_its_size(bench: Bench) -> None:
    poller = KqueuePoller(bench.module, batch=2)
    for token in range(5):
        one, two = bench.kernel.socketpair()
        bench.kernel.write(two, b"x")
        poller.add(one, READABLE, True, token)
    batches = [poller.wait(100, 0) for _ in range(4)]
    assert [len(batch) for batch in batches] == [2, 2, 1, 0]
    assert sorted(token for batch in batches for token, _events in batch) == list(range(5))
    assert KqueuePoller(bench.module).batch == 128


@pytest.mark.parametrize("out_of_band", ["flag", "filter"])
def test_out_of_band_data_by_flag_and_by_filter(out_of_band: str) -> None:
    bench = Bench(out_of_band)
    one, two = bench.kernel.socketpair(tcp=True)
    bench.poller.add(one, READABLE | PRIORITY, True, 5)
    bench.kernel.send_urgent(two, b"!")
    ((_token, events),) = bench.poller.wait(10, 0)
    assert events & PRIORITY


def test_ends_and_errors_as_bits(bench: Bench) -> None:
    one, two = bench.kernel.socketpair(tcp=True)
    bench.poller.add(one, READABLE, True, 5)
    bench.kernel.shutdown(two, 1)
    assert bench.poller.wait(10, 0) == [(5, READABLE)]
    three, four = bench.kernel.socketpair(tcp=True)
    bench.poller.add(three, READABLE | WRITABLE, True, 6)
    bench.poller.wait(10, 0)
    bench.kernel.write(three, b"unread")
    bench.kernel.reset(four)
    assert bench.poller.wait(10, 0) == [(6, READABLE | WRITABLE | ERROR | HANGUP)]


def test_a_filter_that_cannot_be_watched_carries_its_errno(bench: Bench) -> None:
    one, _two = bench.kernel.socketpair()
    bench.poller.add(one, READABLE, True, 5)
    for queue in bench.module.queues:
        if (one, READ) in queue.filters:
            queue.filters[one, READ].broken = errno.EIO
            queue.filters[one, READ].look()
    assert bench.poller.wait(10, 0) == [(5, READABLE | ERROR | errno.EIO << FAULT_SHIFT)]


def test_a_number_that_was_closed_and_opened_is_watched_anew(bench: Bench) -> None:
    one, _two = bench.kernel.socketpair()
    bench.poller.add(one, READABLE | WRITABLE, False, 5)
    bench.kernel.close(one)
    again, other = bench.kernel.socketpair()
    assert again == one
    with pytest.raises(FileExistsError):
        bench.poller.add(again, READABLE, False, 6)
    bench.poller.modify(again, READABLE, False, 6)
    bench.kernel.write(other, b"x")
    assert bench.poller.wait(10, 0) == [(6, READABLE)]
    bench.kernel.close(again)
    bench.poller.remove(again)
    with pytest.raises(FileNotFoundError):
        bench.poller.remove(again)
    with pytest.raises(FileNotFoundError):
        bench.poller.modify(again, READABLE, False, 6)


def test_the_time_out_is_a_timer(bench: Bench) -> None:
    before = bench.kernel.clock.now_ns()
    assert bench.poller.wait(10, 1_500) == []
    assert bench.kernel.clock.now_ns() == before + 1_500


def test_many_wakes_end_one_wait(bench: Bench) -> None:
    for _ in range(5):
        bench.poller.wake()
    assert bench.poller.wait(10, 10**9) == []
    assert bench.kernel.clock.now_ns() == 0, "it did not wait"
    assert bench.poller.wait(10, 10) == []
    assert bench.kernel.clock.now_ns() == 10


def test_reset_begins_anew(bench: Bench) -> None:
    one, two = bench.kernel.socketpair()
    bench.poller.add(one, READABLE, False, 5)
    bench.kernel.write(two, b"x")
    bench.poller.reset()
    assert (bench.poller.wait(10, 0), len(bench.poller)) == ([], 0)
    bench.poller.add(one, READABLE, False, 6)
    assert bench.poller.wait(10, 0) == [(6, READABLE)]
    assert (bench.poller.unread(one), bench.poller.unread(99)) == (1, 0)
    bench.poller.close()


def test_a_reactor_runs_on_it() -> None:
    kernel = SimulatedKernel(ManualClock())
    told: list[tuple[int, int]] = []
    with Reactor(KqueuePoller(SimulatedSelect(kernel)), clock=kernel.clock) as reactor:
        one, two = kernel.socketpair()
        reactor.register(one, READABLE, lambda fd, events: told.append((fd, events)), edge=True)
        reactor.set_timeout(1, kernel.write, two, b"x")
        reactor.run_once()
        reactor.run_once(0)
        assert (told, reactor.poller) == ([(one, READABLE)], "kqueue")


# ---- choice


def test_choice_by_name_lists_what_there_is() -> None:
    assert open_poller("auto").name == available()[0]
    for name in available():
        open_poller(name).close()
    if hasattr(select, "kqueue"):
        assert "kqueue" in available()
    else:
        with pytest.raises(Unsupported, match=r"'kqueue'; available here: 'auto', 'epoll', 'select'"):
            open_poller("kqueue")
        with pytest.raises(Unsupported, match="no kqueue"):
            KqueuePoller()
    with pytest.raises(Unsupported, match="'poll'; available here"):
        Reactor("poll")
