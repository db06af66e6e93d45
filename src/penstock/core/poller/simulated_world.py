"""The outside world of a simulated kernel: what will happen when, and what will go wrong.

It knows instants, actions and faults. It must not know what a descriptor, a buffer or a poller is.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from penstock import limits
from penstock.core.clock import ManualClock
from penstock.errors import Overflow, UsageError

# A call and the descriptor it is made on, or None for any.
_Key = tuple[str, int | None]


class Schedule:
    """Actions of the outside world in the order of (time, insertion), run when the manual clock has reached them.

    While an action runs, `now_ns` is the instant it was scheduled for, even if the clock has been moved far beyond it
    in one step. So what it schedules in turn happens when it would have happened, and a run does not depend on how
    often somebody looks.
    """

    __slots__ = ("_clock", "_heap", "_instant_ns", "_running", "_sequence", "errors", "lost_bytes", "ran")

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Callable[..., object], tuple[object, ...]]] = []
        self._sequence = 0
        self._running = False
        self._instant_ns = 0
        # Actions that have run, and the errors of those that failed: a system call that fails for the world outside
        # is no failure of whoever waits inside.
        self.ran = 0
        self.errors: Counter[str] = Counter()
        # Bytes that were sent and that nobody will read any more: counted here, where all files can reach it.
        self.lost_bytes = 0

    def __len__(self) -> int:
        return len(self._heap)

    def now_ns(self) -> int:
        return self._instant_ns if self._running else self._clock.now_ns()

    def next_ns(self) -> int | None:
        """When the next action is due, or None."""
        return self._heap[0][0] if self._heap else None

    def at(self, time_ns: int, action: Callable[..., object], *args: object) -> None:
        if time_ns < self.now_ns():
            raise UsageError(f"time_ns is {time_ns:,}, but it is {self.now_ns():,} already; schedule at or after that")
        if len(self._heap) >= limits.SIMULATED_SCHEDULE_MAX:
            raise Overflow(
                f"{len(self._heap):,} actions are scheduled; let the clock reach some before you schedule more",
                limit="SIMULATED_SCHEDULE_MAX",
                capacity=limits.SIMULATED_SCHEDULE_MAX,
            )
        self._sequence += 1
        heappush(self._heap, (time_ns, self._sequence, action, args))

    def run_due(self) -> None:
        """Run everything due by now, oldest first, including what that schedules for no later than now."""
        if self._running or not self._heap or self._heap[0][0] > self._clock.now_ns():
            return
        self._running = True
        started = self.ran
        try:
            while self._heap and self._heap[0][0] <= self._clock.now_ns():
                self._run_next()
                self.check_spent(started)
        finally:
            self._running = False

    def _run_next(self) -> None:
        self._instant_ns, _, action, args = heappop(self._heap)
        self.ran += 1
        try:
            action(*args)
        except OSError as error:
            self.errors[type(error).__name__] += 1

    def check_spent(self, started: int) -> None:
        """Raise if one call has run so many actions that it will not come to an end."""
        if self.ran - started > limits.SIMULATED_ACTIONS_PER_CALL_MAX:
            raise Overflow(
                f"one call ran {self.ran - started:,} scheduled actions and nothing came of it; "
                "an action that schedules itself for ever needs an end, and a wait needs a timeout",
                limit="SIMULATED_ACTIONS_PER_CALL_MAX",
                capacity=limits.SIMULATED_ACTIONS_PER_CALL_MAX,
            )


class Faults:
    """Which simulated calls shall fail or be short: a number of times, or at random.

    A plan for one descriptor comes before a plan for any descriptor (None), and planned faults before random ones.
    Random ones are drawn from the seeded source of the kernel: the same seed and the same calls give the same run.
    """

    def __init__(self, calls: frozenset[str], random: Random) -> None:
        self._calls = calls
        self._random = random
        self._failures: dict[_Key, deque[list[int]]] = {}
        self._shorts: dict[_Key, deque[int]] = {}
        self._failing: dict[_Key, tuple[int, float]] = {}
        self._shortening: dict[_Key, float] = {}
        self._plans = 0
        # Read by every simulated call, so that faults cost nothing where there are none.
        self.armed = False
        self.struck = 0

    def fail_next(self, call: str, fd: int | None, errno: int, times: int = 1) -> None:
        key = self._plan(call, fd)
        if times < 1 or errno < 1:
            raise UsageError(f"times is {times} and errno is {errno}; give at least 1 for each")
        self._failures.setdefault(key, deque()).append([errno, times])
        self._plans += 1

    def short_next(self, call: str, fd: int | None, size_bytes: int) -> None:
        key = self._plan(call, fd)
        if size_bytes < 1:
            raise UsageError(f"size_bytes is {size_bytes}; a short {call} moves at least 1 byte")
        self._shorts.setdefault(key, deque()).append(size_bytes)
        self._plans += 1

    def fail_sometimes(self, call: str, fd: int | None, errno: int, chance: float) -> None:
        """From now on, `call` fails with that probability; 0 ends it."""
        self._failing[self._plan(call, fd, chance)] = (errno, chance)

    def short_sometimes(self, call: str, fd: int | None, chance: float) -> None:
        """From now on, `call` moves with that probability only a random part of what it could; 0 ends it."""
        self._shortening[self._plan(call, fd, chance)] = chance

    def _plan(self, call: str, fd: int | None, chance: float = 1.0) -> _Key:
        if call not in self._calls:
            raise UsageError(f"there is no simulated call {call!r}; give one of {', '.join(sorted(self._calls))}")
        if not 0.0 <= chance <= 1.0:
            raise UsageError(f"chance is {chance!r}; give a probability from 0 to 1")
        plans = self._plans + len(self._failing) + len(self._shortening)
        if plans >= limits.SIMULATED_FAULTS_MAX:
            raise Overflow(
                f"{plans:,} faults are planned; let some strike before you plan more",
                limit="SIMULATED_FAULTS_MAX",
                capacity=limits.SIMULATED_FAULTS_MAX,
            )
        self.armed = True
        return call, fd

    def strike(self, call: str, fd: int | None) -> int:
        """Return the errno with which this call shall fail, or 0."""
        for key in ((call, fd), (call, None)):
            planned = self._failures.get(key)
            if planned:
                planned[0][1] -= 1
                errno = planned[0][0]
                if planned[0][1] == 0:
                    planned.popleft()
                    self._plans -= 1
                self.struck += 1
                return errno
        for key in ((call, fd), (call, None)):
            errno, chance = self._failing.get(key, (0, 0.0))
            if chance and self._random.random() < chance:
                self.struck += 1
                return errno
        return 0

    def cut(self, call: str, fd: int, size_bytes: int) -> int:
        """Return how many bytes this call may move."""
        for key in ((call, fd), (call, None)):
            planned = self._shorts.get(key)
            if planned:
                self._plans -= 1
                self.struck += 1
                return min(size_bytes, planned.popleft())
        for key in ((call, fd), (call, None)):
            chance = self._shortening.get(key, 0.0)
            if chance and size_bytes > 1 and self._random.random() < chance:
                self.struck += 1
                return self._random.randint(1, size_bytes - 1)
        return size_bytes
