/* SPDX-License-Identifier: MIT
 *
 * Timeouts of callers: in time, never early, and without a trace.
 */

TEST a_wait_ends_in_time_and_not_early(int type)
{
    ASSERT(make(&on.b, type, 1, 0));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    on.c[0] = (caller){.call = ENTER_FOR, .timeout_ns = PLIM_MS(5)};
    start_call(&on.c[0]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(ETIMEDOUT, on.c[0].error);
    ASSERT(on.c[0].took_ns >= PLIM_MS(5));
    ASSERT(on.c[0].took_ns < PLIM_S(PATIENCE_S));
    ASSERT_FIGURES(&on.b, 1, 0);
    ASSERT_U64(1, bulkhead_snapshot(&on.b).rejected);
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

TEST the_timeout_of_the_options_is_that_of_enter_and_invoke(int type, uint32_t flags)
{
    bulkhead_options options = {.type = type, .timeout_ns = PLIM_MS(3), .flags = flags};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    on.c[0] = (caller){.call = ENTER};
    on.c[1] = (caller){.call = INVOKE};
    for (int i = 0; i < 2; i++) {
        start_call(&on.c[i]);
        ASSERT(finished(&on.c[i]));
        ASSERT_INT(ETIMEDOUT, on.c[i].error);
        ASSERT(on.c[i].took_ns >= PLIM_MS(3));
    }
    ASSERT_FIGURES(&on.b, 1, 0);
    ASSERT_U64(2, bulkhead_snapshot(&on.b).rejected);
    ASSERT_INT(0, bulkhead_leave(&on.b));
    /* Its time is short: a worker may not be there before it is over. */
    ASSERT(EVENTUALLY(bulkhead_invoke(&on.b, nothing, NULL, NULL) == 0));
    ENDS_UNCOUNTED();
}

TEST a_timeout_of_none_never_waits(int type)
{
    bulkhead_options options = {.type = type, .timeout_ns = PLIM_NONE};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    on.c[0] = (caller){.call = ENTER};
    on.c[1] = (caller){.call = INVOKE};
    for (int i = 0; i < 2; i++) {
        start_call(&on.c[i]);
        ASSERT(finished(&on.c[i]));
        ASSERT_INT(EAGAIN, on.c[i].error);
    }
    ASSERT_FIGURES(&on.b, 1, 0);
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

TEST odd_timeouts_mean_what_they_say(int64_t timeout_ns)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    ASSERT_INT(0, bulkhead_enter_for(&on.b, timeout_ns)); /* free: no wait, whatever the timeout */
    on.c[0] = (caller){.call = ENTER_FOR, .timeout_ns = timeout_ns};
    if (timeout_ns <= 1) {
        start_call(&on.c[0]);
        ASSERT(finished(&on.c[0]));
        ASSERT_INT(ETIMEDOUT, on.c[0].error);
        ASSERT_INT(0, bulkhead_leave(&on.b));
    } else {
        ASSERT(queue_up(&on.c[0], 1));
        ASSERT(stays_away(&on.c[0]));
        ASSERT_INT(0, bulkhead_leave(&on.b));
        ASSERT(finished(&on.c[0]));
        ASSERT_INT(0, on.c[0].error);
    }
    ENDS_WELL();
}

TEST waits_that_gave_up_leak_nothing(int type)
{
    ASSERT(make(&on.b, type, 2, 0));
    for (int round = scaled(20); round > 0; round--) {
        ASSERT_INT(0, bulkhead_enter(&on.b));
        ASSERT_INT(0, bulkhead_enter(&on.b));
        for (int i = 0; i < 2; i++) {
            on.c[i] = (caller){.call = ENTER_FOR, .timeout_ns = PLIM_US(300)};
            start_call(&on.c[i]);
        }
        join_calls(on.c, 2);
        ASSERT_INT(ETIMEDOUT, on.c[0].error);
        ASSERT_INT(ETIMEDOUT, on.c[1].error);
        ASSERT_INT(0, bulkhead_leave(&on.b));
        ASSERT_INT(0, bulkhead_leave(&on.b));
        ASSERT_INT(0, bulkhead_try_enter(&on.b));
        ASSERT_INT(0, bulkhead_try_enter(&on.b));
        ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
        ASSERT_INT(0, bulkhead_leave(&on.b));
        ASSERT_INT(0, bulkhead_leave(&on.b));
    }
    ENDS_WELL();
}

TEST timeouts_may_race_with_a_release(int type, uint32_t flags)
{
    enum { N = 10 };
    bulkhead_options options = {.type = type, .flags = flags};
    ASSERT_INT(0, make_with(&on.b, &options));
    for (int round = scaled(40); round > 0; round--) {
        ASSERT_INT(0, bulkhead_enter(&on.b));
        int64_t until = plim_now_() + PLIM_MS(1);
        for (int i = 0; i < N; i++) {
            on.c[i] = (caller){.call = ENTER_FOR, .timeout_ns = until - plim_now_()};
            start_call(&on.c[i]);
        }
        plim_nap_(until);
        ASSERT_INT(0, bulkhead_leave(&on.b));
        join_calls(on.c, N);
        for (int i = 0; i < N; i++) {
            ASSERT(on.c[i].error == 0 || on.c[i].error == ETIMEDOUT);
            ASSERT_INT(0, on.c[i].left);
        }
        ASSERT_FIGURES(&on.b, 0, 0);
        ASSERT_INT(0, bulkhead_try_enter(&on.b));
        ASSERT_INT(0, bulkhead_leave(&on.b));
    }
    ENDS_WELL();
}

TEST a_caller_that_gives_up_makes_room(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 1));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    int error = 0;
    for (int64_t ns = PLIM_MS(4); error != EAGAIN; ns *= 4) { /* again, if that was too short */
        ASSERT(ns < PLIM_S(PATIENCE_S));
        on.c[0] = (caller){.call = ENTER_FOR, .timeout_ns = ns};
        start_call(&on.c[0]);
        ASSERT(EVENTUALLY(queued(&on.b) == 1 || atomic_load(&on.c[0].done)));
        error = bulkhead_enter_for(&on.b, PLIM_FOREVER); /* full: at once, not after a wait */
        ASSERT(error == EAGAIN || error == EDEADLK);
        ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&on.b, 0));
        ASSERT(finished(&on.c[0]));
        ASSERT_INT(ETIMEDOUT, on.c[0].error);
        ASSERT_INT(0, queued(&on.b));
    }
    on.c[1] = (caller){.call = ENTER_FOR, .timeout_ns = PLIM_FOREVER};
    ASSERT(queue_up(&on.c[1], 1));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT(finished(&on.c[1]));
    ASSERT_INT(0, on.c[1].error);
    ENDS_WELL();
}

