/* SPDX-License-Identifier: MIT
 *
 * Waits that go from one object to another and come back: one of them gets EDEADLK.
 */

static bool set_up(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2};
    clear_for_next(NULL);
    return stage_loop(0) && stage_bulkhead(0, &options) == 0 && stage_bulkhead(1, &options) == 0;
}

static int begin_nothing(bulkhead_job *job)
{
    (void)job;
    return 0;
}

/* ---- a loop waits for a job that calls the loop ---- */

static int call_the_loop(void *arg)
{
    (void)arg;
    on.inner = 1 + loop_scheduler_call(&on.l, nothing, NULL, NULL);
    return 0;
}

static int job_calls_the_loop(bulkhead_job *job)
{
    return call_the_loop(job->arg);
}

static int invoke_it(void *arg)
{
    (void)arg;
    on.outer = 1 + bulkhead_invoke(&on.b[0], call_the_loop, NULL, NULL);
    return 0;
}

TEST a_job_that_calls_the_loop_that_waits_for_it_is_told(void)
{
    ASSERT(set_up());
    ASSERT_EQ(0, loop_scheduler_call_for(&on.l, invoke_it, NULL, NULL, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(1 + EDEADLK, on.inner);
    ASSERT_EQ(1, on.outer);
    /* And nothing is left of it: the same, when nobody waits. */
    ASSERT_EQ(0, bulkhead_invoke(&on.b[0], call_the_loop, NULL, NULL));
    ASSERT_EQ(1, on.inner);
    ENDS_WELL();
}

static int wait_for_job(void *arg)
{
    (void)arg;
    csem_release(&on.go);
    on.outer = 1 + bulkhead_wait(&on.job[0], PLIM_FOREVER);
    return 0;
}

static int begin_and_call_the_loop(bulkhead_job *job)
{
    csem_release(&on.begun);
    csem_acquire(&on.go);
    return job_calls_the_loop(job);
}

/* The second one gets EDEADLK, whichever that is. */
TEST of_a_loop_and_a_job_that_wait_for_each_other_one_is_told(void)
{
    for (int round = 0; round < scaled(200); round++) {
        ASSERT(set_up());
        on.job[0].run = begin_and_call_the_loop;
        ASSERT_EQ(0, bulkhead_submit(&on.b[0], &on.job[0]));
        csem_acquire(&on.begun);
        ASSERT_EQ(0, loop_scheduler_call_for(&on.l, wait_for_job, NULL, NULL, PLIM_S(PATIENCE_S)));
        ASSERT_EQ(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
        ASSERT((on.inner == 1 + EDEADLK) + (on.outer == 1 + EDEADLK) == 1);
        ASSERT((on.inner == 1) + (on.outer == 1) == 1);
        ASSERT(all_end());
    }
    PASS();
}

/* ---- jobs of two bulkheads wait for each other ---- */

static int wait_for_the_other(bulkhead_job *job)
{
    bool first = job == &on.job[0];
    csem_release(first ? &on.begun : &on.go);
    csem_acquire(first ? &on.go : &on.begun);
    int error = bulkhead_wait(&on.job[first ? 1 : 0], PLIM_FOREVER);
    *(first ? &on.inner : &on.outer) = 1 + error;
    return 0;
}

TEST of_jobs_of_two_bulkheads_that_wait_for_each_other_one_is_told(void)
{
    for (int round = 0; round < scaled(200); round++) {
        ASSERT(set_up());
        on.job[0].run = on.job[1].run = wait_for_the_other;
        ASSERT_EQ(0, bulkhead_submit(&on.b[0], &on.job[0]));
        ASSERT_EQ(0, bulkhead_submit(&on.b[1], &on.job[1]));
        ASSERT_EQ(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
        ASSERT_EQ(0, bulkhead_wait(&on.job[1], PLIM_S(PATIENCE_S)));
        ASSERT((on.inner == 1 + EDEADLK) + (on.outer == 1 + EDEADLK) == 1);
        ASSERT((on.inner == 1) + (on.outer == 1) == 1);
        ASSERT(all_end());
    }
    PASS();
}

/* ---- on the thread of the loop that is the executor ---- */

enum { INVOKES, WAITS, WAITS_FOR_READY, ENTERS, IDLES, DRAINS, ABORTS };

static int wait_on_the_loop(void *arg)
{
    bulkhead *b = &on.b[0];
    on.job[0].run = on.job[1].run = begin_nothing;
    switch (*(int *)arg) {
    case INVOKES:
        on.outer = 1 + bulkhead_invoke(b, nothing, NULL, NULL);
        break;
    case WAITS: /* for one in the queue */
        on.inner = bulkhead_submit(b, &on.job[0]) + bulkhead_submit(b, &on.job[1]);
        on.outer = 1 + bulkhead_wait(&on.job[1], PLIM_S(1000));
        break;
    case WAITS_FOR_READY: /* it has its permit, and the loop its entry */
        on.inner = bulkhead_submit(b, &on.job[0]);
        on.outer = 1 + bulkhead_wait(&on.job[0], PLIM_FOREVER);
        break;
    case ENTERS: /* the only permit is that job's */
        on.inner = bulkhead_submit(b, &on.job[0]);
        on.outer = 1 + bulkhead_enter(b);
        break;
    case IDLES:
        on.inner = bulkhead_submit(b, &on.job[0]);
        on.outer = 1 + bulkhead_wait_idle(b, PLIM_FOREVER);
        break;
    case DRAINS:
        on.inner = bulkhead_submit(b, &on.job[0]);
        on.outer = 1 + bulkhead_close(b, BULKHEAD_DRAIN, PLIM_FOREVER);
        break;
    default: /* nothing is left but the entry */
        on.inner = bulkhead_submit(b, &on.job[0]) + bulkhead_cancel(b, &on.job[0]);
        on.outer = 1 + bulkhead_close(b, BULKHEAD_ABORT, PLIM_FOREVER);
        break;
    }
    return 0;
}

TEST a_wait_on_the_thread_of_the_executor_is_told(int how)
{
    clear_for_next(NULL);
    ASSERT(stage_loop(0));
    plim_executor executor = loop_scheduler_executor(&on.l);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 1, .executor = &executor};
    ASSERT_EQ(0, stage_bulkhead(0, &options));
    ASSERT_EQ(0, loop_scheduler_call_for(&on.l, wait_on_the_loop, &how, NULL, PLIM_S(PATIENCE_S)));
    ASSERT_EQ_FMT(1 + EDEADLK, on.outer, "%d");
    ASSERT_EQ_FMT(0, on.inner, "%d");
    /* Nothing is left of it: elsewhere it may be waited for. */
    ASSERT_EQ(0, bulkhead_invoke(&on.b[0], nothing, NULL, NULL));
    ASSERT_EQ(0, bulkhead_wait_idle(&on.b[0], PLIM_S(PATIENCE_S)));
    ENDS_WELL();
}

static int go_on(bulkhead_job *job)
{
    (void)job;
    return BULKHEAD_LATER;
}

static int wait_for_what_goes_on(void *arg)
{
    (void)arg;
    on.outer = 1 + bulkhead_wait(&on.job[0], PLIM_MS(1));
    return 0;
}

/* It is to be finished there, as a rule; and another attempt would begin there. */
TEST a_wait_on_the_thread_of_the_executor_for_a_job_that_goes_on_is_told(void)
{
    clear_for_next(NULL);
    ASSERT(stage_loop(0));
    plim_executor executor = loop_scheduler_executor(&on.l);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 1, .executor = &executor};
    ASSERT_EQ(0, stage_bulkhead(0, &options));
    on.job[0].run = go_on;
    ASSERT_EQ(0, bulkhead_submit(&on.b[0], &on.job[0]));
    (void)loop_scheduler_call_for(&on.l, wait_for_what_goes_on, NULL, NULL, PLIM_S(PATIENCE_S));
    ASSERT_EQ_FMT(0, bulkhead_finish(&on.job[0], 0), "%d");
    ASSERT_EQ(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_EQ_FMT(1 + EDEADLK, on.outer, "%d");
    ENDS_WELL();
}

/* The loop's thread waits for a permit, while the only job that has one is to run on it. */
static int submit_and_enter(void *arg)
{
    (void)arg;
    on.job[0].run = begin_nothing;
    on.inner = bulkhead_submit(&on.b[0], &on.job[0]);
    on.outer = 1 + bulkhead_enter(&on.b[0]);
    return bulkhead_leave(&on.b[0]);
}

static plim_thread_result call_submit_and_enter(void *arg)
{
    (void)arg;
    loop_scheduler_call(&on.l, submit_and_enter, NULL, NULL);
    return 0;
}

TEST jobs_that_the_waiting_loop_has_to_run_count_as_waiting(void)
{
    clear_for_next(NULL);
    ASSERT(stage_loop(0));
    plim_executor executor = loop_scheduler_executor(&on.l);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .executor = &executor};
    ASSERT_EQ(0, stage_bulkhead(0, &options));
    int error = -1;
    BULKHEAD_SCOPE(&on.b[0])
    {
        start(&on.helper[0], call_submit_and_enter, NULL);
        on.has_helper[0] = true;
        ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b[0]).queued == 1)); /* the loop; one may leave */
        error = bulkhead_enter(&on.b[0]);                            /* and now nobody could */
    }
    ASSERT_EQ_FMT(EDEADLK, error, "%d");
    join(on.helper[0]);
    on.has_helper[0] = false;
    ASSERT_EQ_FMT(1, on.outer, "%d");
    ASSERT_EQ(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ENDS_WELL();
}

