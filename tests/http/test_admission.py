"""Does admission keep its bounds, end every request once, and reach its goals when far too many ask?"""

from __future__ import annotations

import heapq
import random
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import UsageError
from penstock.http.admission import REASONS, Admission, Ticket
from tests.http.crowd import MS, PATIENCE, SECOND, from_many, percentile, poisson, run

DEADLINE = limits.HTTP_DEADLINE_NS


# ---- invariants ------------------------------------------------------------------------------------------------------

steps = st.lists(
    st.tuples(
        st.sampled_from(["offer", "offer", "offer", "next", "expired", "done", "withdraw", "drain"]),
        st.integers(0, 40 * MS),  # time that passes before
        st.integers(0, 3),  # whose
        st.integers(0, 600 * MS),  # how old it already is
        st.booleans(),  # a health check
    ),
    max_size=150,
)


class Ledger:
    """Every ticket and where it is, as obviously as can be."""

    def __init__(self, max_in_work: int, max_queued: int) -> None:
        self.admission = Admission(max_in_work, max_queued)
        self.max_in_work = max_in_work
        self.max_queued = max_queued
        self.waiting: list[Ticket] = []
        self.running: list[Ticket] = []
        self.ended: dict[str, int] = {"done": 0}
        self.offered = 0
        self.draining = False
        self.now = SECOND

    def end(self, how: str) -> None:
        self.ended[how] = self.ended.get(how, 0) + 1

    def offer(self, peer: int, age: int, reserved: bool) -> None:
        ticket = Ticket(self.now - age, peer, reserved)
        self.offered += 1
        why = self.admission.offer(ticket, self.now)
        if why is None:
            assert not self.draining
            assert age <= DEADLINE
            self.waiting.append(ticket)
        else:
            assert why in REASONS
            assert ticket.state == "free"
            self.end(why)
            assert (why == "drain") == self.draining
            if why in {"full", "share"}:
                assert len(self.waiting) * 2 >= self.max_queued

    def next(self) -> None:
        ticket = self.admission.next(self.now)
        if ticket is not None:
            assert self.now - ticket.arrival_ns <= DEADLINE
            self.waiting.remove(ticket)
            self.running.append(ticket)

    def expired(self) -> None:
        due = self.admission.due_ns
        gone = self.admission.expired(self.now)
        assert (due is not None and due <= self.now) == (gone is not None)
        if gone is not None:
            self.waiting.remove(gone[0])
            self.end(gone[1])

    def check(self) -> None:
        counters = self.admission.counters()
        assert len(self.admission) == len(self.waiting) == counters["waiting"]
        assert len(self.waiting) <= self.max_queued + limits.HTTP_RESERVED_QUEUE_CAPACITY
        assert self.admission.in_work == len(self.running) <= self.max_in_work + 1
        assert 1 <= self.admission.limit <= self.max_in_work
        assert all(ticket.state == "queued" for ticket in self.waiting)
        assert all(ticket.state == "running" for ticket in self.running)
        assert counters["done"] == self.ended["done"]
        assert {why: count for why, count in counters["refused"].items() if count} == {
            why: count for why, count in self.ended.items() if why != "done" and count
        }
        assert counters["offered"] == self.offered
        assert self.offered == sum(self.ended.values()) + len(self.waiting) + len(self.running)
        assert sum(counters["ages"]) == counters["begun"]


@given(steps, st.integers(1, 4), st.integers(1, 12))
def test_every_request_ends_exactly_once_and_no_bound_is_exceeded(
    steps: list[Any], max_in_work: int, max_queued: int
) -> None:
    ledger = Ledger(max_in_work, max_queued)
    for what, passed, peer, age, reserved in steps:
        ledger.now += passed
        if what == "offer":
            ledger.offer(peer, age, reserved)
        elif what == "next":
            ledger.next()
        elif what == "expired":
            ledger.expired()
        elif what == "done" and ledger.running:
            ledger.admission.done(ledger.running.pop(peer % len(ledger.running)), ledger.now)
            ledger.end("done")
        elif what == "withdraw" and ledger.waiting:
            ledger.admission.withdraw(ledger.waiting.pop(peer % len(ledger.waiting)))
            ledger.end("gone")
        elif what == "drain" and peer == 0:
            ledger.draining = True
            ledger.admission.drain(ledger.now + age)
        ledger.check()
    ledger.now += 2 * SECOND
    while len(ledger.admission):
        ledger.expired()
        ledger.check()
    assert ledger.admission.due_ns is None


