# cython: language_level=3
"""Asking a directory of files as a server in C does: many times in a row, to measure it, or holding on to an answer."""

import time

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.penstock.http.files import files_answer, files_of, files_release
from cython.cimports.penstock.http.handmade import Made
from cython.cimports.penstock.http.types import AnswerC, FilesC


def drive(files: object, made: Made, now_ns: int, rounds: int):
    """Answer the same request that many times at one instant, and return the CPU time it took in nanoseconds."""
    room: cython.pointer[FilesC] = files_of(files)
    answer: AnswerC
    count: int64_t = rounds
    now: int64_t = now_ns
    begin = time.process_time_ns()
    with cython.nogil:
        while count > 0:
            files_answer(room, now, cython.address(made.head), made.text, cython.address(answer))
            if answer.entry != cython.NULL:
                files_release(room, answer.entry)
            count -= 1
    return time.process_time_ns() - begin


class HeldAnswer:
    """An answer that is not sent yet: its content stays, whatever becomes of the file and of the cache."""

    def __init__(self, files: object, made: Made, now_ns: int):
        room: cython.pointer[FilesC] = files_of(files)
        self.files = files
        files_answer(room, now_ns, cython.address(made.head), made.text, cython.address(self.c))
        self.held = self.c.entry != cython.NULL

    def __dealloc__(self):
        if self.held:
            files_release(cython.address(self.files.c), self.c.entry)

    def give_back(self):
        """Give back what was borrowed."""
        if self.held:
            self.held = False
            files_release(cython.address(self.files.c), self.c.entry)

    @property
    def status(self):
        """The status."""
        return self.c.status

    @property
    def body(self):
        """The content in memory."""
        return self.c.body[: self.c.size] if self.c.body != cython.NULL else None

    @property
    def place(self):
        """The content in a file: descriptor, offset and size; the descriptor is lent."""
        return self.c.fd, self.c.offset, self.c.size
