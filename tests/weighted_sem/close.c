/* SPDX-License-Identifier: MIT
 *
 * The end of a wait and of the whole: timeouts, close and destroy.
 */

/* Case 53: the heavy head gives up, and the light one behind it starts without any completion. */
TEST a_head_that_gives_up_lets_the_next_in(int call)
{
    int64_t timeout_ns = PLIM_MS(2), before;
    for (bool waiting = false; !waiting;) {
        make(10);
        ASSERT_INT(0, weighted_sem_acquire(&on.w, 1));
        on.c[0] = (caller){.call = call, .weight = 10, .fn = nothing, .timeout_ns = timeout_ns};
        on.c[1] = (caller){.call = ACQUIRE, .weight = 1};
        before = plim_now_();
        waiting = queue_up(on.c, 2);
        ASSERT(waiting || again(&timeout_ns));
    }
    join_call(&on.c[1]);
    ASSERT(plim_now_() - before >= timeout_ns);
    join_call(&on.c[0]);
    ASSERT_INT(ETIMEDOUT, on.c[0].error);
    ASSERT_INT(0, on.c[1].error);
    ASSERT_EQ(8, weighted_sem_available(&on.w));
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ENDS_WELL();
}

TEST many_timed_out_waiters_leave_nothing(void)
{
    enum { N = 64 };
    make(1);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 1));
    for (int round = 0; round < scaled(10); round++) {
        for (int i = 0; i < N; i++) {
            on.c[i] = (caller){.call = i % 4, .weight = 1, .fn = nothing};
            on.c[i].timeout_ns = PLIM_US(1 + 10 * (i % 7));
            start_call(&on.c[i]);
        }
        join_calls(on.c, N);
        for (int i = 0; i < N; i++) {
            ASSERT_INT(ETIMEDOUT, on.c[i].error);
        }
        ASSERT_EQ_FMT(0u, weighted_sem_waiting(&on.w), "%u");
        ASSERT(peek_first(&on.w, &on.w.queue) == NULL);
    }
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ENDS_WELL();
}

/* Five give up in a row, the sixth gets in; the number that wait goes down with each. */
TEST leavers_in_the_middle_of_the_queue(void)
{
    int64_t timeout_ns = PLIM_MS(6);
    for (bool waiting = false; !waiting;) {
        make(3);
        ASSERT_INT(0, weighted_sem_acquire(&on.w, 3));
        for (int i = 0; i < 6; i++) {
            on.c[i] = (caller){.call = ACQUIRE, .weight = 3};
            /* the last of the five goes first */
            on.c[i].timeout_ns = i < 5 ? timeout_ns + timeout_ns / 4 * (4 - i) : 0;
        }
        waiting = queue_up(on.c, 6);
        ASSERT(waiting || again(&timeout_ns));
    }
    for (int i = 4; i >= 0; i--) {
        join_call(&on.c[i]);
        ASSERT_INT(ETIMEDOUT, on.c[i].error);
    }
    ASSERT_EQ_FMT(1u, weighted_sem_waiting(&on.w), "%u");
    ASSERT_INT(0, weighted_sem_release(&on.w, 3));
    join_call(&on.c[5]);
    ASSERT_INT(0, on.c[5].error);
    ASSERT_INT(0, weighted_sem_release(&on.w, 3));
    ENDS_WELL();
}

TEST huge_timeouts_do_not_overflow(void)
{
    make(1);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 1));
    on.c[0] = (caller){.call = ACQUIRE, .weight = 1, .timeout_ns = INT64_MAX - 1};
    on.c[1] = (caller){.call = ACQUIRE, .weight = 1, .timeout_ns = PLIM_FOREVER};
    ASSERT(queue_up(on.c, 2));
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, weighted_sem_release(&on.w, 1));
        join_call(&on.c[i]);
        ASSERT_INT(0, on.c[i].error);
    }
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ENDS_WELL();
}

TEST close_sends_waiters_away_and_lets_jobs_end(void)
{
    on.g[0].result = EIO;
    make(4);
    ASSERT_INT(0, weighted_sem_start(&on.w, 2, pass, &on.g[0]));
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 1));
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, &on.job[0]));
    for (int i = 0; i < 4; i++) {
        on.c[i] = (caller){.call = i, .weight = 1, .fn = nothing};
    }
    ASSERT(queue_up(on.c, 4));
    on.c[4] = (caller){.call = DRAIN_ALL};
    start_call(&on.c[4]);
    ASSERT_INT(0, weighted_sem_close(&on.w));
    ASSERT_INT(0, weighted_sem_close(&on.w));
    join_calls(on.c, 4);
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(ESHUTDOWN, on.c[i].error);
    }
    ASSERT_INT(ESHUTDOWN, weighted_sem_acquire(&on.w, 1));
    ASSERT_INT(ESHUTDOWN, weighted_sem_try_acquire(&on.w, 1));
    ASSERT_INT(ESHUTDOWN, weighted_sem_start(&on.w, 1, nothing, NULL));
    ASSERT_INT(ESHUTDOWN, weighted_sem_complete(&on.w, 1, nothing, NULL, NULL));
    ASSERT_EQ_FMT(2u, weighted_sem_executing(&on.w), "%u");
    ASSERT_FALSE(atomic_load(&on.c[4].done));
    csem_release(&on.g[0].exit);
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));
    join_call(&on.c[4]);
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_EQ(1, weighted_sem_errors(&on.w));
    ASSERT_INT(ESHUTDOWN, weighted_sem_try_acquire(&on.w, 1));
    ENDS_WELL();
}

