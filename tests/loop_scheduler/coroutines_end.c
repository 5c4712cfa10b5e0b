/* SPDX-License-Identifier: MIT
 *
 * Coroutines of a loop that is closed, on two loops, and in races.
 */

TEST close_resumes_who_waits_with_ecanceled(int how, int kind)
{
    enum { N = 4 };
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    actors_init(on.a, N, &on.l, &on.d, play_await);
    on.a[1].co.run = play_sleep;
    on.a[1].left = 1;
    on.a[2].co.run = play_await_once_for;
    for (int i = 0; i < N; i++) {
        on.a[i].event = on.a[i].next = &on.e[0];
        on.a[i].ns = PLIM_S(3600);
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[i].co));
    }
    if (kind == NOBODY) {
        run_dry(&on.l);
    }
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&on.l).suspended == 3 &&
                      atomic_load(&on.d.count) == N - 1));
    ASSERT_INT(0, loop_scheduler_close(&on.l, how, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(1, atomic_load(&on.a[i].dones));
        ASSERT_INT(ECANCELED, on.a[i].status);
        ASSERT(i == 2 || on.a[i].current);
    }
    ASSERT(has_run(&on.r));
    loop_scheduler_event_set(&on.e[0]); /* it holds nobody any more */
    ENDS_WELL();
}

static void play_stubborn(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    while (a->left-- > 0) {
        LOOP_AWAIT(co, a->event);
        a->result += co->status == ECANCELED;
    }
    LOOP_END(co);
}

TEST who_awaits_an_event_again_while_the_loop_is_closed_is_told_again(int how)
{
    ASSERT(make_and_start(&on.l, 0));
    actors_init(&on.a[0], 1, &on.l, NULL, play_stubborn);
    on.a[0].event = &on.e[0];
    on.a[0].left = 5;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&on.l).suspended == 1));
    ASSERT_INT(0, loop_scheduler_close(&on.l, how, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, atomic_load(&on.a[0].dones));
    ASSERT_INT(5, on.a[0].result);
    ENDS_WELL();
}

/* A coroutine that has something to put in order when it is told, which takes time. */
static void play_clean_up(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, a->event);
    note_step(a);
    LOOP_SLEEP(co, a->ns);
    note_step(a);
    LOOP_AWAIT_FOR(co, a->next, a->ns);
    note_step(a);
    LOOP_YIELD(co);
    note_step(a);
    LOOP_SLEEP(co, a->ns);
    note_step(a);
    LOOP_END(co);
}

/* It awaits an event, nobody runs its loop, and the clock is the test's. */
static bool awaits_the_end(void (*play)(loop_scheduler_coroutine *))
{
    bool made = make_with_clock(&on.l, &on.w, 0);
    actors_init(&on.a[0], 1, &on.l, &on.d, play);
    on.a[0].event = &on.e[0];
    on.a[0].next = &on.e[1];
    on.a[0].ns = 1000;
    return made && loop_scheduler_spawn(&on.l, &on.a[0].co) == 0 && loop_scheduler_poll(&on.l) == 0;
}

/* Turns, until there is nothing to do before the clock has moved. */
static void run_out(void)
{
    while (loop_scheduler_next_timeout(&on.l) == 0 && loop_scheduler_poll(&on.l) != ESHUTDOWN) {
        continue;
    }
}

TEST who_was_told_once_may_wait_while_the_loop_is_closed(int how)
{
    ASSERT(awaits_the_end(play_clean_up));
    int begun = loop_scheduler_close(&on.l, how, 0);
    ASSERT_INT(ETIMEDOUT, begun);
    run_out();
    ASSERT_STR_EQ("x11", story(&on.d)); /* and sleeps */
    ASSERT_I64(1000, loop_scheduler_next_timeout(&on.l));
    pass_time(&on.w, 999);
    run_out();
    ASSERT_STR_EQ("x11", story(&on.d));
    pass_time(&on.w, 1);
    run_out();
    ASSERT_STR_EQ("x11 12", story(&on.d)); /* and awaits another event */
    pass_time(&on.w, 999);
    run_out();
    ASSERT_STR_EQ("x11 12", story(&on.d));
    pass_time(&on.w, 1);
    run_out();
    ASSERT_STR_EQ("x11 12 t13 14", story(&on.d)); /* sleeps again */
    ASSERT_INT(ETIMEDOUT, loop_scheduler_close(&on.l, how, 0));
    pass_time(&on.w, 1000);
    run_out();
    ASSERT_STR_EQ("x11 12 t13 14 15 19", story(&on.d));
    ASSERT_INT(0, loop_scheduler_close(&on.l, how, 0));
    ENDS_WELL();
}

