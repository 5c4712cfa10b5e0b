/* SPDX-License-Identifier: MIT
 *
 * Waiting for jobs to end: drain and drain_all.
 */

TEST drain_with_nothing_to_wait_for_returns_at_once(void)
{
    make(2);
    ASSERT_INT(0, weighted_sem_drain(&on.w, 0));
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, -1));
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

/* Which way the jobs end does not matter: the drain lasts until the last of them. */
TEST drain_lasts_until_the_last_job_ends(int n, bool backwards)
{
    weighted_sem_options options = {.total = (uint64_t)n, .expected_jobs = 1};
    ASSERT_INT(0, make_with(&options));
    for (int i = 0; i < n; i++) {
        ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[i]));
    }
    on.c[0] = (caller){.call = DRAIN};
    start_call(&on.c[0]);
    ASSERT(EVENTUALLY(peek_drains(&on.w) == 1));
    for (int i = 0; i < n; i++) {
        ASSERT_FALSE(atomic_load(&on.c[0].done));
        csem_release(&on.g[backwards ? n - 1 - i : i].exit);
        ASSERT(EVENTUALLY(weighted_sem_executing(&on.w) == (uint32_t)(n - 1 - i)));
        ASSERT_EQ((uint64_t)i + 1, weighted_sem_available(&on.w));
    }
    join_call(&on.c[0]);
    ASSERT_INT(0, on.c[0].error);
    ENDS_WELL();
}

/* However many drains there are, with a job started between any two. */
TEST drain_does_not_wait_for_later_jobs(void)
{
    enum { N = 40 };
    make(N + 1);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[i]));
        on.c[i] = (caller){.call = DRAIN};
        start_call(&on.c[i]);
        ASSERT(EVENTUALLY(peek_drains(&on.w) == (uint32_t)i + 1));
    }
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[N]));
    /* The second job ends first: that lets go nobody, */
    csem_release(&on.g[1].exit);
    ASSERT(EVENTUALLY(weighted_sem_executing(&on.w) == N));
    for (int i = 0; i < N; i++) {
        if (i != 1) {
            ASSERT_FALSE(atomic_load(&on.c[i].done));
            csem_release(&on.g[i].exit);
        } /* and then the end of the first lets go two. */
        join_call(&on.c[i]);
        ASSERT_INT(0, on.c[i].error);
    }
    ASSERT_EQ_FMT(1u, weighted_sem_executing(&on.w), "%u");
    csem_release(&on.g[N].exit);
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

TEST drains_without_jobs_in_between_end_together(void)
{
    make(2);
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, &on.job[0]));
    for (int i = 0; i < 30; i++) {
        on.c[i] = (caller){.call = i % 2 == 0 ? DRAIN : DRAIN_ALL};
        start_call(&on.c[i]);
    }
    ASSERT(EVENTUALLY(peek_drains(&on.w) == 15));
    ASSERT_INT(0, weighted_sem_complete(&on.w, 1, nothing, NULL, NULL));
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));
    join_calls(on.c, 30);
    ENDS_WELL();
}

/* A drain in the middle gives up: its jobs are those of the next one too, and no others are. */
TEST a_drain_that_gives_up_leaves_its_jobs_to_the_next(void)
{
    int64_t timeout_ns = PLIM_MS(2);
    for (bool waiting = false; !waiting;) {
        make(10);
        for (int i = 0; i < 3; i++) {
            ASSERT_INT(0, weighted_sem_begin(&on.w, 1, &on.job[i]));
            on.c[i] = (caller){.call = DRAIN, .timeout_ns = i == 1 ? timeout_ns : 0};
            start_call(&on.c[i]);
            waiting = EVENTUALLY(peek_drains(&on.w) == (uint32_t)i + 1 || is_done(&on.c[1], 1)) &&
                      !is_done(&on.c[1], 1);
        }
        ASSERT(waiting || again(&timeout_ns));
    }
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, &on.job[3]));
    join_call(&on.c[1]);
    ASSERT_INT(ETIMEDOUT, on.c[1].error);
    ASSERT_INT(0, weighted_sem_finish(&on.job[2], 0));
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));
    join_call(&on.c[0]);
    ASSERT(still_drains(&on.c[2], 1)); /* the second job goes on */
    ASSERT_INT(0, weighted_sem_finish(&on.job[1], 0));
    join_call(&on.c[2]);
    ASSERT_INT(0, weighted_sem_finish(&on.job[3], 0));
    ENDS_WELL();
}

TEST drain_may_time_out_and_be_called_again(void)
{
    make(1);
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[0]));
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain(&on.w, 0));
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain_all(&on.w, -1));
    int64_t before = plim_now_();
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain(&on.w, PLIM_MS(3)));
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain_all(&on.w, PLIM_MS(3)));
    ASSERT(plim_now_() - before >= PLIM_MS(6));
    csem_release(&on.g[0].exit);
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

/* The same often, each time with a new job. */
TEST drains_that_gave_up_leave_nothing_behind(void)
{
    enum { N = 40 };
    make(N);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, weighted_sem_begin(&on.w, 1, &on.job[i]));
        ASSERT_INT(ETIMEDOUT, weighted_sem_drain(&on.w, PLIM_US(20)));
    }
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, weighted_sem_finish(&on.job[(i * 7) % N], 0));
    }
    ASSERT_INT(0, weighted_sem_drain(&on.w, 0));
    ENDS_WELL();
}

