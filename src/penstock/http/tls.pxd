cimport cython

from penstock.http.types cimport HttpC
from penstock.net.stream cimport Stream

@cython.final
cdef class Tls:
    cdef readonly object context
    cdef readonly object settings   # what the context is made from, so that it can be made again
    cdef readonly object handshakes
    cdef readonly object resumed
    cdef readonly object failed
    cdef readonly object reloads
    cdef readonly dict failures     # by the library's word for it

@cython.final
cdef class TlsHalf:
    cdef HttpC* conn                # NULL: the connection is over
    cdef Stream stream
    cdef Tls owner
    cdef object incoming            # what came and is not decrypted
    cdef object outgoing            # what is encrypted and not handed over
    cdef object session             # the library's object
    cdef bint open                  # the handshake is done
    cdef bint ended                 # our end is announced

    cdef int _shake(self) except -1
    cdef int _read(self) except -1
    cdef int _write(self, const char* data, size_t size) except -1
    cdef int _end(self) except -1
    cdef int _flush(self) except -1
    cdef int _fail(self, object error) except -1
