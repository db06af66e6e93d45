"""The errors of timed programs. This file must not know what raises them."""

from __future__ import annotations

from penstock.errors import PenstockError, UsageError
from penstock.timed.time import Tag


class AssemblyError(UsageError):
    """A program that cannot be meant: found before anything runs."""


class CausalityCycle(AssemblyError):
    """Reactions that wait for each other within one tag. `path` names them in order; the last triggers the first."""

    def __init__(self, message: str, path: tuple[str, ...]) -> None:
        super().__init__(message)
        self.path = path


class UndeclaredUse(AssemblyError):
    """A reaction touches something that it did not declare."""


class SchedulerStopped(PenstockError, RuntimeError):
    """A call on a program that has not begun, or has ended."""


class ReactionFailed(PenstockError):
    """A reaction has raised: its name and tag; the cause is the exception itself."""

    def __init__(self, reaction: str, tag: Tag, error: BaseException) -> None:
        super().__init__(f"{reaction} raised {type(error).__name__} at tag {tag}: {error}")
        self.reaction = reaction
        self.tag = tag


class ReplayMismatch(UsageError):
    """A record that was not made by this program, or is none at all."""
