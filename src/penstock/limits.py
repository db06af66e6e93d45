"""Every bound and default of the project, with its unit and the reason for its value.

A limit is a named constant with the comment that explains it directly above; `docs/limits.md` is generated from this
file. What a program may change is a field of `Policy` with the same name in lower case; the same names appear in
errors, figures and commands. This file must not know any other file but `errors`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from penstock.errors import UsageError

NS_PER_S = 1_000_000_000

# ---- the loop --------------------------------------------------------------------------------------------------------

# Descriptors that one loop may watch: those with a number below this. Far above the 20,000 that common systems allow a
# process; the table has 80 bytes for each number that was ever watched, and below.
DESCRIPTORS_MAX = 1_048_576

# Ready descriptors taken from the poller at once. High enough that one system call serves a thousand connections, low
# enough that a batch of 5 us handlers ends within 5 ms.
READY_BATCH = 1_024

# Timers that may be live in one loop. At most 120 bytes each: 500 MB if somebody really starts them all.
TIMERS_MAX = 4_194_304

# Timers run in one turn. A thundering herd of timers must not keep readiness waiting for more than about a millisecond.
TIMER_BUDGET = 4_096

# Deferred tasks that may wait. A program that defers more than this in one turn has lost control of itself.
DEFERRED_CAPACITY = 1_048_576

# Posts of other threads that may wait. Each holds a reference, so this bounds what a stuck loop keeps alive.
INBOX_CAPACITY = 65_536

# Posts taken over in one turn, so that a flood from threads does not starve descriptors.
INBOX_BUDGET = 1_024

# Lanes of one loop. Each turn looks at every lane that may have work; a program with more kinds of work than this wants
# one lane with a key.
LANES_MAX = 64

# The longest wait in the poller. A changed clock or a lost wake-up is noticed after at most this long.
WAIT_MAX_NS = 300 * NS_PER_S

# While only internal work is pending, a poll may be skipped if the last one is at most this old: a chain of callbacks
# then costs no system call per step, and readiness is late by at most this much.
POLL_SKIP_NS = 50_000

# The period of the policy clock, whose TIMER refills the budgets that are counted per tick.
TICK_PERIOD_NS = NS_PER_S

# The shortest and longest period of the policy clock: below a millisecond ticks cost more than the work they allow.
TICK_PERIOD_MIN_NS = 1_000_000
TICK_PERIOD_MAX_NS = 3_600 * NS_PER_S

# The longest delay of a timer: ten years. Beyond that a delay is a mistake of units.
TIMER_DELAY_MAX_NS = 10 * 365 * 86_400 * NS_PER_S

# The shortest period of an interval. A shorter one would be due again before its handler has returned.
INTERVAL_MIN_NS = 1_000

# Reports of one kind (drops of a lane, errors of handlers) that the default hooks print: at most this many per
# REPORT_PERIOD_NS, the rest is counted and added up in the next one.
REPORTS_PER_PERIOD = 10
REPORT_PERIOD_NS = NS_PER_S

# ---- lanes -----------------------------------------------------------------------------------------------------------

# Events that may wait in a lane, and the most that a lane may be asked to hold.
LANE_CAPACITY = 1_024
LANE_CAPACITY_MAX = 16_777_216

# Events of a lane that run in one turn. High enough to amortise the turn (about 100 ns), low enough that a lane of
# 10 us handlers delays the next poll by less than 3 ms.
LANE_BUDGET = 256

# The longest time that `overflow="block"` keeps a posting thread waiting before it raises Overflow.
BLOCK_TIMEOUT_NS = 5 * NS_PER_S

# Characters of a lane's or loop's name: it appears in metrics.
NAME_MAX_CHARACTERS = 80

# ---- the budgeted system ---------------------------------------------------------------------------------------------

# Events that the budgeted system's ring holds, and the internal events that one tick allows.
BUDGETED_QUEUE_CAPACITY = 16
BUDGETED_QUEUE_CAPACITY_MAX = 1_048_576
BUDGETED_INTERNAL_PER_TICK = 2

# Internal events that one tick may be made to allow. At 10 us each they fill ten periods of a second: more is no bound.
BUDGETED_INTERNAL_PER_TICK_MAX = 1_048_576

# The pause between two iterations in real time: a thousand looks per second cost next to nothing.
BUDGETED_THROTTLE_NS = 1_000_000

# The longest such pause: whoever stops the system from outside waits at most this long.
BUDGETED_THROTTLE_MAX_NS = NS_PER_S

# What the command may be asked for: a demonstration ends.
BUDGETED_TICKS_MAX = 1_000_000
BUDGETED_FLOOD_MAX = 10_000_000

# ---- the simulated kernel --------------------------------------------------------------------------------------------

# Bytes that a simulated socket or pipe buffers in one direction, as Linux does for a pipe.
SIMULATED_BUFFER_BYTES = 65_536

# Descriptors of one simulated kernel.
SIMULATED_DESCRIPTORS_MAX = 65_536

# Events that may be scheduled in a simulated kernel.
SIMULATED_SCHEDULE_MAX = 1_048_576

# ---- operations on descriptors ---------------------------------------------------------------------------------------

# Operations of one loop that may wait or be completed at once. About 300 bytes each: as many as descriptors.
OPERATIONS_MAX = 1_048_576

# Operations of one kind that may wait at one descriptor. Who queues more does not look at completions.
OPERATIONS_PER_QUEUE_MAX = 4_096

# Operations that one descriptor performs in one turn: amortises the event, and lets the others wait for 0.2 ms at most.
OPERATIONS_SHARE = 64

# Records of descriptors that a loop makes before they are needed. None: the first connections cost 0.1 us more.
PREALLOCATED_DESCRIPTORS = 0

# Threads that may run one shared loop at once. Its lock is one for all: more threads than processors wait for each other.
SHARED_THREADS_MAX = 64

# Tries to take the lock of a shared loop before a thread sleeps: about 2 us, what going to sleep and waking up costs at
# least. To open descriptors and start timers is rare, and may sleep at once.
IO_SPINS = 100
REGISTRATION_SPINS = 0

# ---- streams, listeners, datagrams, names ----------------------------------------------------------------------------

# Bytes that all streams of one loop may have received and not yet handed over. Sixteen full shares: a turn moves at most
# this much, and 10,000 idle connections share it instead of holding a buffer each.
READ_POOL_BYTES = 1_048_576

# Bytes that one stream reads in one turn. One flooding connection then costs its neighbours about 20 us per turn.
READ_SHARE_BYTES = 65_536

# Receive calls that one stream makes in one turn, so that many small pieces cost no more than one large one.
READ_SHARE_OPERATIONS = 16

# Bytes of room that a receive call is offered at least; if the pool has less, the stream waits for the next turn.
READ_ROOM_MIN_BYTES = 4_096

# Bytes at which a write buffer begins: what a short write usually leaves.
WRITE_BUFFER_FIRST_BYTES = 4_096

# Bytes that wait to be sent above which `write` asks the program to stop, and at which `on_drain` lets it go on.
WRITE_HIGH_BYTES = 65_536
WRITE_LOW_BYTES = 16_384

# Bytes that may wait to be sent to one peer. Whoever is further behind is a slow peer.
WRITE_CAP_BYTES = 262_144

# Bytes that a program may allow one stream to hold: beyond that it wants a file.
WRITE_CAP_MAX_BYTES = 1_073_741_824

# Bytes that may wait to be sent in the whole process: a thousand slow peers at their cap.
WRITE_TOTAL_BYTES = 268_435_456

# Bytes that one stream sends from its buffer in one turn: as many as it may read.
WRITE_SHARE_BYTES = 262_144

# Pieces that one write of a sequence hands to the system as they are; a longer sequence is joined first.
WRITE_PIECES_MAX = 64

# The time that `close` gives a peer to take what waits for it, and the longest such time.
LINGER_NS = 5 * NS_PER_S
LINGER_MAX_NS = 3_600 * NS_PER_S

# The time that an outgoing connection gets to be made. A peer that drops packets would otherwise take two minutes.
CONNECT_TIMEOUT_NS = 30 * NS_PER_S

# Connections that wait to be accepted; what common systems allow at most.
LISTEN_BACKLOG = 4_096

# Connections that a listener accepts in one turn: at about 10 us each, others wait little more than a millisecond.
ACCEPT_BUDGET = 128
ACCEPT_BUDGET_MAX = 4_096

# Connections that one listener may hold by default. It is the descriptors of the process that end sooner.
CONNECTIONS_MAX = 1_048_576

# The pause of a listener for which the system has no descriptor or memory, if no descriptor is freed before.
ACCEPT_PAUSE_NS = 100_000_000

# Datagrams that wait to be sent by one socket.
DATAGRAM_QUEUE_CAPACITY = 256

# Datagrams that one socket receives, and sends from its queue, in one turn.
DATAGRAM_SHARE = 64

# Bytes of the largest datagram that UDP carries.
DATAGRAM_MAX_BYTES = 65_535

# Threads that look names up. The system's resolver blocks, and a slow server must not hold up every name.
RESOLVE_THREADS = 4

# Names that wait to be looked up, in all threads; one more is refused.
RESOLVE_CAPACITY = 256

OnInvariant = Literal["raise", "abort"]


def require_whole(name: str, value: object, least: int, most: int) -> None:
    """Raise unless `value` is a whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{name} is {value!r}; give a whole number from {least:,} to {most:,}")
    if not least <= value <= most:
        raise UsageError(f"{name} is {value:,}; give a whole number from {least:,} to {most:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits of one loop that a program may change. Every field is named after its constant above."""

    descriptors_max: int = DESCRIPTORS_MAX
    ready_batch: int = READY_BATCH
    timers_max: int = TIMERS_MAX
    timer_budget: int = TIMER_BUDGET
    deferred_capacity: int = DEFERRED_CAPACITY
    inbox_capacity: int = INBOX_CAPACITY
    inbox_budget: int = INBOX_BUDGET
    lanes_max: int = LANES_MAX
    wait_max_ns: int = WAIT_MAX_NS
    poll_skip_ns: int = POLL_SKIP_NS
    tick_period_ns: int = TICK_PERIOD_NS
    block_timeout_ns: int = BLOCK_TIMEOUT_NS
    operations_max: int = OPERATIONS_MAX
    operations_per_queue_max: int = OPERATIONS_PER_QUEUE_MAX
    operations_share: int = OPERATIONS_SHARE
    preallocated_descriptors: int = PREALLOCATED_DESCRIPTORS
    shared_threads_max: int = SHARED_THREADS_MAX
    io_spins: int = IO_SPINS
    registration_spins: int = REGISTRATION_SPINS
    io_locking: bool = True
    registration_locking: bool = True
    use_eventfd: bool = True
    on_invariant: OnInvariant = "raise"

    def __post_init__(self) -> None:
        for name, (least, most) in POLICY_RANGES.items():
            require_whole(name, getattr(self, name), least, most)
        for name in POLICY_SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} is {getattr(self, name)!r}; give True or False")
        if self.on_invariant not in ("raise", "abort"):
            raise UsageError(f'on_invariant is {self.on_invariant!r}; give "raise" or "abort"')


