# Declarations of the system's calendar, which nothing below http/ needs.
from libc.stdint cimport int64_t

cdef extern from "time.h" nogil:
    ctypedef int64_t time_t
    struct tm:
        int tm_sec
        int tm_min
        int tm_hour
        int tm_mday
        int tm_mon
        int tm_year
        long tm_gmtoff
    tm* localtime_r(const time_t* when, tm* out)
