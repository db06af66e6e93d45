cimport cython

from penstock.http.types cimport LogC, LogLineC

# Put a line into the ring, from where the writer's thread takes it; if there is no room it is dropped and counted.
cdef void log_line(LogC* log, const LogLineC* line) noexcept nogil

cdef LogC* log_of(object log) except NULL

@cython.final
cdef class Log:
    cdef LogC c
    cdef object thread
    cdef readonly object target
    cdef bint closed
    cdef bint foreign(self)