@given(st.lists(st.integers(0, 400 * MS), max_size=60))
def test_a_calm_queue_is_served_in_order_of_age(ages: list[int]) -> None:
    admission = Admission(max_in_work=1000)
    for age in ages:
        assert admission.offer(Ticket(SECOND - age, peer=1), SECOND) is None
    served = []
    while (ticket := admission.next(SECOND)) is not None:
        served.append(ticket.arrival_ns)
        admission.done(ticket, SECOND)
    assert served == sorted(SECOND - age for age in ages)


# ---- single rules ----------------------------------------------------------------------------------------------------


def test_nothing_older_than_its_deadline_is_begun_and_nothing_younger_is_refused() -> None:
    admission = Admission(deadline_ns=10)
    assert admission.offer(Ticket(100), 110) is None
    assert admission.offer(Ticket(100), 111) == "late"
    assert admission.due_ns == 111
    assert admission.expired(110) is None
    assert admission.next(111) is None
    gone = admission.expired(111)
    assert gone is not None
    assert gone[1] == "late"
    assert admission.expired(111) is None


def test_a_late_head_does_not_hide_who_is_young_enough() -> None:
    admission = Admission(deadline_ns=10)
    admission.offer(Ticket(100, label="old"), 100)
    admission.offer(Ticket(108, label="young"), 108)
    ticket = admission.next(112)
    assert ticket is not None
    assert ticket.label == "young"


def test_no_more_are_in_work_than_may_be() -> None:
    admission = Admission(max_in_work=2)
    for _ in range(3):
        admission.offer(Ticket(0), 0)
    first = admission.next(0)
    assert first is not None
    assert admission.next(0) is not None
    assert admission.next(0) is None
    admission.done(first, 5)
    admission.done(first, 5)  # done once already: nothing happens
    assert admission.in_work == 1
    assert admission.next(5) is not None
    assert admission.counters()["in_work_peak"] == 2


def test_a_full_queue_refuses() -> None:
    admission = Admission(max_queued=3)
    assert [admission.offer(Ticket(0), 0) for _ in range(4)] == [None, None, None, "full"]
    assert admission.counters()["waiting_peak"] == 3


def test_who_is_alone_may_have_every_place_and_with_others_only_a_fair_share() -> None:
    admission = Admission(max_queued=100)
    assert [admission.offer(Ticket(0, peer=1), 0) for _ in range(60)] == [None] * 60
    assert admission.offer(Ticket(0, peer=2), 0) is None
    assert admission.offer(Ticket(0, peer=1), 0) == "share"
    assert [admission.offer(Ticket(0, peer=2), 0) for _ in range(39)] == [None] * 39
    assert admission.offer(Ticket(0, peer=2), 0) == "full"


def test_a_withdrawn_request_is_not_begun() -> None:
    admission = Admission()
    tickets = [Ticket(0, label=index) for index in range(3)]
    for ticket in tickets:
        admission.offer(ticket, 0)
    admission.withdraw(tickets[0])
    admission.withdraw(tickets[0])
    begun = admission.next(0)
    assert begun is tickets[1]
    admission.withdraw(begun)  # it runs: too late
    assert begun.state == "running"
    assert admission.counters()["refused"]["gone"] == 1


