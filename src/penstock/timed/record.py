"""Records of physical inputs: what a program needs to run again exactly as it did.

A record is a file of JSON lines: a head, then in the order in which they were handled

    {"tag": [time_ns, microstep], "name": "main.sensor", "value": 17, "intended": [time_ns, microstep]}
    {"missed": [time_ns, microstep], "reaction": "main.control.act", "check": 0}
    {"stop": [time_ns, microstep]}

`intended` only where the input was late. Values are written as JSON and must come back the same; nothing is ever pickled.
What a program reads from the physical clock by itself (`physical_elapsed`, `lag`) is not recorded. A record may come from
anywhere: whatever its bytes are, reading it is bounded and ends in a record or in one sentence. This file must not know how
a program runs.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from penstock.errors import Overflow, UsageError
from penstock.limits import MICROSTEPS_MAX, RECORD_BYTES_MAX, RECORD_LINE_BYTES_MAX, RECORD_LINES_MAX
from penstock.timed.errors import ReplayMismatch
from penstock.timed.time import FOREVER, Tag

FORMAT = "penstock timed record"
VERSION = 1


class Recorder:
    """Writes a record line by line."""

    def __init__(self, path: str | Path, seed: int) -> None:
        try:
            self._file: TextIO = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise UsageError(f"the record {path} cannot be written: {error.strerror or error}") from error
        self._lines = 0
        self._bytes = 0
        self._write({"format": FORMAT, "version": VERSION, "seed": seed})

    def _write(self, line: dict[str, Any]) -> None:
        """Add a line, unless the record would become one that no replay accepts."""
        text = json.dumps(line, separators=(",", ":")) + "\n"
        self._lines += 1
        self._bytes += len(text)
        for what, count, limit in (
            ("lines", self._lines, RECORD_LINES_MAX),
            ("bytes", self._bytes, RECORD_BYTES_MAX),
            ("bytes in one line", len(text), RECORD_LINE_BYTES_MAX),
        ):
            if count > limit:
                raise Overflow(
                    f"the record would have {count:,} {what}, and a replay takes {limit:,}; record a shorter run",
                    limit=_LIMITS[what],
                    capacity=limit,
                )
        self._file.write(text)

    def event(self, name: str, tag: Tag, value: Any, intended: Tag | None) -> None:
        """A physical input was handled."""
        try:
            # By their form: 1, 1.0 and True are equal, and NaN is not even equal to itself.
            survives = repr(json.loads(json.dumps(value))) == repr(value)
        except (TypeError, ValueError, RecursionError):
            survives = False
        if not survives:
            raise UsageError(
                f"{name} carries {reprlib.repr(value)}, which JSON cannot give back; schedule plain data to record a run"
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
        try:
            if stop is not None:
                self._write({"stop": list(stop)})
        finally:
            self._file.close()


_LIMITS = {"lines": "RECORD_LINES_MAX", "bytes": "RECORD_BYTES_MAX", "bytes in one line": "RECORD_LINE_BYTES_MAX"}


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
        recording = Recording()
        number = 0
        try:
            with Path(path).open("rb") as file:
                for number, text in enumerate(_lines(file), 1):
                    recording.take(json.loads(text), head=number == 1)
            if number == 0:
                raise ValueError("it is empty")
        except OSError as error:
            raise UsageError(f"the record {path} cannot be read: {error.strerror or error}") from error
        except KeyError as error:
            raise ReplayMismatch(f"{path} is no record of a timed program: line {number} has no {error}") from error
        except RecursionError as error:
            raise ReplayMismatch(f"{path} is no record of a timed program: line {number} is nested too deep") from error
        except (TypeError, ValueError) as error:
            raise ReplayMismatch(f"{path} is no record of a timed program: line {number}: {error}") from error
        recording.events.sort(key=lambda event: event[0])
        return recording

    def take(self, line: Any, *, head: bool) -> None:
        """Add what one line says."""
        _require(line, dict, "an object")
        if head:
            if line["format"] != FORMAT or line["version"] != VERSION:
                raise ValueError(f"its head is {reprlib.repr(line)}")
            self.seed = _require(line["seed"], int, "a seed")
        elif "tag" in line:
            tag = _tag(line["tag"])
            intended = _tag(line["intended"]) if "intended" in line else None
            if intended is not None and intended >= tag:
                raise ValueError(f"an input of {tag} was late, but meant for {intended}")
            self.events.append((tag, _require(line["name"], str, "a name"), line["value"], intended))
        elif "missed" in line:
            reaction = _require(line["reaction"], str, "a name")
            self.missed.append((_tag(line["missed"]), reaction, _require(line["check"], int, "a number")))
        else:
            self.stop = _tag(line["stop"])


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, as long as there are not too many, nor too much in one."""
    count = size = 0
    while text := file.readline(RECORD_LINE_BYTES_MAX + 1):
        count += 1
        size += len(text)
        if len(text) > RECORD_LINE_BYTES_MAX:
            raise ValueError(f"it has more than {RECORD_LINE_BYTES_MAX:,} bytes (RECORD_LINE_BYTES_MAX)")
        if count > RECORD_LINES_MAX:
            raise ValueError(f"the file has more than {RECORD_LINES_MAX:,} lines (RECORD_LINES_MAX)")
        if size > RECORD_BYTES_MAX:
            raise ValueError(f"the file has more than {RECORD_BYTES_MAX:,} bytes (RECORD_BYTES_MAX)")
        yield text


def _require(value: Any, kind: type, what: str) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{reprlib.repr(value)} is not {what}")
    return value


def _tag(value: Any) -> Tag:
    if type(value) is not list or [type(part) for part in value] != [int, int]:
        raise ValueError(f"{reprlib.repr(value)} is no tag")
    time_ns, microstep = value
    if not (0 <= time_ns <= FOREVER.time_ns and 0 <= microstep <= MICROSTEPS_MAX):
        raise ValueError(f"{reprlib.repr(value)} is no tag")
    return Tag(time_ns, microstep)
