/* SPDX-License-Identifier: MIT
 *
 * bulkhead.h beside the bare mechanism and beside its peers.
 *
 *     bench/build.sh && build/bench/bench_bulkhead [--quick] [--scenario NAME] [--reps N] [--ms N]
 *                                                  [--json FILE]
 *
 * The method is described in report.h. Go and Java cannot run in this process: children.h. libuv
 * can, but a process has one pool of one size, so each repetition of it is a fork of this process.
 *
 *   permit        one thread takes and gives a permit, or invokes an empty function; CPU time of it
 *   refusal       one thread asks a bulkhead that is full
 *   throughput    producers hand over empty jobs as fast as they are let in; 1024 may wait, and the
 *                 memory of each is used again when its future says that it is done
 *   roundtrip     a producer hands over one job and waits for it
 *   allocations   calls of malloc during the throughput, once it is warm
 *   producers     how throughput and round trip change with the number of producers
 *   inflight      one producer that never has more than so many jobs in flight, by workers; and how
 *                 often threads are woken, and fall asleep
 *   bodies        throughput of jobs that take their time
 *   placement     throughput of jobs in an array, and of jobs at random places in 64 MB
 *   kinds         throughput of jobs that ask for more: a run timeout, attempts, TIMINGS, detached,
 *                 an executor; and on an event loop, where they end at once, or later
 *   depth         what submit and cancel cost with so many jobs in the queue; we and a bare list
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "wakes.h"

#include "../bulkhead.h"
#include "../loop_scheduler.h"
#undef syscall
#include "bulkhead_peers.h"

#ifdef HAVE_SEM_T
#include <semaphore.h>
#endif
#include <stdio.h>

uint64_t bulkhead_body;

/* ---- The limits ----------------------------------------------------------------------------- */

enum { PERMITS = 16 }; /* where one thread is alone, and takes one */

#define BENCH_ID limit_cas
#define BENCH_LABEL "limit: load+CAS, twice"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS PERMIT
#define BENCH_TYPE uint64_t
#define BENCH_CREATE(s, workers, producers) *(s) = PERMITS
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ONCE(s) bench_cas_take(s, 1), bench_cas_give(s, 1)
#include "bulkhead_loops.h"

#define BENCH_ID limit_known
#define BENCH_LABEL "limit: CAS, twice"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS PERMIT
#define BENCH_TYPE uint64_t
#define BENCH_CREATE(s, workers, producers) *(s) = PERMITS
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ONCE(s) \
    bench_known_cas(s, PERMITS, PERMITS - 1), bench_known_cas(s, PERMITS - 1, PERMITS)
#include "bulkhead_loops.h"

#define BENCH_ID limit_refusal
#define BENCH_LABEL "limit: load, CAS"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS REFUSAL
#define BENCH_TYPE uint64_t
#define BENCH_CREATE(s, workers, producers) *(s) = 0
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ONCE(s) limit_refuse(s)
#include "bulkhead_loops.h"

#define BENCH_ID limit_vyukov
#define BENCH_LABEL "limit: spinning MPMC queue"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS (FLOOD | TRIP | KINDS)
#define BENCH_TYPE limit_queue
#define BENCH_CREATE(s, workers, producers) limit_queue_create(s, workers)
#define BENCH_DESTROY(s) limit_queue_destroy(s)
#define BENCH_JOB peer_job
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) peer_job_prepare(job)
#define BENCH_SUBMIT(s, job, producer) limit_queue_submit(s, job)
#define BENCH_WAIT(s, job) limit_queue_wait(job)
#include "bulkhead_loops.h"

#define BENCH_ID limit_array
#define BENCH_LABEL "limit: spinning MPMC queue"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS PLACEMENT
#define BENCH_TYPE limit_queue
#define BENCH_CREATE(s, workers, producers) limit_queue_create(s, workers)
#define BENCH_DESTROY(s) limit_queue_destroy(s)
#define BENCH_JOB peer_job
#define BENCH_SCATTERED false
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) peer_job_prepare(job)
#define BENCH_SUBMIT(s, job, producer) limit_queue_submit(s, job)
#define BENCH_WAIT(s, job) limit_queue_wait(job)
#include "bulkhead_loops.h"

#define BENCH_ID limit_scattered
#define BENCH_LABEL "limit: the same, scattered"
#define BENCH_KIND BENCH_LIMIT
#define BENCH_SCENARIOS PLACEMENT
#define BENCH_TYPE limit_queue
#define BENCH_CREATE(s, workers, producers) limit_queue_create(s, workers)
#define BENCH_DESTROY(s) limit_queue_destroy(s)
#define BENCH_JOB peer_job
#define BENCH_SCATTERED true
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) peer_job_prepare(job)
#define BENCH_SUBMIT(s, job, producer) limit_queue_submit(s, job)
#define BENCH_WAIT(s, job) limit_queue_wait(job)
#include "bulkhead_loops.h"

/* ---- We ------------------------------------------------------------------------------------- */

static int empty_bulkhead_job(bulkhead_job *job)
{
    (void)job;
    return 0;
}

static int working_bulkhead_job(bulkhead_job *job)
{
    (void)job;
    bench_work(bulkhead_body);
    return 0;
}

static inline int (*unknown_bulkhead_job(void))(bulkhead_job *)
{
    int (*fn)(bulkhead_job *) = bulkhead_body != 0 ? working_bulkhead_job : empty_bulkhead_job;
    __asm__ volatile("" : "+r"(fn));
    return fn;
}

static void create_ours(bulkhead *b, int type, int permits, int queue, uint32_t flags)
{
    bulkhead_options wanted = {.type = type, .permits = permits, .queue = queue, .flags = flags};
    must(bulkhead_init(b, &wanted));
}

static void destroy_ours(bulkhead *b)
{
    must(bulkhead_close(b, BULKHEAD_DRAIN, PLIM_FOREVER));
    must(bulkhead_destroy(b));
}

/* A bulkhead in which a job runs, and waits to be let go. */
typedef struct blocked {
    bulkhead is;
    BENCH_ALIGNED bulkhead_job gate, next;
    pthread_mutex_t closed;
    bool begun;
} blocked;

static int pass_gate(bulkhead_job *job)
{
    blocked *b = job->arg;
    __atomic_store_n(&b->begun, true, __ATOMIC_RELEASE);
    pthread_mutex_lock(&b->closed);
    pthread_mutex_unlock(&b->closed);
    return 0;
}

static void create_blocked(blocked *b, int permits, int queue)
{
    create_ours(&b->is, BULKHEAD_ASYNC, permits, queue, 0);
    must(pthread_mutex_init(&b->closed, NULL));
    pthread_mutex_lock(&b->closed);
    b->begun = false;
    b->gate = (bulkhead_job){.run = pass_gate, .arg = b};
    b->next = (bulkhead_job){.run = unknown_bulkhead_job()};
    must(bulkhead_submit(&b->is, &b->gate));
    while (!__atomic_load_n(&b->begun, __ATOMIC_ACQUIRE)) {
        bench_sleep(100000);
    }
    bench_sleep(1000000); /* and is asleep */
}

static void destroy_blocked(blocked *b)
{
    pthread_mutex_unlock(&b->closed);
    destroy_ours(&b->is);
    pthread_mutex_destroy(&b->closed);
}

/* All of whose places are taken, too. */
typedef struct full {
    blocked b;
    bulkhead_job waiting[16];
} full;

