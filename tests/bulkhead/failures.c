/* SPDX-License-Identifier: MIT
 *
 * bulkhead.h when memory or threads run out, when a compare-exchange fails for no reason, and when
 * something happens while a thread is created. Also that it allocates nothing once it is warm.
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../flaky_cas.h"
#include "../scarcity.h"
#include "../busy_cpu.h"

/* How long a worker without a job stays; a test may change it. */
static atomic_llong idle_ns = 10000000000;
#define BULKHEAD_IDLE_NS atomic_load(&idle_ns)
#include "../../bulkhead.h"
#include "../../semaphore.h"
#include "../support.h"
#include "../greatest.h"

static void async_of(bulkhead *b, int32_t permits, uint32_t flags)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = permits, .flags = flags};
    if (bulkhead_init(b, &options) != 0) {
        fprintf(stderr, "cannot init\n");
        abort();
    }
}

static int count(bulkhead_job *job)
{
    atomic_fetch_add((atomic_int *)job->arg, 1);
    return 0;
}

static int wait_at(bulkhead_job *job)
{
    return csem_acquire(job->arg);
}

struct stop {
    csem begun, gate;
};

/* The thread that got `begun` shares no lock with the worker until it opens the gate. */
static int begin_and_wait(bulkhead_job *job)
{
    struct stop *stop = job->arg;
    csem_release(&stop->begun);
    return csem_acquire(&stop->gate);
}

static int quit_thread(bulkhead_job *job)
{
    return end_the_thread(job->arg);
}

/* Ended, with nothing left behind. */
static bool comes_to_an_end(bulkhead *b)
{
    plenty();
    return bulkhead_close(b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)) == 0 && bulkhead_destroy(b) == 0 &&
           atomic_load(&blocks) == 0;
}

TEST init_without_memory_for_histograms_is_refused(void)
{
    bulkhead b;
    bulkhead_options options = {.flags = BULKHEAD_TIMINGS};
    plenty();
    atomic_store(&memory_left, 0);
    errno = 77;
    ASSERT_EQ_FMT(ENOMEM, bulkhead_init(&b, &options), "%d");
    ASSERT_EQ_FMT(77, errno, "%d");
    options.flags = 0;
    ASSERT_EQ_FMT(0, bulkhead_init(&b, &options), "%d"); /* needs none */
    ASSERT_EQ_FMT(0, bulkhead_destroy(&b), "%d");
    plenty();
    PASS();
}

