/* What the parts of the generator share: its options, its counts, and one histogram.
 *
 * paced.c drives connections, paced_options.c reads the command line, paced_report.c counts and prints. Times are
 * nanoseconds of CLOCK_MONOTONIC, which is also what Python's time.monotonic() shows.
 */
#ifndef PACED_H
#define PACED_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    EXIT_USAGE = 2,
    CONNECTIONS_MAX = 60000,
    PIPELINE_MAX = 4096,
    SECONDS_MAX = 600,
    RATE_MAX = 1000000,     /* requests a second, of all connections */
    REQUEST_MAX = 16384,    /* bytes of one request */
    SAMPLES_MAX = 20000,    /* requests that are listed one by one */
    STATUS_COUNT = 600,
    SUB_BUCKETS = 64,       /* of each power of two: a value is known to 1.6 % */
    BUCKETS = 64 * 40,
    SERIES_MAX = 2 * SECONDS_MAX
};

/* What became of a request. Each one that was asked ends in exactly one of these. */
enum outcome { ANSWERED, REFUSED, WRONG, RESET, CLOSED, CONNECT_FAILED, TIMED_OUT, ABANDONED, OUTCOMES };

struct options {
    struct sockaddr_in target;
    uint32_t source_first, source_count; /* host byte order; none when the count is 0 */
    const char *host, *path;
    char headers[REQUEST_MAX / 2];
    int connections, pipeline;
    double rate;             /* requests a second of all connections; 0 asks as soon as the answers are there */
    double seconds, patience_s, hold_s, ramp_s;
    double good_ms, fast_ms; /* what counts as a good answer, and as a quick refusal */
    double reset_after_ms;   /* below 0: never */
    long per_connection;     /* groups of requests that each connection asks; 0: as many as fit in the time */
    long expect_bytes;       /* below 0: any */
    uint64_t expect_hash;
    uint64_t seed;
    int expect_status;
    bool poisson, random_phase, each_new, check_hash, samples;
};

struct histogram {
    long count;
    double sum_ns;
    int64_t max_ns;
    uint32_t buckets[BUCKETS];
};

/* What happened to the requests that were due in one second. */
struct second {
    long asked, answered, good, refused, failed;
    int64_t worst_ns;
};

struct sample {
    int64_t due_ns, took_ns;
    enum outcome outcome;
};

struct tally {
    long asked, sent, unsent, good, fast, bytes;
    long outcomes[OUTCOMES], statuses[STATUS_COUNT];
    long connects, idle_closes, ready; /* opened; ended between requests; open when the schedule began */
    struct histogram accepted, from_send, refused, lag;
    struct second series[SERIES_MAX];
    struct sample *samples;
    long sample_count;
    int64_t began_ns, ended_ns;
};

int64_t clock_ns(void);
void options_read(struct options *options, int argc, char **argv);
void histogram_add(struct histogram *histogram, int64_t value_ns);
void tally_asked(struct tally *tally, int64_t due_ns, long requests);
/* One request has ended; `sent_ns` is 0 for one that was never sent. */
void tally_end(struct tally *tally, const struct options *options, enum outcome outcome, int64_t due_ns,
               int64_t sent_ns, int64_t now_ns);
void tally_print(const struct tally *tally, const struct options *options);

#endif
