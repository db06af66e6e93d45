# cython: language_level=3
"""A request's head made by hand: as the parser would leave it, for those who ask without a connection.

Nothing is checked but the sizes: who makes a head by hand says what is in it. This file must not know the parser.
"""

import cython
from cython.cimports.libc.stdint import uint16_t
from cython.cimports.libc.string import memset
from cython.cimports.penstock.http.types import FIELD_OTHER, METHOD_OTHER, TARGET_ORIGIN, HeadC

from penstock import limits
from penstock.errors import UsageError
from penstock.http.words import FIELDS, METHODS

KNOWN = {name: number for number, name in enumerate(FIELDS) if name}
NUMBERS = {name: number for number, name in enumerate(METHODS) if name}


class Made:
    """A head with its bytes."""

    def __init__(self, method: bytes, path: bytes, query: bytes, fields: list):
        pieces = [method, b" ", path, b"?", query, b"\r\n"]
        for name, value in fields:
            pieces += (name, b": ", value, b"\r\n")
        self.kept = b"".join(pieces)
        if len(self.kept) > limits.HTTP_HEAD_LIMIT_BYTES:
            raise UsageError(f"the request has {len(self.kept):,} bytes; give at most {limits.HTTP_HEAD_LIMIT_BYTES:,}")
        if len(fields) > limits.HTTP_FIELDS_MAX:
            raise UsageError(f"the request has {len(fields)} fields; give at most {limits.HTTP_FIELDS_MAX}")
        self.text = self.kept
        memset(cython.address(self.head), 0, cython.sizeof(HeadC))
        self.head.method = NUMBERS.get(method, METHOD_OTHER)
        self.head.minor = 1
        self.head.form = TARGET_ORIGIN
        self.head.path.start = len(method) + 1
        self.head.path.size = len(path)
        self.head.query.start = len(method) + len(path) + 2
        self.head.query.size = len(query)
        place: uint16_t = len(method) + len(path) + len(query) + 4
        i: cython.int
        for i in range(len(fields)):
            name, value = fields[i]
            known: cython.int = KNOWN.get(name.lower(), FIELD_OTHER)
            self.head.fields[i].known = known
            self.head.fields[i].name.start = place
            self.head.fields[i].name.size = len(name)
            self.head.fields[i].value.start = place + len(name) + 2
            self.head.fields[i].value.size = len(value)
            place += len(name) + len(value) + 4
            self.head.again[known] += 1
            if self.head.first[known] == 0:
                self.head.first[known] = i + 1
        self.head.field_count = len(fields)
