/* Reads the command line of the generator: every number has a range, and a wrong one is named with the remedy. */
#define _GNU_SOURCE
#include "paced.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "usage: paced --port PORT [options]\n"
    "  --host ADDRESS          IPv4 address of the server (127.0.0.1)\n"
    "  --path PATH             what to ask for (/)\n"
    "  --header 'NAME: VALUE'  a further header field; may be repeated\n"
    "  --connections N         connections, each with a schedule of its own (1)\n"
    "  --rate R                requests a second, of all connections together; 0: as soon as the answers are there (0)\n"
    "  --each-rate R           the same for each connection\n"
    "  --poisson               random gaps of this mean instead of equal ones\n"
    "  --random-phase          equal gaps, but each connection begins them at a random instant\n"
    "  --pipeline N            ask N requests at a time, in one send (1)\n"
    "  --seconds S             how long requests are planned for (5)\n"
    "  --per-connection N      at most so many groups of requests for each connection\n"
    "  --patience S            a request that takes longer has timed out, and its connection is closed (5)\n"
    "  --hold S                keep the connections open for so long after the last answer\n"
    "  --ramp S                time to open the connections in, before the schedule begins (30)\n"
    "  --new                   a new connection for each request\n"
    "  --reset-after MS        reset the connection so long after each request was sent\n"
    "  --sources FIRST-LAST    addresses that the connections come from, in turn\n"
    "  --expect-status N       what is an answer (200); 429 and 503 are refusals, all others are wrong\n"
    "  --expect-bytes N        length that the content must have\n"
    "  --expect-hash HEX       FNV-1a (64 bit) that the content must have\n"
    "  --good MS               answers within this are counted as good (100)\n"
    "  --fast MS               refusals within this are counted as fast (50)\n"
    "  --seed N                of the random gaps (1)\n"
    "  --samples               list every request, the first 20,000\n";

enum {
    HOST = 1,
    PORT,
    PATH,
    HEADER,
    CONNECTIONS,
    RATE,
    EACH_RATE,
    POISSON,
    RANDOM_PHASE,
    PIPELINE,
    SECONDS,
    PER_CONNECTION,
    PATIENCE,
    HOLD,
    RAMP,
    NEW,
    RESET_AFTER,
    SOURCES,
    EXPECT_STATUS,
    EXPECT_BYTES,
    EXPECT_HASH,
    GOOD,
    FAST,
    SEED,
    SAMPLES,
    HELP
};

static const struct option NAMES[] = {{"host", 1, 0, HOST},
                                      {"port", 1, 0, PORT},
                                      {"path", 1, 0, PATH},
                                      {"header", 1, 0, HEADER},
                                      {"connections", 1, 0, CONNECTIONS},
                                      {"rate", 1, 0, RATE},
                                      {"each-rate", 1, 0, EACH_RATE},
                                      {"poisson", 0, 0, POISSON},
                                      {"random-phase", 0, 0, RANDOM_PHASE},
                                      {"pipeline", 1, 0, PIPELINE},
                                      {"seconds", 1, 0, SECONDS},
                                      {"per-connection", 1, 0, PER_CONNECTION},
                                      {"patience", 1, 0, PATIENCE},
                                      {"hold", 1, 0, HOLD},
                                      {"ramp", 1, 0, RAMP},
                                      {"new", 0, 0, NEW},
                                      {"reset-after", 1, 0, RESET_AFTER},
                                      {"sources", 1, 0, SOURCES},
                                      {"expect-status", 1, 0, EXPECT_STATUS},
                                      {"expect-bytes", 1, 0, EXPECT_BYTES},
                                      {"expect-hash", 1, 0, EXPECT_HASH},
                                      {"good", 1, 0, GOOD},
                                      {"fast", 1, 0, FAST},
                                      {"seed", 1, 0, SEED},
                                      {"samples", 0, 0, SAMPLES},
                                      {"help", 0, 0, HELP},
                                      {0, 0, 0, 0}};

static void refuse(const char *name, const char *value, const char *remedy) {
    fprintf(stderr, "paced: --%s %s: %s\n", name, value, remedy);
    exit(EXIT_USAGE);
}

static double number(const char *name, const char *text, double least, double most) {
    char *end, remedy[100];
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most)) {
        snprintf(remedy, sizeof remedy, "give a number from %g to %g", least, most);
        refuse(name, text, remedy);
    }
    return value;
}

static uint32_t address(const char *name, const char *text) {
    struct in_addr parsed;
    if (inet_pton(AF_INET, text, &parsed) != 1) refuse(name, text, "give IPv4 addresses, such as 127.0.0.1");
    return ntohl(parsed.s_addr);
}

