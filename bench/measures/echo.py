"""TCP echo on loopback: 64 bytes, 100 connections, one message in flight on each.

CPU time of the server per message, its user-space instructions per message, and its system calls per message. The load
is a C program on another core that checks every byte. The yardstick is a C server on epoll (`native/raw_echo.c`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rig import counting
from rig.model import Amount, Entry, Figures, Goal, Measure, Row
from rig.process import RAW, Rig

CONNECTIONS = 100
MESSAGE_BYTES = 64
# System calls under strace cost tens of microseconds each; a few thousand messages say all there is to say.
TRACED_MESSAGES = (500, 3_000)

PENSTOCK_C, PENSTOCK_SOCK, PENSTOCK_OS = (Entry("penstock", form) for form in ("c", "sock", "os"))
PENSTOCK_STREAM = Entry("penstock", "stream")
PEERS = ("asyncio", "uvloop", "rloop")
PROTOCOLS = {peer: Entry(peer, "protocol") for peer in PEERS}
READERS = {peer: Entry(peer, "reader") for peer in PEERS}
ENTRIES = (RAW, PENSTOCK_C, PENSTOCK_STREAM, PENSTOCK_SOCK, PENSTOCK_OS, *PROTOCOLS.values(), *READERS.values())


def sample(rig: Rig, entry: Entry, messages: int) -> Figures:
    with rig.server(entry) as (port, pid):
        figures = rig.load(
            port, connections=CONNECTIONS, size=MESSAGE_BYTES, warmup=messages // 10, messages=messages, server=pid
        )
    return {"cpu_ns": figures["server_cpu_ns"] / messages, "wall_ns": figures["wall_ns"] / messages}


def count(rig: Rig, entry: Entry, amounts: tuple[int, int]) -> Figures:
    def run(tool: Sequence[str], messages: int) -> None:
        with rig.server(entry, tool) as (port, _pid):
            rig.load(port, connections=CONNECTIONS, size=MESSAGE_BYTES, warmup=0, messages=messages, server=0)

    figures: Figures = {}
    for what, two_amounts in (("instructions", amounts), ("syscalls", TRACED_MESSAGES)):
        if counting.can_count(what):
            figures |= counting.per_operation(run, rig, what, two_amounts)
    return figures


def rows(
    title: str, cells: dict[str, Entry], goal: Goal | None, instructions_goal: Goal | None = None
) -> tuple[Row, ...]:
    cells = {**cells, "raw C": RAW}
    return (
        Row(title, "us CPU", "cpu_ns", cells, goal, scale=1_000),
        Row(title, "instructions", "instructions", cells, instructions_goal),
        Row(title, "system calls", "syscalls", cells, ratios=False),
    )


MEASURE = Measure(
    name="echo",
    purpose="TCP echo, 64 B, 100 connections",
    entries=ENTRIES,
    rows=(
        *rows("echo, C-level handler", {"penstock": PENSTOCK_C}, Goal("<= 1.03 x raw C", within=("raw C", 1.03))),
        *rows(
            "echo, Stream with a Python callback (peers: protocol)",
            {"penstock": PENSTOCK_STREAM, **PROTOCOLS},
            Goal("<= 1.10 x raw C", within=("raw C", 1.10)),
            Goal("<= 2,000", at_most=2_000),
        ),
        *rows(
            "echo, Python callback (peers: protocol)",
            {"penstock": PENSTOCK_SOCK, **PROTOCOLS},
            Goal("ahead of uvloop", within=("uvloop", 1.0)),
        ),
        *rows("echo, os.read/os.write (peers: add_reader)", {"penstock": PENSTOCK_OS, **READERS}, None),
    ),
    amount=Amount(full=25_000, quick=10_000, counted=(500, 3_500)),
    sample=sample,
    count=count,
    # Many short rounds: the goals are within a few per cent, and the machine changes its speed.
    rounds_full=15,
)
