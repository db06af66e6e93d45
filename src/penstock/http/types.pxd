# Every C structure of the HTTP server, nothing else. What is touched without the GIL lives here.
#
# Room by room: a structure only reaches upwards in this file, the parser knows no file, a file no connection.
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from penstock.core.system cimport pthread_cond_t, pthread_mutex_t
from penstock.core.types cimport LoopC
from penstock.net.types cimport StreamC

cdef struct HttpC
cdef struct EngineC
cdef struct FilesC           # files.py
cdef struct LogC             # log.py
cdef struct AdmissionC       # admission.py
cdef struct ShareC           # shares.py

# ---- words -----------------------------------------------------------------------------------------------------------

cdef enum:
    METHOD_OTHER = 0
    METHOD_GET = 1
    METHOD_HEAD = 2
    METHOD_POST = 3
    METHOD_PUT = 4
    METHOD_DELETE = 5
    METHOD_OPTIONS = 6
    METHOD_PATCH = 7
    METHOD_TRACE = 8
    METHOD_CONNECT = 9
    METHOD_COUNT = 10

cdef enum:                  # header fields that the server itself understands
    FIELD_OTHER = 0
    FIELD_HOST = 1
    FIELD_CONNECTION = 2
    FIELD_CONTENT_LENGTH = 3
    FIELD_TRANSFER_ENCODING = 4
    FIELD_EXPECT = 5
    FIELD_UPGRADE = 6
    FIELD_IF_MATCH = 7
    FIELD_IF_NONE_MATCH = 8
    FIELD_IF_MODIFIED_SINCE = 9
    FIELD_IF_UNMODIFIED_SINCE = 10
    FIELD_IF_RANGE = 11
    FIELD_RANGE = 12
    FIELD_ACCEPT_ENCODING = 13
    FIELD_USER_AGENT = 14
    FIELD_REFERER = 15
    FIELD_CONTENT_TYPE = 16
    FIELD_X_FORWARDED_FOR = 17
    FIELD_X_FORWARDED_PROTO = 18
    FIELD_FORWARDED = 19
    FIELD_COUNT = 20

cdef enum:
    TARGET_ORIGIN = 0       # /path?query
    TARGET_ABSOLUTE = 1     # http://host/path?query
    TARGET_ASTERISK = 2     # *
    TARGET_AUTHORITY = 3    # host:port, of CONNECT

cdef enum:
    HEAD_FIELDS_MAX = 100   # the same number as limits.HTTP_FIELDS_MAX; head.py compares them when it is imported

# ---- head.py ---------------------------------------------------------------------------------------------------------

cdef enum:
    HEAD_MORE = 0           # not complete yet
    HEAD_DONE = 1
    HEAD_BAD = 2            # `status` and `reason` say why

cdef struct SpanC:          # a part of the head's bytes; a head has at most 65,535
    uint16_t start
    uint16_t size

cdef struct FieldC:
    SpanC name
    SpanC value             # without the white space around it
    uint16_t known          # FIELD_...

cdef struct HeadLimitsC:
    uint32_t line_max       # bytes of the request line: more is 414
    uint32_t head_max       # bytes of the whole head: more is 431
    uint32_t fields_max     # at most HEAD_FIELDS_MAX: more is 431

