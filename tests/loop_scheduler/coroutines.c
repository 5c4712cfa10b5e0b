/* SPDX-License-Identifier: MIT
 *
 * Coroutines: events, sleeps, turns, work elsewhere, begin and end.
 */

TEST a_coroutine_waits_for_an_event(void)
{
    ASSERT(make(&on.l, 0));
    actors_init(&on.a[0], 1, &on.l, &on.d, play_await);
    on.a[0].event = &on.e[0];
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT_INT(0, atomic_load(&on.d.count)); /* not inside of spawn */
    ASSERT_INT(EALREADY, loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("11", story(&on.d));
    ASSERT(on.a[0].current);
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).suspended);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    ASSERT_INT(EALREADY, loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT_FALSE(loop_scheduler_event_is_set(&on.e[0]));
    loop_scheduler_event_set(&on.e[0]);
    ASSERT(loop_scheduler_event_is_set(&on.e[0]));
    ASSERT_STR_EQ("11", story(&on.d)); /* not inside of set */
    ASSERT_INT(EALREADY, loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("11 12 19", story(&on.d));
    ASSERT_INT(0, on.a[0].status);
    ASSERT_INT(1, atomic_load(&on.a[0].dones));
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).suspended);
    on.a[0].step = 0;
    ASSERT_INT(
        0, loop_scheduler_spawn(&on.l, &on.a[0].co)); /* from its beginning; the event is set yet */
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("11 12 19 11 12 19", story(&on.d));
    ENDS_WELL();
}

TEST an_event_stays_set_until_it_is_reset(void)
{
    ASSERT(make(&on.l, 0));
    actors_init(on.a, 3, &on.l, &on.d, play_await);
    for (int i = 0; i < 3; i++) {
        on.a[i].event = &on.e[0];
    }
    loop_scheduler_event_reset(&on.e[0]);
    loop_scheduler_event_set(&on.e[0]);
    loop_scheduler_event_set(&on.e[0]);
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("11 12 19", story(&on.d)); /* without a wait */
    loop_scheduler_event_reset(&on.e[0]);
    ASSERT_FALSE(loop_scheduler_event_is_set(&on.e[0]));
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[1].co));
    run_dry(&on.l);
    ASSERT_STR_EQ("11 12 19 21", story(&on.d));
    loop_scheduler_event_set(&on.e[0]);
    loop_scheduler_event_reset(&on.e[0]); /* who was let go, goes on */
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[2].co));
    run_dry(&on.l);
    ASSERT_STR_EQ("11 12 19 21 22 29 31", story(&on.d));
    ASSERT_FALSE(loop_scheduler_event_is_set(&on.e[0]));
    loop_scheduler_event_set(&on.e[0]);
    run_dry(&on.l);
    ASSERT_STR_EQ("11 12 19 21 22 29 31 32 39", story(&on.d));
    ENDS_WELL();
}

static void set_event_in_a_task(spy *s)
{
    loop_scheduler_event_set(s->arg);
    enter(s->d, 2, 0);
}

TEST who_awaits_an_event_goes_on_after_the_task_that_sets_it(void)
{
    ASSERT(make(&on.l, 0));
    actors_init(on.a, 3, &on.l, &on.d, play_await);
    for (int i = 0; i < 3; i++) {
        on.a[i].event = &on.e[0];
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[i].co));
    }
    run_dry(&on.l);
    on.s[0].act = set_event_in_a_task;
    on.s[0].arg = &on.e[0];
    on.s[1].number = 3;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("11 21 31 1 2 3", story(&on.d));
    ASSERT_INT(3, loop_scheduler_snapshot(&on.l).queued); /* each in a task of its own */
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("11 21 31 1 2 3 12 19 22 29 32 39", story(&on.d)); /* in the order they came */
    ENDS_WELL();
}

TEST awaiting_may_take_too_long(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    actors_init(&on.a[0], 1, &on.l, &on.d, play_await_for);
    on.a[0].event = &on.e[0];
    on.a[0].next = &on.e[1];
    on.a[0].ns = 1000;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    run_dry(&on.l);
    set_time(&on.w, 999);
    ASSERT_INT(0, run_dry(&on.l));
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).suspended);
    set_time(&on.w, 1000);
    run_dry(&on.l);
    ASSERT_STR_EQ("11 t12", story(&on.d));
    loop_scheduler_event_set(&on.e[0]); /* nobody awaits it any more */
    ASSERT_INT(0, run_dry(&on.l));
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).suspended);
    set_time(&on.w, 1999);
    ASSERT_INT(0, run_dry(&on.l));
    loop_scheduler_event_set(&on.e[1]); /* in time */
    run_dry(&on.l);
    ASSERT_STR_EQ("11 t12 13 19", story(&on.d));
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).timers);
    ASSERT_I64(PLIM_FOREVER, loop_scheduler_next_timeout(&on.l));
    set_time(&on.w, 5000);
    ASSERT_INT(0, run_dry(&on.l));
    ENDS_WELL();
}