def test_who_goes_away_comes_after_who_waits() -> None:
    admission = Admission()
    other = Ticket(0, peer=2)
    assert admission.offer(other, 0) is None
    assert admission.next(0) is other
    admission.done(other, 0)
    for _ in range(4):
        ticket = Ticket(0, peer=1)
        assert admission.offer(ticket, 0) is None
        admission.withdraw(ticket)
    first, second = Ticket(0, peer=1), Ticket(1, peer=2)
    for ticket in (first, second):
        assert admission.offer(ticket, 1) is None
    # The second has come later, from an address whose clients wait. What it leaves the first may have.
    for ticket in (second, first):
        assert admission.next(2) is ticket
        admission.done(ticket, 2)
    # It is forgotten soon.
    later_ns = 5 * SECOND
    first, second = Ticket(later_ns, peer=1), Ticket(later_ns + 1, peer=2)
    for ticket in (first, second):
        assert admission.offer(ticket, later_ns + 1) is None
    for ticket in (first, second):
        assert admission.next(later_ns + 2) is ticket
        admission.done(ticket, later_ns + 2)


def test_who_goes_away_now_and_then_is_no_worse_off() -> None:
    admission = Admission()
    for number in range(12):
        ticket = Ticket(0, peer=1)
        assert admission.offer(ticket, 0) is None
        if number % 3 == 0:
            admission.withdraw(ticket)
        else:
            assert admission.next(0) is ticket
            admission.done(ticket, 0)
        other = Ticket(0, peer=2)
        assert admission.offer(other, 0) is None
        assert admission.next(0) is other
        admission.done(other, 0)
    first, second = Ticket(0, peer=1), Ticket(1, peer=2)
    for ticket in (first, second):
        assert admission.offer(ticket, 1) is None
    assert admission.next(2) is first


def test_what_waits_is_kept_alive_and_let_go_of() -> None:
    admission = Admission()
    label = [1]
    admission.offer(Ticket(0, label=label), 0)
    admission.offer(Ticket(0, label=label), 0)
    kept = sys.getrefcount(label)
    first = admission.next(0)
    assert first is not None
    assert first.label is label
    del first
    assert sys.getrefcount(label) == kept - 1
    del admission
    assert sys.getrefcount(label) == kept - 2


def test_a_ticket_is_offered_once() -> None:
    admission = Admission()
    ticket = Ticket(0)
    admission.offer(ticket, 0)
    with pytest.raises(UsageError, match="queued already"):
        admission.offer(ticket, 0)


def test_draining_serves_what_waits_and_takes_nothing_new() -> None:
    admission = Admission(max_in_work=1)
    admission.offer(Ticket(0, label="first"), 0)
    admission.offer(Ticket(0, label="second"), 0)
    admission.drain(50)
    assert admission.offer(Ticket(0), 0) == "drain"
    assert admission.offer(Ticket(0, reserved=True), 0) == "drain"
    first = admission.next(0)
    assert first is not None
    assert admission.due_ns == 50
    assert admission.expired(49) is None
    gone = admission.expired(50)
    assert gone is not None
    assert (gone[0].label, gone[1]) == ("second", "drain")


def test_a_health_check_has_a_place_of_its_own() -> None:
    admission = Admission(max_in_work=1, max_queued=1)
    admission.offer(Ticket(0), 0)
    assert admission.next(0) is not None
    admission.offer(Ticket(0), 0)
    assert admission.offer(Ticket(0), 0) == "full"
    assert admission.offer(Ticket(0, reserved=True, label="check"), 0) is None
    assert admission.offer(Ticket(0, reserved=True), 0) is None
    check = admission.next(0)
    assert check is not None
    assert check.label == "check"
    assert admission.next(0) is None, "one health check at a time beside the others"
    admission.done(check, 1)
    assert admission.next(1) is not None


def test_the_place_of_health_checks_cannot_be_abused() -> None:
    admission = Admission(max_queued=1)
    for step in range(10_000):
        now = SECOND + step * MS
        if admission.offer(Ticket(now, reserved=True), now) is None:
            ticket = admission.next(now)
            assert ticket is not None
            admission.done(ticket, now)
    begun = admission.counters()["begun_reserved"]
    # A second's worth at once, and then so many per second; the last of them would be due one step later.
    assert begun == 11 * limits.HTTP_RESERVED_PER_SECOND - 1


