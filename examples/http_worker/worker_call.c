/* SPDX-License-Identifier: MIT
 *
 * A call from its arrival to its answer: refused, or a job that waits for its permit, runs as a
 * coroutine, on the loop of all or on a thread of its own, and ends.
 */
#include "worker_parts.h"

#ifdef __linux__

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers */

void count_answer(worker *w, int status)
{
    if (status >= 0 && status < STATUSES) {
        atomic_fetch_add(&w->answers[status], 1);
    }
}

static void respond(worker *w, server_request *request, int status, const char *body)
{
    char headers[64] = "";
    if (status == 429) {
        snprintf(headers, sizeof headers, "Retry-After: %u\r\n", atomic_load(&w->retry_after_s));
    } else if (status == 405) {
        snprintf(headers, sizeof headers, "Allow: GET, HEAD\r\n");
    }
    count_answer(w, status);
    server_respond(request, status, headers, body);
}

void call_answer(call *c, int status, const char *body)
{
    c->status = status;
    snprintf(c->body, sizeof c->body, "%s", body);
}

/* For those who cannot be served, whatever they ask. */
static const char *unavailable(const worker *w)
{
    return atomic_load(&w->stopping) ? "the worker is being stopped\n"
                                     : "the worker cannot do that now\n";
}

/* Its time is over, or its client has left, who may be there to read this after all. */
void call_give_up(call *c)
{
    bool stopping = atomic_load(&c->worker->stopping);
    call_answer(c, stopping ? 503 : 499,
                stopping ? unavailable(c->worker) : "the client has left\n");
}

/* The end of a job that a client is waiting for; the last touch, for the memory is the server's. */
static void job_is_done(bulkhead_job *job)
{
    call *c = job->arg;
    if (job->outcome == BULKHEAD_CANCELLED) {
        call_give_up(c);
    } else if (c->status == 0) { /* aborted, or there was no memory to begin */
        call_answer(c, 503, unavailable(c->worker));
    }
    respond(c->worker, c->request, c->status, c->body);
}

/* ---- arrivals, on the thread of the server */

static void get_ready(call *c)
{
    c->job.run = c->worker->options.single_thread ? call_run_on_loop : call_run_on_thread;
    c->job.arg = c;
    c->co.arg = c;
    c->co.job = &c->job; /* when the coroutine waits, the job's permit waits with it */
}

void call_arrives(server_request *request, void *context)
{
    worker *w = context;
    call *c = request->space; /* all zero */
    const char *method = request->http.method, *why;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        respond(w, request, 405, "there are only GET and HEAD\n");
        return;
    }
    c->worker = w;
    c->request = request;
    int status = call_choose(c, request->http.target, &why);
    if (status != 0) {
        respond(w, request, status, why);
        return;
    }
    get_ready(c);
    c->job.done = job_is_done;
    c->job.detached = true;
    int error = bulkhead_submit(&w->calls, &c->job); /* if it returns 0, *c may be gone */
    if (error == EAGAIN) {
        respond(w, request, 429, "too many requests\n");
    } else if (error != 0) {
        respond(w, request, 503, unavailable(w));
    }
}

/* If it waits for a permit, its place is free at once; if it runs, the handler is told; and the same
 * goes for the calls that it has made. Its memory is still there: the server has not seen its answer. */
void call_left(server_request *request, void *context)
{
    worker *w = context;
    pthread_mutex_lock(&w->family);
    for (call *c = request->space; c != NULL; c = c->inner) {
        bulkhead_cancel(&w->calls, &c->job); /* EINVAL, if it was refused */
    }
    pthread_mutex_unlock(&w->family);
}

/* Does nobody want the answer any more? Those that wait for it are looked at, too. */
bool call_is_unwanted(const call *c)
{
    worker *w = c->worker;
    pthread_mutex_lock(&w->family);
    while (c != NULL && !bulkhead_job_cancelled(&c->job)) {
        c = c->maker;
    }
    pthread_mutex_unlock(&w->family);
    return c != NULL;
}

/* ---- inner calls */

