# cython: language_level=3, binding=False
"""What a reaction holds in its hands: ports, actions, timers and the built-in triggers.

A handle is made with its reactor and bound to a slot of the scheduler at assembly. Reading and writing checks that the
reaction that runs has declared it; the answer for the last reaction that asked is remembered, so that the check costs one
comparison. This file must not know classes of reactors, graphs or loops.
"""

import reprlib

import cython
from cython.cimports.cpython.pythread import PyThread_get_thread_ident
from cython.cimports.cpython.ref import Py_INCREF, PyObject
from cython.cimports.libc.stdint import int64_t
from cython.cimports.penstock.timed.scheduler import Scheduler

from penstock.errors import UsageError, WrongThread
from penstock.timed.errors import SchedulerStopped, UndeclaredUse
from penstock.timed.time import Duration, Tag, require_duration


class Handle:
    """A named place of one reactor: whether something is there, and perhaps a value."""

    def __init__(self, name, owner):
        self.name = name
        self.owner = owner
        self.index = -1
        self.reader = -2
        self.writer = -2

    def bind(self, scheduler: Scheduler, index):
        """Attach to a slot. Once: a reactor is part of one program only."""
        if self.scheduler is not None:
            raise UsageError(f"{self.path} is part of a program already; make new reactors for a new environment")
        self.index = index
        self.slot = scheduler.c.slots + cython.cast(cython.uint, index)
        self.scheduler = scheduler
        # Outside of reactions everything may be read.
        self.reader = -1

    @property
    def path(self):
        """The name from the top of the program."""
        above = getattr(self.owner, "path", "")
        return f"{above}.{self.name}" if above else self.name

    def _may_read(self):
        """The slow half of the check; remembers a yes."""
        if self.scheduler is None:
            raise SchedulerStopped(
                f"{self.path} belongs to no environment yet; reactions can use it when the program runs"
            )
        current: cython.int = self.scheduler.c.current
        if current >= 0:
            reaction = self.scheduler.plan.reactions[current]
            if self not in reaction.readable:
                raise UndeclaredUse(f"{reaction.full_name} uses {self.path}; declare it as a trigger or in uses=[...]")
        self.reader = current
        return 0

    def _may_write(self):
        if self.scheduler is None:
            raise SchedulerStopped(
                f"{self.path} belongs to no environment yet; reactions can use it when the program runs"
            )
        current: cython.int = self.scheduler.c.current
        if PyThread_get_thread_ident() != self.scheduler.c.owner:
            raise WrongThread(
                f"{self.path} was written by thread {PyThread_get_thread_ident()}, but the program runs in thread "
                f"{self.scheduler.c.owner}; schedule a physical action instead"
            )
        if current < 0:
            raise UsageError(f"{self.path} can be written by a reaction only, while it runs")
        reaction = self.scheduler.plan.reactions[current]
        if self not in reaction.writable:
            raise UndeclaredUse(f"{reaction.full_name} writes {self.path}; declare it in effects=[...]")
        self.writer = current
        return 0

    @property
    def is_present(self):
        """Whether something is there at the current tag."""
        if self.scheduler is None or self.reader != self.scheduler.c.current:
            self._may_read()
        return bool(self.slot.present)

    @property
    def is_late(self):
        """Whether what is there was meant for an earlier tag."""
        if self.scheduler is None or self.reader != self.scheduler.c.current:
            self._may_read()
        return bool(self.slot.late)

    @property
    def intended_tag(self):
        """The tag that what is present was meant for: the current one unless it is late; None while absent."""
        if self.scheduler is None or self.reader != self.scheduler.c.current:
            self._may_read()
        if not self.slot.present:
            return None
        if self.slot.late:
            return Tag(self.slot.intended_ns, self.slot.intended_microstep)
        return Tag(self.scheduler.c.now_ns, self.scheduler.c.microstep)

    def __repr__(self):
        return f"<{type(self).__name__} {self.path}>"


