/* SPDX-License-Identifier: MIT
 *
 * A call that fails changes nothing. The job and the bulkhead are what they were before, in all
 * bytes that no other thread writes.
 */

/* All figures but `rejected` are as before. */
static bool is_unchanged(bulkhead *b, const bulkhead_stats *before)
{
    bulkhead_stats after = bulkhead_snapshot(b);
    after.rejected = before->rejected;
    return memcmp(&after, before, sizeof after) == 0;
}

/* A job that is done, and a bulkhead with one permit, taken, and no place in its queue. */
static bool is_full_and_job_done(bulkhead_job *job, int *result)
{
    *result = 7;
    *job = (bulkhead_job){.run = run_result, .arg = result};
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 1, .queue = PLIM_NONE};
    return make_with(&on.b, &options) == 0 && bulkhead_submit(&on.b, job) == 0 &&
           bulkhead_wait(job, PLIM_S(PATIENCE_S)) == 0 &&
           bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)) == 0 && bulkhead_enter(&on.b) == 0;
}

enum { FULL, FULL_FOR_0, FULL_FOR_A_WHILE, FULL_AND_CLOSED, BAD_TIME };

static int refused(int how, bulkhead_job *job)
{
    switch (how) {
    case FULL:
        return bulkhead_submit(&on.b, job);
    case FULL_FOR_0:
        return bulkhead_submit_for(&on.b, job, 0);
    case FULL_FOR_A_WHILE: /* waits for a place */
        return bulkhead_submit_for(&on.b, job, PLIM_MS(1));
    case FULL_AND_CLOSED:
        return bulkhead_submit_for(&on.b, job, PLIM_S(PATIENCE_S));
    default:
        return bulkhead_submit(&on.b, job);
    }
}

TEST a_job_whose_resubmission_is_refused_stays_done(int how, int error)
{
    bulkhead_job *job = &on.job[0], before;
    int result;
    ASSERT(is_full_and_job_done(job, &result));
    if (how == FULL_AND_CLOSED) {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
    }
    job->delay_ns = how == BAD_TIME ? -1 : 0;
    bulkhead_stats figures = bulkhead_snapshot(&on.b);
    memcpy((void *)&before, (void *)job, sizeof before);
    for (int i = 0; i < 3; i++) { /* as in: while (bulkhead_submit(...) == EAGAIN) */
        ASSERT_INT(error, refused(how, job));
        ASSERT_INT(0, memcmp((void *)&before, (void *)job, sizeof before));
        ASSERT(is_unchanged(&on.b, &figures));
    }
    ASSERT_INT(BULKHEAD_FAILED, job->outcome);
    ASSERT_INT(7, job->result);
    ASSERT_INT(0, bulkhead_wait(job, 0));
    ASSERT_INT(0, bulkhead_reclaim(job, 0));
    ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, job));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    job->delay_ns = 0;
    result = 0;
    if (how != FULL_AND_CLOSED) {
        ASSERT_INT(0, bulkhead_submit(&on.b, job));
        ASSERT_INT(0, bulkhead_wait(job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, job->outcome);
    }
    ENDS_UNCOUNTED();
}

TEST a_new_job_that_is_refused_stays_new(int how, int error)
{
    bulkhead_job *job = &on.job[1], before;
    int result;
    ASSERT(is_full_and_job_done(&on.job[0], &result));
    if (how == FULL_AND_CLOSED) {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_DRAIN, 0));
    }
    *job = (bulkhead_job){.run = run_nothing, .delay_ns = how == BAD_TIME ? -1 : 0};
    memcpy((void *)&before, (void *)job, sizeof before);
    bulkhead_stats figures = bulkhead_snapshot(&on.b);
    ASSERT_INT(error, refused(how, job));
    ASSERT_INT(0, memcmp((void *)&before, (void *)job, sizeof before));
    ASSERT(is_unchanged(&on.b, &figures));
    ASSERT_INT(EINVAL, bulkhead_wait(job, 0));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_UNCOUNTED();
}

/* While its submitter waits for a place, the job is what it was. */
TEST a_job_whose_submitter_waits_is_not_submitted_yet(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, PLIM_NONE));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    on.c[0].call = SUBMIT_FOR;
    on.c[0].timeout_ns = PLIM_FOREVER;
    on.c[0].gate = &on.g[1];
    start_call(&on.c[0]);
    ASSERT(EVENTUALLY(waiters(&on.b.room) == 1));
    ASSERT_INT(EINVAL, bulkhead_wait(&on.g[1].job, PLIM_FOREVER));
    ASSERT_INT(EINVAL, bulkhead_cancel(&on.b, &on.g[1].job));
    ASSERT_INT(EBUSY, bulkhead_submit(&on.b, &on.g[1].job));
    let_all_go(on.g, 2);
    join_calls(on.c, 1);
    ASSERT_INT(0, on.c[0].error);
    ASSERT(is_done(&on.g[1]));
    ENDS_WELL();
}

