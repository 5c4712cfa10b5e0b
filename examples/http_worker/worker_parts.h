/* SPDX-License-Identifier: MIT
 *
 * What the files of the worker share: worker*.c. Nobody else includes it.
 */
#ifndef HTTP_WORKER_WORKER_PARTS_H
#define HTTP_WORKER_WORKER_PARTS_H

#include <pthread.h>
#include "worker.h"

enum {
    CALLERS_MAX = 1024, /* connections: far more than run and wait, so that the rest hears 429 */
    STATUSES = 600,     /* answers are counted by their status */
    SAMPLES = 20,       /* figures of this many samples: 10 s of them */
    TEXT_MAX = 65536,   /* bytes of what the control port says, */
    BODY_MAX = 200,     /* and of the answer to a call */
    DEPTH_MAX = 64,     /* of calls that make calls */
    CALL_MS_MAX = 60 * 1000 /* of a query */
};

/* A call: a job of the worker's bulkhead, and the coroutine that handles it. Its memory is the
 * request's space; that of an inner call, which another call has made, is from the heap. */
typedef struct call call;
struct call {
    bulkhead_job job;
    loop_scheduler_coroutine co;
    worker *worker;
    server_request *request; /* NULL: an inner one: */
    const call *maker;       /* who waits for it; under the lock of the family */
    call *next_orphan;       /* if nobody does: likewise */
    bool ended;              /* with many threads, for the thread that waits for the coroutine */
    /* What is asked. */
    uint32_t ms, times, depth;
    /* The handler's. */
    uint32_t round;
    int rows;
    call *inner; /* that it has made; others read it under the lock of the family */
    /* The answer. */
    int status;
    char body[BODY_MAX];
};

/* The figures of one moment; the control thread's. */
typedef struct sample {
    int64_t at_ns;
    uint64_t refused, answered;
    bulkhead_stats limiter;
} sample;

struct worker {
    worker_options options;
    server *calls_server, *control_server;
    bulkhead calls;
    loop_scheduler loop; /* of all handlers, with a single thread */
    bool has_calls, has_loop, has_database;
    bulkhead database; /* a job there is a query on a connection */
    plim_executor queries;
    csem stop;                 /* one permit for each reason to stop */
    _Atomic int64_t within_ns; /* of worker_stop; -1: it has not been called */
    atomic_bool stopping;
    atomic_int serving_error; /* of the threads that serve */
    pthread_mutex_t family;   /* who has made which call */
    call *orphans;            /* inner calls that are to be freed when they have ended */
    /* Counted by handlers and answers, on any thread. */
    atomic_uint running, peak;
    atomic_ullong given_up, answers[STATUSES];
    atomic_uint retry_after_s; /* told with 429; the control thread computes it now and then */
    /* The control thread's. */
    loop_scheduler_timer sampling;
    sample samples[SAMPLES]; /* the last ones, in a ring */
    unsigned sample_count;
    char text[TEXT_MAX]; /* its answer */
};

/* worker_call.c */
void call_arrives(server_request *request, void *w); /* on the thread of the calls' server */
void call_left(server_request *request, void *w);    /* its client: likewise */
int call_run_on_loop(bulkhead_job *job);
int call_run_on_thread(bulkhead_job *job);
int call_thread_start(void *w, unsigned index, void **resource);
void call_thread_stop(void *w, unsigned index, void *resource);
bool call_is_unwanted(const call *c); /* any thread, until its handler has ended */
int call_make(call *maker);           /* an inner call of it; 0, or why there is none */
void call_drop_inner(call *maker);    /* which does not need it any more */
void call_free_orphans(worker *w);    /* those that have ended */
void call_answer(call *c, int status, const char *body);
void call_give_up(call *c);
void count_answer(worker *w, int status);

/* worker_handlers.c: makes a call ready for what its target says. Returns 0, or the status of the
 * refusal, and then *why says it. */
int call_choose(call *c, const char *target, const char **why);
int query_for_a_while(void *arg);

/* worker_control.c */
void control_arrives(server_request *request, void *w); /* on the control thread */
bool control_is_ready(const worker *w, const bulkhead_stats *s);

/* worker_figures.c: on the control thread */
void figures_begin(worker *w);
size_t figures_as_json(worker *w, char *out, size_t size);
size_t figures_as_metrics(worker *w, char *out, size_t size);

/* worker_page.c */
extern const char *const worker_page[];
extern const unsigned worker_page_parts;

#endif