cdef struct HeadC:          # a request's head while it is parsed, and when it is
    uint32_t scanned        # bytes that were looked at, and never are again
    uint32_t line           # where the line begins that is not complete yet
    uint32_t size           # of the whole head with its empty line, when it is done
    uint8_t stage           # 0: the request line is next, 1: fields, 2: it is done
    uint8_t method          # METHOD_...
    uint8_t minor           # HTTP/1.minor
    uint8_t form            # TARGET_...
    uint8_t host_count
    uint8_t closing         # `Connection: close` was there
    bint keep_alive         # after this request, as far as the client is concerned
    bint expect_continue
    bint chunked
    bint has_length
    uint16_t status         # 0, or what to refuse the request with
    const char* reason      # a sentence for that, static
    uint64_t length         # Content-Length
    SpanC method_text
    SpanC target            # as it came
    SpanC path              # of it: before the query, after the authority; "/" if that is empty; of "*" and CONNECT: size 0
    SpanC query             # without the question mark; size 0: none
    SpanC host              # the authority that counts: of the target if it has one, else of the field
    uint8_t first[FIELD_COUNT]  # 1 + the index of the first field of that name; 0: there is none
    uint8_t again[FIELD_COUNT]  # how often it came
    uint16_t field_count
    FieldC fields[HEAD_FIELDS_MAX]

# ---- body.py ---------------------------------------------------------------------------------------------------------

cdef enum:
    BODY_NONE = 0           # kinds
    BODY_LENGTH = 1
    BODY_CHUNKED = 2

cdef enum:                  # what body_feed says
    BODY_MORE = 0           # all bytes are used, more must come
    BODY_PIECE = 1          # a piece of the content
    BODY_DONE = 2           # the body is complete; what is left of the bytes belongs to the next request
    BODY_BAD = 3            # `status` and `reason` say why

cdef struct BodyLimitsC:
    uint64_t body_max       # bytes of content: more is 413
    uint32_t chunk_line_max # bytes of a chunk's size line with its extensions
    uint32_t trailer_max    # bytes of all trailer fields

cdef struct BodyC:
    uint8_t kind
    uint8_t stage           # of the chunked coding
    uint16_t status
    uint32_t line_bytes     # of the line that is being read
    uint32_t trailer_bytes  # of the trailer section with the empty line at its end
    uint32_t excess         # bytes of size lines that content did not make up for
    uint64_t left           # of the content, or of the chunk
    uint64_t received       # content so far
    const char* reason

# ---- cache.py, files.py ----------------------------------------------------------------------------------------------

cdef enum:
    ENTRY_FILE = 0          # content in memory
    ENTRY_LARGE = 1         # content to be sent from `fd`

cdef enum:                  # content codings of precompressed neighbours, in the order of preference; codings.py
    CODING_BR = 0
    CODING_ZSTD = 1
    CODING_GZIP = 2
    CODING_COUNT = 3
    CODING_NONE = 3         # the file as it is

cdef enum:
    ETAG_MAX_BYTES = 64
    DATE_BYTES = 29         # Sun, 06 Nov 1994 08:49:37 GMT
    FILE_PATH_BYTES = 4096  # at least limits.HTTP_PATH_MAX_BYTES and two names; files.py compares them when it is imported
    RANGES_MAX = 16         # the same number as limits.HTTP_RANGES_MAX; ranges.py compares them when it is imported

cdef enum:                  # why there was no 200, 206 or 304; the words are in files.py
    DENY_MALFORMED = 0      # no path at all, or one that nobody writes in good faith
    DENY_METHOD = 1
    DENY_LONG = 2           # a name or a path that no file can have
    DENY_HIDDEN = 3         # a dot file
    DENY_OUTSIDE = 4        # a link that leads out of the root
    DENY_SPECIAL = 5        # neither a regular file nor a directory
    DENY_FORBIDDEN = 6      # the system does not let us read it
    DENY_ABSENT = 7
    DENY_BUSY = 8           # no descriptor or no memory is left
    DENY_CONDITION = 9      # 412
    DENY_RANGE = 10         # 416
    DENY_CODING = 11        # 406
    DENY_COUNT = 12

cdef enum:                  # what is to be done the long way
    SLOW_NOTHING = 0
    SLOW_LISTING = 1
    SLOW_RANGES = 2
    SLOW_REDIRECT = 3       # to a place whose name does not fit into AnswerC