/* With a permit of its own it does not wait; nor for what is over. */
static int ask_on_the_loop(void *arg)
{
    int *wrong = arg;
    *wrong += bulkhead_wait(&on.job[0], PLIM_FOREVER) != 0;
    *wrong += bulkhead_enter(&on.b[0]) != 0;
    *wrong += bulkhead_leave(&on.b[0]) != 0;
    *wrong += bulkhead_wait_idle(&on.b[0], PLIM_FOREVER) != 0;
    *wrong += bulkhead_close(&on.b[0], BULKHEAD_DRAIN, PLIM_FOREVER) != 0;
    return 0;
}

TEST what_does_not_wait_is_allowed_on_the_thread_of_the_executor(void)
{
    int wrong = 0;
    clear_for_next(NULL);
    ASSERT(stage_loop(0));
    plim_executor executor = loop_scheduler_executor(&on.l);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 1, .executor = &executor};
    ASSERT_EQ(0, stage_bulkhead(0, &options));
    on.job[0].run = begin_nothing;
    ASSERT_EQ(0, bulkhead_submit(&on.b[0], &on.job[0]));
    ASSERT_EQ(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_EQ(0, bulkhead_wait_idle(&on.b[0], PLIM_S(PATIENCE_S)));
    ASSERT_EQ(0, loop_scheduler_call_for(&on.l, ask_on_the_loop, &wrong, NULL, PLIM_S(PATIENCE_S)));
    ASSERT_EQ_FMT(0, wrong, "%d");
    ENDS_WELL();
}