static void create_full(full *f)
{
    enum { WAITING = sizeof f->waiting / sizeof f->waiting[0] };
    create_blocked(&f->b, 1, WAITING);
    for (int i = 0; i < WAITING; i++) {
        f->waiting[i] = (bulkhead_job){.run = unknown_bulkhead_job()};
        must(bulkhead_submit(&f->b.is, &f->waiting[i]));
    }
}

#define BENCH_ID ours_pair
#define BENCH_LABEL "bulkhead" /* enter and leave */
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS PERMIT
#define BENCH_TYPE bulkhead
#define BENCH_CREATE(s, workers, producers) create_ours(s, BULKHEAD_SYNC, PERMITS, 0, 0)
#define BENCH_DESTROY(s) destroy_ours(s)
#define BENCH_ONCE(s) (void)bulkhead_enter(s), (void)bulkhead_leave(s)
#include "bulkhead_loops.h"

#define BENCH_ID ours_beside
#define BENCH_LABEL "bulkhead, while a job runs"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS PERMIT
#define BENCH_TYPE blocked
#define BENCH_CREATE(s, workers, producers) create_blocked(s, PERMITS, 0)
#define BENCH_DESTROY(s) destroy_blocked(s)
#define BENCH_ONCE(s) (void)bulkhead_enter(&(s)->is), (void)bulkhead_leave(&(s)->is)
#include "bulkhead_loops.h"

#define BENCH_ID ours_invoke
#define BENCH_LABEL "bulkhead invoke"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS PERMIT
#define BENCH_TYPE bulkhead
#define BENCH_CREATE(s, workers, producers) create_ours(s, BULKHEAD_SYNC, PERMITS, 0, 0)
#define BENCH_DESTROY(s) destroy_ours(s)
#define BENCH_ONCE(s) (void)bulkhead_invoke(s, unknown_job(), NULL, NULL)
#include "bulkhead_loops.h"

#define BENCH_ID ours_inline
#define BENCH_LABEL "bulkhead invoke, inline"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS PERMIT
#define BENCH_TYPE bulkhead
#define BENCH_CREATE(s, workers, producers) \
    create_ours(s, BULKHEAD_ASYNC, PERMITS, 0, BULKHEAD_INLINE)
#define BENCH_DESTROY(s) destroy_ours(s)
#define BENCH_ONCE(s) (void)bulkhead_invoke(s, unknown_job(), NULL, NULL)
#include "bulkhead_loops.h"

#define BENCH_ID ours_refusal
#define BENCH_LABEL "bulkhead" /* try_enter */
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS REFUSAL
#define BENCH_TYPE bulkhead
#define BENCH_CREATE(s, workers, producers) \
    create_ours(s, BULKHEAD_SYNC, 1, PLIM_NONE, 0), must(bulkhead_enter(s))
#define BENCH_DESTROY(s) must(bulkhead_leave(s)), destroy_ours(s)
#define BENCH_ONCE(s) must(bulkhead_try_enter(s) != EAGAIN)
#include "bulkhead_loops.h"

#define BENCH_ID ours_refused_submit
#define BENCH_LABEL "bulkhead submit"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS REFUSAL
#define BENCH_TYPE blocked
#define BENCH_CREATE(s, workers, producers) create_blocked(s, 1, PLIM_NONE)
#define BENCH_DESTROY(s) destroy_blocked(s)
#define BENCH_ONCE(s) must(bulkhead_submit(&(s)->is, &(s)->next) != EAGAIN)
#include "bulkhead_loops.h"

#define BENCH_ID ours_full
#define BENCH_LABEL "bulkhead submit, full queue"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS REFUSAL
#define BENCH_TYPE full
#define BENCH_CREATE(s, workers, producers) create_full(s)
#define BENCH_DESTROY(s) destroy_blocked(&(s)->b)
#define BENCH_ONCE(s) must(bulkhead_submit(&(s)->b.is, &(s)->b.next) != EAGAIN)
#include "bulkhead_loops.h"

#define BENCH_ID ours
#define BENCH_LABEL "bulkhead"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS (ALL_OF_A_POOL | KINDS)
#define BENCH_TYPE bulkhead
#define BENCH_CREATE(s, workers, producers) create_ours(s, BULKHEAD_ASYNC, workers, PLACES, 0)
#define BENCH_DESTROY(s) destroy_ours(s)
#define BENCH_JOB bulkhead_job
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) (job)->run = unknown_bulkhead_job()
#define BENCH_SUBMIT(s, job, producer) must(bulkhead_submit_for(s, job, PLIM_FOREVER))
#define BENCH_WAIT(s, job) must(bulkhead_wait(job, PLIM_FOREVER) | (job)->result)
#include "bulkhead_loops.h"

/* The same by pointers to the jobs, as where they are scattered. */
#define BENCH_ID ours_array
#define BENCH_LABEL "bulkhead"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS PLACEMENT
#define BENCH_TYPE bulkhead
#define BENCH_CREATE(s, workers, producers) create_ours(s, BULKHEAD_ASYNC, workers, PLACES, 0)
#define BENCH_DESTROY(s) destroy_ours(s)
#define BENCH_JOB bulkhead_job
#define BENCH_SCATTERED false
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) (job)->run = unknown_bulkhead_job()
#define BENCH_SUBMIT(s, job, producer) must(bulkhead_submit_for(s, job, PLIM_FOREVER))
#define BENCH_WAIT(s, job) must(bulkhead_wait(job, PLIM_FOREVER) | (job)->result)
#include "bulkhead_loops.h"

#define BENCH_ID ours_scattered
#define BENCH_LABEL "bulkhead, scattered"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS PLACEMENT
#define BENCH_TYPE bulkhead
#define BENCH_CREATE(s, workers, producers) create_ours(s, BULKHEAD_ASYNC, workers, PLACES, 0)
#define BENCH_DESTROY(s) destroy_ours(s)
#define BENCH_JOB bulkhead_job
#define BENCH_SCATTERED true
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) (job)->run = unknown_bulkhead_job()
#define BENCH_SUBMIT(s, job, producer) must(bulkhead_submit_for(s, job, PLIM_FOREVER))
#define BENCH_WAIT(s, job) must(bulkhead_wait(job, PLIM_FOREVER) | (job)->result)
#include "bulkhead_loops.h"

/* Jobs that ask for more. */

#define BENCH_ID ours_limited
#define BENCH_LABEL "bulkhead, run timeout"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS KINDS
#define BENCH_TYPE bulkhead
#define BENCH_CREATE(s, workers, producers) create_ours(s, BULKHEAD_ASYNC, workers, PLACES, 0)
#define BENCH_DESTROY(s) destroy_ours(s)
#define BENCH_JOB bulkhead_job
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) (job)->run = unknown_bulkhead_job(), (job)->run_timeout_ns = PLIM_S(60)
#define BENCH_SUBMIT(s, job, producer) must(bulkhead_submit_for(s, job, PLIM_FOREVER))
#define BENCH_WAIT(s, job) must(bulkhead_wait(job, PLIM_FOREVER) | (job)->result)
#include "bulkhead_loops.h"

static void create_retrying(bulkhead *b, int workers)
{
    bulkhead_options wanted = {.type = BULKHEAD_ASYNC,
                               .permits = workers,
                               .queue = PLACES,
                               .attempts = 3,
                               .retry_delay_ns = PLIM_MS(1)};
    must(bulkhead_init(b, &wanted));
}

