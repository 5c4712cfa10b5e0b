/* SPDX-License-Identifier: MIT
 *
 * When timers run: never early, in order, and as they were last started.
 */

TEST a_timer_is_never_early_by_a_nanosecond_nor_late(int64_t from, int64_t delay_ns)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    set_time(&on.w, from);
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, delay_ns, 0));
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).timers);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    for (int64_t left = delay_ns / 2; left > 1; left /= 2) {
        set_time(&on.w, from + delay_ns - left);
        ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    }
    set_time(&on.w, from + delay_ns - 1);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    ASSERT_INT(0, rings(&on.b[0]));
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).timers);
    set_time(&on.w, from + delay_ns);
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT(on.b[0].current);
    ASSERT_U64(1, loop_scheduler_snapshot(&on.l).fired);
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).timers);
    pass_time(&on.w, delay_ns);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    ASSERT_INT(1, rings(&on.b[0])); /* once */
    ENDS_WELL();
}

TEST timers_are_never_early_on_the_real_clock(void)
{
    uint64_t random = 99;
    ASSERT(make_and_start(&on.l, 0));
    int64_t end = plim_now_() + race_ns();
    for (int round = 1; round <= scaled(1000) && plim_now_() < end; round++) {
        int64_t most = round % 10 == 0 ? 1500000 : 150000; /* few are long */
        int64_t delay_ns = (int64_t)(next_random(&random) % (uint64_t)most);
        int64_t from = plim_now_();
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, delay_ns, 0));
        ASSERT(EVENTUALLY(rings(&on.b[0]) == round));
        ASSERT(on.b[0].at >= from + delay_ns);
    }
    ENDS_WELL();
}

TEST timers_run_in_the_order_of_their_deadlines(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    const int64_t delays[] = {500, 100000, 3, 70, 1};
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[i].timer, delays[i], 0));
    }
    pass_time(&on.w, 1000000);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_STR_EQ("5 3 4 1 2", story(&on.d));
    ENDS_WELL();
}

TEST equal_deadlines_run_in_the_order_of_their_starts(void)
{
    enum { N = 6 };
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    for (int i = N - 1; i >= 0; i--) { /* at different times, all for 1000 */
        ASSERT_INT(0,
                   loop_scheduler_timer_start(&on.l, &on.b[i].timer, 1000 - tell_time(&on.w), 0));
        pass_time(&on.w, 100);
        if (i % 2 == 0) {
            run_dry(&on.l);
        }
    }
    set_time(&on.w, 1000);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_STR_EQ("6 5 4 3 2 1", story(&on.d));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[i].timer, 50, 0));
    }
    /* Armed anew, it has been started last. */
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[2].timer, 50, 0));
    pass_time(&on.w, 50);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_STR_EQ("6 5 4 3 2 1 1 2 4 5 6 3", story(&on.d));
    ENDS_WELL();
}

typedef struct mixed {
    world *w;
    bell b[3];
} mixed;

static void start_all_three(spy *s)
{
    mixed *m = s->arg;
    for (int i = 0; i < 3; i++) {
        s->error += loop_scheduler_timer_start(s->l, &m->b[i].timer, 10, 0);
    }
}

TEST equal_deadlines_keep_their_order_whoever_starts_them(bool loop_first)
{
    static mixed m;
    memset((void *)&m, 0, sizeof m);
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    bells_init(m.b, 3, &on.l, &on.w, &on.d);
    on.b[0].number = 8;
    on.b[1].number = 9;
    on.s[0].d = NULL;
    on.s[0].act = start_all_three;
    on.s[0].arg = &m;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    if (loop_first) {
        ASSERT_INT(0, loop_scheduler_poll(&on.l));
    }
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[i].timer, 10, 0));
    }
    run_dry(&on.l);
    ASSERT_INT(0, on.s[0].error);
    pass_time(&on.w, 10);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_STR_EQ(loop_first ? "1 2 3 8 9" : "8 9 1 2 3", story(&on.d));
    ENDS_WELL();
}

TEST a_timer_armed_anew_forgets_its_old_deadline(bool known)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 100, 0));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[1].timer, 100000, 0));
    if (known) {
        run_dry(&on.l);
    }
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 100000, 0)); /* later */
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[1].timer, 50, 0));     /* sooner */
    ASSERT_INT(2, loop_scheduler_snapshot(&on.l).timers);
    set_time(&on.w, 99999);
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(0, rings(&on.b[0]));
    ASSERT_INT(1, rings(&on.b[1]));
    set_time(&on.w, 100000);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, rings(&on.b[0]));
    set_time(&on.w, 10000000);
    ASSERT_INT(0, run_dry(&on.l));
    ASSERT_INT(1, rings(&on.b[1]));
    ASSERT_INT(0, atomic_load(&on.b[0].cancels) + atomic_load(&on.b[1].cancels));
    ASSERT_U64(2, loop_scheduler_snapshot(&on.l).fired);
    ENDS_WELL();
}

static void start_bell(spy *s)
{
    bell *b = s->arg;
    s->error = loop_scheduler_timer_start(s->l, &b->timer, b->ns, 0);
    s->result = rings(b);
}

