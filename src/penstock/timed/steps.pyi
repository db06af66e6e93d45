from typing import Final

from penstock.timed.memory import Memory

BUSY: Final[int]
WAIT: Final[int]
IDLE: Final[int]
DONE: Final[int]
HOW: Final[tuple[str, ...]]

class Steps(Memory): ...