#define BENCH_ID ours_retried
#define BENCH_LABEL "bulkhead, attempts"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS KINDS
#define BENCH_TYPE bulkhead
#define BENCH_CREATE(s, workers, producers) create_retrying(s, workers)
#define BENCH_DESTROY(s) destroy_ours(s)
#define BENCH_JOB bulkhead_job
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) (job)->run = unknown_bulkhead_job()
#define BENCH_SUBMIT(s, job, producer) must(bulkhead_submit_for(s, job, PLIM_FOREVER))
#define BENCH_WAIT(s, job) must(bulkhead_wait(job, PLIM_FOREVER) | (job)->result)
#include "bulkhead_loops.h"

#define BENCH_ID ours_timed
#define BENCH_LABEL "bulkhead, TIMINGS"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS KINDS
#define BENCH_TYPE bulkhead
#define BENCH_CREATE(s, workers, producers) \
    create_ours(s, BULKHEAD_ASYNC, workers, PLACES, BULKHEAD_TIMINGS)
#define BENCH_DESTROY(s) destroy_ours(s)
#define BENCH_JOB bulkhead_job
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) (job)->run = unknown_bulkhead_job()
#define BENCH_SUBMIT(s, job, producer) must(bulkhead_submit_for(s, job, PLIM_FOREVER))
#define BENCH_WAIT(s, job) must(bulkhead_wait(job, PLIM_FOREVER) | (job)->result)
#include "bulkhead_loops.h"

/* Nobody may wait for a detached job: its done ends a future, as a peer's worker does. */
typedef struct detached_pool {
    bulkhead is;
    peer_sleepers sleepers;
} detached_pool;

typedef struct detached_job {
    bulkhead_job is; /* the first member */
    peer_job future;
    peer_sleepers *sleepers;
} detached_job;

static void end_future(bulkhead_job *job)
{
    detached_job *mine = (detached_job *)(void *)job;
    mine->future.result = job->result;
    peer_job_end(mine->sleepers, &mine->future);
}

static void create_detached(detached_pool *p, int workers)
{
    create_ours(&p->is, BULKHEAD_ASYNC, workers, PLACES, 0);
    sleepers_create(&p->sleepers);
}

static void destroy_detached(detached_pool *p)
{
    destroy_ours(&p->is);
    sleepers_destroy(&p->sleepers);
}

static void prepare_detached(detached_pool *p, detached_job *job)
{
    job->is = (bulkhead_job){.run = unknown_bulkhead_job(), .done = end_future, .detached = true};
    job->sleepers = &p->sleepers;
}

static inline int submit_detached(detached_pool *p, detached_job *job)
{
    peer_job_renew(&job->future);
    return bulkhead_submit_for(&p->is, &job->is, PLIM_FOREVER);
}

#define BENCH_ID ours_detached
#define BENCH_LABEL "bulkhead, detached"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS KINDS
#define BENCH_TYPE detached_pool
#define BENCH_CREATE(s, workers, producers) create_detached(s, workers)
#define BENCH_DESTROY(s) destroy_detached(s)
#define BENCH_JOB detached_job
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) prepare_detached(s, job)
#define BENCH_SUBMIT(s, job, producer) must(submit_detached(s, job))
#define BENCH_WAIT(s, job) peer_job_wait(&(s)->sleepers, &(job)->future)
#include "bulkhead_loops.h"

/* The executor is the limit, so that what we cost is not hidden by what it costs. At most as many
 * entries as workers are in it, each in a cell of its own. */
typedef struct executed_entry {
    peer_job job;
    void (*run)(void *arg);
    void *arg;
} executed_entry;

typedef struct executed_pool {
    bulkhead is;
    limit_queue executor;
    BENCH_ALIGNED uint64_t given;
    executed_entry entry[PLACES];
} executed_pool;

static int run_entry(void *arg)
{
    executed_entry *entry = arg;
    entry->run(entry->arg);
    return 0;
}

static int execute_entry(void *ctx, void (*run)(void *arg), void *arg)
{
    executed_pool *p = ctx;
    uint64_t number = __atomic_fetch_add(&p->given, 1, __ATOMIC_RELAXED);
    executed_entry *entry = &p->entry[number % PLACES];
    entry->job.fn = run_entry;
    entry->job.arg = entry;
    entry->run = run;
    entry->arg = arg;
    limit_queue_submit(&p->executor, &entry->job);
    return 0;
}

static void create_executed(executed_pool *p, int workers)
{
    const plim_executor executor = {execute_entry, p};
    bulkhead_options wanted = {
        .type = BULKHEAD_ASYNC, .permits = workers, .queue = PLACES, .executor = &executor};
    p->given = 0;
    memset(p->entry, 0, sizeof p->entry);
    limit_queue_create(&p->executor, workers);
    must(bulkhead_init(&p->is, &wanted));
}

static void destroy_executed(executed_pool *p)
{
    destroy_ours(&p->is);
    limit_queue_destroy(&p->executor);
}

#define BENCH_ID ours_executed
#define BENCH_LABEL "bulkhead, on an executor"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS KINDS
#define BENCH_TYPE executed_pool
#define BENCH_CREATE(s, workers, producers) create_executed(s, workers)
#define BENCH_DESTROY(s) destroy_executed(s)
#define BENCH_JOB bulkhead_job
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) (job)->run = unknown_bulkhead_job()
#define BENCH_SUBMIT(s, job, producer) must(bulkhead_submit_for(&(s)->is, job, PLIM_FOREVER))
#define BENCH_WAIT(s, job) must(bulkhead_wait(job, PLIM_FOREVER) | (job)->result)
#include "bulkhead_loops.h"

/* The executor is an event loop with a thread of its own. */
typedef struct looped_pool {
    bulkhead is;
    loop_scheduler loop;
} looped_pool;

static void create_looped(looped_pool *p, int permits)
{
    must(loop_scheduler_init(&p->loop, NULL));
    must(loop_scheduler_start(&p->loop));
    const plim_executor executor = loop_scheduler_executor(&p->loop);
    bulkhead_options wanted = {
        .type = BULKHEAD_ASYNC, .permits = permits, .queue = PLACES, .executor = &executor};
    must(bulkhead_init(&p->is, &wanted));
}

static void destroy_looped(looped_pool *p)
{
    destroy_ours(&p->is);
    must(loop_scheduler_close(&p->loop, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    must(loop_scheduler_destroy(&p->loop));
}

#define BENCH_ID ours_on_loop
#define BENCH_LABEL "bulkhead, on a loop"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS KINDS
#define BENCH_TYPE looped_pool
#define BENCH_CREATE(s, workers, producers) create_looped(s, workers)
#define BENCH_DESTROY(s) destroy_looped(s)
#define BENCH_JOB bulkhead_job
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) (job)->run = unknown_bulkhead_job()
#define BENCH_SUBMIT(s, job, producer) must(bulkhead_submit_for(&(s)->is, job, PLIM_FOREVER))
#define BENCH_WAIT(s, job) must(bulkhead_wait(job, PLIM_FOREVER) | (job)->result)
#include "bulkhead_loops.h"

/* run posts a task and returns; that ends the job, in the loop's next turn. */
typedef struct later_job {
    bulkhead_job job;
    loop_scheduler_task then;
    loop_scheduler *loop;
} later_job;

static void finish_later(loop_scheduler_task *task, int status)
{
    must(bulkhead_finish(&((later_job *)task->arg)->job, status));
}

static int post_and_return(bulkhead_job *job)
{
    later_job *later = job->arg;
    later->then.run = finish_later;
    later->then.arg = later;
    must(loop_scheduler_post(later->loop, &later->then));
    return BULKHEAD_LATER;
}

static void prepare_later(later_job *job)
{
    job->job.run = post_and_return;
    job->job.arg = job;
}

static int submit_later(looped_pool *p, later_job *job)
{
    job->loop = &p->loop;
    return bulkhead_submit_for(&p->is, &job->job, PLIM_FOREVER);
}

#define BENCH_ID ours_later
#define BENCH_LABEL "bulkhead, on a loop, later"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS KINDS
#define BENCH_TYPE looped_pool
#define BENCH_CREATE(s, workers, producers) create_looped(s, workers)
#define BENCH_DESTROY(s) destroy_looped(s)
#define BENCH_JOB later_job
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) prepare_later(job)
#define BENCH_SUBMIT(s, job, producer) must(submit_later(s, job))
#define BENCH_WAIT(s, job) must(bulkhead_wait(&(job)->job, PLIM_FOREVER) | (job)->job.result)
#include "bulkhead_loops.h"

