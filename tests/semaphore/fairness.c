/* SPDX-License-Identifier: MIT
 *
 * How a wait ends otherwise: by close, or because the waiter has grown old.
 */

/* ---- close ---- */

TEST closed_means_closed(void)
{
    csem s;
    csem_init(&s, 5);
    ASSERT_EQ_FMT(0, csem_close(&s), "%d");
    ASSERT_EQ_FMT(5, csem_available(&s), "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, csem_acquire(&s), "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, csem_try_acquire(&s), "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, csem_try_acquire_n(&s, 2), "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, csem_acquire_for(&s, PLIM_MS(1)), "%d");
    ASSERT_EQ_FMT(0, csem_release_n(&s, 2), "%d");
    ASSERT_EQ_FMT(7, csem_available(&s), "%d");
    ASSERT_EQ_FMT(0, csem_reduce(&s, 9), "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, csem_acquire(&s), "%d");
    ASSERT_EQ_FMT(0, csem_release_n(&s, 9), "%d");
    ASSERT_EQ_FMT(0, csem_close(&s), "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, csem_acquire(&s), "%d");
    ASSERT_EQ_FMT(7u, csem_drain(&s), "%u");
    ASSERT_EQ_FMT(0, csem_init(&s, 1), "%d");
    ASSERT_EQ_FMT(0, csem_acquire(&s), "%d");
    PASS();
}

TEST close_sends_waiters_away(int64_t age)
{
    enum { N = 20 }; /* more than can starve at once */
    csem s;
    visitor v[N];
    csem_init(&s, 0);
    start_visitors(v, N, &s, 0);
    ASSERT(EVENTUALLY(csem_waiters(&s) == N));
    rest(age); /* a wait has no figure for its age */
    csem_close(&s);
    join_visitors(v, N);
    for (int i = 0; i < N; i++) {
        ASSERT_EQ_FMT(ESHUTDOWN, v[i].error, "%d");
    }
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

TEST close_may_race_with_timeouts(void)
{
    for (int i = 0; i < 100; i++) {
        csem s;
        visitor v[3];
        csem_init(&s, 0);
        start_visitors(v, 3, &s, PLIM_US(50 * (i % 7 + 1)));
        rest(PLIM_US(30 * (i % 11))); /* before, at and after the end of their time */
        csem_close(&s);
        join_visitors(v, 3);
        for (int j = 0; j < 3; j++) {
            ASSERT(v[j].error == ESHUTDOWN || v[j].error == ETIMEDOUT);
        }
        ASSERT(is_at_rest(&s, 0));
        ASSERT_EQ_FMT(ESHUTDOWN, csem_try_acquire(&s), "%d");
    }
    PASS();
}

/* ---- fairness ---- */

static uint32_t starving(csem *s)
{
    return plim_starving_(plim_load_relaxed_(&s->counter_.word));
}

/* Wakes all normal waiters for nothing, as a release does whose permit a passer-by takes: those
 * that have grown old by then become starving. */
static void disappoint(csem *s)
{
    uint64_t w = plim_load_relaxed_(&s->counter_.word);
    plim_step step = {w, PLIM_ALL_, 0, 0};
    plim_commit_relaxed_(&s->counter_, &w, step);
}

TEST waiters_that_grow_old_are_owed_a_permit_each(void)
{
    csem s;
    visitor v[2];
    csem_init(&s, 0);
    start_visitors(v, 2, &s, 0);
    ASSERT(EVENTUALLY((disappoint(&s), starving(&s) == 2)));
    /* With two of three permits owed to them, one is left for others, never two. */
    csem_release_n(&s, 3);
    ASSERT_EQ_FMT(EAGAIN, csem_try_acquire_n(&s, 2), "%d");
    join_visitors(v, 2);
    ASSERT_EQ_FMT(0, v[0].error + v[1].error, "%d");
    ASSERT(is_at_rest(&s, 1));
    PASS();
}

TEST more_old_waiters_than_places_for_them_are_all_served(void)
{
    enum { N = 24 };
    csem s;
    visitor v[N];
    csem_init(&s, 0);
    start_visitors(v, N, &s, 0);
    ASSERT(EVENTUALLY((disappoint(&s), starving(&s) == PLIM_STARVING_MAX_)));
    disappoint(&s); /* the others try in vain to become starving, and go on waiting */
    let_others_on();
    ASSERT_EQ_FMT(PLIM_STARVING_MAX_, starving(&s), "%u");
    for (int i = 0; i < N; i++) {
        csem_release(&s);
    }
    join_visitors(v, N);
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

typedef struct greedy {
    csem s;
    atomic_int acquisitions; /* of the hog */
    atomic_int served;       /* how often the victim got the permit */
    atomic_int owed,
        passed; /* the hog came when a permit was owed to the victim; and got it first */
    atomic_bool stop;
} greedy;

static plim_thread_result hog(void *arg)
{
    greedy *g = arg;
    while (!atomic_load(&g->stop)) {
        int served = atomic_load(&g->served);
        bool owed = starving(&g->s) != 0;
        csem_acquire(&g->s);
        atomic_fetch_add(&g->owed, owed);
        atomic_fetch_add(&g->passed, owed && atomic_load(&g->served) == served);
        atomic_fetch_add(&g->acquisitions, 1);
        rest(PLIM_MS(2)); /* longer than the patience of a lone waiter */
        csem_release(&g->s);
    }
    return 0;
}

/* The hog takes the permit again before the victim, which it has woken, is awake. So the victim finds
 * nothing, and has waited for longer than its patience: from then on the next permit is its own. */
TEST a_hog_does_not_starve_a_victim(void)
{
    greedy g;
    plim_thread thread;
    memset(&g, 0, sizeof g);
    csem_init(&g.s, 1);
    start(&thread, hog, &g);
    const int64_t until = plim_now_() + PLIM_S(PATIENCE_S);
    while (atomic_load(&g.owed) < 5 && plim_now_() < until) {
        int before = atomic_load(&g.acquisitions);
        ASSERT(EVENTUALLY(atomic_load(&g.acquisitions) > before)); /* it has the permit */
        csem_acquire(&g.s);
        atomic_fetch_add(&g.served, 1);
        csem_release(&g.s);
    }
    atomic_store(&g.stop, true);
    join(thread);
    ASSERT(atomic_load(&g.owed) >= 5);
    ASSERT_EQ_FMT(0, atomic_load(&g.passed), "%d");
    ASSERT(is_at_rest(&g.s, 1));
    PASS();
}

typedef struct turns {
    csem *s;
    atomic_int *left;    /* turns of all threads together, before everybody goes home */
    atomic_int *without; /* threads that had none yet; when there are none, likewise */
    int taken;
    plim_thread thread;
} turns;

static plim_thread_result take_turns(void *arg)
{
    turns *t = arg;
    while (csem_acquire(t->s) == 0 && atomic_fetch_sub(t->left, 1) > 0) {
        if (t->taken++ == 0 && atomic_fetch_sub(t->without, 1) == 1) {
            break;
        }
        rest(PLIM_MS(1)); /* of which 40 are twice the patience of one among 40 */
        csem_release(t->s);
        rest(PLIM_US(100)); /* back soon, but not at once */
    }
    csem_close(t->s);
    return 0;
}

/* Many more than can starve at once, each back soon after its turn, with holds that outlast
 * everybody's patience. */
TEST everybody_gets_a_turn(void)
{
    enum { N = 40, TURNS = 10 };
    csem s;
    turns t[N];
    atomic_int left, without;
    atomic_init(&left, N * TURNS);
    atomic_init(&without, N);
    csem_init(&s, 0);
    for (int i = 0; i < N; i++) {
        t[i] = (turns){.s = &s, .left = &left, .without = &without};
        start(&t[i].thread, take_turns, &t[i]);
    }
    ASSERT(EVENTUALLY(csem_waiters(&s) == N));
    csem_release(&s);
    int none = 0;
    for (int i = 0; i < N; i++) {
        join(t[i].thread);
        none += t[i].taken == 0;
    }
    ASSERT_EQ_FMT(0, none, "%d");
    PASS();
}

SUITE(semaphore_fairness)
{
    RUN_TEST(closed_means_closed);
    RUN_TESTp(close_sends_waiters_away, 0);
    RUN_TESTp(close_sends_waiters_away, 20 * PLIM_PATIENCE_NS_ + PLIM_MS(1)); /* all are old */
    RUN_TEST(close_may_race_with_timeouts);
    RUN_TEST(waiters_that_grow_old_are_owed_a_permit_each);
    RUN_TEST(more_old_waiters_than_places_for_them_are_all_served);
    RUN_TEST(a_hog_does_not_starve_a_victim);
    RUN_TEST(everybody_gets_a_turn);
}
