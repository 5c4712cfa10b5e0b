/* SPDX-License-Identifier: MIT
 *
 * A worker: an HTTP server that handles so many requests at once, lets so many wait, and refuses the
 * rest with 429. It has two ports. Calls come to the first one, and each needs a permit. Metrics,
 * health, limits and a page that shows all this are on the second one, which has a thread of its own
 * and needs no permit, so it answers however full the worker is.
 *
 *     worker_options options = worker_defaults();
 *     const char *wrong = NULL;
 *     int error = worker_options_from_env(&options, &wrong);
 *     worker *w;
 *     error = error != 0 ? error : worker_open(&w, &options);     // listens
 *     error = error != 0 ? error : worker_run(w);                 // until worker_stop
 *     worker_close(w);
 *
 * Calls run in one of two ways, with the same handlers (worker_handlers.c), which are coroutines:
 *   single thread   all on one loop. A handler that waits lets others run, and none needs a lock
 *   many threads    each on a thread of its own, which waits when the handler does
 *
 * For Linux.
 */
#ifndef HTTP_WORKER_WORKER_H
#define HTTP_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include "../../semaphore.h"
#include "../../bulkhead.h"
#include "../../loop_scheduler.h"
#include "server.h"

typedef struct worker worker;

typedef struct worker_options {
    const char *address;         /* NULL: 127.0.0.1 */
    uint16_t port, control_port; /* 0: any that is free */
    int32_t permits, queue;      /* as in bulkhead_options */
    bool single_thread;
    int32_t connections;      /* to the database, which is simulated (0: 16) */
    int (*query)(void *arg);  /* what the database does, for tests (NULL: it takes time) */
    int64_t stuck_ns;         /* not ready, when somebody has waited so long (0: 10 s) */
    int64_t sample_ns;        /* how often figures are taken (0: 500 ms) */
    int64_t head_ns, body_ns; /* of server_options */
} worker_options;

/* 10 at once, 20 waiting, a single thread: see docs/http-worker.md for the reasons. */
worker_options worker_defaults(void);

/* Reads WORKER_REQUEST_CONCURRENCY, WORKER_MAX_QUEUE_LENGTH and WORKER_USE_SINGLE_THREAD, or else
 * WORKER_DEFAULT_REQUEST_CONCURRENCY and so on; what is set nowhere, or empty, stays as it is.
 * "null" lifts a limit; the third is "true" or "false". Returns 0; EINVAL, and then *wrong is the
 * name of the variable, and options are left alone. */
int worker_options_from_env(worker_options *options, const char **wrong);

/* Listens. Returns 0, EINVAL, ENOMEM, or what else the system says; then *out is NULL. */
int worker_open(worker **out, const worker_options *options);

/* Serves until it is stopped and over. Returns 0, or an errno value. */
int worker_run(worker *w);

/* Stops: it is not ready any more, listens no more, and answers what it has accepted. What has not
 * been answered within this time gets 503, and handlers are told. Any thread, or a signal handler;
 * never blocks; only the first call counts. */
void worker_stop(worker *w, int64_t within_ns);

/* Frees everything. Requires: worker_run has returned, or was never called. NULL is ignored. */
void worker_close(worker *w);

uint16_t worker_port(const worker *w);
uint16_t worker_control_port(const worker *w);

/* What the handlers themselves have counted: any thread. */
typedef struct worker_handled {
    uint32_t running, peak; /* handlers that have begun and not ended */
    uint64_t given_up;      /* that ended early, since nobody wanted the answer any more */
} worker_handled;
worker_handled worker_handlers(const worker *w);

/* The limiter of the calls, and what the calls' server has counted. The second: when worker_run has
 * returned. */
bulkhead_stats worker_limiter(worker *w);
server_counts worker_served(const worker *w);

#endif
