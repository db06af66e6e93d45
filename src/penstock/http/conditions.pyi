from collections.abc import Sequence

def judge(
    fields: Sequence[tuple[bytes, bytes]],
    etag: bytes,
    modified_s: int,
    *,
    method: bytes = b"GET",
    exact: bool = True,
    length: int = 100,
) -> int | list[tuple[int, int]] | None: ...
