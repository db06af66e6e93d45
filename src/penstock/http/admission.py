# cython: language_level=3
"""Which request is next, which is refused, and how many may be in work? A queue that knows how old everything in it is.

Three queues are served in this order: health checks (few of them per second), requests of addresses that have had less
than their fair share lately and mostly wait for their answers, requests of the others. Each is in order of age, and
oldest first, until it *stands*: for 100 ms its oldest has been older than 5 ms (or than two services, if they take longer)
whenever somebody looked for work (waits.py). A burst does not stand, an overload does. Then

- the newest is served first, because its client certainly still waits,
- only as many wait as can be begun soon enough to matter: eight services' worth, 20 to 30 ms. The others are refused, the
  oldest first, while the refusal is still of use to somebody,
- the queue no longer stands when for a few 100 ms hardly anything had to be refused and its oldest was young at some look.

Whatever is older than its deadline is refused in any case, and nothing older is ever begun. Addresses with more than
their share can therefore only take what the others leave. Who is alone may have everything.

Time is an argument everywhere, so what happens depends on nothing but the calls. This file must not know connections,
answers or clocks.
"""

import cython
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memset
from cython.cimports.penstock.core.system import clz64
from cython.cimports.penstock.http.pace import pace_begin, pace_done, pace_init
from cython.cimports.penstock.http.shares import (
    shares_charge,
    shares_crowds,
    shares_free,
    shares_heavy,
    shares_init,
    shares_leave,
    shares_lose,
    shares_of,
    shares_wait,
)
from cython.cimports.penstock.http.types import (
    AGE_BUCKETS,
    REFUSE_COUNT,
    REFUSE_DRAIN,
    REFUSE_FULL,
    REFUSE_GONE,
    REFUSE_LATE,
    REFUSE_NONE,
    REFUSE_SHARE,
    WAIT_COUNT,
    WAIT_HEAVY,
    WAIT_LIGHT,
    WAIT_RESERVED,
    AdmissionC,
    WorkC,
)
from cython.cimports.penstock.http.waits import wait_link, wait_look, wait_unlink

from penstock import limits
from penstock.errors import UsageError
from penstock.limits import require_whole

REASONS = ("none", "full", "late", "share", "gone", "drain")
if len(REASONS) != REFUSE_COUNT:
    raise AssertionError("the reasons of admission.py are not those of types.pxd")

