/* SPDX-License-Identifier: MIT
 *
 * Threads that run a loop: its own, others, one at a time, and until they are stopped.
 */

TEST stop_ends_run_after_the_current_task_and_the_rest_stays(void)
{
    ASSERT(make(&on.l, 0));
    on.s[1].act = on.s[3].act = stop_own_loop;
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_run(&on.l));
    ASSERT_STR_EQ("1 2", story(&on.d));
    ASSERT_INT(2, loop_scheduler_snapshot(&on.l).queued);
    ASSERT_INT(0, loop_scheduler_run(&on.l));
    ASSERT_STR_EQ("1 2 3 4", story(&on.d));
    ENDS_WELL();
}

TEST a_stop_before_ends_the_next_run_at_once(int stops)
{
    ASSERT(make(&on.l, 0));
    on.s[1].act = stop_own_loop;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
    for (int i = 0; i < stops; i++) {
        loop_scheduler_stop(&on.l);
    }
    ASSERT_INT(0, loop_scheduler_run(&on.l));
    ASSERT_INT(0, runs(&on.s[0]));
    loop_scheduler_stop(&on.l);
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&on.l, PLIM_FOREVER));
    ASSERT_INT(0, runs(&on.s[0]));
    ASSERT_INT(2, loop_scheduler_snapshot(&on.l).queued);
    ASSERT_INT(0, loop_scheduler_run(&on.l)); /* that was it: this one runs them */
    ASSERT_INT(1, runs(&on.s[0]));
    ASSERT_INT(1, runs(&on.s[1]));
    ENDS_WELL();
}

TEST stop_ends_a_sleep(int call_kind, int expected)
{
    ASSERT(make(&on.l, 0));
    for (int i = 0; i < 20; i++) {
        caller c = {.l = &on.l, .call = call_kind, .timeout_ns = PLIM_FOREVER};
        start_call(&c);
        rest(PLIM_US(50 * i)); /* before its sleep, and in it */
        loop_scheduler_stop(&on.l);
        ASSERT(finished(&c));
        ASSERT_INT(expected, c.error);
    }
    ENDS_WELL();
}

TEST a_loop_may_be_started_and_stopped_again_and_again(void)
{
    ASSERT(make(&on.l, 0));
    for (int i = 1; i <= 16; i++) {
        spies_init(&on.s[0], 1, &on.l, NULL);
        if (i % 2 == 0) {
            ASSERT_INT(
                0, loop_scheduler_post(&on.l, &on.s[0].task)); /* kept, or run by the one before */
        }
        ASSERT_INT(0,
                   loop_scheduler_start(&on.l)); /* waits for the one before, and is not stopped */
        if (i % 2 == 1) {
            ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
        }
        ASSERT(EVENTUALLY(runs(&on.s[0]) == 1));
        ASSERT(on.s[0].thread != this_thread());
        loop_scheduler_stop(&on.l);
    }
    ASSERT_INT(0, unmake(&on.l)); /* waits likewise */
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

static void start_again_inside(spy *s)
{
    s->error = loop_scheduler_start(s->l);
}

TEST only_one_thread_may_run_a_loop(bool own_thread)
{
    ASSERT(make(&on.l, 0));
    on.c[0] = (caller){.l = &on.l, .call = RUN};
    if (own_thread) {
        ASSERT_INT(0, loop_scheduler_start(&on.l));
    } else {
        start_call(&on.c[0]);
    }
    ASSERT(occupy(&on.l, &on.gate));
    for (int i = 0; i < 2; i++) { /* while a task runs, and then while it sleeps */
        ASSERT_INT(EBUSY, loop_scheduler_run(&on.l));
        ASSERT_INT(EBUSY, loop_scheduler_run_once(&on.l, 0));
        ASSERT_INT(EBUSY, loop_scheduler_poll(&on.l));
        ASSERT_INT(EBUSY, loop_scheduler_start(&on.l));
        ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
        let_go(&on.gate);
        ASSERT(EVENTUALLY(runs(&on.gate) == 1));
    }
    on.s[0].act = start_again_inside;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT(EVENTUALLY(runs(&on.s[0]) == 1));
    ASSERT_INT(EBUSY, on.s[0].error);
    ASSERT(serves(&on.l)); /* unharmed */
    ASSERT_ENDS_WELL(&on.l);
    if (!own_thread) {
        ASSERT(finished(&on.c[0]));
        ASSERT_INT(0, on.c[0].error); /* closed */
    }
    PASS();
}

TEST a_closed_loop_does_not_run_any_more(void)
{
    ASSERT(make(&on.l, 0));
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_run(&on.l));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_run_once(&on.l, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_poll(&on.l));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_start(&on.l));
    ASSERT_INT(0, unmake(&on.l));
    PASS();
}

TEST a_runner_returns_when_the_loop_is_closed(void)
{
    ASSERT(make(&on.l, 0));
    on.c[0] = (caller){.l = &on.l, .call = RUN};
    start_call(&on.c[0]);
    ASSERT(occupy(&on.l, &on.gate));
    let_go(&on.gate);
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(1, runs(&on.gate));
    ENDS_WELL();
}

