/* SPDX-License-Identifier: MIT
 *
 * The measured loops of bench_bulkhead.c, generated for one contestant; the types before them come
 * once. C11 and C++20. Before each include that is to generate something:
 *
 *   BENCH_ID                        what its contestant is called
 *   BENCH_LABEL                     what the tables call it
 *   BENCH_KIND                      BENCH_LIMIT, BENCH_OURS or BENCH_PEER
 *   BENCH_SCENARIOS                 the scenarios that it takes part in
 *   BENCH_TYPE                      the type of the object
 *   BENCH_CREATE(s, workers, producers)
 *   BENCH_DESTROY(s)                and the calls, s being a pointer to it
 * and either, where a thread alone does it all the time,
 *   BENCH_ONCE(s)                   a permit taken and given back, or a refusal
 * or, of a pool of workers,
 *   BENCH_JOB                       the type of a job, that is also its future
 *   BENCH_BOUND                     BENCH_BOUNDED if it lets only 1024 wait, else BENCH_UNBOUNDED
 *   BENCH_PREPARE(job)              before it is handed over for the first time; its memory is 0
 *   BENCH_SUBMIT(s, job, producer)  an empty job; waits for a place. Producers are numbered from 0
 *   BENCH_WAIT(s, job)              until it is done
 *
 * All are undefined again at the end. Every contestant runs exactly these lines.
 */
#ifndef PLIM_BENCH_BULKHEAD_LOOPS_H
#define PLIM_BENCH_BULKHEAD_LOOPS_H

#include "bench.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The scenarios; throughput with one producer and with two are apart, because an event loop is only
 * ever one. */
enum { PERMIT = 1, REFUSAL = 2, FLOOD_1 = 4, FLOOD_2 = 8, TRIP = 16 };
enum { MALLOCS = 32, PRODUCERS = 64, DEPTH = 128, CONTENDED = 256 };
enum { FLOOD = FLOOD_1 | FLOOD_2, ALL_OF_A_POOL = FLOOD | TRIP | MALLOCS };

typedef struct contestant {
    const char *label;
    enum bench_kind kind;
    int scenarios;
    /* Either these, or some of them, */
    void *(*create)(int workers, int producers);
    void (*destroy)(void *object);
    void (*often)(void *object, uint64_t count);
    void (*flood)(bench_thread *self);
    void (*trips)(bench_thread *self);
    /* for each repetition in a process that is forked for it: a pool that a process has one of, */
    bool forked;
    /* or a child, and what it is to be asked for. */
    bench_child *child;
    const char *variant;
    int parameter; /* of us, where the table shows how cost grows with it */
} contestant;

extern const contestant peer_tbb, peer_moodycamel;

/* Places in the queue. A producer has twice as many jobs, so that it is the queue that stops it; if
 * that has no bound of its own it must be the jobs, and there are as many of them as places. */
enum { PLACES = 1024, JOBS_EACH = 2 * PLACES, JOBS_ALL = 4 * PLACES };
enum { BENCH_BOUNDED, BENCH_UNBOUNDED };

/* Jobs of one producer: a power of two. */
static inline uint64_t jobs_of_each(int producers, int bound)
{
    int jobs = (bound == BENCH_BOUNDED ? JOBS_ALL : PLACES) / producers;
    return (uint64_t)(jobs < JOBS_EACH ? jobs : JOBS_EACH);
}

/* ---- What a peer that has no futures of its own is given ------------------------------------- */

/* Looks as often as we do before it sleeps, and nobody who is not asleep is woken: it is pools that
 * are compared, and not how well their futures were written. */
enum { FUTURE_LOOKS = 100 };
enum { FUTURE_PENDING, FUTURE_AWAITED, FUTURE_DONE };

typedef struct peer_job {
    int (*fn)(void *);
    void *arg;
    int result;
    uint32_t state;
} peer_job;

typedef struct peer_sleepers {
    BENCH_ALIGNED pthread_mutex_t mutex;
    pthread_cond_t done;
} peer_sleepers;

static inline void sleepers_create(peer_sleepers *z)
{
    must(pthread_mutex_init(&z->mutex, NULL));
    must(pthread_cond_init(&z->done, NULL));
}

static inline void sleepers_destroy(peer_sleepers *z)
{
    pthread_cond_destroy(&z->done);
    pthread_mutex_destroy(&z->mutex);
}

static inline void peer_job_prepare(peer_job *job)
{
    job->fn = unknown_job();
}

static inline void peer_job_renew(peer_job *job)
{
    __atomic_store_n(&job->state, FUTURE_PENDING, __ATOMIC_RELAXED);
}

static inline void peer_job_run(peer_sleepers *z, peer_job *job)
{
    job->result = job->fn(job->arg);
    if (__atomic_exchange_n(&job->state, FUTURE_DONE, __ATOMIC_ACQ_REL) == FUTURE_AWAITED) {
        pthread_mutex_lock(&z->mutex); /* it is before its look, or asleep */
        pthread_mutex_unlock(&z->mutex);
        pthread_cond_broadcast(&z->done);
    }
}

