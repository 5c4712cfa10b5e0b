/* SPDX-License-Identifier: MIT
 *
 * Calls: functions that run on the loop while their caller waits.
 */

TEST a_call_runs_on_the_loop_and_gives_what_the_function_returned(int answer)
{
    int result = 4711;
    ASSERT(make_and_start(&on.l, 0));
    question_init(&on.q[0], &on.l, answer);
    ASSERT_INT(0, loop_scheduler_call(&on.l, ask, &on.q[0], &result));
    ASSERT_INT(answer, result);
    ASSERT(on.q[0].current);
    ASSERT(on.q[0].thread != this_thread());
    result = 4711;
    ASSERT_INT(0, loop_scheduler_call_for(&on.l, ask, &on.q[0], &result, PLIM_S(PATIENCE_S)));
    ASSERT_INT(answer, result);
    ASSERT_INT(0, loop_scheduler_call(&on.l, ask, &on.q[0], NULL));
    ASSERT_INT(0, loop_scheduler_call_for(&on.l, ask, &on.q[0], NULL, PLIM_FOREVER));
    ASSERT_INT(4, atomic_load(&on.q[0].asked));
    ENDS_WELL();
}

TEST a_call_of_nothing_is_refused(void)
{
    int result = 4711;
    ASSERT(make_and_start(&on.l, 0));
    ASSERT_INT(EINVAL, loop_scheduler_call(&on.l, NULL, NULL, &result));
    ASSERT_INT(EINVAL, loop_scheduler_call_for(&on.l, NULL, NULL, &result, PLIM_MS(1)));
    ASSERT_INT(4711, result);
    ASSERT(serves(&on.l));
    ENDS_WELL();
}

TEST a_closed_loop_takes_no_calls(void)
{
    int result = 4711;
    ASSERT(make_and_start(&on.l, 0));
    question_init(&on.q[0], &on.l, 1);
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_call(&on.l, ask, &on.q[0], &result));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_call_for(&on.l, ask, &on.q[0], &result, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_call_for(&on.l, ask, &on.q[0], &result, 0));
    ASSERT_INT(0, atomic_load(&on.q[0].asked));
    ASSERT_INT(4711, result);
    ENDS_WELL();
}

static void call_inline(spy *s)
{
    question *q = s->arg;
    s->error = loop_scheduler_call(s->l, ask, q, &s->result);
    s->number = atomic_load(&q->asked);
}

static void call_inline_for(spy *s)
{
    question *q = s->arg;
    s->error = loop_scheduler_call_for(s->l, ask, q, &s->result, 0);
    s->number = atomic_load(&q->asked);
}

TEST a_call_on_the_loops_own_thread_runs_at_once(void (*act)(spy *))
{
    ASSERT(make(&on.l, 0));
    question_init(&on.q[0], &on.l, 5);
    on.s[0].act = act;
    on.s[0].arg = &on.q[0];
    on.s[0].number = 0;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(0, on.s[0].error);
    ASSERT_INT(5, on.s[0].result);
    ASSERT_INT(1, on.s[0].number); /* before the call returned */
    ASSERT(on.q[0].current);
    ENDS_WELL();
}

