/* SPDX-License-Identifier: MIT
 *
 * Admission: how many run, how many wait, and that nobody comes in beyond that.
 */

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The matrix of Polly's tests: who runs, who waits and who is refused follows from three numbers,
 * at the start and after each end. */
TEST exactly_p_jobs_run_and_q_wait(int p, int q, int n)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, p, q > 0 ? q : PLIM_NONE));
    int accepted = least(n, p + q);
    for (int i = 0; i < n; i++) {
        ASSERT_INT(i < accepted ? 0 : EAGAIN, bulkhead_submit(&on.b, &on.g[i].job));
    }
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_INT(least(n, p), s.in_use);
    ASSERT_INT(p - least(n, p), s.available);
    ASSERT_INT(accepted - least(n, p), s.queued);
    ASSERT_U64(accepted, s.accepted);
    ASSERT_U64(n - accepted, s.rejected);
    for (int i = 0; i < accepted; i++) {
        ASSERT(has_entered(&on.g[i]));
        let_go(&on.g[i]);
        ASSERT(is_done(&on.g[i]));
        int left = accepted - i - 1;
        ASSERT_FIGURES(&on.b, least(left, p), left - least(left, p));
    }
    s = bulkhead_snapshot(&on.b);
    ASSERT_U64(accepted, s.succeeded);
    ASSERT(s.workers <= (uint32_t)p);
    ASSERT_INT(least(n, p), s.peak_in_use);
    ASSERT_INT(accepted - least(n, p), s.peak_queued);
    for (int i = accepted; i < n; i++) {
        ASSERT_INT(0, atomic_load(&on.g[i].runs));
        ASSERT_INT(0, atomic_load(&on.g[i].dones));
    }
    ENDS_WELL();
}

/* The same with callers on their own threads; type is that of the bulkhead. */
TEST exactly_p_callers_enter_and_q_wait(int type, int how, int p, int q, int n)
{
    ASSERT(make(&on.b, type, p, q > 0 ? q : PLIM_NONE));
    int accepted = least(n, p + q);
    for (int i = 0; i < n; i++) {
        on.c[i] = (caller){.call = how, .gate = &on.g[i]};
        start_call(&on.c[i]);
        ASSERT(EVENTUALLY(in_use(&on.b) == (uint32_t)least(i + 1, p) &&
                          queued(&on.b) == (uint32_t)(least(i + 1, p + q) - least(i + 1, p))));
        if (i >= accepted) {
            ASSERT(finished(&on.c[i]));
            ASSERT_INT(EAGAIN, on.c[i].error);
        }
    }
    ASSERT_U64(n - accepted, bulkhead_snapshot(&on.b).rejected);
    for (int i = 0; i < accepted; i++) {
        ASSERT(has_entered(&on.g[i]));
        let_go(&on.g[i]);
        ASSERT(finished(&on.c[i]));
        ASSERT_INT(0, on.c[i].error);
        int left = accepted - i - 1;
        ASSERT_FIGURES(&on.b, least(left, p), left - least(left, p));
    }
    ENDS_WELL();
}

TEST as_many_as_fit_are_never_refused_and_the_next_always_is(void)
{
    enum { P = 3, Q = 5 };
    ASSERT(make(&on.b, BULKHEAD_ASYNC, P, Q));
    for (int round = scaled(500); round > 0; round--) {
        gates_init(on.g, P + Q + 1);
        for (int i = 0; i < P + Q; i++) {
            ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
        }
        ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.g[P + Q].job));
        let_all_go(on.g, P + Q);
        for (int i = 0; i < P + Q; i++) {
            ASSERT(is_done(&on.g[i]));
        }
    }
    ENDS_WELL();
}

static void note_inside(crowd *c)
{
    int now = atomic_fetch_add(&c->inside, 1) + 1;
    int most = atomic_load(&c->most);
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now)) {}
}