# What each field of a policy may be.
POLICY_RANGES: dict[str, tuple[int, int]] = {
    "descriptors_max": (4, DESCRIPTORS_MAX),
    "ready_batch": (1, 65_536),
    "timers_max": (1, 268_435_456),
    "timer_budget": (1, 1_048_576),
    "deferred_capacity": (1, 16_777_216),
    "inbox_capacity": (1, 16_777_216),
    "inbox_budget": (1, 1_048_576),
    "lanes_max": (1, 4_096),
    "wait_max_ns": (1_000_000, WAIT_MAX_NS),
    "poll_skip_ns": (0, 1_000_000),
    "tick_period_ns": (TICK_PERIOD_MIN_NS, TICK_PERIOD_MAX_NS),
    "block_timeout_ns": (0, WAIT_MAX_NS),
    "operations_max": (1, 16_777_216),
    "operations_per_queue_max": (1, 1_048_576),
    "operations_share": (1, 65_536),
    "preallocated_descriptors": (0, DESCRIPTORS_MAX),
    "shared_threads_max": (1, 1_024),
    "io_spins": (0, 1_000_000),
    "registration_spins": (0, 1_000_000),
}
POLICY_SWITCHES = ("io_locking", "registration_locking", "use_eventfd")

_LISTED = {*POLICY_RANGES, *POLICY_SWITCHES, "on_invariant"}
if {field.name for field in fields(Policy)} != _LISTED:  # pragma: no cover
    raise AssertionError("POLICY_RANGES and POLICY_SWITCHES do not list every field of Policy")


