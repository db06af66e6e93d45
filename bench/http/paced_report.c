/* Counts what became of each request and prints all of it as one JSON object.
 *
 * A latency is measured from the instant for which the request was planned, not from the one at which it could be sent:
 * a server that stalls makes everything late that was due in the meantime, and that is what its users would see.
 */
#include "paced.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

static const char *const NAMES[OUTCOMES] = {"answered", "refused",        "wrong",     "reset",
                                            "closed",   "connect_failed", "timed_out", "abandoned"};

int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Linear below SUB_BUCKETS, then SUB_BUCKETS / 2 for each power of two. */
static int bucket_of(int64_t value) {
    if (value < SUB_BUCKETS) return value < 0 ? 0 : (int)value;
    int shift = 63 - __builtin_clzll((unsigned long long)value) - 5;
    int bucket = shift * (SUB_BUCKETS / 2) + (int)(value >> shift);
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static double middle_of(int bucket) {
    if (bucket < SUB_BUCKETS) return bucket;
    int shift = bucket / (SUB_BUCKETS / 2) - 1;
    int64_t low = (int64_t)(bucket - shift * (SUB_BUCKETS / 2)) << shift;
    return (double)low + (double)(INT64_C(1) << shift) / 2;
}

void histogram_add(struct histogram *histogram, int64_t value_ns) {
    histogram->count++;
    histogram->sum_ns += (double)value_ns;
    if (value_ns > histogram->max_ns) histogram->max_ns = value_ns;
    histogram->buckets[bucket_of(value_ns)]++;
}

static double percentile_ms(const struct histogram *histogram, double share) {
    double wanted = share * (double)histogram->count, seen = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen >= wanted && seen > 0) {
            double value = middle_of(bucket);
            return (value > (double)histogram->max_ns ? (double)histogram->max_ns : value) / 1e6;
        }
    }
    return 0;
}

static struct second *second_of(struct tally *tally, int64_t due_ns) {
    int64_t number = (due_ns - tally->began_ns) / INT64_C(1000000000);
    if (number < 0) number = 0;
    return &tally->series[number < SERIES_MAX ? number : SERIES_MAX - 1];
}

void tally_asked(struct tally *tally, int64_t due_ns, long requests) {
    tally->asked += requests;
    second_of(tally, due_ns)->asked += requests;
}

void tally_end(struct tally *tally, const struct options *options, enum outcome outcome, int64_t due_ns,
               int64_t sent_ns, int64_t now_ns) {
    struct second *second = second_of(tally, due_ns);
    int64_t took_ns = now_ns - due_ns;
    tally->outcomes[outcome]++;
    *(sent_ns ? &tally->sent : &tally->unsent) += 1;
    if (took_ns > second->worst_ns) second->worst_ns = took_ns;
    if (outcome == ANSWERED) {
        bool good = (double)took_ns <= options->good_ms * 1e6;
        histogram_add(&tally->accepted, took_ns);
        histogram_add(&tally->from_send, now_ns - sent_ns);
        tally->good += good;
        second->answered++;
        second->good += good;
    } else if (outcome == REFUSED) {
        histogram_add(&tally->refused, took_ns);
        tally->fast += (double)took_ns <= options->fast_ms * 1e6;
        second->refused++;
    } else {
        second->failed++;
    }
    if (tally->samples && tally->sample_count < SAMPLES_MAX)
        tally->samples[tally->sample_count++] = (struct sample){due_ns, took_ns, outcome};
}

static void print_histogram(const char *name, const struct histogram *histogram, const char *after) {
    double mean_ms = histogram->count ? histogram->sum_ns / (double)histogram->count / 1e6 : 0;
    printf("\"%s\": {\"count\": %ld, \"mean\": %.4f, \"p50\": %.4f, \"p90\": %.4f, \"p99\": %.4f, \"p999\": %.4f, "
           "\"max\": %.4f}%s",
           name, histogram->count, mean_ms, percentile_ms(histogram, 0.5), percentile_ms(histogram, 0.9),
           percentile_ms(histogram, 0.99), percentile_ms(histogram, 0.999), (double)histogram->max_ns / 1e6, after);
}

static void print_series(const struct tally *tally) {
    int last = SERIES_MAX - 1;
    while (last > 0 && tally->series[last].asked == 0) last--;
    printf("\"series\": [");
    for (int number = 0; number <= last; number++) {
        const struct second *second = &tally->series[number];
        printf("%s{\"second\": %d, \"asked\": %ld, \"answered\": %ld, \"good\": %ld, \"refused\": %ld, \"failed\": %ld, "
               "\"worst_ms\": %.3f}",
               number ? ", " : "", number, second->asked, second->answered, second->good, second->refused,
               second->failed, (double)second->worst_ns / 1e6);
    }
    printf("]");
}

static void print_samples(const struct tally *tally) {
    printf(", \"samples\": [");
    for (long number = 0; number < tally->sample_count; number++) {
        const struct sample *sample = &tally->samples[number];
        printf("%s[%.6f, \"%s\", %.3f]", number ? ", " : "", (double)sample->due_ns / 1e9, NAMES[sample->outcome],
               (double)sample->took_ns / 1e6);
    }
    printf("]");
}

void tally_print(const struct tally *tally, const struct options *options) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("{\"asked\": %ld, \"sent\": %ld, \"unsent\": %ld, ", tally->asked, tally->sent, tally->unsent);
    for (int outcome = 0; outcome < OUTCOMES; outcome++)
        printf("\"%s\": %ld, ", NAMES[outcome], tally->outcomes[outcome]);
    printf("\"good\": %ld, \"refused_fast\": %ld, \"bytes\": %ld, \"connects\": %ld, \"ready\": %ld, "
           "\"idle_closes\": %ld, ",
           tally->good, tally->fast, tally->bytes, tally->connects, tally->ready, tally->idle_closes);
    printf("\"began_s\": %.6f, \"seconds\": %.6f, \"own_cpu_s\": %.3f, \"flat_out\": %s, \"statuses\": {",
           (double)tally->began_ns / 1e9, (double)(tally->ended_ns - tally->began_ns) / 1e9, cpu_s,
           options->rate > 0 ? "false" : "true");
    const char *between = "";
    for (int status = 0; status < STATUS_COUNT; status++) {
        if (tally->statuses[status] == 0) continue;
        printf("%s\"%d\": %ld", between, status, tally->statuses[status]);
        between = ", ";
    }
    printf("}, \"latency_ms\": {");
    print_histogram("accepted", &tally->accepted, ", ");
    print_histogram("from_send", &tally->from_send, ", ");
    print_histogram("refused", &tally->refused, ", ");
    print_histogram("lag", &tally->lag, "}, ");
    print_series(tally);
    if (tally->samples) print_samples(tally);
    printf("}\n");
}
