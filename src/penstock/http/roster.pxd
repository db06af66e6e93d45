from penstock.http.types cimport EngineC, HttpC

# Puts a connection behind all others of its engine, or takes it out.
cdef void roster_add(HttpC* conn) noexcept nogil
cdef void roster_drop(HttpC* conn) noexcept nogil
# A table of connections by address for an engine: -1 if there is no memory.
cdef int roster_open(EngineC* engine) noexcept nogil
cdef void roster_close(EngineC* engine) noexcept nogil
# Counts a connection among those of its address. False: they are as many as may be.
cdef bint roster_count(HttpC* conn) noexcept nogil
cdef void roster_uncount(HttpC* conn) noexcept nogil
# Connections that rest, the first one is woken first.
cdef void roster_rest(HttpC* conn) noexcept nogil
cdef void roster_wake(HttpC* conn) noexcept nogil
