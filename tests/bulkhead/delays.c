/* SPDX-License-Identifier: MIT
 *
 * Delays of jobs, and deadlines for their start.
 */

TEST a_delayed_job_is_never_early(void)
{
    int64_t from[4];
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    /* A sleeping worker, to be woken. */
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    for (int i = 0; i < 4; i++) {
        on.t[i].job.delay_ns = PLIM_MS(2 * (4 - i));
        from[i] = plim_now_();
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.t[i].job));
    }
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, bulkhead_wait(&on.t[i].job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.t[i].job.outcome);
        ASSERT(on.t[i].at[0] - from[i] >= PLIM_MS(2 * (4 - i)));
    }
    ENDS_WELL();
}

TEST a_delayed_job_has_a_place_but_no_permit(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 1));
    on.g[0].job.delay_ns = PLIM_S(1000);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_INT(1, s.delayed);
    ASSERT_INT(0, s.queued);
    ASSERT_INT(0, s.in_use);
    ASSERT_INT(1, s.available);
    ASSERT_U64(1, s.accepted);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job)); /* there is a permit, */
    ASSERT(has_entered(&on.g[1]));
    ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.g[2].job)); /* but the one place is taken */
    ASSERT_INT(EAGAIN, bulkhead_enter_for(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_FIGURES(&on.b, 1, 0);
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, PLIM_MS(1)));
    let_go(&on.g[1]);
    ASSERT(is_done(&on.g[1]));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, PLIM_MS(1))); /* it still waits for its time */
    ASSERT_INT(EBUSY, bulkhead_destroy(&on.b));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[2].job)); /* its place is free */
    ASSERT_FIGURES(&on.b, 1, 1);
    let_all_go(on.g, 3);
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ENDS_WELL();
}

TEST where_nobody_may_wait_a_delayed_job_may_not(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, PLIM_NONE));
    on.job[0] = (bulkhead_job){.run = run_nothing, .delay_ns = PLIM_MS(1)};
    ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(ETIMEDOUT, bulkhead_submit_for(&on.b, &on.job[0], PLIM_MS(1)));
    ENDS_WELL();
}

TEST a_job_that_is_due_has_its_place_before_later_ones(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 3));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    for (int64_t ns = PLIM_MS(8);; ns *= 4) {
        int64_t from = plim_now_();
        on.g[1].job.delay_ns = ns;
        on.g[2].job.delay_ns = ns / 8;
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[2].job));
        if (plim_now_() - from < ns / 2) {
            break; /* so the second is due before the first */
        }
        ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[1].job));
        ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[2].job));
        ASSERT(ns < PLIM_S(PATIENCE_S));
    }
    ASSERT(EVENTUALLY(queued(&on.b) == 2));
    ASSERT_INT(0, bulkhead_snapshot(&on.b).delayed);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[3].job));
    let_all_go(on.g, 4);
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, on.g[0].place);
    ASSERT_INT(1, on.g[2].place); /* in the order of their times, not of their submits */
    ASSERT_INT(2, on.g[1].place);
    ASSERT_INT(3, on.g[3].place);
    ENDS_WELL();
}

TEST many_delayed_jobs_all_run_in_order_of_their_times(void)
{
    enum { N = 300 };
    static timed t[N];
    static int64_t due[N];
    uint64_t random = 99;
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    for (int i = 0; i < N; i++) {
        timed_init(&t[i]);
        t[i].job.delay_ns = PLIM_US(next_random(&random) % 10000);
        due[i] = plim_now_() + t[i].job.delay_ns;
        ASSERT_INT(0, bulkhead_submit(&on.b, &t[i].job));
        if (i % 10 == 9) { /* some go again, from the middle of whatever holds them */
            int victim = i - (int)(next_random(&random) % 10);
            (void)bulkhead_cancel(&on.b, &t[victim].job);
        }
    }
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(N, s.cancelled + s.succeeded);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, bulkhead_wait(&t[i].job, 0));
        ASSERT_INT(t[i].job.outcome == BULKHEAD_SUCCEEDED, t[i].runs);
        ASSERT(t[i].runs == 0 || t[i].at[0] >= due[i]);
    }
    ENDS_WELL();
}

TEST huge_delays_do_not_overflow(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.job[0] = (bulkhead_job){.run = run_nothing,
                               .delay_ns = INT64_MAX,
                               .start_within_ns = INT64_MAX,
                               .run_timeout_ns = INT64_MAX};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&on.job[0], PLIM_MS(2)));
    ASSERT_INT(1, bulkhead_snapshot(&on.b).delayed);
    ASSERT_INT(0, bulkhead_cancel(&on.b, &on.job[0]));
    on.job[0].delay_ns = 0;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[0].outcome);
    ENDS_WELL();
}

/* The worker is busy all the time: somebody else must see to it. */
TEST a_job_that_cannot_begin_in_time_expires(int64_t delay_ns)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 1));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    on.g[1].job.start_within_ns = PLIM_MS(3);
    on.g[1].job.delay_ns = delay_ns;
    int64_t from = plim_now_();
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT(is_done(&on.g[1]));
    ASSERT(plim_now_() - from >= PLIM_MS(3) + delay_ns);
    ASSERT_INT(BULKHEAD_EXPIRED, on.g[1].job.outcome);
    ASSERT_INT(BULKHEAD_EXPIRED, on.g[1].seen);
    ASSERT_INT(0, on.g[1].job.result);
    ASSERT_INT(1, atomic_load(&on.g[1].dones));
    ASSERT_FIGURES(&on.b, 1, 0);
    ASSERT_U64(1, bulkhead_snapshot(&on.b).expired);
    ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, &on.g[1].job));
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    ASSERT_ENDS_WELL();
    ASSERT_INT(0, atomic_load(&on.g[1].runs));
    ASSERT_INT(1, atomic_load(&on.g[1].dones));
    PASS();
}

TEST a_job_that_begins_in_time_does_not_expire(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 1));
    on.g[0].job.start_within_ns = PLIM_S(5);
    on.g[1].job.start_within_ns = PLIM_S(5);
    on.g[1].job.delay_ns = PLIM_MS(2);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT(has_entered(&on.g[1]));
    let_all_go(on.g, 2);
    ASSERT(is_done(&on.g[0]));
    ASSERT(is_done(&on.g[1]));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[0].job.outcome);
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[1].job.outcome);
    ENDS_WELL();
}

SUITE(delays_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TEST(a_delayed_job_is_never_early);
    RUN_TEST(a_delayed_job_has_a_place_but_no_permit);
    RUN_TEST(where_nobody_may_wait_a_delayed_job_may_not);
    RUN_TEST(a_job_that_is_due_has_its_place_before_later_ones);
    RUN_TEST(many_delayed_jobs_all_run_in_order_of_their_times);
    RUN_TEST(huge_delays_do_not_overflow);
    RUN_TESTp(a_job_that_cannot_begin_in_time_expires, 0);
    RUN_TESTp(a_job_that_cannot_begin_in_time_expires, PLIM_MS(4));
    RUN_TEST(a_job_that_begins_in_time_does_not_expire);
}
