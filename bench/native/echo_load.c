/* The load: N connections to an echo server on loopback, one message in flight on each, every byte checked.
 *
 * It sends WARMUP messages that are not measured, then MESSAGES that are, and reads the CPU clock of the server's
 * process before and after those: the figure is then free of start-up, accepting and warming. It ends by itself: after
 * the last answer, at the first wrong byte, or after TIMEOUT_S.
 *
 * usage: echo_load PORT CONNECTIONS BYTES WARMUP MESSAGES TIMEOUT_S SERVER_PID
 * SERVER_PID 0 means that nobody wants the server's CPU time. Prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 10000, BYTES_MAX = 65536, BATCH = 1024 };
enum { EXIT_USAGE = 2, EXIT_WRONG_ANSWER = 3, EXIT_TIMEOUT = 4 };

struct connection {
    int fd;
    unsigned sequence; /* of the message in flight */
    int received;      /* bytes of its answer so far */
};

struct load {
    struct connection *connections;
    int poller, connection_count, message_bytes;
    long to_send, to_receive; /* in this phase */
};

static void fail(int code, const char *what) {
    fprintf(stderr, "echo_load: %s: %s\n", what, strerror(errno));
    exit(code);
}

static void on_timeout(int signal_number) {
    static const char message[] = "echo_load: time is up before the last answer\n";
    (void)signal_number;
    if (write(2, message, sizeof message - 1) < 0) _exit(1);
    _exit(EXIT_TIMEOUT);
}

static long long clock_ns(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now) != 0) fail(1, "clock_gettime");
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* No two neighbouring messages, connections or bytes look the same. */
static unsigned char pattern(int connection, unsigned sequence, int byte) {
    return (unsigned char)(connection * 31 + sequence * 7 + byte);
}

static void send_next(struct load *load, int number) {
    unsigned char message[BYTES_MAX];
    struct connection *connection = &load->connections[number];
    connection->sequence++;
    connection->received = 0;
    for (int i = 0; i < load->message_bytes; i++) message[i] = pattern(number, connection->sequence, i);
    if (send(connection->fd, message, (size_t)load->message_bytes, MSG_NOSIGNAL) != load->message_bytes) fail(1, "send");
    load->to_send--;
}

static void receive(struct load *load, int number) {
    unsigned char answer[BYTES_MAX];
    struct connection *connection = &load->connections[number];
    ssize_t got = recv(connection->fd, answer, sizeof answer, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) fail(EXIT_WRONG_ANSWER, "the server closed a connection");
    for (int i = 0; i < got; i++, connection->received++) {
        if (connection->received >= load->message_bytes ||
            answer[i] != pattern(number, connection->sequence, connection->received))
            fail(EXIT_WRONG_ANSWER, "the answer is not what was sent");
    }
    if (connection->received < load->message_bytes) return;
    load->to_receive--;
    if (load->to_send > 0) send_next(load, number);
}

static void run_phase(struct load *load, long messages) {
    struct epoll_event events[BATCH];
    load->to_send = load->to_receive = messages;
    for (int i = 0; i < load->connection_count && load->to_send > 0; i++) send_next(load, i);
    while (load->to_receive > 0) {
        int ready = epoll_wait(load->poller, events, BATCH, -1);
        if (ready < 0 && errno != EINTR) fail(1, "epoll_wait");
        for (int i = 0; i < ready; i++) receive(load, (int)events[i].data.u32);
    }
}

static void connect_all(struct load *load, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int one = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < load->connection_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (unsigned)i};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0) fail(1, "socket");
        if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail(1, "connect");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (epoll_ctl(load->poller, EPOLL_CTL_ADD, fd, &event) != 0) fail(1, "epoll_ctl");
        load->connections[i].fd = fd;
    }
}

static void measure(struct load *load, long warmup, long messages, pid_t server) {
    clockid_t server_clock = CLOCK_MONOTONIC;
    if (server != 0 && (errno = clock_getcpuclockid(server, &server_clock)) != 0) fail(1, "clock_getcpuclockid");
    if (warmup > 0) run_phase(load, warmup);
    long long server_ns = server ? clock_ns(server_clock) : 0, wall_ns = clock_ns(CLOCK_MONOTONIC);
    long long own_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    run_phase(load, messages);
    own_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own_ns;
    wall_ns = clock_ns(CLOCK_MONOTONIC) - wall_ns;
    server_ns = server ? clock_ns(server_clock) - server_ns : 0;
    printf("{\"messages\": %ld, \"server_cpu_ns\": %lld, \"load_cpu_ns\": %lld, \"wall_ns\": %lld}\n", messages,
           server_ns, own_ns, wall_ns);
}

int main(int argc, char **argv) {
    struct load load = {0};
    if (argc != 8) {
        fprintf(stderr, "usage: echo_load PORT CONNECTIONS BYTES WARMUP MESSAGES TIMEOUT_S SERVER_PID\n");
        return EXIT_USAGE;
    }
    load.connection_count = atoi(argv[2]);
    load.message_bytes = atoi(argv[3]);
    if (load.connection_count < 1 || load.connection_count > CONNECTIONS_MAX || load.message_bytes < 1 ||
        load.message_bytes > BYTES_MAX) {
        fprintf(stderr, "echo_load: 1 to %d connections, 1 to %d bytes\n", CONNECTIONS_MAX, BYTES_MAX);
        return EXIT_USAGE;
    }
    signal(SIGALRM, on_timeout);
    alarm((unsigned)atoi(argv[6]));
    load.connections = calloc((size_t)load.connection_count, sizeof *load.connections);
    load.poller = epoll_create1(0);
    if (load.connections == NULL || load.poller < 0) fail(1, "start");
    connect_all(&load, atoi(argv[1]));
    measure(&load, atol(argv[4]), atol(argv[5]), (pid_t)atoi(argv[7]));
    return 0;
}
