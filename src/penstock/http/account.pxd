from libc.stdint cimport int64_t

from penstock.http.types cimport HeadC, HttpC

cdef void account_answer(HttpC* conn, const HeadC* head, const char* bytes, int status, int64_t size) noexcept nogil
cdef void account_end(HttpC* conn) noexcept nogil
cdef void account_peer(HttpC* conn) noexcept nogil
