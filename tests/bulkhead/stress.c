/* SPDX-License-Identifier: MIT
 *
 * Threads do random things to one bulkhead, round after round, with all that a caller may do. They
 * enter and leave, invoke, submit with delays, deadlines, retries and run timeouts. They wait,
 * cancel, resize and wait_idle. Several at once close it at the end of the round or in its middle.
 * There are own workers or an executor. After each round the books are checked: the limit never
 * exceeded, each accepted job ended once, and accepted = the sum of the outcomes.
 *
 *   stress [SECONDS] [SEED]
 */
#undef NDEBUG
#include "../../bulkhead.h"
#include "../support.h"
#include "../stress.h"

#include <inttypes.h>

enum { MOST_THREADS = 6, STEPS = 120, MOST_PERMITS = 4 };

typedef struct round_ {
    bulkhead b;
    int limit;         /* the most permits of the round */
    atomic_int inside; /* bodies and callers */
    atomic_int too_much, odd, calls;
    atomic_uint_least64_t operations, accepted, ended[BULKHEAD_ABORTED + 1], done;
    bool closes, resizes, own_workers;
} round_;

typedef struct task {
    bulkhead_job job;
    round_ *r;
    uint64_t random;
    bool accepted;
    atomic_int runs, dones;
} task;

typedef struct member {
    round_ *r;
    uint64_t random;
    plim_thread thread;
    task tasks[STEPS];
} member;

static void be_inside(round_ *r, uint64_t random)
{
    if (atomic_fetch_add(&r->inside, 1) + 1 > r->limit) {
        atomic_fetch_add(&r->too_much, 1);
    }
    dawdle(random);
    atomic_fetch_sub(&r->inside, 1);
}

static int run_task(bulkhead_job *job)
{
    task *t = job->arg;
    be_inside(t->r, t->random);
    atomic_fetch_add(&t->runs, 1);
    if (t->random % 11 == 0 && t->r->limit > 1) { /* a try cannot deadlock */
        if (bulkhead_try_enter(&t->r->b) == 0) {
            be_inside(t->r, 2);
            bulkhead_leave(&t->r->b);
        }
    }
    if (t->random % 97 == 0 && t->r->own_workers) {
        end_the_thread(NULL);
    }
    return t->random % 3 == 0 ? EIO : 0;
}

static void task_done(bulkhead_job *job)
{
    task *t = job->arg;
    atomic_fetch_add(&t->dones, 1);
    atomic_fetch_add(&t->r->done, 1);
}

static int call_in(void *arg)
{
    be_inside(arg, 5);
    return 7;
}

/* An executor with a thread for each task, or none at all, or a refusal. */
static int execute(void *ctx, void (*run)(void *), void *arg)
{
    round_ *r = ctx;
    int call = atomic_fetch_add(&r->calls, 1);
    if (call % 13 == 0) {
        return EAGAIN;
    }
    start_errand(run, arg);
    return 0;
}

static int submit(round_ *r, task *t, uint64_t random, int64_t time)
{
    memset((void *)t, 0, sizeof *t);
    t->r = r;
    t->random = random >> 24;
    t->job.run = run_task;
    t->job.arg = t;
    t->job.done = random % 2 == 0 ? task_done : NULL;
    t->job.detached = t->job.done != NULL && random % 5 == 0;
    t->job.delay_ns = random % 7 == 0 ? time : 0;
    t->job.start_within_ns = random % 6 == 0 ? time + 1 : 0;
    t->job.run_timeout_ns = random % 9 == 0 ? time / 16 + 1 : 0;
    t->job.attempts = (uint32_t)(random % 4);
    int error = random % 3 == 0 ? bulkhead_submit(&r->b, &t->job)
                                : bulkhead_submit_for(&r->b, &t->job, time);
    t->accepted = error == 0;
    atomic_fetch_add(&r->accepted, error == 0);
    return error;
}

static plim_thread_result take_part(void *arg)
{
    member *m = arg;
    round_ *r = m->r;
    for (int i = 0; i < STEPS; i++) {
        uint64_t random = next_random(&m->random);
        int64_t time = (int64_t)(random >> 20) % PLIM_US(300);
        task *t = &m->tasks[i], *other = &m->tasks[random % (uint64_t)(i + 1)];
        int error = 0, result = 0;
        t->accepted = false;
        atomic_fetch_add(&r->operations, 1);
        switch (random % 16) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
            error = submit(r, t, random >> 5, time);
            break;
        case 5:
        case 6:
        case 7:
            error = random % 3 == 0 ? bulkhead_enter(&r->b) : bulkhead_enter_for(&r->b, time);
            if (error == 0) {
                be_inside(r, random >> 24);
                if (bulkhead_leave(&r->b) != 0) {
                    atomic_fetch_add(&r->odd, 1);
                }
            }
            break;
        case 8:
        case 9:
            error = bulkhead_invoke(&r->b, call_in, r, &result);
            if (error == 0 && result != 7) {
                atomic_fetch_add(&r->odd, 1);
            }
            break;
        case 10:
        case 11:
            if (other->accepted && !other->job.detached) {
                error = bulkhead_cancel(&r->b, &other->job);
                error = error == EBUSY || error == EALREADY ? 0 : error;
            }
            break;
        case 12:
            if (other->accepted && !other->job.detached) {
                error = bulkhead_wait(&other->job, time);
            }
            break;
        case 13:
            if (r->resizes) {
                error = bulkhead_resize(&r->b, (int32_t)(random % (uint64_t)r->limit) + 1,
                                        (int32_t)(random % 8));
            }
            break;
        case 14:
            error = bulkhead_wait_idle(&r->b, time);
            break;
        default:
            if (r->closes && i > STEPS / 2) {
                bulkhead_close(&r->b, random % 32 < 16 ? BULKHEAD_DRAIN : BULKHEAD_ABORT, time);
            }
            bulkhead_stats s = bulkhead_snapshot(&r->b);
            if (s.in_use > (uint32_t)r->limit || s.workers_idle > s.workers ||
                s.succeeded + s.failed + s.timed_out + s.expired + s.cancelled + s.aborted >
                    s.accepted) {
                atomic_fetch_add(&r->odd, 1);
            }
        }
        if (error != 0 && error != EAGAIN && error != ETIMEDOUT &&
            !(error == ESHUTDOWN && r->closes)) {
            atomic_fetch_add(&r->odd, 1);
        }
    }
    return 0;
}

