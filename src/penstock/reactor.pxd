cimport cython
from penstock.core.loop cimport Loop

cdef class Reactor:
    cdef readonly Loop loop
    cdef object __weakref__