/* The executor refuses after the job was accepted: what you can read of it is as before. */
TEST a_job_that_the_executor_refuses_stays_done(bool times_out)
{
    int result = 7;
    ASSERT(make_on(1, 2, 0));
    bulkhead_job *job = &on.g[0].job;
    job->run_timeout_ns = times_out ? PLIM_MS(1) : 0;
    on.g[0].result = result;
    if (!times_out) {
        let_go(&on.g[0]);
    }
    ASSERT_INT(0, bulkhead_submit(&on.b, job));
    ASSERT(is_done(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_reclaim(job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    const bulkhead_outcome outcome = job->outcome;
    ASSERT_INT(times_out ? BULKHEAD_TIMED_OUT : BULKHEAD_FAILED, outcome);
    bulkhead_stats figures = bulkhead_snapshot(&on.b);
    for (int i = 0; i < 3; i++) {
        atomic_store(&hands.refuse, 1);
        ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, job));
        ASSERT(is_unchanged(&on.b, &figures));
        ASSERT_INT(outcome, job->outcome);
        ASSERT_INT(times_out ? 0 : 7, job->result);
        ASSERT_INT(1, job->attempt);
        ASSERT_INT(times_out, bulkhead_job_cancelled(job));
        ASSERT_INT(0, bulkhead_wait(job, 0));
        ASSERT_INT(0, bulkhead_reclaim(job, 0));
    }
    job->run_timeout_ns = 0;
    on.g[0].result = 0;
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_submit(&on.b, job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(BULKHEAD_SUCCEEDED, job->outcome);
    ENDS_WELL();
}

TEST a_detached_job_that_the_executor_refuses_stays_done(void)
{
    ASSERT(make_on(1, 1, 0));
    on.g[0].job.detached = true;
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    atomic_store(&hands.refuse, 1);
    ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[0].job.outcome);
    ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, &on.g[0].job));
    ENDS_WELL();
}

TEST a_refused_call_changes_nothing(void)
{
    bulkhead_job before, *job = &on.g[0].job;
    int result = 77;
    ASSERT(make(&on.other, BULKHEAD_ASYNC, 1, 0));
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, PLIM_NONE));
    ASSERT_INT(EPERM, bulkhead_leave(&on.b));
    ASSERT_INT(0, bulkhead_submit(&on.b, job));
    ASSERT(has_entered(&on.g[0]));
    bulkhead_stats figures = bulkhead_snapshot(&on.b);
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(EAGAIN, bulkhead_enter(&on.b));
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&on.b, 0));
    ASSERT_INT(EAGAIN, bulkhead_enter_for(&on.b, PLIM_MS(1)));
    ASSERT_INT(EAGAIN, bulkhead_invoke(&on.b, nothing, NULL, &result));
    ASSERT_INT(EINVAL, bulkhead_invoke(&on.b, NULL, NULL, &result));
    ASSERT_INT(77, result);
    ASSERT_INT(EINVAL, bulkhead_resize(&on.b, -3, 0));
    ASSERT_INT(EINVAL, bulkhead_resize(&on.b, 1, INT32_MIN));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, 0));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, PLIM_MS(1)));
    ASSERT_INT(EINVAL, bulkhead_close(&on.b, 2, PLIM_FOREVER));
    ASSERT_INT(EINVAL, bulkhead_close(&on.b, -1, 0));
    ASSERT_INT(EBUSY, bulkhead_destroy(&on.b));
    ASSERT(is_unchanged(&on.b, &figures));
    memcpy((void *)&before, (void *)job, sizeof before);
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(job, 0));
    ASSERT_INT(EBUSY, bulkhead_reclaim(job, 0));
    ASSERT_INT(EBUSY, bulkhead_submit(&on.b, job));
    ASSERT_INT(EINVAL, bulkhead_cancel(&on.other, job));
    ASSERT_INT(0, memcmp((void *)&before, (void *)job, sizeof before));
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    memcpy((void *)&before, (void *)job, sizeof before);
    ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, job));
    ASSERT_INT(0, memcmp((void *)&before, (void *)job, sizeof before));
    ASSERT_ENDS_FIRST();
    ENDS_WELL();
}