static plim_thread_result submit_once(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    wait_for_go(c);
    int error = bulkhead_submit(&on.b, &on.g[m->number].job);
    atomic_fetch_add(error == 0 ? &c->accepted : error == EAGAIN ? &c->refused : &c->odd, 1);
    return 0;
}

/* Even ones submit, odd ones enter: one decision for both. */
static plim_thread_result submit_or_enter_once(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    gate *g = &on.g[m->number];
    wait_for_go(c);
    int error = m->number % 2 == 0 ? bulkhead_submit(&on.b, &g->job) : bulkhead_enter(&on.b);
    atomic_fetch_add(error == 0 ? &c->accepted : error == EAGAIN ? &c->refused : &c->odd, 1);
    if (error == 0 && m->number % 2 == 1) {
        pass(g);
        bulkhead_leave(&on.b);
    }
    return 0;
}

TEST the_bound_is_exact_from_many_threads(plim_thread_result (*run)(void *))
{
    enum { P = 3, Q = 4, N = 16 };
    for (int round = scaled(60); round > 0; round--) {
        on.crowd = (crowd){0};
        gates_init(on.g, N);
        ASSERT(make(&on.b, BULKHEAD_ASYNC, P, Q));
        gather(N, run);
        /* Callers that wait do not count before they are let in, so look at the figures. */
        ASSERT(EVENTUALLY(in_use(&on.b) == P && queued(&on.b) == Q &&
                          atomic_load(&on.crowd.refused) == N - P - Q));
        ASSERT_U64(N - P - Q, bulkhead_snapshot(&on.b).rejected);
        let_all_go(on.g, N);
        disperse();
        ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
        ASSERT_INT(P + Q, atomic_load(&on.crowd.accepted));
        ASSERT_INT(N - P - Q, atomic_load(&on.crowd.refused));
        ASSERT_INT(0, atomic_load(&on.crowd.odd));
        ASSERT_ENDS_WELL();
    }
    PASS();
}

static plim_thread_result try_once(void *arg)
{
    crowd *c = ((member *)arg)->crowd;
    wait_for_go(c);
    int error = bulkhead_try_enter(&on.b);
    atomic_fetch_add(error == 0 ? &c->accepted : error == EAGAIN ? &c->refused : &c->odd, 1);
    return 0;
}

TEST one_permit_is_taken_by_exactly_one_of_many_tries(int type)
{
    enum { N = 10 };
    ASSERT(make(&on.b, type, 1, 0));
    for (int round = scaled(100); round > 0; round--) {
        on.crowd = (crowd){0};
        gather(N, try_once);
        disperse();
        ASSERT_INT(1, atomic_load(&on.crowd.accepted));
        ASSERT_INT(N - 1, atomic_load(&on.crowd.refused));
        ASSERT_INT(1, in_use(&on.b));
        ASSERT_INT(0, bulkhead_leave(&on.b));
        ASSERT_INT(0, in_use(&on.b));
    }
    ENDS_WELL();
}

static int be_inside(void *arg)
{
    crowd *c = arg;
    note_inside(c);
    plim_thread_yield_();
    atomic_fetch_sub(&c->inside, 1);
    return 0;
}

static plim_thread_result hammer(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    uint64_t random = (uint64_t)m->number + 1;
    wait_for_go(c);
    for (int i = 0; i < c->rounds; i++) {
        int error;
        switch (c->kind >= 0 ? (uint64_t)c->kind : next_random(&random) % 4) {
        case 0:
            error = bulkhead_enter(&on.b);
            break;
        case 1:
            error = bulkhead_try_enter(&on.b);
            break;
        case 2:
            error = bulkhead_enter_for(&on.b, PLIM_US(50));
            break;
        default:
            error = bulkhead_invoke(&on.b, be_inside, c, NULL);
            atomic_fetch_add(error == 0 ? &c->accepted : &c->refused, 1);
            continue;
        }
        if (error == 0) {
            be_inside(c);
            if (bulkhead_leave(&on.b) != 0) {
                atomic_fetch_add(&c->wrong, 1);
            }
        }
        atomic_fetch_add(error == 0 ? &c->accepted : &c->refused, 1);
    }
    return 0;
}