/* ---- The peers ------------------------------------------------------------------------------ */

#ifdef HAVE_SEM_T
#define BENCH_ID peer_sem
#define BENCH_LABEL "sem_t"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS PERMIT
#define BENCH_TYPE sem_t
#define BENCH_CREATE(s, workers, producers) must(sem_init(s, 0, PERMITS))
#define BENCH_DESTROY(s) sem_destroy(s)
#define BENCH_ONCE(s) (void)sem_wait(s), (void)sem_post(s)
#include "bulkhead_loops.h"

#define BENCH_ID peer_sem_refusal
#define BENCH_LABEL "sem_t, not counted"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS REFUSAL
#define BENCH_TYPE sem_t
#define BENCH_CREATE(s, workers, producers) must(sem_init(s, 0, 0))
#define BENCH_DESTROY(s) sem_destroy(s)
#define BENCH_ONCE(s) must(sem_trywait(s) == 0)
#include "bulkhead_loops.h"
#endif

#define BENCH_ID peer_mutex
#define BENCH_LABEL "mutex+cond"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS PERMIT
#define BENCH_TYPE mutex_sem
#define BENCH_CREATE(s, workers, producers) mutex_sem_create(s, PERMITS)
#define BENCH_DESTROY(s) mutex_sem_destroy(s)
#define BENCH_ONCE(s) mutex_sem_pair(s)
#include "bulkhead_loops.h"

#define BENCH_ID peer_mutex_refusal
#define BENCH_LABEL "mutex, not counted"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS REFUSAL
#define BENCH_TYPE mutex_sem
#define BENCH_CREATE(s, workers, producers) mutex_sem_create(s, 0)
#define BENCH_DESTROY(s) mutex_sem_destroy(s)
#define BENCH_ONCE(s) must(mutex_sem_try(s) != EAGAIN)
#include "bulkhead_loops.h"

#define BENCH_ID peer_mutex_pool
#define BENCH_LABEL "mutex+cond pool"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS ALL_OF_A_POOL
#define BENCH_TYPE mutex_pool
#define BENCH_CREATE(s, workers, producers) mutex_pool_create(s, workers)
#define BENCH_DESTROY(s) mutex_pool_destroy(s)
#define BENCH_JOB peer_job
#define BENCH_BOUND BENCH_BOUNDED
#define BENCH_PREPARE(job) peer_job_prepare(job)
#define BENCH_SUBMIT(s, job, producer) mutex_pool_submit(s, job)
#define BENCH_WAIT(s, job) peer_job_wait(&(s)->sleepers, job)
#include "bulkhead_loops.h"

#ifdef HAVE_GLIB
#define BENCH_ID peer_glib
#define BENCH_LABEL "GLib GThreadPool"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS ALL_OF_A_POOL
#define BENCH_TYPE glib_pool
#define BENCH_CREATE(s, workers, producers) glib_pool_create(s, workers)
#define BENCH_DESTROY(s) glib_pool_destroy(s)
#define BENCH_JOB peer_job
#define BENCH_BOUND BENCH_UNBOUNDED
#define BENCH_PREPARE(job) peer_job_prepare(job)
#define BENCH_SUBMIT(s, job, producer) glib_pool_submit(s, job)
#define BENCH_WAIT(s, job) peer_job_wait(&(s)->sleepers, job)
#include "bulkhead_loops.h"
#endif

#ifdef HAVE_UV_POOL
static const contestant peer_uv = {
    .label = "libuv uv_queue_work",
    .kind = BENCH_PEER,
    .scenarios = FLOOD_1 | TRIP_1 | IN_FLIGHT | BODIES,
    .create = uv_pool_create,
    .destroy = uv_pool_destroy,
    .flood = uv_pool_flood,
    .trips = uv_pool_trips,
    .forked = true,
};
#endif

/* build.sh says where it has put the programs that it could build. */
static bench_child children[] = {
#ifdef HAVE_GO_POOL
    {.name = "Go channel pool", .command = {BENCH_DIRECTORY "/bulkhead_peer_go"}},
#endif
#ifdef HAVE_JAVA_POOL
    {.name = "Java ThreadPoolExecutor",
     .command = {"java", "-cp", BENCH_DIRECTORY "/java", "BulkheadPeer"}},
#endif
    {.name = NULL},
};
enum {
    CHILDREN = sizeof children / sizeof children[0] - 1,
    GO = 0,
#ifdef HAVE_GO_POOL
    JAVA = GO + 1,
#else
    JAVA = GO,
#endif
};

#ifdef HAVE_GO_POOL
static const contestant go = {
    .label = "Go channel pool",
    .kind = BENCH_PEER,
    .scenarios = FLOOD | TRIP,
    .child = &children[GO],
    .variant = "plain",
};
#endif
#ifdef HAVE_JAVA_POOL
static const contestant java = {
    .label = "Java ThreadPoolExecutor",
    .kind = BENCH_PEER,
    .scenarios = FLOOD | TRIP,
    .child = &children[JAVA],
    .variant = "plain",
};
#endif

/* How cost grows: a row is a size. */
#define SIZE(text, scenario, size) \
    { \
        .label = text, .kind = BENCH_OURS, .scenarios = scenario, .parameter = size \
    }
static const contestant by_producers[] = {
    SIZE("1 producer", PRODUCERS, 1),    SIZE("2 producers", PRODUCERS, 2),
    SIZE("4 producers", PRODUCERS, 4),   SIZE("8 producers", PRODUCERS, 8),
    SIZE("16 producers", PRODUCERS, 16), SIZE("64 producers", PRODUCERS, 64),
};
enum { DEPTH_MAX = 100000 };
static const contestant by_depth[] = {
    SIZE("1 job waits", DEPTH, 1),         SIZE("10 jobs wait", DEPTH, 10),
    SIZE("100 jobs wait", DEPTH, 100),     SIZE("1000 jobs wait", DEPTH, 1000),
    SIZE("10000 jobs wait", DEPTH, 10000), SIZE("100000 jobs wait", DEPTH, DEPTH_MAX),
};
/* Beside us the limit, and a peer. */
#define AMONG(text, whose, scenario, size) \
    { \
        .label = text, .kind = whose, .scenarios = scenario, .parameter = size \
    }