/* memory, threads: what is left. */
TEST the_first_job_is_refused_without(int memory, int threads, int error)
{
    bulkhead b;
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_job job = {.run = count, .arg = &runs};
    plenty();
    async_of(&b, 2, 0);
    atomic_store(&memory_left, memory);
    atomic_store(&threads_left, threads);
    no_threads_error = error == ENOMEM ? thrd_nomem : thrd_error;
    errno = 77;
    for (int i = 0; i < 2; i++) { /* again: what was vacant is found */
        ASSERT_EQ_FMT(error, bulkhead_submit(&b, &job), "%d");
    }
    no_threads_error = thrd_error;
    ASSERT_EQ_FMT(77, errno, "%d");
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT(s.accepted == 0 && s.rejected == 2 && s.in_use == 0 && s.queued == 0 && s.workers == 0);
    plenty();
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &job), "%d"); /* and works when there is */
    ASSERT_EQ_FMT(0, bulkhead_wait(&job, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(1, atomic_load(&runs), "%d");
    ASSERT(comes_to_an_end(&b));
    PASS();
}

TEST a_worker_more_that_cannot_be_had_costs_nothing_but_speed(void)
{
    bulkhead b;
    csem gate = CSEM_INIT(0);
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_job first = {.run = wait_at, .arg = &gate}, second = {.run = count, .arg = &runs};
    plenty();
    async_of(&b, 2, 0);
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &first), "%d");
    atomic_store(&threads_left, 0);
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &second), "%d");   /* it waits for the only worker */
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).workers == 1)); /* when the first has tried it, too */
    ASSERT_EQ_FMT(ETIMEDOUT, bulkhead_wait(&second, PLIM_MS(10)), "%d");
    csem_release(&gate);
    ASSERT_EQ_FMT(0, bulkhead_wait(&second, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(BULKHEAD_SUCCEEDED, second.outcome, "%d");
    ASSERT(comes_to_an_end(&b));
    PASS();
}

/* A job that needs another one, which finds no worker. */
typedef struct needy {
    bulkhead *b;
    bulkhead_job job, other;
    int submitted, error;
    int what;   /* how it waits */
    bool later; /* there are threads again when it waits */
    atomic_int runs, dones;
} needy;

enum { NEED_A_JOB, NEED_A_CALL, NEED_A_PERMIT, NEED_IN_DONE };

static int count_call(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

static void need(needy *n)
{
    n->other.run = count;
    n->other.arg = &n->runs;
    atomic_store(&threads_left, 0);
    n->submitted = n->what == NEED_A_CALL ? 0 : bulkhead_submit(n->b, &n->other);
    if (n->later) {
        plenty();
    }
    n->error = n->what == NEED_A_CALL     ? bulkhead_invoke(n->b, count_call, &n->runs, NULL)
               : n->what == NEED_A_PERMIT ? bulkhead_enter(n->b)
                                          : bulkhead_wait(&n->other, PLIM_FOREVER);
    if (n->what == NEED_A_PERMIT && n->error == 0) {
        n->error = bulkhead_leave(n->b);
    }
}

static int run_needy(bulkhead_job *job)
{
    needy *n = job->arg;
    if (n->what != NEED_IN_DONE) {
        need(n);
    }
    return 0;
}

static void needy_in_done(bulkhead_job *job)
{
    needy *n = job->arg;
    if (n->what == NEED_IN_DONE) {
        need(n);
    }
    atomic_fetch_add(&n->dones, 1);
}

/* Its thread is the only worker. So the wait gets one more, or what it waits for ends. */
TEST a_wait_of_the_only_worker_does_not_hang(int what, bool later)
{
    bulkhead b;
    needy n = {.b = &b, .what = what, .later = later, .submitted = -1, .error = -1};
    n.job = (bulkhead_job){.run = run_needy, .done = needy_in_done, .arg = &n, .detached = true};
    plenty();
    async_of(&b, 2, 0);
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &n.job), "%d");
    ASSERT(EVENTUALLY(atomic_load(&n.dones) == 1));
    ASSERT_EQ_FMT(0, n.submitted, "%d");
    ASSERT_EQ_FMT(what == NEED_A_CALL && !later ? EAGAIN : 0, n.error, "%d");
    if (what != NEED_A_CALL) {
        ASSERT_EQ_FMT(0, bulkhead_wait(&n.other, PLIM_FOREVER), "%d");
        ASSERT_EQ_FMT(later ? BULKHEAD_SUCCEEDED : BULKHEAD_ABORTED, n.other.outcome, "%d");
    }
    ASSERT_EQ_FMT((int)later, atomic_load(&n.runs), "%d");
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT_EQ_FMT(0u, s.in_use + s.queued, "%u");
    ASSERT(comes_to_an_end(&b));
    PASS();
}

TEST a_resize_that_gets_no_thread_changes_the_limit_anyway(void)
{
    bulkhead b;
    csem gate = CSEM_INIT(0);
    bulkhead_job jobs[3];
    plenty();
    async_of(&b, 1, 0);
    for (int i = 0; i < 3; i++) {
        jobs[i] = (bulkhead_job){.run = wait_at, .arg = &gate};
        ASSERT_EQ_FMT(0, bulkhead_submit(&b, &jobs[i]), "%d");
    }
    atomic_store(&threads_left, 1);
    ASSERT_EQ_FMT(0, bulkhead_resize(&b, 3, 0), "%d"); /* one of two can be had */
    bulkhead_stats s = bulkhead_snapshot(&b);
    ASSERT(s.permits == 3 && s.in_use == 3);
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).workers == 2)); /* the first worker may hire it, too */
    csem_release_n(&gate, 3);
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ_FMT(0, bulkhead_wait(&jobs[i], PLIM_FOREVER), "%d");
    }
    ASSERT(comes_to_an_end(&b));
    PASS();
}