static inline void peer_job_wait(peer_sleepers *z, peer_job *job)
{
    for (int looks = 0; looks < FUTURE_LOOKS; looks++) {
        if (__atomic_load_n(&job->state, __ATOMIC_ACQUIRE) == FUTURE_DONE) {
            must(job->result);
            return;
        }
        bench_pause();
    }
    pthread_mutex_lock(&z->mutex);
    uint32_t pending = FUTURE_PENDING;
    __atomic_compare_exchange_n(&job->state, &pending, FUTURE_AWAITED, false, __ATOMIC_ACQUIRE,
                                __ATOMIC_ACQUIRE);
    while (__atomic_load_n(&job->state, __ATOMIC_ACQUIRE) != FUTURE_DONE) {
        pthread_cond_wait(&z->done, &z->mutex);
    }
    pthread_mutex_unlock(&z->mutex);
    must(job->result);
}

#ifdef __cplusplus
}
#endif
#endif

#ifdef BENCH_ID
#define BENCH_PASTE2(a, b) a##_##b
#define BENCH_PASTE(a, b) BENCH_PASTE2(a, b)
#define BENCH_F(name) BENCH_PASTE(BENCH_ID, name)

typedef struct BENCH_F(object) {
    BENCH_TYPE is;
#ifdef BENCH_SUBMIT
    uint64_t jobs_each;
    BENCH_ALIGNED BENCH_JOB jobs[JOBS_ALL];
#endif
} BENCH_F(object);

static void *BENCH_F(create)(int workers, int producers)
{
    BENCH_F(object) *o = (BENCH_F(object) *)bench_memory(sizeof(BENCH_F(object)));
    BENCH_TYPE *s = &o->is;
    (void)workers, (void)producers;
    BENCH_CREATE(s, workers, producers);
#ifdef BENCH_SUBMIT
    o->jobs_each = jobs_of_each(producers, BENCH_BOUND);
    memset((void *)o->jobs, 0, sizeof o->jobs);
    for (int i = 0; i < JOBS_ALL; i++) {
        BENCH_PREPARE(&o->jobs[i]);
    }
#endif
    return o;
}

static void BENCH_F(destroy)(void *object)
{
    BENCH_TYPE *s = &((BENCH_F(object) *)object)->is;
    BENCH_DESTROY(s);
    free(object);
}

#ifdef BENCH_SUBMIT
/* Producers hand over empty jobs as fast as they are let in. The memory of each is used again when
 * its future says that it is done. */
static void BENCH_F(flood)(bench_thread *self)
{
    BENCH_F(object) *o = (BENCH_F(object) *)self->run->first;
    BENCH_TYPE *s = &o->is;
    const uint64_t each = o->jobs_each;
    BENCH_JOB *jobs = &o->jobs[(uint64_t)self->number * each];
    uint64_t sent = 0;
    while (bench_phase(self->run) != BENCH_STOP) {
        BENCH_JOB *job = &jobs[sent & (each - 1)];
        if (sent >= each) {
            BENCH_WAIT(s, job);
        }
        BENCH_SUBMIT(s, job, self->number);
        bench_publish(&self->ops, ++sent);
    }
    for (uint64_t i = sent > each ? sent - each : 0; i < sent; i++) {
        BENCH_WAIT(s, &jobs[i & (each - 1)]);
    }
}

/* Producers hand over one job and wait for it. */
static void BENCH_F(trips)(bench_thread *self)
{
    BENCH_F(object) *o = (BENCH_F(object) *)self->run->first;
    BENCH_TYPE *s = &o->is;
    BENCH_JOB *job = &o->jobs[(uint64_t)self->number * o->jobs_each];
    uint64_t ops = 0;
    while (bench_phase(self->run) != BENCH_STOP) {
        BENCH_SUBMIT(s, job, self->number);
        BENCH_WAIT(s, job);
        bench_publish(&self->ops, ++ops);
    }
}
#else
static void BENCH_F(often)(void *object, uint64_t count)
{
    BENCH_TYPE *s = &((BENCH_F(object) *)object)->is;
    for (uint64_t i = 0; i < count; i++) {
        BENCH_ONCE(s);
    }
}
#endif

/* Declared first, or a C++ constant would be private to its file. */
extern const contestant BENCH_ID;
const contestant BENCH_ID = {
    .label = BENCH_LABEL,
    .kind = BENCH_KIND,
    .scenarios = BENCH_SCENARIOS,
    .create = BENCH_F(create),
    .destroy = BENCH_F(destroy),
#ifdef BENCH_SUBMIT
    .often = NULL,
    .flood = BENCH_F(flood),
    .trips = BENCH_F(trips),
#else
    .often = BENCH_F(often),
    .flood = NULL,
    .trips = NULL,
#endif
    .forked = false,
    .child = NULL,
    .variant = NULL,
    .parameter = 0,
};

#undef BENCH_PASTE2
#undef BENCH_PASTE
#undef BENCH_F
#undef BENCH_ID
#undef BENCH_LABEL
#undef BENCH_KIND
#undef BENCH_SCENARIOS
#undef BENCH_TYPE
#undef BENCH_CREATE
#undef BENCH_DESTROY
#undef BENCH_ONCE
#undef BENCH_JOB
#undef BENCH_BOUND
#undef BENCH_PREPARE
#undef BENCH_SUBMIT
#undef BENCH_WAIT
#endif
