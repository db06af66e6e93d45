from typing import final

@final
class Log:
    target: str
    def __init__(
        self, target: str, format: str = "common", sample: int = 1, ring_bytes: int = ..., query: bool = True
    ) -> None: ...
    def put(
        self,
        peer: bytes = b"",
        method: bytes = b"",
        target: bytes = b"",
        referer: bytes = b"",
        agent: bytes = b"",
        minor: int = 1,
        status: int = 200,
        sent_bytes: int = 0,
        wall_ns: int = 0,
        took_ns: int = 0,
    ) -> None: ...
    def reopen(self) -> None: ...
    def flush(self, timeout: float = ...) -> bool: ...
    def close(self, timeout: float = ...) -> bool: ...
    def counters(self) -> dict[str, int]: ...
