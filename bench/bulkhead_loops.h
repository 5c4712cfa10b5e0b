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
 *   BENCH_SCATTERED                 if it is defined: whether the jobs lie at random in 64 MB; else
 *                                   they are an array
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

/* The scenarios; one producer and two of them are apart, because an event loop is only ever one. */
enum { PERMIT = 1, REFUSAL = 2, FLOOD_1 = 4, FLOOD_2 = 8, TRIP_1 = 16, TRIP_2 = 32 };
enum { MALLOCS = 64, PRODUCERS = 128, DEPTH = 256, CONTENDED = 512 };
enum { IN_FLIGHT = 1024, BODIES = 2048, PLACEMENT = 4096, KINDS = 8192 };
enum { FLOOD = FLOOD_1 | FLOOD_2 | IN_FLIGHT | BODIES, TRIP = TRIP_1 | TRIP_2 };
enum { ALL_OF_A_POOL = FLOOD | TRIP | MALLOCS };

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

/* Rounds of bench_work() in each job; 0: it is empty. In bench_bulkhead.c. */
extern uint64_t bulkhead_body;

static inline int working_job(void *arg)
{
    (void)arg;
    bench_work(bulkhead_body);
    return 0;
}

static inline int (*unknown_body(void))(void *)
{
    int (*fn)(void *) = bulkhead_body != 0 ? working_job : empty_job;
    __asm__ volatile("" : "+r"(fn));
    return fn;
}

static inline uint64_t any_of(uint64_t *random, uint64_t count)
{
    *random = *random * 6364136223846793005 + 1442695040888963407;
    return (*random >> 32) * count >> 32;
}

/* Where jobs of that size lie in memory: one after the other, or each somewhere in a cell of its
 * own, and these in any order. */
enum { SCATTER = 64 << 20, CELL = SCATTER / JOBS_ALL };
static inline void place_jobs(uint64_t at[JOBS_ALL], uint64_t size, bool scattered)
{
    uint64_t random = 1, apart = size;
    if (scattered) {
        apart = CELL;
    }
    for (uint64_t i = 0; i < JOBS_ALL; i++) {
        uint64_t other = scattered ? any_of(&random, i + 1) : i;
        at[i] = at[other];
        at[other] = i * apart;
    }
    for (uint64_t i = 0; scattered && i < JOBS_ALL; i++) {
        at[i] += 16 * any_of(&random, (CELL - size) / 16);
    }
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
    job->fn = unknown_body();
}

static inline void peer_job_renew(peer_job *job)
{
    __atomic_store_n(&job->state, FUTURE_PENDING, __ATOMIC_RELAXED);
}

static inline void peer_job_end(peer_sleepers *z, peer_job *job)
{
    if (__atomic_exchange_n(&job->state, FUTURE_DONE, __ATOMIC_ACQ_REL) == FUTURE_AWAITED) {
        pthread_mutex_lock(&z->mutex); /* it is before its look, or asleep */
        pthread_mutex_unlock(&z->mutex);
        pthread_cond_broadcast(&z->done);
    }
}

static inline void peer_job_run(peer_sleepers *z, peer_job *job)
{
    job->result = job->fn(job->arg);
    peer_job_end(z, job);
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
#ifdef BENCH_SCATTERED
    char *memory;
    uint64_t at[JOBS_ALL];
#define BENCH_JOB_AT(o, i) ((BENCH_JOB *)(void *)((o)->memory + (o)->at[i]))
#else
    BENCH_ALIGNED BENCH_JOB jobs[JOBS_ALL];
#define BENCH_JOB_AT(o, i) (&(o)->jobs[i])
#endif
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
#ifdef BENCH_SCATTERED
    o->memory = (char *)bench_memory(SCATTER);
    place_jobs(o->at, sizeof(BENCH_JOB), BENCH_SCATTERED);
#endif
    for (int i = 0; i < JOBS_ALL; i++) {
        BENCH_JOB *job = BENCH_JOB_AT(o, i);
        memset((void *)job, 0, sizeof *job);
        BENCH_PREPARE(job);
    }
#endif
    return o;
}

static void BENCH_F(destroy)(void *object)
{
    BENCH_TYPE *s = &((BENCH_F(object) *)object)->is;
    BENCH_DESTROY(s);
#ifdef BENCH_SCATTERED
    free(((BENCH_F(object) *)object)->memory);
#endif
    free(object);
}

#ifdef BENCH_SUBMIT
/* Producers hand over empty jobs as fast as they are let in. The memory of each is used again when
 * its future says that it is done. */
static void BENCH_F(flood)(bench_thread *self)
{
    BENCH_F(object) *o = (BENCH_F(object) *)self->run->first;
    BENCH_TYPE *s = &o->is;
    const int at_once = self->run->in_flight;
    const uint64_t each = at_once != 0 ? (uint64_t)at_once : o->jobs_each;
    const uint64_t first = (uint64_t)self->number * each;
    uint64_t sent = 0;
    while (bench_phase(self->run) != BENCH_STOP) {
        BENCH_JOB *job = BENCH_JOB_AT(o, first + (sent & (each - 1)));
        if (sent >= each) {
            BENCH_WAIT(s, job);
        }
        BENCH_SUBMIT(s, job, self->number);
        bench_publish(&self->ops, ++sent);
    }
    for (uint64_t i = sent > each ? sent - each : 0; i < sent; i++) {
        BENCH_JOB *job = BENCH_JOB_AT(o, first + (i & (each - 1)));
        BENCH_WAIT(s, job);
    }
}

/* Producers hand over one job and wait for it. */
static void BENCH_F(trips)(bench_thread *self)
{
    BENCH_F(object) *o = (BENCH_F(object) *)self->run->first;
    BENCH_TYPE *s = &o->is;
    BENCH_JOB *job = BENCH_JOB_AT(o, (uint64_t)self->number * o->jobs_each);
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
#undef BENCH_JOB_AT
#undef BENCH_SCATTERED
#undef BENCH_BOUND
#undef BENCH_PREPARE
#undef BENCH_SUBMIT
#undef BENCH_WAIT
#endif