TEST a_job_that_needs_a_supervisor_is_refused_without_one(bulkhead_job job, int error)
{
    bulkhead b;
    atomic_int runs;
    atomic_init(&runs, 0);
    job.run = count;
    job.arg = &runs;
    plenty();
    async_of(&b, 1, 0);
    no_threads_error = error == ENOMEM ? thrd_nomem : thrd_error;
    atomic_store(&threads_left, 0);
    ASSERT_EQ_FMT(error, bulkhead_submit(&b, &job), "%d");
    no_threads_error = thrd_error;
    plenty();
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &job), "%d");
    ASSERT_EQ_FMT(0, bulkhead_wait(&job, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(1, atomic_load(&runs), "%d");
    ASSERT(comes_to_an_end(&b));
    PASS();
}

/* The supervisor is there, the job is due, and there is nobody to run it. */
TEST a_delayed_job_that_finds_no_thread_ends_aborted(void)
{
    bulkhead b;
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_job job = {.run = count, .arg = &runs, .delay_ns = PLIM_MS(5)};
    plenty();
    async_of(&b, 1, 0);
    atomic_store(&threads_left, 1); /* the supervisor's */
    int error = bulkhead_submit(&b, &job);
    while (error == EAGAIN) { /* it was due before submit looked for a thread: a busy machine */
        error = bulkhead_submit(&b, &job);
    }
    ASSERT_EQ_FMT(0, error, "%d");
    ASSERT_EQ_FMT(0, bulkhead_wait(&job, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(BULKHEAD_ABORTED, job.outcome, "%d");
    ASSERT_EQ_FMT(0, atomic_load(&runs), "%d");
    ASSERT(comes_to_an_end(&b));
    PASS();
}

/* The last worker ends its thread, and there is no other to be had. Jobs in the queue end; a caller
 * in the queue gets its permit. */
typedef struct visitor {
    bulkhead *b;
    int entered;
    plim_thread thread;
} visitor;

static plim_thread_result visit(void *arg)
{
    visitor *v = arg;
    v->entered = bulkhead_enter(v->b);
    if (v->entered == 0) {
        bulkhead_leave(v->b);
    }
    return 0;
}

static int wait_and_quit(bulkhead_job *job)
{
    csem_acquire(job->arg);
    return end_the_thread(NULL);
}

TEST when_the_last_worker_is_gone_for_good_what_waits_ends(void)
{
    bulkhead b;
    csem gate = CSEM_INIT(0);
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_job quits = {.run = wait_and_quit, .arg = &gate};
    bulkhead_job waits = {.run = count, .arg = &runs};
    visitor v = {.b = &b};
    plenty();
    async_of(&b, 1, 0);
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &quits), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &waits), "%d");
    start(&v.thread, visit, &v);
    ASSERT(EVENTUALLY(bulkhead_snapshot(&b).queued == 2));
    atomic_store(&threads_left, 0);
    csem_release(&gate);
    ASSERT_EQ_FMT(0, bulkhead_wait(&quits, PLIM_FOREVER), "%d");
    ASSERT(quits.outcome == BULKHEAD_FAILED && quits.result == ECANCELED);
    ASSERT_EQ_FMT(0, bulkhead_wait(&waits, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(BULKHEAD_ABORTED, waits.outcome, "%d");
    join(v.thread);
    ASSERT_EQ_FMT(0, v.entered, "%d");
    ASSERT(comes_to_an_end(&b));
    PASS();
}

TEST a_worker_whose_thread_was_ended_is_replaced(void)
{
    bulkhead b;
    atomic_int runs;
    atomic_init(&runs, 0);
    plenty();
    async_of(&b, 1, 0);
    for (int i = 0; i < 50; i++) {
        bulkhead_job quits = {.run = quit_thread}, follows = {.run = count, .arg = &runs};
        ASSERT_EQ_FMT(0, bulkhead_submit(&b, &quits), "%d");
        ASSERT_EQ_FMT(0, bulkhead_submit(&b, &follows), "%d");
        ASSERT_EQ_FMT(0, bulkhead_wait(&follows, PLIM_FOREVER), "%d");
        ASSERT_EQ_FMT(0, bulkhead_wait(&quits, PLIM_FOREVER), "%d");
        ASSERT(quits.outcome == BULKHEAD_FAILED && quits.result == ECANCELED);
    }
    ASSERT_EQ_FMT(50, atomic_load(&runs), "%d");
    ASSERT(bulkhead_snapshot(&b).workers <= 2);
    ASSERT(comes_to_an_end(&b));
    PASS();
}

/* The thread is created, runs its job and ends, before its creator knows of it. */
static bulkhead_job *job_to_end;

static void let_it_end(void)
{
    bulkhead_wait(job_to_end, PLIM_FOREVER);
    while (bulkhead_snapshot(job_to_end->bulkhead_).workers != 0) {
        rest(PLIM_US(100));
    }
}

TEST a_worker_that_ends_before_its_creator_knows_is_joined(void)
{
    bulkhead b;
    bulkhead_job job = {.run = quit_thread};
    plenty();
    async_of(&b, 1, 0);
    job_to_end = &job;
    once_created = let_it_end;
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &job), "%d");
    ASSERT_EQ_FMT(BULKHEAD_FAILED, job.outcome, "%d");
    ASSERT(comes_to_an_end(&b));
    PASS();
}