# ---- the simulated kernel, in detail ---------------------------------------------------------------------------------

# The unit in which a simulated pipe hands out its space, as Linux does on most machines.
SIMULATED_PAGE_BYTES = 4_096

# The largest buffer that a simulated socket or pipe, and the most bytes that a simulated file, may have.
SIMULATED_BUFFER_BYTES_MAX = 16_777_216

# Descriptors that one simulated poller may watch. More than there are descriptors, because a duplicate keeps the entry
# of a closed descriptor alive; beyond that a program leaks entries, and gets ENOSPC as from Linux.
SIMULATED_WATCHES_MAX = 262_144

# Connections that may wait to be accepted, as Linux' net.core.somaxconn.
SIMULATED_BACKLOG_MAX = 4_096

# Faults that may be planned and not have struck.
SIMULATED_FAULTS_MAX = 65_536

# Scheduled actions that one call may run. A simulated day of ten actions a second has 864,000; an action that schedules
# itself for the same instant is found out after some seconds.
SIMULATED_ACTIONS_PER_CALL_MAX = 16_777_216

# ---- system calls of operations ----------------------------------------------------------------------------------------

# Bytes that one perform of a write moves before the others get their turn, in 0.1 ms on a common machine.
OPERATION_SHARE_BYTES = 1_048_576

