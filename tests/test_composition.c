/* SPDX-License-Identifier: MIT
 *
 * The headers together: loops that offload to bulkheads, and waits that go from one to the other
 * and come back.
 */
#include "../bulkhead.h"
#include "../loop_scheduler.h"
#include "../semaphore.h"
#include "../weighted_sem.h"

#include "greatest.h"
#include "support.h"

typedef struct fixture {
    loop_scheduler l;
    bulkhead b[2];
    csem begun, go; /* a job says that it runs, and waits */
    bulkhead_job job[2];
    int inner, outer; /* 1 + what the inner and the outer wait returned */
} fixture;

static fixture f;

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static bool set_up(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2};
    memset(&f, 0, sizeof f);
    csem_init(&f.begun, 0);
    csem_init(&f.go, 0);
    return loop_scheduler_init(&f.l, NULL) == 0 && loop_scheduler_start(&f.l) == 0 &&
           bulkhead_init(&f.b[0], &options) == 0 && bulkhead_init(&f.b[1], &options) == 0;
}

static bool ends_well(void)
{
    bool well = bulkhead_close(&f.b[0], BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)) == 0;
    well = bulkhead_close(&f.b[1], BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)) == 0 && well;
    well = loop_scheduler_close(&f.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)) == 0 && well;
    return well && bulkhead_destroy(&f.b[0]) == 0 && bulkhead_destroy(&f.b[1]) == 0 &&
           loop_scheduler_destroy(&f.l) == 0;
}

/* ---- a loop waits for a job that calls the loop ---- */

static int call_the_loop(void *arg)
{
    (void)arg;
    f.inner = 1 + loop_scheduler_call(&f.l, nothing, NULL, NULL);
    return 0;
}

static int job_calls_the_loop(bulkhead_job *job)
{
    return call_the_loop(job->arg);
}

static int invoke_it(void *arg)
{
    (void)arg;
    f.outer = 1 + bulkhead_invoke(&f.b[0], call_the_loop, NULL, NULL);
    return 0;
}