def test_a_burst_is_no_overload() -> None:
    now = SECOND
    admission = Admission()
    for _ in range(90):
        admission.offer(Ticket(now), now)
    served = []
    while (ticket := admission.next(now)) is not None:
        assert admission.expired(now) is None
        served.append(ticket)
        now += MS
        admission.done(ticket, now)
    assert len(served) == 90
    assert not admission.overloaded


def test_a_pause_of_the_whole_process_is_no_overload() -> None:
    admission = Admission()
    begin = SECOND
    for index in range(50):
        admission.offer(Ticket(begin + index), begin + 400 * MS)
    now = begin + 400 * MS
    while (ticket := admission.next(now)) is not None:
        now += MS
        admission.done(ticket, now)
    assert admission.counters()["done"] == 50
    assert not admission.overloaded


def test_who_floods_with_addresses_does_not_grow_the_table() -> None:
    admission = Admission(max_queued=100)
    for peer in range(1, 20_000):
        admission.offer(Ticket(peer, peer=peer), peer)
        ticket = admission.next(peer)
        assert ticket is not None
        admission.done(ticket, peer)
    counters = admission.counters()
    assert counters["addresses"] <= limits.HTTP_SHARE_SLOTS
    assert counters["addresses_evicted"] >= 20_000 - 1 - limits.HTTP_SHARE_SLOTS
    admission.offer(Ticket(5 * SECOND, peer=1), 5 * SECOND)
    assert admission.counters()["addresses"] == 1


def test_more_addresses_than_slots_share_them() -> None:
    admission = Admission()
    for peer in range(1, 10_001):
        assert admission.offer(Ticket(0, peer=peer), 0) is None
    assert admission.counters()["addresses_shared"] > 0
    assert len(admission) == 10_000
    while admission.expired(DEADLINE + 1) is not None:
        pass
    assert len(admission) == 0


@pytest.mark.parametrize("wrong", [{"max_in_work": 0}, {"max_queued": True}, {"deadline_ns": 0}, {"target_ns": 1.5}])
def test_a_senseless_argument_is_one_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Admission(**wrong)


# ---- reading less ----------------------------------------------------------------------------------------------------


