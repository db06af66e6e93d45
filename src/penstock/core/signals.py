"""Which signals arrived? The interpreter's handlers leave a note; the loop runs the callbacks in its inbox step.

The interpreter runs its signal handlers in the main thread, between two byte codes; a loop that sleeps or runs only
native handlers executes none. So while it runs, the loop lends the interpreter a pipe to write to
(`signal.set_wakeup_fd`), wakes when that is readable, and asks for signals.

Notes are counted per signal number, so there is nothing that could overflow. This file must not know loops.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from penstock.errors import Unsupported, UsageError

Handler = Callable[..., object]


def require_signal(number: object) -> int:
    """The number of a signal, if it is one at all."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise UsageError(f"signal {number!r} is no number; give one, such as signal.SIGTERM")
    if number not in signal.valid_signals():
        raise UsageError(f"signal {number} does not exist here; give one, such as signal.SIGTERM")
    return int(number)


class Signals:
    """The signals of one loop: which are wanted, which have arrived."""

    def __init__(self, loop_name: str) -> None:
        self._loop_name = loop_name
        self._callbacks: dict[int, tuple[Handler, tuple[Any, ...]]] = {}
        self._former: dict[int, Any] = {}
        self._arrived: dict[int, int] = {}
        self._lent: int | None = None
        # Called when a note is made, for a loop whose main thread may be busy elsewhere.
        self.noted: Callable[[], object] | None = None

    def __len__(self) -> int:
        return len(self._callbacks)

    @property
    def pending(self) -> bool:
        """Whether a signal has arrived that nobody has taken."""
        return bool(self._arrived)

    def add(self, number: int, callback: Handler, args: tuple[Any, ...]) -> None:
        """Have `callback` run when that signal has arrived."""
        number = require_signal(number)
        if threading.current_thread() is not threading.main_thread():
            raise Unsupported(
                f"signal {number} cannot be received by {self._loop_name}: only the main thread receives signals; "
                f"it is {threading.current_thread().name!r} here"
            )
        if number in (signal.SIGKILL, signal.SIGSTOP):
            raise UsageError(f"signal {number} cannot be caught by any program; SIGTERM and SIGINT can")
        try:
            former = signal.signal(number, self._note)
        except (ValueError, OSError) as error:
            raise UsageError(f"signal {number} cannot be received: {error}; give another one") from error
        signal.siginterrupt(number, False)
        if former != self._note:
            self._former[number] = former
        self._callbacks[number] = (callback, args)

    def remove(self, number: int) -> bool:
        """Put back what handled the signal before; False if this loop did not."""
        number = require_signal(number)
        if self._callbacks.pop(number, None) is None:
            return False
        self._arrived.pop(number, None)
        if signal.getsignal(number) == self._note:
            self._put_back(number)
        # Else another loop has taken the signal since: it stays there, and may put this one's note back; see `_note`.
        return True

    def _put_back(self, number: int) -> None:
        """Let whoever handled the signal before handle it. A handler that was not installed from Python cannot."""
        former = self._former.pop(number, None)
        signal.signal(number, former if former is not None else signal.SIG_DFL)

    def clear(self) -> None:
        """Put back everything."""
        for number in list(self._callbacks):
            self.remove(number)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number in self._callbacks:
            self._arrived[number] = self._arrived.get(number, 0) + 1
            if self.noted is not None:
                self.noted()
        else:
            # Given up here, but another loop that took it over has put this note back: pass it on.
            self._put_back(number)
            signal.raise_signal(number)

    def take(self) -> Iterator[tuple[Handler, tuple[Any, ...]]]:
        """The callbacks of the signals that arrived, once each, lowest number first.

        One at a time: a callback may remove another signal, and one that leaves the loop leaves the rest noted.
        """
        for number in sorted(self._arrived):
            if self._arrived.pop(number, 0) and number in self._callbacks:
                yield self._callbacks[number]

    def lend(self, write_fd: int) -> None:
        """Let the interpreter write to that descriptor when a signal arrives. Only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._lent = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)

    def take_back(self) -> None:
        """Let it write where it wrote before."""
        if self._lent is not None:
            lent, self._lent = self._lent, None
            try:
                signal.set_wakeup_fd(lent, warn_on_full_buffer=False)
            except (ValueError, OSError):
                # Whoever lent it has closed it meanwhile.
                signal.set_wakeup_fd(-1)


def drain(read_fd: int) -> None:
    """Empty the pipe that the interpreter writes to; its content says nothing that the notes do not say better."""
    try:
        while len(os.read(read_fd, 512)) == 512:
            pass
    except BlockingIOError:
        pass
