from typing import Final

METHODS: Final[tuple[bytes, ...]]
FIELDS: Final[tuple[bytes, ...]]
DIGITS: Final[bytes]
LETTERS: Final[bytes]
UNRESERVED: Final[bytes]
SUB_DELIMITERS: Final[bytes]
LENIENT: Final[bytes]