def throttled_share(refused_per_ms: int) -> float:
    admission = Admission(max_queued=1)
    slices = 0
    for step in range(2000):
        now = SECOND + step * MS
        for _ in range(refused_per_ms + 1):
            admission.offer(Ticket(now), now)
        ticket = admission.next(now)
        assert ticket is not None
        admission.done(ticket, now + MS // 2)
        slices += admission.throttled(now + MS // 2)
    assert admission.counters()["throttles"] == slices
    return slices / 2000


def test_reading_pauses_half_of_the_time_when_refusing_costs_as_much_as_serving() -> None:
    assert throttled_share(0) == 0
    assert throttled_share(10) == 0
    assert throttled_share(24) == 0
    assert 0.4 < throttled_share(60) <= 0.5


# ---- how many in work ------------------------------------------------------------------------------------------------


def settle(service: Any, most: int = 64, seconds: int = 12) -> list[int]:
    """Many workers and always more that wait; `service` says how long one takes while so many are in work."""
    admission = Admission(max_in_work=most, max_queued=10_000)
    now, course = SECOND, []
    running: list[tuple[int, int, Ticket]] = []
    count = 0
    while now < (seconds + 1) * SECOND:
        while len(admission) < 5:
            count += 1
            admission.offer(Ticket(now, peer=count), now)
        while (ticket := admission.next(now)) is not None:
            count += 1
            heapq.heappush(running, (now + service(admission.in_work), count, ticket))
        now, _, ended = heapq.heappop(running)
        admission.done(ended, now)
        course.append(admission.limit)
    return course


def test_the_limit_rises_to_the_most_while_work_only_waits_for_others() -> None:
    rng = random.Random(4)
    assert settle(lambda in_work: rng.randrange(5 * MS, 15 * MS))[-1] == 64


def test_the_limit_falls_when_requests_only_hinder_each_other() -> None:
    course = settle(lambda in_work: in_work * 2 * MS, seconds=20)
    assert max(course[len(course) // 2 :]) <= 24
    assert min(course) >= 1


def test_a_program_that_got_slower_by_itself_gets_its_limit_back() -> None:
    rng = random.Random(5)
    calls = 0

    def service(in_work: int) -> int:
        nonlocal calls
        calls += 1
        return rng.randrange(40 * MS, 60 * MS) if calls > 20_000 else rng.randrange(4 * MS, 6 * MS)

    assert settle(service, seconds=30)[-1] == 64


# ---- goals, in simulated time ----------------------------------------------------------------------------------------

LONG = 10 * SECOND


@pytest.mark.parametrize("service", [1, 2, 5, 10])
@pytest.mark.parametrize(("load", "least"), [(2, 0.95), (10, 0.90)])
def test_overload_keeps_goodput_and_latency_and_refuses_quickly(service: int, load: int, least: float) -> None:
    took = service * MS
    crowd = list(poisson(7, load * SECOND / took, 0, LONG, from_many))
    after = list(poisson(8, 0.3 * SECOND / took, LONG, LONG + SECOND, from_many))
    admission = Admission()
    course = run(crowd + after, took, admission)
    assert len(course.good(0, LONG)) >= least * LONG / took
    assert percentile([request.took for request in course.served(0, LONG)], 0.99) <= max(10 * took, 25 * MS)
    # What it takes to see that this is no burst is not counted: twice the interval.
    begin = 2 * limits.HTTP_OVERLOAD_INTERVAL_NS
    refused = [r.refused - r.at for r in course.of(begin, LONG) if r.refused is not None]
    assert len(refused) >= 0.9 * (load - 1) * (LONG - begin) / took
    assert sum(age <= 50 * MS for age in refused) >= 0.99 * len(refused)
    calm = course.of(LONG + 300 * MS, LONG + SECOND)
    assert all(request.answered is not None and request.took <= PATIENCE for request in calm)
    assert not admission.overloaded
    assert admission.counters()["overloads"] <= 2


@pytest.mark.parametrize("service", [1, 2, 5, 10])
def test_polite_clients_are_served_beside_a_flooder(service: int) -> None:
    took = service * MS
    # Half of the load is the flooder's: the machine is just full.
    polite = list(poisson(7, 0.5 * SECOND / took, 0, LONG, lambda rng: rng.randrange(1, 21)))
    flood = list(poisson(9, 0.5 * SECOND / took, 0, LONG, lambda rng: 99))
    course = run(polite + flood, took, Admission())
    good = sum(request.answered is not None and request.took <= PATIENCE for request in polite)
    assert good >= 0.99 * len(polite)
    # What the others leave is the flooder's.
    assert len(course.served(0, LONG)) >= 0.8 * LONG / took


@pytest.mark.parametrize("flooded", [700, 9100])
def test_polite_clients_that_need_most_of_the_machine_still_get_it(flooded: int) -> None:
    polite = list(poisson(7, 900, 0, LONG, lambda rng: rng.randrange(1, 21)))
    flood = list(poisson(9, flooded, 0, LONG, lambda rng: 99))
    run(polite + flood, MS, Admission())
    good = sum(request.answered is not None and request.took <= PATIENCE for request in polite)
    assert good >= 0.998 * len(polite)
    assert all(request.why in {"share", "late"} for request in flood if request.refused is not None)


def test_moderate_load_is_not_refused() -> None:
    course = run(list(poisson(3, 700, 0, LONG, from_many)), MS, Admission())
    assert len(course.good(0, LONG)) == len(course.requests)


def test_services_of_different_length_are_served_as_well() -> None:
    crowd = list(poisson(7, 1000, 0, LONG, from_many))
    course = run(crowd, 2 * MS, Admission(), exponential=5)
    assert len(course.good(0, LONG)) >= 0.95 * 5000
