from penstock.http.types cimport HttpC

cdef void step_end(HttpC* conn, int end) noexcept nogil
cdef void step_tell(HttpC* conn, int need) noexcept nogil
cdef void step_deadline(HttpC* conn) noexcept nogil
cdef bint step(HttpC* conn, int event) noexcept nogil
cdef bint step_wants(const HttpC* conn) noexcept nogil