TEST never_more_than_the_permits_are_inside(int type, uint32_t flags, int threads, int permits,
                                            int rounds)
{
    bulkhead_options options = {.type = type, .permits = permits, .flags = flags | BULKHEAD_STATS};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.crowd = (crowd){.rounds = scaled(rounds), .kind = -1};
    gather(threads, hammer);
    disperse();
    ASSERT(atomic_load(&on.crowd.most) <= permits);
    ASSERT_INT(0, atomic_load(&on.crowd.inside));
    ASSERT_INT(0, atomic_load(&on.crowd.wrong));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_INT(0, s.in_use);
    ASSERT_INT(0, s.queued);
    ASSERT(s.peak_in_use <= (uint32_t)permits);
    ASSERT_U64(atomic_load(&on.crowd.refused), s.rejected);
    ENDS_UNCOUNTED();
}

TEST bulkheads_do_not_share_permits(void)
{
    ASSERT(make(&on.other, BULKHEAD_SYNC, 3, 0));
    ASSERT(make(&on.b, BULKHEAD_SYNC, 1, 0));
    for (int i = 0; i < 6; i++) {
        ASSERT_INT(i < 3 ? 0 : EAGAIN, bulkhead_try_enter(&on.other));
    }
    ASSERT_INT(0, bulkhead_try_enter(&on.b));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_U64(3, bulkhead_snapshot(&on.other).rejected);
    ASSERT_U64(1, bulkhead_snapshot(&on.b).rejected);
    ASSERT_INT(0, bulkhead_leave(&on.b));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_leave(&on.other));
    }
    /* The end of one is nothing to the other. */
    ASSERT_INT(0, bulkhead_close(&on.other, BULKHEAD_ABORT, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, unmake(&on.other));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

TEST thirty_jobs_over_ten_permits_all_end(void)
{
    enum { N = 30 };
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 10, 20));
    for (int i = 0; i < N; i++) {
        on.job[i] = (bulkhead_job){.run = run_count, .arg = &on.ran};
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[i]));
    }
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, bulkhead_wait(&on.job[i], PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[i].outcome);
    }
    ASSERT_INT(N, atomic_load(&on.ran));
    ENDS_WELL();
}

TEST without_a_queue_nobody_waits(int type)
{
    ASSERT(make(&on.b, type, 2, PLIM_NONE));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(0, bulkhead_enter(&on.b));
    ASSERT_INT(EAGAIN, bulkhead_enter_for(&on.b, PLIM_FOREVER));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(EAGAIN, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_INT(0, s.queue);
    ASSERT_INT(0, s.queued);
    ASSERT_INT(0, s.available);
    ASSERT_U64(3, s.rejected);
    if (type == BULKHEAD_ASYNC) {
        on.job[0] = (bulkhead_job){.run = run_nothing};
        ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.job[0]));
        ASSERT_INT(0, bulkhead_leave(&on.b));
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
        ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    } else {
        ASSERT_INT(0, bulkhead_leave(&on.b));
    }
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

TEST tries_take_what_is_free_and_leave_gives_back(void)
{
    ASSERT(make(&on.b, BULKHEAD_SYNC, 2, 0));
    ASSERT_INT(0, bulkhead_try_enter(&on.b));
    ASSERT_INT(0, bulkhead_try_enter(&on.b));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT_INT(1, bulkhead_snapshot(&on.b).available);
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT_INT(2, bulkhead_snapshot(&on.b).available);
    ASSERT_INT(0, bulkhead_try_enter(&on.b));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ENDS_WELL();
}

