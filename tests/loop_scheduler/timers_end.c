/* SPDX-License-Identifier: MIT
 *
 * How timers end: cancelled, freed, many at once, in races, and with odd clocks.
 */

TEST a_cancelled_timer_is_told_on_the_loop(bool known, int64_t period_ns)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    ASSERT_INT(ENOENT, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer)); /* never started */
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, period_ns));
    if (known) {
        run_dry(&on.l);
    }
    pass_time(&on.w, 10); /* even when it is due */
    ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ASSERT_INT(0, atomic_load(&on.b[0].cancels)); /* not inside of cancel */
    ASSERT_INT(ENOENT, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, atomic_load(&on.b[0].cancels));
    ASSERT_INT(0, rings(&on.b[0]));
    ASSERT(on.b[0].current);
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).timers);
    ASSERT_INT(ENOENT, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    pass_time(&on.w, 100);
    ASSERT_INT(0, run_dry(&on.l));
    ASSERT_INT(
        0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 0)); /* it may be started again */
    pass_time(&on.w, 10);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT_INT(EALREADY, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer)); /* it has fired */
    ASSERT_INT(1, atomic_load(&on.b[0].cancels));
    ENDS_WELL();
}

TEST a_timer_started_before_its_cancellation_is_told_is_armed_instead(bool known)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 10));
    if (known) {
        run_dry(&on.l);
    }
    ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 20, 0));
    ASSERT_INT(0, run_dry(&on.l));
    set_time(&on.w, 19);
    ASSERT_INT(0, run_dry(&on.l));
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).timers);
    set_time(&on.w, 20);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT_INT(0, atomic_load(&on.b[0].cancels));
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(0, atomic_load(&on.b[0].cancels));
    PASS();
}

TEST a_timer_may_cancel_one_that_is_due_at_the_same_time(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    on.b[0].act = cancel_the_other;
    on.b[0].arg = &on.b[1];
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[i].timer, 10, 0));
    }
    pass_time(&on.w, 10);
    run_dry(&on.l);
    ASSERT_INT(0, on.b[0].error);
    ASSERT_I64(0, on.b[0].ns); /* not inside of cancel */
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT_INT(0, rings(&on.b[1]));
    ASSERT_INT(1, atomic_load(&on.b[1].cancels));
    ASSERT_INT(1, rings(&on.b[2]));
    ENDS_WELL();
}

TEST a_timer_that_fires_once_cannot_be_cancelled_as_it_does(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    on.b[0].act = cancel_the_other;
    on.b[0].arg = &on.b[0];
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 0));
    pass_time(&on.w, 10);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(EALREADY, on.b[0].error);
    ASSERT_INT(1, rings(&on.b[0]));
    ASSERT_INT(0, atomic_load(&on.b[0].cancels));
    ENDS_WELL();
}

static void run_and_free_bell(loop_scheduler_timer *timer, int status)
{
    bell *b = timer->arg;
    atomic_int *ended = b->arg;
    bool last = status == ECANCELED || b->ns == 0;
    if (last) {
        memset((void *)b, 0xa5, sizeof *b);
        free(b);
        atomic_fetch_add(ended, 1);
    }
}

TEST a_timer_may_be_freed_when_it_has_fired_or_is_told_of_its_end(void)
{
    enum { N = 40 };
    bell *b[N];
    static atomic_int ended;
    atomic_store(&ended, 0);
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    for (int i = 0; i < N; i++) {
        b[i] = malloc(sizeof *b[i]);
        ASSERT(b[i] != NULL);
        bells_init(b[i], 1, &on.l, &on.w, NULL);
        b[i]->timer.run = run_and_free_bell;
        b[i]->arg = &ended;
        b[i]->ns = i % 4 == 0 ? 3 : 0; /* the period */
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &b[i]->timer, 10 + i, b[i]->ns));
    }
    for (int i = 1; i < N; i += 4) {
        ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &b[i]->timer));
    }
    pass_time(&on.w, 100);
    run_dry(&on.l);
    ASSERT_INT(N - N / 4, atomic_load(&ended));
    for (int i = 0; i < N / 2; i += 4) {
        ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &b[i]->timer));
    }
    run_dry(&on.l);
    ASSERT_INT(N - N / 8, atomic_load(&ended));
    ASSERT_ENDS_WELL(&on.l); /* cancels the others */
    ASSERT_INT(N, atomic_load(&ended));
    PASS();
}

