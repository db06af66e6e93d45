/* The open-loop generator: connections that ask by a schedule which does not wait for the answers.
 *
 * Each connection has its own schedule, fixed in advance: every so many nanoseconds, or at random gaps. A request whose
 * connection is still waiting for the one before is sent as soon as that has ended, and its latency counts from the
 * instant for which it was planned. So a slow server cannot slow its own measurement down. A request whose client has
 * lost patience has timed out, whether it was sent or not, and every request that was planned ends in one of the counts.
 *
 * One thread, one epoll, one heap of times. Bounded in connections, time and requests; see `paced --help`.
 */
#define _GNU_SOURCE
#include "paced.h"
#include "paced_answer.h"

#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BATCH = 512, CONNECTING_MAX = 512, PIECE = 1 << 18, READS_PER_EVENT = 16 };
/* Flat out, a connection that failed waits for so long before it asks again. */
static const int64_t FAILED_PAUSE_NS = 10000000;

struct connection {
    int fd; /* -1: none */
    bool connecting, done;
    int waiting;      /* requests of the group that was asked and is not answered; 0 between groups */
    long group_bytes; /* of the group, handed to the socket */
    int64_t due_ns;   /* of the next group */
    int64_t group_due_ns, sent_ns, wake_ns, free_ns; /* free: since when no group is waiting */
    long groups; /* asked so far */
    int place;   /* in the heap */
    uint64_t random;
    struct answer answer;
};

struct load {
    struct options options;
    struct tally tally;
    struct connection *connections, **heap;
    int poller, heap_count, connecting;
    bool ramping;
    int64_t gap_ns, patience_ns, reset_ns, end_ns;
    char *request; /* the whole group */
    long request_bytes;
};

static char piece[PIECE];