cdef struct EntryC:         # what is known of one path beneath the root; counted, so that it outlives its place in the cache
    EntryC* chain           # the next one of the same slot of the table
    EntryC* newer           # the order of use
    EntryC* older
    uint32_t refs           # the cache's own, and one for each answer that uses it
    uint32_t hash
    uint8_t kind
    uint8_t coding          # CODING_...
    uint8_t neighbours      # a bit for each coding in which the file is there as well
    bint cached
    bint settled            # had not changed for a while when it was read: its time and size tell whether it changes
    char* key               # the resolved path with a coding behind it, as files.py looks it up; what follows lies behind it
    uint32_t key_size
    int fd                  # -1: none
    uint64_t device
    uint64_t inode
    int64_t size
    int64_t modified_ns
    int64_t modified_s      # what Last-Modified says: never in the future
    int64_t checked_ns      # when the file was last looked at
    char* body              # of ENTRY_FILE
    char* head              # "HTTP/1.1 200 OK" and all fields that depend on the file only, each with its CRLF, no empty line
    uint32_t head_size
    uint32_t head_fields    # where in it the fields begin that a 206 has too
    uint32_t head_kept      # ... and of those the ones that a 304 has too
    uint32_t weight         # bytes of memory, as the cache counts them
    uint32_t etag_size
    char etag[ETAG_MAX_BYTES]   # with its quotes

cdef struct CacheC:
    EntryC** slots
    uint32_t mask           # slots less one
    uint32_t entries
    uint32_t entries_max
    uint32_t open_files     # entries with a descriptor
    uint32_t open_max
    uint32_t leaving        # of the open ones, those that are evicted
    uint64_t bytes
    uint64_t bytes_max
    uint64_t evicted
    EntryC* newest
    EntryC* oldest

cdef struct RangesC:        # what a Range field asks for, clipped to the content and merged
    int count
    int64_t first[RANGES_MAX]
    int64_t last[RANGES_MAX]

cdef struct FilesC:         # one directory as one loop serves it
    int root                # -1: it is not there, or everything is over
    bint walks              # the kernel has no openat2: component by component
    bint listing
    bint dotfiles
    bint precompressed
    bint closed
    uint8_t slow            # SLOW_...: what the last answer asked to be done the long way
    char* root_path
    char* index             # the name of an index file; empty: none
    char* kept              # fields that every answer with content has: Cache-Control
    int64_t expires_s       # ... and from now until when, for Expires; -1: that is not told
    uint64_t root_device
    uint64_t root_inode
    int64_t root_checked_ns
    uint64_t hits           # answered without asking the system
    uint64_t misses         # read
    uint64_t revalidated    # looked at, and unchanged
    uint64_t denied[DENY_COUNT]
    CacheC cache
    RangesC ranges          # of the last answer
    uint32_t path_size
    char path[FILE_PATH_BYTES]  # the one being answered: resolved, without its first slash
    char name[FILE_PATH_BYTES]  # of the file that is opened for it

# What a request is answered with. The engine adds Date, Server, Connection and the empty line, sends the content unless
# the method is HEAD, and releases the entry.
cdef enum:
    ANSWER_HEAD_BYTES = 1024

cdef struct AnswerC:
    uint16_t status
    bint python             # nothing below counts: the long way is asked for, files.slow(request)
    bint close              # the connection cannot go on after this
    EntryC* entry           # borrowed from the cache with a count of its own; NULL: none
    const char* shared      # the head: of the entry (status line and fields, no empty line) ...
    uint32_t shared_size
    uint32_t head_size      # ... or, if `shared` is NULL, made here
    char head[ANSWER_HEAD_BYTES]
    const char* body        # content in memory, of the entry or static; NULL: none
    int fd                  # content in a file, of the entry; -1: none
    int64_t offset          # where it begins in the file
    int64_t size            # of the content

# ---- admission.py ----------------------------------------------------------------------------------------------------

