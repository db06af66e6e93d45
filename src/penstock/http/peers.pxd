cimport cython

from penstock.http.types cimport AddressC, TrustC

cdef enum:
    PROXY_BAD = -1          # this is no PROXY header, or one that cannot be believed
    PROXY_MORE = 0          # it is not complete

# Whether an address lies in one of the networks.
cdef bint trust_has(const TrustC* trust, const AddressC* address) noexcept nogil
# Reads a PROXY header from the first bytes of a connection: its size, PROXY_MORE or PROXY_BAD. `source` is ADDRESS_NONE if
# it announces nobody, and the connection's own peer counts.
cdef Py_ssize_t proxy_read(const char* data, size_t size, AddressC* source) noexcept nogil

cdef TrustC* trust_of(object trust) except NULL

@cython.final
cdef class Trust:
    cdef TrustC c
    cdef readonly tuple networks