TEST awaiting_without_time_is_only_a_look(int64_t timeout_ns)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    loop_scheduler_event_set(&on.e[1]);
    actors_init(&on.a[0], 1, &on.l, &on.d, play_await_for);
    on.a[0].event = &on.e[0];
    on.a[0].next = &on.e[1];
    on.a[0].ns = timeout_ns;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    run_dry(&on.l);
    ASSERT_STR_EQ("11 t12 13 19", story(&on.d));
    ENDS_WELL();
}

TEST awaiting_for_ever_has_no_end(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    actors_init(&on.a[0], 1, &on.l, &on.d, play_await_for);
    on.a[0].event = on.a[0].next = &on.e[0];
    on.a[0].ns = PLIM_FOREVER;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    run_dry(&on.l);
    set_time(&on.w, INT64_MAX - 1);
    ASSERT_INT(0, run_dry(&on.l));
    ASSERT_STR_EQ("11", story(&on.d));
    loop_scheduler_event_set(&on.e[0]);
    run_dry(&on.l);
    ASSERT_STR_EQ("11 12 13 19", story(&on.d));
    ENDS_WELL();
}

TEST a_coroutine_never_sleeps_too_short(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    actors_init(&on.a[0], 1, &on.l, &on.d, play_sleep);
    on.a[0].left = 3;
    on.a[0].ns = 1000;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    run_dry(&on.l);
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    for (int i = 1; i <= 3; i++) {
        pass_time(&on.w, 999);
        ASSERT_INT(0, run_dry(&on.l));
        ASSERT_INT(i, atomic_load(&on.d.count));
        pass_time(&on.w, 1);
        run_dry(&on.l);
        ASSERT_INT(i < 3 ? i + 1 : 5, atomic_load(&on.d.count));
    }
    ASSERT_STR_EQ("11 12 13 14 19", story(&on.d));
    ENDS_WELL();
}

TEST a_sleep_of_nothing_is_until_the_next_turn(int64_t ns)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    actors_init(&on.a[0], 1, &on.l, &on.d, play_sleep);
    on.a[0].left = 2;
    on.a[0].ns = ns;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("11 1", story(&on.d));
    run_dry(&on.l);
    ASSERT_STR_EQ("11 1 12 13 19", story(&on.d));
    ENDS_WELL();
}

TEST coroutines_that_yield_take_turns(void)
{
    ASSERT(make(&on.l, 0));
    actors_init(on.a, 2, &on.l, &on.d, play_yield);
    for (int i = 0; i < 2; i++) {
        on.a[i].left = 2;
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[i].co));
    }
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("11 21 1", story(&on.d));
    run_dry(&on.l);
    ASSERT_STR_EQ("11 21 1 12 22 13 19 23 29", story(&on.d));
    ENDS_WELL();
}

TEST a_coroutine_may_have_work_done_elsewhere(void)
{
    enum { N = 10, TIMES = 6 };
    static actor a[N];
    ASSERT(make_and_start(&on.l, 1));
    actors_init(a, N, &on.l, NULL, play_offload);
    for (int i = 0; i < N; i++) {
        a[i].executor = &on_threads;
        a[i].left = TIMES;
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &a[i].co));
    }
    for (int i = 0; i < N; i++) {
        ASSERT(EVENTUALLY(atomic_load(&a[i].dones) == 1));
        ASSERT_INT(TIMES * 3 * (i + 1), a[i].result);
        ASSERT_INT(0, a[i].status);
        ASSERT(a[i].worker != a[i].thread);
    }
    ASSERT_ENDS_WELL(&on.l);
    join_crew(&on.crew);
    PASS();
}

TEST a_coroutine_waits_for_its_work_and_no_longer(void)
{
    ASSERT(make(&on.l, 0));
    actors_init(&on.a[0], 1, &on.l, &on.d, play_offload);
    on.a[0].executor = &later;
    on.a[0].left = 2;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    run_dry(&on.l);
    ASSERT_INT(1, on.sh.used);
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).offloaded);
    ASSERT_STR_EQ("11", story(&on.d));
    ASSERT(take_down(&on.sh));
    ASSERT_STR_EQ("11", story(&on.d)); /* it goes on on the loop */
    run_dry(&on.l);
    ASSERT_STR_EQ("11 12", story(&on.d));
    ASSERT_INT(3, on.a[0].result);
    ASSERT(take_down(&on.sh));
    run_dry(&on.l);
    ASSERT_INT(6, on.a[0].result);
    ASSERT_INT(1, atomic_load(&on.a[0].dones));
    ENDS_WELL();
}

