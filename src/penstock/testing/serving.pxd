cimport cython

from penstock.http.files cimport Files
from penstock.http.types cimport AnswerC

@cython.final
cdef class HeldAnswer:
    cdef AnswerC c
    cdef Files files
    cdef bint held
