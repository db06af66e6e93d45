"""Small programs that each show one rule: what a wrong scheduler would get wrong."""

from __future__ import annotations

from tests.timed.timed_spec import Action, Arrival, Child, Connection, Op, Port, Reaction, Reactor, Signal, Timer, World

TICK = (None, "t")


def source(period: int = 1, writers: int = 1) -> Reactor:
    """Sends at every tick; of several writers the last one wins."""
    return Reactor(
        ports=[Port("o", False)],
        timers=[Timer("t", 0, period)],
        reactions=[
            Reaction(f"send{number}", [TICK], ops=[Op("set", (None, "o"))], salt=number + 1)
            for number in range(writers)
        ],
    )


def stage(salt: int = 1, deadline: int | None = None) -> Reactor:
    """Passes on what it reads."""
    return Reactor(
        ports=[Port("i", True), Port("o", False)],
        reactions=[Reaction("go", [(None, "i")], ops=[Op("set", (None, "o"))], salt=salt, deadline=deadline)],
    )


def sink(deadline: int | None = None) -> Reactor:
    """Reads two inputs, one of which may be absent while its value persists."""
    return Reactor(
        ports=[Port("i", True), Port("j", True), Port("o", False)],
        reactions=[
            Reaction("first", [(None, "i"), (None, "j")], ops=[Op("set", (None, "o"))], deadline=deadline),
            Reaction("second", [(None, "i")]),
        ],
    )


def wires(*pairs: tuple[str, str], after: int | None = None) -> list[Connection]:
    """`("a.o", "b.i")` connects them."""
    return [Connection([_ref(left)], [_ref(right)], after) for left, right in pairs]


def _ref(text: str) -> tuple[str | None, str]:
    child, _, name = text.rpartition(".")
    return (child or None, name)


def action(delay: int, spacing: int, policy: str, ops: list[Op]) -> Reactor:
    """A timer schedules an action in several ways."""
    return Reactor(
        timers=[Timer("t", 0, 1)],
        actions=[Action("a", delay, spacing, policy)],
        reactions=[Reaction("plan", [TICK], ops=ops), Reaction("act", [(None, "a")], salt=2)],
    )


def modal(history: bool) -> Reactor:
    """Two modes that take turns; the second has a clock, an action and a child with modes of its own."""
    inner = Reactor(
        timers=[Timer("t", 1, 2), Timer("u", 0, 1, 1)],
        modes=2,
        count_mode=0,
        signals=[Signal("startup", "startup", 0), Signal("reset", "reset", 0), Signal("shutdown", "shutdown", 1)],
        reactions=[
            Reaction("run", [TICK], ops=[Op("enter", (None, "m1"), 2)], mode=0),
            Reaction("other", [(None, "u")], mode=1),
            Reaction("begin", [(None, "startup"), (None, "reset")], salt=7),
            Reaction("end", [(None, "shutdown")]),
        ],
    )
    return Reactor(
        timers=[Timer("t", 0, 2), Timer("in0", 0, 1, 0), Timer("in1", 1, 3, 1)],
        actions=[Action("a", 2, 1, "defer", 1)],
        signals=[Signal("startup", "startup", 1), Signal("reset", "reset", 1)],
        modes=2,
        count_mode=1,
        children=[Child("c", inner, None, 1)],
        reactions=[
            Reaction("zero", [(None, "in0")], ops=[Op("enter", (None, "m1"), 2, history=history)], mode=0),
            Reaction(
                "one", [(None, "in1"), (None, "startup"), (None, "reset")], ops=[Op("schedule", (None, "a"))], mode=1
            ),
            Reaction("late", [(None, "a")], ops=[Op("enter", (None, "m0"), history=history)], mode=1),
            Reaction(
                "always", [TICK], ops=[Op("enter", (None, "m1"), 5), Op("enter", (None, "m0"), 7, history=history)]
            ),
        ],
    )


def _network(after: int | None) -> Reactor:
    children = [Child("a", source(writers=2)), Child("b", stage()), Child("c", sink()), Child("d", source(3))]
    return Reactor(
        children=children,
        connections=wires(("a.o", "b.i"), after=after) + wires(("b.o", "c.i"), ("d.o", "c.j")),
    )


