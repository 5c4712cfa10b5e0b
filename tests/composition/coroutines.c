/* SPDX-License-Identifier: MIT
 *
 * Coroutines that wait for the permits of bulkheads, for jobs, and for each other. The test's
 * thread runs the loop, turn by turn, if nothing else is said.
 */

enum { GUESTS = 6 };

/* A coroutine that enters, stays until it is let go, and leaves. */
typedef struct guest {
    loop_scheduler_coroutine co;
    int64_t timeout_ns;         /* 0: as the bulkhead says */
    int entered, left;          /* 1 + status of LOOP_ENTER; 1 + what LOOP_LEAVE returned */
    int result;                 /* of the coroutine after LOOP_ENTER */
    int again;                  /* 1 + status of a second LOOP_ENTER, if `twice` */
    bool twice, stays, forgets; /* enters twice; waits for `go`; does not leave */
    int dones;
} guest;

static struct {
    guest g[GUESTS];
    loop_scheduler_event go;
    int inside, most; /* now, at most */
    char order[64];   /* in which they entered */
} inn;

static void guest_done(loop_scheduler_coroutine *co)
{
    ((guest *)co->arg)->dones++;
}

static void visit(loop_scheduler_coroutine *co)
{
    guest *g = co->arg;
    LOOP_BEGIN(co);
    if (g->timeout_ns != 0) {
        LOOP_ENTER_FOR(co, &on.b[0], g->timeout_ns);
    } else {
        LOOP_ENTER(co, &on.b[0]);
    }
    g->entered = 1 + co->status;
    g->result = co->result;
    if (co->status != 0) {
        LOOP_EXIT(co);
    }
    inn.inside++;
    inn.most = inn.inside > inn.most ? inn.inside : inn.most;
    inn.order[strlen(inn.order)] = (char)('0' + (g - inn.g));
    if (g->stays) {
        LOOP_AWAIT(co, &inn.go);
    }
    if (g->twice) {
        LOOP_ENTER(co, &on.b[0]);
        g->again = 1 + co->status;
        if (co->status == 0) {
            LOOP_LEAVE(co, &on.b[0]);
        }
    }
    inn.inside--;
    if (!g->forgets) {
        g->left = 1 + LOOP_LEAVE(co, &on.b[0]);
    }
    LOOP_END(co);
}

/* The loop, run by the test's thread, and a bulkhead. */
static bool open_inn(const bulkhead_options *options)
{
    memset((void *)&inn, 0, sizeof inn);
    clear_for_next(NULL);
    on.has_l = loop_scheduler_init(&on.l, NULL) == 0;
    return on.has_l && stage_bulkhead(0, options) == 0;
}

static bool open_inn_for(int32_t permits, int32_t queue)
{
    bulkhead_options options = {.permits = permits, .queue = queue};
    return open_inn(&options);
}

static int arrive(int i)
{
    guest *g = &inn.g[i];
    g->co.run = visit;
    g->co.arg = g;
    g->co.done = guest_done;
    return loop_scheduler_spawn(&on.l, &g->co);
}

static void run_turns(void)
{
    while (loop_scheduler_poll(&on.l) == 0) {}
}

/* Runs the loop until that many guests have come to their end. */
static bool run_until_done(int guests)
{
    const int64_t deadline = plim_now_() + PLIM_S(PATIENCE_S);
    for (;;) {
        int dones = 0;
        for (int i = 0; i < GUESTS; i++) {
            dones += inn.g[i].dones;
        }
        if (dones >= guests || plim_now_() > deadline) {
            return dones == guests;
        }
        (void)loop_scheduler_run_once(&on.l, PLIM_MS(100));
    }
}

static bool all_left(void)
{
    bulkhead_stats s = bulkhead_snapshot(&on.b[0]);
    return s.in_use == 0 && s.queued == 0 && loop_scheduler_snapshot(&on.l).suspended == 0;
}

/* ---- permits ---- */

TEST a_free_permit_is_had_without_a_turn(void)
{
    ASSERT(open_inn_for(1, PLIM_NONE));
    ASSERT_EQ(0, arrive(0));
    ASSERT_EQ(0, loop_scheduler_poll(&on.l));
    ASSERT_EQ_FMT(1, inn.g[0].entered, "%d");
    ASSERT_EQ_FMT(1, inn.g[0].left, "%d");
    ASSERT_EQ_FMT(0, inn.g[0].result, "%d");
    ASSERT_EQ(1, inn.g[0].dones);
    ASSERT(all_left());
    ENDS_WELL();
}

