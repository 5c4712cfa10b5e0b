/* SPDX-License-Identifier: MIT
 *
 * Waiting for a permit: for ever, for a time, and among many threads.
 */

/* ---- waiting ---- */

TEST acquire_waits_for_a_release(int flavour)
{
    csem s;
    visitor v = {.s = &s, .flavour = flavour};
    csem_init(&s, 0);
    start(&v.thread, visit, &v);
    if (flavour == PLAIN || flavour == TIMED) {
        ASSERT(EVENTUALLY(csem_waiters(&s) == 1));
    }
    let_others_on();
    ASSERT_FALSE(atomic_load(&v.done));
    ASSERT_EQ_FMT(0, csem_release(&s), "%d");
    join(v.thread);
    ASSERT_EQ_FMT(0, v.error, "%d");
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

TEST each_release_lets_one_in(void)
{
    enum { N = 8 };
    csem s;
    visitor v[N];
    csem_init(&s, 0);
    start_visitors(v, N, &s, 0);
    ASSERT(EVENTUALLY(csem_waiters(&s) == N));
    for (int i = 1; i <= 4; i++) {
        csem_release(&s);
        ASSERT(EVENTUALLY(done_visitors(v, N) == i));
        ASSERT(EVENTUALLY(csem_waiters(&s) == (uint32_t)(N - i)));
        ASSERT_EQ_FMT(0, csem_available(&s), "%d");
    }
    csem_release_n(&s, 3);
    ASSERT(EVENTUALLY(done_visitors(v, N) == 7));
    csem_release_n(&s, 3);
    join_visitors(v, N);
    ASSERT(is_at_rest(&s, 2));
    PASS();
}

TEST two_releases_wake_two_waiters(void)
{
    for (int i = 0; i < 300; i++) {
        csem s;
        visitor v[2];
        csem_init(&s, 0);
        start_visitors(v, 2, &s, 0);
        if (i % 2 == 0) {
            ASSERT(EVENTUALLY(csem_waiters(&s) == 2));
        }
        csem_release(&s);
        csem_release(&s);
        join_visitors(v, 2);
        ASSERT(is_at_rest(&s, 0));
    }
    PASS();
}

/* ---- many threads ---- */

typedef struct crowd {
    csem s;
    atomic_int inside, most_inside, errors;
    int rounds, limit;
    int plain; /* only touched while holding the one permit */
} crowd;

static plim_thread_result crowd_member(void *arg)
{
    crowd *c = arg;
    for (int i = 0; i < c->rounds; i++) {
        if (acquire_by(&c->s, i % 2 == 0 ? PLAIN : TIMED) != 0) {
            atomic_fetch_add(&c->errors, 1);
            return 0;
        }
        int inside = atomic_fetch_add(&c->inside, 1) + 1;
        if (inside > c->limit) {
            atomic_fetch_add(&c->errors, 1);
        }
        if (c->limit == 1) {
            c->plain++;
        }
        atomic_fetch_sub(&c->inside, 1);
        csem_release(&c->s);
    }
    return 0;
}

TEST never_more_inside_than_permits(int threads, int permits, int rounds)
{
    crowd c = {.rounds = rounds, .limit = permits};
    plim_thread thread[64];
    csem_init(&c.s, (uint32_t)permits);
    for (int i = 0; i < threads; i++) {
        start(&thread[i], crowd_member, &c);
    }
    for (int i = 0; i < threads; i++) {
        join(thread[i]);
    }
    ASSERT_EQ_FMT(0, atomic_load(&c.errors), "%d");
    ASSERT_EQ_FMT(permits == 1 ? threads * rounds : 0, c.plain, "%d");
    for (int i = 0; i < permits; i++) {
        ASSERT_EQ_FMT(0, csem_try_acquire(&c.s), "%d");
    }
    ASSERT_EQ_FMT(EAGAIN, csem_try_acquire(&c.s), "%d");
    ASSERT(is_at_rest(&c.s, 0));
    PASS();
}

typedef struct pair {
    csem ping, pong;
    int rounds, message, seen;
} pair;

static plim_thread_result answer_pings(void *arg)
{
    pair *p = arg;
    for (int i = 0; i < p->rounds; i++) {
        csem_acquire(&p->ping);
        p->seen += p->message == i;
        p->message = -i;
        csem_release(&p->pong);
    }
    return 0;
}

TEST what_was_written_before_a_release_is_seen_after_the_acquire(void)
{
    pair p = {.rounds = 3000};
    plim_thread thread;
    int seen = 0;
    csem_init(&p.ping, 0);
    csem_init(&p.pong, 0);
    start(&thread, answer_pings, &p);
    for (int i = 0; i < p.rounds; i++) {
        p.message = i;
        csem_release(&p.ping);
        csem_acquire(&p.pong);
        seen += p.message == -i;
    }
    join(thread);
    ASSERT_EQ_FMT(p.rounds, p.seen, "%d");
    ASSERT_EQ_FMT(p.rounds, seen, "%d");
    ASSERT(is_at_rest(&p.ping, 0));
    ASSERT(is_at_rest(&p.pong, 0));
    PASS();
}

typedef struct consumer {
    csem *s;
    int rounds;
    int64_t timeout_ns; /* 0: wait for ever */
    plim_thread thread;
} consumer;

static plim_thread_result consume(void *arg)
{
    consumer *c = arg;
    for (int i = 0; i < c->rounds; i++) {
        if (c->timeout_ns == 0) {
            csem_acquire(c->s);
        } else {
            while (csem_acquire_for(c->s, c->timeout_ns) == ETIMEDOUT) {
                continue;
            }
        }
    }
    return 0;
}

/* Somebody who stays asleep although there is a permit for him would end this test by hanging. */
TEST nobody_stays_asleep(int threads, int64_t timeout_ns)
{
    enum { ROUNDS = 400 };
    csem s;
    consumer c[64];
    csem_init(&s, 0);
    for (int i = 0; i < threads; i++) {
        c[i] = (consumer){.s = &s, .rounds = ROUNDS, .timeout_ns = timeout_ns};
        start(&c[i].thread, consume, &c[i]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        csem_release_n(&s, (uint32_t)threads);
    }
    for (int i = 0; i < threads; i++) {
        join(c[i].thread);
    }
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

TEST each_permit_finds_a_waiter_with_a_short_timeout(void)
{
    enum { THREADS = 16, POSTS = 2000 };
    csem s;
    consumer c[THREADS];
    csem_init(&s, 0);
    for (int i = 0; i < THREADS; i++) {
        c[i] = (consumer){.s = &s, .rounds = POSTS / THREADS, .timeout_ns = PLIM_US(100)};
        start(&c[i].thread, consume, &c[i]);
    }
    for (int i = 0; i < POSTS; i++) {
        csem_release(&s);
        if (i % 8 == 0) {
            ASSERT(EVENTUALLY(csem_available(&s) == 0));
        }
    }
    for (int i = 0; i < THREADS; i++) {
        join(c[i].thread);
    }
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

/* ---- time ---- */

TEST a_wait_never_ends_early(int64_t timeout_ns)
{
    csem s;
    csem_init(&s, 0);
    int64_t before = plim_now_();
    ASSERT_EQ_FMT(ETIMEDOUT, csem_acquire_for(&s, timeout_ns), "%d");
    int64_t took = plim_now_() - before;
    ASSERT(took >= timeout_ns);
    ASSERT(took < timeout_ns + PLIM_S(PATIENCE_S));
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

TEST no_time_is_not_waited_at_all(void)
{
    int64_t none[] = {0, -1, -PLIM_S(1), INT64_MIN};
    csem s;
    for (int i = 0; i < 4; i++) {
        csem_init(&s, 0);
        ASSERT_EQ_FMT(ETIMEDOUT, csem_acquire_for(&s, none[i]), "%d");
        ASSERT(is_at_rest(&s, 0));
        csem_release(&s);
        ASSERT_EQ_FMT(0, csem_acquire_for(&s, none[i]), "%d");
        ASSERT(is_at_rest(&s, 0));
        csem_close(&s);
        ASSERT_EQ_FMT(ESHUTDOWN, csem_acquire_for(&s, none[i]), "%d");
    }
    PASS();
}

TEST no_wait_is_too_long(int64_t timeout_ns)
{
    csem s;
    visitor v;
    csem_init(&s, 0);
    start_visitors(&v, 1, &s, timeout_ns);
    ASSERT(EVENTUALLY(csem_waiters(&s) == 1));
    let_others_on();
    ASSERT_FALSE(atomic_load(&v.done));
    csem_release(&s);
    join(v.thread);
    ASSERT_EQ_FMT(0, v.error, "%d");
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

typedef struct gust {
    csem *s;
    atomic_int timeouts;
    atomic_bool stop;
    int taken;
    plim_thread thread;
} gust;

static plim_thread_result storm(void *arg)
{
    gust *g = arg;
    while (!atomic_load(&g->stop)) {
        if (csem_acquire_for(g->s, PLIM_US(1)) == 0) {
            g->taken++;
        } else {
            atomic_fetch_add(&g->timeouts, 1);
        }
    }
    return 0;
}

TEST a_storm_of_tiny_timeouts_loses_no_permit(void)
{
    enum { N = 4, MANY = 500 }; /* timeouts of each thread, among those of the others */
    csem s;
    gust g[N];
    memset(g, 0, sizeof g);
    csem_init(&s, 0);
    for (int i = 0; i < N; i++) {
        g[i].s = &s;
        start(&g[i].thread, storm, &g[i]);
    }
    for (int i = 0; i < N; i++) {
        ASSERT(EVENTUALLY(atomic_load(&g[i].timeouts) >= MANY));
    }
    csem_release_n(&s, N);
    ASSERT(EVENTUALLY(csem_available(&s) == 0));
    int taken = 0;
    for (int i = 0; i < N; i++) {
        atomic_store(&g[i].stop, true);
    }
    for (int i = 0; i < N; i++) {
        join(g[i].thread);
        taken += g[i].taken;
    }
    ASSERT_EQ_FMT(N, taken, "%d");
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

TEST one_of_four_gets_it_when_two_give_up(void)
{
    csem s;
    visitor brief[2], patient[2];
    csem_init(&s, 0);
    start_visitors(patient, 2, &s, 0);
    start_visitors(brief, 2, &s, PLIM_MS(5));
    join_visitors(brief, 2);
    csem_release(&s);
    ASSERT(EVENTUALLY(done_visitors(patient, 2) == 1));
    ASSERT_EQ_FMT(ETIMEDOUT, brief[0].error, "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, brief[1].error, "%d");
    ASSERT(EVENTUALLY(csem_waiters(&s) == 1));
    csem_release(&s);
    join_visitors(patient, 2);
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

SUITE(semaphore_waiting)
{
#ifdef PLIM_PARK_CND
    const int64_t longest = PLIM_SLICE_NS_ + PLIM_MS(20); /* a condition is waited for in slices */
#else
    const int64_t longest = PLIM_MS(12);
#endif
    int64_t huge[] = {PLIM_FOREVER, PLIM_FOREVER - 1, PLIM_FOREVER / 2, PLIM_S(1000000000)};
    for (int flavour = 0; flavour < FLAVOURS; flavour++) {
        RUN_TESTp(acquire_waits_for_a_release, flavour);
    }
    RUN_TEST(each_release_lets_one_in);
    RUN_TEST(two_releases_wake_two_waiters);
    RUN_TESTp(never_more_inside_than_permits, 3, 2, 2000);
    RUN_TESTp(never_more_inside_than_permits, 8, 1, 2000);
    RUN_TESTp(never_more_inside_than_permits, 10, 6, 1000);
    RUN_TESTp(never_more_inside_than_permits, 40, 5, 100);
    RUN_TEST(what_was_written_before_a_release_is_seen_after_the_acquire);
    RUN_TESTp(nobody_stays_asleep, 2, 0);
    RUN_TESTp(nobody_stays_asleep, 20, 0);
    RUN_TESTp(nobody_stays_asleep, 20, PLIM_US(50));
    RUN_TEST(each_permit_finds_a_waiter_with_a_short_timeout);
    RUN_TESTp(a_wait_never_ends_early, 1);
    RUN_TESTp(a_wait_never_ends_early, PLIM_US(800));
    RUN_TESTp(a_wait_never_ends_early, PLIM_MS(3));
    RUN_TESTp(a_wait_never_ends_early, longest);
    RUN_TEST(no_time_is_not_waited_at_all);
    for (int i = 0; i < 4; i++) {
        RUN_TESTp(no_wait_is_too_long, huge[i]);
    }
    RUN_TEST(a_storm_of_tiny_timeouts_loses_no_permit);
    RUN_TEST(one_of_four_gets_it_when_two_give_up);
}
