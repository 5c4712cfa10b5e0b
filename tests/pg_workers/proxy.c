/* SPDX-License-Identifier: MIT
 *
 * A TCP proxy on a loopback port that the system picks, which can fall silent without closing.
 *
 *   proxy PORT     prints its own port, and forwards to PORT. SIGUSR1: from now on nothing is
 *                  forwarded, and what connects is taken and gets no answer; SIGUSR2: it goes on
 *   proxy free     prints a port that nobody has
 *   proxy ask PORT     sends what it reads there, and prints the answer
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS = 100 };
static volatile sig_atomic_t frozen;

static void on_signal(int number)
{
    frozen = number == SIGUSR1;
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int dial(int port)
{
    struct sockaddr_in to = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Forwards what there is; false: one side is gone. */
static int forward(int from, int to)
{
    char data[16384];
    ssize_t n = recv(from, data, sizeof data, 0);
    return n > 0 && send(to, data, (size_t)n, MSG_NOSIGNAL) == n;
}

/* For shells that cannot speak TCP. */
static int ask(int port)
{
    char data[4096];
    int fd = dial(port);
    for (size_t n; (n = fread(data, 1, sizeof data, stdin)) > 0;) {
        send(fd, data, n, MSG_NOSIGNAL);
    }
    for (ssize_t n; (n = recv(fd, data, sizeof data, 0)) > 0;) {
        fwrite(data, 1, (size_t)n, stdout);
    }
    return fd < 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "ask") == 0) {
        return ask(atoi(argv[2]));
    }
    static struct pollfd watched[1 + 2 * PAIRS]; /* the listener, then pairs */
    struct sockaddr_in mine = loopback(0);
    socklen_t size = sizeof mine;
    int listener = socket(AF_INET, SOCK_STREAM, 0), target = argc > 1 ? atoi(argv[1]) : 0;
    if (bind(listener, (struct sockaddr *)&mine, size) != 0 || listen(listener, 64) != 0 ||
        getsockname(listener, (struct sockaddr *)&mine, &size) != 0) {
        return 1;
    }
    printf("%d\n", ntohs(mine.sin_port));
    fflush(stdout);
    if (argc < 2 || strcmp(argv[1], "free") == 0) {
        return 0;
    }
    struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART: poll returns */
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    for (int i = 0; i < 1 + 2 * PAIRS; i++) {
        watched[i] = (struct pollfd){i == 0 ? listener : -1, POLLIN, 0};
    }
    for (;;) {
        if (frozen) {
            poll(NULL, 0, 100);
            continue;
        }
        if (poll(watched, 1 + 2 * PAIRS, 100) <= 0) {
            continue;
        }
        int first = -1; /* a free pair */
        for (int i = 1; i < 1 + 2 * PAIRS; i++) {
            int other = ((i - 1) ^ 1) + 1;
            if (watched[i].fd >= 0 && watched[i].revents != 0 && !frozen &&
                !forward(watched[i].fd, watched[other].fd)) {
                close(watched[i].fd);
                close(watched[other].fd);
                watched[i].fd = watched[other].fd = -1;
            }
            first = first < 0 && i % 2 == 1 && watched[i].fd < 0 ? i : first;
        }
        if (watched[0].revents != 0 && first >= 0 && !frozen) {
            int client = accept(listener, NULL, NULL), server = dial(target);
            if (server < 0) {
                close(client); /* the server is down: so it looks through us, too */
            } else {
                watched[first].fd = client;
                watched[first + 1].fd = server;
            }
        }
    }
}