# Bytes that one read may ask for: the memory is there while the result waits to be handed over.
OPERATION_READ_MAX_BYTES = 16_777_216

# Bytes that a sendfile copies at once where the system has no call for it.
SENDFILE_COPY_BYTES = 65_536

# Descriptors that one message may carry: what Linux allows.
MESSAGE_DESCRIPTORS_MAX = 253

# Turns that one call of `poll` may take before it returns although handlers go on making work.
POLL_TURNS_MAX = 1_024

# ---- kqueue ----------------------------------------------------------------------------------------------------------

# Events taken from a kqueue at once. Each becomes an object of the interpreter here, so fewer than epoll's.
KQUEUE_BATCH = 128

# Filters that a simulated kqueue may hold: a read, a write and an out-of-band filter for each simulated descriptor.
SIMULATED_FILTERS_MAX = 262_144

# ---- HTTP: what a request may be -------------------------------------------------------------------------------------

# Bytes of a request line. RFC 9112 asks for at least 8,000.
HTTP_LINE_MAX_BYTES = 8_190

# Bytes of a whole head, and the most that may be allowed: places in a head are kept in 16 bits.
HTTP_HEAD_MAX_BYTES = 16_384
HTTP_HEAD_LIMIT_BYTES = 65_535

# Fields of a head. A hundred places of ten bytes are what a connection with half a head holds.
HTTP_FIELDS_MAX = 100