TEST without_delay_a_timer_runs_in_the_next_turn(int64_t delay_ns)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    set_time(&on.w, 12345);
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, delay_ns, 0));
    ASSERT_INT(0, rings(&on.b[0]));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(1, rings(&on.b[0]));
    on.s[0].act = start_bell;
    on.s[0].arg = &on.b[0];
    on.b[0].ns = delay_ns;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(0, on.s[0].error);
    ASSERT_INT(1, on.s[0].result); /* not inside of start */
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(2, rings(&on.b[0]));
    ENDS_WELL();
}

TEST a_timer_that_is_for_ever_away_disturbs_nobody(int64_t from)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    set_time(&on.w, from);
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, INT64_MAX, 0));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[1].timer, 1000000, 0));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[2].timer, 1, INT64_MAX));
    pass_time(&on.w, 1);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, rings(&on.b[2]));
    pass_time(&on.w, 999999);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, rings(&on.b[1]));
    for (int i = 0; i < 30; i++) {
        pass_time(&on.w, (INT64_MAX - tell_time(&on.w)) / 2);
        ASSERT_INT(0, run_dry(&on.l));
    }
    ASSERT_INT(0, rings(&on.b[0]));
    ASSERT_INT(1, rings(&on.b[2]));
    ASSERT_U64(0, on.b[2].timer.missed);
    ASSERT_INT(2, loop_scheduler_snapshot(&on.l).timers);
    ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[2].timer));
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(1, atomic_load(&on.b[0].cancels));
    ASSERT_INT(1, atomic_load(&on.b[2].cancels));
    PASS();
}

static void pass_time_then_start(spy *s)
{
    bell *b = s->arg;
    pass_time(b->w, PLIM_S(5));
    s->error = loop_scheduler_timer_start(s->l, &b->timer, b->ns, 0);
}

TEST a_delay_begins_when_the_timer_is_started(bool in_a_task)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    on.b[0].ns = PLIM_S(1);
    on.s[0].act = pass_time_then_start;
    on.s[0].arg = &on.b[0];
    if (in_a_task) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
        ASSERT_INT(0, loop_scheduler_poll(&on.l));
    } else {
        ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
        pass_time_then_start(&on.s[0]);
    }
    ASSERT_INT(0, on.s[0].error);
    ASSERT_INT(0, run_dry(&on.l)); /* not at once */
    set_time(&on.w, PLIM_S(6) - 1);
    ASSERT_INT(0, run_dry(&on.l));
    set_time(&on.w, PLIM_S(6));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, rings(&on.b[0]));
    ENDS_WELL();
}

TEST bad_timers_are_refused_and_nothing_changes(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    loop_scheduler_timer nothing = {.run = NULL};
    ASSERT_INT(EINVAL, loop_scheduler_timer_start(&on.l, &nothing, 1, 0));
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).timers);
    ASSERT_INT(ENOENT, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 0));
    on.b[0].timer.run = NULL;
    ASSERT_INT(EINVAL, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 100, 0));
    on.b[0].timer.run = run_bell;
    pass_time(&on.w, 10);
    ASSERT_INT(1, run_dry(&on.l)); /* as it was armed */
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 0));
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(0, atomic_load(&on.b[0].cancels));
    PASS();
}

SUITE(timers_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, 0, 1);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, 0, 63);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, 0, 64);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, 63, 65);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, 4095, 4097);
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, PLIM_S(77), PLIM_MS(3));
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, PLIM_S(77) + 1, PLIM_S(86400));
    RUN_TESTp(a_timer_is_never_early_by_a_nanosecond_nor_late, INT64_MAX / 2, INT64_MAX / 4);
    RUN_TEST(timers_are_never_early_on_the_real_clock);
    RUN_TEST(timers_run_in_the_order_of_their_deadlines);
    RUN_TEST(equal_deadlines_run_in_the_order_of_their_starts);
    RUN_TESTp(equal_deadlines_keep_their_order_whoever_starts_them, false);
    RUN_TESTp(equal_deadlines_keep_their_order_whoever_starts_them, true);
    RUN_TESTp(a_timer_armed_anew_forgets_its_old_deadline, false);
    RUN_TESTp(a_timer_armed_anew_forgets_its_old_deadline, true);
    RUN_TESTp(without_delay_a_timer_runs_in_the_next_turn, 0);
    RUN_TESTp(without_delay_a_timer_runs_in_the_next_turn, -1);
    RUN_TESTp(without_delay_a_timer_runs_in_the_next_turn, INT64_MIN);
    RUN_TESTp(a_timer_that_is_for_ever_away_disturbs_nobody, 0);
    RUN_TESTp(a_timer_that_is_for_ever_away_disturbs_nobody, PLIM_S(1000000));
    RUN_TESTp(a_delay_begins_when_the_timer_is_started, false);
    RUN_TESTp(a_delay_begins_when_the_timer_is_started, true);
    RUN_TEST(bad_timers_are_refused_and_nothing_changes);
}