TEST an_event_ends_the_wait_of_who_was_told(int how)
{
    ASSERT(awaits_the_end(play_clean_up));
    int begun = loop_scheduler_close(&on.l, how, 0);
    ASSERT_INT(ETIMEDOUT, begun);
    run_out();
    pass_time(&on.w, 1000);
    run_out();
    loop_scheduler_event_set(&on.e[1]);
    run_out();
    ASSERT_STR_EQ("x11 12 13 14", story(&on.d));
    pass_time(&on.w, 1000);
    ENDS_WELL();
}

/* The first wait that the closing does not allow tells it, whenever it begins. */
static void play_clean_up_later(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    LOOP_YIELD(co);
    note_step(a);
    LOOP_SLEEP(co, a->ns);
    note_step(a);
    LOOP_SLEEP(co, a->ns);
    note_step(a);
    LOOP_END(co);
}

TEST the_first_sleep_of_a_closing_loop_tells_it(int how)
{
    ASSERT(awaits_the_end(play_clean_up_later)); /* that is: it yields */
    int begun = loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0);
    ASSERT_INT(ETIMEDOUT, begun);
    if (how == LOOP_SCHEDULER_NOW) {
        ASSERT_INT(ETIMEDOUT, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, 0));
    }
    run_out();
    ASSERT_STR_EQ(how == LOOP_SCHEDULER_NOW ? "x11" : "11 x12", story(&on.d));
    pass_time(&on.w, 1000);
    run_out();
    pass_time(&on.w, 1000);
    run_out();
    ASSERT_STR_EQ(how == LOOP_SCHEDULER_NOW ? "x11 12 13 19" : "11 x12 13 19", story(&on.d));
    ENDS_WELL();
}

TEST the_limit_of_who_closes_ends_all_waits(int how, int steps)
{
    ASSERT(awaits_the_end(play_clean_up));
    int begun = loop_scheduler_close(&on.l, how, 0);
    ASSERT_INT(ETIMEDOUT, begun);
    run_out();
    for (int i = 1; i < steps; i++) {
        pass_time(&on.w, 1000);
        run_out();
    }
    /* This clock stands still, so only the limit ends them. */
    int late = loop_scheduler_close(&on.l, how, PLIM_MS(1));
    ASSERT_INT(how == LOOP_SCHEDULER_DRAIN ? ETIMEDOUT : 0, late);
    ASSERT_STR_EQ(steps == 1   ? "x11 x12 x13 14 x15 19"
                  : steps == 2 ? "x11 12 x13 14 x15 19"
                               : "x11 12 t13 14 x15 19",
                  story(&on.d));
    ENDS_WELL();
}

TEST who_cleans_up_sleeps_as_long_as_it_says(int how, int kind)
{
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    actors_init(&on.a[0], 1, &on.l, NULL, play_clean_up);
    on.a[0].event = &on.e[0];
    on.a[0].next = &on.e[1];
    on.a[0].ns = PLIM_MS(2);
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    if (kind == NOBODY) {
        run_out();
    }
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&on.l).suspended == 1));
    int64_t from = plim_now_();
    ASSERT_INT(0, loop_scheduler_close(&on.l, how, PLIM_S(PATIENCE_S)));
    ASSERT(plim_now_() - from >= PLIM_MS(6));
    ASSERT_INT(1, atomic_load(&on.a[0].dones));
    ASSERT_INT(0, on.a[0].status);
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

