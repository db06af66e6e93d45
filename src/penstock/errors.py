"""Every exception of the project: who must act, and on what.

Each message names the thing, the value and the remedy. This file must not know any other file of the project.

`PenstockError` is the root of what a program may want to catch. `InvariantBroken` is not under it, and not under
`Exception` either: a broken invariant is a bug of this library, and no handler of the program may swallow it.
"""

from __future__ import annotations

from collections.abc import Sequence


class PenstockError(Exception):
    """The root of every error that a program can act on."""


class UsageError(PenstockError, ValueError):
    """An argument that cannot be meant: its name, its value and what is allowed."""


class BadDescriptor(UsageError):
    """A descriptor number that is negative, closed, or of a kind that cannot be waited for."""


class Unsupported(PenstockError):
    """Something that this machine, poller or model cannot do, with what can do it."""


class WrongThread(PenstockError, RuntimeError):
    """A call from a thread that does not own the loop."""


class ForkedLoop(PenstockError, RuntimeError):
    """A loop of the parent process used in the child."""


class LoopClosed(PenstockError, RuntimeError):
    """A call on a loop after `close()`."""


class LoopRunning(PenstockError, RuntimeError):
    """A call that makes no sense while the loop runs, such as running it twice."""


class LaneClosed(PenstockError, RuntimeError):
    """A post to a lane that was closed."""


class Overflow(PenstockError):
    """Something bounded is full and its policy is to refuse.

    `limit` is the name in `penstock.limits`, `capacity` its value.
    """

    def __init__(self, message: str, *, limit: str, capacity: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.capacity = capacity


class InvariantBroken(BaseException):
    """A promise of the kernel did not hold. Never contained: it leaves `run()`.

    `turns` are the last turns of the flight recorder, oldest first, one line each.
    """

    def __init__(self, message: str, turns: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.turns = tuple(turns)

    def __str__(self) -> str:
        head = str(self.args[0])
        return "\n  ".join((head, *self.turns)) if self.turns else head