#define LIMIT(text, size) AMONG("limit: spinning MPMC queue, " text, BENCH_LIMIT, PRODUCERS, size)
static const contestant limit_by_producers[] = {
    LIMIT("1", 1), LIMIT("2", 2), LIMIT("4", 4), LIMIT("8", 8), LIMIT("16", 16), LIMIT("64", 64),
};
#undef LIMIT
#define PEER(text, size) AMONG("mutex+cond pool, " text, BENCH_PEER, PRODUCERS, size)
static const contestant peer_by_producers[] = {
    PEER("1", 1), PEER("2", 2), PEER("4", 4), PEER("8", 8), PEER("16", 16), PEER("64", 64),
};
#undef PEER
#define LIMIT(text, size) AMONG("limit: bare list, " text, BENCH_LIMIT, DEPTH, size)
static const contestant limit_by_depth[] = {
    LIMIT("1", 1),       LIMIT("10", 10),       LIMIT("100", 100),
    LIMIT("1000", 1000), LIMIT("10000", 10000), LIMIT("100000", DEPTH_MAX),
};
#undef LIMIT

/* Callers on their own threads; `parameter` holds the flags. */
static const contestant in_order = AMONG("bulkhead", BENCH_OURS, CONTENDED, 0);
static const contestant unfair =
    AMONG("bulkhead, BULKHEAD_UNFAIR", BENCH_OURS, CONTENDED, BULKHEAD_UNFAIR);

static const contestant *const contestants[] = {
    &in_order,
    &unfair,
    &limit_known,
    &limit_cas,
    &limit_refusal,
    &limit_vyukov,
    &limit_array,
    &limit_scattered,
    &ours_pair,
    &ours_beside,
    &ours_invoke,
    &ours_inline,
    &ours_refusal,
    &ours_refused_submit,
    &ours_full,
    &ours,
    &ours_array,
    &ours_scattered,
    &ours_limited,
    &ours_retried,
    &ours_timed,
    &ours_detached,
    &ours_executed,
    &ours_on_loop,
    &ours_later,
#ifdef HAVE_SEM_T
    &peer_sem,
    &peer_sem_refusal,
#endif
    &peer_mutex,
    &peer_mutex_refusal,
    &peer_mutex_pool,
#ifdef HAVE_GLIB
    &peer_glib,
#endif
#ifdef HAVE_UV_POOL
    &peer_uv,
#endif
#ifdef HAVE_TBB
    &peer_tbb,
#endif
#ifdef HAVE_MOODYCAMEL
    &peer_moodycamel,
#endif
#ifdef HAVE_GO_POOL
    &go,
#endif
#ifdef HAVE_JAVA_POOL
    &java,
#endif
    &limit_by_producers[0],
    &limit_by_producers[1],
    &limit_by_producers[2],
    &limit_by_producers[3],
    &limit_by_producers[4],
    &limit_by_producers[5],
    &peer_by_producers[0],
    &peer_by_producers[1],
    &peer_by_producers[2],
    &peer_by_producers[3],
    &peer_by_producers[4],
    &peer_by_producers[5],
    &by_producers[0],
    &by_producers[1],
    &by_producers[2],
    &by_producers[3],
    &by_producers[4],
    &by_producers[5],
    &limit_by_depth[0],
    &limit_by_depth[1],
    &limit_by_depth[2],
    &limit_by_depth[3],
    &limit_by_depth[4],
    &limit_by_depth[5],
    &by_depth[0],
    &by_depth[1],
    &by_depth[2],
    &by_depth[3],
    &by_depth[4],
    &by_depth[5],
};
enum { CONTESTANTS = sizeof contestants / sizeof contestants[0] };

/* With room for the children that were built, but do not start. */
static const char *skipped[16] = {
#ifndef HAVE_SEM_T
    "sem_t (there is no unnamed POSIX semaphore)",
#endif
#ifndef HAVE_GLIB
    "GLib GThreadPool (libglib2.0-dev is not installed)",
#endif
#ifndef HAVE_UV_POOL
    "libuv uv_queue_work (libuv1-dev is not installed)",
#endif
#ifndef HAVE_TBB
    "TBB task_arena (libtbb-dev is not installed)",
#endif
#ifndef HAVE_MOODYCAMEL
    "BlockingConcurrentQueue (libconcurrentqueue-dev is not installed)",
#endif
#ifndef HAVE_GO_POOL
    "Go channel pool (golang-go is not installed)",
#endif
#ifndef HAVE_JAVA_POOL
    "Java ThreadPoolExecutor (default-jdk-headless is not installed)",
#endif
#ifndef COUNTS_WAKES
    "futex wakes (there is no futex)",
#endif
#ifndef COUNTS_MALLOCS
    "allocations (only glibc's malloc can be counted)",
#endif
    NULL,
};

#include "report.h"
#include "children.h"
#include "mallocs.h"

/* ---- Repetitions of each scenario ----------------------------------------------------------- */

static void measure_often(const contestant *who, const table *t, double out[])
{
    void *object = who->create(t->capacity, t->threads);
    out[0] = pair_ns(who->often, object);
    who->destroy(object);
}

typedef void (*body_of)(bench_thread *self);

static window measure_body(const contestant *who, body_of body, int producers, int workers,
                           double out[2])
{
    run.first = who->create(workers, producers);
    window w = run_alike(body, producers, options.ms);
    out[0] = w.wall_ns / w.ops;
    out[1] = w.cpu_ns / w.ops;
    who->destroy(run.first);
    return w;
}

/* The same in a process of its own. If that dies, so do we: it is our own code. */
static void measure_forked(const contestant *who, body_of body, int producers, int workers,
                           double out[2])
{
    int ends[2];
    pid_t pid = -1;
    fflush(stdout);
    if (pipe(ends) == 0) {
        pid = fork();
    }
    if (pid == 0) {
        signal(SIGALRM, give_up); /* and not the children, which are not ours here */
        measure_body(who, body, producers, workers, out);
        _exit(write(ends[1], out, 2 * sizeof out[0]) == (ssize_t)(2 * sizeof out[0]) ? 0 : 1);
    }
    if (pid > 0) {
        close(ends[1]);
        bool told = read(ends[0], out, 2 * sizeof out[0]) == (ssize_t)(2 * sizeof out[0]);
        close(ends[0]);
        waitpid(pid, NULL, 0);
        if (told) {
            return;
        }
    }
    fprintf(stderr, "%s: %s does not answer\n", this_program->name, who->label);
    exit(1);
}

static process process_of_each(const contestant *who)
{
    return who->forked ? CHILD_PROCESS : process_of(who);
}

static void measure_pool(const contestant *who, const table *t, const char *question, body_of body,
                         double out[])
{
    if (who->child != NULL) {
        ask(who, out, "%s %d %d %d %d", question, t->threads, t->capacity, PLACES, options.ms);
    } else if (who->forked) {
        measure_forked(who, body, t->threads, t->capacity, out);
    } else {
        measure_body(who, body, t->threads, t->capacity, out);
    }
}

static void measure_flood(const contestant *who, const table *t, double out[])
{
    measure_pool(who, t, "flood", who->flood, out);
}

static void measure_trip(const contestant *who, const table *t, double out[])
{
    measure_pool(who, t, "trip", who->trips, out);
}

#ifdef COUNTS_MALLOCS
static int meet(bulkhead_job *job)
{
    pthread_barrier_wait(job->arg);
    return 0;
}

/* Workers are created when first needed, each with two calls of malloc: one is ours, one is for its
 * thread. On a busy machine the last of them may be needed long after the start. So there are as
 * many jobs as workers first, which end only when all of them run. */