static void play_refused_offload(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    co->result = 55;
    LOOP_OFFLOAD(co, a->executor, triple, a);
    a->error = co->status;
    a->result = co->result;
    LOOP_YIELD(co);
    a->status = co->status;
    LOOP_END(co);
}

TEST a_refused_offload_does_not_suspend(void)
{
    int error = ENOSPC;
    plim_executor nobody = {refuse, &error};
    ASSERT(make(&on.l, 0));
    actors_init(&on.a[0], 1, &on.l, NULL, play_refused_offload);
    on.a[0].executor = &nobody;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(ENOSPC, on.a[0].error);
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).offloaded);
    run_dry(&on.l);
    ASSERT_INT(1, atomic_load(&on.a[0].dones));
    ASSERT_INT(0, on.a[0].status); /* of the last macro */
    ENDS_WELL();
}

static void play_exit(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    for (;;) {
        note_step(a);
        if (a->step == 3) {
            LOOP_EXIT(co);
        }
        LOOP_YIELD(co);
    }
    LOOP_END(co);
}

TEST a_coroutine_may_end_anywhere(void)
{
    ASSERT(make(&on.l, 0));
    actors_init(&on.a[0], 1, &on.l, &on.d, play_exit);
    for (int i = 1; i <= 2; i++) {
        on.a[0].step = 0;
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
        run_dry(&on.l);
        ASSERT_INT(i, atomic_load(&on.a[0].dones));
    }
    ASSERT_STR_EQ("11 12 13 19 11 12 13 19", story(&on.d));
    ENDS_WELL();
}

TEST bad_coroutines_are_refused(void)
{
    loop_scheduler_coroutine nothing = {.run = NULL};
    ASSERT(make(&on.l, 0));
    actors_init(&on.a[0], 1, &on.l, NULL, play_yield);
    ASSERT_INT(EINVAL, loop_scheduler_spawn(&on.l, &nothing));
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).queued);
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT_INT(0, atomic_load(&on.a[0].dones));
    ASSERT_INT(0, unmake(&on.l));
    PASS();
}

static void free_actor(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    atomic_int *freed = a->arg;
    memset((void *)a, 0xa5, sizeof *a);
    free(a);
    atomic_fetch_add(freed, 1);
}

TEST a_coroutine_may_be_freed_when_it_is_done(void)
{
    enum { N = 60 };
    static atomic_int freed;
    atomic_store(&freed, 0);
    void (*const plays[])(loop_scheduler_coroutine *) = {play_yield, play_exit, play_offload,
                                                         play_await, play_sleep};
    ASSERT(make_and_start(&on.l, 0));
    for (int i = 0; i < N; i++) {
        actor *a = malloc(sizeof *a);
        ASSERT(a != NULL);
        actors_init(a, 1, &on.l, NULL, plays[i % 5]);
        a->step = 3;
        a->left = i % 4;
        a->executor = &on_the_spot;
        a->event = &on.e[0];
        a->co.done = free_actor;
        a->arg = &freed;
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &a->co));
    }
    loop_scheduler_event_set(&on.e[0]);
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(N, atomic_load(&freed));
    ENDS_WELL();
}

static void spawn_again(actor *a)
{
    if (atomic_load(&a->dones) < 2) {
        a->left = 1;
        a->error = loop_scheduler_spawn(a->l, &a->co);
    }
}

TEST a_coroutine_may_begin_again_when_it_is_done(void)
{
    ASSERT(make(&on.l, 0));
    actors_init(&on.a[0], 1, &on.l, NULL, play_yield);
    on.a[0].end = spawn_again;
    on.a[0].left = 1;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    run_dry(&on.l);
    ASSERT_INT(0, on.a[0].error);
    ASSERT_INT(3, atomic_load(&on.a[0].dones));
    ENDS_WELL();
}

static void play_spawn(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    a->error = loop_scheduler_spawn(a->l, &(a + 1)->co);
    note_step(a);
    LOOP_AWAIT(co, a->event);
    note_step(a);
    LOOP_END(co);
}

static void play_set(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    loop_scheduler_event_set(a->event);
    note_step(a);
    LOOP_END(co);
}