TEST ten_timers_and_one_that_repeats_and_stops_itself(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[i].timer, PLIM_MS(50) * (i + 1), 0));
    }
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[10].timer, PLIM_MS(100), PLIM_MS(100)));
    for (int i = 1; loop_scheduler_snapshot(&on.l).timers > 0; i++) {
        ASSERT(i < 1000);
        pass_time(&on.w, PLIM_MS(5));
        run_dry(&on.l);
        if (rings(&on.b[10]) == 5 && on.b[10].stop_at == 0) {
            on.b[10].stop_at = i;
            ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[10].timer));
            run_dry(&on.l);
        }
    }
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(1, rings(&on.b[i]));
        ASSERT_I64(PLIM_MS(50) * (i + 1), on.b[i].at);
    }
    ASSERT_INT(5, rings(&on.b[10]));
    ASSERT_INT(100, on.b[10].stop_at);
    ASSERT_I64(PLIM_MS(500), tell_time(&on.w));
    ENDS_WELL();
}

/* A simple account of what timers must do, kept beside the loop's. */
enum { MODEL = 24 };
typedef struct model {
    loop_scheduler *l;
    world w;
    diary d;
    bell b[MODEL];
    bool armed[MODEL], fired[MODEL], untold[MODEL];
    int64_t deadline[MODEL];
    uint64_t order[MODEL], starts;
    uint64_t random;
    int wrong;
} model;

static int64_t some_time(model *m, int most_bits)
{
    uint64_t bits = next_random(&m->random) % (uint64_t)most_bits;
    return (int64_t)(next_random(&m->random) & (((uint64_t)1 << bits) - 1));
}

static void change_something(model *m)
{
    int i = (int)(next_random(&m->random) % MODEL);
    if (next_random(&m->random) % 3 != 0) {
        int64_t delay_ns = some_time(m, 61);
        delay_ns = next_random(&m->random) % 16 == 0 ? -delay_ns : delay_ns;
        m->wrong += loop_scheduler_timer_start(m->l, &m->b[i].timer, delay_ns, 0) != 0;
        m->armed[i] = true;
        m->untold[i] = m->fired[i] = false;
        m->deadline[i] = tell_time(&m->w) + (delay_ns > 0 ? delay_ns : 0);
        m->order[i] = ++m->starts;
    } else {
        int expected = m->armed[i] ? 0 : m->fired[i] ? EALREADY : ENOENT;
        m->wrong += loop_scheduler_timer_cancel(m->l, &m->b[i].timer) != expected;
        m->untold[i] = m->untold[i] || m->armed[i];
        m->armed[i] = false;
    }
}

static void change_some(spy *s)
{
    model *m = s->arg;
    for (uint64_t i = next_random(&m->random) % 8; i > 0; i--) {
        change_something(m);
    }
}

static int next_due(model *m)
{
    int next = -1;
    for (int i = 0; i < MODEL; i++) {
        if (m->armed[i] && m->deadline[i] <= tell_time(&m->w) &&
            (next < 0 || m->deadline[i] < m->deadline[next] ||
             (m->deadline[i] == m->deadline[next] && m->order[i] < m->order[next]))) {
            next = i;
        }
    }
    return next;
}

/* What ran is what must have, in order; the cancelled ones were told once, in any order. */
static bool agrees(model *m)
{
    bool same = m->wrong == 0;
    for (int i = 0; i < atomic_load(&m->d.count) && same; i++) {
        int which = m->d.number[i] - 1;
        if (m->d.status[i] == 0) {
            same = which == next_due(m);
            m->armed[which] = false;
            m->fired[which] = true;
        } else {
            same = m->d.status[i] == ECANCELED && m->untold[which];
            m->untold[which] = false;
        }
    }
    for (int i = 0; i < MODEL; i++) {
        same = same && !m->untold[i];
    }
    atomic_store(&m->d.count, 0);
    return same && next_due(m) < 0;
}

