cimport cython
from libc.stdint cimport int64_t

from penstock.http.types cimport AnswerC, EntryC, FilesC, HeadC

# Answer a GET or HEAD of a path beneath the root; `bytes` is where the head's spans point into. Sets every field of the answer.
cdef void files_answer(FilesC* files, int64_t now_ns, const HeadC* head, const char* bytes, AnswerC* answer) noexcept nogil
# Give back what an answer had borrowed.
cdef void files_release(FilesC* files, EntryC* entry) noexcept nogil

# The class: see files.pyi. `files_of` gives the structure inside an object, for as long as that lives.
# NULL: the object is none, and an exception is set.
cdef FilesC* files_of(object files) except? NULL

@cython.final
cdef class Files:
    cdef FilesC c
    cdef readonly str root
    cdef bytes root_bytes   # what the structure points to
    cdef bytes index_bytes
    cdef bytes kept_bytes