# Empty lines that are skipped before a request line: some clients end the content of a POST with one that is not part of it.
HTTP_EMPTY_LINES_MAX = 4

# Bytes of a request's content that is received, and the most that may be allowed.
HTTP_BODY_MAX_BYTES = 16_777_216
HTTP_BODY_LIMIT_BYTES = 1_099_511_627_776

# Bytes of a chunk's size line with its extensions, and of all trailer fields of a body.
HTTP_CHUNK_LINE_MAX_BYTES = 256
HTTP_TRAILER_MAX_BYTES = 4_096

# Bytes of chunks' size lines, beyond 16 each, that the content received with them does not make up for. A sender of long
# extensions with hardly any content has nothing good in mind.
HTTP_CHUNK_EXCESS_MAX_BYTES = 16_384

# Bytes of content that are kept for a handler that has not asked for a stream of them; beyond that it is 413.
HTTP_BODY_KEPT_MAX_BYTES = 1_048_576

# ---- HTTP: how long it may take --------------------------------------------------------------------------------------

# The time that a new connection has to send its first byte, and to send a whole head once it has begun. Bytes that trickle
# in do not extend them.
HTTP_FIRST_BYTE_TIMEOUT_NS = 10 * NS_PER_S
HTTP_HEADER_TIMEOUT_NS = 10 * NS_PER_S

# The time in which a body must have made its minimum progress, and that progress per second.
HTTP_BODY_TIMEOUT_NS = 10 * NS_PER_S
HTTP_BODY_RATE_BYTES = 1_024

# The time in which a peer must take at least some of what waits for it.
HTTP_SEND_TIMEOUT_NS = 10 * NS_PER_S

# The time between two requests of a connection.
HTTP_IDLE_TIMEOUT_NS = 30 * NS_PER_S

# The time for which a connection is still read after its last answer, so that the answer is not lost to a reset, and the
# bytes that are thrown away in it.
HTTP_LINGER_NS = 2 * NS_PER_S
HTTP_LINGER_MAX_BYTES = 1_048_576

# The time that a leaving server gives to what it has accepted.
HTTP_DRAIN_TIMEOUT_NS = 30 * NS_PER_S

# How often a server looks whether somebody has set the calendar's clock; dates follow the monotonic clock in between.
HTTP_WALL_PERIOD_NS = 60 * NS_PER_S

# The longest of these times: beyond a day they are mistakes of units.
HTTP_TIMEOUT_MAX_NS = 86_400 * NS_PER_S

# ---- HTTP: how much at once ------------------------------------------------------------------------------------------

# Connections of one loop of a server.
HTTP_CONNECTIONS_MAX = 20_000

# Bytes of pipelined requests that wait while another one of their connection is answered. Then the peer has to wait.
HTTP_REST_MAX_BYTES = 65_536

# Answers to pipelined requests that are made in one go, and bytes that are gathered for one send.
HTTP_PIPELINE_SHARE = 1_024
HTTP_OUTPUT_BYTES = 131_072

# Content up to this size is copied behind its head, so that both leave in one send; copying it costs less than a system
# call. Larger content is sent from where it lies.
HTTP_COPY_MAX_BYTES = 16_384

# Bytes of large content that are encrypted at once, one TLS record.
HTTP_PIECE_BYTES = 16_384

# Records of places to send from, and of requests, that are kept for the next ones instead of being given back.
HTTP_SOURCES_KEPT = 1_024
HTTP_REQUESTS_KEPT = 256

# Content of a request that waits for a program that streams it. Then the peer has to wait.
HTTP_STREAM_WINDOW_BYTES = 65_536

# Pieces of an answer that a program may make in one turn for one connection.
HTTP_PIECES_SHARE = 16

# What programs behind a server raised lately: so many of their messages are kept for its status page.
HTTP_RECENT_ERRORS = 20

# Reasons of failed TLS handshakes that are counted by name; a peer must not fill a table by inventing more.
HTTP_TLS_REASONS_MAX = 64