static void hire_all(bulkhead *b, int workers)
{
    bulkhead_job jobs[WORKERS_MAX];
    pthread_barrier_t all;
    must(workers > WORKERS_MAX || pthread_barrier_init(&all, NULL, (unsigned)workers) != 0);
    for (int i = 0; i < workers; i++) {
        jobs[i] = (bulkhead_job){.run = meet, .arg = &all};
        must(bulkhead_submit(b, &jobs[i]));
    }
    for (int i = 0; i < workers; i++) {
        must(bulkhead_wait(&jobs[i], PLIM_FOREVER));
    }
    pthread_barrier_destroy(&all);
}

static void measure_mallocs(const contestant *who, const table *t, double out[])
{
    run.first = who->create(t->capacity, t->threads);
    if (who == &ours) {
        hire_all(&((ours_object *)run.first)->is, t->capacity);
    }
    __atomic_store_n(&mallocs, 0, __ATOMIC_RELAXED);
    mallocs_count = true;
    window w = run_alike(who->flood, t->threads, options.ms / 2 + 1);
    mallocs_count = false;
    out[0] = (double)bench_read(&mallocs);
    out[1] = out[0] / w.ops;
    who->destroy(run.first);
}
#endif

static void measure_producers(const contestant *who, const table *t, double out[])
{
    static const contestant *const whose[] = {
        [BENCH_LIMIT] = &limit_vyukov, [BENCH_OURS] = &ours, [BENCH_PEER] = &peer_mutex_pool};
    const contestant *it = whose[who->kind];
    measure_body(it, it->flood, who->parameter, t->capacity, out);
    measure_body(it, it->trips, who->parameter, t->capacity, out + 2);
}

static int jobs_at_once; /* of a producer, where it has not as many as it likes */

/* Of a child and of a fork nobody knows how often it sleeps. */
static void measure_in_flight(const contestant *who, const table *t, double out[])
{
    out[2] = out[3] = (double)NAN;
    if (who->child != NULL) { /* it has two jobs for each place */
        ask(who, out, "flood %d %d %d %d", t->threads, t->capacity, jobs_at_once / 2, options.ms);
        return;
    }
    run.in_flight = jobs_at_once;
    if (who->forked) {
        measure_forked(who, who->flood, t->threads, t->capacity, out);
    } else {
#ifdef COUNTS_WAKES
        __atomic_store_n(&wakes, 0, __ATOMIC_RELAXED);
        wakes_phase = &run.phase;
#endif
        window w = measure_body(who, who->flood, t->threads, t->capacity, out);
        out[2] = 1000 * w.sleeps / w.ops;
#ifdef COUNTS_WAKES
        out[3] = who->kind == BENCH_OURS ? 1000 * (double)bench_read(&wakes) / w.ops : (double)NAN;
#endif
    }
    run.in_flight = 0;
}

static int body_ns; /* of each job, where it is not empty */

static void measure_bodies(const contestant *who, const table *t, double out[])
{
    if (who->child != NULL) {
        ask(who, out, "flood %d %d %d %d %d", t->threads, t->capacity, PLACES, options.ms, body_ns);
    } else {
        bulkhead_body = work_rounds * (uint64_t)body_ns / 50;
        measure_pool(who, t, "flood", who->flood, out);
        bulkhead_body = 0;
    }
    out[2] = out[1] / body_ns;
}

/* ---- Depth ---------------------------------------------------------------------------------- */

typedef struct deep {
    blocked b;
    uint64_t depth, random;
    bulkhead_job *jobs;
} deep;

/* One comes and goes, behind all the others. */
static void come_and_go(void *object, uint64_t count)
{
    deep *d = object;
    for (uint64_t i = 0; i < count; i++) {
        must(bulkhead_submit(&d->b.is, &d->b.next));
        must(bulkhead_cancel(&d->b.is, &d->b.next));
    }
}

/* Any of those who wait goes, and comes back behind the others. */
static void go_and_come(void *object, uint64_t count)
{
    deep *d = object;
    for (uint64_t i = 0; i < count; i++) {
        bulkhead_job *job = &d->jobs[any_of(&d->random, d->depth)];
        must(bulkhead_cancel(&d->b.is, job));
        must(bulkhead_submit(&d->b.is, job));
    }
}

/* The least that a queue can cost from which any job may go: a list, and a lock of two atomic
 * steps. Its jobs are as large as ours. */
typedef struct limit_job {
    struct limit_job *next, *before;
    char rest[sizeof(bulkhead_job) - 2 * sizeof(void *)];
} limit_job;

typedef struct limit_deep {
    uint64_t lock, depth, random;
    limit_job all, newest, *jobs;
} limit_deep;

static void limit_come(limit_deep *d, limit_job *job)
{
    bench_cas_take(&d->lock, 1);
    job->next = &d->all;
    job->before = d->all.before;
    d->all.before->next = job;
    d->all.before = job;
    bench_cas_give(&d->lock, 1);
}

static void limit_go(limit_deep *d, limit_job *job)
{
    bench_cas_take(&d->lock, 1);
    job->before->next = job->next;
    job->next->before = job->before;
    bench_cas_give(&d->lock, 1);
}

static void limit_come_and_go(void *object, uint64_t count)
{
    limit_deep *d = object;
    for (uint64_t i = 0; i < count; i++) {
        limit_come(d, &d->newest);
        limit_go(d, &d->newest);
    }
}

static void limit_go_and_come(void *object, uint64_t count)
{
    limit_deep *d = object;
    for (uint64_t i = 0; i < count; i++) {
        limit_job *job = &d->jobs[any_of(&d->random, d->depth)];
        limit_go(d, job);
        limit_come(d, job);
    }
}

static void measure_limit_depth(const contestant *who, double out[])
{
    limit_deep *d = bench_memory(sizeof *d);
    d->lock = d->random = 1;
    d->all.next = d->all.before = &d->all;
    d->depth = (uint64_t)who->parameter;
    d->jobs = bench_memory(d->depth * sizeof d->jobs[0]);
    for (uint64_t i = 0; i < d->depth; i++) {
        limit_come(d, &d->jobs[i]);
    }
    out[0] = pair_ns(limit_come_and_go, d);
    out[1] = pair_ns(limit_go_and_come, d);
    free(d->jobs);
    free(d);
}

static void measure_depth(const contestant *who, const table *t, double out[])
{
    if (who->kind == BENCH_LIMIT) {
        measure_limit_depth(who, out);
        return;
    }
    deep *d = bench_memory(sizeof *d);
    (void)t;
    create_blocked(&d->b, 1, 0);
    d->depth = (uint64_t)who->parameter;
    d->random = 1;
    d->jobs = bench_memory(d->depth * sizeof d->jobs[0]);
    memset(d->jobs, 0, d->depth * sizeof d->jobs[0]);
    for (uint64_t i = 0; i < d->depth; i++) {
        d->jobs[i].run = unknown_bulkhead_job();
        must(bulkhead_submit(&d->b.is, &d->jobs[i]));
    }
    come_and_go(d, 1); /* all that were submitted get to their places in the queue */
    out[0] = pair_ns(come_and_go, d);
    out[1] = pair_ns(go_and_come, d);
    destroy_blocked(&d->b);
    free(d->jobs);
    free(d);
}

