/* SPDX-License-Identifier: MIT
 *
 * See load.h. Each connection has one request at a time; an arrival that finds none free waits in a
 * line, and so do those behind it.
 *
 * A server may end a connection that is kept alive while the next request is on its way. A client
 * sends a GET again then, on a new connection (RFC 9112, 9.3.1), and so does this one: if that
 * connection has brought an answer before and nothing of this one. A request that ends on a
 * connection of its own is broken.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "load.h"

#ifdef __linux__

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_MAX = 1024, HEAD_MAX = 4096, EVENTS = 64 };

#define SECOND INT64_C(1000000000)

typedef struct answer {
    int64_t took_ns;
    int status;
} answer;

/* A connection, and the one request that it has. */
typedef struct line {
    int fd; /* -1: not connected */
    bool busy;
    bool kept;        /* an answer has come on this connection */
    int64_t meant_at; /* when its request was to begin */
    size_t sent;      /* of the request */
    char head[HEAD_MAX];
    size_t head_size; /* read, with what came behind it at once */
    bool has_head;
    int status;
    bool closes;
    size_t left; /* of the body */
} line;

typedef struct load {
    load_options options;
    struct sockaddr_in to;
    char request[REQUEST_MAX];
    size_t request_size;
    line *lines;
    uint32_t *free_lines, free_count;
    int64_t *meant; /* the moments of arrival; those before `begun` have got a connection */
    uint32_t arrivals, begun;
    answer *answers;
    uint32_t answered, refused, broken, again;
    int epoll;
    int64_t start;
} load;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* ---- when requests begin */

static double uniform(uint64_t *dice) /* above 0, at most 1 */
{
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    return ((double)(*dice >> 11) + 1) / 9007199254740992.0;
}

/* The gaps of a Poisson process are exponential. */
static void plan(load *l)
{
    const load_options *o = &l->options;
    uint64_t dice = o->seed * 2 + 1;
    double at = 0;
    for (int i = 0; i < 8; i++) {
        uniform(&dice); /* small seeds begin alike */
    }
    while (l->arrivals < o->requests) {
        at -= o->per_second > 0 ? log(uniform(&dice)) / o->per_second * (double)SECOND : 0;
        if (at > (double)o->duration_ns) {
            break;
        }
        l->meant[l->arrivals++] = l->start + (int64_t)at;
    }
}

/* ---- connections */

static void drop(load *l, line *c)
{
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
    if (c->busy) {
        c->busy = false;
        l->free_lines[l->free_count++] = (uint32_t)(c - l->lines);
    }
}

static bool connect_line(load *l, line *c)
{
    c->kept = false;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        return false;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    int failed = connect(c->fd, (struct sockaddr *)&l->to, sizeof l->to);
    return (failed == 0 || errno == EINPROGRESS) &&
           epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &event) == 0;
}

static void begin(load *l, line *c);

/* The connection has ended under its request. */
static void fail(load *l, line *c)
{
    if (c->kept && c->head_size == 0) {
        l->again++;
        close(c->fd);
        c->fd = -1;
        begin(l, c);
    } else {
        l->broken += c->sent > 0;
        l->refused += c->sent == 0;
        drop(l, c);
    }
}

static void send_on(load *l, line *c)
{
    if (c->sent < l->request_size) {
        ssize_t n = send(c->fd, l->request + c->sent, l->request_size - c->sent, MSG_NOSIGNAL);
        if (n > 0) {
            c->sent += (size_t)n;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            fail(l, c);
        }
    }
}

static void begin(load *l, line *c)
{
    c->sent = c->head_size = c->left = 0;
    c->has_head = false;
    if (c->fd < 0 && !connect_line(l, c)) {
        fail(l, c);
    } else {
        send_on(l, c);
    }
}

static void begin_next(load *l)
{
    line *c = &l->lines[l->free_lines[--l->free_count]];
    c->busy = true;
    c->meant_at = l->meant[l->begun++];
    begin(l, c);
}

/* ---- answers */

