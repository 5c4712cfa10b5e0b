/* SPDX-License-Identifier: MIT
 *
 * The worker as a whole: its parts, its threads, and its end.
 *
 *   thread of the calls' server   reads and writes, submits, refuses; runs no handler
 *   thread of the control port    likewise, for what needs no permit
 *   with a single thread          that of the loop: runs all handlers
 *   with many threads             the workers of the bulkhead: a handler each
 *   the database's threads        a query each
 *   whoever calls worker_run      waits for the end, and sees to it
 */
#include "worker_parts.h"

#ifdef __linux__

#include <stdlib.h>

/* ---- the beginning */

static int open_database(worker *w)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = w->options.connections,
                                .flags = BULKHEAD_TIMINGS,
                                .name = "database"};
    int error = bulkhead_init(&w->database, &options);
    w->has_database = error == 0;
    w->queries = bulkhead_executor(&w->database);
    return error;
}

static int open_loop(worker *w)
{
    loop_scheduler_options options = {.name = "handlers"};
    if (!w->options.single_thread) {
        return 0;
    }
    int error = loop_scheduler_init(&w->loop, &options);
    w->has_loop = error == 0;
    return error != 0 ? error : loop_scheduler_start(&w->loop);
}

static int open_calls(worker *w)
{
    plim_executor executor = loop_scheduler_executor(&w->loop);
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = w->options.permits,
                                .queue = w->options.queue,
                                .flags = BULKHEAD_TIMINGS,
                                .name = "handler"};
    if (w->options.single_thread) {
        options.executor = &executor;
    } else {
        options.worker_start = call_thread_start;
        options.worker_stop = call_thread_stop;
    }
    int error = bulkhead_init(&w->calls, &options);
    w->has_calls = error == 0;
    return error;
}

static int open_servers(worker *w)
{
    server_options calls = {.address = w->options.address,
                            .ports = {{.port = w->options.port,
                                       .handler = call_arrives,
                                       .left = call_left,
                                       .context = w,
                                       .space = sizeof(call),
                                       .max_connections = CALLERS_MAX}},
                            .limits = {.body = 4096},
                            .max_response = 1024,
                            .head_ns = w->options.head_ns,
                            .body_ns = w->options.body_ns};
    server_options control = {.address = w->options.address,
                              .ports = {{.port = w->options.control_port,
                                         .handler = control_arrives,
                                         .context = w,
                                         .max_connections = 64}},
                              .max_response = TEXT_MAX + 1024};
    int error = server_open(&w->calls_server, &calls);
    return error != 0 ? error : server_open(&w->control_server, &control);
}

int worker_open(worker **out, const worker_options *options)
{
    *out = NULL;
    worker *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return ENOMEM;
    }
    w->options = *options;
    worker_options *o = &w->options;
    o->connections = o->connections != 0 ? o->connections : 16;
    o->query = o->query != NULL ? o->query : query_for_a_while;
    o->stuck_ns = o->stuck_ns != 0 ? o->stuck_ns : PLIM_S(10);
    o->sample_ns = o->sample_ns != 0 ? o->sample_ns : PLIM_MS(500);
    csem_init(&w->stop, 0);
    pthread_mutex_init(&w->family, NULL);
    atomic_init(&w->within_ns, -1);
    atomic_init(&w->retry_after_s, 1);
    int error = open_database(w);
    error = error != 0 ? error : open_loop(w);
    error = error != 0 ? error : open_calls(w);
    error = error != 0 ? error : open_servers(w);
    if (error != 0) {
        worker_close(w);
        return error;
    }
    figures_begin(w);
    *out = w;
    return 0;
}

/* ---- serving */

static void *serve(worker *w, server *s)
{
    int error = server_run(s);
    if (error != 0) {
        atomic_store(&w->serving_error, error);
        csem_release(&w->stop);
    }
    return NULL;
}

static void *serve_calls(void *w)
{
    return serve(w, ((worker *)w)->calls_server);
}

static void *serve_control(void *w)
{
    return serve(w, ((worker *)w)->control_server);
}

/* Everything that was let in is answered in this time; then the rest, with 503. */
static void drain(worker *w)
{
    int64_t within_ns = atomic_load(&w->within_ns);
    within_ns = within_ns > 0 ? within_ns : 1;
    atomic_store(&w->stopping, true); /* not ready */
    server_stop(w->calls_server, within_ns);
    /* When the time is over this ends what waits, and tells what runs. A handler that never looks
     * keeps the worker here; its client has had its answer. */
    if (bulkhead_close(&w->calls, BULKHEAD_DRAIN, within_ns) != 0) {
        bulkhead_close(&w->calls, BULKHEAD_DRAIN, PLIM_FOREVER);
    }
}

int worker_run(worker *w)
{
    pthread_t calls, control;
    int error = pthread_create(&control, NULL, serve_control, w);
    if (error != 0) {
        return error;
    }
    error = pthread_create(&calls, NULL, serve_calls, w);
    if (error == 0) {
        csem_acquire(&w->stop);
        drain(w);
        pthread_join(calls, NULL);
    }
    server_stop(w->control_server, PLIM_MS(100)); /* health and metrics were there to the end */
    pthread_join(control, NULL);
    return error != 0 ? error : atomic_load(&w->serving_error);
}

void worker_stop(worker *w, int64_t within_ns)
{
    int64_t never = -1;
    if (atomic_compare_exchange_strong(&w->within_ns, &never, within_ns > 0 ? within_ns : 0)) {
        csem_release(&w->stop);
    }
}

/* From the outside in: who brings work ends before who does it. */
void worker_close(worker *w)
{
    if (w == NULL) {
        return;
    }
    if (w->has_calls) {
        bulkhead_close(&w->calls, BULKHEAD_ABORT, PLIM_FOREVER);
        call_free_orphans(w);
        bulkhead_destroy(&w->calls);
    }
    server_close(w->calls_server);
    server_close(w->control_server);
    if (w->has_loop) {
        loop_scheduler_close(&w->loop, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER);
        loop_scheduler_destroy(&w->loop);
    }
    if (w->has_database) {
        bulkhead_close(&w->database, BULKHEAD_DRAIN, PLIM_FOREVER);
        bulkhead_destroy(&w->database);
    }
    pthread_mutex_destroy(&w->family);
    free(w);
}

/* ---- what others ask */

uint16_t worker_port(const worker *w)
{
    return server_port_number(w->calls_server, 0);
}

uint16_t worker_control_port(const worker *w)
{
    return server_port_number(w->control_server, 0);
}

worker_handled worker_handlers(const worker *w)
{
    worker_handled handled = {.running = atomic_load(&w->running),
                              .peak = atomic_load(&w->peak),
                              .given_up = atomic_load(&w->given_up)};
    return handled;
}

bulkhead_stats worker_limiter(worker *w)
{
    return bulkhead_snapshot(&w->calls);
}

server_counts worker_served(const worker *w)
{
    return server_count(w->calls_server);
}

#endif