/* Somebody else writes into its memory until it says that it has done so. */
static void play_until_written(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, a->event);
    while (!loop_scheduler_event_is_set(a->event)) {
        a->step++;
        LOOP_AWAIT_FOR(co, a->event, PLIM_MS(1));
    }
    LOOP_END(co);
}

TEST who_must_not_end_yet_waits_for_it_without_spinning(int how)
{
    ASSERT(make_and_start(&on.l, 0));
    actors_init(&on.a[0], 1, &on.l, NULL, play_until_written);
    on.a[0].event = &on.e[0];
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&on.l).suspended == 1));
    int64_t from = plim_now_();
    start_close(&on.c[0], how);
    ASSERT(waits(&on.c[0]));
    loop_scheduler_event_set(&on.e[0]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(1, atomic_load(&on.a[0].dones));
    ASSERT(on.a[0].step <= 2 + (plim_now_() - from) / PLIM_MS(1));
    ENDS_WELL();
}

TEST a_coroutine_that_has_not_begun_does_so_only_if_the_loop_drains(int how, int kind)
{
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    if (kind != NOBODY) {
        ASSERT(occupy(&on.l, &on.gate));
    }
    actors_init(&on.a[0], 1, &on.l, &on.d, play_yield);
    on.a[0].left = 1;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    start_close(&on.c[0], how);
    if (kind != NOBODY) {
        ASSERT(EVENTUALLY(is_closed(&on.l)));
        let_go(&on.gate);
    }
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_STR_EQ(how == LOOP_SCHEDULER_DRAIN ? "11 12 19" : "19", story(&on.d));
    ASSERT_INT(how == LOOP_SCHEDULER_DRAIN ? 0 : ECANCELED, on.a[0].status);
    ASSERT_INT(1, atomic_load(&on.a[0].dones));
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

static void set_event_at_last(spy *s)
{
    if (--s->number > 0) {
        s->error = loop_scheduler_post(s->l, &s->task);
    } else {
        loop_scheduler_event_set(s->arg);
    }
}

TEST a_drain_waits_for_events_that_its_tasks_will_set(int kind)
{
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    actors_init(on.a, 2, &on.l, NULL, play_await);
    on.a[0].event = &on.e[0];
    on.a[1].event = &on.e[1];
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[i].co));
    }
    if (kind == NOBODY) {
        run_dry(&on.l);
    } else {
        ASSERT(occupy(&on.l, &on.gate));
    }
    ASSERT_INT(2, loop_scheduler_snapshot(&on.l).suspended);
    on.s[0].act = set_event_at_last;
    on.s[0].arg = &on.e[0];
    on.s[0].number = 5;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    start_close(&on.c[0], LOOP_SCHEDULER_DRAIN);
    if (kind != NOBODY) {
        ASSERT(EVENTUALLY(is_closed(&on.l)));
        let_go(&on.gate);
    }
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(5, runs(&on.s[0]));
    ASSERT_INT(0, on.a[0].status);
    ASSERT_INT(ECANCELED, on.a[1].status); /* when nothing else was left */
    ASSERT_INT(2, atomic_load(&on.a[0].dones) + atomic_load(&on.a[1].dones));
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

TEST coroutines_go_on_while_the_loop_drains(void)
{
    ASSERT(make(&on.l, 0));
    actors_init(on.a, 2, &on.l, NULL, play_yield);
    on.a[1].co.run = play_offload;
    on.a[1].executor = &on_the_spot;
    on.a[0].left = on.a[1].left = 3;
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[i].co));
    }
    ASSERT_INT(0, loop_scheduler_poll(&on.l)); /* they have begun */
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(1, atomic_load(&on.a[i].dones));
        ASSERT_INT(0, on.a[i].status);
        ASSERT_INT(-1, on.a[i].left);
    }
    ASSERT_INT(3 * 6, on.a[1].result);
    ENDS_WELL();
}