cdef enum:                  # why a request was not taken into work, or was given up; the words are in admission.py
    REFUSE_NONE = 0
    REFUSE_FULL = 1         # as many wait as may
    REFUSE_LATE = 2         # older than its deadline
    REFUSE_SHARE = 3        # its address has more than its fair share
    REFUSE_GONE = 4         # its peer has reset the connection: nobody to tell
    REFUSE_DRAIN = 5        # the server is leaving
    REFUSE_COUNT = 6

cdef struct WorkC:          # a request that waits for, or is in, Python's hands; lives in the engine's request
    WorkC* older            # in the queue
    WorkC* newer
    int64_t arrival_ns      # when the request had arrived, as far as that is known
    int64_t started_ns
    uint64_t peer           # a hash of its address
    ShareC* share           # of its address, while it waits
    uint8_t lane            # WAIT_..., while it waits
    bint reserved           # a health check: has a place of its own
    bint queued
    bint running
    void* owner             # the engine's

cdef struct ShareC:         # what one address has had lately (shares.py)
    uint64_t peer           # 0: the slot is free
    uint64_t used           # requests begun, times SHARE_UNIT, fading with time
    uint64_t gone           # requests whose peer went away while they waited, in the same way
    int64_t epoch           # when these were last brought up to date
    int64_t seen            # the epoch of its last request
    uint32_t waiting        # requests in the queue; a slot with one is not given to somebody else

cdef enum:
    SHARE_UNIT = 1024
    SHARE_EPOCHS = 8        # an address that asked within so many epochs counts as active
    SHARE_WAYS = 4          # slots in which an address may be

cdef struct SharesC:        # a bounded table of addresses (shares.py)
    ShareC* slots
    uint32_t mask           # slots - 1
    int64_t epoch
    uint64_t used           # by all
    uint32_t waiting        # requests of all
    uint32_t contenders     # addresses with requests that wait
    uint32_t active         # addresses that asked lately
    uint32_t fresh[SHARE_EPOCHS]    # of them, by the epoch of their last request
    uint64_t evicted
    uint64_t shared         # requests that had to share the slot of another address

cdef struct PaceC:          # how fast requests are worked off, and how many at once (pace.py)
    uint32_t most           # the limit never exceeds this
    uint32_t limit          # of requests in work, now
    uint32_t in_work
    uint32_t in_work_peak
    bint backlog            # more waited when the last one was done
    int64_t mark_ns         # when that was
    int64_t interval_ns     # smoothed time from one end of work to the next while more waits; 0: not known
    int64_t window_ns       # when the present window began
    uint32_t window_count   # requests done in it
    int64_t window_took_ns  # the time they took in all
    bint window_full        # the limit was reached in it, and more waited
    int64_t base_ns         # how long a request takes when few are in work
    uint32_t trial_limit    # the limit and the mean of when it was first lowered; 0: it is not being lowered
    int64_t trial_ns
    uint64_t raised
    uint64_t lowered

cdef enum:                  # the queues of admission.py, in the order in which they are served
    WAIT_RESERVED = 0       # health checks
    WAIT_LIGHT = 1          # addresses that have had less than their share
    WAIT_HEAVY = 2          # addresses that have had more
    WAIT_COUNT = 3

cdef enum:
    AGE_BUCKETS = 24        # of the histogram: below 1 us, 2 us, 4 us, ... and the last one for all above

cdef struct WaitC:          # one queue, oldest to newest, and whether it stands
    WorkC* oldest
    WorkC* newest
    uint32_t count
    bint standing           # nobody has begun young for a while
    int64_t above_ns        # since when the oldest is too old at every look; 0: it is not
    int64_t looked_ns       # the last look
    int64_t window_ns       # when the present window of a standing queue began
    int64_t least_ns        # least age of its oldest in that window
    uint32_t window_begun
    uint32_t window_refused
    uint64_t stood          # how often it began to stand

