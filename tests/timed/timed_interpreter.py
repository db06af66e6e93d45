"""A slow, obvious interpreter of the semantics in docs/timed.md: the oracle of the scheduler's tests.

It was written from the rules, knows nothing of the scheduler, and avoids every cleverness: one list of events that is
sorted at each step, presence in a dictionary, connections followed one by one. Each rule is a method of its own, so that a
mutant of the rule is a subclass (`test_mutations.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.timed import timed_spec as s

NEVER = (10**9, 0)
Tag = tuple[int, int]
ModeKey = tuple[str, int] | None


class Cycle(Exception):
    pass


@dataclass
class Instance:
    path: str
    spec: s.Reactor
    parent: Instance | None
    enclosing: ModeKey
    index: int = 0
    count: int = 0
    runs: int = 0


@dataclass
class Event:
    tag: Tag
    target: str  # a path of a timer, action or signal, or the number of a connection
    value: Any
    mode: ModeKey
    intended: Tag | None = None  # of what came too late


@dataclass
class Running:
    """A reaction of an instance."""

    instance: Instance
    place: int
    spec: s.Reaction
    mode: ModeKey
    reads: set[str]
    shown: set[str]  # where what it may write is seen in the same tag


class Interpreter:
    def __init__(self, main: s.Reactor, timeout: int | None, world: s.World | None = None) -> None:
        self.world = world or s.World()
        self.physical = 0
        self.complete = 0
        self.late: dict[str, Tag] = {}
        self.late_handled = self.late_unhandled = 0
        self.instances: list[Instance] = []
        self.flatten("main", main, None, None)
        self.by_path = {instance.path: instance for instance in self.instances}
        self.value: dict[str, Any] = {}
        self.present: set[str] = set()
        self.direct: list[tuple[str, str, ModeKey]] = []
        self.delayed: list[tuple[str, str, int, ModeKey, bool]] = []
        for instance in self.instances:
            for connection in instance.spec.connections:
                self.connect(instance, connection)
        self.reactions = [
            Running(
                instance,
                place,
                reaction,
                self.mode_of(instance, reaction.mode),
                {path for ref in reaction.triggers + reaction.uses for path in self.resolve(instance, ref)},
                {
                    path
                    for op in reaction.ops
                    if op.kind == "set"
                    for port in self.resolve(instance, op.ref)
                    for path in self.shows(port)
                },
            )
            for instance in self.instances
            for place, reaction in enumerate(instance.spec.reactions)
        ]
        self.order_reactions()
        self.events: list[Event] = []
        self.suspended: list[tuple[Tag, Event]] = []
        self.last: dict[str, Tag] = {}
        self.handled: dict[str, Tag] = {}
        self.current = {i.path: 0 for i in self.instances if i.spec.modes}
        self.started: set[ModeKey] = set()
        self.fresh: set[ModeKey] = set()
        self.reset_due: set[ModeKey] = set()
        self.left_at: dict[ModeKey, Tag] = {}
        self.requests: dict[str, tuple[int, bool]] = {}
        self.now: Tag = (0, -1)
        self.stop: Tag = NEVER if timeout is None else (timeout, 0)
        self.queue: list[int] = []
        self.forced: set[int] = set()
        self.trace: list[tuple[Any, ...]] = []

    # ---- the program -------------------------------------------------------------------------------------------------

    def flatten(self, path: str, spec: s.Reactor, parent: Instance | None, enclosing: ModeKey) -> None:
        instance = Instance(path, spec, parent, enclosing, len(self.instances))
        self.instances.append(instance)
        for child in spec.children:
            mode = self.mode_of(instance, child.mode)
            for name in members(child):
                self.flatten(f"{path}.{name}", child.spec, instance, mode)

    def mode_of(self, instance: Instance, mode: int | None) -> ModeKey:
        return instance.enclosing if mode is None else (instance.path, mode)

    def resolve(self, instance: Instance, ref: s.Ref) -> list[str]:
        """The paths that a reference means: banks and multiports are several."""
        return [path for row in self.rows(instance, ref) for path in row]

    def rows(self, instance: Instance, ref: s.Ref) -> list[list[str]]:
        """The same, a row for each member of a bank."""
        child, name = ref
        if child is None:
            return [list(element_paths(instance.path, instance.spec, name))]
        found = next(item for item in instance.spec.children if item.name == child)
        return [list(element_paths(f"{instance.path}.{member}", found.spec, name)) for member in members(found)]

    def interleave(self, rows: list[list[str]]) -> list[str]:
        """The first port of every member, then the second of every member, ..."""
        return [row[place] for place in range(len(rows[0])) for row in rows]

    def side(self, instance: Instance, refs: list[s.Ref], across: bool) -> list[str]:
        if across:
            return [path for ref in refs for path in self.interleave(self.rows(instance, ref))]
        return [path for ref in refs for path in self.resolve(instance, ref)]

    def connect(self, instance: Instance, connection: s.Connection) -> None:
        sources = self.side(instance, connection.sources, connection.across_sources)
        sinks = self.side(instance, connection.sinks, connection.across_sinks)
        if connection.broadcast:
            sources = [sources[place % len(sources)] for place in range(len(sinks))]
        assert len(sources) == len(sinks)
        mode = self.mode_of(instance, connection.mode)
        for source, sink in zip(sources, sinks, strict=True):
            if connection.after is None and not connection.physical:
                self.direct.append((source, sink, mode if connection.mode is not None else None))
            else:
                self.delayed.append((source, sink, connection.after or 0, mode, connection.physical))

    # ---- the order of reactions --------------------------------------------------------------------------------------

    def shows(self, port: str) -> set[str]:
        """The ports at which a value written to `port` is seen in the same tag."""
        found = {port}
        while True:
            more = {sink for source, sink, _ in self.direct if source in found} - found
            if not more:
                return found
            found |= more

    def order_reactions(self) -> None:
        for source, sink, _ in self.direct:
            if source in self.shows(sink):
                raise Cycle
        count = len(self.reactions)
        self.edges: set[tuple[int, int]] = set()
        for a in range(count):
            for b in range(count):
                if self.must_precede(self.reactions[a], self.reactions[b]):
                    self.edges.add((a, b))
        self.level = [0] * count
        self.deadline = [r.spec.deadline if r.spec.deadline is not None else 10**9 for r in self.reactions]
        for _ in range(count + 1):
            changed = False
            for a, b in self.edges:
                if self.level[b] < self.level[a] + 1:
                    self.level[b] = self.level[a] + 1
                    changed = True
                changed = self.inherit_deadline(a, b) or changed
            if not changed:
                return
        raise Cycle

    def must_precede(self, a: Running, b: Running) -> bool:
        if a.instance is b.instance and a.place + 1 == b.place:
            return True
        return bool(b.reads & a.shown)

    def inherit_deadline(self, a: int, b: int) -> bool:
        if self.deadline[a] > self.deadline[b]:
            self.deadline[a] = self.deadline[b]
            return True
        return False

    def order_key(self, number: int) -> tuple[int, ...]:
        running = self.reactions[number]
        return (self.deadline[number], self.level[number], running.instance.index, running.place)

    # ---- tags --------------------------------------------------------------------------------------------------------

    def delay(self, tag: Tag, by: int) -> Tag:
        return (tag[0] + by, 0) if by > 0 else (tag[0], tag[1] + 1)

    def run(self) -> None:
        self.activate_initial()
        self.arrive()
        # No right program of the tests has as many tags; a mutant may never end.
        for _ in range(2_000):
            self.events.sort(key=lambda event: event.tag)
            if not self.events:
                self.stop = min(self.stop, self.delay(self.now, 0))
            if not self.events or self.events[0].tag > self.stop:
                break
            self.now = self.events[0].tag
            self.wait()
            due = [event for event in self.events if event.tag == self.now]
            self.events = [event for event in self.events if event.tag != self.now]
            for event in due:
                self.happen(event)
            self.react()
            self.clean_up()
            self.complete += 1
            self.arrive()
        self.now = self.stop
        self.wait()
        self.shut_down()
        self.trace.append((self.late_handled, self.late_unhandled))

    def wait(self) -> None:
        """Physical time is never before the tag, unless the program does not wait for it."""
        if not self.world.fast:
            self.physical = max(self.physical, self.now[0])

    def arrive(self) -> None:
        """What is injected now: at its tag, or late at the next microstep if that has passed."""
        for arrival in self.world.arrivals:
            if arrival.complete != self.complete:
                continue
            path = self.resolve(self.instances[0], (None, arrival.port))[arrival.index]
            tag, intended = arrival.tag, None
            if tag <= self.now:
                tag, intended = self.delay(self.now, 0), arrival.tag
            if tag > self.stop:
                continue
            while any(event.tag == tag and event.target == path for event in self.events):
                tag = (tag[0], tag[1] + 1)
            self.events.append(Event(tag, path, arrival.value, None, intended))

    def happen(self, event: Event) -> None:
        """An event makes its target present; a timer sets itself up again."""
        self.handled[event.target] = event.tag
        if event.target.startswith("#"):
            self.write(self.delayed[int(event.target[1:])][1], event.value)
            return
        if any(event.target in self.resolve(self.instances[0], (None, port.name)) for port in self.main_ports()):
            self.write(event.target, event.value, event.intended)
            return
        self.appear(event.target)
        if event.value is not None:
            self.value[event.target] = event.value
        timer = self.timer_at(event.target)
        if timer is not None and timer.period > 0:
            self.events.append(Event((self.now[0] + timer.period, 0), event.target, None, event.mode))

    def main_ports(self) -> list[s.Port]:
        return self.instances[0].spec.ports

    def timer_at(self, path: str) -> s.Timer | None:
        reactor, _, name = path.rpartition(".")
        return next((timer for timer in self.by_path[reactor].spec.timers if timer.name == name), None)

    def appear(self, path: str) -> None:
        self.present.add(path)
        for number, running in enumerate(self.reactions):
            if any(path in self.resolve(running.instance, ref) for ref in running.spec.triggers):
                self.queue.append(number)

    def write(self, port: str, value: Any, intended: Tag | None = None) -> None:
        """A port takes a value; all that it is directly connected to show it, and how late it is."""
        self.store(port, value)
        self.appear(port)
        if intended is not None:
            self.note_late(port, intended)
        for source, sink, mode in self.direct:
            if source == port and self.active(mode):
                self.write(sink, value, intended)

    def note_late(self, port: str, intended: Tag) -> None:
        self.late[port] = intended

    def store(self, port: str, value: Any) -> None:
        self.value[port] = value

    def react(self) -> None:
        done: set[int] = set()
        while True:
            waiting = sorted({number for number in self.queue if number not in done}, key=self.order_key)
            if not waiting:
                break
            done.add(waiting[0])
            self.execute(waiting[0])
        self.queue = []

    def execute(self, number: int) -> None:
        running = self.reactions[number]
        if not self.active(running.mode) and number not in self.forced:
            return
        instance = running.instance
        reads = [path for ref in running.spec.triggers + running.spec.uses for path in self.resolve(instance, ref)]
        late = [self.late[path] for path in reads if path in self.late]
        handled = self.handles_late(running, late)
        salt = running.spec.salt + (s.LATE_SALT if handled else 0)
        result = s.fold(salt, [(path in self.present, self.value.get(path)) for path in reads])
        if handled:
            result = s.fold_late(result, late)
        instance.count += 1
        written: list[tuple[str, Any]] = []
        self.trace.append((self.now, instance.path, running.spec.name + (" [late]" if handled else ""), written))
        instance.runs += 1
        for op in running.spec.ops:
            if instance.count % op.every == 0 and instance.runs <= s.RUNS_MAX:
                self.carry_out(running, op, (result + instance.count) % 100_003, written)

    def handles_late(self, running: Running, late: list[Tag]) -> bool:
        """Whether the handler runs instead; what is late and not handled is counted."""
        handled = bool(late) and running.spec.on_late
        self.late_handled += handled
        self.late_unhandled += bool(late) and not handled
        return handled

    def carry_out(self, running: Running, op: s.Op, value: int, written: list[tuple[str, Any]]) -> None:
        instance = running.instance
        if op.kind == "enter":
            self.requests[instance.path] = (int(op.ref[1][1:]), op.history)
            return
        if op.kind == "pass":
            self.physical += op.delay
            return
        paths = self.resolve(instance, op.ref)
        path = paths[instance.count % len(paths)]
        written.append((path, value))
        if op.kind == "set":
            self.write(path, value)
        else:
            self.schedule(instance, op.ref[1], path, value, op.delay)

    def clean_up(self) -> None:
        for number, (source, _, after, mode, physical) in enumerate(self.delayed):
            if source in self.present and self.active(mode):
                tag = self.physical_tag(after) if physical else self.delay(self.now, after)
                while any(event.tag == tag and event.target == f"#{number}" for event in self.events):
                    tag = (tag[0], tag[1] + 1)
                if tag <= self.stop:
                    self.events.append(Event(tag, f"#{number}", self.value[source], mode))
        self.forget_presence()
        self.change_modes()

    def physical_tag(self, after: int) -> Tag:
        """The present of the physical clock and the delay, but always later than the current tag."""
        tag = (self.physical + after, 0)
        return tag if tag[0] > self.now[0] else self.delay(self.now, 0)

    def forget_presence(self) -> None:
        self.present.clear()
        self.late.clear()

    def shut_down(self) -> None:
        for instance in self.instances:
            for signal in instance.spec.signals:
                mode = self.mode_of(instance, signal.mode)
                if signal.kind == "shutdown" and (mode is None or mode in self.started):
                    path = f"{instance.path}.{signal.name}"
                    self.appear(path)
                    for number, running in enumerate(self.reactions):
                        if any(path in self.resolve(running.instance, ref) for ref in running.spec.triggers):
                            self.forced.add(number)
        self.react()
        self.clean_up()

    # ---- actions -----------------------------------------------------------------------------------------------------

    def schedule(self, instance: Instance, name: str, path: str, value: int, delay: int) -> None:
        action = next(action for action in instance.spec.actions if action.name == name)
        mode = self.mode_of(instance, action.mode)
        tag = self.delay(self.now, self.total_delay(action, delay))
        if tag > self.stop or not self.active(mode):
            return
        mine = sorted((event for event in self.events if event.target == path), key=lambda event: event.tag)
        if action.spacing > 0 and path in self.last and tag[0] < self.last[path][0] + action.spacing:
            if action.policy == "drop":
                return
            if action.policy == "replace" and mine:
                mine[-1].value = value
                return
            earliest = self.last[path][0] + action.spacing
            if action.policy == "update" and mine:
                self.events.remove(mine.pop())
                before = mine[-1].tag if mine else self.handled.get(path)
                earliest = tag[0] if before is None else before[0] + action.spacing
            tag = (earliest, 0) if tag[0] < earliest else tag
        twin = next((event for event in mine if event.tag == tag), None)
        if twin is not None and action.policy == "drop":
            return
        if twin is not None and action.policy in ("replace", "update"):
            twin.value = value
            return
        while any(event.tag == tag for event in mine):
            tag = (tag[0], tag[1] + 1)
        self.last[path] = tag
        self.events.append(Event(tag, path, value, mode))

    def total_delay(self, action: s.Action, delay: int) -> int:
        return action.min_delay + delay

    # ---- modes -------------------------------------------------------------------------------------------------------

    def active(self, mode: ModeKey) -> bool:
        if mode is None:
            return True
        path, index = mode
        return self.current[path] == index and self.active(self.by_path[path].enclosing)

    def all_modes(self) -> list[ModeKey]:
        return [(i.path, index) for i in self.instances for index in range(i.spec.modes)]

    def activate_initial(self) -> None:
        self.fresh = set(self.all_modes())
        self.begin(None, (0, 0))
        for mode in self.all_modes():
            if self.active(mode):
                self.begin(mode, (0, 0))

    def begin(self, mode: ModeKey, first: Tag) -> None:
        """Timers start; startup is present once; reset is present if the mode was entered by a reset."""
        for instance in self.instances:
            for timer in instance.spec.timers:
                if self.mode_of(instance, timer.mode) == mode:
                    tag = (first[0] + timer.offset, 0) if timer.offset else first
                    self.events.append(Event(tag, f"{instance.path}.{timer.name}", None, mode))
            for signal in instance.spec.signals:
                wanted = (signal.kind == "startup" and mode not in self.started) or (
                    signal.kind == "reset" and mode in self.reset_due
                )
                if wanted and self.mode_of(instance, signal.mode) == mode:
                    self.events.append(Event(first, f"{instance.path}.{signal.name}", None, mode))
        self.started.add(mode)
        self.fresh.discard(mode)
        self.reset_due.discard(mode)

    def reset(self, mode: ModeKey, entering: bool) -> None:
        self.fresh.add(mode)
        self.reset_due.discard(mode)
        if entering:
            self.reset_due.add(mode)
        assert mode is not None
        for instance in self.instances:
            if instance.spec.count_mode is not None and self.mode_of(instance, instance.spec.count_mode) == mode:
                instance.count = 0
            if instance.enclosing == mode and instance.spec.modes:
                self.current[instance.path] = 0
                for index in range(instance.spec.modes):
                    self.reset((instance.path, index), entering and index == 0)

    def change_modes(self) -> None:
        before = {mode for mode in self.all_modes() if self.active(mode)}
        for path in sorted(self.requests, key=lambda path: -self.by_path[path].index):
            index, history = self.requests[path]
            self.current[path] = index
            if not history:
                self.reset((path, index), True)
        self.requests = {}
        after = {mode for mode in self.all_modes() if self.active(mode)}
        for mode in self.all_modes():
            if mode in before and mode not in after:
                self.left_at[mode] = self.now
                self.suspended += [(self.now, event) for event in self.events if event.mode == mode]
                self.events = [event for event in self.events if event.mode != mode]
            elif mode in after and mode in self.fresh:
                self.events = [event for event in self.events if event.mode != mode]
                self.suspended = [(left, event) for left, event in self.suspended if event.mode != mode]
                self.forget_history(mode)
                self.begin(mode, (self.now[0], self.now[1] + 1))
            elif mode in after and mode not in before:
                self.resume(mode)

    def targets(self, mode: ModeKey) -> list[tuple[Instance, s.Action]]:
        return [
            (instance, action)
            for instance in self.instances
            for action in instance.spec.actions
            if self.mode_of(instance, action.mode) == mode
        ]

    def forget_history(self, mode: ModeKey) -> None:
        for instance, action in self.targets(mode):
            self.last.pop(f"{instance.path}.{action.name}", None)
            self.handled.pop(f"{instance.path}.{action.name}", None)

    def resume(self, mode: ModeKey) -> None:
        """Local time stood still: what was due in a while is due in the same while."""
        left = self.left_at[mode]
        for place, event in [item for item in self.suspended if item[1].mode == mode]:
            event.tag = self.local_tag(event.tag, place)
            self.events.append(event)
        self.suspended = [item for item in self.suspended if item[1].mode != mode]
        for instance, action in self.targets(mode):
            path = f"{instance.path}.{action.name}"
            for known in (self.last, self.handled):
                if path in known:
                    known[path] = (known[path][0] + self.now[0] - left[0], known[path][1])

    def local_tag(self, tag: Tag, left: Tag) -> Tag:
        if tag[0] == left[0]:
            return (self.now[0], self.now[1] + tag[1] - left[1])
        return (tag[0] + self.now[0] - left[0], tag[1])


def members(child: s.Child) -> list[str]:
    return [child.name] if child.width is None else [f"{child.name}[{index}]" for index in range(child.width)]


def element_paths(path: str, spec: s.Reactor, name: str) -> Iterator[str]:
    port = next((port for port in spec.ports if port.name == name), None)
    if port is None or port.width is None:
        yield f"{path}.{name}"
    else:
        yield from (f"{path}.{name}[{index}]" for index in range(port.width))