TEST a_coroutine_whose_work_is_elsewhere_is_told_of_the_end(int how)
{
    ASSERT(make(&on.l, 0));
    actors_init(&on.a[0], 1, &on.l, NULL, play_offload);
    on.a[0].executor = &later;
    on.a[0].left = 1;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    run_dry(&on.l);
    start_close(&on.c[0], how);
    ASSERT(EVENTUALLY(is_closed(&on.l)));
    ASSERT(waits(&on.c[0])); /* works are waited for in any case */
    ASSERT(take_down(&on.sh));
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(1, atomic_load(&on.a[0].dones));
    ASSERT_INT(how == LOOP_SCHEDULER_DRAIN ? 0 : ECANCELED, on.a[0].status);
    ENDS_WELL();
}

TEST coroutines_of_two_loops_may_await_one_event(void)
{
    static loop_scheduler l[2];
    for (int i = 0; i < 2; i++) {
        ASSERT(make_and_start(&l[i], 0));
        actors_init(&on.a[i], 1, &l[i], NULL, play_await);
        on.a[i].event = &on.e[0];
        ASSERT_INT(0, loop_scheduler_spawn(&l[i], &on.a[i].co));
    }
    for (int i = 0; i < 2; i++) {
        ASSERT(EVENTUALLY(loop_scheduler_snapshot(&l[i]).suspended == 1));
    }
    loop_scheduler_event_set(&on.e[0]);
    for (int i = 0; i < 2; i++) {
        ASSERT(EVENTUALLY(atomic_load(&on.a[i].dones) == 1));
        ASSERT_INT(0, on.a[i].status);
        ASSERT(on.a[i].current);
    }
    ASSERT(on.a[0].thread != on.a[1].thread);
    ASSERT_ENDS_WELL(&l[0]);
    ASSERT_ENDS_WELL(&l[1]);
    PASS();
}

static void play_consumer(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    while (a->left-- > 0) {
        LOOP_AWAIT(co, a->event);
        a->error += co->status != 0 || *(int *)a->arg != a->left;
        loop_scheduler_event_reset(a->event);
        csem_release(a->consumed);
    }
    LOOP_END(co);
}

TEST no_set_of_an_event_is_ever_lost(void)
{
    static csem consumed;
    static int product;
    csem_init(&consumed, 0);
    ASSERT(make_and_start(&on.l, 0));
    actors_init(&on.a[0], 1, &on.l, NULL, play_consumer);
    on.a[0].event = &on.e[0];
    on.a[0].arg = &product; /* plain: what was done before a set is seen */
    on.a[0].consumed = &consumed;
    on.a[0].left = scaled(20000);
    int rounds = on.a[0].left;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    for (int i = rounds - 1; i >= 0; i--) {
        product = i;
        loop_scheduler_event_set(&on.e[0]);
        ASSERT_INT(0, csem_acquire_for(&consumed, PLIM_S(PATIENCE_S)));
    }
    ASSERT(EVENTUALLY(atomic_load(&on.a[0].dones) == 1));
    ASSERT_INT(0, on.a[0].error);
    ENDS_WELL();
}

TEST a_set_races_with_the_timeout_and_one_of_them_wins(void)
{
    uint64_t random = 21;
    int in_time = 0, late = 0;
    ASSERT(make_and_start(&on.l, 0));
    int64_t end = plim_now_() + race_ns();
    for (int round = scaled(10000); round > 0 && plim_now_() < end; round--) {
        event_init(&on.e[0]);
        actors_init(&on.a[0], 1, &on.l, NULL, play_await_once_for);
        on.a[0].event = &on.e[0];
        on.a[0].ns = (int64_t)(next_random(&random) % 40000);
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
        for (uint64_t i = next_random(&random) % 2048; i > 0; i--) {
            plim_pause_();
        }
        loop_scheduler_event_set(&on.e[0]);
        int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
        while (atomic_load(&on.a[0].dones) == 0 && plim_now_() < give_up) {
            plim_thread_yield_();
        }
        ASSERT_INT(1, atomic_load(&on.a[0].dones));
        ASSERT_INT(1, on.a[0].step);
        ASSERT(on.a[0].status == 0 || on.a[0].status == ETIMEDOUT);
        in_time += on.a[0].status == 0;
        late += on.a[0].status != 0;
    }
    ASSERT(serves(&on.l));
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).suspended);
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).timers);
    ASSERT(in_time + late > 0);
    ENDS_WELL();
}

