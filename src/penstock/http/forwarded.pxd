from penstock.http.types cimport HeadC, TrustC, ViaC

# Whether a head has any field that says for whom a proxy asks.
cdef bint forwarded_is(const HeadC* head) noexcept nogil
# Reads those fields of a request that came from a trusted peer. False: some could not be understood.
cdef bint forwarded_read(const TrustC* trust, const HeadC* head, const char* bytes, ViaC* via) noexcept nogil