def _physical(after: int | None, takes: int) -> Reactor:
    """A timer sends through a physical connection, and each time it takes so many milliseconds; the receiver may, too."""
    slow = source(2)
    slow.reactions[0].ops.append(Op("pass", (None, ""), 1, takes))
    receiver = stage()
    receiver.reactions[0].ops.append(Op("pass", (None, ""), 2, takes // 2))
    wire = Connection([("a", "o")], [("b", "i")], after, physical=True)
    return Reactor(
        children=[Child("a", slow), Child("b", receiver), Child("c", sink())],
        connections=[wire, *wires(("b.o", "c.i"), ("a.o", "c.j"))],
    )


def _interleaved(across_sources: bool, across_sinks: bool) -> Reactor:
    """A bank whose members have three ports, to a bank whose members have two, in the order that is said."""
    sender = Reactor(
        ports=[Port("o", False, 3)],
        timers=[Timer("t", 0, 1)],
        reactions=[Reaction("send", [TICK], ops=[Op("set", (None, "o"))])],
    )
    receiver = Reactor(ports=[Port("i", True, 2)], reactions=[Reaction("go", [(None, "i")])])
    wire = Connection([("a", "o")], [("b", "i")], None)
    wire.across_sources, wire.across_sinks = across_sources, across_sinks
    return Reactor(children=[Child("a", sender, 2), Child("b", receiver, 3)], connections=[wire])


def _late(on_late: bool) -> Reactor:
    """Inputs of the main reactor are read here, in a child, and beyond a delay; outputs are read by another child."""
    inner = stage()
    inner.reactions[0].on_late = on_late
    after = stage(5)
    after.reactions[0].on_late = True
    return Reactor(
        ports=[Port("i", True), Port("j", True, 2)],
        timers=[Timer("t", 0, 1)],
        children=[Child("b", inner), Child("c", after), Child("d", after)],
        connections=[
            *wires(("i", "b.i"), ("b.o", "c.i")),
            Connection([(None, "i")], [("d", "i")], 1),
        ],
        reactions=[
            Reaction("read", [(None, "i"), (None, "j")], on_late=on_late),
            Reaction("look", [TICK], uses=[(None, "j")], on_late=True),
        ],
    )


LATE = [
    Arrival(0, "i", 0, (2, 0), 1),
    Arrival(2, "i", 0, (0, 0), 2),
    Arrival(2, "i", 0, (0, 2), 3),
    Arrival(3, "j", 1, (9, 0), 4),
    Arrival(5, "j", 0, (0, 0), 5),
    Arrival(8, "i", 0, (40, 0), 6),
]

# What is around a program of the corpus, where it matters.
WORLDS: dict[str, World] = {
    "physical, waiting": World(False, []),
    "physical after 2, waiting": World(False, []),
    "late inputs": World(True, LATE),
    "late inputs, waiting": World(False, LATE),
    "late inputs without handler": World(True, LATE),
}

CORPUS: dict[str, Reactor] = {
    "physical, the clock ahead": _physical(None, 3),
    "physical, the clock behind": _physical(None, 0),
    "physical, waiting": _physical(None, 1),
    "physical after 2, waiting": _physical(2, 1),
    "late inputs": _late(True),
    "late inputs, waiting": _late(True),
    "late inputs without handler": _late(False),
    **{
        f"interleaved {left} {right}": _interleaved(bool(left), bool(right))
        for left in (0, 1)
        for right in (0, 1)
    },
    "direct": _network(None),
    "after 0": _network(0),
    "after 2": _network(2),
    "against the order of children": Reactor(
        children=[Child("c", sink()), Child("b", stage()), Child("a", source())],
        connections=wires(("a.o", "b.i"), ("b.o", "c.i"), ("a.o", "c.j")),
    ),
    "earliest deadline first": Reactor(
        children=[
            Child("a", source()),
            Child("b", stage()),
            Child("c", stage(3)),
            Child("d", stage(4)),
            Child("e", sink(100_000)),
        ],
        connections=wires(("a.o", "b.i"), ("a.o", "c.i"), ("c.o", "d.i"), ("d.o", "e.i")),
    ),
    "a bank": Reactor(
        children=[Child("a", source()), Child("b", stage(), 3), Child("c", Reactor(
            ports=[Port("i", True, 3)], reactions=[Reaction("all", [(None, "i")])]))],
        connections=[Connection([("a", "o")], [("b", "i")], None, True), Connection([("b", "o")], [("c", "i")])],
    ),
    "the end": Reactor(
        timers=[Timer("t", 12, 0)],
        signals=[Signal("shutdown", "shutdown")],
        reactions=[Reaction("on_time", [TICK]), Reaction("end", [(None, "shutdown")])],
    ),
    "modes, reset": modal(False),
    "modes, history": modal(True),
    "microsteps": action(0, 0, "defer", [Op("schedule", (None, "a"))] * 3),
    "minimum delay": action(2, 0, "defer", [Op("schedule", (None, "a"), 1, 1)]),
    **{
        f"spacing, {policy}": action(
            1, 3, policy, [Op("schedule", (None, "a"), 1, 4), Op("schedule", (None, "a"), 2, 5), Op("schedule", (None, "a"))]
        )
        for policy in ("defer", "drop", "replace", "update")
    },
    **{
        f"equal tags, {policy}": action(
            0, 0, policy, [Op("schedule", (None, "a"), 1, 2)] * 2 + [Op("schedule", (None, "a"))]
        )
        for policy in ("defer", "drop", "replace", "update")
    },
}  # fmt: skip