/* Each job that was accepted has ended once, and was run as often as its end says. */
static void check_tasks(round_ *r, member *m)
{
    for (int i = 0; i < STEPS; i++) {
        task *t = &m->tasks[i];
        if (!t->accepted) {
            continue;
        }
        bulkhead_outcome outcome = t->job.outcome;
        int runs = atomic_load(&t->runs), dones = atomic_load(&t->dones);
        bool odd = outcome == BULKHEAD_PENDING || dones != (t->job.done != NULL) ||
                   (outcome == BULKHEAD_SUCCEEDED && runs == 0) ||
                   (outcome == BULKHEAD_EXPIRED && runs != 0) || runs > 4;
        atomic_fetch_add(&r->odd, odd);
        atomic_fetch_add(&r->ended[outcome], 1);
    }
}

static member members[MOST_THREADS];

int main(int argc, char **argv)
{
    stress run = stress_begin("bulkhead/stress", argc, argv);
    while (stress_goes_on(&run)) {
        static round_ r;
        memset((void *)&r, 0, sizeof r);
        r.limit = (int)(next_random(&run.random) % MOST_PERMITS) + 1;
        int threads = (int)(next_random(&run.random) % (MOST_THREADS - 1)) + 2;
        plim_executor executor = {execute, &r};
        bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = r.limit};
        options.queue = (int32_t)(next_random(&run.random) % 8) - 1;
        options.timeout_ns = (int64_t)(next_random(&run.random) % 3) * PLIM_US(50);
        options.attempts = (uint32_t)(next_random(&run.random) % 3);
        options.retry_delay_ns = (int64_t)(next_random(&run.random) % 2) * PLIM_US(20);
        options.flags = (uint32_t)(next_random(&run.random) % 16) | BULKHEAD_STATS;
        options.executor = next_random(&run.random) % 4 == 0 ? &executor : NULL;
        r.own_workers = options.executor == NULL;
        r.closes = next_random(&run.random) % 3 == 0;
        r.resizes = next_random(&run.random) % 3 == 0;
        run.failed += bulkhead_init(&r.b, &options) != 0;
        for (int i = 0; i < threads; i++) {
            members[i].r = &r;
            members[i].random = next_random(&run.random);
            start(&members[i].thread, take_part, &members[i]);
        }
        for (int i = 0; i < threads; i++) {
            join(members[i].thread);
        }
        run.failed += bulkhead_close(&r.b, BULKHEAD_DRAIN, PLIM_FOREVER) != 0;
        join_errands();
        for (int i = 0; i < threads; i++) {
            check_tasks(&r, &members[i]);
        }
        bulkhead_stats s = bulkhead_snapshot(&r.b);
        uint64_t ends = s.succeeded + s.failed + s.timed_out + s.expired + s.cancelled + s.aborted;
        bool books = s.accepted == ends && s.in_use == 0 && s.queued == 0 && s.delayed == 0 &&
                     s.workers == 0 && s.workers_stuck == 0 &&
                     s.timed_out == atomic_load(&r.ended[BULKHEAD_TIMED_OUT]) &&
                     s.expired == atomic_load(&r.ended[BULKHEAD_EXPIRED]) &&
                     s.cancelled == atomic_load(&r.ended[BULKHEAD_CANCELLED]) &&
                     s.late == s.timed_out;
        run.failed += !books || atomic_load(&r.too_much) != 0 || atomic_load(&r.odd) != 0;
        run.operations += atomic_load(&r.operations);
        run.rounds++;
        if (run.failed != 0) {
            printf("round %d, %d threads, limit %d: accepted %" PRIu64 " of %" PRIu64
                   ", ended %" PRIu64
                   ", in use %u, queued %u, delayed %u, workers %u, late %" PRIu64 " of %" PRIu64
                   ", %d too much, %d odd answers\n",
                   run.rounds, threads, r.limit, s.accepted, atomic_load(&r.accepted), ends,
                   s.in_use, s.queued, s.delayed, s.workers, s.late, s.timed_out,
                   atomic_load(&r.too_much), atomic_load(&r.odd));
        }
        run.failed += bulkhead_destroy(&r.b) != 0;
    }
    return stress_end(&run);
}
