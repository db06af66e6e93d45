cimport cython

from penstock.http.types cimport HeadC

@cython.final
cdef class Made:
    cdef HeadC head
    cdef bytes kept
    cdef const char* text   # what the spans of the head point into