static void answered(load *l, line *c)
{
    l->answers[l->answered++] = (answer){now() - c->meant_at, c->status};
    c->kept = true;
    if (c->closes) {
        drop(l, c);
    } else {
        c->busy = false;
        l->free_lines[l->free_count++] = (uint32_t)(c - l->lines);
    }
}

/* The value of a header line, or NULL. Our servers write each on a line, with one space. */
static const char *value_of(const char *head, const char *name)
{
    const char *at = strcasestr(head, name);
    return at != NULL ? at + strlen(name) : NULL;
}

/* Understands a complete head; false if it is none. */
static bool read_head(line *c)
{
    const char *length = value_of(c->head, "\r\nContent-Length: ");
    const char *connection = value_of(c->head, "\r\nConnection: ");
    if (sscanf(c->head, "HTTP/1.1 %3d ", &c->status) != 1) {
        return false;
    }
    c->left = length != NULL ? strtoul(length, NULL, 10) : 0;
    c->closes = connection != NULL && strncasecmp(connection, "close", 5) == 0;
    c->has_head = true;
    return true;
}

/* Collects the head; what is behind its end belongs to the body. Returns how many bytes were of the
 * head, or -1 if it is not a head. */
static ssize_t take_head(line *c, const char *data, size_t size)
{
    size_t before = c->head_size;
    size_t n = size < HEAD_MAX - 1 - before ? size : HEAD_MAX - 1 - before;
    memcpy(c->head + before, data, n);
    c->head[before + n] = '\0';
    c->head_size = before + n;
    char *end = strstr(c->head, "\r\n\r\n");
    if (end == NULL) {
        return c->head_size < HEAD_MAX - 1 ? (ssize_t)n : -1;
    }
    end[2] = '\0';
    return read_head(c) ? (end + 4 - c->head) - (ssize_t)before : -1;
}

static void take(load *l, line *c, const char *data, size_t size)
{
    if (!c->has_head) {
        ssize_t n = take_head(c, data, size);
        if (n < 0) {
            fail(l, c);
            return;
        }
        data += n;
        size -= (size_t)n;
    }
    if (c->has_head && size > c->left) {
        fail(l, c); /* more than the answer */
    } else if (c->has_head) {
        c->left -= size;
        if (c->left == 0) {
            answered(l, c);
        }
    }
}

