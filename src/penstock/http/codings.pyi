from collections.abc import Sequence

NAMES: tuple[str, ...]
SUFFIXES: tuple[str, ...]

def choose_coding(accept: Sequence[bytes], there: Sequence[str] = ...) -> str | None: ...