cdef struct AdmissionC:
    WaitC waits[WAIT_COUNT]
    SharesC shares
    PaceC pace
    uint32_t queue_max
    uint32_t waiting        # in all queues
    uint32_t waiting_peak
    uint32_t reserved_in_work
    int64_t deadline_ns
    int64_t interval_ns     # of the detection of overload
    int64_t target_ns
    int64_t reserved_tokens_ns  # a bucket: each reserved request takes a piece of time out of it
    int64_t reserved_since_ns
    bint draining
    int64_t drain_ns        # when what still waits is given up
    int64_t load_ns         # when the present window of the load began, and what was done in it and in the one before
    uint32_t load_refused[2]
    int64_t load_worked_ns[2]
    uint64_t offered
    uint64_t begun
    uint64_t begun_reserved
    uint64_t done
    uint64_t refused[REFUSE_COUNT]
    uint64_t throttles      # how often reading less was advised
    uint64_t ages[AGE_BUCKETS]  # of requests when they were begun

# ---- log.py ----------------------------------------------------------------------------------------------------------

cdef struct LogLineC:       # what one request leaves behind; the texts are the caller's, valid during the call
    const char* peer
    uint32_t peer_size
    const char* method
    uint32_t method_size
    const char* target
    uint32_t target_size
    const char* referer
    uint32_t referer_size
    const char* agent
    uint32_t agent_size
    uint8_t minor
    uint16_t status
    uint64_t sent_bytes     # of the content
    int64_t wall_ns         # the calendar's time of its end, since 1970
    int64_t took_ns         # from its arrival to the last byte handed to the system

cdef enum:                  # what a part of a log's format stands for (lines.py)
    PART_LITERAL = 0
    PART_PEER = 1
    PART_METHOD = 2
    PART_TARGET = 3
    PART_PATH = 4
    PART_QUERY = 5
    PART_REFERER = 6
    PART_AGENT = 7
    PART_VERSION = 8
    PART_STATUS = 9
    PART_BYTES = 10
    PART_TIME = 11          # 10/Oct/2000:13:55:36 +0200
    PART_ISO_TIME = 12      # 2000-10-10T13:55:36.123+02:00
    PART_UNIX = 13          # seconds since 1970 with milliseconds
    PART_TOOK_US = 14
    PART_TOOK_S = 15        # with microseconds

cdef enum:                  # how a text is kept from being more than a text
    ESCAPE_QUOTED = 0       # between double quotes: \xHH
    ESCAPE_BARE = 1         # not between quotes: spaces too
    ESCAPE_JSON = 2

cdef struct PartC:
    uint8_t kind            # PART_...
    uint8_t escape          # ESCAPE_...
    uint32_t start          # of a literal, in the format's text
    uint32_t size

cdef struct FormatC:        # how a line looks (lines.py)
    PartC* parts
    uint32_t count
    char* literals
    uint32_t field_max      # bytes of one text in a line, escaped
    uint32_t line_max       # bytes of the longest line that this format can make
    bint query              # queries are logged
    int64_t second          # the second that the texts below are for
    char local[32]
    uint32_t local_size
    char iso[24]            # without the fraction and the offset
    char offset[8]          # +02:00

cdef struct LogC:
    pthread_mutex_t lock
    pthread_cond_t wake     # the writer waits for lines
    pthread_cond_t written  # somebody waits for the writer
    bint ready              # lock, conditions and memory exist
    uint32_t forks          # in which process
    FormatC format
    char* data              # the ring
    uint64_t capacity
    uint64_t head           # bytes put in, ever
    uint64_t tail           # bytes taken out, ever
    char* scratch           # the line that is being made
    bint idle               # the writer waits for a first line
    bint gathering          # the writer waits for more lines
    bint stopping
    bint reopening
    uint64_t reopen_at      # what was put in before that goes to the old file
    bint hurry              # somebody waits for what is in the ring
    bint torn               # the last thing in the file is a part of a line
    int fd
    int error               # of the last write; 0: it went well
    uint32_t sample         # one line of so many is logged
    uint32_t skipped_row
    uint64_t lines
    uint64_t skipped
    uint64_t dropped
    uint64_t written_bytes
    uint64_t errors
    uint64_t reopened
    uint64_t reopen_errors