# Threads of a pool for WSGI applications. More of them than cores only help applications that wait.
WSGI_THREADS = 8
WSGI_THREADS_MAX = 512

# Content of an answer that a thread may hand over before the client has taken it.
WSGI_WINDOW_BYTES = 131_072

# Seconds: a thread that waits for its client looks up this often; one that finds the loop's inbox full tries again after
# the second; the pool gives its threads the third to end.
WSGI_WAIT_S = 1.0
WSGI_RETRY_S = 0.001
WSGI_CLOSE_S = 10.0

# How often those who watch the status of a server are told of it, and how many may watch at once.
STATUS_PERIOD_NS = NS_PER_S
STATUS_WATCHERS_MAX = 32

# Connections that are looked at to find an idle one to close for a new one.
HTTP_EVICT_LOOKS = 64

# Bytes of a file that one connection sends in one turn: 0.1 ms of copying in the kernel.
HTTP_SEND_SHARE_BYTES = 1_048_576

# Requests that may wait for the program, and that it may have at once; the admission adapts the second one downwards.
HTTP_QUEUE_CAPACITY = 16_384
HTTP_REQUESTS_IN_WORK_MAX = 1_024

# How old a request may be when work on it begins. Its client has mostly given up, or will not be pleased.
HTTP_DEADLINE_NS = 500_000_000

# Time that handlers may take in one turn before the loop looks at the poller again, at least one of them runs.
HTTP_WORK_BUDGET_NS = 2_000_000

# The server is overloaded when over the first of these times no request waited less than the second.
HTTP_OVERLOAD_INTERVAL_NS = 100_000_000
HTTP_OVERLOAD_AGE_NS = 5_000_000

# How long a request may wait while the server is overloaded: for so many services, at least and at most for these times
# (but for two services in any case). Who waits longer is refused while that still helps: clients give up after some 50
# to 100 ms.
HTTP_OVERLOAD_SERVICES = 8
HTTP_OVERLOAD_WAIT_MIN_NS = 20_000_000
HTTP_OVERLOAD_WAIT_MAX_NS = 30_000_000

# How much longer an address may wait that has had less than its share, while others are refused because they had more.
HTTP_OVERLOAD_LIGHT_FACTOR = 3

# A PROXY header: the line of version 1 has at most 107 bytes by its definition. Version 2 has 216 bytes of addresses at
# most; what follows them (names, certificates of the proxy's clients) is skipped, and may have so many with them.
HTTP_PROXY_LINE_MAX_BYTES = 107
HTTP_PROXY_BLOCK_MAX_BYTES = 4_096

# Networks whose proxies are trusted. Each address is compared with all of them: 64 take 0.1 us.
HTTP_TRUSTED_MAX = 64

# Slots of the table of connections by address, where they are counted behind proxies: 8 bytes each.
HTTP_ADDRESS_SLOTS = 16_384

# Addresses whose share is known (40 bytes each): far more than contend at once, and a flood of addresses cannot grow it.
HTTP_SHARE_SLOTS = 4_096

# What an address has had is forgotten by an eighth in this time, so that it is about the last second that counts.
HTTP_SHARE_EPOCH_NS = 134_217_728

# Health checks that may wait in the place that is reserved for them, and how many per second may use it: a load
# balancer asks once in some seconds, and whoever pretends to be one gains nothing.
HTTP_RESERVED_QUEUE_CAPACITY = 16
HTTP_RESERVED_PER_SECOND = 20

# The limit of requests in work is looked at once in this time. Before anything is known it is this.
HTTP_PACE_WINDOW_NS = 100_000_000
HTTP_IN_WORK_FIRST = 16

# What a refusal costs: receiving, parsing, sending a prepared answer. When refusing takes as long as serving, reading
# pauses for every other slice of this length.
HTTP_REFUSAL_COST_NS = 15_000
HTTP_THROTTLE_SLICE_NS = 2_000_000

