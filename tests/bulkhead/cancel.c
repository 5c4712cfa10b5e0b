/* SPDX-License-Identifier: MIT
 *
 * Cancel: of jobs that wait, that are delayed, and that run.
 */

TEST a_queued_job_is_cancelled_at_once(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 1));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.g[2].job));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[1].job));
    ASSERT_INT(1, atomic_load(&on.g[1].dones)); /* was called here */
    ASSERT_INT(0, bulkhead_wait(&on.g[1].job, 0));
    ASSERT_INT(BULKHEAD_CANCELLED, on.g[1].job.outcome);
    ASSERT_INT(BULKHEAD_CANCELLED, on.g[1].seen);
    ASSERT_INT(0, on.g[1].job.result);
    ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, &on.g[1].job));
    ASSERT_FIGURES(&on.b, 1, 0);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[2].job)); /* there is room again */
    let_all_go(on.g, 3);
    ASSERT(is_done(&on.g[2]));
    ASSERT_INT(0, atomic_load(&on.g[1].runs));
    ASSERT_INT(1, atomic_load(&on.g[1].dones));
    ASSERT_U64(1, bulkhead_snapshot(&on.b).cancelled);
    ENDS_WELL();
}

TEST a_delayed_job_can_be_cancelled(void)
{
    on.g[0].job.delay_ns = PLIM_S(1000);
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(1, bulkhead_snapshot(&on.b).delayed);
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_snapshot(&on.b).delayed);
    ASSERT_INT(BULKHEAD_CANCELLED, on.g[0].job.outcome);
    ASSERT_INT(1, atomic_load(&on.g[0].dones));
    ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, &on.g[0].job));
    ENDS_WELL();
}

static int until_cancelled(bulkhead_job *job)
{
    gate *g = job->arg;
    atomic_fetch_add(&g->runs, 1);
    csem_release(&g->entered);
    while (!bulkhead_job_cancelled(job)) {
        plim_thread_yield_();
    }
    csem_acquire(&g->exit);
    return g->result;
}

/* The body is told, and keeps its permit until it returns; what it returns then counts. */
TEST a_running_job_is_told_and_not_stopped(int result)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .attempts = 5};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.g[0].job.run = until_cancelled;
    on.g[0].result = result;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_FALSE(bulkhead_job_cancelled(&on.g[0].job));
    ASSERT_INT(EBUSY, bulkhead_cancel(&on.b, &on.g[0].job));
    ASSERT(bulkhead_job_cancelled(&on.g[0].job));
    ASSERT_INT(EBUSY, bulkhead_cancel(&on.b, &on.g[0].job));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&on.g[0].job, PLIM_MS(2)));
    ASSERT_FIGURES(&on.b, 1, 1);
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    /* A failure is not tried again. */
    ASSERT_INT(result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, on.g[0].job.outcome);
    ASSERT_INT(result, on.g[0].job.result);
    ASSERT_INT(1, atomic_load(&on.g[0].runs));
    ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, &on.g[0].job));
    /* The one that now runs on that worker has not heard of it. */
    ASSERT(has_entered(&on.g[1]));
    ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, &on.g[0].job));
    ASSERT_FALSE(bulkhead_job_cancelled(&on.g[1].job));
    let_go(&on.g[1]);
    ASSERT(is_done(&on.g[1]));
    ASSERT_U64(0, bulkhead_snapshot(&on.b).retried);
    /* A new submit is a new beginning. */
    let_go(&on.g[0]);
    on.g[0].job.run = run_pass;
    on.g[0].result = 0;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_FALSE(bulkhead_job_cancelled(&on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[0].job.outcome);
    ENDS_WELL();
}

TEST a_job_that_waits_for_its_retry_can_be_cancelled(void)
{
    static int error = EIO;
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .attempts = 3, .retry_delay_ns = PLIM_S(1000)};
    options.retry_delay_max_ns = PLIM_S(1000);
    ASSERT_INT(0, make_with(&on.b, &options));
    on.job[0] = (bulkhead_job){.run = run_result, .arg = &error};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).delayed == 1));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], 0));
    ASSERT_INT(BULKHEAD_CANCELLED, on.job[0].outcome);
    ASSERT_FIGURES(&on.b, 0, 0);
    ENDS_WELL();
}

/* A job that has a permit, but no worker has it yet. */
TEST a_cancel_races_with_the_start_and_one_of_them_wins(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    int cancelled = 0;
    for (int round = scaled(3000); round > 0; round--) {
        atomic_store(&on.ran, 0);
        on.job[0] = (bulkhead_job){.run = run_count, .arg = &on.ran};
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
        dawdle((uint64_t)round);
        int error = bulkhead_cancel(&on.b, &on.job[0]);
        ASSERT(error == 0 || error == EBUSY || error == EALREADY);
        ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
        ASSERT_INT(error == 0 ? BULKHEAD_CANCELLED : BULKHEAD_SUCCEEDED, on.job[0].outcome);
        ASSERT_INT(error == 0 ? 0 : 1, atomic_load(&on.ran));
        cancelled += error == 0;
        ASSERT_INT(0, in_use(&on.b));
    }
    ASSERT_U64(cancelled, bulkhead_snapshot(&on.b).cancelled);
    ENDS_WELL();
}

TEST one_in_the_middle_of_the_queue_is_cancelled_alone(void)
{
    enum { N = 6 };
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[3].job));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[1].job));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[5].job));
    ASSERT_FIGURES(&on.b, 1, 2);
    let_all_go(on.g, N);
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, on.g[0].place);
    ASSERT_INT(1, on.g[2].place);
    ASSERT_INT(2, on.g[4].place);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(1, atomic_load(&on.g[i].dones));
    }
    ENDS_WELL();
}

static void note_its_end_and_free_it(bulkhead_job *job)
{
    count_done(job);
    free(job);
}

/* On a heap, so that a sanitizer sees who touches it after its done. */
TEST a_detached_job_can_be_cancelled_until_its_done_frees_it(void)
{
    bulkhead_job *job = calloc(1, sizeof *job);
    ASSERT(job != NULL);
    *job = (bulkhead_job){.run = run_pass, .arg = &on.g[1], .detached = true};
    job->done = note_its_end_and_free_it;
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, job));
    ASSERT_INT(0, bulkhead_cancel(&on.b, job));
    ASSERT_INT(1, atomic_load(&on.g[1].dones));
    ASSERT_INT(BULKHEAD_CANCELLED, on.g[1].seen);
    ASSERT_FIGURES(&on.b, 1, 0);
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(0, atomic_load(&on.g[1].runs));
    ENDS_WELL();
}

SUITE(cancel_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TEST(a_queued_job_is_cancelled_at_once);
    RUN_TEST(a_delayed_job_can_be_cancelled);
    RUN_TESTp(a_running_job_is_told_and_not_stopped, 0);
    RUN_TESTp(a_running_job_is_told_and_not_stopped, EIO);
    RUN_TEST(a_job_that_waits_for_its_retry_can_be_cancelled);
    RUN_TEST(a_cancel_races_with_the_start_and_one_of_them_wins);
    RUN_TEST(one_in_the_middle_of_the_queue_is_cancelled_alone);
    RUN_TEST(a_detached_job_can_be_cancelled_until_its_done_frees_it);
}
