from typing import Any, Final, final

from penstock.net.options import HasLoop

REASONS: Final[tuple[str, ...]]
ATTACHED: Final = "net"

@final
class Net:
    def __init__(self) -> None: ...
    def counters(self) -> dict[str, Any]: ...

def counters(reactor: HasLoop) -> dict[str, Any]: ...
