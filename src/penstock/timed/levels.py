"""Levels and inferred deadlines: in which order may reactions run within one tag?

The graph has an edge from a reaction to every reaction that must run after it. The level of a reaction is the length of
the longest path to it. Deadlines are inherited upstream: a reaction is as urgent as the most urgent one that waits for it.
The order is then (inferred deadline, level, lexical order); because a deadline never grows upstream and a level always
does downstream, that order is a topological one. This file must not know what reactions are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.timed.errors import CausalityCycle

# Sorts after every deadline.
NO_DEADLINE_NS = 2**62


@dataclass(slots=True)
class Graph:
    """Who must run before whom. `via` names what connects two reactions, for messages and drawings."""

    names: list[str]
    after: list[set[int]] = field(default_factory=list)
    via: dict[tuple[int, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.after = [set() for _ in self.names]

    def add(self, first: int, second: int, via: str) -> None:
        """`second` must run after `first`."""
        if second not in self.after[first]:
            self.after[first].add(second)
            self.via[first, second] = via


def topological_order(graph: Graph) -> list[int]:
    """An order in which everything comes after what it waits for. Raises `CausalityCycle` if there is none."""
    order, suspects = _sorted(graph)
    if suspects:
        raise _cycle_error(graph, _cycle_among(graph, suspects))
    return order


def find_cycle(graph: Graph) -> list[int]:
    """One shortest cycle, whole and in order; nothing if there is none."""
    _, suspects = _sorted(graph)
    return _cycle_among(graph, suspects) if suspects else []


def _sorted(graph: Graph) -> tuple[list[int], set[int]]:
    """A topological order, and what has no place in it."""
    waits = [0] * len(graph.names)
    for successors in graph.after:
        for successor in successors:
            waits[successor] += 1
    order = [node for node, count in enumerate(waits) if count == 0]
    for node in order:  # grows while it is read
        for successor in sorted(graph.after[node]):
            waits[successor] -= 1
            if waits[successor] == 0:
                order.append(successor)
    return order, {node for node, count in enumerate(waits) if count > 0}


def _cycle_among(graph: Graph, suspects: set[int]) -> list[int]:
    paths = (_shortest_cycle(graph, suspects, node) for node in sorted(suspects))
    return min((path for path in paths if path), key=len)


def _cycle_error(graph: Graph, cycle: list[int]) -> CausalityCycle:
    """Name every step of a cycle of reactions."""
    lines = []
    for place, node in enumerate(cycle):
        following = cycle[(place + 1) % len(cycle)]
        lines.append(f"{graph.names[node]} -> ({graph.via[node, following]}) -> {graph.names[following]}")
    names = tuple(graph.names[node] for node in cycle)
    return CausalityCycle(
        "reactions wait for each other within one tag; break the cycle with an action or `after`:\n  "
        + "\n  ".join(lines),
        names,
    )


def _shortest_cycle(graph: Graph, suspects: set[int], start: int) -> list[int]:
    """Breadth first from `start` back to it."""
    came_from: dict[int, int] = {}
    frontier = [start]
    for node in frontier:  # grows while it is read
        for successor in sorted(graph.after[node] & suspects):
            if successor == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if successor not in came_from:
                came_from[successor] = node
                frontier.append(successor)
    return []


def levels(graph: Graph, order: Sequence[int]) -> list[int]:
    """The longest path to each node."""
    level = [0] * len(graph.names)
    for node in order:
        for successor in graph.after[node]:
            level[successor] = max(level[successor], level[node] + 1)
    return level


def inferred_deadlines(graph: Graph, order: Sequence[int], own_ns: Sequence[int]) -> list[int]:
    """The least deadline of each node and all that come after it. `own_ns` has -1 where there is none."""
    inferred = [NO_DEADLINE_NS if deadline < 0 else deadline for deadline in own_ns]
    for node in reversed(order):
        for successor in graph.after[node]:
            inferred[node] = min(inferred[node], inferred[successor])
    return inferred
