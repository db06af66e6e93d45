from penstock.http.types cimport HeadC, HttpC

# A connection is made: whose it is, and whether it has to be announced. False: its address has as many as it may.
cdef bint arrival_begin(HttpC* conn) noexcept nogil
# Bytes of an announcement: how many of these belong to it; -1: all of them, and more must come, or the connection is over.
cdef Py_ssize_t arrival_bytes(HttpC* conn, const char* data, size_t size) noexcept nogil
# The peer has ended its half while something is to be announced.
cdef void arrival_eof(HttpC* conn) noexcept nogil
# A head is complete: for whom does it ask?
cdef void arrival_request(HttpC* conn, const HeadC* head, const char* bytes) noexcept nogil
# A connection is over.
cdef void arrival_over(HttpC* conn) noexcept nogil
