cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from penstock.core.types cimport HistogramC, LoopC, ProbesC, SlowC

cdef void histogram_add(HistogramC* histogram, int64_t value) noexcept nogil
cdef void probes_init(ProbesC* probes, int64_t now_ns) noexcept nogil
cdef void probes_ran(LoopC* loop, PyObject* handler, int fd) noexcept
cdef void probes_mark_native(ProbesC* probes, int64_t now_ns) noexcept nogil
cdef void probes_turn(LoopC* loop, int64_t end_ns) noexcept nogil
cdef void probes_close(LoopC* loop, int64_t end_ns) noexcept
cdef void probes_free(ProbesC* probes) noexcept

cdef tuple buckets_of(HistogramC histogram)

@cython.final
cdef class Histogram:
    cdef HistogramC c