static uint32_t armed(model *m)
{
    uint32_t n = 0;
    for (int i = 0; i < MODEL; i++) {
        n += m->armed[i];
    }
    return n;
}

TEST timers_do_as_a_simple_model_says(uint64_t seed, int64_t from, int step_bits)
{
    static model m;
    memset((void *)&m, 0, sizeof m);
    m.l = &on.l;
    m.random = seed;
    ASSERT(make_with_clock(&on.l, &m.w, 0));
    set_time(&m.w, from);
    bells_init(m.b, MODEL, &on.l, &m.w, &m.d);
    on.s[0].act = change_some;
    on.s[0].arg = &m;
    for (int round = scaled(60000); round > 0; round--) {
        if (next_random(&m.random) % 2 == 0) {
            change_some(&on.s[0]); /* from elsewhere */
        } else {
            run_dry(&on.l);
            ASSERT(agrees(&m)); /* nothing is due, so it does not matter who runs first */
            ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
            run_dry(&on.l);
            ASSERT(agrees(&m));
        }
        if (next_random(&m.random) % 2 == 0) {
            pass_time(&m.w, some_time(&m, step_bits)); /* often what was started is not yet known */
        }
        if (next_random(&m.random) % 2 == 0) {
            run_dry(&on.l);
            ASSERT(agrees(&m));
            ASSERT_INT(armed(&m), loop_scheduler_snapshot(&on.l).timers);
        }
    }
    ENDS_WELL();
}

typedef struct swarm {
    world w;
    int64_t before; /* the time of the turn before */
    int64_t last;   /* the last deadline that came */
    int wrong, rung, told;
} swarm;

typedef struct gnat {
    loop_scheduler_timer timer;
    swarm *swarm;
    int64_t deadline;
    bool cancelled;
} gnat;

static void sting(loop_scheduler_timer *timer, int status)
{
    gnat *g = timer->arg;
    swarm *s = g->swarm;
    if (status == ECANCELED) {
        s->told++;
        s->wrong += !g->cancelled;
        return;
    }
    s->rung++;
    s->wrong += g->cancelled || g->deadline < s->last; /* in order */
    s->wrong += g->deadline > tell_time(&s->w);        /* not early */
    s->wrong += g->deadline <= s->before;              /* nor late */
    s->last = g->deadline;
}

TEST a_hundred_thousand_timers_fire_in_order_but_for_those_cancelled(int64_t span)
{
    static swarm s;
    uint64_t random = 17;
    int n = scaled(100000), cancelled = 0;
    gnat *g = calloc((size_t)n, sizeof *g);
    ASSERT(g != NULL);
    memset((void *)&s, 0, sizeof s);
    ASSERT(make_with_clock(&on.l, &s.w, 0));
    for (int i = 0; i < n; i++) {
        g[i].timer = (loop_scheduler_timer){.run = sting, .arg = &g[i]};
        g[i].swarm = &s;
        g[i].deadline = 1 + (int64_t)(next_random(&random) % (uint64_t)span);
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &g[i].timer, g[i].deadline, 0));
    }
    ASSERT_INT(n, loop_scheduler_snapshot(&on.l).timers);
    for (int i = 0; i < n; i += 2, cancelled++) {
        g[i].cancelled = true;
        ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &g[i].timer));
    }
    while (s.before < span) {
        int64_t step = 1 + (int64_t)(next_random(&random) % (uint64_t)(span / 200));
        set_time(&s.w, s.before + step);
        run_dry(&on.l);
        s.before += step;
    }
    ASSERT_INT(0, s.wrong);
    ASSERT_INT(cancelled, s.told);
    ASSERT_INT(n - cancelled, s.rung);
    ASSERT_ENDS_WELL(&on.l);
    free(g);
    PASS();
}