# ---- peers.py --------------------------------------------------------------------------------------------------------

cdef enum:                  # what an address is
    ADDRESS_NONE = 0        # it is not known
    ADDRESS_INTERNET = 1
    ADDRESS_LOCAL = 2       # a Unix socket

cdef enum:
    TRUSTED_MAX = 64        # the same number as limits.HTTP_TRUSTED_MAX; peers.py compares them when it is imported
    ADDRESS_TEXT_BYTES = 46

cdef struct AddressC:
    uint8_t kind            # ADDRESS_...
    uint8_t bytes[16]       # IPv4 as ::ffff:a.b.c.d

cdef struct NetworkC:
    uint8_t bytes[16]
    uint8_t bits            # of them that count

cdef struct TrustC:         # whose word about other addresses counts
    bint local              # peers on Unix sockets
    uint32_t count
    NetworkC networks[TRUSTED_MAX]

# ---- forwarded.py ----------------------------------------------------------------------------------------------------

cdef enum:
    SCHEME_OWN = 0          # nobody has said anything else
    SCHEME_HTTP = 1
    SCHEME_HTTPS = 2

cdef struct ViaC:           # what trusted proxies say of the request that a connection has
    AddressC client         # ADDRESS_NONE: nothing
    uint8_t scheme          # SCHEME_...
    uint8_t size            # of the text
    char text[ADDRESS_TEXT_BYTES]
    uint64_t hash

# ---- connection.py ---------------------------------------------------------------------------------------------------

cdef enum:                  # the states of a connection; the table is in connection.py
    STATE_FRESH = 0         # connected, nothing received
    STATE_HEAD = 1          # a part of a head is there
    STATE_BODY = 2          # a head is complete, its content is being received
    STATE_QUEUED = 3        # a request waits for Python
    STATE_WORKING = 4       # Python has it
    STATE_SENDING = 5       # the peer does not take an answer as fast as it is made
    STATE_IDLE = 6          # between two requests
    STATE_LINGER = 7        # answered for the last time; what still comes is thrown away
    STATE_OVER = 8
    STATE_COUNT = 9

cdef enum:                  # what happens to a connection
    EVENT_BYTES = 0         # bytes of a head came, but not all
    EVENT_CONTENT = 1       # a head is complete, and content follows
    EVENT_ASK = 2           # a request is put into the queue for Python
    EVENT_START = 3         # Python takes it
    EVENT_REPLY = 4         # an answer is handed to the system, and the connection goes on
    EVENT_STALL = 5         # an answer is made, and the system does not take it all
    EVENT_LAST = 6          # an answer is handed to the system, and is the last one
    EVENT_END = 7           # the stream has ended
    EVENT_COUNT = 8

# ---- output.py -------------------------------------------------------------------------------------------------------

cdef struct SourceC:        # content that is sent from where it lies
    SourceC* next
    const char* data        # in memory, ...
    int fd                  # ... or in a file, if this is not -1
    bint owns_fd
    int64_t offset
    int64_t left
    EntryC* entry           # given back with the source
    PyObject* owner         # ... or let go of, when the GIL is there

cdef struct OutputC:        # the answers that one call makes; handed to the system at its end
    char* data
    uint32_t size
    uint32_t capacity

# ---- exchange.py -----------------------------------------------------------------------------------------------------

cdef struct RequestC

cdef struct RecordsC:       # the records of an engine's requests; it outlives the engine until the last of them is gone
    int64_t owners          # atomic: the engine, and every request that lives
    int64_t live            # atomic: other threads may be the last to know a request
    unsigned long thread    # the loop's, to which the list belongs
    bint closed             # the engine is gone
    RequestC* first         # free ones
    uint32_t kept