TEST run_once_waits_for_one_turn(void)
{
    ASSERT(make(&on.l, 0));
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&on.l, 0));
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&on.l, INT64_MIN));
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&on.l, PLIM_MS(3)));
    ASSERT(plim_now_() - from >= PLIM_MS(3));
    on.s[0].act = post_another;
    on.s[0].arg = &on.s[1];
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_run_once(&on.l, PLIM_FOREVER));
    ASSERT_INT(1, runs(&on.s[0]));
    ASSERT_INT(0, runs(&on.s[1]));
    ASSERT_INT(0, loop_scheduler_run_once(&on.l, 0));
    ASSERT_INT(1, runs(&on.s[1]));
    from = plim_now_();
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_MS(2), 0));
    ASSERT_INT(0, loop_scheduler_run_once(&on.l, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT(on.b[0].at - from >= PLIM_MS(2));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(3600), 0));
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&on.l, PLIM_MS(2)));
    ASSERT_INT(1, rings(&on.b[0]));
    ENDS_WELL();
}

TEST run_once_ends_its_wait_when_somebody_posts(void)
{
    ASSERT(make(&on.l, 0));
    for (int i = 1; i <= 20; i++) {
        caller c = {.l = &on.l, .call = RUN_ONCE, .timeout_ns = PLIM_S(PATIENCE_S)};
        start_call(&c);
        rest(PLIM_US(50 * i)); /* before its sleep, and in it */
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
        ASSERT(finished(&c));
        ASSERT_INT(0, c.error);
        ASSERT_INT(i, runs(&on.s[0]));
        ASSERT(on.s[0].thread == c.self);
    }
    ENDS_WELL();
}

TEST poll_never_waits_and_next_timeout_says_for_how_long_one_may(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    ASSERT_I64(PLIM_FOREVER, loop_scheduler_next_timeout(&on.l));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_I64(0, loop_scheduler_next_timeout(&on.l));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_I64(PLIM_FOREVER, loop_scheduler_next_timeout(&on.l));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_MS(100), 0));
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    ASSERT_INT(0, rings(&on.b[0]));
    int turns = 0;
    for (; rings(&on.b[0]) == 0; turns++) { /* whoever sleeps for so long comes in time */
        int64_t sleep = loop_scheduler_next_timeout(&on.l);
        ASSERT(sleep > 0);
        ASSERT(tell_time(&on.w) + sleep <= PLIM_MS(100));
        ASSERT(turns < 100);
        pass_time(&on.w, sleep);
        if (tell_time(&on.w) == PLIM_MS(100)) {
            ASSERT_I64(0, loop_scheduler_next_timeout(&on.l));
        }
        ASSERT_INT(tell_time(&on.w) == PLIM_MS(100) ? 0 : EAGAIN, loop_scheduler_poll(&on.l));
    }
    ASSERT_I64(PLIM_MS(100), tell_time(&on.w));
    ASSERT_I64(PLIM_FOREVER, loop_scheduler_next_timeout(&on.l));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 7, 0));
    run_dry(&on.l);
    ASSERT_I64(7, loop_scheduler_next_timeout(&on.l));
    ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ASSERT_I64(0, loop_scheduler_next_timeout(&on.l)); /* it is to be told */
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_I64(PLIM_FOREVER, loop_scheduler_next_timeout(&on.l));
    ENDS_WELL();
}

static void look_at_the_other(spy *s)
{
    s->result = loop_scheduler_is_current(s->arg);
}

TEST is_current_is_true_in_the_tasks_of_this_loop_only(void)
{
    static loop_scheduler b;
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(make(&b, 0));
    ASSERT_FALSE(loop_scheduler_is_current(&on.l));
    ASSERT_FALSE(loop_scheduler_is_current(&b));
    on.s[0].act = look_at_the_other;
    on.s[0].arg = &b;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT(EVENTUALLY(runs(&on.s[0]) == 1));
    ASSERT(on.s[0].current);
    ASSERT_FALSE(on.s[0].result);
    question_init(&on.q[0], &on.l, 0);
    ASSERT_INT(0, loop_scheduler_call(&on.l, ask, &on.q[0], NULL));
    ASSERT(on.q[0].current);
    on.b[0].l = &b;
    ASSERT_INT(0, loop_scheduler_timer_start(&b, &on.b[0].timer, 0, 0));
    ASSERT_INT(0, loop_scheduler_poll(&b));
    ASSERT(on.b[0].current);
    ASSERT_FALSE(loop_scheduler_is_current(&b)); /* no longer */
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_ENDS_WELL(&b);
    ASSERT_FALSE(loop_scheduler_is_current(&on.l));
    PASS();
}

static void end_own_thread(spy *s)
{
    csem_release(&s->entered);
    end_the_thread(NULL);
}