TEST one_in_the_middle_that_gives_up_disturbs_nobody(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    bool in_time = false;
    for (int64_t ns = PLIM_MS(4); !in_time; ns *= 4) { /* again, if that was too short */
        ASSERT(ns < PLIM_S(PATIENCE_S));
        ASSERT_INT(0, bulkhead_enter(&on.b));
        memset((void *)on.c, 0, 3 * sizeof on.c[0]);
        for (int i = 0; i < 3; i++) {
            on.c[i] = (caller){
                .call = ENTER_FOR, .gate = &on.g[i], .timeout_ns = i == 1 ? ns : PLIM_FOREVER};
            start_call(&on.c[i]);
            ASSERT(EVENTUALLY(queued(&on.b) == (uint32_t)i + 1 || atomic_load(&on.c[1].done)));
        }
        in_time = queued(&on.b) == 3;
        ASSERT(finished(&on.c[1]));
        ASSERT_INT(ETIMEDOUT, on.c[1].error);
        ASSERT(EVENTUALLY(queued(&on.b) == 2));
        ASSERT_FIGURES(&on.b, 1, 2);
        ASSERT_INT(0, bulkhead_leave(&on.b));
        let_go(&on.g[0]);
        let_go(&on.g[2]);
        ASSERT(finished(&on.c[0]));
        ASSERT(finished(&on.c[2]));
        ASSERT_INT(on.g[0].place + 1, on.g[2].place);
    }
    ENDS_WELL();
}

SUITE(timeouts_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TESTp(a_wait_ends_in_time_and_not_early, BULKHEAD_SYNC);
    RUN_TESTp(a_wait_ends_in_time_and_not_early, BULKHEAD_ASYNC);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_enter_and_invoke, BULKHEAD_SYNC, 0);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_enter_and_invoke, BULKHEAD_ASYNC, 0);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_enter_and_invoke, BULKHEAD_ASYNC,
              BULKHEAD_INLINE);
    RUN_TESTp(the_timeout_of_the_options_is_that_of_enter_and_invoke, BULKHEAD_SYNC,
              BULKHEAD_UNFAIR);
    RUN_TESTp(a_timeout_of_none_never_waits, BULKHEAD_SYNC);
    RUN_TESTp(a_timeout_of_none_never_waits, BULKHEAD_ASYNC);
    RUN_TESTp(odd_timeouts_mean_what_they_say, 0);
    RUN_TESTp(odd_timeouts_mean_what_they_say, -1);
    RUN_TESTp(odd_timeouts_mean_what_they_say, INT64_MIN);
    RUN_TESTp(odd_timeouts_mean_what_they_say, 1);
    RUN_TESTp(odd_timeouts_mean_what_they_say, INT64_MAX - 1);
    RUN_TESTp(odd_timeouts_mean_what_they_say, INT64_MAX);
    RUN_TESTp(waits_that_gave_up_leak_nothing, BULKHEAD_SYNC);
    RUN_TESTp(waits_that_gave_up_leak_nothing, BULKHEAD_ASYNC);
    RUN_TESTp(timeouts_may_race_with_a_release, BULKHEAD_SYNC, 0);
    RUN_TESTp(timeouts_may_race_with_a_release, BULKHEAD_ASYNC, 0);
    RUN_TESTp(timeouts_may_race_with_a_release, BULKHEAD_SYNC, BULKHEAD_UNFAIR);
    RUN_TEST(a_caller_that_gives_up_makes_room);
    RUN_TEST(one_in_the_middle_that_gives_up_disturbs_nobody);
}