cdef struct RequestC:       # a request that outlives the call that has received it
    WorkC work              # the first member: admission gives it back
    RequestC* next          # of the free ones
    HttpC* conn             # NULL: the connection is over
    HttpC* cut_from         # a connection that has given it up, and whose program is still to be told
    RecordsC* records       # where it came from
    EngineC* engine
    PyObject* object        # Python's Request, borrowed; NULL: not made (yet)
    char* bytes             # of the head; `head` points into them
    uint32_t size
    bint slow               # for the files, not for the program
    bint streaming          # the program has it before its content is complete
    bint wanted             # its content is kept; else it is received and thrown away
    bint complete           # all of its content has come
    bint answered           # the answer has begun
    bint finished           # ... and is complete
    bint begun              # admission counts it as in work
    bint owned              # the reference in `object` is this record's own
    bint chunked            # the answer's content is sent in chunks
    bint within             # ... and the last one is not closed yet
    bint bodiless           # the answer has no content: HEAD, 204, 304
    uint8_t scheme          # SCHEME_..., as a trusted proxy has it
    int64_t promised        # the length that the answer's head has named; -1: none
    int64_t sent            # content of the answer, as made so far
    uint16_t status
    int spool               # a file without a name that has the content instead; -1: none
    uint64_t spooled
    char* content
    uint64_t content_size
    uint64_t content_capacity
    BodyC body
    HeadC head

# ---- feed.py ---------------------------------------------------------------------------------------------------------

cdef enum:                  # what a connection has for the half with the GIL
    NEED_WORK = 1           # a request waits
    NEED_PIECE = 2          # the peer has taken what there was of an answer that is made piece by piece
    NEED_CONTENT = 4        # content has come for a program that streams it
    NEED_RELEASE = 8        # objects are to be let go of

cdef struct LineC:          # what the log will say of an answer that is not complete; the texts lie behind it
    LogLineC line
    uint32_t size

cdef struct HttpC:          # one connection
    StreamC* stream
    EngineC* engine
    HttpC* previous         # of all connections of the engine, those first that were looked at for longest
    HttpC* next
    uint8_t state           # STATE_...
    uint8_t need            # NEED_...
    bint eof                # the peer has ended its half
    bint last               # nothing after the present request is looked at
    bint feeding            # within a call of the stream: what it is told is heard in this very turn
    bint more               # bytes in `rest` wait for the next turn
    bint held               # the stream is paused by us
    bint leaving            # evicted, and not closed yet
    uint32_t rest_size
    uint32_t rest_capacity
    char* rest              # bytes that are not used up
    HeadC* partial          # of a head that is not complete; it begins where `rest` does. Cut off behind its last field
    SourceC* first_source
    SourceC* last_source
    RequestC* request
    RequestC* cut           # a request that was given up while the program had it
    LineC* line             # of an answer that is not complete
    int64_t arrival_ns      # when the first byte of the present head came
    int64_t looked_ns       # idle since then, when it was last looked at
    uint64_t mark           # bytes moved, when the present deadline was set
    uint64_t peer_hash
    char* peer              # text, made when it is first asked for
    uint8_t peer_size
    bint awaits             # a PROXY header comes first
    bint trusted            # what it says about other addresses counts
    bint counted            # it stands among those of its address
    bint rebuffed           # its last request was refused
    bint resting            # refused while refusing takes all the time: it is looked at again in the next slice
    AddressC address        # whom it comes from; only known to an engine that trusts somebody
    ViaC* via               # NULL: no proxy has said anything yet
    HttpC* neighbour        # the next one in the same slot of the table by address
    HttpC* rests_before     # of those that rest
    HttpC* rests_after
    PyObject* tls           # owned: the private half of the connection; NULL: it is plain