TEST coroutines_wait_in_the_order_in_which_they_came(void)
{
    ASSERT(open_inn_for(2, 0));
    for (int i = 0; i < GUESTS; i++) {
        inn.g[i].stays = true;
        ASSERT_EQ(0, arrive(i));
    }
    run_turns();
    ASSERT_STR_EQ("01", inn.order);
    ASSERT_EQ_FMT(4u, bulkhead_snapshot(&on.b[0]).queued, "%u");
    ASSERT_EQ_FMT(4u + 2u, loop_scheduler_snapshot(&on.l).suspended, "%u");
    loop_scheduler_event_set(&inn.go);
    run_turns();
    ASSERT_STR_EQ("012345", inn.order);
    ASSERT_EQ_FMT(2, inn.most, "%d");
    ASSERT_EQ_FMT(2u, bulkhead_snapshot(&on.b[0]).peak_in_use, "%u");
    ASSERT(all_left());
    ENDS_WELL();
}

TEST a_full_bulkhead_refuses_a_coroutine(void)
{
    ASSERT(open_inn_for(1, PLIM_NONE));
    inn.g[0].stays = true;
    ASSERT_EQ(0, arrive(0));
    ASSERT_EQ(0, arrive(1));
    run_turns();
    ASSERT_EQ_FMT(1 + EAGAIN, inn.g[1].entered, "%d");
    ASSERT_EQ_FMT(-EAGAIN, inn.g[1].result, "%d");
    ASSERT_EQ(1, inn.g[1].dones);
    ASSERT_EQ_FMT((uint64_t)1, bulkhead_snapshot(&on.b[0]).rejected, "%" PRIu64);
    loop_scheduler_event_set(&inn.go);
    run_turns();
    ASSERT(all_left());
    ENDS_WELL();
}

TEST a_coroutine_waits_as_long_as_it_may(bool by_option)
{
    bulkhead_options options = {.permits = 1, .timeout_ns = by_option ? PLIM_MS(3) : 0};
    ASSERT(open_inn(&options));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    inn.g[0].timeout_ns = by_option ? 0 : PLIM_MS(3);
    ASSERT_EQ(0, arrive(0));
    int64_t began = plim_now_();
    ASSERT(run_until_done(1));
    ASSERT(plim_now_() - began >= PLIM_MS(3));
    ASSERT_EQ_FMT(1 + ETIMEDOUT, inn.g[0].entered, "%d");
    ASSERT_EQ_FMT(-ETIMEDOUT, inn.g[0].result, "%d");
    ASSERT_EQ_FMT((uint64_t)1, bulkhead_snapshot(&on.b[0]).rejected, "%" PRIu64);
    ASSERT_EQ_FMT(0u, bulkhead_snapshot(&on.b[0]).queued, "%u");
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ASSERT_EQ_FMT(0u, loop_scheduler_snapshot(&on.l).timers, "%u");
    ASSERT(all_left());
    ENDS_WELL();
}

TEST a_coroutine_without_time_does_not_wait(void)
{
    bulkhead_options options = {.permits = 1, .timeout_ns = PLIM_NONE};
    ASSERT(open_inn(&options));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    inn.g[1].timeout_ns = -1;
    ASSERT_EQ(0, arrive(0));
    ASSERT_EQ(0, arrive(1));
    run_turns();
    ASSERT_EQ_FMT(1 + EAGAIN, inn.g[0].entered, "%d");
    ASSERT_EQ_FMT(1 + ETIMEDOUT, inn.g[1].entered, "%d");
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ENDS_WELL();
}

static plim_thread_result enter_and_leave(void *arg)
{
    (void)arg;
    on.outer = 1 + bulkhead_enter(&on.b[0]);
    inn.order[strlen(inn.order)] = 't';
    on.inner = 1 + bulkhead_leave(&on.b[0]);
    return (plim_thread_result)0;
}

