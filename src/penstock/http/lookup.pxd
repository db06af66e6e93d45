from libc.stdint cimport int64_t

from penstock.http.types cimport AnswerC, FilesC, HeadC

# Answer. If that is for Python to do, files.slow says what it is, and the answer may still hold an entry.
cdef void lookup_answer(
    FilesC* files, int64_t now_ns, const HeadC* head, const char* bytes, AnswerC* answer
) noexcept nogil
