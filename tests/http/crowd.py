"""A server with one worker and a crowd of clients, in simulated time, around a real `Admission`.

Arrivals are an open loop: nobody waits for an answer before he asks again. As in the server, nothing is offered, refused
or begun while the program works on a request. The whole course depends on the seed only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from penstock.http.admission import Admission, Ticket

MS = 1_000_000
SECOND = 1_000_000_000
PATIENCE = 100 * MS


@dataclass
class Request:
    at: int
    peer: int
    answered: int | None = None
    refused: int | None = None
    why: str = ""

    @property
    def took(self) -> int:
        assert self.answered is not None
        return self.answered - self.at


@dataclass
class Course:
    """What came of it."""

    requests: list[Request] = field(default_factory=list)

    def of(self, begin: int, end: int) -> list[Request]:
        return [request for request in self.requests if begin <= request.at < end]

    def served(self, begin: int, end: int) -> list[Request]:
        return [request for request in self.of(begin, end) if request.answered is not None]

    def good(self, begin: int, end: int) -> list[Request]:
        return [request for request in self.served(begin, end) if request.took <= PATIENCE]


def poisson(seed: int, rate: float, begin: int, end: int, peers: Callable[[random.Random], int]) -> Iterator[Request]:
    """Requests at `rate` per second."""
    rng = random.Random(seed)
    at = begin + rng.expovariate(rate) * SECOND
    while at < end:
        yield Request(int(at), peers(rng))
        at += rng.expovariate(rate) * SECOND


def from_many(rng: random.Random) -> int:
    return rng.randrange(1, 5000)


def run(requests: list[Request], service: int, admission: Admission, exponential: int | None = None) -> Course:
    """Work all of it off. With `exponential`, a seed, services differ."""
    requests.sort(key=lambda request: request.at)
    rng = random.Random(exponential)
    now, index, count = 0, 0, len(requests)
    while True:
        while index < count and requests[index].at <= now:
            request = requests[index]
            index += 1
            why = admission.offer(Ticket(request.at, request.peer, label=request), now)
            if why is not None:
                request.refused, request.why = now, why
        while (gone := admission.expired(now)) is not None:
            gone[0].label.refused, gone[0].label.why = now, gone[1]
        ticket = admission.next(now)
        if ticket is not None:
            now += service if exponential is None else int(rng.expovariate(1) * service)
            admission.done(ticket, now)
            ticket.label.answered = now
            continue
        instants = [due for due in (admission.due_ns,) if due is not None]
        if index < count:
            instants.append(requests[index].at)
        if not instants:
            return Course(requests)
        now = max(now, min(instants))


def percentile(values: list[int], part: float) -> int:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
