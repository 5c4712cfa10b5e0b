/* SPDX-License-Identifier: MIT
 *
 * The options of a loop: what is taken, what is refused, what is copied.
 */

TEST all_zero_options_are_a_loop_with_an_unlimited_queue(void)
{
    enum { N = 10000 };
    spy *s = calloc(N, sizeof *s);
    ASSERT(s != NULL);
    for (int zero = 0; zero < 2; zero++) {
        loop_scheduler_options options = {.max_queue = 0};
        ASSERT_INT(0, make_as(&on.l, zero == 0 ? NULL : &options));
        spies_init(s, N, &on.l, NULL);
        for (int i = 0; i < N; i++) {
            ASSERT_INT(0, loop_scheduler_post(&on.l, &s[i].task));
        }
        ASSERT_INT(N, loop_scheduler_snapshot(&on.l).queued);
        ASSERT_INT(0, loop_scheduler_poll(&on.l));
        for (int i = 0; i < N; i++) {
            ASSERT_INT(1, runs(&s[i]));
        }
        ASSERT_ENDS_WELL(&on.l);
    }
    free(s);
    PASS();
}

TEST bad_options_are_refused(void)
{
    const loop_scheduler_options bad[] = {{.slow_ns = -1},
                                          {.slow_ns = INT64_MIN},
                                          {.max_queue = 1u << 30},
                                          {.max_queue = UINT32_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ASSERT_INT(EINVAL, loop_scheduler_init(&on.l, &bad[i]));
    }
    PASS();
}

TEST the_largest_queue_is_taken(void)
{
    ASSERT(make(&on.l, (1u << 30) - 1));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, runs(&on.s[2]));
    ENDS_WELL();
}

TEST options_are_copied(void)
{
    set_time(&on.w, 5);
    tell_bells(&on.w);
    char name[] = "short-lived";
    loop_scheduler_options options = {
        .max_queue = 1, .name = name, .slow_ns = 10, .clock = tell_time, .user = &on.w};
    ASSERT_INT(0, make_as(&on.l, &options));
    memset(name, 'x', sizeof name);
    memset((void *)&options, 0xff, sizeof options);
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&on.l, &on.s[1].task));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 0));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    pass_time(&on.w, 10);
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    ASSERT(serves(&on.l));
    ENDS_WELL();
}

TEST a_loop_is_small(void)
{
    ASSERT(sizeof(loop_scheduler) <= 6 * 1024);
    PASS();
}

TEST a_loop_can_be_made_and_unmade_again_and_again(void)
{
    for (int i = 0; i < 100; i++) {
        ASSERT(make(&on.l, (uint32_t)(i % 3)));
        spies_init(&on.s[0], 1, &on.l, NULL);
        bells_init(&on.b[0], 1, &on.l, NULL, NULL);
        if (i % 4 >= 2) {
            ASSERT_INT(0, loop_scheduler_start(&on.l));
        }
        if (i % 4 >= 1) {
            ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
            ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(1000), 0));
            ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
            ASSERT_INT(1, runs(&on.s[0]));
            ASSERT_INT(1, atomic_load(&on.b[0].cancels));
        }
        ASSERT_INT(0, unmake(&on.l));
    }
    PASS();
}

SUITE(options_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(all_zero_options_are_a_loop_with_an_unlimited_queue);
    RUN_TEST(bad_options_are_refused);
    RUN_TEST(the_largest_queue_is_taken);
    RUN_TEST(options_are_copied);
    RUN_TEST(a_loop_is_small);
    RUN_TEST(a_loop_can_be_made_and_unmade_again_and_again);
}