TEST a_timer_that_is_sooner_than_the_end_of_the_sleep_wakes_the_loop(void)
{
    ASSERT(make(&on.l, 0));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(3600), 0));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    ASSERT(falls_asleep(&on.l, 0)); /* for an hour */
    for (int i = 1; i <= 5; i++) {
        int64_t from = plim_now_();
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[1].timer, PLIM_MS(1), 0));
        ASSERT(EVENTUALLY(rings(&on.b[1]) == i));
        ASSERT(on.b[1].at - from >= PLIM_MS(1));
    }
    ASSERT_INT(0, rings(&on.b[0]));
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(1, atomic_load(&on.b[0].cancels));
    PASS();
}

TEST a_cancelled_timer_wakes_the_loop_to_be_told(void)
{
    ASSERT(make_and_start(&on.l, 0));
    for (int i = 1; i <= 5; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(3600), 0));
        rest(PLIM_US(300)); /* it sleeps for an hour now */
        ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
        ASSERT(EVENTUALLY(atomic_load(&on.b[0].cancels) == i));
    }
    ENDS_WELL();
}

static void end_timer_race(loop_scheduler_timer *timer, int status)
{
    race *r = timer->arg;
    r->status = status;
    csem_release(&r->over);
}

TEST a_cancel_races_with_the_timer_and_one_of_them_wins(void)
{
    static race r;
    uint64_t random = 11;
    r = (race){.status = -1};
    csem_init(&r.over, 0);
    ASSERT(make_and_start(&on.l, 0));
    int64_t end = plim_now_() + race_ns();
    uint64_t lost = 0;
    for (int round = scaled(100000); round > 0 && plim_now_() < end; round--) {
        r.timer = (loop_scheduler_timer){.run = end_timer_race, .arg = &r};
        int64_t delay_ns = (int64_t)(next_random(&random) % 4) * 2000;
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &r.timer, delay_ns, 0));
        for (uint64_t i = next_random(&random) % 512; i > 0; i--) {
            plim_pause_();
        }
        int error = loop_scheduler_timer_cancel(&on.l, &r.timer);
        ASSERT_INT(0, csem_acquire_for(&r.over, PLIM_S(PATIENCE_S)));
        ASSERT_INT(error == 0 ? ECANCELED : 0, r.status);
        ASSERT(error == 0 || error == EALREADY);
        lost += error != 0;
    }
    ASSERT_U64(lost, loop_scheduler_snapshot(&on.l).fired);
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(EAGAIN, csem_try_acquire(&r.over)); /* nothing came twice */
    PASS();
}

typedef struct tug_of_war {
    bell b[4];
    atomic_int starts, cancels;
} tug_of_war;

static plim_thread_result start_and_cancel(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    tug_of_war *t = c->arg;
    uint64_t random = (uint64_t)m->number + 5;
    wait_for_go(c);
    for (int i = 0; i < c->rounds && plim_now_() < c->end; i++) {
        loop_scheduler_timer *timer = &t->b[next_random(&random) % 4].timer;
        if (next_random(&random) % 2 == 0) {
            int64_t delay_ns = (int64_t)(next_random(&random) % 8) * 5000;
            int64_t period_ns = (int64_t)(next_random(&random) % 2) * 20000;
            int error = loop_scheduler_timer_start(c->l, timer, delay_ns, period_ns);
            atomic_fetch_add(error == 0 ? &t->starts : &c->odd, 1);
        } else {
            int error = loop_scheduler_timer_cancel(c->l, timer);
            atomic_fetch_add(error == 0 || error == EBUSY           ? &t->cancels
                             : error == EALREADY || error == ENOENT ? &c->refused
                                                                    : &c->odd,
                             1);
        }
        dawdle(next_random(&random));
    }
    return 0;
}