TEST threads_and_coroutines_stand_in_one_line(bool thread_first)
{
    ASSERT(open_inn_for(1, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    for (uint32_t i = 0; i < 2; i++) {
        if ((i == 0) == thread_first) {
            start_helper(0, enter_and_leave, NULL);
        } else {
            ASSERT_EQ(0, arrive(0));
            run_turns();
        }
        while (bulkhead_snapshot(&on.b[0]).queued != i + 1) {
            plim_thread_yield_();
        }
    }
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    if (thread_first) {
        join_helpers();
        ASSERT(run_until_done(1));
    } else {
        ASSERT(run_until_done(1));
        join_helpers();
    }
    ASSERT_STR_EQ(thread_first ? "t0" : "0t", inn.order);
    ASSERT_EQ(1, on.outer);
    ASSERT_EQ(1, on.inner);
    ASSERT(all_left());
    ENDS_WELL();
}

TEST a_coroutine_that_waits_is_served_by_a_larger_limit(void)
{
    ASSERT(open_inn_for(1, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    ASSERT_EQ(0, arrive(0));
    run_turns();
    ASSERT_EQ(0, inn.g[0].entered);
    ASSERT_EQ(0, bulkhead_resize(&on.b[0], 2, PLIM_KEEP));
    run_turns();
    ASSERT_EQ_FMT(1, inn.g[0].left, "%d");
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ENDS_WELL();
}

TEST an_unfair_bulkhead_serves_a_coroutine_too(void)
{
    bulkhead_options options = {.permits = 1, .flags = BULKHEAD_UNFAIR};
    ASSERT(open_inn(&options));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    ASSERT_EQ(0, arrive(0));
    run_turns();
    ASSERT_EQ(0, inn.g[0].entered);
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ASSERT_EQ(EAGAIN, bulkhead_try_enter(&on.b[0])); /* it has its permit already */
    run_turns();
    ASSERT_EQ_FMT(1, inn.g[0].left, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

TEST what_coroutines_do_is_counted(void)
{
    bulkhead_options options = {.permits = 1, .flags = BULKHEAD_STATS | BULKHEAD_TIMINGS};
    ASSERT(open_inn(&options));
    for (int i = 0; i < 2; i++) {
        inn.g[i].stays = true;
        ASSERT_EQ(0, arrive(i));
    }
    run_turns();
    loop_scheduler_event_set(&inn.go);
    run_turns();
    bulkhead_stats s = bulkhead_snapshot(&on.b[0]);
    ASSERT_EQ_FMT((uint64_t)2, s.accepted, "%" PRIu64);
    ASSERT_EQ_FMT((uint64_t)2, s.succeeded, "%" PRIu64);
    ASSERT_EQ_FMT((uint64_t)2, s.wait.count, "%" PRIu64);
    ENDS_WELL();
}

TEST what_a_coroutine_has_not_entered_it_cannot_leave(void)
{
    ASSERT(open_inn_for(2, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    ASSERT_EQ(EPERM, LOOP_LEAVE(&inn.g[0].co, &on.b[0]));
    ASSERT_EQ(EPERM, LOOP_LEAVE(&inn.g[0].co, NULL));
    ASSERT_EQ_FMT(1u, bulkhead_snapshot(&on.b[0]).in_use, "%u");
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    ENDS_WELL();
}

TEST what_a_coroutine_has_at_its_end_it_gives_back(void)
{
    ASSERT(open_inn_for(1, 0));
    inn.g[0].forgets = true;
    ASSERT_EQ(0, arrive(0));
    ASSERT_EQ(0, arrive(1));
    run_turns();
    ASSERT_EQ_FMT(1, inn.g[1].left, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

static void take_five(loop_scheduler_coroutine *co)
{
    guest *g = co->arg;
    LOOP_BEGIN(co);
    for (g->again = 0; g->again < 5 && co->status == 0; g->again++) {
        LOOP_ENTER(co, &on.b[0]);
    }
    g->entered = 1 + co->status;
    g->result = co->result;
    LOOP_ENTER_FOR(co, &on.b[0], PLIM_FOREVER);
    g->again = co->status == EOVERFLOW ? g->again : -1;
    g->left = 1 + LOOP_LEAVE(co, &on.b[0]);
    LOOP_ENTER(co, &on.b[0]); /* there is room for one now */
    g->again = co->status == 0 ? g->again : -2;
    LOOP_END(co);
}

TEST a_fifth_permit_is_refused(void)
{
    ASSERT(open_inn_for(8, 0));
    inn.g[0].co = (loop_scheduler_coroutine){.run = take_five, .arg = &inn.g[0]};
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &inn.g[0].co));
    run_turns();
    ASSERT_EQ_FMT(5, inn.g[0].again, "%d");
    ASSERT_EQ_FMT(1 + EOVERFLOW, inn.g[0].entered, "%d");
    ASSERT_EQ_FMT(-EOVERFLOW, inn.g[0].result, "%d");
    ASSERT_EQ_FMT(1, inn.g[0].left, "%d");
    ASSERT_EQ_FMT((uint64_t)0, bulkhead_snapshot(&on.b[0]).rejected, "%" PRIu64);
    ASSERT(all_left());
    ENDS_WELL();
}

/* ---- circles ---- */

TEST a_coroutine_that_enters_twice_is_told(void)
{
    ASSERT(open_inn_for(1, 0));
    inn.g[0].twice = true;
    ASSERT_EQ(0, arrive(0));
    run_turns();
    ASSERT_EQ_FMT(1 + EDEADLK, inn.g[0].again, "%d");
    ASSERT_EQ_FMT(1, inn.g[0].left, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

TEST of_coroutines_that_have_all_permits_one_is_told(void)
{
    ASSERT(open_inn_for(2, 0));
    for (int i = 0; i < 2; i++) {
        inn.g[i].twice = inn.g[i].stays = true;
        ASSERT_EQ(0, arrive(i));
    }
    run_turns();
    loop_scheduler_event_set(&inn.go);
    run_turns();
    ASSERT_EQ_FMT(1, inn.g[0].again, "%d"); /* what the other one leaves */
    ASSERT_EQ_FMT(1 + EDEADLK, inn.g[1].again, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

/* Somebody else may leave: that is no circle. */
TEST a_coroutine_waits_beside_somebody_who_will_leave(void)
{
    ASSERT(open_inn_for(2, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    inn.g[0].twice = true;
    ASSERT_EQ(0, arrive(0));
    run_turns();
    ASSERT_EQ_FMT(0, inn.g[0].again, "%d");
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    run_turns();
    ASSERT_EQ_FMT(1, inn.g[0].again, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

typedef struct crosser {
    loop_scheduler_coroutine co;
    bulkhead *first, *second;
    int status; /* 1 + that of the second LOOP_ENTER */
} crosser;

static void cross(loop_scheduler_coroutine *co)
{
    crosser *c = co->arg;
    LOOP_BEGIN(co);
    LOOP_ENTER(co, c->first);
    LOOP_YIELD(co); /* until the other one has its first, too */
    LOOP_ENTER_FOR(co, c->second, PLIM_MS(1));
    c->status = 1 + co->status;
    LOOP_END(co);
}

/* A bulkhead looks at its own permits only: that is in docs/deadlocks.md, and the limit helps. */
TEST a_limit_ends_a_circle_over_two_bulkheads(void)
{
    static crosser c[2];
    ASSERT(open_inn_for(1, 0));
    ASSERT_EQ(0, stage_bulkhead(1, &(bulkhead_options){.permits = 1}));
    for (int i = 0; i < 2; i++) {
        c[i] = (crosser){.first = &on.b[i], .second = &on.b[1 - i]};
        c[i].co.run = cross;
        c[i].co.arg = &c[i];
        ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &c[i].co));
    }
    while (c[0].status == 0 || c[1].status == 0) {
        ASSERT(loop_scheduler_run_once(&on.l, PLIM_S(PATIENCE_S)) == 0);
    }
    const int given_up = (c[0].status == 1 + ETIMEDOUT) + (c[1].status == 1 + ETIMEDOUT);
    const int let_in = (c[0].status == 1) + (c[1].status == 1);
    ASSERT(given_up >= 1 && given_up + let_in == 2);
    ASSERT(all_left());
    ASSERT_EQ_FMT(0u, bulkhead_snapshot(&on.b[1]).in_use, "%u");
    ENDS_WELL();
}

/* A lower limit takes away what the last of them relied on. */
TEST a_shrink_that_closes_a_circle_is_told_to_a_coroutine(void)
{
    ASSERT(open_inn_for(3, 0));
    ASSERT_EQ(0, bulkhead_enter(&on.b[0]));
    for (int i = 0; i < 2; i++) {
        inn.g[i].twice = inn.g[i].stays = true;
        ASSERT_EQ(0, arrive(i));
    }
    run_turns();
    loop_scheduler_event_set(&inn.go);
    run_turns();
    ASSERT_EQ_FMT(0, inn.g[0].again + inn.g[1].again, "%d");
    ASSERT_EQ(0, bulkhead_resize(&on.b[0], 2, PLIM_KEEP));
    ASSERT_EQ(0, bulkhead_leave(&on.b[0]));
    run_turns();
    ASSERT_EQ_FMT(1, inn.g[0].again, "%d");
    ASSERT_EQ_FMT(1 + EDEADLK, inn.g[1].again, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

/* ---- many, from many threads ---- */

enum { CROWD = 64 };

typedef struct one {
    loop_scheduler_coroutine co;
    int rounds, entered, refused;
} one;

static struct {
    one ones[CROWD];
    atomic_int inside, most, dones;
} many;

static void come_and_go(loop_scheduler_coroutine *co)
{
    one *o = co->arg;
    LOOP_BEGIN(co);
    for (o->rounds = 0; o->rounds < 50; o->rounds++) {
        LOOP_ENTER_FOR(co, &on.b[0], o->rounds % 5 == 0 ? PLIM_US(20) : PLIM_FOREVER);
        if (co->status == 0) {
            o->entered++;
            raise_to(&many.most, atomic_fetch_add(&many.inside, 1) + 1);
            LOOP_YIELD(co);
            atomic_fetch_sub(&many.inside, 1);
            o->refused += LOOP_LEAVE(co, &on.b[0]) != 0;
        } else {
            o->refused += co->status != ETIMEDOUT;
        }
    }
    atomic_fetch_add(&many.dones, 1);
    LOOP_END(co);
}

static plim_thread_result come_and_go_too(void *arg)
{
    int *failed = arg;
    for (int i = 0; i < 2000; i++) {
        if (bulkhead_enter(&on.b[0]) == 0) {
            raise_to(&many.most, atomic_fetch_add(&many.inside, 1) + 1);
            atomic_fetch_sub(&many.inside, 1);
            *failed += bulkhead_leave(&on.b[0]) != 0;
        } else {
            ++*failed;
        }
    }
    return (plim_thread_result)0;
}

TEST threads_and_coroutines_never_exceed_the_permits(void)
{
    int failed[2] = {0, 0};
    memset((void *)&many, 0, sizeof many);
    clear_for_next(NULL);
    bulkhead_options options = {.permits = 3};
    ASSERT(stage_loop(0));
    ASSERT_EQ(0, stage_bulkhead(0, &options));
    start_helper(0, come_and_go_too, &failed[0]);
    start_helper(1, come_and_go_too, &failed[1]);
    for (int i = 0; i < CROWD; i++) {
        many.ones[i].co = (loop_scheduler_coroutine){.run = come_and_go, .arg = &many.ones[i]};
        ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &many.ones[i].co));
    }
    join_helpers();
    ASSERT_EQ(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(CROWD, atomic_load(&many.dones));
    ASSERT(atomic_load(&many.most) <= 3);
    for (int i = 0; i < CROWD; i++) {
        ASSERT_EQ_FMT(0, many.ones[i].refused, "%d");
        ASSERT(many.ones[i].entered >= 40); /* those without a limit */
    }
    ASSERT_EQ_FMT(0, failed[0] + failed[1], "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

SUITE(composition_coroutines)
{
    ON_STAGE();
    RUN_TEST(a_free_permit_is_had_without_a_turn);
    RUN_TEST(coroutines_wait_in_the_order_in_which_they_came);
    RUN_TEST(a_full_bulkhead_refuses_a_coroutine);
    for (int by_option = 0; by_option < 2; by_option++) {
        RUN_TESTp(a_coroutine_waits_as_long_as_it_may, by_option != 0);
    }
    RUN_TEST(a_coroutine_without_time_does_not_wait);
    for (int thread_first = 0; thread_first < 2; thread_first++) {
        RUN_TESTp(threads_and_coroutines_stand_in_one_line, thread_first != 0);
    }
    RUN_TEST(a_coroutine_that_waits_is_served_by_a_larger_limit);
    RUN_TEST(an_unfair_bulkhead_serves_a_coroutine_too);
    RUN_TEST(what_coroutines_do_is_counted);
    RUN_TEST(what_a_coroutine_has_not_entered_it_cannot_leave);
    RUN_TEST(what_a_coroutine_has_at_its_end_it_gives_back);
    RUN_TEST(a_fifth_permit_is_refused);
    RUN_TEST(a_coroutine_that_enters_twice_is_told);
    RUN_TEST(of_coroutines_that_have_all_permits_one_is_told);
    RUN_TEST(a_coroutine_waits_beside_somebody_who_will_leave);
    RUN_TEST(a_limit_ends_a_circle_over_two_bulkheads);
    RUN_TEST(a_shrink_that_closes_a_circle_is_told_to_a_coroutine);
    for (int how = 0; how < 2; how++) {}
    RUN_TEST(threads_and_coroutines_never_exceed_the_permits);
}
