"""Connections: which port feeds which, one to one.

A connection is written down when `connect` is called, and expanded at assembly, when all widths are known. This file must
not know values or tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from penstock.timed.errors import AssemblyError
from penstock.timed.handles import Port
from penstock.timed.modes import ModeHandle
from penstock.timed.time import format_ns

if TYPE_CHECKING:
    from penstock.timed.reactor import Reactor

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Interleaved(Generic[T]):
    """Ports of a bank of multiports, taken across: the first port of every member, then the second, ..."""

    rows: tuple[tuple[Port[T], ...], ...]


def interleaved(rows: Iterable[Sequence[Port[T]]]) -> Interleaved[T]:
    """Take the ports of a bank across: `interleaved(self.workers.each(lambda worker: worker.outs))`."""
    return Interleaved(tuple(tuple(row) for row in rows))


Endpoint: TypeAlias = "Port[T] | Interleaved[T] | Sequence[Port[T]] | Sequence[Sequence[Port[T]]]"


def ports(endpoint: Any) -> list[Port[Any]]:
    """The ports of one side of a connection, in order."""
    if isinstance(endpoint, Port):
        return [endpoint]
    if isinstance(endpoint, Interleaved):
        widths = {len(row) for row in endpoint.rows}
        if len(widths) > 1:
            raise AssemblyError(f"rows of {sorted(widths)} ports cannot be interleaved; give rows of equal width")
        return list(chain.from_iterable(zip(*endpoint.rows, strict=True)))
    if isinstance(endpoint, (list, tuple)):
        return list(chain.from_iterable(ports(item) for item in endpoint))
    raise AssemblyError(f"{endpoint!r} cannot be connected; give a port, a multiport, or a sequence of them")


@dataclass(frozen=True, slots=True)
class Connection:
    """What one call of `connect` asked for."""

    owner: Reactor
    pairs: tuple[tuple[Port[Any], Port[Any]], ...]
    after_ns: int | None
    physical: bool
    mode: ModeHandle | None

    @staticmethod
    def make(
        owner: Reactor,
        sources: Any,
        sinks: Any,
        *,
        after_ns: int | None,
        physical: bool,
        broadcast: bool,
        mode: ModeHandle | None,
    ) -> Connection:
        """Check the widths and pair the ports."""
        left, right = ports(sources), ports(sinks)
        if broadcast and left and len(right) % len(left) == 0:
            left = left * (len(right) // len(left))
        if len(left) != len(right):
            remedy = (
                "the sinks are no multiple of the sources" if broadcast else "give broadcast=True to repeat the sources"
            )
            raise AssemblyError(
                f"{type(owner).__name__} connects {len(left)} port(s) ({_names(left)}) to {len(right)} ({_names(right)}); "
                f"widths must be equal ({remedy})"
            )
        return Connection(owner, tuple(zip(left, right, strict=True)), after_ns, physical, mode)

    @property
    def direct(self) -> bool:
        """Whether values pass within the tag."""
        return self.after_ns is None and not self.physical

    def label(self) -> str:
        """How the connection is written at its arrow."""
        words = ["physical"] if self.physical else []
        if self.after_ns is not None:
            words.append(f"after {format_ns(self.after_ns)}")
        return ", ".join(words)


def _names(some: Sequence[Port[Any]]) -> str:
    shown = ", ".join(f"{type(port.owner).__name__}.{port.name}" for port in some[:3])
    return f"{shown}, ..." if len(some) > 3 else shown or "none"