/* Inside a job: close and wait_idle would wait for it. */
static int close_from_inside(bulkhead_job *job)
{
    bulkhead_stats figures = bulkhead_snapshot(&on.b);
    int *wrong = job->arg;
    *wrong += bulkhead_close(&on.b, BULKHEAD_ABORT, PLIM_FOREVER) != EDEADLK;
    *wrong += bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_MS(1)) != EDEADLK;
    *wrong += bulkhead_wait_idle(&on.b, PLIM_FOREVER) != EDEADLK;
    *wrong += bulkhead_enter(&on.b) != EDEADLK;
    *wrong += bulkhead_wait(job, PLIM_FOREVER) != EDEADLK;
    *wrong += !is_unchanged(&on.b, &figures) || bulkhead_job_cancelled(job);
    return 0;
}

TEST a_wait_for_itself_changes_nothing(void)
{
    int wrong = 0;
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.job[0] = (bulkhead_job){.run = close_from_inside, .arg = &wrong};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, wrong);
    ENDS_WELL();
}

TEST an_init_that_is_refused_leaves_the_memory_alone(void)
{
    static bulkhead b, before;
    bulkhead_options bad[] = {{.type = 7},           {.permits = -2},     {.queue = -3},
                              {.timeout_ns = -2},    {.flags = 1u << 20}, {.retry_delay_ns = -1},
                              {.run_timeout_ns = -2}};
    memset((void *)&b, 0x5a, sizeof b);
    memcpy((void *)&before, (void *)&b, sizeof b);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ASSERT_INT(EINVAL, bulkhead_init(&b, &bad[i]));
        ASSERT_INT(0, memcmp((void *)&before, (void *)&b, sizeof b));
    }
    PASS();
}

/* It was detached when it was done: nothing says that to those who would wait. */
TEST nobody_waits_for_what_was_detached(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.g[0].job.detached = true;
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    on.g[0].job.detached = false;
    ASSERT_INT(EINVAL, bulkhead_wait(&on.g[0].job, PLIM_FOREVER));
    ASSERT_INT(EINVAL, bulkhead_reclaim(&on.g[0].job, PLIM_FOREVER));
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    ENDS_WELL();
}

/* What a forked child would see: its process is another one. */
TEST in_another_process_close_and_destroy_do_nothing(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    on.b.fixed.process++;
    ASSERT_INT(EINVAL, bulkhead_close(&on.b, 7, PLIM_FOREVER));
    ASSERT_INT(0, bulkhead_close(&on.b, BULKHEAD_ABORT, PLIM_FOREVER));
    ASSERT_INT(0, bulkhead_destroy(&on.b));
    on.b.fixed.process--;
    ASSERT_INT(1, in_use(&on.b));
    ASSERT_FALSE(bulkhead_job_cancelled(&on.g[0].job));
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    ENDS_WELL();
}

SUITE(refusals_suite)
{
    SET_SETUP(set_the_hands, NULL);
    SET_TEARDOWN(clear_the_hands, NULL);
    RUN_TESTp(a_job_whose_resubmission_is_refused_stays_done, FULL, EAGAIN);
    RUN_TESTp(a_job_whose_resubmission_is_refused_stays_done, FULL_FOR_0, ETIMEDOUT);
    RUN_TESTp(a_job_whose_resubmission_is_refused_stays_done, FULL_FOR_A_WHILE, ETIMEDOUT);
    RUN_TESTp(a_job_whose_resubmission_is_refused_stays_done, FULL_AND_CLOSED, ESHUTDOWN);
    RUN_TESTp(a_job_whose_resubmission_is_refused_stays_done, BAD_TIME, EINVAL);
    RUN_TESTp(a_new_job_that_is_refused_stays_new, FULL, EAGAIN);
    RUN_TESTp(a_new_job_that_is_refused_stays_new, FULL_FOR_0, ETIMEDOUT);
    RUN_TESTp(a_new_job_that_is_refused_stays_new, FULL_FOR_A_WHILE, ETIMEDOUT);
    RUN_TESTp(a_new_job_that_is_refused_stays_new, FULL_AND_CLOSED, ESHUTDOWN);
    RUN_TESTp(a_new_job_that_is_refused_stays_new, BAD_TIME, EINVAL);
    RUN_TEST(a_job_whose_submitter_waits_is_not_submitted_yet);
    RUN_TESTp(a_job_that_the_executor_refuses_stays_done, false);
    RUN_TESTp(a_job_that_the_executor_refuses_stays_done, true);
    RUN_TEST(a_detached_job_that_the_executor_refuses_stays_done);
    RUN_TEST(a_refused_call_changes_nothing);
    RUN_TEST(a_wait_for_itself_changes_nothing);
    RUN_TEST(an_init_that_is_refused_leaves_the_memory_alone);
    RUN_TEST(nobody_waits_for_what_was_detached);
    RUN_TEST(in_another_process_close_and_destroy_do_nothing);
}