/* A runs, B waits; whoever is let go by drain_all must have waited for B too. */
TEST drain_all_waits_for_those_who_wait(int rounds)
{
    make(1);
    for (int i = 0; i < rounds; i++) {
        on.c[0] = (caller){.call = DRAIN_ALL};
        ASSERT_INT(0, weighted_sem_start(&on.w, 1, count, &on.runs));
        if (i % 100 == 0) {
            start_call(&on.c[0]);
        }
        ASSERT_INT(0, weighted_sem_start(&on.w, 1, count, &on.runs));
        ASSERT_INT(0, weighted_sem_start(&on.w, 1, count, &on.runs));
        ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
        ASSERT_INT(3 * (i + 1), atomic_load(&on.runs));
        if (i % 100 == 0) {
            join_call(&on.c[0]);
        }
    }
    ENDS_WELL();
}

/* Nor do they cost anything afterwards: the fast way is open again, and later drains are exact. */
TEST a_drain_that_gave_up_is_forgotten(void)
{
    enum { N = 40 };
    weighted_sem_job *old = &on.job[0], *other = &on.job[1], *late = &on.job[2];
    make(10);
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, old));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, weighted_sem_begin(&on.w, 1, other));
        ASSERT_INT(ETIMEDOUT, weighted_sem_drain(&on.w, PLIM_US(20)));
        ASSERT_EQ(0, plim_load_relaxed_(&on.w.gate.word) & PLIM_WATCHED_);
        ASSERT_INT(0, weighted_sem_finish(other, 0));
    }
    on.c[0] = (caller){.call = DRAIN};
    start_call(&on.c[0]);
    ASSERT(EVENTUALLY(peek_drains(&on.w) == 1));
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, late));
    ASSERT_FALSE(atomic_load(&on.c[0].done));
    ASSERT_INT(0, weighted_sem_finish(old, 0)); /* from before all of them */
    join_call(&on.c[0]);
    ASSERT_INT(0, weighted_sem_finish(late, 0));
    ENDS_WELL();
}

/* One drain gives up, another sleeps on: that one must not be let go by it. */
TEST a_drain_that_gives_up_leaves_the_others(void)
{
    weighted_sem_job *first = &on.job[0], *second = &on.job[1];
    make(10);
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, first));
    on.c[0] = (caller){.call = DRAIN};
    start_call(&on.c[0]);
    ASSERT(EVENTUALLY(peek_drains(&on.w) == 1));
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, second));
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain(&on.w, PLIM_MS(1)));
    ASSERT_INT(0, weighted_sem_finish(second, 0));
    ASSERT(still_drains(&on.c[0], 1));
    ASSERT_INT(0, weighted_sem_finish(first, 0));
    join_call(&on.c[0]);
    ENDS_WELL();
}

TEST drain_all_covers_what_comes_after_the_call(void)
{
    enum { RUNNING = 4, LATER = 40 };
    make(RUNNING);
    for (int i = 0; i < RUNNING; i++) {
        ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[i]));
    }
    caller *drain = &on.c[LATER];
    drain->call = DRAIN_ALL;
    start_call(drain);
    ASSERT(EVENTUALLY(peek_first(&on.w, &on.w.quiet) != NULL));
    for (int i = 0; i < LATER; i++) {
        on.c[i] = (caller){.call = COMPLETE, .weight = 1 + (uint64_t)i % 4};
        on.c[i].fn = count;
        on.c[i].arg = &on.runs;
    }
    ASSERT(queue_up(on.c, LATER));
    ASSERT_FALSE(atomic_load(&drain->done));
    for (int i = 0; i < RUNNING; i++) {
        csem_release(&on.g[i].exit);
    }
    join_call(drain);
    ASSERT_INT((int)LATER, atomic_load(&on.runs));
    join_calls(on.c, LATER);
    ENDS_WELL();
}

/* Jobs that are started without end, one always beside the other, do not keep a drain. */
TEST drain_ends_although_jobs_keep_coming(void)
{
    make(2);
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[0]));
    on.c[0] = (caller){.call = DRAIN};
    start_call(&on.c[0]);
    ASSERT(EVENTUALLY(peek_drains(&on.w) == 1));
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[1]));
    csem_release(&on.g[0].exit);
    join_call(&on.c[0]); /* while the second is still inside */
    ASSERT_EQ_FMT(1u, weighted_sem_executing(&on.w), "%u");
    csem_release(&on.g[1].exit);
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

SUITE(weighted_sem_drains)
{
    ON_STAGE();
    RUN_TEST(drain_with_nothing_to_wait_for_returns_at_once);
    RUN_TESTp(drain_lasts_until_the_last_job_ends, 57, false);
    RUN_TESTp(drain_lasts_until_the_last_job_ends, 45, true);
    RUN_TEST(drain_does_not_wait_for_later_jobs);
    RUN_TEST(drains_without_jobs_in_between_end_together);
    RUN_TEST(a_drain_that_gives_up_leaves_its_jobs_to_the_next);
    RUN_TEST(drain_may_time_out_and_be_called_again);
    RUN_TEST(drains_that_gave_up_leave_nothing_behind);
    RUN_TEST(a_drain_that_gave_up_is_forgotten);
    RUN_TEST(a_drain_that_gives_up_leaves_the_others);
    RUN_TESTp(drain_all_waits_for_those_who_wait, 2000);
    RUN_TEST(drain_all_covers_what_comes_after_the_call);
    RUN_TEST(drain_ends_although_jobs_keep_coming);
}
