"""The tree of reactors of a program: paths, parents, enclosing modes.

This file must not know connections or reactions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.limits import REACTORS_MAX
from penstock.timed.elements import (
    _ActionDeclaration,
    _MultiPortDeclaration,
    _PortDeclaration,
    _SignalDeclaration,
)
from penstock.timed.errors import AssemblyError
from penstock.timed.handles import Action, Port, Signal
from penstock.timed.modes import Mode, ModeHandle
from penstock.timed.reactor import Reactor, children, declarations


@dataclass(slots=True)
class Node:
    """One reactor and its place."""

    reactor: Reactor
    path: str
    parent: Node | None
    index: int
    mode: int = -1
    children: list[Node] = field(default_factory=list)
    modes: dict[int, int] = field(default_factory=dict)  # id of the declaration -> index of the mode

    def mode_of(self, declared: Mode | None) -> int:
        """The mode of an element: its own, or the one that encloses the reactor."""
        if declared is None:
            return self.mode
        if id(declared) not in self.modes:
            raise AssemblyError(f"an element of {self.path} names {declared!r}, which is no mode of this reactor")
        return self.modes[id(declared)]


_KINDS = (
    (_PortDeclaration, Port),
    (_ActionDeclaration, Action),
    (_SignalDeclaration, Signal),
    (_MultiPortDeclaration, tuple),
    (Mode, ModeHandle),
)


def check_names(node: Node) -> None:
    """An element whose name was given to something else in `__init__` is not reachable any more."""
    for name, declaration in declarations(type(node.reactor)).items():
        for kind, handle in _KINDS:
            value = vars(node.reactor).get(name)
            if isinstance(declaration, kind) and not isinstance(value, handle):
                raise AssemblyError(
                    f"{node.path} uses the name `{name}` twice: {declaration!r} was replaced by {value!r}"
                )


def grow(main: Reactor) -> list[Node]:
    """All reactors, parents before children, in the order in which they were assigned."""
    if main._environment is not None:
        raise AssemblyError(f"{type(main).__name__} ran in an environment before; make new reactors for a new run")
    nodes = [Node(main, "main", None, 0)]
    placed = {id(main): nodes[0]}
    stack = [nodes[0]]
    while stack:
        node = stack.pop()
        check_names(node)
        for name, reactor in children(node.reactor):
            known = placed.get(id(reactor))
            if known is not None and _is_above(known, node):
                continue
            path = f"{node.path}.{name}"
            if known is not None:
                raise AssemblyError(
                    f"one {type(reactor).__name__} is both {known.path} and {path}; a reactor has one place "
                    "(begin the name of a mere reference with an underscore)"
                )
            child = Node(reactor, path, node, 0)
            placed[id(reactor)] = child
            node.children.append(child)
        stack.extend(reversed(node.children))
        if len(placed) > REACTORS_MAX:
            raise AssemblyError(f"the program has more than {REACTORS_MAX:,} reactors (REACTORS_MAX)")
    return number(nodes[0])


def _is_above(candidate: Node, node: Node | None) -> bool:
    while node is not None:
        if node is candidate:
            return True
        node = node.parent
    return False


def number(root: Node) -> list[Node]:
    """Depth first, children in order."""
    nodes: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        node.index = len(nodes)
        nodes.append(node)
        stack.extend(reversed(node.children))
    return nodes
