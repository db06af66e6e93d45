"""Random programs: trees with ports, banks, delays, actions of every policy, deadlines and modes inside modes; connections
that are interleaved, delayed or physical; and worlds around them in which time is waited for and inputs arrive late."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.timed import timed_spec as s

DELAYS = st.sampled_from([0, 0, 1, 2, 5])
WIDTHS = st.sampled_from([None, None, None, 2, 3])


@st.composite
def reactors(draw: st.DrawFn, depth: int, main: bool = False) -> s.Reactor:
    """One reactor with everything below it."""
    reactor = s.Reactor()
    reactor.modes = draw(st.sampled_from([0, 0, 2, 3]))
    modes = st.sampled_from([None, *range(reactor.modes)])
    for name, is_input, least in (("i0", True, 1), ("i1", True, 0), ("o0", False, 1), ("o1", False, 0)):
        if (is_input or not main) and draw(st.integers(least, 1)):
            reactor.ports.append(s.Port(name, is_input, draw(WIDTHS)))
    for index in range(draw(st.integers(1 if main else 0, 2))):
        reactor.timers.append(
            s.Timer(f"t{index}", draw(st.integers(0, 3)), draw(st.sampled_from([0, 1, 1, 2, 3])), draw(modes))
        )
    for index in range(draw(st.integers(0, 2))):
        reactor.actions.append(draw(actions(f"a{index}", modes)))
    for kind in ("startup", "shutdown", "reset"):
        if draw(st.booleans()):
            reactor.signals.append(s.Signal(kind, kind, draw(modes)))
    reactor.count_mode = draw(modes)
    if depth > 0:
        for index in range(draw(st.integers(1, 3))):
            child = s.Child(f"c{index}", draw(reactors(depth - 1)), draw(st.sampled_from([None, None, 2])), draw(modes))
            reactor.children.append(child)
    _add_reactions(draw, reactor, modes)
    _add_connections(draw, reactor)
    return reactor


@st.composite
def actions(draw: st.DrawFn, name: str, modes: st.SearchStrategy[int | None]) -> s.Action:
    return s.Action(
        name,
        draw(DELAYS),
        draw(st.sampled_from([0, 0, 1, 3])),
        draw(st.sampled_from(["defer", "drop", "replace", "update"])),
        draw(modes),
    )


def _readable(reactor: s.Reactor) -> list[s.Ref]:
    refs: list[s.Ref] = [(None, port.name) for port in reactor.ports if port.is_input]
    refs += [(None, timer.name) for timer in reactor.timers]
    refs += [(None, item.name) for item in reactor.actions]
    refs += [(None, signal.name) for signal in reactor.signals]
    refs += [(child.name, port.name) for child in reactor.children for port in child.spec.ports if not port.is_input]
    return refs


def _writable(reactor: s.Reactor) -> list[s.Ref]:
    refs: list[s.Ref] = [(None, port.name) for port in reactor.ports if not port.is_input]
    return refs + [(child.name, port.name) for child in reactor.children for port in child.spec.ports if port.is_input]


def _add_reactions(draw: st.DrawFn, reactor: s.Reactor, modes: st.SearchStrategy[int | None]) -> None:
    readable, written = _readable(reactor), set()
    if not readable:
        return
    targets = [("set", ref) for ref in _writable(reactor)]
    targets += [("schedule", (None, action.name)) for action in reactor.actions] * 2
    targets.append(("pass", (None, "")))
    targets += [("enter", (None, f"m{index}")) for index in range(reactor.modes)]
    for index in range(draw(st.integers(1, 3))):
        reaction = s.Reaction(
            f"r{index}", draw(st.lists(st.sampled_from(readable), min_size=1, max_size=3, unique=True))
        )
        reaction.uses = draw(st.lists(st.sampled_from(readable), max_size=1))
        reaction.salt = index + 1
        reaction.mode = draw(modes)
        reaction.on_late = draw(st.sampled_from([False, False, True]))
        # So large that a fast run never misses one: deadlines only order.
        reaction.deadline = draw(st.sampled_from([None, None, None, 100_000, 200_000]))
        for kind, ref in draw(st.lists(st.sampled_from(targets), min_size=1, max_size=4)):
            reaction.ops.append(s.Op(kind, ref, draw(st.sampled_from([1, 1, 2, 3])), draw(DELAYS), draw(st.booleans())))
            written.add(ref)
        reactor.reactions.append(reaction)


def _width(reactor: s.Reactor, ref: s.Ref) -> int:
    child, name = ref
    if child is None:
        return next(port for port in reactor.ports if port.name == name).width or 1
    found = next(item for item in reactor.children if item.name == child)
    return (found.width or 1) * (next(port for port in found.spec.ports if port.name == name).width or 1)


def _add_connections(draw: st.DrawFn, reactor: s.Reactor) -> None:
    """Give some of the ports that no reaction writes a source; forwards mostly, so that cycles stay rare."""
    written = {op.ref for reaction in reactor.reactions for op in reaction.ops}
    sources: list[s.Ref] = [(None, port.name) for port in reactor.ports if port.is_input]
    sources += [(child.name, port.name) for child in reactor.children for port in child.spec.ports if not port.is_input]
    for sink in _writable(reactor):
        fitting = [ref for ref in sources if _width(reactor, sink) % _width(reactor, ref) == 0]
        if sink in written or not fitting:
            continue
        for mode in draw(st.sampled_from([[None], [None], [], [0, 1] if reactor.modes else [None]])):
            source = draw(st.sampled_from(fitting))
            backwards = source[0] is not None and sink[0] is not None and source[0] >= sink[0]
            after = draw(st.sampled_from([None, 0, 1, 2] if not backwards else [0, 0, 1, 1, 1, 2, 5, None]))
            connection = s.Connection([source], [sink], after, True, mode)
            connection.physical = draw(st.sampled_from([False, False, True]))
            connection.across_sources, connection.across_sinks = draw(st.booleans()), draw(st.booleans())
            reactor.connections.append(connection)


@st.composite
def _arrivals(draw: st.DrawFn, ports: list[s.Port]) -> s.Arrival:
    port = draw(st.sampled_from(ports))
    index = draw(st.integers(0, (port.width or 1) - 1))
    tag = (draw(st.sampled_from([0, 0, 1, 2, 3, 5, 8])), draw(st.sampled_from([0, 0, 1, 2])))
    return s.Arrival(draw(st.sampled_from([0, 1, 1, 2, 3, 4, 5, 8])), port.name, index, tag, draw(st.integers(1, 9)))


@st.composite
def programs_in_worlds(draw: st.DrawFn) -> tuple[s.Reactor, s.World]:
    """A program and what is around it. Inputs arrive after so many tags, whether theirs has passed or not."""
    program = draw(programs)
    world = s.World(draw(st.booleans()))
    world.arrivals = draw(st.lists(_arrivals(program.ports), max_size=6))
    return program, world


programs = reactors(2, main=True)
timeouts = st.sampled_from([3, 8, 8, None])
