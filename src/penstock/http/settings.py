"""The kinds of settings: how text from a command line and values from a TOML file become what a program uses.

A kind reads both, because only a file can say that 5 is a number. "none" says that an optional setting has no value.
This file must not know any setting.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from typing import Any, Protocol

from penstock.limits import HTTP_TRUSTED_MAX, NS_PER_S

NONE = "none"
_WORDS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False, "on": True, "off": False}


class Kind(Protocol):
    """What can be said of a setting's values."""

    @property
    def wants(self) -> str:
        """What is allowed, to be read after "give"."""

    def read(self, value: object) -> Any:
        """Return what the program uses, or raise ValueError. What `show` has returned is read as the same."""

    def show(self, value: Any) -> object:
        """Return it as a TOML file has it."""


class _Optional(ABC):
    """What may be absent."""

    def __init__(self, wants: str, optional: bool) -> None:
        self.optional = optional
        self.wants = f"{wants}, or {NONE}" if optional else wants

    def read(self, value: object) -> Any:
        """Read it, or none."""
        return None if self.optional and value == NONE else self._read(value)

    @abstractmethod
    def _read(self, value: object) -> Any: ...

    def show(self, value: Any) -> object:
        """Show it, or none."""
        return NONE if value is None else value


class Whole(_Optional):
    """A whole number in a range."""

    def __init__(self, least: int, most: int, *, optional: bool = False) -> None:
        super().__init__(f"a whole number from {least:,} to {most:,}", optional)
        self.least = least
        self.most = most

    def _read(self, value: object) -> int:
        if isinstance(value, str) and re.fullmatch("[0-9]{1,20}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
            raise ValueError
        return value


class Seconds(_Optional):
    """A time."""

    def __init__(self, most_ns: int, *, zero: bool = False, optional: bool = False) -> None:
        super().__init__(
            f"seconds {'from' if zero else 'above'} 0 {'' if zero else 'and up '}to {most_ns // NS_PER_S:,}", optional
        )
        self.most = most_ns / NS_PER_S
        self.zero = zero

    def _read(self, value: object) -> float:
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,20})?", value):
            value = float(value) if "." in value else int(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError
        if not 0 <= value <= self.most or (value == 0 and not self.zero):
            raise ValueError
        return value


class Text(_Optional):
    """A line of text that says something."""

    def __init__(self, *, optional: bool = False) -> None:
        super().__init__("text without control characters", optional)

    def _read(self, value: object) -> str:
        if not isinstance(value, str) or not value or re.search("[\x00-\x1f\x7f\ud800-\udfff]", value):
            raise ValueError
        return value


class Names:
    """Several texts: a list in a file, separated by commas elsewhere."""

    wants = "a list, separated by commas, or none"

    def read(self, value: object) -> tuple[str, ...]:
        """Read a list, or a text of its parts."""
        if value == NONE:
            return ()
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple) or len(value) > HTTP_TRUSTED_MAX:
            raise ValueError
        text = Text()
        return tuple(text.read(part) for part in value)

    def show(self, value: tuple[str, ...]) -> object:
        """Show it as one text."""
        return ", ".join(value) or NONE


class Flag:
    """Yes or no."""

    wants = "true or false"

    def read(self, value: object) -> bool:
        """Read a truth value, or a word for one."""
        if isinstance(value, str):
            value = _WORDS.get(value.lower())
        if not isinstance(value, bool):
            raise ValueError
        return value

    def show(self, value: bool) -> object:
        """Show it as it is."""
        return value


class Mode(_Optional):
    """Permissions as people write them: three octal digits."""

    def __init__(self, *, optional: bool = False) -> None:
        super().__init__("three octal digits such as 660", optional)

    def _read(self, value: object) -> int:
        if isinstance(value, str) and re.fullmatch("0?[0-7]{3}", value):
            return int(value, 8)
        raise ValueError

    def show(self, value: int | None) -> object:
        """Show the digits."""
        return NONE if value is None else f"{value:03o}"


def as_toml(value: object) -> str:
    """Write a truth value, a number or a text as TOML does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # The strings of JSON are strings of TOML; control characters, which are not, cannot be in a setting.
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
