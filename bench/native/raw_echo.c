/* The yardstick: the least that a TCP echo server on epoll can do.
 *
 * Level-triggered epoll, one recv and one send per message, nothing else. It prints "port N", serves until every
 * connection that it accepted is closed again, and then exits. A message that cannot be sent at once is an error here:
 * the load generator keeps one small message in flight, so it cannot happen unless the measurement is broken.
 *
 * usage: raw_echo LIFETIME_S
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BATCH = 1024, BUFFER_BYTES = 65536, BACKLOG = 1024 };

static void must(int ok, const char *what) {
    if (ok) return;
    perror(what);
    exit(1);
}

static int listen_on_loopback(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    must(fd >= 0, "socket");
    must(bind(fd, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    must(listen(fd, BACKLOG) == 0, "listen");
    must(getsockname(fd, (struct sockaddr *)&address, &length) == 0, "getsockname");
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void watch(int poller, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    must(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

static int accept_all(int poller, int listener) {
    int one = 1, accepted = 0;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0) {
            must(errno == EAGAIN, "accept4");
            return accepted;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        watch(poller, fd);
        accepted++;
    }
}

/* Returns 1 when the connection ended. */
static int echo(int fd, char *buffer) {
    ssize_t got = recv(fd, buffer, BUFFER_BYTES, 0);
    if (got > 0) {
        must(send(fd, buffer, (size_t)got, MSG_NOSIGNAL) == got, "send");
        return 0;
    }
    if (got < 0 && errno == EAGAIN) return 0;
    close(fd);
    return 1;
}

int main(int argc, char **argv) {
    static struct epoll_event events[BATCH];
    static char buffer[BUFFER_BYTES];
    int open_count = 0, accepted_any = 0;
    alarm(argc > 1 ? (unsigned)atoi(argv[1]) : 60);
    int poller = epoll_create1(0);
    must(poller >= 0, "epoll_create1");
    int listener = listen_on_loopback();
    watch(poller, listener);
    while (!accepted_any || open_count > 0) {
        int ready = epoll_wait(poller, events, BATCH, -1);
        must(ready >= 0 || errno == EINTR, "epoll_wait");
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd == listener) {
                open_count += accept_all(poller, listener);
                accepted_any = 1;
            } else {
                open_count -= echo(events[i].data.fd, buffer);
            }
        }
    }
    return 0;
}
