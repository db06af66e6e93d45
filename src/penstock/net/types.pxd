# Every C structure of streams and listeners, nothing else. What is touched without the GIL lives here.
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from penstock.core.types cimport LoopC

cdef enum:                  # why a stream ended; the words are in stream.py
    END_CLOSED = 0
    END_EOF = 1
    END_ABORTED = 2
    END_SLOW_PEER = 3
    END_TOTAL = 4
    END_IDLE = 5
    END_DEADLINE = 6
    END_LINGER = 7
    END_RESET = 8
    END_ERROR = 9
    END_HANDLER = 10
    END_EVICTED = 11
    END_LOOP = 12
    END_CONNECT = 13
    END_COUNT = 14

# ---- buffer.py -------------------------------------------------------------------------------------------------------

cdef struct TotalC:         # the sum over all write buffers of the process, and its limit
    int64_t bytes
    int64_t limit_bytes
    int64_t high_water

cdef struct BufferC:        # what waits to be sent: data[start:end]
    char* data
    size_t capacity
    size_t start
    size_t end
    TotalC* total

# ---- pool.py ---------------------------------------------------------------------------------------------------------

cdef struct PoolC:          # one stretch of memory that is filled from the front, and empty again after each batch
    char* data
    size_t capacity
    size_t used
    uint32_t lent           # pieces that are not given back yet
    uint64_t exhausted      # how often there was no room
    size_t high_water

# ---- shared.py -------------------------------------------------------------------------------------------------------

cdef struct NetC:           # what the streams of one loop share
    PoolC pool
    uint64_t opened
    uint64_t closed
    uint64_t received_bytes
    uint64_t sent_bytes
    uint64_t receives
    uint64_t sends
    uint64_t short_sends
    uint64_t unsent_bytes   # accepted by write, and dropped by an end without delivery
    uint64_t unread_bytes   # received, and dropped because the stream ended
    uint64_t late_writes    # writes to a stream that had ended or was closing
    uint64_t dropped_writes # ... that a full buffer dropped
    uint64_t rejected_writes
    uint64_t accepted
    uint64_t refused
    uint64_t evicted
    uint64_t starved        # accept calls that failed for want of descriptors or memory
    uint64_t ends[END_COUNT]

# ---- transfer.py -----------------------------------------------------------------------------------------------------

cdef enum:                  # what a stream is; it only ever moves down this list
    STREAM_CONNECTING = 0   # waits to be connected
    STREAM_OPEN = 1
    STREAM_CLOSING = 2      # what is buffered is still being sent; nothing is read or accepted any more
    STREAM_OVER = 3         # only the end is left to be told
    STREAM_CLOSED = 4       # the descriptor is closed

cdef enum:                  # what a stream has for Python
    TELL_CONNECTED = 1
    TELL_DATA = 2
    TELL_DRAIN = 4
    TELL_EOF = 8
    TELL_OVER = 16
    TELL_NATIVE = 32        # what a protocol in C has for its own half with the GIL

cdef enum:                  # what a pull hook answers
    PULL_DONE = 0           # there is no more for now
    PULL_BLOCKED = 1        # the socket takes no more
    PULL_MORE = 2           # there is more, but this turn's share is used

cdef struct StreamC

# A protocol in C: what it is called for instead of the program's callbacks. Any may be NULL.
ctypedef bint (*stream_data_t)(StreamC* stream, const char* data, size_t size, void* context) noexcept nogil
ctypedef bint (*stream_eof_t)(StreamC* stream, void* context) noexcept nogil
ctypedef int (*stream_pull_t)(StreamC* stream, void* context) noexcept nogil
ctypedef bint (*stream_expired_t)(StreamC* stream, void* context) noexcept nogil
ctypedef int (*stream_tell_t)(StreamC* stream, int what, void* context) except -1
ctypedef int (*stream_closed_t)(StreamC* stream, void* context) except -1

cdef struct StreamHooksC:
    stream_data_t data      # something was received. True: it has taken the data; False: Python gets it
    stream_eof_t eof        # the peer has ended its half, after all data. True: the stream goes on
    stream_pull_t pull      # the write buffer is empty, and the stream was asked to pull: send more
    stream_expired_t expired    # the deadline has passed. True: it has set another one, or ended the stream
    stream_tell_t tell      # with the GIL: TELL_NATIVE, or TELL_DRAIN when a congested buffer has emptied
    stream_closed_t closed  # with the GIL: the last call, before on_close

cdef struct StreamC:
    LoopC* loop
    NetC* net
    PyObject* owner         # borrowed: the object that this structure lives in
    int fd
    uint8_t state           # STREAM_...
    uint8_t tell            # TELL_...
    uint8_t end             # END_...
    bint edge
    bint paused             # the program wants nothing to read
    bint held               # received data waits in the object until it is resumed
    bint quiet              # its read interest is dropped, because data waits that nobody wants
    bint dispatching        # its callbacks run: an end is told when they have returned
    bint unread             # an edge said readable, and it was not read until it would block
    bint eof                # the peer has ended its half
    bint ended              # our half is ended, or will be when the buffer is empty
    bint parked             # taken out of the poller: hung up, and nobody reads
    bint congested          # a write has said stop, on_drain is owed
    bint expired            # the timer wants to be looked at
    bint reset              # end with a reset instead of an orderly end
    bint pulling            # the pull hook has more to send
    bint busy               # a protocol is in the middle of something: do not evict
    int error               # errno that ended it; 0: none
    char* chunk             # received, lent by the pool
    size_t chunk_bytes
    BufferC out
    size_t high_bytes
    size_t low_bytes
    size_t cap_bytes
    size_t share_bytes
    uint32_t share_operations
    int overflow            # FULL_...
    uint64_t timer          # its only one; 0: none
    int64_t idle_ns         # 0: none
    int64_t active_ns       # the last byte in either direction
    int64_t deadline_ns     # INT64_MAX: none; while it connects, that of the connection
    int64_t after_ns        # the deadline once it is connected
    int64_t linger_ns       # when closing ends; INT64_MAX: not closing
    uint64_t received_bytes
    uint64_t sent_bytes
    const StreamHooksC* hooks   # NULL: the program's callbacks are all there is
    void* context           # of the hooks

cdef enum:                  # what a full write buffer does
    FULL_CLOSE = 0
    FULL_REJECT = 1
    FULL_DROP_NEWEST = 2

cdef enum:                  # what became of a write
    WRITE_TAKEN = 0
    WRITE_STOP = 1          # taken, and the program should wait for on_drain
    WRITE_LATE = 2          # the stream is closing or over
    WRITE_ENDED = 3         # the program has ended its half before
    WRITE_OVER_CAP = 4      # not taken: the buffer's cap
    WRITE_OVER_TOTAL = 5    # not taken: the cap of all buffers