static void die(const char *what) {
    fprintf(stderr, "paced: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- the heap: who has to be looked at next -------------------------------------------------------------------- */

static void heap_put(struct load *load, int place, struct connection *connection) {
    load->heap[place] = connection;
    connection->place = place;
}

static void heap_settle(struct load *load, struct connection *connection) {
    int place = connection->place;
    while (place > 0 && load->heap[(place - 1) / 2]->wake_ns > connection->wake_ns) {
        heap_put(load, place, load->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (;;) {
        int child = 2 * place + 1;
        if (child >= load->heap_count) break;
        if (child + 1 < load->heap_count && load->heap[child + 1]->wake_ns < load->heap[child]->wake_ns) child++;
        if (load->heap[child]->wake_ns >= connection->wake_ns) break;
        heap_put(load, place, load->heap[child]);
        place = child;
    }
    heap_put(load, place, connection);
}

static void wake_at(struct load *load, struct connection *connection, int64_t when_ns) {
    connection->wake_ns = when_ns;
    heap_settle(load, connection);
}

static void heap_remove(struct load *load, struct connection *connection) {
    struct connection *last = load->heap[--load->heap_count];
    if (last == connection) return;
    heap_put(load, connection->place, last);
    heap_settle(load, last);
}

/* ---- the schedule ---------------------------------------------------------------------------------------------- */

/* xorshift64*: between 0 and 1, never 0. */
static double random_share(struct connection *connection) {
    connection->random ^= connection->random >> 12;
    connection->random ^= connection->random << 25;
    connection->random ^= connection->random >> 27;
    return ((double)((connection->random * UINT64_C(2685821657736338717)) >> 11) + 1) / 9007199254740993.0;
}

static int64_t next_gap(const struct load *load, struct connection *connection) {
    if (!load->options.poisson) return load->gap_ns;
    return (int64_t)(-log(random_share(connection)) * (double)load->gap_ns);
}

static bool schedule_is_over(const struct load *load, const struct connection *connection) {
    const long most = load->options.per_connection;
    return connection->due_ns >= load->end_ns || (most > 0 && connection->groups >= most);
}

/* Take the next group from the schedule. */
static void take_group(struct load *load, struct connection *connection) {
    connection->group_due_ns = connection->due_ns;
    connection->sent_ns = 0;
    connection->group_bytes = 0;
    connection->waiting = load->options.pipeline;
    connection->groups++;
    connection->due_ns += load->gap_ns ? next_gap(load, connection) : 0;
    tally_asked(&load->tally, connection->group_due_ns, connection->waiting);
}

static void end_requests(struct load *load, struct connection *connection, enum outcome outcome, int64_t now_ns) {
    for (; connection->waiting > 0; connection->waiting--)
        tally_end(&load->tally, &load->options, outcome, connection->group_due_ns, connection->sent_ns, now_ns);
}

/* ---- connections ----------------------------------------------------------------------------------------------- */

static void shut(struct load *load, struct connection *connection, bool reset) {
    if (connection->fd < 0) return;
    if (connection->connecting) load->connecting--;
    if (reset) {
        struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    close(connection->fd);
    connection->fd = -1;
    connection->connecting = false;
}

static void bind_source(const struct load *load, const struct connection *connection) {
    uint32_t number = (uint32_t)(connection - load->connections) % load->options.source_count;
    struct sockaddr_in source = {.sin_family = AF_INET};
    int one = 1;
    source.sin_addr.s_addr = htonl(load->options.source_first + number);
    setsockopt(connection->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (bind(connection->fd, (struct sockaddr *)&source, sizeof source) != 0) die("bind to a source address");
}

/* False if the connection has failed already. */
static bool open_connection(struct load *load, struct connection *connection) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    int one = 1;
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connection->fd < 0) return false;
    if (load->options.source_count) bind_source(load, connection);
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    answer_begin(&connection->answer);
    load->connecting++;
    connection->connecting = true;
    const struct sockaddr *target = (const struct sockaddr *)&load->options.target;
    if ((connect(connection->fd, target, sizeof load->options.target) != 0 && errno != EINPROGRESS) ||
        epoll_ctl(load->poller, EPOLL_CTL_ADD, connection->fd, &event) != 0) {
        shut(load, connection, false);
        return false;
    }
    return true;
}

/* ---- one group of requests, from its instant to its end ---------------------------------------------------------- */

/* The group has ended, well or badly; what was due in the meantime follows. */
static void group_is_over(struct load *load, struct connection *connection, bool failed, int64_t now_ns) {
    if (load->options.each_new) shut(load, connection, false);
    connection->free_ns = now_ns;
    if (load->gap_ns == 0) connection->due_ns = now_ns + (failed ? FAILED_PAUSE_NS : 0);
    while (!schedule_is_over(load, connection) && connection->due_ns + load->patience_ns <= now_ns) {
        take_group(load, connection);
        end_requests(load, connection, TIMED_OUT, now_ns);
    }
    if (schedule_is_over(load, connection)) {
        if (!connection->done) heap_remove(load, connection);
        connection->done = true;
    } else {
        /* The heap calls again, at once if it is due: no recursion. */
        wake_at(load, connection, connection->due_ns);
    }
}

static void give_up(struct load *load, struct connection *connection, enum outcome outcome, int64_t now_ns) {
    shut(load, connection, outcome == ABANDONED);
    if (connection->waiting == 0) return;
    end_requests(load, connection, outcome, now_ns);
    group_is_over(load, connection, true, now_ns);
}

static void send_group(struct load *load, struct connection *connection, int64_t now_ns) {
    if (connection->sent_ns == 0) {
        connection->sent_ns = now_ns;
        if (load->reset_ns >= 0 && connection->wake_ns > now_ns + load->reset_ns)
            wake_at(load, connection, now_ns + load->reset_ns);
    }
    while (connection->group_bytes < load->request_bytes) {
        ssize_t sent = send(connection->fd, load->request + connection->group_bytes,
                            (size_t)(load->request_bytes - connection->group_bytes), MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) return; /* the poller tells when there is room */
        if (sent < 0) {
            give_up(load, connection, RESET, now_ns);
            return;
        }
        connection->group_bytes += sent;
    }
}

static void begin(struct load *load, struct connection *connection, int64_t now_ns) {
    take_group(load, connection);
    int64_t could_ns = connection->free_ns > connection->group_due_ns ? connection->free_ns : connection->group_due_ns;
    histogram_add(&load->tally.lag, now_ns - could_ns); /* of the generator itself */
    wake_at(load, connection, connection->group_due_ns + load->patience_ns);
    if (connection->fd < 0 && !open_connection(load, connection)) {
        give_up(load, connection, CONNECT_FAILED, now_ns);
        return;
    }
    if (!connection->connecting) send_group(load, connection, now_ns);
}

/* A time has come: for the next group, for the patience to end, or for a reset. */
static void wake(struct load *load, struct connection *connection, int64_t now_ns) {
    if (connection->waiting == 0) {
        begin(load, connection, now_ns);
    } else if (now_ns >= connection->group_due_ns + load->patience_ns) {
        give_up(load, connection, TIMED_OUT, now_ns);
    } else {
        give_up(load, connection, ABANDONED, now_ns);
    }
}

/* ---- what the poller tells ------------------------------------------------------------------------------------- */

static enum outcome judge(const struct load *load, const struct answer *answer) {
    const struct options *options = &load->options;
    if (answer->status == options->expect_status) {
        bool length_is_right = options->expect_bytes < 0 || answer->length == options->expect_bytes;
        return length_is_right && (!options->check_hash || answer->hash == options->expect_hash) ? ANSWERED : WRONG;
    }
    return answer->status == 429 || answer->status == 503 ? REFUSED : WRONG;
}

/* One answer is whole. False if nothing may follow it on this connection. */
static bool answered(struct load *load, struct connection *connection, int64_t now_ns) {
    struct answer *answer = &connection->answer;
    bool closing = answer->closing;
    load->tally.statuses[answer->status]++;
    load->tally.bytes += answer->length;
    /* Too late is too late, even if the end of patience has not been looked at yet. */
    bool late = now_ns > connection->group_due_ns + load->patience_ns;
    enum outcome outcome = late ? TIMED_OUT : judge(load, answer);
    tally_end(&load->tally, &load->options, outcome, connection->group_due_ns, connection->sent_ns, now_ns);
    connection->waiting--;
    answer_begin(answer);
    if (closing) {
        shut(load, connection, false);
        end_requests(load, connection, CLOSED, now_ns);
    }
    if (connection->waiting == 0) group_is_over(load, connection, false, now_ns);
    return connection->fd >= 0;
}

/* Bytes have come. False if the connection has ended over them. */
static bool take_bytes(struct load *load, struct connection *connection, long count, int64_t now_ns) {
    long taken = 0;
    while (taken < count) {
        enum answer_news news;
        if (connection->waiting == 0) { /* more answers than requests */
            load->tally.idle_closes++;
            shut(load, connection, true);
            return false;
        }
        taken += answer_take(&connection->answer, piece + taken, count - taken, load->options.check_hash, &news);
        if (news == BROKEN) {
            give_up(load, connection, WRONG, now_ns);
            return false;
        }
        if (news == DONE && !answered(load, connection, now_ns)) return false;
    }
    return true;
}

/* Large content is thrown away inside the kernel unless somebody wants its hash. */
static ssize_t receive(const struct load *load, struct connection *connection) {
    struct answer *answer = &connection->answer;
    if (answer->state == SIZED && answer->left > PIECE && !load->options.check_hash) {
        ssize_t got = recv(connection->fd, NULL, (size_t)answer->left - 1, MSG_TRUNC);
        if (got > 0) {
            answer->left -= got;
            answer->length += got;
            return 0;
        }
        return got == 0 ? -2 : -1;
    }
    ssize_t got = recv(connection->fd, piece, PIECE, 0);
    return got == 0 ? -2 : got;
}

static void ended(struct load *load, struct connection *connection, enum outcome how, int64_t now_ns) {
    if (connection->waiting == 0) {
        load->tally.idle_closes++;
        shut(load, connection, false);
        return;
    }
    if (how == CLOSED && answer_at_end(&connection->answer)) {
        answered(load, connection, now_ns);
        return;
    }
    give_up(load, connection, connection->connecting ? CONNECT_FAILED : how, now_ns);
}

static void readable(struct load *load, struct connection *connection, bool at_end) {
    for (int reads = 0; reads < READS_PER_EVENT || at_end; reads++) {
        int64_t now_ns;
        ssize_t got = receive(load, connection);
        if (got == -1 && errno == EAGAIN) return;
        now_ns = clock_ns();
        if (got < 0) {
            ended(load, connection, got == -2 ? CLOSED : RESET, now_ns);
            return;
        }
        if (got > 0 && !take_bytes(load, connection, got, now_ns)) return;
        if (got > 0 && got < PIECE && !at_end) return; /* drained */
    }
    /* Others first: telling epoll anew makes it report this connection again. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    epoll_ctl(load->poller, EPOLL_CTL_MOD, connection->fd, &event);
}

static void connected(struct load *load, struct connection *connection, int64_t now_ns) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) {
        if (connection->waiting) give_up(load, connection, CONNECT_FAILED, now_ns);
        else shut(load, connection, false);
        return;
    }
    load->connecting--;
    connection->connecting = false;
    load->tally.connects++;
    if (connection->waiting) send_group(load, connection, now_ns);
}

static void handle(struct load *load, struct connection *connection, uint32_t events) {
    if (connection->fd < 0) return;
    if (connection->connecting && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        connected(load, connection, clock_ns());
    else if (events & EPOLLOUT && connection->waiting && connection->group_bytes < load->request_bytes)
        send_group(load, connection, clock_ns());
    if (connection->fd >= 0 && !connection->connecting && events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        readable(load, connection, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
}

/* Wait for news, at most until then. Milliseconds are too coarse; older kernels have nothing finer. */
static void poll_until(struct load *load, int64_t until_ns) {
    static bool coarse;
    struct epoll_event events[BATCH];
    int64_t wait_ns = until_ns - clock_ns();
    int ready = -1;
    if (wait_ns < 0) wait_ns = 0;
#ifdef SYS_epoll_pwait2
    struct timespec wait = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
    if (!coarse) ready = (int)syscall(SYS_epoll_pwait2, load->poller, events, BATCH, &wait, NULL, 0);
    if (ready < 0 && errno == ENOSYS) coarse = true;
#else
    coarse = true;
#endif
    if (coarse) ready = epoll_wait(load->poller, events, BATCH, (int)(wait_ns / 1000000));
    if (ready < 0 && errno != EINTR && errno != ENOSYS) die("epoll");
    for (int number = 0; number < ready; number++) handle(load, events[number].data.ptr, events[number].events);
}

/* ---- the whole run --------------------------------------------------------------------------------------------- */

/* Open the connections before the schedule begins, not more at a time than a backlog holds. */
static void ramp(struct load *load) {
    int64_t until_ns = clock_ns() + (int64_t)(load->options.ramp_s * 1e9);
    for (int number = 0; number < load->options.connections && clock_ns() < until_ns; number++) {
        while (load->connecting >= CONNECTING_MAX && clock_ns() < until_ns) poll_until(load, until_ns);
        open_connection(load, &load->connections[number]);
    }
    while (load->connecting > 0 && clock_ns() < until_ns) poll_until(load, until_ns);
    load->tally.ready = load->tally.connects;
}

static void plan(struct load *load) {
    struct options *options = &load->options;
    load->tally.began_ns = clock_ns();
    load->end_ns = load->tally.began_ns + (int64_t)(options->seconds * 1e9);
    for (int number = 0; number < options->connections; number++) {
        struct connection *connection = &load->connections[number];
        double share = options->poisson || options->random_phase ? random_share(connection) : (double)number / options->connections;
        connection->due_ns = load->tally.began_ns + (int64_t)(share * (double)load->gap_ns);
        connection->wake_ns = connection->due_ns;
        heap_put(load, load->heap_count++, connection);
        heap_settle(load, connection);
        if (schedule_is_over(load, connection)) {
            heap_remove(load, connection);
            connection->done = true;
        }
    }
}

static void drive(struct load *load) {
    while (load->heap_count > 0) {
        int64_t now_ns = clock_ns();
        for (int turns = 0; turns < BATCH && load->heap_count > 0 && load->heap[0]->wake_ns <= now_ns; turns++)
            wake(load, load->heap[0], now_ns);
        if (load->heap_count > 0) poll_until(load, load->heap[0]->wake_ns);
    }
    load->tally.ended_ns = clock_ns();
    if (load->options.hold_s <= 0) return;
    fprintf(stderr, "quiet\n");
    int64_t until_ns = load->tally.ended_ns + (int64_t)(load->options.hold_s * 1e9);
    while (clock_ns() < until_ns) poll_until(load, until_ns);
}

static void write_request(struct load *load) {
    static char one[REQUEST_MAX];
    struct options *options = &load->options;
    int length = snprintf(one, sizeof one, "GET %s HTTP/1.1\r\nHost: %s:%d\r\nUser-Agent: paced\r\n%s\r\n", options->path,
                          options->host, ntohs(options->target.sin_port), options->headers);
    if (length >= REQUEST_MAX) {
        fprintf(stderr, "paced: the request is longer than %d bytes: shorten --path or --header\n", REQUEST_MAX);
        exit(EXIT_USAGE);
    }
    load->request_bytes = (long)length * options->pipeline;
    load->request = malloc((size_t)load->request_bytes);
    if (!load->request) die("memory");
    for (int number = 0; number < options->pipeline; number++)
        memcpy(load->request + (long)length * number, one, (size_t)length);
}

static void prepare(struct load *load) {
    const struct options *options = &load->options;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    rlim_t wanted = (rlim_t)options->connections + 64;
    if (files.rlim_cur < wanted) {
        files.rlim_cur = wanted;
        if (files.rlim_max < wanted) files.rlim_max = wanted;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0) die("more descriptors than this user may have (ulimit -Hn)");
    }
    load->connections = calloc((size_t)options->connections, sizeof *load->connections);
    load->heap = calloc((size_t)options->connections, sizeof(struct connection *));
    load->tally.samples = options->samples ? calloc(SAMPLES_MAX, sizeof(struct sample)) : NULL;
    load->poller = epoll_create1(EPOLL_CLOEXEC);
    if (!load->connections || !load->heap || load->poller < 0) die("start");
    for (int number = 0; number < options->connections; number++) {
        load->connections[number].fd = -1;
        load->connections[number].random = (options->seed + 1) * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)number * 7919 + 1;
    }
    load->gap_ns = options->rate > 0 ? (int64_t)(1e9 / options->rate * options->pipeline * options->connections) : 0;
    load->patience_ns = (int64_t)(options->patience_s * 1e9);
    load->reset_ns = options->reset_after_ms < 0 ? -1 : (int64_t)(options->reset_after_ms * 1e6);
}

int main(int argc, char **argv) {
    static struct load load;
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1UL); /* otherwise the kernel lets every wait be 50 us longer */
    options_read(&load.options, argc, argv);
    prepare(&load);
    write_request(&load);
    if (!load.options.each_new) ramp(&load);
    plan(&load);
    drive(&load);
    tally_print(&load.tally, &load.options);
    return 0;
}