ctypedef int (*tls_send_t)(HttpC* conn, const char* data, size_t size) noexcept nogil
ctypedef void (*tls_end_t)(HttpC* conn) noexcept nogil
ctypedef void (*tls_gone_t)(HttpC* conn) noexcept

cdef struct EngineC:
    LoopC* loop
    PyObject* owner         # borrowed: the object that this structure lives in
    FilesC* files           # NULL: none
    LogC* log               # NULL: none
    AdmissionC* admission
    tls_send_t tls_send     # these three are NULL unless connections are encrypted
    tls_end_t tls_end
    tls_gone_t tls_gone
    bint handler            # there is a program for what is no file
    bint streaming          # it gets requests before their content is complete
    bint spooling           # content that is too large for memory is kept in files
    bint draining
    bint scheduled          # the work step is deferred
    bint working            # ... or runs
    bint secure             # connections are encrypted
    bint announces          # a trusted peer begins with a PROXY header
    TrustC* trust           # NULL: nobody is trusted
    uint32_t address_max    # connections of one address; 0: not limited here
    uint32_t slots_mask     # slots of the table by address, less one
    HttpC** slots           # NULL: they are not counted here
    char* prefix            # what a path must begin with to be a file's
    uint32_t prefix_size
    char* health            # the path of health checks; they have a reserved place
    uint32_t health_size
    HeadLimitsC head_limits
    BodyLimitsC body_limits
    uint64_t kept_max       # bytes of content that are kept
    int64_t state_ns[STATE_COUNT]   # the time in each state; 0: not limited
    int64_t linger_ns
    uint64_t body_rate      # bytes per second below which a body is too slow
    int64_t work_ns         # what handlers may take of a turn
    int64_t lag_ns          # how long the program held the last turn up
    HeadC head              # of the request that is being looked at
    AnswerC answer
    OutputC out
    char stamp[80]          # "Date: ...\r\nServer: ...\r\n"
    uint32_t stamp_size
    char expires[48]        # "Expires: ...\r\n", where files tell it
    int64_t stamp_due_ns
    int64_t wall_offset_ns  # from the loop's clock to the calendar
    HttpC* first
    HttpC* newest
    uint32_t open
    uint32_t open_max
    uint32_t leaving        # of the open ones, those that are evicted
    uint32_t resting        # connections that rest, and the first and the last of them
    HttpC* first_resting
    HttpC* last_resting
    uint64_t rest_timer     # when they are looked at again; 0: none rests
    uint32_t by_state[STATE_COUNT]
    RecordsC* records
    SourceC* free_sources
    SourceC* dead_sources   # with owners to be let go of
    uint32_t sources_free
    int64_t sources_live
    uint64_t timer          # when the next waiting request is to be refused; 0: none
    uint64_t connections
    uint64_t requests
    uint64_t answers[6]     # by the first digit of the status
    uint64_t refused[REFUSE_COUNT]
    uint64_t timeouts[STATE_COUNT]
    uint64_t bad_requests
    uint64_t received_content
    uint64_t sent_content
    uint64_t truncated      # files that became shorter while they were sent
    uint64_t aborted        # answers that did not reach their end
    uint64_t broken_promises    # answers whose content was not as long as their head said
    uint64_t lingered_bytes
    uint64_t evicted
    uint64_t unasked        # answers to what was no request: bad heads, and heads that came too slowly
    uint64_t given_up       # requests whose connection ended before their answer began
    uint64_t rests          # pauses of connections that were refused
    uint64_t announced      # connections that a trusted peer has said the source of
    uint64_t announced_bad  # ... that it should have, and did not
    uint64_t forwarded      # requests that came for somebody else, as a trusted peer says
    uint64_t forwarded_bad  # ... of which it could not be understood
    uint64_t crowded        # connections of addresses that had as many as they may
    uint64_t turned_away    # connections beyond open_max, with none to evict
    uint64_t missteps       # what the table of states does not have
    uint64_t errors         # handlers that raised
