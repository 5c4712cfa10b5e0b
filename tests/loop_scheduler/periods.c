/* SPDX-License-Identifier: MIT
 *
 * Timers that run again and again.
 */

TEST a_periodic_timer_keeps_its_phase_however_late(void)
{
    uint64_t random = 23;
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 500, 1000));
    for (int i = 0; i < 1000; i++) {
        int64_t due = 500 + 1000 * (int64_t)i;
        set_time(&on.w, due - 1);
        ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
        set_time(&on.w,
                 due + (int64_t)(next_random(&random) % 999)); /* late, by less than a period */
        ASSERT_INT(0, loop_scheduler_poll(&on.l));
        ASSERT_INT(i + 1, rings(&on.b[0]));
        ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    }
    ASSERT_U64(0, on.b[0].timer.missed);
    ASSERT_U64(1000, loop_scheduler_snapshot(&on.l).fired);
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).timers);
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(1, atomic_load(&on.b[0].cancels));
    PASS();
}

static void take_time(bell *b)
{
    pass_time(b->w, b->ns);
}

TEST a_callback_that_takes_time_makes_no_drift(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    on.b[0].act = take_time;
    on.b[0].ns = PLIM_MS(3);
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_MS(10), PLIM_MS(10)));
    while (rings(&on.b[0]) < 100) {
        int64_t sleep = loop_scheduler_next_timeout(&on.l);
        ASSERT(sleep > 0);
        ASSERT(sleep <= PLIM_MS(10));
        pass_time(&on.w, sleep);
        run_dry(&on.l);
    }
    ASSERT_I64(PLIM_MS(1000), on.b[0].at);
    ASSERT_U64(0, on.b[0].timer.missed);
    ENDS_WELL();
}

TEST a_late_timer_leaves_out_what_it_has_missed_and_counts_it(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    on.b[0].timer.missed = 77;
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 10));
    set_time(&on.w, 35); /* for 10, 20 and 30 */
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT_U64(2, on.b[0].timer.missed); /* since it was started */
    set_time(&on.w, 39);
    ASSERT_INT(0, run_dry(&on.l));
    set_time(&on.w, 40);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(2, rings(&on.b[0]));
    ASSERT_U64(2, on.b[0].timer.missed);
    set_time(&on.w, 60); /* late by exactly a period: for 50 and 60 */
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(3, rings(&on.b[0]));
    ASSERT_U64(3, on.b[0].timer.missed);
    set_time(&on.w, 69);
    ASSERT_INT(0, run_dry(&on.l));
    set_time(&on.w, 1000000);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(4, rings(&on.b[0]));
    ASSERT_U64(3 + (1000000 - 70) / 10, on.b[0].timer.missed);
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 10));
    pass_time(&on.w, 10);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_U64(0, on.b[0].timer.missed); /* counted anew */
    ENDS_WELL();
}

/* The idiom for a pause of fixed length: it is not periodic, and starts itself when it is done. */
static void take_time_and_start_again(bell *b)
{
    pass_time(b->w, b->ns);
    b->error = loop_scheduler_timer_start(b->l, &b->timer, 10, 0);
}

TEST a_timer_started_again_in_its_call_pauses_between_two(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    on.b[0].act = take_time_and_start_again;
    on.b[0].ns = 7;
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 0));
    set_time(&on.w, 35);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_I64(42, tell_time(&on.w)); /* it returned now, so the next is at 52 */
    ASSERT_INT(1, rings(&on.b[0]));
    set_time(&on.w, 51);
    ASSERT_INT(0, run_dry(&on.l));
    set_time(&on.w, 52);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(2, rings(&on.b[0]));
    ASSERT_INT(0, on.b[0].error);
    ENDS_WELL();
}

TEST a_periodic_timer_may_be_cancelled_as_it_fires(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    on.b[0].act = cancel_the_other;
    on.b[0].arg = &on.b[0];
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 10));
    set_time(&on.w, 10);
    run_dry(&on.l);
    ASSERT_INT(0, on.b[0].error);
    ASSERT_STR_EQ("1 x1", story(&on.d));
    set_time(&on.w, 1000);
    ASSERT_INT(0, run_dry(&on.l));
    ASSERT_STR_EQ("1 x1", story(&on.d));
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).timers);
    ENDS_WELL();
}

/* An act: stays until it is let go; what it waits for is a spy's. */
static void ring_and_hold(bell *b)
{
    if (rings(b) == 0) {
        hold(b->arg);
    }
}

TEST a_cancel_tells_whether_a_call_is_under_way(bool anew)
{
    ASSERT(make_and_start(&on.l, 0));
    on.b[0].act = ring_and_hold;
    on.b[0].arg = &on.gate;
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 0, PLIM_S(3600)));
    ASSERT(has_entered(&on.gate));
    if (anew) {
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(3600), 0));
    }
    ASSERT_INT(EBUSY, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ASSERT_INT(ENOENT, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    let_go(&on.gate);
    ASSERT(EVENTUALLY(atomic_load(&on.b[0].cancels) == 1)); /* told all the same */
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(3600), PLIM_S(1)));
    ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer)); /* none is now */
    ASSERT(serves(&on.l));
    ASSERT_STR_EQ("1 x1 x1", story(&on.d));
    ENDS_WELL();
}