TEST a_call_waits_for_its_turn_and_for_its_end(void)
{
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(occupy(&on.l, &on.gate));
    question_init(&on.q[0], &on.l, 9);
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    on.c[0] = (caller){.l = &on.l, .call = CALL, .fn = ask_and_hold, .arg = &on.q[0]};
    start_call(&on.c[0]);
    ASSERT(waits(&on.c[0]));
    let_go(&on.gate);
    ASSERT_INT(0, csem_acquire_for(&on.q[0].entered, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, runs(&on.s[0])); /* it was posted before */
    ASSERT(waits(&on.c[0]));
    csem_release(&on.q[0].exit);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(9, on.c[0].result);
    ENDS_WELL();
}

TEST a_call_that_does_not_begin_in_time_never_runs(int64_t timeout_ns)
{
    int result = 4711;
    question *q = malloc(sizeof *q);
    ASSERT(q != NULL);
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(occupy(&on.l, &on.gate));
    question_init(q, &on.l, 1);
    for (int i = 0; i < 3; i++) {
        int64_t from = plim_now_();
        ASSERT_INT(ETIMEDOUT, loop_scheduler_call_for(&on.l, ask, q, &result, timeout_ns));
        int64_t took = plim_now_() - from;
        ASSERT(took >= timeout_ns);
        ASSERT(took < PLIM_S(PATIENCE_S));
    }
    ASSERT_INT(0, atomic_load(&q->asked));
    memset((void *)q, 0xa5, sizeof *q);
    free(q);
    let_go(&on.gate);
    ASSERT(serves(&on.l));
    ASSERT_INT(4711, result);
    ASSERT_U64(3, loop_scheduler_snapshot(&on.l).cancelled);
    ENDS_WELL();
}

TEST a_call_that_nobody_can_run_times_out(void)
{
    ASSERT(make(&on.l, 0));
    question_init(&on.q[0], &on.l, 1);
    ASSERT_INT(ETIMEDOUT, loop_scheduler_call_for(&on.l, ask, &on.q[0], NULL, PLIM_MS(1)));
    run_dry(&on.l);
    ASSERT_INT(0, atomic_load(&on.q[0].asked));
    ENDS_WELL();
}

TEST a_call_that_has_begun_is_waited_for(void)
{
    ASSERT(make_and_start(&on.l, 0));
    bool begun = false;
    /* A busy machine may need longer to begin: then once more, with more time. */
    for (int64_t timeout_ns = PLIM_MS(5); !begun; timeout_ns *= 2) {
        ASSERT(timeout_ns < PLIM_S(PATIENCE_S));
        ASSERT(serves(&on.l)); /* it is up and running */
        question_init(&on.q[0], &on.l, 3);
        on.c[0] = (caller){.l = &on.l,
                           .call = CALL_FOR,
                           .fn = ask_and_hold,
                           .arg = &on.q[0],
                           .timeout_ns = timeout_ns};
        start_call(&on.c[0]);
        while (!begun && !atomic_load(&on.c[0].done)) {
            begun = csem_acquire_for(&on.q[0].entered, PLIM_MS(1)) == 0;
        }
        if (begun) {
            rest(timeout_ns + PLIM_MS(2)); /* its time is over, and more */
            ASSERT_FALSE(atomic_load(&on.c[0].done));
        }
        csem_release(&on.q[0].exit);
        ASSERT(finished(&on.c[0]));
        ASSERT_INT(begun ? 0 : ETIMEDOUT, on.c[0].error);
    }
    ASSERT_INT(3, on.c[0].result);
    ENDS_WELL();
}

TEST a_call_may_run_out_of_time_just_as_it_begins(void)
{
    uint64_t random = 3;
    ASSERT(make_and_start(&on.l, 0));
    question_init(&on.q[0], &on.l, 1);
    int called = 0, late = 0;
    int64_t end = plim_now_() + race_ns();
    for (int round = scaled(20000); round > 0 && plim_now_() < end; round--) {
        int result = 0;
        int64_t timeout_ns = (int64_t)(next_random(&random) % 40000);
        int error = loop_scheduler_call_for(&on.l, ask, &on.q[0], &result, timeout_ns);
        ASSERT_INT(error == 0, result);
        ASSERT(error == 0 || error == ETIMEDOUT);
        called += error == 0;
        late += error != 0;
    }
    ASSERT(serves(&on.l));
    ASSERT_INT(called, atomic_load(&on.q[0].asked));
    ASSERT_U64(late, loop_scheduler_snapshot(&on.l).cancelled);
    ENDS_WELL();
}

TEST a_pending_call_ends_when_the_loop_is_closed(int how, bool runs_by_itself)
{
    ASSERT(make(&on.l, 0));
    if (runs_by_itself) {
        ASSERT_INT(0, loop_scheduler_start(&on.l));
        ASSERT(occupy(&on.l, &on.gate));
    }
    for (int i = 0; i < 2; i++) {
        question_init(&on.q[i], &on.l, 8);
        on.c[i] = (caller){.l = &on.l,
                           .call = i == 0 ? CALL : CALL_FOR,
                           .fn = ask,
                           .arg = &on.q[i],
                           .timeout_ns = PLIM_S(PATIENCE_S)};
        start_call(&on.c[i]);
    }
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&on.l).queued == 2));
    start_close(&on.c[2], how);
    if (runs_by_itself) {
        ASSERT(EVENTUALLY(is_closed(&on.l)));
        let_go(&on.gate);
        ASSERT(finished(&on.c[2]));
        ASSERT_INT(0, atomic_load(&on.probe.rings));
    } else {
        ASSERT(finished(&on.c[2]));
    }
    ASSERT_INT(0, on.c[2].error);
    for (int i = 0; i < 2; i++) {
        ASSERT(finished(&on.c[i]));
        ASSERT_INT(how == LOOP_SCHEDULER_DRAIN ? 0 : ECANCELED, on.c[i].error);
        ASSERT_INT(how == LOOP_SCHEDULER_DRAIN, atomic_load(&on.q[i].asked));
        if (how == LOOP_SCHEDULER_DRAIN && !runs_by_itself) {
            ASSERT(on.q[i].thread == on.c[2].self);
        }
    }
    ENDS_WELL();
}

