/* SPDX-License-Identifier: MIT
 *
 * The order in which callers are let in, also past a heavy one and when the total changes.
 */

/* ---- order ---- */

TEST starts_happen_in_the_order_of_calls(void)
{
    enum { N = 60 };
    uint64_t seed = 4711;
    make(31);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 31));
    for (int i = 0; i < N; i++) {
        on.c[i] = (caller){.call = i % 2 == 0 ? COMPLETE : START, .fn = pass, .arg = &on.g[i]};
        on.c[i].weight = next_random(&seed) % 31 + 1;
    }
    ASSERT(queue_up(on.c, N));
    ASSERT_INT(0, weighted_sem_release(&on.w, 31));
    int entered = 0;
    uint64_t inside = 0;
    for (int ended = 0; ended < N; ended++) {
        while (entered < N && inside + on.c[entered].weight <= 31) {
            inside += on.c[entered].weight;
            csem_acquire(&on.g[entered++].entered); /* in that very order, and as soon as it fits */
        }
        /* a job counts before it gives back */
        ASSERT(EVENTUALLY(weighted_sem_available(&on.w) == 31 - inside));
        ASSERT_EQ_FMT((uint32_t)(N - entered), weighted_sem_waiting(&on.w), "%u");
        csem_release(&on.g[ended].exit);
        inside -= on.c[ended].weight;
        ASSERT(EVENTUALLY(weighted_sem_snapshot(&on.w).completed == (uint64_t)ended + 1));
    }
    join_calls(on.c, N);
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

TEST one_end_may_let_in_several(void)
{
    make(2);
    on.c[0] = on.c[1] = (caller){.call = ACQUIRE, .weight = 1};
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 2));
    ASSERT(queue_up(on.c, 2));
    ASSERT_INT(0, weighted_sem_release(&on.w, 2));
    join_calls(on.c, 2);
    ASSERT_INT(0, on.c[0].error + on.c[1].error);
    ASSERT_EQ(0, weighted_sem_available(&on.w));
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ENDS_WELL();
}

/* A heavy one waits; light ones pass it until its budget is spent, and no further. */
TEST bypass_is_bounded_by_its_budget(uint32_t budget)
{
    weighted_sem_options options = {.total = 8, .bypass_window = 3, .bypass_budget = budget};
    ASSERT_INT(0, make_with(&options));
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 4));
    caller *heavy = &on.c[0];
    *heavy = (caller){.call = ACQUIRE, .weight = 8};
    ASSERT(queue_up(heavy, 1));
    uint64_t passed = 0;
    while (weighted_sem_try_acquire(&on.w, 3) == 0) {
        passed += 3;
        ASSERT_INT(0, weighted_sem_release(&on.w, 3));
        ASSERT_FALSE(atomic_load(&heavy->done));
    }
    ASSERT_EQ(8 * budget / 3 * 3, passed);
    if (8 * budget - passed >= 1) {
        ASSERT_INT(0, weighted_sem_acquire_for(&on.w, 8 * budget - passed, PLIM_S(1)));
        ASSERT_INT(0, weighted_sem_release(&on.w, 8 * budget - passed));
    }
    ASSERT_INT(EAGAIN, weighted_sem_try_acquire(&on.w, 1));
    ASSERT_INT(0, weighted_sem_release(&on.w, 4));
    join_call(heavy);
    ASSERT_INT(0, heavy->error);
    /* The next in its place has a budget of its own. */
    start_call(heavy);
    ASSERT(EVENTUALLY(weighted_sem_waiting(&on.w) == 1));
    ASSERT_INT(0, weighted_sem_release(&on.w, 8));
    join_call(heavy);
    ASSERT_INT(0, weighted_sem_release(&on.w, 8));
    ENDS_WELL();
}

TEST bypass_is_bounded_by_its_window(void)
{
    weighted_sem_options options = {.total = 8, .bypass_window = 2, .bypass_budget = 4};
    ASSERT_INT(0, make_with(&options));
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 5));
    for (int i = 0; i < 4; i++) {
        on.c[i] = (caller){.call = ACQUIRE, .weight = i == 3 ? 1 : 6};
    }
    /* 3 are free: the last would fit, but is 3 places behind the first */
    ASSERT(queue_up(on.c, 4));
    ASSERT_INT(EAGAIN, weighted_sem_try_acquire(&on.w, 1));
    ASSERT_INT(0, weighted_sem_release(&on.w, 5)); /* the first goes in, the last bypasses */
    join_call(&on.c[0]);
    join_call(&on.c[3]);
    ASSERT_EQ_FMT(2u, weighted_sem_waiting(&on.w), "%u");
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ASSERT_INT(0, weighted_sem_release(&on.w, 6));
    join_call(&on.c[1]);
    ASSERT_INT(0, weighted_sem_release(&on.w, 6));
    join_call(&on.c[2]);
    ASSERT_INT(0, weighted_sem_release(&on.w, 6));
    ENDS_WELL();
}

TEST a_huge_budget_is_no_small_one(void)
{
    weighted_sem_options options = {.total = (uint64_t)1 << 35, .bypass_window = 1};
    options.bypass_budget = (uint32_t)1 << 30;
    ASSERT_INT(0, make_with(&options));
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 1));
    on.c[0] = (caller){.call = ACQUIRE, .weight = options.total};
    ASSERT(queue_up(on.c, 1));
    ASSERT_INT(0, weighted_sem_try_acquire(&on.w, 5));
    ASSERT_INT(0, weighted_sem_release(&on.w, 5));
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    join_call(&on.c[0]);
    ASSERT_INT(0, weighted_sem_release(&on.w, options.total));
    ENDS_WELL();
}

