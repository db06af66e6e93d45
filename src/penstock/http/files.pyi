import os
from collections.abc import Iterable
from typing import final

from penstock.http.message import Response
from penstock.http.slow import Answer

REASONS: tuple[str, ...]

@final
class Files:
    """A directory whose files are served.

    `index` is what a directory is answered with; `listing` lists one that has no such file; `dotfiles` shows names that
    begin with a dot; `max_age` (seconds) becomes Cache-Control, and with `expires` Expires, too; `precompressed` looks
    for neighbours .br, .zst, .gz.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        index: str | None = "index.html",
        listing: bool = False,
        dotfiles: bool = False,
        max_age: int | None = None,
        expires: bool = False,
        precompressed: bool = True,
        cache_bytes: int = ...,
        cache_entries: int = ...,
    ) -> None: ...
    @property
    def root(self) -> str: ...
    def answer(
        self,
        method: str,
        path: bytes,
        query: bytes = b"",
        fields: Iterable[tuple[bytes, bytes]] = (),
        now_ns: int | None = None,
    ) -> Answer: ...
    def slow(
        self,
        method: bytes,
        path: bytes,
        query: bytes,
        fields: Iterable[tuple[bytes, bytes]],
        now_ns: int | None = None,
    ) -> Response: ...
    def counters(self) -> dict[str, int | dict[str, int]]: ...
    def close(self) -> None: ...
    @property
    def walks(self) -> bool: ...
    @walks.setter
    def walks(self, walks: bool) -> None: ...