int call_make(call *maker)
{
    worker *w = maker->worker;
    call *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return ENOMEM;
    }
    c->worker = w;
    c->maker = maker;
    c->ms = maker->ms / 2;
    c->depth = maker->depth - 1;
    c->co.run = maker->co.run;
    get_ready(c);
    pthread_mutex_lock(&w->family);
    int error = bulkhead_submit(&w->calls, &c->job);
    maker->inner = error == 0 ? c : NULL;
    pthread_mutex_unlock(&w->family);
    if (error != 0) {
        free(c);
    }
    return error;
}

/* If it has not begun it never will. Else it is told, and freed when it has ended: the maker must not
 * wait for that, since the permit that the maker has may be what it needs. */
void call_drop_inner(call *maker)
{
    worker *w = maker->worker;
    call *c = maker->inner;
    if (c == NULL) {
        return;
    }
    bool ended = bulkhead_wait(&c->job, 0) == 0 || bulkhead_cancel(&w->calls, &c->job) == 0;
    pthread_mutex_lock(&w->family);
    maker->inner = NULL;
    c->maker = NULL;
    if (!ended) {
        c->next_orphan = w->orphans;
        w->orphans = c;
    }
    pthread_mutex_unlock(&w->family);
    if (ended) {
        free(c);
    }
}

void call_free_orphans(worker *w)
{
    pthread_mutex_lock(&w->family);
    for (call **at = &w->orphans; *at != NULL;) {
        call *c = *at;
        if (bulkhead_wait(&c->job, 0) == 0) {
            *at = c->next_orphan;
            free(c);
        } else {
            at = &c->next_orphan;
        }
    }
    pthread_mutex_unlock(&w->family);
}

/* ---- running */

static void count_begin(worker *w)
{
    unsigned now = atomic_fetch_add(&w->running, 1) + 1;
    unsigned peak = atomic_load(&w->peak);
    while (now > peak && !atomic_compare_exchange_weak(&w->peak, &peak, now)) {}
}

/* The handler has ended. */
static void count_end(call *c)
{
    if (call_is_unwanted(c)) {
        atomic_fetch_add(&c->worker->given_up, 1);
    }
    atomic_fetch_sub(&c->worker->running, 1);
}

/* What the figures of the limiter call a failure. */
static int result_of(const call *c)
{
    return c->status >= 500 ? c->status : 0;
}

static void ended_on_loop(loop_scheduler_coroutine *co)
{
    call *c = co->arg;
    count_end(c);
    bulkhead_finish(&c->job, result_of(c)); /* the permit goes on to the next one */
}

/* On the loop of all handlers, as the bulkhead's executor: it goes on when the coroutine waits. */
int call_run_on_loop(bulkhead_job *job)
{
    call *c = job->arg;
    c->co.done = ended_on_loop;
    count_begin(c->worker);
    int error = loop_scheduler_spawn(&c->worker->loop, &c->co);
    if (error != 0) {
        count_end(c);
        return error;
    }
    return BULKHEAD_LATER;
}

static void ended_on_thread(loop_scheduler_coroutine *co)
{
    call *c = co->arg;
    count_end(c);
    c->ended = true;
}

/* On a worker of the bulkhead, whose resource is a loop for this one coroutine. */
int call_run_on_thread(bulkhead_job *job)
{
    call *c = job->arg;
    loop_scheduler *loop = job->resource;
    c->co.done = ended_on_thread;
    count_begin(c->worker);
    int error = loop_scheduler_spawn(loop, &c->co);
    if (error != 0) {
        count_end(c);
        return error;
    }
    while (!c->ended) {
        loop_scheduler_run_once(loop, PLIM_FOREVER);
    }
    return result_of(c);
}

int call_thread_start(void *w, unsigned index, void **resource)
{
    (void)w, (void)index;
    loop_scheduler *loop = malloc(sizeof *loop);
    int error = loop != NULL ? loop_scheduler_init(loop, NULL) : ENOMEM;
    if (error != 0) {
        free(loop);
        return error;
    }
    *resource = loop;
    return 0;
}

void call_thread_stop(void *w, unsigned index, void *resource)
{
    (void)w, (void)index;
    loop_scheduler_close(resource, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER); /* nothing is left in it */
    loop_scheduler_destroy(resource);
    free(resource);
}

#endif
