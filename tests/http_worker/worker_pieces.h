/* SPDX-License-Identifier: MIT
 *
 * What the tests of the worker share: a worker on a thread of its own, whose database waits at a gate
 * or takes the time that the call says.
 */
#ifndef HTTP_WORKER_WORKER_PIECES_H
#define HTTP_WORKER_WORKER_PIECES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef PLIM_USE_PTHREADS
#define PLIM_USE_PTHREADS
#endif
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "../../examples/http_worker/worker.h"
#include "../../examples/http_worker/load.h"
#include "../support.h"
#include "client.h"

static struct {
    worker *w;
    pthread_t thread;
    int error; /* of worker_run */
    atomic_bool gate_is_open;
} it;

/* A query that ends when the test says so. */
static inline int wait_at_gate(void *arg)
{
    (void)arg;
    while (!atomic_load(&it.gate_is_open)) {
        rest(PLIM_US(500));
    }
    return 1;
}

/* With a connection to the database for everybody, so that only the worker's limits count. */
static inline worker_options limited(bool single_thread, int32_t permits, int32_t queue)
{
    worker_options options = worker_defaults();
    options.permits = permits;
    options.queue = queue;
    options.single_thread = single_thread;
    options.connections = 128;
    options.sample_ns = PLIM_MS(10);
    return options;
}

static inline worker_options gated(bool single_thread, int32_t permits, int32_t queue)
{
    worker_options options = limited(single_thread, permits, queue);
    options.query = wait_at_gate;
    return options;
}

static inline void *run_worker(void *arg)
{
    (void)arg;
    it.error = worker_run(it.w);
    return NULL;
}

/* 0, or why there is no worker. */
static inline int begin(const worker_options *options)
{
    if (it.w != NULL) {
        printf("\na test that failed has left its worker: the others cannot run\n");
        exit(1);
    }
    atomic_store(&it.gate_is_open, false);
    int error = worker_open(&it.w, options);
    if (error == 0) {
        start(&it.thread, run_worker, NULL);
    }
    return error;
}

static inline void open_gate(void)
{
    atomic_store(&it.gate_is_open, true);
}

/* What was counted at the end. */
static bulkhead_stats limiter;
static server_counts served;
static worker_handled handlers;

/* Waits for the end of worker_run. Is everything answered, and has every job its one end? */
static inline bool has_ended_well(void)
{
    join(it.thread);
    limiter = worker_limiter(it.w);
    served = worker_served(it.w);
    handlers = worker_handlers(it.w);
    worker_close(it.w);
    it.w = NULL;
    bool answered = served.requests == served.answered + served.lost + served.taken_back;
    bool ended = limiter.accepted ==
                 limiter.succeeded + limiter.failed + limiter.cancelled + limiter.aborted;
    bool left = limiter.in_use != 0 || limiter.queued != 0 || handlers.running != 0;
    if (it.error != 0 || !answered || !ended || left) {
        printf("\nerror %d; %d requests: %d answered, %d lost, %d taken back; %d accepted\n",
               it.error, (int)served.requests, (int)served.answered, (int)served.lost,
               (int)served.taken_back, (int)limiter.accepted);
    }
    return it.error == 0 && answered && ended && !left;
}

static inline bool ended_well(void)
{
    open_gate();
    worker_stop(it.w, PLIM_S(PATIENCE_S));
    return has_ended_well();
}

/* A client that has just asked; its answer is yet to come. */
static inline client *asks(const char *request)
{
    client *c = call_number(worker_port(it.w));
    if (c != NULL && !say(c, request)) {
        printf("\na request could not be sent\n");
    }
    return c;
}

/* One answer of the control port: its status; the text is in `told` until the next call. */
static char told[65536];
static inline int control(const char *request)
{
    client *c = call_number(worker_control_port(it.w));
    bool head_only = strncmp(request, "HEAD", 4) == 0;
    int status = c != NULL && say(c, request) ? hear_response(c, head_only) : -1;
    snprintf(told, sizeof told, "%.*s", status == -1 ? 0 : (int)c->used, c->data);
    hang_up(c);
    return status;
}

/* Changes limits by a form; an origin of "" is left out. */
static inline int change(const char *host, const char *origin, const char *form)
{
    char request[512];
    snprintf(request, sizeof request,
             "POST /limits HTTP/1.1\r\nHost: %s\r\n%s%s%sContent-Length: %zu\r\n\r\n%s", host,
             origin[0] != '\0' ? "Origin: " : "", origin, origin[0] != '\0' ? "\r\n" : "",
             strlen(form), form);
    return control(request);
}

static inline bool is_full(uint32_t in_use, uint32_t queued)
{
    bulkhead_stats s = worker_limiter(it.w);
    return s.in_use == in_use && s.queued == queued;
}

/* Has the server refused so many with 429? */
static inline bool have_been_refused(uint64_t calls)
{
    return worker_limiter(it.w).rejected == calls;
}

/* A client of load.h on a thread. */
typedef struct loading {
    load_options options;
    load_result result;
    int error;
    plim_thread thread;
} loading;

static inline plim_thread_result load_it(void *arg)
{
    loading *l = arg;
    l->error = load_run(&l->options, &l->result);
    return 0;
}

static inline void start_loading(loading *l, uint16_t port, const char *target)
{
    l->options.port = port;
    l->options.target = target;
    start(&l->thread, load_it, l);
}

#endif
