# cython: language_level=3
"""What an engine counts, as Python sees it, and the same counted anew.

Every complete head is one of `requests`; it is answered (`answers` less `unasked`), given up (`given_up`), or still
under way (`unanswered` of the second count): these three make up the first. This file must not change anything.
"""

import cython
from cython.cimports.penstock.http.types import STATE_COUNT, EngineC, HttpC

from penstock.http.admission import REASONS
from penstock.http.connection import STATES

REFUSALS = cython.declare(cython.int, len(REASONS))


@cython.cfunc
def tally(c: cython.pointer[EngineC]) -> dict:
    """Everything that is counted."""
    return {
        "open": c.open,
        "connections": c.connections,
        "states": {STATES[index]: c.by_state[index] for index in range(STATE_COUNT)},
        "requests": c.requests,
        "requests_live": c.records.live,
        "sources_live": c.sources_live,
        "given_up": c.given_up,
        "unasked": c.unasked,
        "answers": {f"{index}xx": c.answers[index] for index in range(2, 6)},
        "refused": {REASONS[index]: c.refused[index] for index in range(1, REFUSALS)},
        "timeouts": {STATES[index]: c.timeouts[index] for index in range(STATE_COUNT) if c.timeouts[index]},
        "bad_requests": c.bad_requests,
        "received_content_bytes": c.received_content,
        "sent_content_bytes": c.sent_content,
        "truncated": c.truncated,
        "aborted": c.aborted,
        "broken_promises": c.broken_promises,
        "lingered_bytes": c.lingered_bytes,
        "evicted": c.evicted,
        "turned_away": c.turned_away,
        "crowded": c.crowded,
        "resting": c.resting,
        "rests": c.rests,
        "announced": c.announced,
        "announced_malformed": c.announced_bad,
        "forwarded": c.forwarded,
        "forwarded_malformed": c.forwarded_bad,
        "missteps": c.missteps,
        "errors": c.errors,
    }


@cython.cfunc
def tally_again(c: cython.pointer[EngineC]) -> dict:
    """Connections and requests, one by one."""
    conn: cython.pointer[HttpC] = c.first
    states = dict.fromkeys(STATES, 0)
    opened = unanswered = requests = sources = resting = 0
    while conn != cython.NULL:
        opened += 1
        states[STATES[conn.state]] += 1
        resting += conn.resting
        if conn.request != cython.NULL:
            requests += 1
            unanswered += not conn.request.answered
        source = conn.first_source
        while source != cython.NULL:
            sources += 1
            source = source.next
        conn = conn.next
    return {
        "open": opened,
        "states": states,
        "requests_live": requests,
        "unanswered": unanswered,
        "sources_live": sources,
        "resting": resting,
    }