TEST memory_that_is_used_again_has_no_call_under_way(void)
{
    ASSERT(make_and_start(&on.l, 0));
    on.b[0].act = ring_and_hold;
    on.b[0].arg = &on.gate;
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 0, 0));
    ASSERT(has_entered(&on.gate)); /* so the timer is ours again */
    loop_scheduler_timer fresh = {.run = run_bell, .arg = &on.b[0]};
    on.b[0].timer = fresh;
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(3600), 0));
    ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    let_go(&on.gate);
    ASSERT(EVENTUALLY(atomic_load(&on.b[0].cancels) == 1));
    ASSERT_INT(1, rings(&on.b[0]));
    ENDS_WELL();
}

/* Nothing fires after a cancel has answered 0. */
typedef struct siren {
    loop_scheduler_timer timer;
    atomic_bool silenced;
    atomic_int late, told;
} siren;

static void wail(loop_scheduler_timer *timer, int status)
{
    siren *s = timer->arg;
    if (status == 0) {
        atomic_fetch_add(&s->late, atomic_load(&s->silenced));
    } else {
        atomic_fetch_add(&s->told, 1);
    }
}

TEST a_periodic_timer_does_not_fire_after_its_cancel_has_said_so(void)
{
    static siren s;
    uint64_t random = 17;
    ASSERT(make_and_start(&on.l, 0));
    int64_t end = plim_now_() + race_ns();
    for (int round = scaled(20000); round > 0 && plim_now_() < end; round--) {
        memset((void *)&s, 0, sizeof s);
        s.timer.run = wail;
        s.timer.arg = &s;
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &s.timer, 0, 1));
        for (uint64_t i = next_random(&random) % 512; i > 0; i--) {
            plim_pause_();
        }
        int error = loop_scheduler_timer_cancel(&on.l, &s.timer);
        atomic_store(&s.silenced, error == 0);
        ASSERT(error == 0 || error == EBUSY);
        int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
        while (atomic_load(&s.told) == 0 && plim_now_() < give_up) {
            plim_thread_yield_();
        }
        ASSERT_INT(1, atomic_load(&s.told));
        ASSERT_INT(0, atomic_load(&s.late));
    }
    ENDS_WELL();
}

static void change_own_period(bell *b)
{
    if (rings(b) == 0) {
        b->error = loop_scheduler_timer_start(b->l, &b->timer, b->ns, b->ns);
    }
}

TEST a_timer_may_be_armed_anew_as_it_fires(int64_t period_ns)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    on.b[0].act = change_own_period;
    on.b[0].ns = 100;
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, period_ns));
    set_time(&on.w, 10);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(0, on.b[0].error);
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).timers);
    set_time(&on.w, 109);
    ASSERT_INT(0, run_dry(&on.l));
    set_time(&on.w, 110);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(2, rings(&on.b[0]));
    set_time(&on.w, 210);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(3, rings(&on.b[0]));
    ASSERT_U64(0, on.b[0].timer.missed);
    ASSERT_INT(0, atomic_load(&on.b[0].cancels));
    ENDS_WELL();
}

TEST a_period_of_nothing_is_once(int64_t period_ns)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, period_ns));
    set_time(&on.w, 1000);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).timers);
    ASSERT_INT(EALREADY, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ENDS_WELL();
}

SUITE(periods_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(a_periodic_timer_keeps_its_phase_however_late);
    RUN_TEST(a_callback_that_takes_time_makes_no_drift);
    RUN_TEST(a_late_timer_leaves_out_what_it_has_missed_and_counts_it);
    RUN_TEST(a_timer_started_again_in_its_call_pauses_between_two);
    RUN_TEST(a_periodic_timer_may_be_cancelled_as_it_fires);
    RUN_TESTp(a_cancel_tells_whether_a_call_is_under_way, false);
    RUN_TESTp(a_cancel_tells_whether_a_call_is_under_way, true);
    RUN_TEST(a_periodic_timer_does_not_fire_after_its_cancel_has_said_so);
    RUN_TEST(memory_that_is_used_again_has_no_call_under_way);
    RUN_TESTp(a_timer_may_be_armed_anew_as_it_fires, 0);
    RUN_TESTp(a_timer_may_be_armed_anew_as_it_fires, 10);
    RUN_TESTp(a_period_of_nothing_is_once, 0);
    RUN_TESTp(a_period_of_nothing_is_once, -1);
    RUN_TESTp(a_period_of_nothing_is_once, INT64_MIN);
}