/* Many callers enter, stay for a moment, and leave. */
static void enter_and_leave(bench_thread *self)
{
    bulkhead *b = self->run->first;
    uint64_t ops = 0;
    while (bench_phase(self->run) != BENCH_STOP) {
        must(bulkhead_enter(b));
        for (int i = 0; i < 20; i++) {
            bench_pause();
        }
        must(bulkhead_leave(b));
        bench_publish(&self->ops, ++ops);
    }
}

static void measure_contended(const contestant *who, const table *t, double out[])
{
    bulkhead *b = bench_memory(sizeof *b);
    create_ours(b, BULKHEAD_SYNC, t->capacity, 0, (uint32_t)who->parameter);
    run.first = b;
    window w = run_alike(enter_and_leave, t->threads, options.ms);
    out[0] = w.wall_ns / w.ops;
    out[1] = w.cpu_ns / w.ops;
    destroy_ours(b);
    free(b);
}

/* ---- The scenarios -------------------------------------------------------------------------- */

static void run_contended(void)
{
    static const scenario contended = {
        .name = "contended",
        .title = "enter, 20 pauses, leave, by many callers",
        .metrics = {"call_ns", "cpu_ns"},
        .columns = {{"ns", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x in order", 0, TO_REFERENCE},
                    {"CPU ns", 1, MEDIAN}},
    };
    static const struct {
        const char *name;
        int threads, permits;
    } sizes[] = {{"T=4 P=1", 4, 1}, {"T=8 P=2", 8, 2}, {"T=32 P=4", 32, 4}};
    for (int i = 0; i < 3; i++) {
        const table *t = run_table(&contended, CONTENDED, sizes[i].name, sizes[i].threads,
                                   sizes[i].permits, options.reps, measure_contended);
        add_bar(ratio(t, row_of(t, unfair.label), row_of(t, in_order.label), 0), false, 0.9,
                "%s: time with BULKHEAD_UNFAIR x in order", sizes[i].name);
    }
}

static void run_permit(void)
{
    static const scenario permit = {
        .name = "permit",
        .title = "a permit taken and given back, beside an idle thread, CPU time",
        .limit = &limit_cas,
        .metrics = {"pair_ns"},
        .columns = {{"ns/pair", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x load+CAS", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE}},
    };
    /* Short repetitions, so there can be more of them. */
    const table *t =
        run_table(&permit, PERMIT, "1 of 16", 1, PERMITS, 3 * options.reps, measure_often);
    const row *us = row_of(t, "bulkhead");
    add_bar(look(t, us, 0, TO_LIMIT), false, 1.3, "enter+leave: time x load+CAS, twice");
    add_bar(look(t, row_of(t, ours_beside.label), 0, TO_LIMIT), false, 1.3,
            "enter+leave while a job runs: time x load+CAS, twice");
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].who->kind == BENCH_PEER) {
            add_bar(ratio(t, us, &t->row[i], 0), false, 1.0, "enter+leave: time x %s",
                    t->row[i].who->label);
        }
    }
    add_bar(look(t, row_of(t, "bulkhead invoke, inline"), 0, TO_LIMIT), false, 3,
            "invoke inline: time x load+CAS, twice");
}

static void run_refusal(void)
{
    static const scenario refusal = {
        .name = "refusal",
        .title = "a refusal by a full one, beside an idle thread, CPU time",
        .limit = &limit_refusal,
        .metrics = {"refusal_ns"},
        .columns = {{"ns", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x limit", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE}},
    };
    const table *t = run_table(&refusal, REFUSAL, "", 1, 1, 3 * options.reps, measure_often);
    add_bar(look(t, row_of(t, "bulkhead"), 0, TO_LIMIT), false, 2,
            "try_enter refused: time x a load and a CAS");
    add_bar(look(t, row_of(t, ours_full.label), 0, TO_LIMIT), false, 2,
            "submit refused, full queue: time x a load and a CAS");
}

static const column pool_columns[] = {
    {"ns/job", 0, MEDIAN},       {"spread %", 0, SPREAD},   {"x limit", 0, TO_LIMIT},
    {"x ours", 0, TO_REFERENCE}, {"CPU ns/job", 1, MEDIAN}, {"x ours", 1, TO_REFERENCE},
};

/* Ahead of all peers; and of the pool that one writes by hand by that much, if it is not 0. */
static void add_peer_bars(const table *t, const char *what, double aim_by_hand)
{
    const row *us = row_of(t, "bulkhead");
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].who->kind == BENCH_PEER) {
            const bool by_hand = aim_by_hand != 0 && t->row[i].who == &peer_mutex_pool;
            add_bar(ratio(t, us, &t->row[i], 0), false, by_hand ? aim_by_hand : 1.0,
                    "%s: time x %s", what, t->row[i].who->label);
        }
    }
}

static void run_throughput(void)
{
    static scenario throughput = {
        .name = "throughput",
        .title = "empty jobs, submitted until done, 1024 may wait",
        .limit = &limit_vyukov,
        .metrics = {"job_ns", "cpu_ns"},
    };
    memcpy(throughput.columns, pool_columns, sizeof pool_columns);
    for (int producers = 1; producers <= 2; producers++) {
        for (int workers = 2; workers <= 4; workers += 2) {
            char config[32], what[48];
            snprintf(config, sizeof config, "P=%d W=%d", producers, workers);
            snprintf(what, sizeof what, "throughput, %s", config);
            const table *t = run_table(&throughput, producers == 1 ? FLOOD_1 : FLOOD_2, config,
                                       producers, workers, options.reps, measure_flood);
            add_bar(look(t, row_of(t, "bulkhead"), 0, TO_LIMIT), false, 2.2,
                    "%s: time x the spinning queue", what);
            add_peer_bars(t, what, 0.45);
            add_bar(ratio(t, row_of(t, "bulkhead"), row_of(t, peer_mutex_pool.label), 1), false,
                    0.5, "%s: CPU x %s", what, peer_mutex_pool.label);
        }
    }
}

static void run_roundtrip(void)
{
    static scenario roundtrip = {
        .name = "roundtrip",
        .title = "one empty job, submitted and waited for",
        .limit = &limit_vyukov,
        .metrics = {"trip_ns", "cpu_ns"},
        .note = "goroutines take turns on one thread, so Go wakes none; TBB's workers spin for it",
    };
    memcpy(roundtrip.columns, pool_columns, sizeof pool_columns);
    for (int producers = 1; producers <= 2; producers++) {
        char config[32], what[48];
        snprintf(config, sizeof config, "P=%d W=2", producers);
        snprintf(what, sizeof what, "round trip, P=%d", producers);
        const table *t = run_table(&roundtrip, producers == 1 ? TRIP_1 : TRIP_2, config, producers,
                                   2, options.reps, measure_trip);
        add_bar(look(t, row_of(t, "bulkhead"), 0, TO_LIMIT), false, 1.6,
                "%s: time x the spinning queue", what);
        add_peer_bars(t, what, 0);
    }
}