TEST a_loop_whose_thread_a_task_ends_is_one_that_nobody_runs(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIP();
    }
    static spy after;
    ASSERT(make_and_start(&on.l, 0));
    spies_init(&after, 1, &on.l, NULL);
    on.s[0].act = end_own_thread;
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(3600), 0));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &after.task));
    ASSERT(has_entered(&on.s[0]));
    ASSERT(EVENTUALLY(loop_scheduler_poll(&on.l) != EBUSY));
    run_dry(&on.l);
    ASSERT_INT(1, runs(&after));
    ASSERT(after.thread == this_thread());
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    ASSERT(serves(&on.l));
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, atomic_load(&on.b[0].cancels));
    ASSERT_INT(0, unmake(&on.l));
    PASS();
}

/* Threads that all want to run the loop, and to stop it. */
enum { RIVALS = 4 };

typedef struct scramble {
    loop_scheduler l;
    int inside, overlaps; /* on the loop */
    atomic_int accepted, ran, odd;
} scramble;

static void be_alone(loop_scheduler_task *task, int status)
{
    scramble *s = task->arg;
    s->overlaps += s->inside++ != 0 || status != 0;
    plim_pause_();
    s->inside--;
    atomic_fetch_add(&s->ran, 1);
}

static plim_thread_result run_and_stop(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    scramble *s = c->arg;
    uint64_t random = (uint64_t)m->number + 41;
    loop_scheduler_task tasks[4];
    memset((void *)tasks, 0, sizeof tasks);
    for (int i = 0; i < 4; i++) {
        tasks[i].run = be_alone;
        tasks[i].arg = s;
    }
    wait_for_go(c);
    for (int i = 0; i < c->rounds; i++) {
        int error = loop_scheduler_post(&s->l, &tasks[i % 4]);
        atomic_fetch_add(error == 0 ? &s->accepted : &s->odd, error == 0 || error != EALREADY);
        switch (next_random(&random) % 8) {
        case 0:
            error = loop_scheduler_run_once(&s->l, PLIM_US(50));
            break;
        case 2:
            error = loop_scheduler_start(&s->l);
            break;
        case 3:
        case 4:
            loop_scheduler_stop(&s->l);
            error = 0;
            break;
        default:
            error = loop_scheduler_poll(&s->l);
        }
        atomic_fetch_add(&s->odd,
                         error != 0 && error != EBUSY && error != EAGAIN && error != ETIMEDOUT);
        dawdle(next_random(&random));
    }
    atomic_fetch_add(&c->line.ready, 1); /* once more: done */
    while (!atomic_load(&c->leave)) {    /* the tasks are on this stack */
        plim_thread_yield_();
    }
    return 0;
}

TEST however_many_want_to_run_it_one_does_at_a_time(void)
{
    static scramble s;
    member m[RIVALS];
    int64_t end = plim_now_() + race_ns();
    for (int round = scaled(40); round > 0 && plim_now_() < end; round--) {
        memset((void *)&s, 0, sizeof s);
        ASSERT(make(&s.l, 0));
        crowd c = {.arg = &s, .rounds = 100};
        start_crowd(&c, m, RIVALS, run_and_stop);
        bool over = EVENTUALLY(atomic_load(&c.line.ready) == 2 * RIVALS);
        int error = loop_scheduler_close(&s.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S));
        loop_scheduler_stats f = loop_scheduler_snapshot(&s.l);
        atomic_store(&c.leave, true);
        join_crowd(m, RIVALS);
        ASSERT(over);
        ASSERT_INT(0, error);
        ASSERT_INT(0, atomic_load(&s.odd));
        ASSERT_INT(0, s.overlaps);
        ASSERT_INT(atomic_load(&s.accepted), atomic_load(&s.ran));
        ASSERT_U64(atomic_load(&s.accepted), f.ran);
        ASSERT_INT(0, unmake(&s.l));
    }
    PASS();
}

SUITE(running_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(stop_ends_run_after_the_current_task_and_the_rest_stays);
    RUN_TESTp(a_stop_before_ends_the_next_run_at_once, 1);
    RUN_TESTp(a_stop_before_ends_the_next_run_at_once, 3);
    RUN_TESTp(stop_ends_a_sleep, RUN, 0);
    RUN_TESTp(stop_ends_a_sleep, RUN_ONCE, ETIMEDOUT);
    RUN_TEST(a_loop_may_be_started_and_stopped_again_and_again);
    RUN_TESTp(only_one_thread_may_run_a_loop, false);
    RUN_TESTp(only_one_thread_may_run_a_loop, true);
    RUN_TEST(a_closed_loop_does_not_run_any_more);
    RUN_TEST(a_runner_returns_when_the_loop_is_closed);
    RUN_TEST(run_once_waits_for_one_turn);
    RUN_TEST(run_once_ends_its_wait_when_somebody_posts);
    RUN_TEST(poll_never_waits_and_next_timeout_says_for_how_long_one_may);
    RUN_TEST(is_current_is_true_in_the_tasks_of_this_loop_only);
    RUN_TEST(a_loop_whose_thread_a_task_ends_is_one_that_nobody_runs);
    RUN_TEST(however_many_want_to_run_it_one_does_at_a_time);
}
