from collections.abc import Sequence
from typing import final

KNOWN: dict[bytes, int]
NUMBERS: dict[bytes, int]

@final
class Made:
    def __init__(self, method: bytes, path: bytes, query: bytes, fields: Sequence[tuple[bytes, bytes]]) -> None: ...