TEST a_job_that_calls_the_loop_that_waits_for_it_is_told(void)
{
    ASSERT(set_up());
    ASSERT_EQ(0, loop_scheduler_call_for(&f.l, invoke_it, NULL, NULL, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(1 + EDEADLK, f.inner);
    ASSERT_EQ(1, f.outer);
    /* And nothing is left of it: the same, when nobody waits. */
    ASSERT_EQ(0, bulkhead_invoke(&f.b[0], call_the_loop, NULL, NULL));
    ASSERT_EQ(1, f.inner);
    ASSERT(ends_well());
    PASS();
}

static int wait_for_job(void *arg)
{
    (void)arg;
    csem_release(&f.go);
    f.outer = 1 + bulkhead_wait(&f.job[0], PLIM_FOREVER);
    return 0;
}

static int begin_and_call_the_loop(bulkhead_job *job)
{
    csem_release(&f.begun);
    csem_acquire(&f.go);
    return job_calls_the_loop(job);
}

/* Whoever is second is told, whichever that is. */
TEST of_a_loop_and_a_job_that_wait_for_each_other_one_is_told(void)
{
    for (int round = 0; round < 200; round++) {
        ASSERT(set_up());
        f.job[0].run = begin_and_call_the_loop;
        ASSERT_EQ(0, bulkhead_submit(&f.b[0], &f.job[0]));
        csem_acquire(&f.begun);
        ASSERT_EQ(0, loop_scheduler_call_for(&f.l, wait_for_job, NULL, NULL, PLIM_S(PATIENCE_S)));
        ASSERT_EQ(0, bulkhead_wait(&f.job[0], PLIM_S(PATIENCE_S)));
        ASSERT((f.inner == 1 + EDEADLK) + (f.outer == 1 + EDEADLK) == 1);
        ASSERT((f.inner == 1) + (f.outer == 1) == 1);
        ASSERT(ends_well());
    }
    PASS();
}

/* ---- jobs of two bulkheads wait for each other ---- */

static int wait_for_the_other(bulkhead_job *job)
{
    bool first = job == &f.job[0];
    csem_release(first ? &f.begun : &f.go);
    csem_acquire(first ? &f.go : &f.begun);
    int error = bulkhead_wait(&f.job[first ? 1 : 0], PLIM_FOREVER);
    *(first ? &f.inner : &f.outer) = 1 + error;
    return 0;
}

TEST of_jobs_of_two_bulkheads_that_wait_for_each_other_one_is_told(void)
{
    for (int round = 0; round < 200; round++) {
        ASSERT(set_up());
        f.job[0].run = f.job[1].run = wait_for_the_other;
        ASSERT_EQ(0, bulkhead_submit(&f.b[0], &f.job[0]));
        ASSERT_EQ(0, bulkhead_submit(&f.b[1], &f.job[1]));
        ASSERT_EQ(0, bulkhead_wait(&f.job[0], PLIM_S(PATIENCE_S)));
        ASSERT_EQ(0, bulkhead_wait(&f.job[1], PLIM_S(PATIENCE_S)));
        ASSERT((f.inner == 1 + EDEADLK) + (f.outer == 1 + EDEADLK) == 1);
        ASSERT((f.inner == 1) + (f.outer == 1) == 1);
        ASSERT(ends_well());
    }
    PASS();
}

/* ---- a loop that offloads to a bulkhead ---- */

static loop_scheduler_work work[8];
static int done, refused;

static int square(void *arg)
{
    int n = *(int *)arg;
    return n * n;
}

static void add(loop_scheduler_work *w, int status)
{
    done += status == 0 ? w->result : 0;
}

static int offload_all(void *arg)
{
    plim_executor executor = bulkhead_executor(&f.b[0]);
    for (int i = 0; i < 8; i++) {
        work[i] = (loop_scheduler_work){.work = square, .then = add, .arg = (int *)arg + i};
        refused += loop_scheduler_offload(&f.l, &executor, &work[i]) != 0;
    }
    return 0;
}

TEST work_goes_to_a_bulkhead_and_comes_back_to_the_loop(void)
{
    int numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    ASSERT(set_up());
    done = refused = 0;
    ASSERT_EQ(0, loop_scheduler_call(&f.l, offload_all, numbers, NULL));
    ASSERT_EQ(0, loop_scheduler_close(&f.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(0, refused);
    ASSERT_EQ(204, done);
    ASSERT(ends_well());
    PASS();
}

/* ---- a weighted semaphore whose jobs run on a loop ---- */

static int on_the_loop;

static int look_where(void *arg)
{
    (void)arg;
    on_the_loop += loop_scheduler_is_current(&f.l);
    return 0;
}

TEST jobs_of_a_weighted_semaphore_run_on_a_loop(void)
{
    weighted_sem w;
    ASSERT(set_up());
    plim_executor executor = loop_scheduler_executor(&f.l);
    weighted_sem_options options = {.total = 2, .executor = &executor};
    ASSERT_EQ(0, weighted_sem_init(&w, &options));
    on_the_loop = 0;
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(0, weighted_sem_start(&w, 1, look_where, NULL));
    }
    ASSERT_EQ(0, weighted_sem_drain(&w, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(100, on_the_loop);
    weighted_sem_destroy(&w);
    ASSERT(ends_well());
    PASS();
}

/* ---- work that ends its thread ---- */

static int end_thread(void *arg)
{
    return end_the_thread(arg);
}

static int result_of_lost;

static void lost_is_back(loop_scheduler_work *w, int status)
{
    result_of_lost = status == 0 ? w->result : -1;
}

TEST work_that_ends_its_thread_comes_back(void)
{
    ASSERT(set_up());
    plim_executor executor = bulkhead_executor(&f.b[0]);
    loop_scheduler_work lost = {.work = end_thread, .then = lost_is_back};
    result_of_lost = 0;
    ASSERT_EQ(0, loop_scheduler_offload(&f.l, &executor, &lost));
    ASSERT(ends_well());
    ASSERT_EQ(ECANCELED, result_of_lost);
    PASS();
}

SUITE(composition_suite)
{
    RUN_TEST(a_job_that_calls_the_loop_that_waits_for_it_is_told);
    RUN_TEST(of_a_loop_and_a_job_that_wait_for_each_other_one_is_told);
    RUN_TEST(of_jobs_of_two_bulkheads_that_wait_for_each_other_one_is_told);
    RUN_TEST(work_goes_to_a_bulkhead_and_comes_back_to_the_loop);
    RUN_TEST(jobs_of_a_weighted_semaphore_run_on_a_loop);
    RUN_TEST(work_that_ends_its_thread_comes_back);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(composition_suite);
    GREATEST_MAIN_END();
}
