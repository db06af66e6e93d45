from collections.abc import Callable
from typing import Any, final

from penstock.http.admission import Admission
from penstock.http.answering import Answering
from penstock.http.exchange import Request
from penstock.http.files import Files
from penstock.http.log import Log
from penstock.http.message import Response
from penstock.http.options import HttpOptions
from penstock.http.peers import Trust
from penstock.net.options import HasLoop
from penstock.net.stream import Stream

@final
class Engine(Answering):
    on_idle: Callable[[], object] | None
    def __init__(
        self,
        reactor: HasLoop,
        *,
        admission: Admission,
        files: Files | None = None,
        handler: Callable[[Request], Response | None] | None = None,
        log: Log | None = None,
        options: HttpOptions | None = None,
        prefix: bytes = b"",
        health: bytes = b"",
        streaming: bool = False,
        spooling: bool = False,
        secure: Any = None,
        on_error: Callable[[Exception, object], object] | None = None,
    ) -> None: ...
    def set_wall_clock(self, wall_ns: int) -> None: ...
    def accept(self, stream: Stream) -> None: ...
    def drain(self) -> None: ...
    def abort(self) -> None: ...
    @property
    def files(self) -> Files | None: ...
    @property
    def log(self) -> Log | None: ...
    @property
    def admission(self) -> Admission: ...
    @property
    def options(self) -> HttpOptions: ...
    @property
    def secure(self) -> Any: ...
    @property
    def trust(self) -> Trust | None: ...
    @property
    def open(self) -> int: ...
    @property
    def draining(self) -> bool: ...
    def counters(self) -> dict[str, Any]: ...
    def recount(self) -> dict[str, Any]: ...
