/* SPDX-License-Identifier: MIT
 *
 * What bench_bulkhead.c compares with, as far as it is C: the bare mechanisms, semaphores, and
 * thread pools.
 */
#ifndef PLIM_BENCH_BULKHEAD_PEERS_H
#define PLIM_BENCH_BULKHEAD_PEERS_H

#include "bulkhead_loops.h"

#include <errno.h>

enum { WORKERS_MAX = 8 };

/* ---- The limits ----------------------------------------------------------------------------- */

/* A refusal that is counted: one look, one compare-and-swap. */
static inline void limit_refuse(uint64_t *word)
{
    uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &seen, seen + 1, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
        continue;
    }
}

/* The least that handing over a job can cost: Dmitry Vyukov's bounded queue, with threads at both
 * ends that never sleep. They yield, or they would spin away the time of whoever they wait for. */
typedef struct limit_queue {
    struct {
        uint64_t turn; /* position: free for that one; position + 1: filled by it */
        peer_job *job;
    } cell[PLACES];
    BENCH_ALIGNED uint64_t tail;
    BENCH_ALIGNED uint64_t head;
    BENCH_ALIGNED bool over;
    int workers;
    pthread_t worker[WORKERS_MAX];
} limit_queue;

static inline void limit_idle(int *looks)
{
    if (++*looks % 64 == 0) {
        sched_yield();
    } else {
        bench_pause();
    }
}

/* The cell at the end that *end counts, for this thread alone; NULL if there is none now. ahead is
 * 0 for a free one, 1 for a filled one. */
static inline uint64_t *limit_claim(limit_queue *q, uint64_t *end, uint64_t ahead, uint64_t *at)
{
    *at = __atomic_load_n(end, __ATOMIC_RELAXED);
    for (;;) {
        uint64_t *turn = &q->cell[*at % PLACES].turn;
        int64_t difference = (int64_t)(__atomic_load_n(turn, __ATOMIC_ACQUIRE) - (*at + ahead));
        if (difference < 0) {
            return NULL;
        }
        if (difference > 0) {
            *at = __atomic_load_n(end, __ATOMIC_RELAXED);
        } else if (__atomic_compare_exchange_n(end, at, *at + 1, true, __ATOMIC_RELAXED,
                                               __ATOMIC_RELAXED)) {
            return turn;
        }
    }
}

static void *limit_queue_work(void *arg)
{
    limit_queue *q = arg;
    int looks = 0;
    for (;;) {
        uint64_t at;
        uint64_t *turn = limit_claim(q, &q->head, 1, &at);
        if (turn != NULL) {
            peer_job *job = q->cell[at % PLACES].job;
            __atomic_store_n(turn, at + PLACES, __ATOMIC_RELEASE);
            job->result = job->fn(job->arg);
            __atomic_store_n(&job->state, FUTURE_DONE, __ATOMIC_RELEASE);
        } else if (__atomic_load_n(&q->over, __ATOMIC_RELAXED)) {
            return NULL;
        } else {
            limit_idle(&looks);
        }
    }
}

static inline void limit_queue_create(limit_queue *q, int workers)
{
    must(workers > WORKERS_MAX);
    for (uint64_t i = 0; i < PLACES; i++) {
        q->cell[i].turn = i;
    }
    q->tail = q->head = 0;
    q->over = false;
    q->workers = workers;
    for (int i = 0; i < workers; i++) {
        must(pthread_create(&q->worker[i], NULL, limit_queue_work, q));
    }
}

static inline void limit_queue_destroy(limit_queue *q)
{
    __atomic_store_n(&q->over, true, __ATOMIC_RELAXED);
    for (int i = 0; i < q->workers; i++) {
        pthread_join(q->worker[i], NULL);
    }
}

static inline void limit_queue_submit(limit_queue *q, peer_job *job)
{
    uint64_t at, *turn;
    int looks = 0;
    peer_job_renew(job);
    while ((turn = limit_claim(q, &q->tail, 0, &at)) == NULL) {
        limit_idle(&looks);
    }
    q->cell[at % PLACES].job = job;
    __atomic_store_n(turn, at + 1, __ATOMIC_RELEASE);
}

