"""Which poller? By name, or the best that this system has."""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.poller.epoll import EpollPoller
from penstock.core.poller.events import PollerLike
from penstock.core.poller.interface import Poller, PythonPoller
from penstock.core.poller.kqueue import KqueuePoller
from penstock.core.poller.select import SelectPoller
from penstock.errors import Unsupported, UsageError


def _open_kqueue() -> Poller:
    return PythonPoller(KqueuePoller())


# Best first.
POLLERS: dict[str, Callable[[], Poller]] = {"epoll": EpollPoller, "kqueue": _open_kqueue, "select": SelectPoller}

# What `PollerLike` asks for.
_OFFERED = ("name", "supports_edge", "simulated", "add", "modify", "remove", "wait", "unread", "reset", "close")


def available() -> tuple[str, ...]:
    """The names of the pollers that work here, best first."""
    names = []
    for name, make in POLLERS.items():
        try:
            make().close()
        except Unsupported:
            continue
        except OSError:
            # It is there, and the process is short of descriptors now: no reason to take a lesser one for good.
            pass
        names.append(name)
    return tuple(names)


def open_poller(choice: str | Poller | PollerLike) -> Poller:
    """The poller of that name; "auto" for the best; an object of the shape `PollerLike` as it is."""
    if isinstance(choice, Poller):
        return choice
    if not isinstance(choice, str):
        missing = [name for name in _OFFERED if not hasattr(choice, name)]
        if missing:
            raise UsageError(f"poller is {choice!r}, which has no {', '.join(missing)}; give a name or a PollerLike")
        return PythonPoller(choice)
    names = available()
    if choice == "auto":
        return POLLERS[names[0]]()
    if choice not in names:
        raise Unsupported(f"poller is {choice!r}; available here: {', '.join(map(repr, ('auto', *names)))}")
    return POLLERS[choice]()
