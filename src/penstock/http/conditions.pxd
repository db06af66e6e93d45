from libc.stdint cimport int64_t

from penstock.http.files_system cimport text_t
from penstock.http.types cimport HeadC, RangesC

cdef enum:
    CONDITION_MET = 0       # the request is to be answered as if it had none
    CONDITION_SAME = 1      # 304
    CONDITION_FAILED = 2    # 412

cdef struct ValidatorsC:    # of the representation that was chosen
    const char* etag
    unsigned int etag_size
    int64_t modified_s      # as Last-Modified says
    bint exact              # nothing else can have had that date: it may be compared as strongly as an ETag
    int64_t now_s           # the calendar's present

cdef bint head_has_conditions(const HeadC* head) noexcept nogil
cdef int conditions_judge(const HeadC* head, const char* bytes, const ValidatorsC* validators) noexcept nogil
# RANGE_...: what the Range field asks for, if If-Range lets it.
cdef int conditions_range(
    const HeadC* head, const char* bytes, const ValidatorsC* validators, int64_t length, RangesC* ranges
) noexcept nogil