/* ---- a weighted job with other objects inside ---- */

static int take_and_drain(void *arg)
{
    (void)arg;
    on.inner = 1 + weighted_sem_acquire(&on.w, 2);
    on.outer = 1 + weighted_sem_drain(&on.w, PLIM_FOREVER);
    return 0;
}

static void take_and_drain_in_a_task(loop_scheduler_task *task, int status)
{
    (void)status;
    take_and_drain(task->arg);
}

/* It is still inside its job when it runs an event loop there, */
static int run_a_loop_inside(void *arg)
{
    loop_scheduler inner;
    loop_scheduler_task task = {.run = take_and_drain_in_a_task};
    int wrong = loop_scheduler_init(&inner, NULL) != 0;
    wrong += loop_scheduler_post(&inner, &task) != 0;
    wrong += loop_scheduler_run_once(&inner, 0) != 0;
    wrong += loop_scheduler_destroy(&inner) != 0;
    *(int *)arg = wrong;
    return 0;
}

/* and its waits for others are waits as any other. */
static int call_elsewhere_inside(void *arg)
{
    *(int *)arg = loop_scheduler_call(&on.l, nothing, NULL, NULL) != 0;
    *(int *)arg += bulkhead_invoke(&on.b[0], call_the_loop, NULL, NULL) != 0 || on.inner != 1;
    return take_and_drain(NULL);
}

TEST a_weighted_job_is_known_through_what_it_runs_and_calls(bool calls)
{
    int wrong = -1;
    ASSERT(set_up());
    ASSERT_EQ(0, stage_scale(&(weighted_sem_options){.total = 2}));
    int (*job)(void *) = calls ? call_elsewhere_inside : run_a_loop_inside;
    ASSERT_EQ(0, weighted_sem_start(&on.w, 1, job, &wrong));
    ASSERT_EQ(0, weighted_sem_drain(&on.w, PLIM_S(PATIENCE_S)));
    ASSERT_EQ_FMT(0, wrong, "%d");
    ASSERT_EQ_FMT(1 + EDEADLK, on.inner, "%d");
    ASSERT_EQ_FMT(1 + EDEADLK, on.outer, "%d");
    ENDS_WELL();
}

SUITE(composition_waits)
{
    ON_STAGE();
    for (int how = INVOKES; how <= ABORTS; how++) {
        RUN_TESTp(a_wait_on_the_thread_of_the_executor_is_told, how);
    }
    RUN_TEST(a_wait_on_the_thread_of_the_executor_for_a_job_that_goes_on_is_told);
    RUN_TEST(jobs_that_the_waiting_loop_has_to_run_count_as_waiting);
    RUN_TEST(what_does_not_wait_is_allowed_on_the_thread_of_the_executor);
    RUN_TEST(a_job_that_calls_the_loop_that_waits_for_it_is_told);
    RUN_TEST(of_a_loop_and_a_job_that_wait_for_each_other_one_is_told);
    RUN_TEST(of_jobs_of_two_bulkheads_that_wait_for_each_other_one_is_told);
    RUN_TESTp(a_weighted_job_is_known_through_what_it_runs_and_calls, false);
    RUN_TESTp(a_weighted_job_is_known_through_what_it_runs_and_calls, true);
}
