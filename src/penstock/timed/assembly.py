"""From a tree of reactors to a plan: every error that a program can contain is found here, before anything runs.

    tree -> modes -> connections -> triggers -> reactions -> graph -> order -> plan

This file must not know how a plan is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.limits import INPUT_CAPACITY, REACTIONS_MAX
from penstock.timed import wiring as wires
from penstock.timed.elements import (
    OVERFLOWS,
    POLICIES,
    ParameterReference,
    Reset,
    Shutdown,
    Startup,
    State,
    Timer,
    _ActionDeclaration,
    _SignalDeclaration,
)
from penstock.timed.errors import AssemblyError, UndeclaredUse
from penstock.timed.handles import Action, Handle, Port, Signal
from penstock.timed.levels import NO_DEADLINE_NS, Graph, inferred_deadlines, levels, topological_order
from penstock.timed.modes import Mode, ModeHandle
from penstock.timed.plan import (
    ACTION,
    INPUT,
    PHYSICAL,
    RESET,
    SHUTDOWN,
    STARTUP,
    TIMER,
    ModalPlan,
    ModePlan,
    Plan,
    ReactionPlan,
    SlotPlan,
    TriggerPlan,
)
from penstock.timed.reactions import ReactionDeclaration
from penstock.timed.reactor import ChildPort, EachPort, Reactor, _resolved, declarations, reactions
from penstock.timed.time import require_duration
from penstock.timed.tree import Node, grow
from penstock.timed.usage import touched

_SIGNAL_KINDS = ((Timer, TIMER), (Startup, STARTUP), (Shutdown, SHUTDOWN), (Reset, RESET))


@dataclass(slots=True)
class Draft:
    """A reaction on its way into the plan."""

    plan: ReactionPlan
    node: Node
    place: int
    triggers: list[Handle] = field(default_factory=list)
    reads: list[Handle] = field(default_factory=list)
    writes: list[Handle] = field(default_factory=list)


@dataclass(slots=True)
class Program:
    """A plan, and where each handle of the reactors belongs in it."""

    plan: Plan
    nodes: list[Node]
    wiring: wires.Wiring
    graph: Graph
    drafts: list[Draft]
    slots: dict[Handle, int] = field(default_factory=dict)
    triggers: dict[Handle, int] = field(default_factory=dict)
    modes: dict[int, ModeHandle] = field(default_factory=dict)


def assemble(main: Reactor) -> Program:
    """Check and flatten a program."""
    nodes = grow(main)
    plan = Plan()
    for index, node in enumerate(nodes):
        node.index = index
        node.reactor.__dict__["_path"] = node.path
    program = Program(plan, nodes, wires.Wiring({}), Graph([]), [])
    _number_modes(program)
    program.wiring = wires.collect(nodes)
    program.drafts = [draft for node in nodes for draft in _drafts(node)]
    if len(program.drafts) > REACTIONS_MAX:
        raise AssemblyError(f"the program has {len(program.drafts):,} reactions; REACTIONS_MAX is {REACTIONS_MAX:,}")
    _note_writers(program)
    wires.check_writers(program.wiring)
    wires.make_slots(program.wiring, plan, nodes)
    program.slots.update(program.wiring.slot_of.items())
    _add_triggers(program)
    _order(program)
    return program


# ---- modes -----------------------------------------------------------------------------------------------------------


def _number_modes(program: Program) -> None:
    """Number the modes, parents before children, and pass the enclosing mode down the tree."""
    for node in program.nodes:
        if node.parent is not None:
            declared = declarations(type(node.parent.reactor)).get(node.path.rpartition(".")[2].partition("[")[0])
            node.mode = node.parent.mode_of(declared.mode if declared is not None else None)
        own = {name: item for name, item in declarations(type(node.reactor)).items() if isinstance(item, Mode)}
        if own:
            _add_modal(program, node, own)


def _add_modal(program: Program, node: Node, own: dict[str, Mode]) -> None:
    plan = program.plan
    initial = [name for name, mode in own.items() if mode.initial]
    if len(initial) != 1:
        raise AssemblyError(f"{node.path} has {len(initial)} initial modes; give exactly one of its modes initial=True")
    modal = ModalPlan(node.path, -1, node.mode)
    if node.mode >= 0:
        plan.modes[node.mode].modals.append(len(plan.modals))
    for name, mode in own.items():
        index = len(plan.modes)
        node.modes[id(mode)] = index
        modal.modes.append(index)
        if mode.initial:
            modal.initial = index
        plan.modes.append(ModePlan(f"{node.path}.{name}", len(plan.modals)))
        program.modes[index] = vars(node.reactor)[name]
    plan.modals.append(modal)


# ---- reactions -------------------------------------------------------------------------------------------------------


def _drafts(node: Node) -> Iterable[Draft]:
    """The reactions of one reactor with everything they name looked up."""
    for place, (name, declaration) in enumerate(reactions(type(node.reactor)).items()):
        plan = ReactionPlan(
            name,
            node.path,
            getattr(node.reactor, name),
            _handler(node, declaration.on_deadline),
            _handler(node, declaration.on_late),
            _deadline(node, name, declaration),
            node.mode_of(declaration.mode),
        )
        draft = Draft(plan, node, place)
        draft.triggers = list(_handles(node, name, declaration.triggers))
        draft.reads = draft.triggers + list(_handles(node, name, declaration.uses))
        draft.writes = list(_handles(node, name, declaration.effects))
        _check_reads(draft)
        _check_writes(draft)
        plan.readable.update(draft.reads, draft.writes)
        plan.writable.update(draft.writes)
        _check_body(draft)
        yield draft


def _handler(node: Node, function: Callable[..., Any] | None) -> Callable[[], Any] | None:
    """A handler by its name, so that a subclass may override it."""
    if function is None:
        return None
    found = getattr(node.reactor, function.__name__, None)
    return found if callable(found) else function.__get__(node.reactor)  # type: ignore[no-any-return]


def _deadline(node: Node, name: str, declaration: ReactionDeclaration) -> int:
    deadline: object = declaration.deadline
    if deadline is None:
        return -1
    if isinstance(deadline, ParameterReference):
        deadline = _resolved(deadline, {**_arguments_of(node.reactor), **vars(node.reactor)})
    return require_duration(f"the deadline of {node.path}.{name}", deadline)


def _arguments_of(reactor: Reactor) -> dict[str, Any]:
    """Class attributes; a deadline may also be named by an attribute that `__init__` has set."""
    return {key: value for base in reversed(type(reactor).__mro__) for key, value in vars(base).items()}


def _handles(node: Node, reaction: str, items: Iterable[Any]) -> Iterable[Any]:
    """The handles of what a declaration lists: multiports and banks one by one."""
    for item in items:
        if isinstance(item, (ChildPort, EachPort)):
            yield from _flat(item.resolve(node.reactor))
        elif isinstance(item, (list, tuple)):
            yield from _handles(node, reaction, item)
        elif getattr(item, "name", "") and declarations(type(node.reactor)).get(item.name) is not None:
            yield from _flat(vars(node.reactor)[item.name])
        else:
            raise AssemblyError(
                f"{node.path}.{reaction} names {item!r}, which is no element of {type(node.reactor).__name__}"
            )


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _is_childs(draft: Draft, port: Port[Any]) -> bool:
    return any(child.reactor is port.owner for child in draft.node.children)


def _check_reads(draft: Draft) -> None:
    for handle in draft.reads:
        name = draft.plan.full_name
        if not isinstance(handle, Handle):
            raise AssemblyError(
                f"{name} is triggered by or uses {handle!r}; only ports, actions and triggers can be read"
            )
        if isinstance(handle, Port):
            own = handle.owner is draft.node.reactor and handle.is_input
            if not own and not (_is_childs(draft, handle) and not handle.is_input):
                raise AssemblyError(f"{name} reads {handle!r}; a reaction reads own inputs and its children's outputs")


def _check_writes(draft: Draft) -> None:
    for handle in draft.writes:
        name = draft.plan.full_name
        if isinstance(handle, Signal):
            raise AssemblyError(f"{name} has the effect {handle!r}; a timer or built-in trigger fires by itself")
        if isinstance(handle, Port):
            own = handle.owner is draft.node.reactor and not handle.is_input
            if not own and not (_is_childs(draft, handle) and handle.is_input):
                raise AssemblyError(
                    f"{name} writes {handle!r}; a reaction writes own outputs and its children's inputs"
                )


def _check_body(draft: Draft) -> None:
    """The early half of the check for undeclared uses."""
    reactor, plan = draft.node.reactor, draft.plan
    known = declarations(type(reactor))
    for function in (plan.body, plan.on_deadline, plan.on_late):
        for name, taken in touched(getattr(function, "__func__", None) or (lambda: None)):
            declaration = known.get(name)
            value = vars(reactor).get(name)
            if declaration is None:
                continue
            if isinstance(value, ModeHandle):
                if taken == "enter" and value not in plan.writable:
                    raise UndeclaredUse(f"{plan.full_name} enters mode {value.path}; declare it in effects=[...]")
            elif not isinstance(value, Handle):
                continue
            elif taken == "set" or (taken == "schedule" and not getattr(value, "physical", False)):
                if value not in plan.writable:
                    raise UndeclaredUse(f"{plan.full_name} writes {value.path}; declare it in effects=[...]")
            elif taken in _READS and value not in plan.readable:
                raise UndeclaredUse(f"{plan.full_name} uses {value.path}; declare it as a trigger or in uses=[...]")


_READS = frozenset({"value", "get", "is_present", "is_late", "intended_tag"})


def _note_writers(program: Program) -> None:
    for draft in program.drafts:
        for handle in draft.writes:
            if isinstance(handle, Port):
                by_reactor = program.wiring.writers.setdefault(handle, {})
                by_reactor.setdefault(draft.node.path, draft.plan.full_name)


# ---- triggers --------------------------------------------------------------------------------------------------------


def _add_triggers(program: Program) -> None:
    """Give every action, timer and built-in trigger a slot and a trigger; let modes know what is theirs."""
    for node in program.nodes:
        for name, declaration in declarations(type(node.reactor)).items():
            handle = vars(node.reactor)[name]
            if isinstance(declaration, _SignalDeclaration):
                _add_signal(program, node, handle, declaration)
            elif isinstance(declaration, _ActionDeclaration):
                _add_action(program, node, handle, declaration)
            elif isinstance(declaration, State) and declaration.reset:
                _add_state(program, node, name, declaration)
    for port in wires.all_ports(program.nodes[0].reactor):
        if port.is_input:
            plan = TriggerPlan(
                port.path,
                INPUT,
                program.slots[port],
                capacity=INPUT_CAPACITY,
                capacity_name="INPUT_CAPACITY",
                recorded=True,
            )
            program.triggers[port] = _add(program, plan)


def _add(program: Program, trigger: TriggerPlan) -> int:
    index = len(program.plan.triggers)
    program.plan.triggers.append(trigger)
    if trigger.mode >= 0:
        program.plan.modes[trigger.mode].triggers.append(index)
    return index


def _new_slot(program: Program, handle: Handle) -> int:
    slot = len(program.plan.slots)
    program.plan.slots.append(SlotPlan(handle.path))
    program.slots[handle] = slot
    return slot


def _add_signal(program: Program, node: Node, handle: Signal, declaration: _SignalDeclaration) -> None:
    kind = next(number for cls, number in _SIGNAL_KINDS if isinstance(declaration, cls))
    trigger = TriggerPlan(handle.path, kind, _new_slot(program, handle), node.mode_of(declaration.mode))
    if kind == TIMER:
        trigger.offset_ns, trigger.period_ns = vars(node.reactor)[f"_delays_{handle.name}"]
    program.triggers[handle] = _add(program, trigger)


def _add_action(program: Program, node: Node, handle: Action[Any], declaration: _ActionDeclaration[Any]) -> None:
    delay_ns, spacing_ns = vars(node.reactor)[f"_delays_{handle.name}"]
    program.triggers[handle] = _add(
        program,
        TriggerPlan(
            handle.path,
            PHYSICAL if declaration.physical else ACTION,
            _new_slot(program, handle),
            node.mode_of(declaration.mode),
            delay_ns,
            spacing_ns,
            POLICIES.index(declaration.policy),
            OVERFLOWS.index(declaration.overflow),
            declaration.capacity,
            "PHYSICAL_ACTION_CAPACITY" if declaration.physical else "ACTION_CAPACITY",
            recorded=declaration.physical,
        ),
    )


def _add_state(program: Program, node: Node, name: str, declaration: State[Any]) -> None:
    mode = node.mode_of(declaration.mode)
    if mode >= 0:
        program.plan.modes[mode].resets.append(lambda: node.reactor.__dict__.__setitem__(name, declaration.fresh()))


# ---- order -----------------------------------------------------------------------------------------------------------


def _order(program: Program) -> None:
    """Build the graph of reactions, sort it, and write the reactions into the plan in their order."""
    drafts = program.drafts
    graph = program.graph = build_graph(program)
    order = topological_order(graph)
    level = levels(graph, order)
    inferred = inferred_deadlines(graph, order, [draft.plan.deadline_ns for draft in drafts])
    ranked = sorted(range(len(drafts)), key=lambda n: (inferred[n], level[n], drafts[n].node.index, drafts[n].place))
    for rank, number in enumerate(ranked):
        draft = drafts[number]
        draft.plan.level = level[number]
        draft.plan.inferred_deadline_ns = -1 if inferred[number] == NO_DEADLINE_NS else inferred[number]
        draft.plan.watches = sorted({program.slots[handle] for handle in draft.reads})
        program.plan.reactions.append(draft.plan)
        for slot in sorted({program.slots[handle] for handle in draft.triggers}):
            program.plan.slots[slot].reactions.append(rank)


def build_graph(program: Program) -> Graph:
    """Edges: lexical order within a reactor; from each writer of a port to each reader of what then shows its value."""
    drafts = program.drafts
    graph = Graph([draft.plan.full_name for draft in drafts])
    readers: dict[int, list[int]] = {}
    for number, draft in enumerate(drafts):
        if number and drafts[number - 1].node is draft.node:
            graph.add(number - 1, number, "order in the class")
        for handle in draft.reads:
            if isinstance(handle, Port):
                readers.setdefault(program.slots[handle], []).append(number)
    for number, draft in enumerate(drafts):
        for handle in draft.writes:
            if not isinstance(handle, Port):
                continue
            for slot in sorted(wires.reach(program.plan, program.slots[handle])):
                for reader in readers.get(slot, ()):
                    graph.add(number, reader, handle.path)
    return graph
