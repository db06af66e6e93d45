"""Ports and connections become slots: which ports always show the same?

A port with exactly one direct connection shares the slot of its source, so that sending costs nothing per hop. A port with
several (each in a mode of its own, or it has two writers, which is an error) keeps a slot and is copied to. Connections
that take time end in triggers. This file must not know reactions, except who writes a port.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.limits import DELAY_CAPACITY
from penstock.timed.connections import Connection
from penstock.timed.errors import AssemblyError, CausalityCycle
from penstock.timed.handles import Port
from penstock.timed.levels import Graph, find_cycle
from penstock.timed.modes import ModeHandle
from penstock.timed.plan import DELAY, DelayPlan, Plan, SlotPlan, TriggerPlan
from penstock.timed.reactor import Reactor, declarations
from penstock.timed.tree import Node


@dataclass(slots=True)
class Link:
    """One pair of a connection, with the mode in which it works."""

    source: Port[Any]
    sink: Port[Any]
    connection: Connection
    mode: int


@dataclass(slots=True)
class Wiring:
    """What is known of the ports of a program."""

    by_reactor: dict[int, Node]
    links: list[Link] = field(default_factory=list)
    into: dict[Port[Any], list[Link]] = field(default_factory=dict)
    writers: dict[Port[Any], dict[str, str]] = field(default_factory=dict)  # reactor path -> reaction
    slot_of: dict[Port[Any], int] = field(default_factory=dict)


def all_ports(reactor: Reactor) -> Iterable[Port[Any]]:
    """The ports of a reactor in order of declaration."""
    for name in declarations(type(reactor)):
        value = vars(reactor)[name]
        if isinstance(value, Port):
            yield value
        elif isinstance(value, tuple):
            yield from (port for port in value if isinstance(port, Port) and port.owner is reactor)


def collect(nodes: list[Node]) -> Wiring:
    """Check every connection and sort it by where it ends."""
    wiring = Wiring({id(node.reactor): node for node in nodes})
    for node in nodes:
        for connection in node.reactor._connections:
            mode = _mode_of(node, connection.mode)
            for source, sink in connection.pairs:
                _check_ends(wiring, node, source, sink)
                link = Link(source, sink, connection, mode if connection.mode or not connection.direct else -1)
                wiring.links.append(link)
                wiring.into.setdefault(sink, []).append(link)
    return wiring


def _mode_of(node: Node, mode: ModeHandle | None) -> int:
    if mode is not None and mode.owner is not node.reactor:
        raise AssemblyError(f"{node.path} connects in {mode!r}, which is no mode of this reactor")
    return node.mode_of(mode.declaration if mode is not None else None)


def _check_ends(wiring: Wiring, node: Node, source: Port[Any], sink: Port[Any]) -> None:
    """A connection goes from an own input or a child's output to an own output or a child's input."""
    for port, own_is_input, what in ((source, True, "from"), (sink, False, "to")):
        place = wiring.by_reactor.get(id(port.owner))
        if place is None:
            raise AssemblyError(
                f"{node.path} connects {what} {type(port.owner).__name__}.{port.name}, whose reactor is no part of the "
                "program; keep it in an attribute"
            )
        own = place is node and port.is_input == own_is_input
        childs = place.parent is node and port.is_input != own_is_input
        if not (own or childs):
            kind = "input" if port.is_input else "output"
            raise AssemblyError(
                f"{node.path} connects {what} {place.path}.{port.name}, an {kind}; connect from an own input or a child's "
                "output to an own output or a child's input"
            )


def check_writers(wiring: Wiring) -> None:
    """Every port is written by the reactions of one reactor, or by one connection (or one per mode)."""
    for port in {**wiring.into, **wiring.writers}:
        links = wiring.into.get(port, [])
        reactors = wiring.writers.get(port, {})
        names = [f"reaction {name}" for name in reactors.values()]
        names += [f"the connection from {_path(wiring, link.source)}" for link in links]
        exclusive = not reactors and all(link.connection.mode for link in links) and _distinct_modes(links)
        if len(names) > 1 and not exclusive:
            raise AssemblyError(
                f"{_path(wiring, port)} has {len(names)} writers: {'; '.join(names)}; a port has one "
                "(or one connection in each of several modes)"
            )


def _distinct_modes(links: list[Link]) -> bool:
    owners = {id(link.connection.owner) for link in links}
    return len(owners) == 1 and len({link.mode for link in links}) == len(links)


def _path(wiring: Wiring, port: Port[Any]) -> str:
    node = wiring.by_reactor[id(port.owner)]
    return f"{node.path}.{port.name}"


def make_slots(wiring: Wiring, plan: Plan, nodes: list[Node]) -> None:
    """Give every port a slot, and every connection that takes time a trigger."""
    _check_circles(wiring)
    for node in nodes:
        for port in all_ports(node.reactor):
            _slot(wiring, plan, port)
    for link in wiring.links:
        source, sink = wiring.slot_of[link.source], wiring.slot_of[link.sink]
        if link.connection.direct:
            if source != sink:
                plan.slots[source].copies.append((sink, link.mode))
            continue
        name = f"{_path(wiring, link.source)} -> {_path(wiring, link.sink)}"
        trigger = TriggerPlan(
            name, DELAY, sink, link.mode, capacity=DELAY_CAPACITY, capacity_name="DELAY_CAPACITY",
            recorded=link.connection.physical,
        )  # fmt: skip
        plan.slots[source].delays.append(
            DelayPlan(len(plan.triggers), link.connection.after_ns or 0, link.connection.physical, link.mode)
        )
        plan.triggers.append(trigger)
        if link.mode >= 0:
            plan.modes[link.mode].triggers.append(len(plan.triggers) - 1)


def _check_circles(wiring: Wiring) -> None:
    """Ports may not feed each other in a circle within a tag, not even by connections that work in some modes only."""
    direct = [link for link in wiring.links if link.connection.direct]
    ports = list(dict.fromkeys(port for link in direct for port in (link.source, link.sink)))
    number = {port: place for place, port in enumerate(ports)}
    graph = Graph([_path(wiring, port) for port in ports])
    for link in direct:
        graph.add(number[link.source], number[link.sink], "")
    cycle = find_cycle(graph)
    if cycle:
        path = tuple(graph.names[port] for port in cycle)
        raise CausalityCycle("ports feed each other in a circle: " + " -> ".join((*path, path[0])), path)


def _slot(wiring: Wiring, plan: Plan, port: Port[Any]) -> int:
    """The slot of a port: that of its source if it always shows the same, else one of its own."""
    chain: list[Port[Any]] = []
    while port not in wiring.slot_of:
        chain.append(port)
        links = wiring.into.get(port, [])
        if len(links) != 1 or not links[0].connection.direct or links[0].mode >= 0:
            wiring.slot_of[port] = len(plan.slots)
            plan.slots.append(SlotPlan(_path(wiring, port)))
            break
        port = links[0].source
    slot = wiring.slot_of[port]
    for item in chain:
        wiring.slot_of[item] = slot
    return slot


def reach(plan: Plan, slot: int) -> set[int]:
    """The slots that show a value in the same tag in which `slot` is written."""
    seen = {slot}
    todo = [slot]
    while todo:
        for target, _ in plan.slots[todo.pop()].copies:
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return seen