TEST the_executor_of_a_bulkhead_refuses_without_memory(void)
{
    bulkhead b;
    plenty();
    async_of(&b, 1, 0);
    plim_executor executor = bulkhead_executor(&b);
    atomic_store(&memory_left, 0);
    errno = 77;
    ASSERT_EQ_FMT(ENOMEM, executor.execute(executor.ctx, free, NULL), "%d");
    ASSERT_EQ_FMT(77, errno, "%d");
    atomic_store(&memory_left, 1); /* for the errand, and none for the worker */
    ASSERT_EQ_FMT(ENOMEM, executor.execute(executor.ctx, free, NULL), "%d");
    ASSERT(comes_to_an_end(&b));
    PASS();
}

TEST nothing_is_allocated_once_the_workers_are_there(void)
{
    bulkhead b;
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .attempts = 2};
    options.flags = BULKHEAD_TIMINGS | BULKHEAD_STATS;
    options.run_timeout_ns = PLIM_S(PATIENCE_S);
    bulkhead_job jobs[64];
    plenty();
    ASSERT_EQ_FMT(0, bulkhead_init(&b, &options), "%d");
    for (int i = 0; i < 64; i++) {
        jobs[i] = (bulkhead_job){.run = count, .arg = &runs};
        ASSERT_EQ_FMT(0, bulkhead_submit(&b, &jobs[i]), "%d");
    }
    ASSERT_EQ_FMT(0, bulkhead_wait_idle(&b, PLIM_FOREVER), "%d");
    int warm = atomic_load(&allocations);
    for (int round = 0; round < 100 && bulkhead_snapshot(&b).workers == 2; round++) {
        for (int i = 0; i < 64; i++) {
            jobs[i].delay_ns = i % 8 == 0 ? 1000 : 0;
            jobs[i].start_within_ns = i % 4 == 0 ? PLIM_S(PATIENCE_S) : 0;
            ASSERT_EQ_FMT(0, bulkhead_submit(&b, &jobs[i]), "%d");
        }
        bulkhead_cancel(&b, &jobs[63]);
        for (int i = 0; i < 64; i++) {
            ASSERT_EQ_FMT(0, bulkhead_wait(&jobs[i], PLIM_FOREVER), "%d");
        }
        ASSERT_EQ_FMT(0, bulkhead_enter(&b), "%d");
        ASSERT_EQ_FMT(0, bulkhead_leave(&b), "%d");
    }
    ASSERT_EQ_FMT(warm, atomic_load(&allocations), "%d");
    ASSERT(comes_to_an_end(&b));
    PASS();
}

TEST compare_exchanges_that_fail_for_no_reason_change_nothing(uint64_t every)
{
    bulkhead b;
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_job jobs[32];
    plenty();
    async_of(&b, 2, 0);
    atomic_store(&fail_every, every);
    for (int i = 0; i < 32; i++) {
        jobs[i] = (bulkhead_job){.run = count, .arg = &runs};
        ASSERT_EQ_FMT(0, bulkhead_submit(&b, &jobs[i]), "%d");
        ASSERT_EQ_FMT(0, bulkhead_enter(&b), "%d");
        ASSERT_EQ_FMT(0, bulkhead_leave(&b), "%d");
    }
    for (int i = 0; i < 32; i++) {
        ASSERT_EQ_FMT(0, bulkhead_wait(&jobs[i], PLIM_FOREVER), "%d");
    }
    ASSERT_EQ_FMT(0, bulkhead_wait_idle(&b, PLIM_FOREVER), "%d");
    for (int i = 0; i < 100; i++) { /* the fast way */
        ASSERT_EQ_FMT(0, bulkhead_enter(&b), "%d");
        ASSERT_EQ_FMT(0, bulkhead_leave(&b), "%d");
    }
    atomic_store(&fail_every, 0);
    ASSERT_EQ_FMT(32, atomic_load(&runs), "%d");
    ASSERT(comes_to_an_end(&b));
    PASS();
}

