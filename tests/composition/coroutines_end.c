/* SPDX-License-Identifier: MIT
 *
 * Coroutines that wait for a permit while their bulkhead or their loop is closed. They are the
 * guests of coroutines.c.
 */

TEST a_bulkhead_that_closes_ends_the_wait(bool aborts)
{
    ASSERT(open_inn_for(1, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    ASSERT_EQ(0, arrive(0));
    run_turns();
    (void)bulkhead_close(&on.b[0], aborts ? BULKHEAD_ABORT : BULKHEAD_DRAIN, 0);
    run_turns();
    ASSERT_EQ_FMT(aborts ? 1 + ESHUTDOWN : 0, inn.g[0].entered, "%d");
    ASSERT_EQ(0, arrive(1));
    run_turns();
    ASSERT_EQ_FMT(1 + ESHUTDOWN, inn.g[1].entered, "%d");
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    run_turns();
    ASSERT_EQ_FMT(aborts ? 1 + ESHUTDOWN : 1, inn.g[0].entered, "%d"); /* it was in the line */
    ASSERT(all_left());
    ENDS_WELL();
}

TEST a_loop_that_closes_now_takes_its_coroutines_out_of_the_line(bool limited)
{
    ASSERT(open_inn_for(1, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    inn.g[0].timeout_ns = limited ? PLIM_S(1000) : 0;
    ASSERT_EQ(0, arrive(0));
    run_turns();
    ASSERT_EQ_FMT(1u, bulkhead_snapshot(&on.b[0]).queued, "%u");
    ASSERT_EQ(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)));
    ASSERT_EQ_FMT(1 + ECANCELED, inn.g[0].entered, "%d");
    ASSERT_EQ_FMT(-ECANCELED, inn.g[0].result, "%d");
    ASSERT_EQ(1, inn.g[0].dones);
    ASSERT_EQ_FMT(0u, bulkhead_snapshot(&on.b[0]).queued, "%u");
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ASSERT_EQ(0, bulkhead_try_enter(&on.b[0])); /* nobody has taken it with him */
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ENDS_WELL();
}

/* During a drain it waits on, and gets its permit. */
TEST a_loop_that_drains_lets_its_coroutines_wait(bool limited)
{
    ASSERT(open_inn_for(1, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    inn.g[0].timeout_ns = limited ? PLIM_S(1000) : 0;
    ASSERT_EQ(0, arrive(0));
    run_turns();
    ASSERT_EQ(ETIMEDOUT, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0));
    ASSERT_EQ_FMT(0, inn.g[0].entered, "%d");
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ASSERT_EQ(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_EQ_FMT(1, inn.g[0].entered, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

/* A drain does not make it wait longer than it may. */
TEST a_loop_that_drains_keeps_the_limit_of_a_wait(void)
{
    ASSERT(open_inn_for(1, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    inn.g[0].timeout_ns = PLIM_MS(5);
    int64_t began = plim_now_();
    ASSERT_EQ(0, arrive(0));
    run_turns();
    ASSERT_EQ(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT(plim_now_() - began >= PLIM_MS(5));
    ASSERT_EQ_FMT(1 + ETIMEDOUT, inn.g[0].entered, "%d");
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ASSERT(all_left());
    ENDS_WELL();
}

/* The same if it begins then. */
static void enter_both(loop_scheduler_coroutine *co)
{
    guest *g = co->arg;
    LOOP_BEGIN(co);
    LOOP_ENTER(co, &on.b[0]);
    g->entered = 1 + co->status;
    LOOP_ENTER_FOR(co, &on.b[1], PLIM_MS(1));
    g->again = 1 + co->status;
    LOOP_END(co);
}

TEST a_wait_that_begins_during_a_drain_has_its_time(void)
{
    bulkhead_options options = {.permits = 1};
    ASSERT(open_inn_for(1, 0));
    ASSERT_EQ(0, stage_bulkhead(1, &options));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    ASSERT_EQ(0, bulkhead_enter(&on.b[1]));
    inn.g[0].co = (loop_scheduler_coroutine){.run = enter_both, .arg = &inn.g[0]};
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &inn.g[0].co));
    run_turns();
    ASSERT_EQ(ETIMEDOUT, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0));
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ASSERT_EQ(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, patience));
    ASSERT_EQ_FMT(1, inn.g[0].entered, "%d");
    ASSERT_EQ_FMT(1 + ETIMEDOUT, inn.g[0].again, "%d");
    ASSERT_EQ(0, bulkhead_leave(&on.b[1]));
    ASSERT(all_left());
    ENDS_WELL();
}

/* Nor does it outlast the time of whoever closes. */
TEST a_drain_that_is_out_of_time_ends_the_wait(bool limited)
{
    ASSERT(open_inn_for(1, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    inn.g[0].timeout_ns = limited ? PLIM_S(1000) : 0;
    ASSERT_EQ(0, arrive(0));
    run_turns();
    ASSERT_EQ(ETIMEDOUT, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_MS(1)));
    ASSERT_EQ_FMT(1 + ECANCELED, inn.g[0].entered, "%d");
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ASSERT(all_left());
    ENDS_WELL();
}

/* Not even if it begins after that, to put things in order. */
static void clean_up(loop_scheduler_coroutine *co)
{
    guest *g = co->arg;
    LOOP_BEGIN(co);
    LOOP_SLEEP(co, PLIM_S(1000));
    g->again = 1 + co->status;
    LOOP_ENTER_FOR(co, &on.b[0], PLIM_S(1000));
    g->entered = 1 + co->status;
    LOOP_END(co);
}

TEST a_wait_that_begins_when_the_time_is_over_ends_at_once(bool drains)
{
    ASSERT(open_inn_for(1, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    inn.g[0].co = (loop_scheduler_coroutine){.run = clean_up, .arg = &inn.g[0]};
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &inn.g[0].co));
    run_turns();
    (void)loop_scheduler_close(&on.l, drains ? LOOP_SCHEDULER_DRAIN : LOOP_SCHEDULER_NOW, 1);
    ASSERT_EQ_FMT(1 + ECANCELED, inn.g[0].again, "%d");
    ASSERT_EQ_FMT(1 + ECANCELED, inn.g[0].entered, "%d");
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ASSERT(all_left());
    ENDS_WELL();
}

/* What a drain still hears from is no reason to end the wait for an event. */
static void enter_and_set(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_ENTER(co, &on.b[0]);
    loop_scheduler_event_set(&inn.go);
    LOOP_END(co);
}

static void await_go(loop_scheduler_coroutine *co)
{
    guest *g = co->arg;
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, &inn.go);
    g->entered = 1 + co->status;
    LOOP_END(co);
}

TEST a_drain_ends_no_wait_for_an_event_while_another_waits_for_a_permit(void)
{
    ASSERT(open_inn_for(1, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    inn.g[0].co = (loop_scheduler_coroutine){.run = await_go, .arg = &inn.g[0]};
    inn.g[1].co = (loop_scheduler_coroutine){.run = enter_and_set, .arg = &inn.g[1]};
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &inn.g[0].co));
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &inn.g[1].co));
    run_turns();
    ASSERT_EQ(ETIMEDOUT, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0));
    ASSERT_EQ(ETIMEDOUT, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0));
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ASSERT_EQ(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_EQ_FMT(1, inn.g[0].entered, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

SUITE(composition_coroutines_end)
{
    ON_STAGE();
    for (int how = 0; how < 2; how++) {
        RUN_TESTp(a_bulkhead_that_closes_ends_the_wait, how != 0);
        RUN_TESTp(a_loop_that_closes_now_takes_its_coroutines_out_of_the_line, how != 0);
        RUN_TESTp(a_loop_that_drains_lets_its_coroutines_wait, how != 0);
        RUN_TESTp(a_drain_that_is_out_of_time_ends_the_wait, how != 0);
        RUN_TESTp(a_wait_that_begins_when_the_time_is_over_ends_at_once, how != 0);
    }
    RUN_TEST(a_loop_that_drains_keeps_the_limit_of_a_wait);
    RUN_TEST(a_wait_that_begins_during_a_drain_has_its_time);
    RUN_TEST(a_drain_ends_no_wait_for_an_event_while_another_waits_for_a_permit);
}
