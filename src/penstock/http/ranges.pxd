from libc.stdint cimport int64_t

from penstock.http.files_system cimport text_t
from penstock.http.types cimport RangesC

cdef enum:
    RANGE_IGNORED = 0   # the whole content is to be sent
    RANGE_SOME = 1      # the ranges that were written
    RANGE_NONE = 2      # 416

# Reads the value of a Range field for content of that many bytes.
cdef int ranges_parse(text_t text, unsigned int size, int64_t length, RangesC* ranges) noexcept nogil