/* It is the number of offers that tells, not the time they took. A taken lock makes offers of its
 * own, so the worker is in its job before they are counted. */
TEST looks_do_not_outlast_the_timeout(int64_t timeout_ns, bool submits)
{
    bulkhead b;
    struct stop stop = {CSEM_INIT(0), CSEM_INIT(0)};
    bulkhead_job job = {.run = begin_and_wait, .arg = &stop}, other = job;
    plenty();
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .queue = PLIM_NONE};
    ASSERT_EQ_FMT(0, bulkhead_init(&b, &options), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &job), "%d");
    ASSERT_EQ_FMT(0, csem_acquire(&stop.begun), "%d");
    kept_ns = PLIM_US(80); /* less than what ends the looks anyway */
    offers = 0;
    int64_t before = plim_now_(), at_most = timeout_ns / kept_ns;
    int error =
        submits ? bulkhead_submit_for(&b, &other, timeout_ns) : bulkhead_wait(&job, timeout_ns);
    int64_t took = plim_now_() - before, offered = offers;
    kept_ns = 0;
    csem_release(&stop.gate);
    ASSERT_EQ_FMT(ETIMEDOUT, error, "%d");
    ASSERT_EQ_FMT(0, bulkhead_wait(&job, PLIM_FOREVER), "%d");
    ASSERT(comes_to_an_end(&b));
    ASSERT(took >= timeout_ns);
    ASSERT(offered <= at_most);
    PASS();
}

SUITE(bulkhead_failures)
{
    RUN_TEST(init_without_memory_for_histograms_is_refused);
    RUN_TESTp(the_first_job_is_refused_without, 0, PLENTY, ENOMEM);
    RUN_TESTp(the_first_job_is_refused_without, PLENTY, 0, EAGAIN);
    RUN_TESTp(the_first_job_is_refused_without, PLENTY, 0, ENOMEM);
    RUN_TEST(a_worker_more_that_cannot_be_had_costs_nothing_but_speed);
    for (int what = NEED_A_JOB; what <= NEED_IN_DONE; what++) {
        RUN_TESTp(a_wait_of_the_only_worker_does_not_hang, what, false);
        RUN_TESTp(a_wait_of_the_only_worker_does_not_hang, what, true);
    }
    RUN_TEST(a_resize_that_gets_no_thread_changes_the_limit_anyway);
    RUN_TESTp(a_job_that_needs_a_supervisor_is_refused_without_one,
              (bulkhead_job){.delay_ns = PLIM_MS(1)}, EAGAIN);
    RUN_TESTp(a_job_that_needs_a_supervisor_is_refused_without_one,
              (bulkhead_job){.start_within_ns = PLIM_S(PATIENCE_S)}, ENOMEM);
    RUN_TESTp(a_job_that_needs_a_supervisor_is_refused_without_one,
              (bulkhead_job){.run_timeout_ns = PLIM_S(PATIENCE_S)}, EAGAIN);
    RUN_TEST(a_delayed_job_that_finds_no_thread_ends_aborted);
    RUN_TEST(when_the_last_worker_is_gone_for_good_what_waits_ends);
    RUN_TEST(a_worker_whose_thread_was_ended_is_replaced);
    RUN_TEST(a_worker_that_ends_before_its_creator_knows_is_joined);
    RUN_TEST(the_executor_of_a_bulkhead_refuses_without_memory);
    RUN_TEST(nothing_is_allocated_once_the_workers_are_there);
    for (int submits = 0; submits < 2; submits++) {
        RUN_TESTp(looks_do_not_outlast_the_timeout, PLIM_US(10), submits != 0);
        RUN_TESTp(looks_do_not_outlast_the_timeout, PLIM_US(400), submits != 0);
    }
    RUN_TESTp(compare_exchanges_that_fail_for_no_reason_change_nothing, 2);
    RUN_TESTp(compare_exchanges_that_fail_for_no_reason_change_nothing, 3);
    RUN_TESTp(compare_exchanges_that_fail_for_no_reason_change_nothing, 7);
}

#include "shortage.c"
#include "given_up.c"

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(bulkhead_failures);
    RUN_SUITE(bulkhead_shortage);
    RUN_SUITE(bulkhead_given_up);
    GREATEST_MAIN_END();
}
