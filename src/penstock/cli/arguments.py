"""What commands share: arguments that are checked against a limit, and progress for those who wait.

This file must not know any command.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from penstock.core.clock import Clock
from penstock.errors import UsageError

# A terminal is told this often how far a long run is; a person reads no faster.
_PROGRESS_PERIOD_NS: Final = 200_000_000


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers in a range, for `add_argument(type=...)`."""

    def read(text: str) -> int:
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= len(str(most)):
            value = int(text)
            if least <= value <= most:
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least:,} to {most:,}")

    return read


@contextlib.contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Turn the system's refusal to write a file that the user named into a sentence that names it, too."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{option} is {path}, which cannot be written: {error.strerror or error}") from error


class Progress:
    """One line on the terminal's error output that says how far a run is; silent if there is no terminal to read it.

    It is also silent while the results themselves go to the terminal: then these are the progress.
    """

    def __init__(self, what: str, total: int, clock: Clock) -> None:
        self._what = what
        self._total = total
        self._clock = clock
        self._next_ns = clock.now_ns() + _PROGRESS_PERIOD_NS
        self._shown = False
        self._wanted = sys.stderr.isatty() and not sys.stdout.isatty()

    def update(self, done: int) -> None:
        """Say that `done` of the total are done, if it is time to say something."""
        if self._wanted and self._clock.now_ns() >= self._next_ns:
            self._next_ns = self._clock.now_ns() + _PROGRESS_PERIOD_NS
            self._shown = True
            print(f"\r{self._what} {done:,} of {self._total:,}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Take the line away again."""
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