static void run_in_flight(void)
{
    static const scenario in_flight = {
        .name = "inflight",
        .title = "empty jobs, never more than so many in flight",
        .limit = &limit_vyukov,
        .metrics = {"job_ns", "cpu_ns", "sleeps", "wakes"},
        .columns = {{"ns/job", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x limit", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE},
                    {"CPU ns/job", 1, MEDIAN},
                    {"x ours", 1, TO_REFERENCE},
                    {"sleeps/1000", 2, MEDIAN},
                    {"wakes/1000", 3, MEDIAN}},
        .note = "sleeps of all threads, and futex wakes of our header, for 1000 jobs",
    };
    static const int sizes[] = {2, 8, 64};
    for (int i = 0; i < 3; i++) {
        for (int workers = 2; workers <= 8; workers *= 2) {
            char config[32];
            jobs_at_once = sizes[i];
            snprintf(config, sizeof config, "%d jobs, W=%d", jobs_at_once, workers);
            const table *t = run_table(&in_flight, IN_FLIGHT, config, 1, workers, options.reps,
                                       measure_in_flight);
            add_bar(ratio(t, row_of(t, "bulkhead"), row_of(t, peer_mutex_pool.label), 0), false, 1,
                    "in flight, %s: time x %s", config, peer_mutex_pool.label);
        }
    }
}

static void run_bodies(void)
{
    static const scenario bodies = {
        .name = "bodies",
        .title = "jobs that take their time, P=1 W=2",
        .limit = &limit_vyukov,
        .metrics = {"job_ns", "cpu_ns", "cpu_to_body"},
        .columns = {{"ns/job", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x limit", 0, TO_LIMIT},
                    {"x ours", 0, TO_REFERENCE},
                    {"CPU ns/job", 1, MEDIAN},
                    {"x ours", 1, TO_REFERENCE},
                    {"CPU x body", 2, MEDIAN}},
    };
    static const struct {
        const char *name;
        int ns;
    } sizes[] = {{"100 ns", 100}, {"1 us", 1000}, {"10 us", 10000}};
    for (int i = 0; i < 3; i++) {
        char what[48];
        snprintf(what, sizeof what, "body of %s", sizes[i].name);
        body_ns = sizes[i].ns;
        const table *t =
            run_table(&bodies, BODIES, sizes[i].name, 1, 2, options.reps, measure_bodies);
        add_peer_bars(t, what, 0);
        if (i == 2) {
            add_bar(look(t, row_of(t, "bulkhead"), 2, MEDIAN), false, 1.03, "%s: CPU x body", what);
        }
    }
}

static void run_placement(void)
{
    static scenario placement = {
        .name = "placement",
        .title = "empty jobs in an array, and scattered over 64 MB",
        .limit = &limit_array,
        .metrics = {"job_ns", "cpu_ns"},
    };
    memcpy(placement.columns, pool_columns, sizeof pool_columns);
    const table *t = run_table(&placement, PLACEMENT, "P=1 W=2", 1, 2, options.reps, measure_flood);
    add_bar(look(t, row_of(t, ours_scattered.label), 0, TO_REFERENCE), false, 1.5,
            "jobs scattered over 64 MB: time x in an array");
}

static void run_kinds(void)
{
    static scenario kinds = {
        .name = "kinds",
        .title = "empty jobs that ask for more",
        .limit = &limit_vyukov,
        .metrics = {"job_ns", "cpu_ns"},
        .note = "the executor is the spinning queue of the first row, or an event loop",
    };
    memcpy(kinds.columns, pool_columns, sizeof pool_columns);
    const table *t = run_table(&kinds, KINDS, "P=1 W=2", 1, 2, options.reps, measure_flood);
    for (int i = 0; i < t->rows; i++) {
        const contestant *who = t->row[i].who;
        if (who->kind == BENCH_OURS && who != &ours && who != &ours_on_loop && who != &ours_later) {
            add_bar(look(t, &t->row[i], 0, TO_REFERENCE), false, 2, "%s: time x a plain job",
                    who->label);
        }
    }
    add_bar(ratio(t, row_of(t, ours_later.label), row_of(t, ours_on_loop.label), 0), false, 1.5,
            "a job on a loop that is finished later: time x one that ends at once");
}

static void run_allocations(void)
{
#ifdef COUNTS_MALLOCS
    static const scenario allocations = {
        .name = "allocations",
        .title = "calls of malloc and its like, once it is warm",
        .metrics = {"mallocs", "mallocs_per_job"},
        .columns = {{"calls", 0, MEDIAN}, {"worst", 0, WORST}, {"per job", 1, MEDIAN}},
    };
    check_that_mallocs_count();
    const table *t = run_table(&allocations, MALLOCS, "P=2 W=2", 2, 2,
                               options.reps < 3 ? options.reps : 3, measure_mallocs);
    add_bar(look(t, row_of(t, "bulkhead"), 0, WORST), false, 0, "allocations: calls of malloc");
#endif
}

static void run_producers(void)
{
    static const scenario producers = {
        .name = "producers",
        .title = "empty jobs and round trips, by the number of producers",
        .limit = &by_producers[0],
        .metrics = {"job_ns", "job_cpu_ns", "trip_ns", "trip_cpu_ns"},
        .columns = {{"ns/job", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x with 1", 0, TO_LIMIT},
                    {"CPU ns/job", 1, MEDIAN},
                    {"ns/trip", 2, MEDIAN},
                    {"spread %", 2, SPREAD},
                    {"x with 1", 2, TO_LIMIT},
                    {"CPU ns/trip", 3, MEDIAN}},
        .note = "ns of all of them together: the time divided by the jobs of all",
    };
    const table *t = run_table(&producers, PRODUCERS, "W=2", 0, 2, options.reps, measure_producers);
    for (int i = 2; i < (int)(sizeof by_producers / sizeof by_producers[0]); i++) {
        add_bar(ratio(t, row_of(t, by_producers[i].label), row_of(t, by_producers[1].label), 0),
                false, 1.5, "%s: time x with 2", by_producers[i].label);
    }
}

static void run_depth(void)
{
    static const scenario depth = {
        .name = "depth",
        .title = "submit and cancel of a job, by those that wait, CPU time of the thread",
        .limit = &by_depth[2],
        .metrics = {"newest_ns", "random_ns"},
        .columns = {{"ns, newest", 0, MEDIAN},
                    {"spread %", 0, SPREAD},
                    {"x with 100", 0, TO_LIMIT},
                    {"ns, random", 1, MEDIAN},
                    {"spread %", 1, SPREAD},
                    {"x with 100", 1, TO_LIMIT}},
        .note = "a random one of many is not in the cache, nor are its neighbours in the queue",
    };
    const table *t = run_table(&depth, DEPTH, "", 1, 1, options.reps, measure_depth);
    add_bar(look(t, row_of(t, "100000 jobs wait"), 0, TO_LIMIT), false, 2,
            "depth: time with 100000 waiting x that with 100");
}

/* ---- main ----------------------------------------------------------------------------------- */

static const program bench_bulkhead = {
    .name = "bench_bulkhead",
    .reps = 5,
    .ms = 120,
    .in_vain_max = 5,
    .reference = "bulkhead",
    .reference_suffix = "_to_ours",
    .capacity_key = "workers",
    .process_of = process_of_each,
    .children_ns = children_ns,
    .scenarios = {{"permit", run_permit},
                  {"refusal", run_refusal},
                  {"contended", run_contended},
                  {"throughput", run_throughput},
                  {"roundtrip", run_roundtrip},
                  {"allocations", run_allocations},
                  {"producers", run_producers},
                  {"depth", run_depth},
                  {"inflight", run_in_flight},
                  {"bodies", run_bodies},
                  {"placement", run_placement},
                  {"kinds", run_kinds}},
};

int main(int argc, char **argv)
{
    FILE *json = begin_report(&bench_bulkhead, argc, argv);
    start_children();
    calibrate();
    print_machine();
    print_children();
    print_skipped();
    run_scenarios();
    stop_children();
    end_report(json);
    return 0;
}