TEST many_threads_may_start_and_cancel_the_same_timers(void)
{
    enum { N = 4 };
    member m[N];
    static tug_of_war t;
    memset((void *)&t, 0, sizeof t);
    ASSERT(make_and_start(&on.l, 0));
    bells_init(t.b, 4, &on.l, NULL, NULL);
    crowd c = {.l = &on.l, .rounds = scaled(20000), .end = plim_now_() + race_ns(), .arg = &t};
    start_crowd(&c, m, N, start_and_cancel);
    join_crowd(m, N);
    ASSERT_INT(0, atomic_load(&c.odd));
    ASSERT(serves(&on.l));
    ASSERT(loop_scheduler_snapshot(&on.l).timers <= 4);
    int still_armed = 0;
    for (int i = 0; i < 4; i++) {
        int error = loop_scheduler_timer_cancel(&on.l, &t.b[i].timer);
        still_armed += error == 0 || error == EBUSY;
    }
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    int told = 0;
    for (int i = 0; i < 4; i++) {
        told += atomic_load(&t.b[i].cancels);
        ASSERT_INT(0, atomic_load(&t.b[i].odd));
    }
    /* One that was armed before it was told is not told. */
    ASSERT(told <= atomic_load(&t.cancels) + still_armed);
    ASSERT(told >= still_armed);
    ENDS_WELL();
}

/* A clock that does not keep time with the real one. */
static int64_t tell_fast(void *user)
{
    (void)user;
    return plim_now_() * 8;
}

static int64_t tell_slowly(void *user)
{
    (void)user;
    return plim_now_() / 4;
}

TEST a_clock_that_goes_otherwise_is_asked_again_after_each_sleep(int64_t (*clock)(void *))
{
    loop_scheduler_options options = {.clock = clock};
    ASSERT_INT(0, make_as(&on.l, &options));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    int64_t from = plim_now_(), from_there = clock(NULL);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[i].timer, PLIM_MS(1) * (i + 1), 0));
    }
    ASSERT(EVENTUALLY(rings(&on.b[2]) == 1));
    ASSERT(clock(NULL) - from_there >= PLIM_MS(3));
    ASSERT(clock != tell_slowly || plim_now_() - from >= PLIM_MS(3) * 3);
    ENDS_WELL();
}

SUITE(ends_of_timers_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TESTp(a_cancelled_timer_is_told_on_the_loop, false, 0);
    RUN_TESTp(a_cancelled_timer_is_told_on_the_loop, true, 0);
    RUN_TESTp(a_cancelled_timer_is_told_on_the_loop, false, 10);
    RUN_TESTp(a_cancelled_timer_is_told_on_the_loop, true, 10);
    RUN_TESTp(a_timer_started_before_its_cancellation_is_told_is_armed_instead, false);
    RUN_TESTp(a_timer_started_before_its_cancellation_is_told_is_armed_instead, true);
    RUN_TEST(a_timer_may_cancel_one_that_is_due_at_the_same_time);
    RUN_TEST(a_timer_that_fires_once_cannot_be_cancelled_as_it_does);
    RUN_TEST(a_timer_may_be_freed_when_it_has_fired_or_is_told_of_its_end);
    RUN_TEST(ten_timers_and_one_that_repeats_and_stops_itself);
    RUN_TESTp(timers_do_as_a_simple_model_says, 1, 0, 12);
    RUN_TESTp(timers_do_as_a_simple_model_says, 2, 1, 30);
    RUN_TESTp(timers_do_as_a_simple_model_says, 3, PLIM_S(1234567), 45);
    RUN_TESTp(a_hundred_thousand_timers_fire_in_order_but_for_those_cancelled, PLIM_S(1000));
    RUN_TESTp(a_hundred_thousand_timers_fire_in_order_but_for_those_cancelled, 5000);
    RUN_TEST(a_timer_that_is_sooner_than_the_end_of_the_sleep_wakes_the_loop);
    RUN_TEST(a_cancelled_timer_wakes_the_loop_to_be_told);
    RUN_TEST(a_cancel_races_with_the_timer_and_one_of_them_wins);
    RUN_TEST(many_threads_may_start_and_cancel_the_same_timers);
    RUN_TESTp(a_clock_that_goes_otherwise_is_asked_again_after_each_sleep, tell_fast);
    RUN_TESTp(a_clock_that_goes_otherwise_is_asked_again_after_each_sleep, tell_slowly);
}
