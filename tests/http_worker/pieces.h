/* SPDX-License-Identifier: MIT
 *
 * What the tests of the server share: a server on a thread of its own, whose handler does what the
 * target says, and a client that says exactly which bytes.
 */
#ifndef HTTP_WORKER_PIECES_H
#define HTTP_WORKER_PIECES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef PLIM_USE_PTHREADS
#define PLIM_USE_PTHREADS
#endif
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "../../examples/http_worker/server.h"
#include "../support.h"
#include "../greatest.h"
#include "client.h"

enum { SPACE = sizeof(loop_scheduler_timer) + 1 };

/* ---- the server */

enum { HELD_MAX = 64, POOL = 3, SLOW_MS = 20 };

/* What belongs to the server's thread is read by others with look(), or when it has ended. */
static struct {
    server *s;
    pthread_t thread;
    int error; /* of server_run */
    server_request *held[HELD_MAX];
    int held_count; /* the server's thread's */
    atomic_int asked, held_now, left, dirty;
    /* The pool: threads that answer what is asked as /pool. */
    pthread_mutex_t lock;
    pthread_cond_t more;
    server_request *line[1024];
    unsigned head, tail;
    bool ended;
    pthread_t pool[POOL];
} it;

static char large[LARGE + 1];

static inline void *answer_in_pool(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&it.lock);
    for (;;) {
        while (it.head == it.tail && !it.ended) {
            pthread_cond_wait(&it.more, &it.lock);
        }
        if (it.head == it.tail) {
            break;
        }
        server_request *request = it.line[it.head++ % 1024];
        pthread_mutex_unlock(&it.lock);
        server_respond(request, 200, NULL, request->http.target);
        pthread_mutex_lock(&it.lock);
    }
    pthread_mutex_unlock(&it.lock);
    return NULL;
}

static inline void give_to_pool(server_request *request)
{
    pthread_mutex_lock(&it.lock);
    it.line[it.tail++ % 1024] = request;
    pthread_cond_signal(&it.more);
    pthread_mutex_unlock(&it.lock);
}

static inline void answer_slowly(loop_scheduler_timer *timer, int status)
{
    (void)status;
    server_respond(timer->arg, 200, NULL, "slowly");
}

static inline bool asks_for(const server_request *request, const char *target)
{
    return strncmp(request->http.target, target, strlen(target)) == 0;
}

static inline void handle(server_request *request, void *context)
{
    (void)context;
    atomic_fetch_add(&it.asked, 1);
    unsigned char *last = (unsigned char *)request->space + SPACE - 1;
    atomic_fetch_add(&it.dirty, *last != 0);
    *last = 1;
    if (asks_for(request, "/hold")) {
        it.held[it.held_count++] = request;
        atomic_store(&it.held_now, it.held_count);
    } else if (asks_for(request, "/pool")) {
        give_to_pool(request);
    } else if (asks_for(request, "/slow")) {
        loop_scheduler_timer *timer = request->space;
        *timer = (loop_scheduler_timer){.run = answer_slowly, .arg = request};
        loop_scheduler_timer_start(server_loop(it.s), timer, PLIM_MS(SLOW_MS), 0);
    } else if (asks_for(request, "/large")) {
        server_respond(request, 200, NULL, large);
    } else if (asks_for(request, "/echo")) {
        http_response echo = {
            .status = 200, .body = request->http.body, .body_size = request->http.body_size};
        server_respond_with(request, &echo);
    } else {
        server_respond(request, 200, "X-A: b\r\n", request->http.target);
    }
}

static inline void client_left(server_request *request, void *context)
{
    (void)request;
    (void)context;
    atomic_fetch_add(&it.left, 1);
}

static inline void handle_health(server_request *request, void *context)
{
    (void)context;
    server_respond(request, 200, NULL, "health");
}

static inline void *serve(void *arg)
{
    (void)arg;
    it.error = server_run(it.s);
    return NULL;
}

/* Times that no test waits for, unless it says so. */
static inline server_options patient(void)
{
    server_options options = {.ports = {{.handler = handle, .left = client_left, .space = SPACE},
                                        {.handler = handle_health, .to_the_end = true}},
                              .idle_ns = PLIM_S(PATIENCE_S),
                              .head_ns = PLIM_S(PATIENCE_S),
                              .body_ns = PLIM_S(PATIENCE_S),
                              .write_ns = PLIM_S(PATIENCE_S),
                              .linger_ns = PLIM_S(PATIENCE_S)};
    return options;
}

/* 0, or why there is no server. */
static inline int begin(const server_options *options)
{
    if (it.s != NULL) {
        printf("\na test that failed has left its server: the others cannot run\n");
        exit(1);
    }
    memset(&it, 0, sizeof it);
    int error = server_open(&it.s, options);
    if (error != 0) {
        return error;
    }
    pthread_mutex_init(&it.lock, NULL);
    pthread_cond_init(&it.more, NULL);
    for (int i = 0; i < POOL; i++) {
        start(&it.pool[i], answer_in_pool, NULL);
    }
    start(&it.thread, serve, NULL);
    return 0;
}

/* Waits for the end of server_run; what it counted is still there. */
static inline int await_end(void)
{
    join(it.thread);
    pthread_mutex_lock(&it.lock);
    it.ended = true;
    pthread_cond_broadcast(&it.more);
    pthread_mutex_unlock(&it.lock);
    for (int i = 0; i < POOL; i++) {
        join(it.pool[i]);
    }
    pthread_mutex_destroy(&it.lock);
    pthread_cond_destroy(&it.more);
    return it.error;
}

static inline void close_server(void)
{
    server_close(it.s);
    it.s = NULL;
}

/* The end: everything is answered and closed, every request has one outcome, and each had a clean
 * space. The counts are left to look at. */
static server_counts counts;
static inline bool ended_well(void)
{
    server_stop(it.s, PLIM_S(PATIENCE_S));
    int error = await_end();
    counts = server_count(it.s);
    bool empty = server_connections(it.s, 0) == 0 && server_connections(it.s, 1) == 0;
    close_server();
    bool balanced = counts.requests == counts.answered + counts.lost + counts.taken_back;
    if (error != 0 || !balanced || !empty || it.dirty != 0) {
        printf("\nerror %d, %d dirty; %d requests: %d answered, %d lost, %d taken back\n", error,
               it.dirty, (int)counts.requests, (int)counts.answered, (int)counts.lost,
               (int)counts.taken_back);
    }
    return error == 0 && balanced && empty && it.dirty == 0;
}

static inline int release_held(void *arg)
{
    (void)arg;
    int error = 0;
    for (int i = 0; i < it.held_count; i++) {
        error = server_respond(it.held[i], 200, NULL, it.held[i]->http.target);
    }
    it.held_count = 0;
    return error;
}

/* Answers what is held, on the server's thread. Returns what the last server_respond did. */
static inline int release(void)
{
    int result = -1;
    loop_scheduler_call(server_loop(it.s), release_held, NULL, &result);
    return result;
}

static inline int read_counts(void *arg)
{
    *(server_counts *)arg = server_count(it.s);
    return 0;
}

static inline server_counts look(void)
{
    server_counts now = {0};
    loop_scheduler_call(server_loop(it.s), read_counts, &now, &(int){0});
    return now;
}

/* ---- its clients */

static inline int dial_port(int port)
{
    return dial_number(server_port_number(it.s, port));
}

static inline client *dial(int port)
{
    return call_number(server_port_number(it.s, port));
}

#endif