/* A head that gives up takes its spent budget along, even if the next stands at the same address. */
TEST a_new_head_has_a_new_budget(void)
{
    weighted_sem_options options = {.total = 4, .bypass_window = 1, .bypass_budget = 1};
    ASSERT_INT(0, make_with(&options));
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 2));
    int64_t timeout_ns = PLIM_MS(2);
    for (int i = 0; i < 3;) {
        on.c[0] = (caller){.call = ACQUIRE, .weight = 4, .timeout_ns = timeout_ns};
        bool waits = queue_up(on.c, 1);
        int passed = 0;
        while (waits && passed <= 4 && weighted_sem_try_acquire(&on.w, 1) == 0) {
            passed++;
            ASSERT_INT(0, weighted_sem_release(&on.w, 1));
        }
        join_call(&on.c[0]);
        ASSERT_INT(ETIMEDOUT, on.c[0].error);
        if (!waits || passed > 4) { /* it gave up too soon to tell: once more, with more time */
            timeout_ns *= 4;
            ASSERT(timeout_ns < PLIM_S(PATIENCE_S));
        } else {
            ASSERT_INT(4, passed);
            i++;
        }
    }
    ASSERT_INT(0, weighted_sem_release(&on.w, 2));
    ENDS_WELL();
}

/* ---- resize ---- */

TEST a_larger_total_lets_in_who_fits(void)
{
    make(4);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 4));
    for (int i = 0; i < 3; i++) {
        on.c[i] = (caller){.call = ACQUIRE, .weight = (uint64_t)1 << i};
    }
    ASSERT(queue_up(on.c, 3));
    ASSERT_INT(0, weighted_sem_resize(&on.w, 7));
    join_calls(on.c, 2);
    ASSERT_EQ_FMT(1u, weighted_sem_waiting(&on.w), "%u");
    ASSERT_EQ(0, weighted_sem_available(&on.w));
    ASSERT_INT(0, weighted_sem_release(&on.w, 4));
    join_call(&on.c[2]);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, weighted_sem_release(&on.w, on.c[i].weight));
    }
    ASSERT_EQ(7, weighted_sem_available(&on.w));
    ENDS_WELL();
}

TEST a_smaller_total_takes_effect_as_jobs_end(void)
{
    make(10);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 5));
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 3));
    ASSERT_INT(0, weighted_sem_resize(&on.w, 4));
    weighted_sem_stats s = weighted_sem_snapshot(&on.w);
    ASSERT_EQ(4, s.total);
    ASSERT_EQ(0, s.available);
    ASSERT_EQ_FMT(0u, s.executing, "%u");
    ASSERT_INT(EAGAIN, weighted_sem_try_acquire(&on.w, 1));
    ASSERT_INT(ERANGE, weighted_sem_try_acquire(&on.w, 5));
    on.c[0] = (caller){.call = ACQUIRE, .weight = 2};
    ASSERT(queue_up(on.c, 1));
    ASSERT_INT(0, weighted_sem_release(&on.w, 5)); /* 3 are taken of 4 */
    ASSERT_EQ_FMT(1u, weighted_sem_waiting(&on.w), "%u");
    ASSERT_EQ(1, weighted_sem_available(&on.w));
    ASSERT_INT(0, weighted_sem_release(&on.w, 3));
    join_call(&on.c[0]);
    ASSERT_INT(0, weighted_sem_release(&on.w, 2));
    ENDS_WELL();
}

TEST a_waiter_above_the_new_total_is_sent_away(void)
{
    const uint64_t weight[] = {6, 9, 2, 7};
    make(10);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 5));
    for (int i = 0; i < 4; i++) {
        on.c[i] = (caller){.call = i, .weight = weight[i], .fn = nothing};
    }
    ASSERT(queue_up(on.c, 4));
    ASSERT_INT(EINVAL, weighted_sem_resize(&on.w, 0));
    ASSERT_INT(EINVAL, weighted_sem_resize(&on.w, WEIGHTED_SEM_MAX + 1));
    ASSERT_EQ_FMT(4u, weighted_sem_waiting(&on.w), "%u");
    ASSERT_INT(0, weighted_sem_resize(&on.w, 7)); /* the 9 goes; the 6 still has to wait */
    join_call(&on.c[1]);
    ASSERT_INT(ERANGE, on.c[1].error);
    ASSERT_EQ_FMT(3u, weighted_sem_waiting(&on.w), "%u");
    ASSERT_INT(0, weighted_sem_resize(&on.w, 5));
    join_call(&on.c[0]);
    join_call(&on.c[3]);
    ASSERT_INT(ERANGE, on.c[0].error);
    ASSERT_INT(ERANGE, on.c[3].error);
    ASSERT_EQ_FMT(1u, weighted_sem_waiting(&on.w), "%u"); /* the 2: there is nothing free */
    ASSERT_INT(0, weighted_sem_resize(&on.w, 8));
    join_call(&on.c[2]);
    ASSERT_INT(0, on.c[2].error);
    ASSERT_INT(0, weighted_sem_release(&on.w, 5));
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

SUITE(weighted_sem_order)
{
    ON_STAGE();
    RUN_TEST(starts_happen_in_the_order_of_calls);
    RUN_TEST(one_end_may_let_in_several);
    RUN_TESTp(bypass_is_bounded_by_its_budget, 1);
    RUN_TESTp(bypass_is_bounded_by_its_budget, 4);
    RUN_TEST(bypass_is_bounded_by_its_window);
    RUN_TEST(a_huge_budget_is_no_small_one);
    RUN_TEST(a_new_head_has_a_new_budget);
    RUN_TEST(a_larger_total_lets_in_who_fits);
    RUN_TEST(a_smaller_total_takes_effect_as_jobs_end);
    RUN_TEST(a_waiter_above_the_new_total_is_sent_away);
}
