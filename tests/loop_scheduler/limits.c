/* SPDX-License-Identifier: MIT
 *
 * A queue with a limit: refusals, and waiting for room.
 */

TEST as_many_as_fit_are_accepted_and_no_more(uint32_t limit)
{
    enum { MOST = 51 };
    static spy s[MOST];
    ASSERT(make(&on.l, limit));
    spies_init(s, MOST, &on.l, NULL);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < limit; i++) {
            ASSERT_INT(0, loop_scheduler_post(&on.l, &s[i].task));
        }
        ASSERT_INT(EAGAIN, loop_scheduler_post(&on.l, &s[limit].task));
        ASSERT_INT(limit, loop_scheduler_snapshot(&on.l).queued);
        ASSERT_U64(round + 1, loop_scheduler_snapshot(&on.l).rejected);
        ASSERT_INT(1, run_dry(&on.l));
        ASSERT_INT(round + 1, runs(&s[0]));
    }
    ASSERT_INT(0, runs(&s[limit]));
    ENDS_WELL();
}

TEST the_task_that_runs_takes_no_place(void)
{
    ASSERT(make_and_start(&on.l, 2));
    for (int i = 0; i < 4; i++) {
        on.s[i].act = hold;
    }
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT(has_entered(&on.s[0]));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[2].task));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&on.l, &on.s[3].task));
    let_go(&on.s[0]);
    ASSERT(has_entered(&on.s[1]));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[3].task));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&on.l, &on.s[0].task));
    for (int i = 1; i < 4; i++) {
        let_go(&on.s[i]);
    }
    ASSERT(EVENTUALLY(runs(&on.s[3]) == 1));
    ENDS_WELL();
}

static plim_thread_result post_once(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    spy *s = c->arg;
    wait_for_go(c);
    int error = loop_scheduler_post(c->l, &s[m->number].task);
    atomic_fetch_add(error == 0 ? &c->accepted : error == EAGAIN ? &c->refused : &c->odd, 1);
    return 0;
}

TEST the_limit_is_exact_from_many_threads(void)
{
    enum { N = 16, LIMIT = 5 };
    member m[N];
    static spy s[N];
    for (int round = scaled(100); round > 0; round--) {
        ASSERT(make(&on.l, LIMIT));
        spies_init(s, N, &on.l, NULL);
        crowd c = {.l = &on.l, .arg = s};
        start_crowd(&c, m, N, post_once);
        join_crowd(m, N);
        ASSERT_INT(LIMIT, atomic_load(&c.accepted));
        ASSERT_INT(N - LIMIT, atomic_load(&c.refused));
        ASSERT_INT(LIMIT, loop_scheduler_snapshot(&on.l).queued);
        ASSERT_ENDS_WELL(&on.l);
    }
    PASS();
}

static void fill_the_own_queue(spy *s)
{
    spy *others = s->arg;
    s->error = loop_scheduler_post(s->l, &others[0].task);
    s->result = loop_scheduler_post(s->l, &others[1].task);
}

TEST a_task_is_refused_by_its_own_full_queue(void)
{
    ASSERT(make(&on.l, 1));
    on.s[0].act = fill_the_own_queue;
    on.s[0].arg = &on.s[1];
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(2, run_dry(&on.l));
    ASSERT_INT(0, on.s[0].error);
    ASSERT_INT(EAGAIN, on.s[0].result);
    ASSERT_INT(1, runs(&on.s[1]));
    ASSERT_INT(0, runs(&on.s[2]));
    ENDS_WELL();
}

static void end_at_once(loop_scheduler_coroutine *co)
{
    ++*(int *)co->arg;
    LOOP_BEGIN(co);
    LOOP_END(co);
}

static void count_then(loop_scheduler_work *work, int status)
{
    *(int *)work->arg += status == 0 ? 10 : 1000;
}

TEST a_full_queue_refuses_posts_and_nothing_else(void)
{
    static int number, begun, called;
    static loop_scheduler_work work;
    static loop_scheduler_coroutine co;
    number = begun = called = 0;
    work = (loop_scheduler_work){.work = add_one, .then = count_then, .arg = &number};
    co = (loop_scheduler_coroutine){.run = end_at_once, .arg = &begun};
    ASSERT(make(&on.l, 1));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&on.l, &on.s[1].task));
    ASSERT_INT(0, loop_scheduler_offload(&on.l, &on_the_spot, &work));
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &co));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 0, 0));
    on.c[0] = (caller){.l = &on.l, .call = CALL, .fn = add_one, .arg = &called};
    start_call(&on.c[0]);
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&on.l).queued >= 4));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&on.l, &on.s[1].task));
    run_dry(&on.l);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(1, on.c[0].result);
    ASSERT_INT(11, number);
    ASSERT_INT(1, begun);
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
    ENDS_WELL();
}

TEST post_for_does_not_wait_where_there_is_room(void)
{
    for (uint32_t limit = 0; limit < 4; limit += 3) {
        ASSERT(make(&on.l, limit));
        spies_init(on.s, 3, &on.l, NULL);
        ASSERT_INT(0, loop_scheduler_post_for(&on.l, &on.s[0].task, 0));
        ASSERT_INT(0, loop_scheduler_post_for(&on.l, &on.s[1].task, INT64_MIN));
        ASSERT_INT(0, loop_scheduler_post_for(&on.l, &on.s[2].task, PLIM_FOREVER));
        ASSERT_INT(1, run_dry(&on.l));
        ASSERT_INT(1, runs(&on.s[2]));
        ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)));
        ASSERT_INT(ESHUTDOWN, loop_scheduler_post_for(&on.l, &on.s[0].task, PLIM_FOREVER));
        ASSERT_ENDS_WELL(&on.l);
    }
    PASS();
}

