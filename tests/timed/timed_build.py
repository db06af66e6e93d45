"""Real reactors from specifications, and their traces in the form of the interpreter's."""

from __future__ import annotations

from typing import Any

from penstock import timed
from penstock.timed.environment import Environment
from tests.timed import timed_spec as s

SIGNALS = {"startup": timed.Startup, "shutdown": timed.Shutdown, "reset": timed.Reset}


def reactor_class(spec: s.Reactor) -> type[timed.Reactor]:
    """A class that declares what the specification says."""
    space: dict[str, Any] = {}
    modes = [timed.Mode(initial=index == 0) for index in range(spec.modes)]
    for index, mode in enumerate(modes):
        space[f"m{index}"] = mode

    def mode_of(index: int | None) -> Any:
        return None if index is None else modes[index]

    for port in spec.ports:
        single, multi = (timed.Input, timed.MultiInput) if port.is_input else (timed.Output, timed.MultiOutput)
        space[port.name] = single(int) if port.width is None else multi(int, width=port.width)
    for timer in spec.timers:
        space[timer.name] = timed.Timer(
            offset=timed.ms(timer.offset), period=timed.ms(timer.period), mode=mode_of(timer.mode)
        )
    for action in spec.actions:
        space[action.name] = timed.LogicalAction(
            int,
            min_delay=timed.ms(action.min_delay),
            min_spacing=timed.ms(action.spacing),
            policy=action.policy,  # type: ignore[arg-type]
            mode=mode_of(action.mode),
        )
    for signal in spec.signals:
        space[signal.name] = SIGNALS[signal.kind](mode=mode_of(signal.mode))
    space["count"] = timed.State(0, reset=spec.count_mode is not None, mode=mode_of(spec.count_mode))
    space["runs"] = timed.State(0)
    for child in spec.children:
        space[child.name] = _child(child, mode_of(child.mode))
    for reaction in spec.reactions:
        space[reaction.name] = _reaction(spec, space, reaction, mode_of(reaction.mode))

    def __init__(self: Any) -> None:
        for connection in spec.connections:
            self.connect(
                [port for ref in connection.sources for port in _handles(self, ref)],
                [port for ref in connection.sinks for port in _handles(self, ref)],
                after=None if connection.after is None else timed.ms(connection.after),
                broadcast=connection.broadcast,
                mode=None if connection.mode is None else getattr(self, f"m{connection.mode}"),
            )

    space["__init__"] = __init__
    kind: Any = type(timed.Reactor)
    namespace = kind.__prepare__("Generated", (timed.Reactor,))
    for name, value in space.items():
        namespace[name] = value
    made: type[timed.Reactor] = kind("Generated", (timed.Reactor,), namespace)
    return made


def _child(child: s.Child, mode: Any) -> Any:
    cls = reactor_class(child.spec)
    if child.width is None:
        return timed.child(cls) if mode is None else mode.child(cls)
    return timed.bank(cls, child.width) if mode is None else mode.bank(cls, child.width)


def _declared(space: dict[str, Any], spec: s.Reactor, ref: s.Ref) -> Any:
    child, name = ref
    if child is None:
        return space[name]
    found = next(item for item in spec.children if item.name == child)
    if found.width is None:
        return getattr(space[child], name)
    return space[child].each(lambda member: getattr(member, name))


def _handles(reactor: Any, ref: s.Ref) -> list[Any]:
    child, name = ref
    owners = [reactor] if child is None else [getattr(reactor, child)]
    if child is not None and isinstance(owners[0], timed.Bank):
        owners = list(owners[0])
    found = []
    for owner in owners:
        handle = getattr(owner, name)
        found += list(handle) if isinstance(handle, tuple) else [handle]
    return found


def _reaction(spec: s.Reactor, space: dict[str, Any], reaction: s.Reaction, mode: Any) -> Any:
    def body(self: Any) -> None:
        reads = [handle for ref in reaction.triggers + reaction.uses for handle in _handles(self, ref)]
        result = s.fold(reaction.salt, [(handle.is_present, getattr(handle, "value", None)) for handle in reads])
        self.count += 1
        self.runs += 1
        for op in reaction.ops:
            if self.count % op.every or self.runs > s.RUNS_MAX:
                continue
            if op.kind == "enter":
                getattr(self, op.ref[1]).enter(history=op.history)
                continue
            targets = _handles(self, op.ref)
            target = targets[self.count % len(targets)]
            value = (result + self.count) % 100_003
            if op.kind == "set":
                target.set(value)
            else:
                target.schedule(value, timed.ms(op.delay))

    body.__name__ = reaction.name
    return timed.reaction(
        *[_declared(space, spec, ref) for ref in reaction.triggers],
        uses=[_declared(space, spec, ref) for ref in reaction.uses],
        effects=[_declared(space, spec, op.ref) for op in reaction.ops],
        deadline=None if reaction.deadline is None else timed.ms(reaction.deadline),
        mode=mode,
    )(body)


def run(spec: s.Reactor, timeout: int | None) -> list[Any]:
    """The trace of the real thing."""
    environment = Environment(reactor_class(spec)(), fast=True, timeout=None if timeout is None else timed.ms(timeout))
    trace = environment.trace()
    environment.run()
    return [
        ((entry.tag.time_ns // 1_000_000, entry.tag.microstep), entry.reactor, entry.reaction, list(entry.written))
        for entry in trace
    ]
