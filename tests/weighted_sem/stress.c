/* SPDX-License-Identifier: MIT
 *
 * Threads do random things to one weighted semaphore, round after round, with all that a caller may
 * do. There are jobs in the background, on the spot and begun, and bare weight. There are timeouts,
 * tries, drains, resizes, extractions and closes. All run with and without bypass, with own threads
 * and with an executor. After each round the books are checked: the total never exceeded, weight,
 * jobs and errors conserved.
 *
 *   stress [SECONDS] [SEED]
 */
#undef NDEBUG
#define WEIGHTED_SEM_IDLE_NS PLIM_US(300) /* threads come and go */
#include "../../weighted_sem.h"
#include "../support.h"
#include "../stress.h"

#include <inttypes.h>

enum { MOST_THREADS = 8, STEPS = 150 };

typedef struct round_ {
    weighted_sem w;
    uint64_t limit; /* the largest total of the round */
    atomic_uint_least64_t used, operations, runs, accepted, failures, extracted;
    atomic_int too_much, odd, calls;
    bool closes, resizes;
} round_;

typedef struct job {
    round_ *r;
    uint64_t weight, random;
    struct job *next; /* finished ones, to be used again */
} job;

typedef struct member {
    round_ *r;
    uint64_t random;
    plim_thread thread;
    job jobs[STEPS];
} member;

static void use_weight(round_ *r, uint64_t weight, uint64_t random)
{
    if (atomic_fetch_add(&r->used, weight) + weight > r->limit) {
        atomic_fetch_add(&r->too_much, 1);
    }
    dawdle(random);
    atomic_fetch_sub(&r->used, weight);
}

static int run_job(void *arg)
{
    job *j = arg;
    use_weight(j->r, j->weight, j->random);
    atomic_fetch_add(&j->r->runs, 1);
    if (j->random % 5 == 0) {
        atomic_fetch_add(&j->r->failures, 1);
        return (int)(j->random % 100) + 1;
    }
    if (j->random % 7 == 0) { /* a try cannot deadlock */
        int error = weighted_sem_try_acquire(&j->r->w, j->weight);
        if (error == 0) {
            use_weight(j->r, j->weight, 2);
            weighted_sem_release(&j->r->w, j->weight);
        }
    }
    return 0;
}

/* An executor with a thread for each task, or none at all, or a refusal. */
static int execute(void *ctx, void (*run)(void *), void *arg)
{
    round_ *r = ctx;
    int call = atomic_fetch_add(&r->calls, 1);
    if (call % 13 == 0) {
        return EAGAIN;
    }
    if (call % 3 == 0) {
        run(arg); /* on the spot */
        return 0;
    }
    start_errand(run, arg);
    return 0;
}

static void extract(round_ *r)
{
    weighted_sem_error errors[7];
    atomic_fetch_add(&r->extracted, weighted_sem_extract_errors(&r->w, errors, 7));
}