# ---- HTTP: the access log --------------------------------------------------------------------------------------------

# Bytes of lines that wait for the writer, the least and the most that may be asked for: two seconds of 5,000 lines each.
HTTP_LOG_RING_BYTES = 1_048_576
HTTP_LOG_RING_MIN_BYTES = 256
HTTP_LOG_RING_MAX_BYTES = 1_073_741_824

# Bytes of one text in a line after escaping; what is longer is cut. And the parts that a format may have.
HTTP_LOG_FIELD_BYTES = 2_048
HTTP_LOG_PARTS_MAX = 128

# The largest number of requests of which one is logged. More is the same as no log.
HTTP_LOG_SAMPLE_MAX = 1_000_000

# The time for which the writer gathers lines before it writes them, and that it waits after a failed write.
HTTP_LOG_GATHER_NS = 50_000_000
HTTP_LOG_RETRY_NS = 200_000_000

# The time that a log has to write its last lines when it is closed. A disk that hangs must not hang the server.
HTTP_LOG_CLOSE_TIMEOUT_NS = 2 * NS_PER_S

# ---- HTTP: processes and threads ---------------------------------------------------------------------------------------

# Worker processes, and loops in threads, of one server. More than a machine has cores only cost.
HTTP_WORKERS_MAX = 256
HTTP_THREADS_MAX = 256

# The pause before a worker that crashed is started again; it doubles with each crash up to the second of these, and is
# the first one again for a worker that has lived for the third.
HTTP_WORKER_PAUSE_NS = 100_000_000
HTTP_WORKER_PAUSE_MAX_NS = 30 * NS_PER_S
HTTP_WORKER_SETTLED_NS = 10 * NS_PER_S

# The time between the moment from which nobody can connect any more and the last accept of a server that leaves: who has
# begun to connect gets through, on any network of one site.
HTTP_HANDSHAKE_NS = 50_000_000

# The time that a worker gets until it says that it serves; an application that imports for longer is stuck.
HTTP_WORKER_START_NS = 60 * NS_PER_S

# The time by which the drain time-out may be exceeded before a worker is killed: it ends its connections itself then.
HTTP_WORKER_KILL_NS = 2 * NS_PER_S

# The time in which what a worker has said before it ended is read: a process that it has started may hold its end open.
HTTP_WORKER_LAST_WORDS_NS = NS_PER_S

# The longest life time that a worker may be given, and the percent by which each one's differs, so that not all are
# replaced at once.
HTTP_WORKER_LIFETIME_MAX_NS = 30 * 86_400 * NS_PER_S
HTTP_WORKER_JITTER_PERCENT = 10

# Former workers of one place that may still be answering while newer ones serve. One more reload ends the oldest at once.
HTTP_WORKER_FORMER_MAX = 4

# Bytes of one message between a worker and its parent: counters of everything are about 10 KB.
HTTP_CHANNEL_MAX_BYTES = 262_144

# The period at which the counters of workers are collected and shown: a person reads no faster.
HTTP_SHOW_PERIOD_NS = NS_PER_S

# Bytes of a configuration file. What is larger is some other file.
HTTP_CONFIGURATION_MAX_BYTES = 1_048_576

# Characters of a wrong value that an error repeats; a whole file pasted into a variable helps nobody.
HTTP_SHOWN_MAX_CHARACTERS = 200

# ---- HTTP: files -----------------------------------------------------------------------------------------------------

# Bytes of a file's content that is kept in memory and sent from there; larger ones are sent by the kernel from where they
# lie. A connection that has stalled may be the last to hold such a content: no more than 16 KiB for each of them.
HTTP_FILE_IN_MEMORY_BYTES = 16_384

# Memory of the cache of one directory, and the most that may be allowed: what a common site needs, and what a mistake would.
HTTP_CACHE_BYTES = 16_777_216
HTTP_CACHE_BYTES_MAX = 68_719_476_736

