import socket
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

from penstock.net.calls import Address, Ancillary, Buffer, HasFileno, HasLoop, Message, SystemCalls

Kind = Literal["read", "write", "except"]
Outcome = OSError | None

class Descriptor:
    def __init__(
        self,
        reactor: HasLoop,
        fd: int | HasFileno,
        *,
        edge: bool | None = None,
        calls: SystemCalls | None = None,
    ) -> None: ...
    def read(self, n: int, callback: Callable[[Any, bytes | None], object], key: object = None) -> None: ...
    def read_into(
        self, buffer: bytearray | memoryview, callback: Callable[[Any, int], object], key: object = None
    ) -> None: ...
    def write(self, data: Buffer, callback: Callable[[Any, int], object], key: object = None) -> None: ...
    def wait(self, kind: Kind, callback: Callable[[Any, None], object], key: object = None) -> None: ...
    def connect(self, address: Address, callback: Callable[[Any, None], object], key: object = None) -> None: ...
    def accept(
        self, callback: Callable[[Any, tuple[socket.socket, Address] | None], object], key: object = None
    ) -> None: ...
    def recvmsg(
        self,
        n: int,
        callback: Callable[[Any, Message | None], object],
        key: object = None,
        *,
        descriptors: int = 0,
        ancillary_bytes: int = 0,
        flags: int = 0,
    ) -> None: ...
    def sendmsg(
        self,
        data: Buffer | Sequence[Buffer],
        callback: Callable[[Any, int | None], object],
        key: object = None,
        *,
        descriptors: Sequence[int | HasFileno] = (),
        ancillary: Sequence[Ancillary] = (),
        flags: int = 0,
        address: Address = None,
    ) -> None: ...
    def sendfile(
        self,
        file: int | HasFileno,
        callback: Callable[[Any, int | None], object],
        key: object = None,
        *,
        offset: int = 0,
        count: int | None = None,
    ) -> None: ...
    def cancel(self, kind: Kind | None = None, key: object = None) -> int: ...
    def close(self) -> None: ...
    def release(self) -> int: ...
    def move(self) -> Descriptor: ...
    def fileno(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def waiting(self) -> tuple[int, int, int]: ...
    @property
    def filters(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...

def operation_counters(reactor: HasLoop) -> dict[str, int]: ...