static inline void limit_queue_wait(peer_job *job)
{
    int looks = 0;
    while (__atomic_load_n(&job->state, __ATOMIC_ACQUIRE) != FUTURE_DONE) {
        limit_idle(&looks);
    }
    must(job->result);
}

/* ---- A semaphore as one writes it by hand ---------------------------------------------------- */

typedef struct mutex_sem {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    int permits, waiting;
} mutex_sem;

static inline void mutex_sem_create(mutex_sem *s, int permits)
{
    must(pthread_mutex_init(&s->mutex, NULL));
    must(pthread_cond_init(&s->more, NULL));
    s->permits = permits;
    s->waiting = 0;
}

static inline void mutex_sem_destroy(mutex_sem *s)
{
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->mutex);
}

static inline void mutex_sem_pair(mutex_sem *s)
{
    pthread_mutex_lock(&s->mutex);
    while (s->permits == 0) {
        s->waiting++;
        pthread_cond_wait(&s->more, &s->mutex);
        s->waiting--;
    }
    s->permits--;
    pthread_mutex_unlock(&s->mutex);

    pthread_mutex_lock(&s->mutex);
    s->permits++;
    if (s->waiting > 0) {
        pthread_cond_signal(&s->more);
    }
    pthread_mutex_unlock(&s->mutex);
}

static inline int mutex_sem_try(mutex_sem *s)
{
    pthread_mutex_lock(&s->mutex);
    int error = s->permits == 0 ? EAGAIN : 0;
    s->permits -= error == 0;
    pthread_mutex_unlock(&s->mutex);
    return error;
}

/* ---- A bounded thread pool as one writes it by hand ------------------------------------------ */

typedef struct mutex_pool {
    pthread_mutex_t mutex;
    pthread_cond_t job, room;
    uint64_t head, tail;
    peer_job *queue[PLACES];
    int idle, stopped; /* workers without a job, producers without a place */
    bool over;
    int workers;
    pthread_t worker[WORKERS_MAX];
    peer_sleepers sleepers;
} mutex_pool;

static void *mutex_pool_work(void *arg)
{
    mutex_pool *p = arg;
    for (;;) {
        pthread_mutex_lock(&p->mutex);
        while (p->head == p->tail && !p->over) {
            p->idle++;
            pthread_cond_wait(&p->job, &p->mutex);
            p->idle--;
        }
        if (p->head == p->tail) {
            pthread_mutex_unlock(&p->mutex);
            return NULL;
        }
        peer_job *job = p->queue[p->head++ % PLACES];
        if (p->stopped > 0) { /* a signal that nobody waits for is cheap, but not free */
            pthread_cond_signal(&p->room);
        }
        pthread_mutex_unlock(&p->mutex);
        peer_job_run(&p->sleepers, job);
    }
}

static inline void mutex_pool_create(mutex_pool *p, int workers)
{
    must(workers > WORKERS_MAX);
    must(pthread_mutex_init(&p->mutex, NULL));
    must(pthread_cond_init(&p->job, NULL));
    must(pthread_cond_init(&p->room, NULL));
    sleepers_create(&p->sleepers);
    p->head = p->tail = 0;
    p->idle = p->stopped = 0;
    p->over = false;
    p->workers = workers;
    for (int i = 0; i < workers; i++) {
        must(pthread_create(&p->worker[i], NULL, mutex_pool_work, p));
    }
}

static inline void mutex_pool_destroy(mutex_pool *p)
{
    pthread_mutex_lock(&p->mutex);
    p->over = true;
    pthread_cond_broadcast(&p->job);
    pthread_mutex_unlock(&p->mutex);
    for (int i = 0; i < p->workers; i++) {
        pthread_join(p->worker[i], NULL);
    }
    sleepers_destroy(&p->sleepers);
    pthread_cond_destroy(&p->room);
    pthread_cond_destroy(&p->job);
    pthread_mutex_destroy(&p->mutex);
}