# Entries of the cache of one directory, and the most that may be allowed: the table for them is allocated at the start.
HTTP_CACHE_ENTRIES = 4_096
HTTP_CACHE_ENTRIES_MAX = 16_777_216

# Descriptors of large files that the cache keeps open. Many processes may have 1,024 in all, and need them for connections.
HTTP_CACHE_OPEN_FILES = 128

# How long a file in the cache is believed to be unchanged. One look costs as much as ten answers.
HTTP_FILE_CHECK_NS = 1_000_000_000

# A file that was changed less than this before it was read may be changed again without its time telling it: systems keep
# times in steps of up to two seconds.
HTTP_FILE_SETTLED_NS = 2_000_000_000

# How often a file is read again that changes while it is read; then it is sent as it is, and not kept.
HTTP_FILE_READ_TRIES = 3

# Bytes of a decoded path. Linux has none above 4,095 bytes, and an index's or a neighbour's name must still fit.
HTTP_PATH_MAX_BYTES = 2_048

# Bytes of one name in a path: no common file system has longer ones.
HTTP_NAME_MAX_BYTES = 255

# Links that may follow each other in one path where the system cannot count them for us: as many as Linux follows.
HTTP_LINKS_MAX = 40

# Ranges of one request, merged where they overlap. A client that reads a document by its index asks for a few.
HTTP_RANGES_MAX = 16

# Bytes between two ranges that are sent rather than left out: the fields of a part of its own take as many.
HTTP_RANGE_GAP_BYTES = 80

# Bytes of a file that are read at once for an answer in several parts.
HTTP_PART_BYTES = 65_536

# Entries that a listing of a directory shows: reading and sorting them takes a few milliseconds of the loop's time.
HTTP_LISTING_MAX = 2_000

# The longest time for which a client may be told to keep a file: RFC 9111 advises no more than a year.
HTTP_MAX_AGE_MAX_S = 31_536_000

# ---- timed programs --------------------------------------------------------------------------------------------------

# Reactors and reactions of one program. The queue of reactions is a bitmap that is read once per tag.
REACTORS_MAX = 100_000
REACTIONS_MAX = 262_144

# Ports of one multiport, and reactors of one bank.
MULTIPORT_WIDTH_MAX = 65_536

# Events that may be pending in one logical action (24 bytes each): a reaction that schedules more than it handles is a
# mistake that should be seen before it has taken the machine's memory.
ACTION_CAPACITY = 65_536
ACTION_CAPACITY_MAX = 16_777_216

# Microsteps of one instant. A program that takes more makes no progress in time: at ten million a second it is stopped
# after some minutes.
MICROSTEPS_MAX = 2_000_000_000

# Events that may be pending in one physical action. What comes from outside comes without asking.
PHYSICAL_ACTION_CAPACITY = 1_024

# Events under way in one connection with `after`, and pending in one input of the whole program.
DELAY_CAPACITY = 65_536
INPUT_CAPACITY = 65_536

# System events that may be queued: those of a few hundred federates at once.
SYSTEM_EVENTS_MAX = 4_096

# Events scheduled by other threads that wait to be taken over by the scheduler's lane.
TIMED_ARRIVALS_CAPACITY = 4_096

# Reactions (or tags) that a timed program runs in one turn of the loop: about a millisecond of small reactions.
TIMED_REACTIONS_PER_TURN = 4_096

# Entries that a trace keeps; the oldest are dropped and counted.
TRACE_CAPACITY = 1_000_000

# Lines of a record that a replay accepts, bytes of the whole file, and bytes of one line: a record may come from anywhere,
# and all of it is held in memory.
RECORD_LINES_MAX = 10_000_000
RECORD_BYTES_MAX = 1_073_741_824
RECORD_LINE_BYTES_MAX = 1_048_576

# How much faster than physical time a program may be asked to run.
TIMED_SPEED_MAX = 1_000_000