class Port(Handle):
    """A port. Its value persists after the tag; `is_present` does not."""

    @classmethod
    def __class_getitem__(cls, item, /):
        """`Port[int]` is for type checkers."""
        return cls

    def __init__(self, name, owner, type=None, is_input=False):
        Handle.__init__(self, name, owner)
        self.type = type
        self.is_input = is_input

    def check_types(self):
        """From now on refuse values of another type (debug mode)."""
        self.checked = self.type is not None and self.type is not object

    def check(self, value):
        """Refuse a value of another type if types are checked."""
        if self.checked:
            _check_type(self, value)

    @property
    def value(self):
        """The latest value; None before the first."""
        if self.scheduler is None or self.reader != self.scheduler.c.current:
            self._may_read()
        if self.slot.value == cython.NULL:
            return None
        return cython.cast(object, self.slot.value)

    def get(self, default=None):
        """The value if there is one at this tag, else `default`."""
        if self.scheduler is None or self.reader != self.scheduler.c.current:
            self._may_read()
        if not self.slot.present or self.slot.value == cython.NULL:
            return default
        return cython.cast(object, self.slot.value)

    def set(self, value):
        """Send a value at the current tag. Within a tag the last write wins."""
        if (
            self.scheduler is None
            or self.scheduler.c.current < 0
            or self.writer != self.scheduler.c.current
            or PyThread_get_thread_ident() != self.scheduler.c.owner
        ):
            self._may_write()
        if self.checked:
            _check_type(self, value)
        if self.scheduler.c.tracing:
            self.scheduler.written.append((self.path, value))
        Py_INCREF(value)
        self.scheduler.write(self.index, cython.cast(cython.pointer[PyObject], value))


class Signal(Handle):
    """A timer, or a built-in trigger: present or not."""


class Action(Handle):
    """An action: scheduled now, present later."""

    @classmethod
    def __class_getitem__(cls, item, /):
        """`Port[int]` is for type checkers."""
        return cls

    def __init__(self, name, owner, type=None, physical=False):
        Handle.__init__(self, name, owner)
        self.type = type
        self.physical = physical
        self.trigger = -1

    def bind_trigger(self, trigger):
        self.trigger = trigger

    def check_types(self):
        """From now on refuse values of another type (debug mode)."""
        self.checked = self.type is not None and self.type is not object

    @property
    def value(self):
        """The latest value that arrived; None before the first."""
        if self.scheduler is None or self.reader != self.scheduler.c.current:
            self._may_read()
        if self.slot.value == cython.NULL:
            return None
        return cython.cast(object, self.slot.value)

    def schedule(self, value=None, delay=None):
        """Let the action happen after its minimum delay plus `delay`; return whether an event was added.

        A logical action: by a reaction that declares it as an effect, counted from the current tag. A physical action:
        from any thread, coroutine or handler of a descriptor, counted from the physical time of this call. From
        another thread the event goes through the loop's inbox, which is bounded, too.
        """
        delay_ns: int64_t = 0
        if delay is not None:
            if not isinstance(delay, Duration) or delay < 0:
                require_duration(f"the delay of {self.path}", delay)
            delay_ns = delay
        if self.checked and value is not None:
            _check_type(self, value)
        if self.physical:
            return self._schedule_physical(value, delay_ns)
        if (
            self.scheduler is None
            or self.scheduler.c.current < 0
            or self.writer != self.scheduler.c.current
            or PyThread_get_thread_ident() != self.scheduler.c.owner
        ):
            self._may_write()
        if self.scheduler.c.tracing:
            self.scheduler.written.append((self.path, value))
        return self.scheduler.schedule_after(self.trigger, delay_ns, value) < 2

    def _schedule_physical(self, value, delay_ns):
        if self.scheduler is None:
            raise SchedulerStopped(f"{self.path} belongs to no environment yet; schedule it when the program runs")
        if PyThread_get_thread_ident() != self.scheduler.c.owner:
            return self._post(value, delay_ns)
        if self.gate is not None:
            self.gate.check()
        return self.arrive(value, delay_ns, self.scheduler.physical_ns())

    def _post(self, value, delay_ns):
        """From another thread. An action that blocks lets it wait first, so that the event has the tag of its entry."""
        if self.gate is None:
            return self.poster(self, value, delay_ns, self.scheduler.physical_ns())
        self.gate.enter()
        taken = False
        try:
            taken = self.poster(self, value, delay_ns, self.scheduler.physical_ns())
        finally:
            if not taken:
                self.gate.arrived()
        return taken

    def arrive(self, value, delay_ns, at_ns):
        """In the loop's thread: what was scheduled at the physical time `at_ns`."""
        if self.scheduler.c.tracing and self.scheduler.c.current >= 0:
            self.scheduler.written.append((self.path, value))
        return self.scheduler.schedule_physical(self.trigger, at_ns, delay_ns, value) < 2


def _check_type(handle, value):
    expected = handle.type
    if expected is float and type(value) is int:
        return
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        name = getattr(expected, "__name__", expected)
        raise TypeError(f"{handle.path} takes {name}, not {type(value).__name__} {reprlib.repr(value)}")
