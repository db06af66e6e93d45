"""What ran at which tag: the trace of a program, as text or for Perfetto.

A trace keeps at most TRACE_CAPACITY entries; of more it drops the oldest and counts them. This file must not know the
scheduler: it is handed one entry after the other.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.errors import UsageError
from penstock.limits import TRACE_CAPACITY
from penstock.timed.plan import ReactionPlan
from penstock.timed.time import Tag


class TraceEntry(NamedTuple):
    """One reaction that ran. `how` is empty, "deadline" or "late" where a handler ran in its place."""

    tag: Tag
    reactor: str
    reaction: str
    how: str
    written: tuple[tuple[str, Any], ...]

    def line(self, *, values: bool = False) -> str:
        """`(10 ms, 0) main.ramp.grow -> main.ramp.y`"""
        text = f"{self.tag} {self.reactor}.{self.reaction}"
        if self.how:
            text += f" [{self.how}]"
        if self.written:
            names = [f"{path}={value!r}" if values else path for path, value in self.written]
            text += " -> " + ", ".join(names)
        return text


class Trace:
    """The entries of a run, oldest first."""

    def __init__(self, reactions: Sequence[ReactionPlan], capacity: int = TRACE_CAPACITY) -> None:
        self._reactions = reactions
        self._entries: deque[TraceEntry] = deque(maxlen=capacity)
        self.recorded = 0

    def note(self, rank: int, tag: Tag, how: str, written: list[tuple[str, Any]]) -> None:
        """Add an entry (called by the scheduler after each reaction)."""
        plan = self._reactions[rank]
        self.recorded += 1
        self._entries.append(TraceEntry(tag, plan.reactor, plan.name, how, tuple(written)))

    @property
    def dropped(self) -> int:
        """How many entries were dropped because there were more than the trace keeps."""
        return self.recorded - len(self._entries)

    def __iter__(self) -> Iterator[TraceEntry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def text(self, *, values: bool = False) -> str:
        """One line per reaction."""
        return "".join(entry.line(values=values) + "\n" for entry in self._entries)

    def perfetto(self) -> dict[str, Any]:
        """The trace as Chrome trace events, which https://ui.perfetto.dev opens. Reactors are threads.

        Time in the picture is logical; what runs at one tag is drawn side by side, a nanosecond each, in its order. Nothing
        is drawn over something else: where tags are closer than that, the later ones are moved on.
        """
        threads = {
            path: number for number, path in enumerate(dict.fromkeys(entry.reactor for entry in self._entries), 1)
        }
        events: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": path}}
            for path, number in threads.items()
        ]
        at_ns = -1
        for entry in self._entries:
            at_ns = max(at_ns + 1, entry.tag.time_ns)
            events.append(
                {
                    "name": f"{entry.reaction} [{entry.how}]" if entry.how else entry.reaction,
                    "ph": "X",
                    "pid": 1,
                    "tid": threads[entry.reactor],
                    "cat": entry.how or "reaction",
                    "ts": at_ns / 1_000,
                    "dur": 0.001,
                    "args": {
                        "tag": list(entry.tag),
                        "written": {path: repr(value) for path, value in entry.written},
                    },
                }
            )
        return {"displayTimeUnit": "ns", "traceEvents": events}

    def write(self, path: str | Path) -> None:
        """Write to a file: `.json` for Perfetto, `.txt` for text."""
        target = Path(path)
        if target.suffix == ".json":
            target.write_text(json.dumps(self.perfetto()))
        elif target.suffix == ".txt":
            target.write_text(self.text())
        else:
            raise UsageError(f"a trace file is named {target.name}; end its name in .json (Perfetto) or .txt")
