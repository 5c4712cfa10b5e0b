/* SPDX-License-Identifier: MIT
 *
 * Signals that interrupt waits, and handlers that post and stop.
 */

static void on_alarm(int signal)
{
    (void)signal;
    atomic_fetch_add(&alarms, 1);
}

TEST signals_end_no_wait(void)
{
    loop_scheduler_options options = {.max_queue = 1};
    int unused;
    ASSERT_INT(0, make(&options));
    atomic_store(&alarms, 0);
    set_alarm(on_alarm, 200);
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&on.l, PLIM_MS(3)));
    ASSERT(plim_now_() - from >= PLIM_MS(3));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.timer, PLIM_MS(3), 0));
    ASSERT_INT(0, loop_scheduler_run_once(&on.l, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, atomic_load(&on.fired));
    ASSERT(plim_now_() - from >= PLIM_MS(6));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.tasks[0]));
    ASSERT_INT(ETIMEDOUT, loop_scheduler_post_for(&on.l, &on.tasks[1], PLIM_MS(3)));
    ASSERT(plim_now_() - from >= PLIM_MS(9));
    ASSERT_INT(ETIMEDOUT,
               loop_scheduler_call_for(&on.l, count_call, &on.called, &unused, PLIM_MS(3)));
    ASSERT(plim_now_() - from >= PLIM_MS(12));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    for (int i = 0; i < 2000; i++) {
        ASSERT_INT(0, loop_scheduler_call(&on.l, count_call, &on.called, &unused));
        ASSERT_INT(i, unused);
    }
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    clear_alarm();
    ASSERT_INT(1, atomic_load(&on.ran));
    ASSERT(atomic_load(&alarms) > 0);
    ASSERT_INT(0, unmake());
    PASS();
}

TEST a_handler_may_post_whatever_it_interrupts(uint32_t limit)
{
    if (!HANDLERS_MAY_POST) {
        SKIPm("not with PLIM_PARK_CND");
    }
    enum { N = 16 };
    loop_scheduler_options options = {.max_queue = limit};
    int accepted = 0, wrong = 0, rounds = scaled(200000);
    ASSERT_INT(0, make(&options));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    flares_init(&on.l, 0);
    set_alarm(on_alarm_post, 100);
    int64_t end = plim_now_() + race_ns();
    for (int i = 0; i < rounds && plim_now_() < end; i++) {
        loop_scheduler_task *task = &on.tasks[i % N];
        int error = loop_scheduler_post(&on.l, task);
        accepted += error == 0;
        wrong += error != 0 && error != EALREADY && error != EAGAIN;
        switch (i % 64) {
        case 0:
            wrong += loop_scheduler_call(&on.l, count_call, &on.called, NULL) != 0;
            break;
        case 8:
            wrong += loop_scheduler_timer_start(&on.l, &on.timer, PLIM_US(20), 0) != 0;
            break;
        case 16:
            loop_scheduler_timer_cancel(&on.l, &on.timer);
            break;
        case 24:
            loop_scheduler_snapshot(&on.l);
            break;
        case 32:
            loop_scheduler_cancel(&on.l, task);
            break;
        default:
            break;
        }
    }
    clear_alarm();
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, wrong);
    ASSERT_INT(0, atomic_load(&flares.odd));
    ASSERT(atomic_load(&flares.accepted) > 0);
    ASSERT_INT(atomic_load(&flares.accepted), atomic_load(&flares.ran));
    ASSERT_INT(accepted, atomic_load(&on.ran));
    ASSERT_FALSE(atomic_load(&flares.changed_errno));
    ENDS_WELL();
}

/* The handler runs on the thread that runs the loop, between two of its steps. */
TEST a_handler_may_post_and_stop_on_the_thread_that_runs_the_loop(bool busy)
{
    if (!HANDLERS_MAY_POST) {
        SKIPm("not with PLIM_PARK_CND");
    }
    static again a;
    int stops = 0;
    ASSERT_INT(0, make(NULL));
    memset((void *)&a, 0, sizeof a);
    a.task.run = post_again;
    a.task.arg = &a;
    a.timer.run = count_timer;
    a.timer.arg = &a.fired;
    a.l = &on.l;
    a.left = busy ? 1 << 30 : 0;
    int64_t end = plim_now_() + race_ns();
    ASSERT_INT(0, loop_scheduler_post(&on.l, &a.task));
    for (; stops < scaled(400) && plim_now_() < end; stops++) {
        flares_init(&on.l, 3);
        set_alarm(on_alarm_post, often_us(100));
        int error = loop_scheduler_run(&on.l);
        clear_alarm();
        ASSERT_INT(0, error);
        /* What is left runs; and a stop that came late ends the next one. */
        int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
        while (atomic_load(&flares.ran) < atomic_load(&flares.accepted) && plim_now_() < give_up) {
            loop_scheduler_run_once(&on.l, 0);
        }
        ASSERT_INT(atomic_load(&flares.accepted), atomic_load(&flares.ran));
        ASSERT_INT(0, atomic_load(&flares.odd));
        ASSERT_FALSE(atomic_load(&flares.changed_errno));
    }
    ASSERT(stops > 0);
    a.left = 0;
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, a.wrong);
    ASSERT(!busy || a.runs > stops);
    ENDS_WELL();
}

static atomic_bool rung;
static loop_scheduler *to_be_stopped;

static void on_alarm_stop(int signal)
{
    (void)signal;
    atomic_store(&rung, true);
    loop_scheduler_stop(to_be_stopped);
}

TEST a_handler_may_stop_a_loop_that_sleeps(void)
{
    if (!HANDLERS_MAY_POST) {
        SKIPm("not with PLIM_PARK_CND");
    }
    ASSERT_INT(0, make(NULL));
    to_be_stopped = &on.l;
    atomic_store(&rung, false);
    set_alarm(on_alarm_stop, 2000);
    int error = loop_scheduler_run_once(&on.l, PLIM_S(PATIENCE_S));
    clear_alarm();
    ASSERT_INT(ETIMEDOUT, error);
    ASSERT(atomic_load(&rung));
    ENDS_WELL();
}

SUITE(signals_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(signals_end_no_wait);
    RUN_TESTp(a_handler_may_post_whatever_it_interrupts, 0);
    RUN_TESTp(a_handler_may_post_whatever_it_interrupts, 4);
    RUN_TESTp(a_handler_may_post_and_stop_on_the_thread_that_runs_the_loop, false);
    RUN_TESTp(a_handler_may_post_and_stop_on_the_thread_that_runs_the_loop, true);
    RUN_TEST(a_handler_may_stop_a_loop_that_sleeps);
}
