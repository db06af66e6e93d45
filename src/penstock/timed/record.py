"""Records of physical inputs: what a program needs to run again exactly as it did.

A record is a file of JSON lines: a head, then in the order in which they were handled

    {"tag": [time_ns, microstep], "name": "main.sensor", "value": 17, "intended": [time_ns, microstep]}
    {"missed": [time_ns, microstep], "reaction": "main.control.act", "check": 0}
    {"stop": [time_ns, microstep]}

`intended` only where the input was late. Values are written as JSON and must come back equal; nothing is ever pickled.
What a program reads from the physical clock by itself (`physical_elapsed`, `lag`) is not recorded. This file must not know
how a program runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from penstock.errors import UsageError
from penstock.limits import RECORD_LINES_MAX
from penstock.timed.errors import ReplayMismatch
from penstock.timed.time import Tag

FORMAT = "penstock timed record"
VERSION = 1


class Recorder:
    """Writes a record line by line."""

    def __init__(self, path: str | Path, seed: int) -> None:
        self._file: TextIO = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - closed by `close`
        self._write({"format": FORMAT, "version": VERSION, "seed": seed})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def event(self, name: str, tag: Tag, value: Any, intended: Tag | None) -> None:
        """A physical input was handled."""
        try:
            survives = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            survives = False
        if not survives:
            raise UsageError(
                f"{name} carries {value!r}, which JSON cannot give back; schedule plain data to record a run"
            )
        line: dict[str, Any] = {"tag": list(tag), "name": name, "value": value}
        if intended is not None:
            line["intended"] = list(intended)
        self._write(line)

    def missed(self, reaction: str, tag: Tag, check: int) -> None:
        """A deadline was found missed: at the start of the reaction (check 0), or by its own question."""
        self._write({"missed": list(tag), "reaction": reaction, "check": check})

    def close(self, stop: Tag | None) -> None:
        """End the record; `stop` is the tag at which the program stopped, if it did."""
        if self._file.closed:
            return
        if stop is not None:
            self._write({"stop": list(stop)})
        self._file.close()


@dataclass(slots=True)
class Recording:
    """A record that was read."""

    seed: int = 0
    events: list[tuple[Tag, str, Any, Tag | None]] = field(default_factory=list)
    missed: list[tuple[Tag, str, int]] = field(default_factory=list)
    stop: Tag | None = None

    @staticmethod
    def read(path: str | Path) -> Recording:
        """Read a record and check its form."""
        with Path(path).open(encoding="utf-8") as file:
            try:
                return _parse(file)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise ReplayMismatch(f"{path} is no record of a timed program: {error}") from error


def _tag(value: Any) -> Tag:
    time_ns, microstep = value
    if not isinstance(time_ns, int) or not isinstance(microstep, int) or time_ns < 0 or microstep < 0:
        raise ValueError(f"{value!r} is no tag")
    return Tag(time_ns, microstep)


def _parse(lines: Iterable[str]) -> Recording:
    recording = Recording()
    number = -1
    for number, text in enumerate(lines):
        if number > RECORD_LINES_MAX:
            raise ValueError(f"it has more than {RECORD_LINES_MAX:,} lines (RECORD_LINES_MAX)")
        line = json.loads(text)
        if number == 0:
            if line["format"] != FORMAT or line["version"] != VERSION:
                raise ValueError(f"its head is {text.strip()!r}")
            recording.seed = line["seed"]
        elif "tag" in line:
            intended = _tag(line["intended"]) if "intended" in line else None
            recording.events.append((_tag(line["tag"]), str(line["name"]), line["value"], intended))
        elif "missed" in line:
            recording.missed.append((_tag(line["missed"]), str(line["reaction"]), int(line["check"])))
        else:
            recording.stop = _tag(line["stop"])
    if number < 0:
        raise ValueError("it is empty")
    recording.events.sort(key=lambda event: event[0])
    return recording
