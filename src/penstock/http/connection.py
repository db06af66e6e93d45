# cython: language_level=3
"""What a connection may be doing, and what leads from one to the next: a table, and nothing else.

Everything that the server does to a connection goes through `connection_step`, in C and in Python alike; a step that
the table does not have is a bug, and is counted and ends the connection instead of guessing. The drawing in
`docs/http.md` is made from this table, and each state's deadline stands beside it.

This file must not know sockets, files or clocks.
"""

import cython
from cython.cimports.penstock.http.types import EVENT_COUNT, STATE_COUNT

STATES = ("fresh", "head", "body", "queued", "working", "sending", "idle", "linger", "over")
EVENTS = ("bytes", "content", "ask", "start", "reply", "stall", "last", "end")

# What each state means, which option bounds the time in it, and what happens when that is over.
MEANING = {
    "fresh": ("connected, nothing received yet", "first_byte_timeout", "closed"),
    "head": ("a part of a head has come", "header_timeout", "408"),
    "body": ("a head is complete, its content is being received", "body_timeout", "408"),
    "queued": ("a request waits for the program", "deadline", "503"),
    "working": ("the program has the request", "work_timeout", "503"),
    "sending": ("an answer is ready faster than the peer takes it", "send_timeout", "reset"),
    "idle": ("between two requests", "idle_timeout", "closed"),
    "linger": ("the last answer is given; what still comes is thrown away", "linger", "closed"),
    "over": ("closed", None, None),
}

_ASKED = {
    "content": "body",
    "ask": "queued",
    "reply": "idle",
    "stall": "sending",
    "last": "linger",
    "end": "over",
}

TABLE = {
    "fresh": {"bytes": "head", **_ASKED},
    "idle": {"bytes": "head", **_ASKED},
    "head": {"bytes": "head", **_ASKED},
    "body": {"ask": "queued", "reply": "idle", "stall": "sending", "last": "linger", "end": "over"},
    "queued": {"start": "working", "reply": "idle", "stall": "sending", "last": "linger", "end": "over"},
    "working": {"reply": "idle", "stall": "sending", "last": "linger", "end": "over"},
    "sending": {"reply": "idle", "stall": "sending", "last": "linger", "end": "over"},
    "linger": {"last": "linger", "end": "over"},
    "over": {"end": "over"},
}

if len(STATES) != STATE_COUNT or len(EVENTS) != EVENT_COUNT or set(STATES) != set(TABLE) or set(STATES) != set(MEANING):
    raise AssertionError("the states and events of connection.py are not those of types.pxd")


@cython.cfunc
def _fill():
    for state in range(STATE_COUNT):
        for event in range(EVENT_COUNT):
            after = TABLE[STATES[state]].get(EVENTS[event])
            next_states[state][event] = -1 if after is None else STATES.index(after)


_fill()


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def connection_step(state: cython.int, event: cython.int) -> cython.int:
    """The state after an event; -1 if that must not happen."""
    return next_states[state][event]


def step(state: str, event: str) -> str | None:
    """Return the state after an event, by name; None if the table does not have that."""
    after: cython.int = connection_step(STATES.index(state), EVENTS.index(event))
    return None if after < 0 else STATES[after]


def diagram() -> str:
    """Return the table as text, a line a state, for the documentation."""
    lines = []
    for state in STATES:
        meaning, deadline, then = MEANING[state]
        limit = f"; at most `{deadline}`, then {then}" if deadline else ""
        lines.append(f"{state:8} {meaning}{limit}")
        targets: dict = {}
        for event, after in TABLE[state].items():
            targets.setdefault(after, []).append(event)
        for after, events in targets.items():
            lines.append(f"         |-- {' or '.join(events):32} --> {after}")
    return "\n".join(lines)