TEST post_for_gives_up_in_time_and_leaves_nothing(int64_t timeout_ns)
{
    ASSERT(make(&on.l, 1));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_post_for(&on.l, &on.s[1].task, timeout_ns));
    int64_t took = plim_now_() - from;
    ASSERT(took >= timeout_ns);
    ASSERT(took < PLIM_S(PATIENCE_S));
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).queued);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(0, runs(&on.s[1]));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task)); /* it is ours */
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, runs(&on.s[1]));
    ENDS_WELL();
}

TEST post_for_gets_the_place_that_becomes_free(void)
{
    ASSERT(make(&on.l, 1));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    on.c[0] = (caller){
        .l = &on.l, .call = POST_FOR, .task = &on.s[1].task, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(&on.c[0]);
    ASSERT(waits(&on.c[0]));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, runs(&on.s[1]));
    ENDS_WELL();
}

static void say_so(spy *s)
{
    csem_release(&s->entered);
}

static plim_thread_result post_for_often(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    spy s;
    spies_init(&s, 1, c->l, NULL);
    s.act = say_so;
    wait_for_go(c);
    int accepted = 0;
    for (int i = 0; i < c->rounds && plim_now_() < c->end; i++) {
        int error = loop_scheduler_post_for(c->l, &s.task, PLIM_S(PATIENCE_S));
        accepted += error == 0;
        error = error != 0 ? error : csem_acquire_for(&s.entered, PLIM_S(PATIENCE_S));
        atomic_fetch_add(error == 0 ? &c->accepted : &c->odd, 1);
    }
    while (runs(&s) < accepted) { /* it is on this stack */
        plim_thread_yield_();
    }
    return 0;
}

TEST all_who_wait_for_a_place_get_one(uint32_t limit)
{
    enum { N = 8 };
    member m[N];
    ASSERT(make_and_start(&on.l, limit));
    crowd c = {.l = &on.l, .rounds = scaled(2000), .end = plim_now_() + race_ns()};
    start_crowd(&c, m, N, post_for_often);
    join_crowd(m, N);
    ASSERT_INT(0, atomic_load(&c.odd));
    ASSERT_U64(atomic_load(&c.accepted), loop_scheduler_snapshot(&on.l).ran);
    ASSERT(loop_scheduler_snapshot(&on.l).peak_queued <= limit);
    ENDS_WELL();
}

TEST close_sends_away_who_waits_for_a_place(int how)
{
    ASSERT(make_and_start(&on.l, 1));
    ASSERT(occupy(&on.l, &on.gate));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    for (int i = 0; i < 2; i++) {
        on.c[i] = (caller){.l = &on.l,
                           .call = POST_FOR,
                           .task = &on.s[i + 1].task,
                           .timeout_ns = PLIM_S(PATIENCE_S)};
        start_call(&on.c[i]);
    }
    ASSERT(waits(&on.c[0]));
    start_close(&on.c[2], how);
    for (int i = 0; i < 2; i++) { /* even while the loop is busy */
        ASSERT(finished(&on.c[i]));
        ASSERT_INT(ESHUTDOWN, on.c[i].error);
    }
    let_go(&on.gate);
    ASSERT(finished(&on.c[2]));
    ASSERT_INT(0, on.c[2].error);
    ASSERT_INT(how == LOOP_SCHEDULER_DRAIN, runs(&on.s[0]));
    ASSERT_INT(how == LOOP_SCHEDULER_NOW, cancels(&on.s[0]));
    ASSERT_INT(0, runs(&on.s[1]) + cancels(&on.s[1]) + runs(&on.s[2]) + cancels(&on.s[2]));
    ENDS_WELL();
}

SUITE(limits_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TESTp(as_many_as_fit_are_accepted_and_no_more, 1);
    RUN_TESTp(as_many_as_fit_are_accepted_and_no_more, 50);
    RUN_TEST(the_task_that_runs_takes_no_place);
    RUN_TEST(the_limit_is_exact_from_many_threads);
    RUN_TEST(a_task_is_refused_by_its_own_full_queue);
    RUN_TEST(a_full_queue_refuses_posts_and_nothing_else);
    RUN_TEST(post_for_does_not_wait_where_there_is_room);
    RUN_TESTp(post_for_gives_up_in_time_and_leaves_nothing, PLIM_MS(3));
    RUN_TESTp(post_for_gives_up_in_time_and_leaves_nothing, 1);
    RUN_TESTp(post_for_gives_up_in_time_and_leaves_nothing, 0);
    RUN_TESTp(post_for_gives_up_in_time_and_leaves_nothing, INT64_MIN);
    RUN_TEST(post_for_gets_the_place_that_becomes_free);
    RUN_TESTp(all_who_wait_for_a_place_get_one, 1);
    RUN_TESTp(all_who_wait_for_a_place_get_one, 3);
    RUN_TESTp(close_sends_away_who_waits_for_a_place, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(close_sends_away_who_waits_for_a_place, LOOP_SCHEDULER_NOW);
}