TEST without_permits_nobody_enters_until_a_resize(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, PLIM_NONE, 8));
    ASSERT_INT(0, bulkhead_snapshot(&on.b).permits);
    ASSERT_INT(0, bulkhead_snapshot(&on.b).available);
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&on.b, PLIM_MS(5)));
    ASSERT_INT(ETIMEDOUT, bulkhead_enter_for(&on.b, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    on.c[0] = (caller){.call = ENTER, .gate = &on.g[2]};
    ASSERT(queue_up(&on.c[0], 1));
    ASSERT_FIGURES(&on.b, 0, 3);
    ASSERT_INT(0, bulkhead_resize(&on.b, 2, 8));
    ASSERT_FIGURES(&on.b, 2, 1);
    ASSERT(has_entered(&on.g[0]));
    ASSERT(has_entered(&on.g[1]));
    let_go(&on.g[1]);
    ASSERT(has_entered(&on.g[2]));
    ASSERT_INT(0, bulkhead_resize(&on.b, PLIM_NONE, 8));
    ASSERT_FIGURES(&on.b, 2, 0);
    let_all_go(on.g, 3);
    ASSERT(finished(&on.c[0]));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ENDS_WELL();
}

SUITE(admission_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 1, 2, 4);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 5, 0, 3);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 16, 0, 3);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 3, 0, 4);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 3, 1, 5);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 6, 3, 9);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 5, 3, 8);
    RUN_TESTp(exactly_p_jobs_run_and_q_wait, 1, 6, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, ENTER, 3, 0, 4);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, ENTER, 3, 1, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, ENTER, 6, 3, 9);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, ENTER, 1, 6, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, ENTER, 3, 0, 4);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, ENTER, 3, 1, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, ENTER, 6, 3, 9);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, ENTER, 1, 6, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, INVOKE, 3, 0, 4);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, INVOKE, 3, 1, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, INVOKE, 6, 3, 9);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_SYNC, INVOKE, 1, 6, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, INVOKE, 3, 0, 4);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, INVOKE, 3, 1, 5);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, INVOKE, 6, 3, 9);
    RUN_TESTp(exactly_p_callers_enter_and_q_wait, BULKHEAD_ASYNC, INVOKE, 1, 6, 5);
    RUN_TEST(as_many_as_fit_are_never_refused_and_the_next_always_is);
    RUN_TESTp(the_bound_is_exact_from_many_threads, submit_once);
    RUN_TESTp(the_bound_is_exact_from_many_threads, submit_or_enter_once);
    RUN_TESTp(one_permit_is_taken_by_exactly_one_of_many_tries, BULKHEAD_SYNC);
    RUN_TESTp(one_permit_is_taken_by_exactly_one_of_many_tries, BULKHEAD_ASYNC);
    RUN_TESTp(never_more_than_the_permits_are_inside, BULKHEAD_SYNC, 0, 64, 10, 200);
    RUN_TESTp(never_more_than_the_permits_are_inside, BULKHEAD_SYNC, BULKHEAD_UNFAIR, 64, 10, 200);
    RUN_TESTp(never_more_than_the_permits_are_inside, BULKHEAD_ASYNC, 0, 16, 3, 200);
    RUN_TESTp(never_more_than_the_permits_are_inside, BULKHEAD_ASYNC,
              BULKHEAD_UNFAIR | BULKHEAD_INLINE, 16, 3, 200);
    RUN_TESTp(never_more_than_the_permits_are_inside, BULKHEAD_SYNC, BULKHEAD_TIMINGS, 8, 2, 500);
    RUN_TEST(bulkheads_do_not_share_permits);
    RUN_TEST(thirty_jobs_over_ten_permits_all_end);
    RUN_TESTp(without_a_queue_nobody_waits, BULKHEAD_SYNC);
    RUN_TESTp(without_a_queue_nobody_waits, BULKHEAD_ASYNC);
    RUN_TEST(tries_take_what_is_free_and_leave_gives_back);
    RUN_TEST(without_permits_nobody_enters_until_a_resize);
}