static void play_await_and_free(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, a->event);
    memset((void *)a->event, 0xa5, sizeof *a->event);
    free(a->event);
    LOOP_END(co);
}

TEST an_event_may_be_freed_by_whoever_it_lets_go_on(void)
{
    uint64_t random = 31;
    ASSERT(make_and_start(&on.l, 0));
    int64_t end = plim_now_() + race_ns();
    for (int round = scaled(10000); round > 0 && plim_now_() < end; round--) {
        loop_scheduler_event *event = calloc(1, sizeof *event);
        ASSERT(event != NULL);
        actors_init(&on.a[0], 1, &on.l, NULL, play_await_and_free);
        on.a[0].event = event;
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
        dawdle(next_random(&random));
        loop_scheduler_event_set(event);
        int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
        while (atomic_load(&on.a[0].dones) == 0 && plim_now_() < give_up) {
            plim_thread_yield_();
        }
        ASSERT_INT(1, atomic_load(&on.a[0].dones));
    }
    ENDS_WELL();
}

SUITE(ends_of_coroutines_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TESTp(close_resumes_who_waits_with_ecanceled, LOOP_SCHEDULER_DRAIN, NOBODY);
    RUN_TESTp(close_resumes_who_waits_with_ecanceled, LOOP_SCHEDULER_DRAIN, OWN_THREAD);
    RUN_TESTp(close_resumes_who_waits_with_ecanceled, LOOP_SCHEDULER_NOW, NOBODY);
    RUN_TESTp(close_resumes_who_waits_with_ecanceled, LOOP_SCHEDULER_NOW, OWN_THREAD);
    for (int how = LOOP_SCHEDULER_DRAIN; how <= LOOP_SCHEDULER_NOW; how++) {
        RUN_TESTp(who_awaits_an_event_again_while_the_loop_is_closed_is_told_again, how);
        RUN_TESTp(who_was_told_once_may_wait_while_the_loop_is_closed, how);
        RUN_TESTp(an_event_ends_the_wait_of_who_was_told, how);
        RUN_TESTp(the_first_sleep_of_a_closing_loop_tells_it, how);
        for (int steps = 1; steps <= 3; steps++) {
            RUN_TESTp(the_limit_of_who_closes_ends_all_waits, how, steps);
        }
        RUN_TESTp(who_cleans_up_sleeps_as_long_as_it_says, how, NOBODY);
        RUN_TESTp(who_cleans_up_sleeps_as_long_as_it_says, how, OWN_THREAD);
        RUN_TESTp(who_must_not_end_yet_waits_for_it_without_spinning, how);
    }
    RUN_TESTp(a_coroutine_that_has_not_begun_does_so_only_if_the_loop_drains, LOOP_SCHEDULER_DRAIN,
              NOBODY);
    RUN_TESTp(a_coroutine_that_has_not_begun_does_so_only_if_the_loop_drains, LOOP_SCHEDULER_DRAIN,
              OWN_THREAD);
    RUN_TESTp(a_coroutine_that_has_not_begun_does_so_only_if_the_loop_drains, LOOP_SCHEDULER_NOW,
              NOBODY);
    RUN_TESTp(a_coroutine_that_has_not_begun_does_so_only_if_the_loop_drains, LOOP_SCHEDULER_NOW,
              OWN_THREAD);
    RUN_TESTp(a_drain_waits_for_events_that_its_tasks_will_set, NOBODY);
    RUN_TESTp(a_drain_waits_for_events_that_its_tasks_will_set, OWN_THREAD);
    RUN_TEST(coroutines_go_on_while_the_loop_drains);
    RUN_TESTp(a_coroutine_whose_work_is_elsewhere_is_told_of_the_end, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(a_coroutine_whose_work_is_elsewhere_is_told_of_the_end, LOOP_SCHEDULER_NOW);
    RUN_TEST(coroutines_of_two_loops_may_await_one_event);
    RUN_TEST(no_set_of_an_event_is_ever_lost);
    RUN_TEST(a_set_races_with_the_timeout_and_one_of_them_wins);
    RUN_TEST(an_event_may_be_freed_by_whoever_it_lets_go_on);
}
