from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.http.types cimport ShareC, SharesC

cdef int shares_init(SharesC* shares, uint32_t slots) noexcept nogil
cdef void shares_free(SharesC* shares) noexcept nogil
# The slot of an address, which counts as having asked now. Never NULL.
cdef ShareC* shares_of(SharesC* shares, uint64_t peer, int64_t now_ns) noexcept nogil
# Whether one more request would be more than the address's fair share, while others ask too.
cdef bint shares_heavy(const SharesC* shares, const ShareC* share) noexcept nogil
# Whether its requests take more than its fair share of so many places.
cdef bint shares_crowds(const SharesC* shares, const ShareC* share, uint32_t places) noexcept nogil
cdef void shares_wait(SharesC* shares, ShareC* share) noexcept nogil
cdef void shares_leave(SharesC* shares, ShareC* share) noexcept nogil
cdef void shares_charge(SharesC* shares, ShareC* share) noexcept nogil
cdef void shares_lose(SharesC* shares, ShareC* share) noexcept nogil
