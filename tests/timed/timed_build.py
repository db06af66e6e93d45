"""Real reactors from specifications, and their traces in the form of the interpreter's."""

from __future__ import annotations

from typing import Any

from penstock import ManualClock, timed
from penstock.timed.environment import Environment
from penstock.timed.steps import DONE, WAIT
from penstock.timed.trace import Trace
from tests.timed import timed_spec as s

MS = 1_000_000
SIGNALS = {"startup": timed.Startup, "shutdown": timed.Shutdown, "reset": timed.Reset}


def reactor_class(spec: s.Reactor, clock: ManualClock) -> type[timed.Reactor]:
    """A class that declares what the specification says; its reactions move the clock when they take time."""
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
        space[child.name] = _child(child, mode_of(child.mode), clock)
    for reaction in spec.reactions:
        _add_reaction(spec, space, reaction, mode_of(reaction.mode), clock)

    def __init__(self: Any) -> None:
        for connection in spec.connections:
            self.connect(
                [_endpoint(self, ref, connection.across_sources) for ref in connection.sources],
                [_endpoint(self, ref, connection.across_sinks) for ref in connection.sinks],
                after=None if connection.after is None else timed.ms(connection.after),
                physical=connection.physical,
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


def _child(child: s.Child, mode: Any, clock: ManualClock) -> Any:
    cls = reactor_class(child.spec, clock)
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
    return [handle for row in _rows(reactor, ref) for handle in row]


def _endpoint(reactor: Any, ref: s.Ref, across: bool) -> Any:
    """One side of a connection: members one after the other, or taken across."""
    return timed.interleaved(_rows(reactor, ref)) if across else _handles(reactor, ref)


def _rows(reactor: Any, ref: s.Ref) -> list[list[Any]]:
    """The handles of a reference, a row for each member of a bank."""
    child, name = ref
    owners = [reactor] if child is None else [getattr(reactor, child)]
    if child is not None and isinstance(owners[0], timed.Bank):
        owners = list(owners[0])
    found = []
    for owner in owners:
        handle = getattr(owner, name)
        found.append(list(handle) if isinstance(handle, tuple) else [handle])
    return found


def _add_reaction(spec: s.Reactor, space: dict[str, Any], reaction: s.Reaction, mode: Any, clock: ManualClock) -> None:
    def reads(self: Any) -> list[Any]:
        return [handle for ref in reaction.triggers + reaction.uses for handle in _handles(self, ref)]

    def folded(self: Any, salt: int) -> int:
        return s.fold(salt, [(handle.is_present, getattr(handle, "value", None)) for handle in reads(self)])

    def carry_out(self: Any, result: int) -> None:
        self.count += 1
        self.runs += 1
        for op in reaction.ops:
            if self.count % op.every == 0 and self.runs <= s.RUNS_MAX:
                _carry_out(self, op, (result + self.count) % 100_003, clock)

    def body(self: Any) -> None:
        carry_out(self, folded(self, reaction.salt))

    def late(self: Any) -> None:
        intended = [handle.intended_tag for handle in reads(self) if handle.is_late]
        result = folded(self, reaction.salt + s.LATE_SALT)
        carry_out(self, s.fold_late(result, [(tag.time_ns // MS, tag.microstep) for tag in intended]))

    body.__name__ = reaction.name
    late.__name__ = f"{reaction.name}_late"
    if reaction.on_late:
        space[late.__name__] = late
    space[reaction.name] = timed.reaction(
        *[_declared(space, spec, ref) for ref in reaction.triggers],
        uses=[_declared(space, spec, ref) for ref in reaction.uses],
        effects=[_declared(space, spec, op.ref) for op in reaction.ops if op.kind != "pass"],
        deadline=None if reaction.deadline is None else timed.ms(reaction.deadline),
        on_late=late if reaction.on_late else None,
        mode=mode,
    )(body)


def _carry_out(reactor: Any, op: s.Op, value: int, clock: ManualClock) -> None:
    if op.kind == "enter":
        getattr(reactor, op.ref[1]).enter(history=op.history)
    elif op.kind == "pass":
        clock.advance(timed.ms(op.delay))
    else:
        targets = _handles(reactor, op.ref)
        target = targets[reactor.count % len(targets)]
        if op.kind == "set":
            target.set(value)
        else:
            target.schedule(value, timed.ms(op.delay))


def run(spec: s.Reactor, timeout: int | None, world: s.World | None = None) -> list[Any]:
    """The trace of the real thing, and how many late inputs were handled and not handled."""
    environment, trace = _traced(spec, timeout, world or s.World())
    entries = [
        ((tag.time_ns // MS, tag.microstep), reactor, f"{name} [{how}]" if how else name, list(written))
        for tag, reactor, name, how, written in trace
    ]
    figures = environment.figures()
    return [*entries, (figures["late_handled"], figures["late_unhandled"])]


def traced(spec: s.Reactor, timeout: int | None, world: s.World) -> Trace | None:
    """The trace itself; None for a program that cannot be ordered."""
    try:
        return _traced(spec, timeout, world)[1]
    except timed.CausalityCycle:
        return None


def _traced(spec: s.Reactor, timeout: int | None, world: s.World) -> tuple[Environment, Trace]:
    clock = ManualClock()
    main: Any = reactor_class(spec, clock)()
    environment = Environment(
        main,
        fast=world.fast,
        timeout=None if timeout is None else timed.ms(timeout),
        keep_alive=False,
        clock=clock,
        debug=True,
    )
    trace = environment.trace()
    if world == s.World():
        environment.run()
    else:
        _run_in(world, environment, clock)
    return environment, trace


def _run_in(world: s.World, environment: Environment, clock: ManualClock) -> None:
    """Step the program: inject what arrives when its turn has come, and let time pass where the program waits."""
    scheduler, main = environment.scheduler, environment.main
    complete = 0

    def inject() -> None:
        for arrival in world.arrivals:
            if arrival.complete == complete:
                port = _handles(main, (None, arrival.port))[arrival.index]
                environment.inject(port, arrival.value, (arrival.tag[0] * MS, arrival.tag[1]))

    def on_complete(tag: timed.Tag) -> None:
        nonlocal complete
        complete += 1
        inject()

    scheduler.on_complete = on_complete
    scheduler.begin(clock.now_ns())
    inject()
    while (status := scheduler.run()) != DONE:
        assert status == WAIT
        clock.advance_to(scheduler.wait_ns)