TEST a_call_to_a_stopped_loop_waits_until_it_runs_again(void)
{
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(serves(&on.l));
    loop_scheduler_stop(&on.l);
    ASSERT(EVENTUALLY(loop_scheduler_poll(&on.l) != EBUSY));
    question_init(&on.q[0], &on.l, 4);
    on.c[0] = (caller){.l = &on.l, .call = CALL, .fn = ask, .arg = &on.q[0]};
    start_call(&on.c[0]);
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&on.l).queued == 1));
    ASSERT(waits(&on.c[0]));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(4, on.c[0].result);
    ENDS_WELL();
}

static plim_thread_result call_often(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    wait_for_go(c);
    int last = 0;
    for (int i = 0; i < c->rounds; i++) {
        int result = 0, error = i % 2 == 0 ? loop_scheduler_call(c->l, add_one, c->arg, &result)
                                           : loop_scheduler_call_for(c->l, add_one, c->arg, &result,
                                                                     PLIM_S(PATIENCE_S));
        atomic_fetch_add(error == 0 && result > last ? &c->accepted : &c->odd, 1);
        last = result;
    }
    return 0;
}

TEST calls_from_many_threads_never_overlap_and_none_is_lost(void)
{
    enum { N = 8 };
    member m[N];
    int balance = 0; /* plain: the loop is what protects it */
    ASSERT(make_and_start(&on.l, 0));
    crowd c = {.l = &on.l, .rounds = scaled(4000), .arg = &balance};
    start_crowd(&c, m, N, call_often);
    join_crowd(m, N);
    ASSERT_INT(0, atomic_load(&c.odd));
    ASSERT_INT(N * c.rounds, balance);
    ENDS_WELL();
}

TEST each_of_many_short_lived_loops_answers_its_one_call(void)
{
    for (int i = scaled(256); i > 0; i--) {
        int result = 0;
        ASSERT(make_and_start(&on.l, 0));
        ASSERT_INT(0, loop_scheduler_call(&on.l, give, &i, &result));
        ASSERT_INT(i, result);
        ASSERT_ENDS_WELL(&on.l);
    }
    PASS();
}

SUITE(calls_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TESTp(a_call_runs_on_the_loop_and_gives_what_the_function_returned, 0);
    RUN_TESTp(a_call_runs_on_the_loop_and_gives_what_the_function_returned, -7);
    RUN_TESTp(a_call_runs_on_the_loop_and_gives_what_the_function_returned, EDEADLK);
    RUN_TEST(a_call_of_nothing_is_refused);
    RUN_TEST(a_closed_loop_takes_no_calls);
    RUN_TESTp(a_call_on_the_loops_own_thread_runs_at_once, call_inline);
    RUN_TESTp(a_call_on_the_loops_own_thread_runs_at_once, call_inline_for);
    RUN_TEST(a_call_waits_for_its_turn_and_for_its_end);
    RUN_TESTp(a_call_that_does_not_begin_in_time_never_runs, PLIM_MS(3));
    RUN_TESTp(a_call_that_does_not_begin_in_time_never_runs, 0);
    RUN_TESTp(a_call_that_does_not_begin_in_time_never_runs, -1);
    RUN_TEST(a_call_that_nobody_can_run_times_out);
    RUN_TEST(a_call_that_has_begun_is_waited_for);
    RUN_TEST(a_call_may_run_out_of_time_just_as_it_begins);
    RUN_TESTp(a_pending_call_ends_when_the_loop_is_closed, LOOP_SCHEDULER_DRAIN, false);
    RUN_TESTp(a_pending_call_ends_when_the_loop_is_closed, LOOP_SCHEDULER_DRAIN, true);
    RUN_TESTp(a_pending_call_ends_when_the_loop_is_closed, LOOP_SCHEDULER_NOW, false);
    RUN_TESTp(a_pending_call_ends_when_the_loop_is_closed, LOOP_SCHEDULER_NOW, true);
    RUN_TEST(a_call_to_a_stopped_loop_waits_until_it_runs_again);
    RUN_TEST(calls_from_many_threads_never_overlap_and_none_is_lost);
    RUN_TEST(each_of_many_short_lived_loops_answers_its_one_call);
}