static inline void mutex_pool_submit(mutex_pool *p, peer_job *job)
{
    peer_job_renew(job);
    pthread_mutex_lock(&p->mutex);
    while (p->tail - p->head == PLACES) {
        p->stopped++;
        pthread_cond_wait(&p->room, &p->mutex);
        p->stopped--;
    }
    p->queue[p->tail++ % PLACES] = job;
    if (p->idle > 0) {
        pthread_cond_signal(&p->job);
    }
    pthread_mutex_unlock(&p->mutex);
}

/* ---- GLib ----------------------------------------------------------------------------------- */

#ifdef HAVE_GLIB
#include <glib.h>

typedef struct glib_pool {
    GThreadPool *pool;
    peer_sleepers sleepers;
} glib_pool;

static void glib_pool_run(gpointer job, gpointer arg)
{
    glib_pool *p = arg;
    peer_job_run(&p->sleepers, job);
}

static inline void glib_pool_create(glib_pool *p, int workers)
{
    sleepers_create(&p->sleepers);
    p->pool = g_thread_pool_new(glib_pool_run, p, workers, TRUE, NULL); /* TRUE: its own threads */
    must(p->pool == NULL);
}

static inline void glib_pool_destroy(glib_pool *p)
{
    g_thread_pool_free(p->pool, FALSE, TRUE);
    sleepers_destroy(&p->sleepers);
}

static inline void glib_pool_submit(glib_pool *p, peer_job *job)
{
    peer_job_renew(job);
    must(!g_thread_pool_push(p->pool, job, NULL));
}
#endif

/* ---- libuv: the producer is the loop's thread, which is also told when a job is done ---------- */

#ifdef HAVE_UV_POOL
#include <uv.h>

typedef struct uv_pool {
    uv_loop_t loop;
    bench_thread *producer;
    uint64_t ops;
    uv_work_t work[PLACES];
} uv_pool;

static void uv_pool_run(uv_work_t *work)
{
    int (*fn)(void *) = unknown_body();
    must(fn(work->data));
}

/* As in a program: who is told that one job is done hands over the next. */
static void uv_pool_done(uv_work_t *work, int status)
{
    uv_pool *p = (uv_pool *)work->loop->data;
    must(status);
    bench_publish(&p->producer->ops, ++p->ops);
    if (bench_phase(p->producer->run) != BENCH_STOP) {
        must(uv_queue_work(&p->loop, work, uv_pool_run, uv_pool_done));
    }
}

/* A process has one pool; this is its first and only one, in a fork of ours. */
static void *uv_pool_create(int workers, int producers)
{
    char size[16];
    uv_pool *p = bench_memory(sizeof *p);
    snprintf(size, sizeof size, "%d", workers);
    must(producers != 1 || setenv("UV_THREADPOOL_SIZE", size, 1) != 0);
    must(uv_loop_init(&p->loop));
    p->loop.data = p;
    p->ops = 0;
    memset(p->work, 0, sizeof p->work);
    return p;
}

static void uv_pool_destroy(void *object)
{
    uv_pool *p = object;
    must(uv_loop_close(&p->loop));
    free(p);
}

static void uv_pool_produce(bench_thread *self, int in_flight)
{
    uv_pool *p = self->run->first;
    p->producer = self;
    for (int i = 0; i < in_flight; i++) {
        must(uv_queue_work(&p->loop, &p->work[i], uv_pool_run, uv_pool_done));
    }
    must(uv_run(&p->loop, UV_RUN_DEFAULT));
}

static void uv_pool_flood(bench_thread *self)
{
    uv_pool_produce(self, self->run->in_flight != 0 ? self->run->in_flight : PLACES);
}

static void uv_pool_trips(bench_thread *self)
{
    uv_pool_produce(self, 1);
}
#endif

#endif