static void receive(load *l, line *c)
{
    char data[4096];
    while (c->fd >= 0) {
        ssize_t n = recv(c->fd, data, sizeof data, 0);
        if (n > 0 && c->busy) {
            take(l, c, data, (size_t)n);
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else if (n >= 0 || errno != EINTR) { /* its end, or something that nobody asked for */
            c->busy ? fail(l, c) : drop(l, c);
        }
    }
}

/* ---- all of it */

static int wait_for(load *l, int64_t until)
{
    struct epoll_event events[EVENTS];
    int64_t ns = until - now();
    int n = epoll_wait(l->epoll, events, EVENTS, ns <= 0 ? 0 : (int)((ns + 999999) / 1000000));
    for (int i = 0; i < n; i++) {
        line *c = events[i].data.ptr;
        if (c->fd >= 0 && c->busy) {
            send_on(l, c);
        }
        receive(l, c);
    }
    return n >= 0 || errno == EINTR ? 0 : errno;
}

static bool is_done(const load *l)
{
    return l->answered + l->refused + l->broken == l->arrivals;
}

static int run(load *l)
{
    int error = 0;
    int64_t last = l->arrivals > 0 ? l->meant[l->arrivals - 1] : l->start;
    int64_t end = last + l->options.patience_ns;
    while (error == 0 && !is_done(l) && now() < end) {
        while (l->begun < l->arrivals && l->free_count > 0 && l->meant[l->begun] <= now()) {
            begin_next(l);
        }
        if (!is_done(l)) { /* the last may have been refused */
            bool waits_for_moment = l->begun < l->arrivals && l->free_count > 0;
            error = wait_for(l, waits_for_moment ? l->meant[l->begun] : end);
        }
    }
    return error;
}

static int by_status_and_time(const void *a, const void *b)
{
    const answer *x = a, *y = b;
    if (x->status != y->status) {
        return x->status < y->status ? -1 : 1;
    }
    return x->took_ns < y->took_ns ? -1 : x->took_ns > y->took_ns;
}

static void sum_up(load *l, load_result *result)
{
    *result = (load_result){.meant = l->arrivals,
                            .answered = l->answered,
                            .refused = l->refused,
                            .broken = l->broken,
                            .again = l->again,
                            .late = l->arrivals - l->answered - l->refused - l->broken,
                            .began_ns = l->start,
                            .took_ns = now() - l->start};
    qsort(l->answers, l->answered, sizeof *l->answers, by_status_and_time);
    int row = 0;
    for (uint32_t from = 0, to; from < l->answered && row < LOAD_STATUSES; from = to) {
        const answer *first = &l->answers[from];
        for (to = from; to < l->answered && l->answers[to].status == first->status; to++) {}
        uint32_t count = to - from;
        result->statuses[row++] = (load_status){.status = first->status,
                                                .count = count,
                                                .p50_ns = first[(count - 1) / 2].took_ns,
                                                .p99_ns = first[(count - 1) * 99 / 100].took_ns,
                                                .max_ns = first[count - 1].took_ns};
    }
}

static int prepare(load *l)
{
    const load_options *o = &l->options;
    if (o->requests > LOAD_REQUESTS_MAX || o->connections > LOAD_CONNECTIONS_MAX ||
        !(o->per_second >= 0) || o->duration_ns < 0 || o->patience_ns < 0 || o->port == 0) {
        return EINVAL;
    }
    l->to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(o->port)};
    if (inet_pton(AF_INET, o->address, &l->to.sin_addr) != 1) {
        return EINVAL;
    }
    if (ntohl(l->to.sin_addr.s_addr) >> 24 != 127) {
        return EPERM; /* never at somebody else's machine */
    }
    int n = snprintf(l->request, REQUEST_MAX, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", o->target,
                     o->address);
    if (n < 0 || n >= REQUEST_MAX) {
        return EINVAL;
    }
    l->request_size = (size_t)n;
    l->lines = calloc(o->connections, sizeof *l->lines);
    l->free_lines = calloc(o->connections, sizeof *l->free_lines);
    l->meant = calloc(o->requests, sizeof *l->meant);
    l->answers = calloc(o->requests, sizeof *l->answers);
    if (l->lines == NULL || l->free_lines == NULL || l->meant == NULL || l->answers == NULL) {
        return ENOMEM;
    }
    for (uint32_t i = 0; i < o->connections; i++) {
        l->lines[i].fd = -1;
        l->free_lines[l->free_count++] = o->connections - 1 - i;
    }
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    return l->epoll >= 0 ? 0 : errno;
}

static void clean_up(load *l)
{
    for (uint32_t i = 0; l->lines != NULL && i < l->options.connections; i++) {
        if (l->lines[i].fd >= 0) {
            close(l->lines[i].fd);
        }
    }
    if (l->epoll >= 0) {
        close(l->epoll);
    }
    free(l->lines);
    free(l->free_lines);
    free(l->meant);
    free(l->answers);
}

int load_run(const load_options *options, load_result *result)
{
    load l = {.options = *options, .epoll = -1};
    load_options *o = &l.options;
    o->address = o->address != NULL ? o->address : "127.0.0.1";
    o->target = o->target != NULL ? o->target : "/";
    o->requests = o->requests != 0 ? o->requests : 1000;
    o->connections = o->connections != 0 ? o->connections : 64;
    o->duration_ns = o->duration_ns != 0 ? o->duration_ns : 10 * SECOND;
    o->patience_ns = o->patience_ns != 0 ? o->patience_ns : 10 * SECOND;
    int error = prepare(&l);
    if (error == 0) {
        l.start = now();
        plan(&l);
        error = run(&l);
        sum_up(&l, result);
    }
    clean_up(&l);
    return error;
}

#endif
