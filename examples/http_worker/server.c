/* SPDX-License-Identifier: MIT
 *
 * The server as a whole: listening, epoll with the loop inside, the beginning and the end.
 * port.c has what listens, connection.c what happens on a connection.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "connection.h"

#ifdef __linux__

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 64, MIN_RESPONSE = 512 /* what the server itself says must fit */ };

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return PLIM_S(now.tv_sec) + now.tv_nsec;
}

/* ---- epoll */

void watch(server *s, watched *w, uint32_t interest)
{
    if (w->interest == interest) {
        return;
    }
    struct epoll_event event = {.events = interest, .data.ptr = w};
    int how = w->interest == UNWATCHED ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    /* If the system has no memory for it, the time of the connection ends it. */
    if (epoll_ctl(s->epoll, how, w->fd, &event) == 0) {
        w->interest = interest;
    }
}

/* Closes it, and so epoll forgets it. What epoll has told already is ignored by serve_round. */
void unwatch(watched *w)
{
    if (w->fd >= 0) {
        close(w->fd);
        w->fd = -1;
    }
}

/* ---- the end */

/* The time for the handlers is over. */
static void time_to_stop_is_over(loop_scheduler_timer *timer, int status)
{
    server *s = timer->arg;
    for (int i = 0; i < SERVER_PORTS && status == 0; i++) {
        if (s->ports[i].ending) {
            port_end_connections(&s->ports[i], true);
        }
    }
}

static void end_ports(server *s, bool to_the_end, int64_t within_ns)
{
    for (int i = 0; i < SERVER_PORTS; i++) {
        if (s->ports[i].options.to_the_end == to_the_end) {
            port_end(&s->ports[i]);
        }
    }
    loop_scheduler_timer_start(&s->loop, &s->deadline, within_ns, 0);
}

static void begin_to_stop(loop_scheduler_task *task, int status)
{
    server *s = task->arg;
    if (status == 0) {
        atomic_store_explicit(&s->stopping, true, memory_order_relaxed);
        end_ports(s, false, atomic_load(&s->within_ns));
    }
}

void server_stop(server *s, int64_t within_ns)
{
    int64_t never = -1;
    if (atomic_compare_exchange_strong(&s->within_ns, &never, within_ns > 0 ? within_ns : 0)) {
        loop_scheduler_post(&s->loop, &s->stop);
    }
}

/* Have the ports that end no connection any more? */
static bool is_done(const server *s)
{
    for (int i = 0; i < SERVER_PORTS; i++) {
        if (s->ports[i].ending && s->ports[i].used > 0) {
            return false;
        }
    }
    return true;
}

static bool all_are_ending(const server *s)
{
    for (int i = 0; i < SERVER_PORTS; i++) {
        if (!s->ports[i].ending) {
            return false;
        }
    }
    return true;
}

/* When the ports that end are done, those that go on to the end follow; and then all is over. */
static void look_for_end(server *s)
{
    if (is_done(s) && !all_are_ending(s)) {
        end_ports(s, true, s->options.linger_ns);
    }
    s->over = is_done(s) && all_are_ending(s);
}

/* ---- serving */

/* What epoll_wait wants: milliseconds, rounded up, or it would be asked again and again. */
static int milliseconds(int64_t ns)
{
    if (ns == PLIM_FOREVER) {
        return -1;
    }
    return ns / PLIM_MS(1) >= INT_MAX ? INT_MAX : (int)((ns + PLIM_MS(1) - 1) / PLIM_MS(1));
}

static int serve_round(server *s)
{
    struct epoll_event events[EVENTS];
    int64_t wait_ns = loop_scheduler_next_timeout(&s->loop);
    int n = epoll_wait(s->epoll, events, EVENTS, milliseconds(wait_ns));
    s->counts.rounds++;
    if (n < 0 && errno != EINTR) {
        return errno;
    }
    for (int i = 0; i < n; i++) {
        watched *w = events[i].data.ptr;
        if (w->fd >= 0) { /* else it was closed in this round */
            w->ready(w, events[i].events);
        }
    }
    int error = loop_scheduler_poll(&s->loop);
    for (int i = 0; i < SERVER_PORTS; i++) {
        port_recycle(&s->ports[i]);
    }
    return error == EAGAIN ? 0 : error; /* EAGAIN: it had nothing to do */
}

int server_run(server *s)
{
    int error = 0;
    while (error == 0 && !s->over) {
        error = serve_round(s);
        if (atomic_load_explicit(&s->stopping, memory_order_relaxed)) {
            look_for_end(s);
        }
    }
    return error;
}

/* ---- the beginning */

static void loop_is_ready(watched *w, uint32_t events)
{
    (void)w;
    (void)events; /* it is polled in each round anyway */
}

static void use_default(int64_t *ns, int64_t otherwise)
{
    *ns = *ns != 0 ? *ns : otherwise;
}

static void use_defaults(server_options *o)
{
    o->max_response = o->max_response != 0 ? o->max_response : 32768;
    use_default(&o->idle_ns, PLIM_S(60));
    use_default(&o->head_ns, PLIM_S(10));
    use_default(&o->body_ns, PLIM_S(10));
    use_default(&o->write_ns, PLIM_S(10));
    use_default(&o->linger_ns, PLIM_S(1));
    use_default(&o->spare_ns, PLIM_S(1));
}

static int open_all(server *s)
{
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    int fd = loop_scheduler_fd(&s->loop);
    if (s->epoll < 0 || fd < 0) {
        return errno;
    }
    s->loop_watched = (watched){.ready = loop_is_ready, .fd = fd, .interest = UNWATCHED};
    watch(s, &s->loop_watched, EPOLLIN);
    int error = s->loop_watched.interest == EPOLLIN ? 0 : ENOMEM;
    for (int i = 0; i < SERVER_PORTS && error == 0; i++) {
        error = port_open(s, i);
    }
    return error;
}

int server_open(server **out, const server_options *options)
{
    *out = NULL;
    if (options->max_response != 0 && options->max_response < MIN_RESPONSE) {
        return EINVAL;
    }
    server *s = calloc(1, sizeof *s);
    int error = s != NULL ? loop_scheduler_init(&s->loop, NULL) : ENOMEM;
    if (error != 0) {
        free(s);
        return error;
    }
    s->options = *options;
    use_defaults(&s->options);
    s->epoll = s->ports[0].watched.fd = s->ports[1].watched.fd = -1;
    s->stop = (loop_scheduler_task){.run = begin_to_stop, .arg = s};
    s->deadline = (loop_scheduler_timer){.run = time_to_stop_is_over, .arg = s};
    atomic_init(&s->within_ns, -1);
    error = open_all(s);
    if (error != 0) {
        server_close(s);
        s = NULL;
    }
    *out = s;
    return error;
}

void server_close(server *s)
{
    if (s == NULL) {
        return;
    }
    if (s->epoll >= 0) {
        close(s->epoll); /* before the loop's descriptor goes */
    }
    /* Nobody runs it any more, so this thread sees to what is left: timers, which do nothing now. */
    loop_scheduler_close(&s->loop, LOOP_SCHEDULER_NOW, PLIM_FOREVER);
    loop_scheduler_destroy(&s->loop);
    for (int i = 0; i < SERVER_PORTS; i++) {
        port_close(&s->ports[i]);
    }
    free(s);
}

loop_scheduler *server_loop(server *s)
{
    return &s->loop;
}

server_counts server_count(const server *s)
{
    return s->counts;
}

uint32_t server_connections(const server *s, int i)
{
    return s->ports[i].used;
}

#endif