SERVICES = cython.declare(int64_t, limits.HTTP_OVERLOAD_SERVICES)
LIGHT_FACTOR = cython.declare(int64_t, limits.HTTP_OVERLOAD_LIGHT_FACTOR)
WAIT_MIN_NS = cython.declare(int64_t, limits.HTTP_OVERLOAD_WAIT_MIN_NS)
WAIT_MAX_NS = cython.declare(int64_t, limits.HTTP_OVERLOAD_WAIT_MAX_NS)
RESERVED_CAPACITY = cython.declare(uint32_t, limits.HTTP_RESERVED_QUEUE_CAPACITY)
RESERVED_COST_NS = cython.declare(int64_t, limits.NS_PER_S // limits.HTTP_RESERVED_PER_SECOND)
REFUSAL_COST_NS = cython.declare(int64_t, limits.HTTP_REFUSAL_COST_NS)
SLICE_NS = cython.declare(int64_t, limits.HTTP_THROTTLE_SLICE_NS)
# What the bucket of the reserved place holds at most: a second's worth.
RESERVED_SAVED_NS = cython.declare(int64_t, limits.NS_PER_S)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unlink(admission: cython.pointer[AdmissionC], work: cython.pointer[WorkC]) -> cython.void:
    """Take a request out of its queue, and out of what its address waits for."""
    wait_unlink(cython.address(admission.waits[work.lane]), work)
    admission.waiting -= 1
    if work.share != cython.NULL:
        shares_leave(cython.address(admission.shares), work.share)
        work.share = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _look(admission: cython.pointer[AdmissionC], now_ns: int64_t) -> cython.void:
    """Somebody looks for work: see whether the queues stand."""
    target_ns: int64_t = admission.target_ns
    if admission.pace.interval_ns * 2 > target_ns:
        target_ns = admission.pace.interval_ns * 2
    wait_look(cython.address(admission.waits[WAIT_HEAVY]), target_ns, admission.interval_ns, now_ns)
    # While it is the others who are too many, those with less than their share may take their time.
    if admission.waits[WAIT_HEAVY].standing:
        target_ns *= LIGHT_FACTOR
    wait_look(cython.address(admission.waits[WAIT_LIGHT]), target_ns, admission.interval_ns, now_ns)


# ---- what may wait, and how long -------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _patience_ns(admission: cython.pointer[cython.const[AdmissionC]], lane: cython.int) -> int64_t:
    """How long a request may wait in a queue that stands."""
    interval_ns: int64_t = admission.pace.interval_ns
    patience_ns: int64_t = interval_ns * SERVICES
    if patience_ns > WAIT_MAX_NS:
        patience_ns = WAIT_MAX_NS
    if patience_ns < interval_ns * 2:
        patience_ns = interval_ns * 2
    if patience_ns < WAIT_MIN_NS:
        patience_ns = WAIT_MIN_NS
    if lane == WAIT_LIGHT and admission.waits[WAIT_HEAVY].standing:
        patience_ns *= LIGHT_FACTOR
    return patience_ns if patience_ns < admission.deadline_ns else admission.deadline_ns


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _stands(admission: cython.pointer[cython.const[AdmissionC]], lane: cython.int) -> cython.bint:
    """Whether a queue is to be treated as standing: the last one is if the one before it is."""
    if lane == WAIT_HEAVY:
        return admission.waits[WAIT_HEAVY].standing or admission.waits[WAIT_LIGHT].standing
    return lane == WAIT_LIGHT and admission.waits[WAIT_LIGHT].standing


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _age_limit_ns(admission: cython.pointer[cython.const[AdmissionC]], lane: cython.int) -> int64_t:
    """How old a request in a queue may become."""
    return _patience_ns(admission, lane) if _stands(admission, lane) else admission.deadline_ns


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _crowded(admission: cython.pointer[cython.const[AdmissionC]], lane: cython.int) -> cython.bint:
    """Whether more wait in a standing queue than can be begun soon enough."""
    if not _stands(admission, lane) or admission.pace.interval_ns <= 0:
        return False
    places: int64_t = _patience_ns(admission, lane) // admission.pace.interval_ns + 1
    count: int64_t = admission.waits[lane].count
    if lane == WAIT_HEAVY:
        count += admission.waits[WAIT_LIGHT].count
    return admission.waits[lane].count > 0 and count > places


# ---- the load --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _roll(admission: cython.pointer[AdmissionC], now_ns: int64_t) -> cython.void:
    """Begin a new window of the load when the present one is over."""
    passed_ns: int64_t = now_ns - admission.load_ns
    if passed_ns < admission.interval_ns:
        return
    recent: cython.bint = passed_ns < 2 * admission.interval_ns
    admission.load_refused[1] = admission.load_refused[0] if recent else 0
    admission.load_worked_ns[1] = admission.load_worked_ns[0] if recent else 0
    admission.load_refused[0] = 0
    admission.load_worked_ns[0] = 0
    admission.load_ns = now_ns


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _refuse(admission: cython.pointer[AdmissionC], reason: cython.int, now_ns: int64_t) -> cython.int:
    """Count a refusal, and return its reason."""
    _roll(admission, now_ns)
    admission.refused[reason] += 1
    admission.load_refused[0] += 1
    return reason


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def admission_throttled(admission: cython.pointer[AdmissionC], now_ns: int64_t) -> cython.bint:
    """Whether to read less in this slice of time, because refusing takes as long as serving does."""
    _roll(admission, now_ns)
    refusing_ns: int64_t = REFUSAL_COST_NS * (admission.load_refused[0] + admission.load_refused[1])
    serving_ns: int64_t = admission.load_worked_ns[0] + admission.load_worked_ns[1]
    # What several have worked at a time does not make the time longer.
    whole_ns: int64_t = now_ns - admission.load_ns + admission.interval_ns
    if serving_ns > whole_ns:
        serving_ns = whole_ns
    if refusing_ns == 0 or refusing_ns < serving_ns or refusing_ns * 4 < whole_ns:
        return False
    if (now_ns // SLICE_NS) & 1:
        return False
    admission.throttles += 1
    return True


# ---- what the engine calls -------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _takes_reserved(admission: cython.pointer[AdmissionC], now_ns: int64_t) -> cython.bint:
    """Whether a health check may have the reserved place: few per second, and few at once."""
    if admission.waits[WAIT_RESERVED].count >= RESERVED_CAPACITY:
        return False
    saved_ns: int64_t = admission.reserved_tokens_ns + (now_ns - admission.reserved_since_ns)
    if saved_ns > RESERVED_SAVED_NS:
        saved_ns = RESERVED_SAVED_NS
    admission.reserved_since_ns = now_ns
    admission.reserved_tokens_ns = saved_ns
    if saved_ns < RESERVED_COST_NS:
        return False
    admission.reserved_tokens_ns -= RESERVED_COST_NS
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def admission_offer(admission: cython.pointer[AdmissionC], work: cython.pointer[WorkC], now_ns: int64_t) -> cython.int:
    """A request has arrived completely. REFUSE_NONE: it is queued. Else it is not, and the caller refuses it."""
    admission.offered += 1
    work.queued = False
    work.running = False
    work.share = cython.NULL
    if admission.draining:
        return _refuse(admission, REFUSE_DRAIN, now_ns)
    if now_ns - work.arrival_ns > admission.deadline_ns:
        return _refuse(admission, REFUSE_LATE, now_ns)
    if work.reserved and _takes_reserved(admission, now_ns):
        work.lane = WAIT_RESERVED
    else:
        work.share = shares_of(cython.address(admission.shares), work.peer, now_ns)
        ordinary: uint32_t = admission.waiting - admission.waits[WAIT_RESERVED].count
        if ordinary >= admission.queue_max:
            return _refuse(admission, REFUSE_FULL, now_ns)
        # While half of the places are free, anybody may have them.
        if ordinary * 2 >= admission.queue_max and shares_crowds(
            cython.address(admission.shares), work.share, admission.queue_max
        ):
            return _refuse(admission, REFUSE_SHARE, now_ns)
        work.lane = WAIT_HEAVY if shares_heavy(cython.address(admission.shares), work.share) else WAIT_LIGHT
        shares_wait(cython.address(admission.shares), work.share)
    work.queued = True
    wait_link(cython.address(admission.waits[work.lane]), work)
    admission.waiting += 1
    if admission.waiting > admission.waiting_peak:
        admission.waiting_peak = admission.waiting
    return REFUSE_NONE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _pick(admission: cython.pointer[AdmissionC], lane: cython.int, now_ns: int64_t) -> cython.pointer[WorkC]:
    """The one of a queue that is next, if it has one that is young enough."""
    oldest: cython.pointer[WorkC] = admission.waits[lane].oldest
    newest: cython.pointer[WorkC] = admission.waits[lane].newest
    limit_ns: int64_t = _age_limit_ns(admission, lane)
    if oldest == cython.NULL:
        return cython.NULL
    if not _stands(admission, lane) and now_ns - oldest.arrival_ns <= limit_ns:
        return oldest
    # If the oldest is too late, the newest is the one that most probably is not.
    return newest if now_ns - newest.arrival_ns <= limit_ns else cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _begin(admission: cython.pointer[AdmissionC], work: cython.pointer[WorkC], now_ns: int64_t) -> cython.void:
    """Count a request as in work."""
    age_us: uint64_t = (now_ns - work.arrival_ns) // 1000 if now_ns > work.arrival_ns else 0
    bucket: cython.int = 0 if age_us == 0 else 64 - clz64(age_us)
    admission.ages[bucket if bucket < AGE_BUCKETS else AGE_BUCKETS - 1] += 1
    admission.waits[work.lane].window_begun += 1
    if work.share != cython.NULL:
        shares_charge(cython.address(admission.shares), work.share)
    _unlink(admission, work)
    work.running = True
    work.started_ns = now_ns
    admission.begun += 1
    if work.lane == WAIT_RESERVED:
        admission.begun_reserved += 1
        admission.reserved_in_work += 1
    pace_begin(cython.address(admission.pace))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def admission_next(admission: cython.pointer[AdmissionC], now_ns: int64_t) -> cython.pointer[WorkC]:
    """The request to begin with now; NULL: none, or as many are in work as may be."""
    work: cython.pointer[WorkC] = cython.NULL
    if admission.waiting == 0:
        return cython.NULL
    # A health check may be in work beside as many others as may be, but only one.
    free: cython.bint = admission.pace.in_work < admission.pace.limit
    if free or (admission.reserved_in_work == 0 and admission.pace.in_work == admission.pace.limit):
        work = _pick(admission, WAIT_RESERVED, now_ns)
    if free and work == cython.NULL:
        _look(admission, now_ns)
        work = _pick(admission, WAIT_LIGHT, now_ns)
        if work == cython.NULL:
            work = _pick(admission, WAIT_HEAVY, now_ns)
    if work != cython.NULL:
        _begin(admission, work, now_ns)
    return work


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def admission_expired(
    admission: cython.pointer[AdmissionC], now_ns: int64_t, why: cython.p_int
) -> cython.pointer[WorkC]:
    """A request that waits and will not be served any more, with the reason; it is out of the queue. NULL: none."""
    lane: cython.int = WAIT_COUNT
    leaving: cython.bint = admission.draining and now_ns >= admission.drain_ns
    while lane > 0:
        lane -= 1
        work: cython.pointer[WorkC] = admission.waits[lane].oldest
        if work == cython.NULL:
            continue
        age_ns: int64_t = now_ns - work.arrival_ns
        if not leaving and age_ns <= _age_limit_ns(admission, lane) and not _crowded(admission, lane):
            continue
        why[0] = REFUSE_DRAIN if leaving else REFUSE_LATE
        if not leaving and lane == WAIT_HEAVY and age_ns <= admission.deadline_ns:
            why[0] = REFUSE_SHARE
        _unlink(admission, work)
        admission.waits[lane].window_refused += 1
        _refuse(admission, why[0], now_ns)
        return work
    return cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def admission_withdraw(admission: cython.pointer[AdmissionC], work: cython.pointer[WorkC]) -> cython.void:
    """A queued request is withdrawn: its connection is over."""
    if work.queued:
        if work.share != cython.NULL:
            shares_lose(cython.address(admission.shares), work.share)
        _unlink(admission, work)
        admission.refused[REFUSE_GONE] += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def admission_done(admission: cython.pointer[AdmissionC], work: cython.pointer[WorkC], now_ns: int64_t) -> cython.void:
    """Work on a request has ended, however."""
    if not work.running:
        return
    work.running = False
    admission.done += 1
    if work.lane == WAIT_RESERVED:
        admission.reserved_in_work -= 1
    took_ns: int64_t = now_ns - work.started_ns
    _roll(admission, now_ns)
    admission.load_worked_ns[0] += took_ns
    pace_done(cython.address(admission.pace), took_ns, admission.waiting > 0, now_ns)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def admission_due_ns(admission: cython.pointer[AdmissionC]) -> int64_t:
    """The instant at which admission_expired may have something again; INT64_MAX: nothing waits."""
    due_ns: int64_t = INT64_MAX
    lane: cython.int
    for lane in range(WAIT_COUNT):
        if admission.waits[lane].oldest == cython.NULL:
            continue
        # One more than the limit, because only what is older than that is too old.
        at_ns: int64_t = admission.waits[lane].oldest.arrival_ns + _age_limit_ns(admission, lane) + 1
        if _crowded(admission, lane):
            at_ns = 0
        if admission.draining and admission.drain_ns < at_ns:
            at_ns = admission.drain_ns
        if at_ns < due_ns:
            due_ns = at_ns
    return due_ns


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def admission_drain(admission: cython.pointer[AdmissionC], until_ns: int64_t) -> cython.void:
    """From now on nothing new is taken; what still waits at `until_ns` is given up."""
    admission.draining = True
    admission.drain_ns = until_ns


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def admission_overloaded(admission: cython.pointer[cython.const[AdmissionC]]) -> cython.bint:
    """Whether it is overloaded now."""
    return admission.waits[WAIT_LIGHT].standing or admission.waits[WAIT_HEAVY].standing


def admission_of(admission):
    """The structure inside an Admission, for compiled code; it lives as long as the object."""
    if not isinstance(admission, Admission):
        raise UsageError(f"admission is a {type(admission).__name__}; give a penstock.http.admission.Admission")
    return cython.address(cython.cast(Admission, admission).c)


# ---- the door for Python ---------------------------------------------------------------------------------------------


class Ticket:
    """A request as far as admission is concerned, for programs without the engine, and for tests."""

    def __cinit__(self, arrival_ns: int64_t, peer: object = 0, reserved: bool = False, label: object = None):
        memset(cython.address(self.c), 0, cython.sizeof(WorkC))
        self.c.arrival_ns = arrival_ns
        self.c.peer = hash(peer) & 0x7FFFFFFFFFFFFFFF
        self.c.reserved = reserved
        self.c.owner = cython.cast(cython.p_void, self)
        self.label = label

    @property
    def arrival_ns(self):
        """When it arrived."""
        return self.c.arrival_ns

    @property
    def state(self):
        """Whether it is queued, running, or neither."""
        return "queued" if self.c.queued else "running" if self.c.running else "free"


class Admission:
    """A bounded queue of requests that refuses in time what it cannot have served in time."""

    def __cinit__(
        self,
        max_in_work: object = limits.HTTP_REQUESTS_IN_WORK_MAX,
        max_queued: object = limits.HTTP_QUEUE_CAPACITY,
        deadline_ns: object = limits.HTTP_DEADLINE_NS,
        interval_ns: object = limits.HTTP_OVERLOAD_INTERVAL_NS,
        target_ns: object = limits.HTTP_OVERLOAD_AGE_NS,
    ):
        require_whole("max_in_work", max_in_work, 1, 1 << 20)
        require_whole("max_queued", max_queued, 1, 1 << 20)
        for name, value in (("deadline_ns", deadline_ns), ("interval_ns", interval_ns), ("target_ns", target_ns)):
            require_whole(name, value, 1, limits.HTTP_TIMEOUT_MAX_NS)
        memset(cython.address(self.c), 0, cython.sizeof(AdmissionC))
        self.tickets = set()
        self.c.queue_max = max_queued
        self.c.deadline_ns = deadline_ns
        self.c.interval_ns = interval_ns
        self.c.target_ns = target_ns
        self.c.reserved_tokens_ns = RESERVED_SAVED_NS
        pace_init(cython.address(self.c.pace), max_in_work)
        if shares_init(cython.address(self.c.shares), limits.HTTP_SHARE_SLOTS) < 0:
            raise MemoryError("no memory for the table of addresses")

    def __dealloc__(self):
        # What still waits belongs to whoever offered it, and may be gone already: it is not touched.
        shares_free(cython.address(self.c.shares))

    def _take(self, work: cython.pointer[WorkC]):
        """The ticket of a request that has left the queue."""
        ticket = cython.cast(Ticket, work.owner)
        self.tickets.discard(ticket)
        return ticket

    def offer(self, ticket: Ticket, now_ns: int64_t):
        """Put a ticket into the queue; or return the word for why it is refused."""
        if ticket.c.queued or ticket.c.running:
            raise UsageError(f"the ticket is {ticket.state} already; offer each ticket once")
        why: cython.int = admission_offer(cython.address(self.c), cython.address(ticket.c), now_ns)
        if why != REFUSE_NONE:
            return REASONS[why]
        # The queue knows only its structure, so somebody must keep it.
        self.tickets.add(ticket)
        return None

    def next(self, now_ns: int64_t):
        """The ticket to begin with now, or None. Call `done` when its work has ended."""
        work: cython.pointer[WorkC] = admission_next(cython.address(self.c), now_ns)
        return None if work == cython.NULL else self._take(work)

    def expired(self, now_ns: int64_t):
        """A ticket that will not be served any more and the word for why, or None. Call it until it has none."""
        why: cython.int = 0
        work: cython.pointer[WorkC] = admission_expired(cython.address(self.c), now_ns, cython.address(why))
        return None if work == cython.NULL else (self._take(work), REASONS[why])

    def withdraw(self, ticket: Ticket):
        """Whoever asked has gone. A ticket that does not wait stays as it is."""
        if ticket.c.queued:
            admission_withdraw(cython.address(self.c), cython.address(ticket.c))
            self.tickets.discard(ticket)

    def done(self, ticket: Ticket, now_ns: int64_t):
        """Work on a ticket has ended."""
        admission_done(cython.address(self.c), cython.address(ticket.c), now_ns)

    def drain(self, until_ns: int64_t):
        """Take nothing new; give up at an instant what still waits then."""
        admission_drain(cython.address(self.c), until_ns)

    def throttled(self, now_ns: int64_t):
        """Whether to read less in this slice of time."""
        return bool(admission_throttled(cython.address(self.c), now_ns))

    @property
    def due_ns(self):
        """When `expired` may have something again; None: nothing waits."""
        due: int64_t = admission_due_ns(cython.address(self.c))
        return None if due == INT64_MAX else due

    @property
    def overloaded(self):
        """Whether it is overloaded now."""
        return bool(admission_overloaded(cython.address(self.c)))

    @property
    def limit(self):
        """How many may be in work now."""
        return self.c.pace.limit

    @property
    def in_work(self):
        """How many are in work now."""
        return self.c.pace.in_work

    def __len__(self):
        return self.c.waiting

    def counters(self):
        """What has happened so far, and how things stand."""
        return {
            "offered": self.c.offered,
            "begun": self.c.begun,
            "begun_reserved": self.c.begun_reserved,
            "done": self.c.done,
            "refused": {REASONS[why]: self.c.refused[why] for why in range(1, REFUSE_COUNT)},
            "waiting": self.c.waiting,
            "waiting_peak": self.c.waiting_peak,
            "in_work": self.c.pace.in_work,
            "in_work_peak": self.c.pace.in_work_peak,
            "limit": self.c.pace.limit,
            "limit_raised": self.c.pace.raised,
            "limit_lowered": self.c.pace.lowered,
            "interval_ns": self.c.pace.interval_ns,
            "overloaded": self.overloaded,
            "overloads": self.c.waits[WAIT_LIGHT].stood + self.c.waits[WAIT_HEAVY].stood,
            "addresses": self.c.shares.active,
            "addresses_evicted": self.c.shares.evicted,
            "addresses_shared": self.c.shares.shared,
            "throttles": self.c.throttles,
            # Requests by their age when they were begun: below 1 us, 2 us, 4 us and so on.
            "ages": [self.c.ages[bucket] for bucket in range(AGE_BUCKETS)],
        }