TEST a_coroutine_may_begin_another_and_wait_for_it(void)
{
    ASSERT(make(&on.l, 0));
    actors_init(on.a, 2, &on.l, &on.d, play_spawn);
    on.a[1].co.run = play_set;
    on.a[0].event = on.a[1].event = &on.e[0];
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    run_dry(&on.l);
    ASSERT_INT(0, on.a[0].error);
    ASSERT_STR_EQ("11 12 21 22 29 13 19", story(&on.d));
    ENDS_WELL();
}

TEST a_thousand_coroutines_wait_at_once(void)
{
    enum { N = 1000 };
    actor *a = calloc(N, sizeof *a);
    ASSERT(a != NULL);
    ASSERT(make(&on.l, 0));
    actors_init(a, N, &on.l, NULL, play_await);
    int before = atomic_load(&allocations);
    for (int i = 0; i < N; i++) {
        a[i].event = &on.e[0];
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &a[i].co));
    }
    run_dry(&on.l);
    ASSERT_INT(N, loop_scheduler_snapshot(&on.l).suspended);
    loop_scheduler_event_set(&on.e[0]);
    ASSERT_INT(1, run_dry(&on.l));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(1, atomic_load(&a[i].dones));
        ASSERT_INT(0, a[i].status);
    }
    ASSERT_INT(before, atomic_load(&allocations));
    ASSERT_ENDS_WELL(&on.l);
    free(a);
    PASS();
}

static void play_pass_on(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, a->event);
    if (a->next != NULL) {
        loop_scheduler_event_set(a->next);
    }
    LOOP_END(co);
}

TEST a_long_chain_of_coroutines_needs_no_deep_stack(void)
{
    int n = scaled(100000);
    actor *a = calloc((size_t)n, sizeof *a);
    loop_scheduler_event *events = calloc((size_t)n, sizeof *events);
    ASSERT(a != NULL && events != NULL);
    ASSERT(make(&on.l, 0));
    actors_init(a, n, &on.l, NULL, play_pass_on);
    for (int i = 0; i < n; i++) {
        a[i].event = &events[i];
        a[i].next = i + 1 < n ? &events[i + 1] : NULL;
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &a[i].co));
    }
    run_dry(&on.l);
    loop_scheduler_event_set(&events[0]);
    run_dry(&on.l);
    ASSERT_INT(1, atomic_load(&a[n - 1].dones));
    ASSERT_ENDS_WELL(&on.l);
    free(a);
    free(events);
    PASS();
}

static void post_the_next(spy *s)
{
    int *left = s->arg;
    if (--*left > 0) {
        s->error = loop_scheduler_post(s->l, &s->task);
    }
}

TEST a_long_chain_of_tasks_needs_no_deep_stack(void)
{
    int n = scaled(100000), left = n;
    ASSERT(make(&on.l, 0));
    on.s[0].act = post_the_next;
    on.s[0].arg = &left;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(n, run_dry(&on.l));
    ASSERT_INT(n, runs(&on.s[0]));
    ENDS_WELL();
}

SUITE(coroutines_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(a_coroutine_waits_for_an_event);
    RUN_TEST(an_event_stays_set_until_it_is_reset);
    RUN_TEST(who_awaits_an_event_goes_on_after_the_task_that_sets_it);
    RUN_TEST(awaiting_may_take_too_long);
    RUN_TESTp(awaiting_without_time_is_only_a_look, 0);
    RUN_TESTp(awaiting_without_time_is_only_a_look, INT64_MIN);
    RUN_TEST(awaiting_for_ever_has_no_end);
    RUN_TEST(a_coroutine_never_sleeps_too_short);
    RUN_TESTp(a_sleep_of_nothing_is_until_the_next_turn, 0);
    RUN_TESTp(a_sleep_of_nothing_is_until_the_next_turn, -1);
    RUN_TEST(coroutines_that_yield_take_turns);
    RUN_TEST(a_coroutine_may_have_work_done_elsewhere);
    RUN_TEST(a_coroutine_waits_for_its_work_and_no_longer);
    RUN_TEST(a_refused_offload_does_not_suspend);
    RUN_TEST(a_coroutine_may_end_anywhere);
    RUN_TEST(bad_coroutines_are_refused);
    RUN_TEST(a_coroutine_may_be_freed_when_it_is_done);
    RUN_TEST(a_coroutine_may_begin_again_when_it_is_done);
    RUN_TEST(a_coroutine_may_begin_another_and_wait_for_it);
    RUN_TEST(a_thousand_coroutines_wait_at_once);
    RUN_TEST(a_long_chain_of_coroutines_needs_no_deep_stack);
    RUN_TEST(a_long_chain_of_tasks_needs_no_deep_stack);
}