TEST close_races_with_starts(void)
{
    enum { N = 8 };
    for (int round = 0; round < scaled(100); round++) {
        atomic_store(&on.runs, 0);
        make(2);
        for (int i = 0; i < N; i++) {
            on.c[i] = (caller){.call = i % 2 == 0 ? START : COMPLETE, .weight = 1};
            on.c[i].fn = count;
            on.c[i].arg = &on.runs;
            start_call(&on.c[i]);
        }
        rest(PLIM_US(round % 50)); /* each close finds another moment */
        ASSERT_INT(0, weighted_sem_close(&on.w));
        join_calls(on.c, N);
        ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
        int let_in = 0;
        for (int i = 0; i < N; i++) {
            ASSERT(on.c[i].error == 0 || on.c[i].error == ESHUTDOWN);
            let_in += on.c[i].error == 0;
        }
        ASSERT_INT(let_in, atomic_load(&on.runs));
        ASSERT_ENDS_WELL();
    }
    PASS();
}

TEST destroy_waits_for_jobs_and_sends_waiters_away(void)
{
    make(2);
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[0]));
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[1]));
    on.c[0] = (caller){.call = START, .weight = 1, .fn = nothing};
    on.c[1] = (caller){.call = ACQUIRE, .weight = 1, .timeout_ns = PLIM_S(PATIENCE_S)};
    on.c[2] = (caller){.call = DESTROY};
    ASSERT(queue_up(on.c, 2));
    start_call(&on.c[2]);
    join_calls(on.c, 2);
    ASSERT_INT(ESHUTDOWN, on.c[0].error);
    ASSERT_INT(ESHUTDOWN, on.c[1].error);
    ASSERT_EQ_FMT(2u, weighted_sem_executing(&on.w), "%u");
    ASSERT(not_yet(&on.c[2].done));
    csem_release(&on.g[1].exit);
    ASSERT(EVENTUALLY(weighted_sem_executing(&on.w) == 1));
    ASSERT(not_yet(&on.c[2].done));
    csem_release(&on.g[0].exit);
    join_call(&on.c[2]);
    ASSERT_INT(0, on.c[2].error);
    PASS();
}

static plim_thread_result come_and_go(void *arg)
{
    caller *c = arg;
    c->error = weighted_sem_acquire_for(c->w, 1, c->timeout_ns);
    if (c->error == 0) {
        weighted_sem_release(c->w, 1);
    }
    atomic_store(&c->done, true);
    return 0;
}

/* A caller that is inside when destroy begins does not touch the object after destroy has
 * returned. */
TEST destroy_may_race_with_the_ends_of_waits(void)
{
    enum { N = 4 };
    for (int round = 0; round < scaled(300); round++) {
        weighted_sem *w = malloc(sizeof *w); /* so that a sanitizer sees who touches it */
        weighted_sem_options options = {.total = 1};
        caller *c = on.c;
        gates_init(on.g, 1);
        ASSERT_INT(0, weighted_sem_init(w, &options));
        int started = weighted_sem_start(w, 1, pass, &on.g[0]);
        for (int i = 0; i < N; i++) {
            c[i] = (caller){.w = w};
            c[i].timeout_ns = i == 0 ? PLIM_FOREVER : PLIM_US(200 + round % 60 * 5);
            start(&c[i].thread, come_and_go, &c[i]);
        }
        bool all_there =
            EVENTUALLY(atomic_load(&c[0].done) + atomic_load(&c[1].done) + atomic_load(&c[2].done) +
                           atomic_load(&c[3].done) + (int)weighted_sem_waiting(w) >=
                       N);
        csem_release(&on.g[0].exit);
        int destroyed = weighted_sem_destroy(w);
        memset((void *)w, 0xa5, sizeof *w);
        free(w);
        for (int i = 0; i < N; i++) {
            join(c[i].thread);
        }
        ASSERT_INT(0, started); /* only now, so that no thread is left behind */
        ASSERT(all_there);
        ASSERT_INT(0, destroyed);
        for (int i = 0; i < N; i++) {
            ASSERT(c[i].error == 0 || c[i].error == ETIMEDOUT || c[i].error == ESHUTDOWN);
        }
    }
    PASS();
}

SUITE(weighted_sem_ends)
{
    ON_STAGE();
    RUN_TESTp(a_head_that_gives_up_lets_the_next_in, ACQUIRE);
    RUN_TESTp(a_head_that_gives_up_lets_the_next_in, START);
    RUN_TESTp(a_head_that_gives_up_lets_the_next_in, COMPLETE);
    RUN_TESTp(a_head_that_gives_up_lets_the_next_in, BEGIN);
    RUN_TEST(many_timed_out_waiters_leave_nothing);
    RUN_TEST(leavers_in_the_middle_of_the_queue);
    RUN_TEST(huge_timeouts_do_not_overflow);
    RUN_TEST(close_sends_waiters_away_and_lets_jobs_end);
    RUN_TEST(close_races_with_starts);
    RUN_TEST(destroy_waits_for_jobs_and_sends_waiters_away);
    RUN_TEST(destroy_may_race_with_the_ends_of_waits);
}