static void read_sources(struct options *options, const char *text) {
    char first[64];
    const char *dash = strchr(text, '-');
    size_t length = dash ? (size_t)(dash - text) : strlen(text);
    if (length >= sizeof first) refuse("sources", text, "give FIRST-LAST, such as 127.0.0.2-127.0.0.9");
    memcpy(first, text, length);
    first[length] = 0;
    options->source_first = address("sources", first);
    uint32_t last = dash ? address("sources", dash + 1) : options->source_first;
    if (last < options->source_first) refuse("sources", text, "the last address is below the first");
    options->source_count = last - options->source_first + 1;
}

static void add_header(struct options *options, const char *field) {
    size_t used = strlen(options->headers), wanted = strlen(field) + 3;
    if (!strchr(field, ':') || strpbrk(field, "\r\n")) refuse("header", field, "give NAME: VALUE on one line");
    if (used + wanted > sizeof options->headers) refuse("header", field, "the header fields are too long together");
    snprintf(options->headers + used, wanted, "%s\r\n", field);
}

static void read_expectation(struct options *options, int which, const char *name, const char *text) {
    char *end;
    if (which == EXPECT_STATUS) options->expect_status = (int)number(name, text, 200, STATUS_COUNT - 1);
    if (which == EXPECT_BYTES) options->expect_bytes = (long)number(name, text, 0, 1e12);
    if (which != EXPECT_HASH) return;
    options->check_hash = true;
    options->expect_hash = strtoull(text, &end, 16);
    if (end == text || *end) refuse(name, text, "give a hexadecimal number");
}

static void read_target(struct options *options, int which, const char *name, const char *text) {
    if (which == PORT) options->target.sin_port = htons((uint16_t)number(name, text, 1, 65535));
    if (which == PATH && (text[0] != '/' || strpbrk(text, " \r\n"))) refuse(name, text, "give a path, such as /index.html");
    if (which == PATH) options->path = text;
    if (which == HOST) options->target.sin_addr.s_addr = htonl(address(name, text));
    if (which == HOST) options->host = text;
}

static void read_one(struct options *options, int which, const char *name, const char *text, double *each_rate) {
    switch (which) {
        case HOST:
        case PORT:
        case PATH: read_target(options, which, name, text); break;
        case HEADER: add_header(options, text); break;
        case CONNECTIONS: options->connections = (int)number(name, text, 1, CONNECTIONS_MAX); break;
        case RATE: options->rate = number(name, text, 0, RATE_MAX); break;
        case EACH_RATE: *each_rate = number(name, text, 0, RATE_MAX); break;
        case POISSON: options->poisson = true; break;
        case RANDOM_PHASE: options->random_phase = true; break;
        case PIPELINE: options->pipeline = (int)number(name, text, 1, PIPELINE_MAX); break;
        case SECONDS: options->seconds = number(name, text, 0.01, SECONDS_MAX); break;
        case PER_CONNECTION: options->per_connection = (long)number(name, text, 1, 1e9); break;
        case PATIENCE: options->patience_s = number(name, text, 0.001, SECONDS_MAX); break;
        case HOLD: options->hold_s = number(name, text, 0, SECONDS_MAX); break;
        case RAMP: options->ramp_s = number(name, text, 0, SECONDS_MAX); break;
        case NEW: options->each_new = true; break;
        case RESET_AFTER: options->reset_after_ms = number(name, text, 0, 1e6); break;
        case SOURCES: read_sources(options, text); break;
        case GOOD: options->good_ms = number(name, text, 0, 1e6); break;
        case FAST: options->fast_ms = number(name, text, 0, 1e6); break;
        case SEED: options->seed = (uint64_t)number(name, text, 0, 1e15); break;
        case SAMPLES: options->samples = true; break;
        case HELP: fputs(USAGE, stdout); exit(0);
        default: read_expectation(options, which, name, text);
    }
}

void options_read(struct options *options, int argc, char **argv) {
    double each_rate = 0;
    int which, place = 0;
    *options = (struct options){.host = "127.0.0.1", .path = "/", .connections = 1, .pipeline = 1, .seconds = 5,
                                .patience_s = 5, .ramp_s = 30, .good_ms = 100, .fast_ms = 50, .reset_after_ms = -1,
                                .expect_bytes = -1, .expect_status = 200, .seed = 1};
    options->target.sin_family = AF_INET;
    options->target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while ((which = getopt_long(argc, argv, "", NAMES, &place)) != -1) {
        if (which == '?') {
            fputs(USAGE, stderr);
            exit(EXIT_USAGE);
        }
        read_one(options, which, NAMES[place].name, optarg, &each_rate);
    }
    if (optind < argc) refuse("path", argv[optind], "everything is given by options");
    if (options->target.sin_port == 0) refuse("port", "0", "name the port of the server");
    if (each_rate > 0) options->rate = each_rate * options->connections;
    if (options->rate > RATE_MAX) refuse("each-rate", "", "all connections together may ask 1,000,000 a second");
    if (options->each_new) add_header(options, "Connection: close");
}