static plim_thread_result take_part(void *arg)
{
    member *m = arg;
    round_ *r = m->r;
    for (int i = 0; i < STEPS; i++) {
        uint64_t random = next_random(&m->random);
        int64_t time = (int64_t)(random >> 20) % PLIM_US(300);
        job *j = &m->jobs[i];
        weighted_sem_job begun;
        int error = 0, result = 0;
        *j = (job){.r = r, .weight = (random >> 8) % 8 + 1, .random = random >> 24};
        atomic_fetch_add(&r->operations, 1);
        switch (random % 16) {
        case 0:
        case 1:
        case 2:
            error = weighted_sem_start(&r->w, j->weight, run_job, j);
            atomic_fetch_add(&r->accepted, error == 0);
            break;
        case 3:
            error = weighted_sem_start_for(&r->w, j->weight, run_job, j, time);
            atomic_fetch_add(&r->accepted, error == 0);
            break;
        case 4:
            error = weighted_sem_try_start(&r->w, j->weight, run_job, j);
            atomic_fetch_add(&r->accepted, error == 0);
            break;
        case 5:
        case 6:
            error = weighted_sem_complete_for(&r->w, j->weight, run_job, j, &result, time);
            atomic_fetch_add(&r->accepted, error == 0);
            atomic_fetch_sub(&r->failures, result != 0);
            break;
        case 7:
        case 8:
            error = weighted_sem_begin_for(&r->w, j->weight, &begun, time);
            if (error == 0) {
                use_weight(r, j->weight, j->random);
                result = j->random % 3 == 0;
                atomic_fetch_add(&r->failures, result != 0);
                weighted_sem_finish(&begun, result);
            }
            break;
        case 9:
        case 10:
        case 11:
            error =
                weighted_sem_acquire_for(&r->w, j->weight, random % 3 == 0 ? PLIM_FOREVER : time);
            if (error == 0) {
                use_weight(r, j->weight, j->random);
                uint64_t first = random % 2 == 0 ? j->weight : (j->weight + 1) / 2;
                if (weighted_sem_release(&r->w, first) != 0 ||
                    (first < j->weight && weighted_sem_release(&r->w, j->weight - first) != 0)) {
                    atomic_fetch_add(&r->odd, 1);
                }
            }
            break;
        case 12:
            error = (random >> 4) % 8 == 0 ? weighted_sem_drain_all(&r->w, time)
                                           : weighted_sem_drain(&r->w, PLIM_FOREVER);
            break;
        case 13:
            if (r->resizes) {
                error = weighted_sem_resize(&r->w, random % r->limit + 1);
            }
            break;
        case 14:
            extract(r);
            break;
        default:
            if (r->closes && i > STEPS / 2) {
                weighted_sem_close(&r->w);
            }
            weighted_sem_stats s = weighted_sem_snapshot(&r->w);
            if (s.available > s.total || (s.available > 0 && s.available + s.executing > s.total)) {
                atomic_fetch_add(&r->odd, 1);
            }
        }
        if (error != 0 && error != EAGAIN && error != ETIMEDOUT &&
            !(error == ESHUTDOWN && r->closes) && !(error == ERANGE && r->resizes)) {
            atomic_fetch_add(&r->odd, 1);
        }
    }
    return 0;
}

static member members[MOST_THREADS];

int main(int argc, char **argv)
{
    stress run = stress_begin("weighted_sem/stress", argc, argv);
    while (stress_goes_on(&run)) {
        static round_ r;
        r = (round_){.limit = next_random(&run.random) % 12 + 8};
        int threads = (int)(next_random(&run.random) % (MOST_THREADS - 1)) + 2;
        plim_executor executor = {execute, &r};
        weighted_sem_options options = {.total = r.limit, .expected_jobs = 1};
        options.error_capacity = (uint32_t)(next_random(&run.random) % 40) + 1;
        options.bypass_window = (uint32_t)(next_random(&run.random) % 4);
        options.bypass_budget = (uint32_t)(next_random(&run.random) % 4);
        options.executor = next_random(&run.random) % 4 == 0 ? &executor : NULL;
        r.closes = next_random(&run.random) % 4 == 0;
        r.resizes = next_random(&run.random) % 3 == 0;
        run.failed += weighted_sem_init(&r.w, &options) != 0;
        for (int i = 0; i < threads; i++) {
            members[i].r = &r;
            members[i].random = next_random(&run.random);
            start(&members[i].thread, take_part, &members[i]);
        }
        for (int i = 0; i < threads; i++) {
            join(members[i].thread);
        }
        run.failed += weighted_sem_drain_all(&r.w, PLIM_FOREVER) != 0;
        join_errands();
        while (weighted_sem_errors(&r.w) != 0) {
            extract(&r);
        }
        weighted_sem_stats s = weighted_sem_snapshot(&r.w);
        uint64_t lost = atomic_load(&r.failures) - atomic_load(&r.extracted) - s.errors_dropped;
        run.failed += s.available != s.total || s.executing != 0 || s.waiting != 0 ||
                      s.started != s.completed || atomic_load(&r.runs) != atomic_load(&r.accepted);
        run.failed += lost != 0 || atomic_load(&r.too_much) != 0 || atomic_load(&r.odd) != 0;
        run.operations += atomic_load(&r.operations);
        run.rounds++;
        if (run.failed != 0) {
            printf("round %d, %d threads, total %" PRIu64 "/%" PRIu64 ": available %" PRIu64
                   ", executing %u, started %" PRIu64 ", completed %" PRIu64 ", runs %" PRIu64
                   " of %" PRIu64 ", errors lost %" PRId64 ", %d too much, %d odd answers\n",
                   run.rounds, threads, s.total, r.limit, s.available, (unsigned)s.executing,
                   s.started, s.completed, atomic_load(&r.runs), atomic_load(&r.accepted),
                   (int64_t)lost, atomic_load(&r.too_much), atomic_load(&r.odd));
        }
        run.failed += weighted_sem_destroy(&r.w) != 0;
    }
    return stress_end(&run);
}
