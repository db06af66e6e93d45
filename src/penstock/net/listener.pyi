from collections.abc import Callable
from typing import Literal, final

from penstock.core.loop import Loop
from penstock.net.address import Address
from penstock.net.options import HasFileno, HasLoop, StreamOptions
from penstock.net.stream import Stream

@final
class Listener:
    on_accept: Callable[[Stream], object]
    on_refuse: Callable[[str], object] | None
    def __init__(
        self,
        reactor: HasLoop,
        address: Address | None,
        on_accept: Callable[[Stream], object],
        *,
        fd: int | HasFileno | None = None,
        options: StreamOptions | None = None,
        backlog: int = 4096,
        reuse_port: bool = False,
        dual_stack: bool = False,
        connections_max: int = 1048576,
        per_address_max: int | None = None,
        when_full: Literal["refuse", "evict"] = "refuse",
        accept_budget: int = 128,
        on_refuse: Callable[[str], object] | None = None,
    ) -> None: ...
    def accept_all(self) -> int: ...
    def close(self) -> None: ...
    def fileno(self) -> int: ...
    @property
    def loop(self) -> Loop: ...
    @property
    def options(self) -> StreamOptions: ...
    @property
    def connections_max(self) -> int: ...
    @property
    def per_address_max(self) -> int | None: ...
    @property
    def when_full(self) -> str: ...
    @property
    def open(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def refused(self) -> int: ...
    @property
    def evicted(self) -> int: ...
    @property
    def starved(self) -> int: ...
    @property
    def address(self) -> Address | None: ...
