from libc.stdint cimport int64_t, uint32_t

from penstock.http.types cimport AnswerC, EngineC, EntryC, HeadC, HttpC, SourceC
from cpython.ref cimport PyObject

cdef int output_open(EngineC* engine) noexcept nogil
cdef void output_close(EngineC* engine) noexcept nogil
cdef int output_put(HttpC* conn, const char* data, size_t size) noexcept nogil
cdef bint output_flush(HttpC* conn, bint more) noexcept nogil
cdef int output_fields(HttpC* conn, bint asked_to_stay) noexcept nogil
cdef int output_plain(HttpC* conn, int status, const char* reason, bint bodiless) noexcept nogil
cdef int64_t output_answer(HttpC* conn, const HeadC* head) noexcept nogil
cdef SourceC* source_add(HttpC* conn, int64_t size) noexcept nogil
cdef int sources_send(HttpC* conn) noexcept nogil
cdef void sources_drop(HttpC* conn) noexcept nogil
cdef int64_t sources_left(const HttpC* conn) noexcept nogil
