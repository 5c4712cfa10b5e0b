/* SPDX-License-Identifier: MIT
 *
 * Order: those who wait are served in the order of their arrival, and nobody is passed for ever.
 */

TEST callers_and_jobs_are_served_in_order_of_arrival(uint32_t flags)
{
    enum { N = 12 };
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .flags = flags};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    for (int i = 0; i < N; i++) {
        on.c[i] = (caller){.call = i % 3 == 0 ? ENTER : INVOKE, .gate = &on.g[i]};
        if (i % 3 == 1) {
            ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
        } else {
            ASSERT(queue_up(&on.c[i], 1));
        }
    }
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    for (int i = 0; i < N; i++) {
        ASSERT(has_entered(&on.g[i]));
        /* It went from one to the next in one step: a newcomer cannot get between them. */
        ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
        ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&on.b, 0));
        ASSERT_FIGURES(&on.b, 1, N - i - 1);
        let_go(&on.g[i]);
    }
    for (int i = 0; i < N; i++) {
        if (i % 3 == 1) {
            ASSERT(is_done(&on.g[i]));
        } else {
            ASSERT(finished(&on.c[i]));
            ASSERT_INT(0, on.c[i].error);
        }
        ASSERT_INT(i, on.g[i].place);
    }
    ENDS_WELL();
}

TEST a_newcomer_does_not_pass_those_who_wait(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    for (int round = scaled(200); round > 0; round--) {
        ASSERT_INT(0, bulkhead_enter(&on.b));
        on.c[0] = (caller){.call = ENTER, .gate = &on.g[0]};
        ASSERT(queue_up(&on.c[0], 1));
        ASSERT_INT(0, bulkhead_leave(&on.b));
        ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b)); /* it belongs to the other one already */
        ASSERT_FIGURES(&on.b, 1, 0);
        let_go(&on.g[0]);
        ASSERT(finished(&on.c[0]));
        ASSERT_INT(0, on.c[0].error);
    }
    ENDS_WELL();
}

/* Goes in and out, as long as it is told to. It offers its CPU now and then: valgrind switches
 * threads after so many steps of a loop, and so perhaps always at one where this holds the lock. */
static plim_thread_result pester(void *arg)
{
    crowd *c = ((member *)arg)->crowd;
    wait_for_go(c);
    for (int i = 1; atomic_load(&c->wrong) == 0; i++) {
        if (bulkhead_enter(&on.b) == 0) {
            bulkhead_leave(&on.b);
        }
        if (i % 64 == 0) {
            plim_thread_yield_();
        }
    }
    return 0;
}

TEST nobody_is_passed_for_ever(uint32_t flags, int type)
{
    bulkhead_options options = {.type = type, .flags = flags};
    ASSERT_INT(0, make_with(&on.b, &options));
    gather(3, pester);
    int error = 0;
    for (int i = scaled(100); i > 0 && error == 0; i--) {
        error = bulkhead_enter_for(&on.b, PLIM_S(PATIENCE_S));
        if (error == 0) {
            error = bulkhead_leave(&on.b);
        }
        if (error == 0 && type == BULKHEAD_ASYNC) {
            on.job[0] = (bulkhead_job){.run = run_nothing};
            error = bulkhead_submit(&on.b, &on.job[0]);
            if (error == 0) {
                error = bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S));
            }
        }
    }
    atomic_store(&on.crowd.wrong, 1);
    disperse();
    ASSERT_INT(0, error);
    ENDS_WELL();
}

SUITE(order_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TESTp(callers_and_jobs_are_served_in_order_of_arrival, 0);
    RUN_TESTp(callers_and_jobs_are_served_in_order_of_arrival, BULKHEAD_INLINE);
    RUN_TESTp(callers_and_jobs_are_served_in_order_of_arrival, BULKHEAD_TIMINGS | BULKHEAD_STATS);
    RUN_TEST(a_newcomer_does_not_pass_those_who_wait);
    RUN_TESTp(nobody_is_passed_for_ever, 0, BULKHEAD_SYNC);
    RUN_TESTp(nobody_is_passed_for_ever, BULKHEAD_UNFAIR, BULKHEAD_SYNC);
    RUN_TESTp(nobody_is_passed_for_ever, 0, BULKHEAD_ASYNC);
    RUN_TESTp(nobody_is_passed_for_ever, BULKHEAD_UNFAIR, BULKHEAD_ASYNC);
}
