/* SPDX-License-Identifier: MIT
 *
 * Waits that could never end are refused with EDEADLK.
 */

enum { KNOT = 3 };

/* A call goes round a ring of loops, until it would come back to the first. */
typedef struct knot {
    loop_scheduler l[KNOT];
    int n, depth;
    bool timed;
    int error[KNOT], result[KNOT];
    csem over;
} knot;

static knot ring;

static int go_round(void *arg)
{
    knot *k = arg;
    int at = k->depth++;
    loop_scheduler *next = &k->l[(at + 1) % k->n];
    k->error[at] =
        k->timed ? loop_scheduler_call_for(next, go_round, k, &k->result[at], PLIM_S(PATIENCE_S))
                 : loop_scheduler_call(next, go_round, k, &k->result[at]);
    return at + 1;
}

static void go_round_from_a_task(spy *s)
{
    go_round(s->arg);
    csem_release(&((knot *)s->arg)->over);
}

static bool knot_init(knot *k, int n, uint32_t max_queue)
{
    memset((void *)k, 0, sizeof *k);
    k->n = n;
    csem_init(&k->over, 0);
    bool made = true;
    for (int i = 0; i < n; i++) {
        made = make_and_start(&k->l[i], max_queue) && made;
    }
    return made;
}

static greatest_test_res knot_ends_well(knot *k)
{
    for (int i = k->n - 1; i >= 0; i--) {
        ASSERT(serves(&k->l[i]));
        ASSERT_ENDS_WELL(&k->l[i]);
    }
    PASS();
}

TEST a_ring_of_calls_is_refused_where_it_would_close(int n, bool timed)
{
    ASSERT(knot_init(&ring, n, 0));
    for (int round = 0; round < 20; round++) {
        ring.timed = timed;
        ring.depth = 0;
        spies_init(&on.s[0], 1, &ring.l[0], NULL);
        on.s[0].act = go_round_from_a_task;
        on.s[0].arg = &ring;
        int64_t from = plim_now_();
        ASSERT_INT(0, loop_scheduler_post(&ring.l[0], &on.s[0].task));
        ASSERT_INT(0, csem_acquire_for(&ring.over, PLIM_S(PATIENCE_S)));
        ASSERT(plim_now_() - from < PLIM_S(PATIENCE_S));
        ASSERT(EVENTUALLY(runs(&on.s[0]) == 1));
        ASSERT_INT(n, ring.depth);
        for (int i = 0; i < n; i++) {
            ASSERT_INT(i == n - 1 ? EDEADLK : 0, ring.error[i]);
            ASSERT(i == n - 1 || ring.result[i] == i + 2);
        }
    }
    return knot_ends_well(&ring);
}

/* All tasks of a ring, each on its loop, call the next one once all of them are there. */
typedef struct round_table {
    knot *k;
    atomic_int seated, answered;
    int errors[KNOT];
    csem left;
} round_table;

static void call_the_next(spy *s)
{
    round_table *t = s->arg;
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    atomic_fetch_add(&t->seated, 1);
    while (atomic_load(&t->seated) < t->k->n && plim_now_() < give_up) {
        plim_pause_();
    }
    loop_scheduler *next = &t->k->l[s->number % t->k->n];
    t->errors[s->number - 1] = s->number == 2 ? loop_scheduler_call(next, count, &t->answered, NULL)
                                              : loop_scheduler_call_for(next, count, &t->answered,
                                                                        NULL, PLIM_S(PATIENCE_S));
    csem_release(&t->left);
}

TEST of_a_ring_of_loops_that_call_each_other_one_is_told(int n)
{
    ASSERT(knot_init(&ring, n, 0));
    int64_t end = plim_now_() + race_ns();
    for (int round = scaled(10000); round > 0 && plim_now_() < end; round--) {
        static round_table t;
        t = (round_table){.k = &ring};
        csem_init(&t.left, 0);
        spies_init(on.s, n, NULL, NULL);
        for (int i = 0; i < n; i++) {
            on.s[i].l = &ring.l[i];
            on.s[i].act = call_the_next;
            on.s[i].arg = &t;
            ASSERT_INT(0, loop_scheduler_post(&ring.l[i], &on.s[i].task));
        }
        int told = 0;
        for (int i = 0; i < n; i++) {
            ASSERT_INT(0, csem_acquire_for(&t.left, PLIM_S(PATIENCE_S)));
        }
        for (int i = 0; i < n; i++) {
            ASSERT(EVENTUALLY(runs(&on.s[i]) == 1));
            ASSERT(t.errors[i] == 0 || t.errors[i] == EDEADLK);
            told += t.errors[i] == EDEADLK;
        }
        ASSERT_INT(1, told); /* whoever closed the circle: after that there was none */
        ASSERT_INT(n - 1, atomic_load(&t.answered));
    }
    return knot_ends_well(&ring);
}

/* Calls only go from a loop to one with a higher number. */
typedef struct stairs {
    knot *k;
    int step;
} stairs;

static int climb(void *arg)
{
    stairs *s = arg;
    if (++s->step == KNOT - 1) {
        return 0;
    }
    int result = 0, error = loop_scheduler_call(&s->k->l[s->step + 1], climb, s, &result);
    return error != 0 ? error : result;
}

static plim_thread_result climb_often(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    wait_for_go(c);
    for (int i = 0; i < c->rounds && plim_now_() < c->end; i++) {
        int first = (m->number + i) % (KNOT - 1);
        stairs s = {.k = c->arg, .step = first - 1};
        int result = 0, error = loop_scheduler_call(&s.k->l[first], climb, &s, &result);
        atomic_fetch_add(error == 0 && result == 0 ? &c->accepted : &c->odd, 1);
    }
    return 0;
}

TEST calls_that_form_no_ring_are_never_refused(void)
{
    enum { N = 6 };
    member m[N];
    ASSERT(knot_init(&ring, KNOT, 0));
    crowd c = {.rounds = scaled(3000), .end = plim_now_() + race_ns(), .arg = &ring};
    start_crowd(&c, m, N, climb_often);
    join_crowd(m, N);
    ASSERT_INT(0, atomic_load(&c.odd));
    return knot_ends_well(&ring);
}

typedef struct hop {
    loop_scheduler *to;
    atomic_int *landed;
} hop;

static int hop_on(void *arg)
{
    hop *h = arg;
    return loop_scheduler_call(h->to, count, h->landed, NULL);
}

TEST what_is_over_makes_no_ring(void)
{
    atomic_int landed = 0;
    ASSERT(knot_init(&ring, 2, 0));
    int rounds = scaled(5000);
    for (int i = 0; i < rounds; i++) { /* to and fro, but never at once */
        hop h = {.to = &ring.l[(i + 1) % 2], .landed = &landed};
        int result = -1;
        ASSERT_INT(0, loop_scheduler_call(&ring.l[i % 2], hop_on, &h, &result));
        ASSERT_INT(0, result);
    }
    ASSERT_INT(rounds, atomic_load(&landed));
    return knot_ends_well(&ring);
}

/* An act: holds, then does something that waits for another loop. */
typedef struct errand {
    loop_scheduler *to;
    loop_scheduler_task *task; /* to be posted there; NULL: a call, or a close */
    bool close;
    int error;
    atomic_int called;
    csem over;
} errand;

static void run_errand(errand *e)
{
    if (e->task != NULL) {
        e->error = loop_scheduler_post_for(e->to, e->task, PLIM_S(PATIENCE_S));
    } else if (e->close) {
        e->error = loop_scheduler_close(e->to, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S));
    } else {
        e->error = loop_scheduler_call(e->to, count, &e->called, NULL);
    }
    csem_release(&e->over);
}

static void hold_and_run_errand(spy *s)
{
    hold(s);
    run_errand(s->arg);
}

static int call_errand(void *arg)
{
    run_errand(arg);
    return 0;
}

static bool send_on_errand(loop_scheduler *l, spy *s, errand *e)
{
    spies_init(s, 1, l, NULL);
    csem_init(&e->over, 0);
    s->act = hold_and_run_errand;
    s->arg = e;
    return loop_scheduler_post(l, &s->task) == 0 && has_entered(s);
}

static bool is_back(errand *e)
{
    return csem_acquire_for(&e->over, PLIM_S(PATIENCE_S)) == 0;
}

TEST of_two_loops_that_wait_for_room_in_each_other_one_is_told(void)
{
    for (int round = scaled(100); round > 0; round--) {
        static spy filler[2], extra[2];
        static errand e[2];
        ASSERT(knot_init(&ring, 2, 1));
        for (int i = 0; i < 2; i++) {
            spies_init(&filler[i], 1, &ring.l[i], NULL);
            spies_init(&extra[i], 1, &ring.l[1 - i], NULL);
            e[i] = (errand){.to = &ring.l[1 - i], .task = &extra[i].task};
            ASSERT(send_on_errand(&ring.l[i], &on.s[i], &e[i]));
            ASSERT_INT(0, loop_scheduler_post(&ring.l[i], &filler[i].task));
        }
        let_go(&on.s[0]);
        let_go(&on.s[1]);
        ASSERT(is_back(&e[0]));
        ASSERT(is_back(&e[1]));
        ASSERT_INT(EDEADLK, e[0].error + e[1].error);
        ASSERT(e[0].error == 0 || e[1].error == 0);
        CHECK_CALL(knot_ends_well(&ring));
        for (int i = 0; i < 2; i++) {
            ASSERT_INT(1, runs(&filler[i]));
            ASSERT_INT(e[i].error == 0, runs(&extra[i]));
        }
    }
    PASS();
}

static void call_on_errand(spy *s)
{
    s->error = loop_scheduler_call(s->l + 1, call_errand, s->arg, NULL);
}

typedef struct full_house {
    spy filler, extra;
    errand e;
} full_house;

static void fill_up_and_call_on_errand(spy *s)
{
    full_house *h = s->arg;
    s->result = loop_scheduler_post(s->l, &h->filler.task);
    s->error = loop_scheduler_call(s->l + 1, call_errand, &h->e, NULL);
}

TEST a_wait_for_room_that_closes_a_ring_is_refused(void)
{
    static full_house h;
    ASSERT(knot_init(&ring, 2, 1));
    spies_init(&h.extra, 1, &ring.l[0], NULL);
    spies_init(&h.filler, 1, &ring.l[0], NULL);
    h.e = (errand){.to = &ring.l[0], .task = &h.extra.task};
    csem_init(&h.e.over, 0);
    spies_init(&on.s[0], 1, &ring.l[0], NULL);
    on.s[0].act = fill_up_and_call_on_errand; /* the second loop then waits for room in the first */
    on.s[0].arg = &h;
    ASSERT_INT(0, loop_scheduler_post(&ring.l[0], &on.s[0].task));
    ASSERT(is_back(&h.e));
    ASSERT_INT(EDEADLK, h.e.error);
    ASSERT(EVENTUALLY(runs(&h.filler) == 1));
    ASSERT_INT(0, on.s[0].error);
    ASSERT_INT(0, on.s[0].result);
    CHECK_CALL(knot_ends_well(&ring));
    ASSERT_INT(0, runs(&h.extra) + cancels(&h.extra));
    PASS();
}

TEST a_close_that_closes_a_ring_is_refused_and_changes_nothing(void)
{
    ASSERT(knot_init(&ring, 2, 0));
    static errand e;
    e = (errand){.to = &ring.l[0], .close = true};
    csem_init(&e.over, 0);
    spies_init(&on.s[0], 1, &ring.l[0], NULL);
    on.s[0].act = call_on_errand; /* the first calls the second, which closes the first */
    on.s[0].arg = &e;
    ASSERT_INT(0, loop_scheduler_post(&ring.l[0], &on.s[0].task));
    ASSERT(is_back(&e));
    ASSERT_INT(EDEADLK, e.error);
    ASSERT(EVENTUALLY(runs(&on.s[0]) == 1));
    ASSERT_INT(0, on.s[0].error);
    CHECK_CALL(knot_ends_well(&ring)); /* it still takes calls */
    PASS();
}

TEST a_loop_may_close_another_one_which_may_not_call_it_then(void)
{
    ASSERT(knot_init(&ring, 2, 0));
    static errand close, call_back;
    close = (errand){.to = &ring.l[1], .close = true};
    call_back = (errand){.to = &ring.l[0]};
    ASSERT(send_on_errand(&ring.l[1], &on.s[0], &call_back));
    ASSERT(send_on_errand(&ring.l[0], &on.s[1], &close));
    let_go(&on.s[1]);
    ASSERT(EVENTUALLY(is_closed(&ring.l[1])));
    let_go(&on.s[0]);
    ASSERT(is_back(&call_back));
    ASSERT(is_back(&close));
    ASSERT_INT(EDEADLK, call_back.error);
    ASSERT_INT(0, atomic_load(&call_back.called));
    ASSERT_INT(0, close.error);
    ASSERT(serves(&ring.l[0]));
    ASSERT_ENDS_WELL(&ring.l[1]);
    ASSERT_ENDS_WELL(&ring.l[0]);
    PASS();
}

static void hold_and_start_the_other(spy *s)
{
    hold(s);
    s->error = loop_scheduler_start(s->arg);
}

static void hold_and_destroy_the_other(spy *s)
{
    hold(s);
    s->error = unmake(s->arg);
}

/* The thread of the second loop was told to stop, but calls the first, which waits for its end. */
TEST a_wait_for_a_thread_to_stop_that_closes_a_ring_is_refused(void (*act)(spy *))
{
    ASSERT(knot_init(&ring, 2, 0));
    static errand e;
    e = (errand){.to = &ring.l[0]};
    spies_init(&on.s[0], 1, &ring.l[0], NULL);
    on.s[0].act = act;
    on.s[0].arg = &ring.l[1];
    ASSERT_INT(0, loop_scheduler_post(&ring.l[0], &on.s[0].task));
    ASSERT(has_entered(&on.s[0]));
    ASSERT(send_on_errand(&ring.l[1], &on.s[1], &e));
    let_go(&on.s[1]);
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&ring.l[0]).queued == 1)); /* its call */
    loop_scheduler_stop(&ring.l[1]);
    let_go(&on.s[0]);
    ASSERT(is_back(&e));
    ASSERT(EVENTUALLY(runs(&on.s[0]) == 1));
    ASSERT_INT(0, e.error);
    ASSERT_INT(EDEADLK, on.s[0].error);
    ASSERT_INT(0, loop_scheduler_start(&ring.l[1]));
    return knot_ends_well(&ring);
}

static void wait_for_itself(spy *s)
{
    spy *others = s->arg;
    int wrong = 0;
    wrong += loop_scheduler_close(s->l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) != EDEADLK;
    wrong += loop_scheduler_close(s->l, LOOP_SCHEDULER_NOW, 1) != EDEADLK;
    wrong += loop_scheduler_destroy(s->l) != EDEADLK;
    wrong += loop_scheduler_run(s->l) != EDEADLK;
    wrong += loop_scheduler_run_once(s->l, PLIM_FOREVER) != EDEADLK;
    wrong += loop_scheduler_poll(s->l) != EDEADLK;
    wrong += loop_scheduler_post_for(s->l, &others[0].task, PLIM_FOREVER) != 0; /* room for one */
    wrong += loop_scheduler_post_for(s->l, &others[1].task, PLIM_FOREVER) != EDEADLK;
    s->error = wrong;
}

TEST what_a_task_would_wait_for_in_vain_is_refused(bool own_thread)
{
    static spy others[3];
    ASSERT(make(&on.l, 1));
    spies_init(others, 3, &on.l, NULL);
    on.s[0].act = wait_for_itself;
    on.s[0].arg = others;
    if (own_thread) {
        ASSERT_INT(0, loop_scheduler_start(&on.l));
    }
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    if (own_thread) {
        ASSERT(EVENTUALLY(runs(&others[0]) == 1));
    } else {
        ASSERT_INT(2, run_dry(&on.l));
    }
    ASSERT_INT(0, on.s[0].error);
    ASSERT_INT(1, runs(&on.s[0]));
    ASSERT_INT(1, runs(&others[0]));
    ASSERT_INT(0, runs(&others[1]));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &others[2].task)); /* it was not closed */
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(1, runs(&others[2]));
    PASS();
}

/* A task of one loop may run another one on the same thread. */
typedef struct nest {
    loop_scheduler inner;
    spy s;
    question q;
    errand e;
    int wrong;
} nest;

static void look_both_ways(spy *s)
{
    nest *n = s->arg;
    n->wrong += !loop_scheduler_is_current(&n->inner);
    n->wrong += !loop_scheduler_is_current(n->q.l);
    n->wrong += loop_scheduler_call(n->q.l, ask, &n->q, NULL) != 0; /* inline: the same thread */
    n->wrong += loop_scheduler_poll(&n->inner) != EDEADLK;
}

static void run_the_inner_one(spy *s)
{
    nest *n = s->arg;
    n->wrong += loop_scheduler_is_current(&n->inner);
    n->wrong += loop_scheduler_post(&n->inner, &n->s.task) != 0;
    n->wrong += loop_scheduler_poll(&n->inner) != 0;
    n->wrong += loop_scheduler_is_current(&n->inner);
    n->wrong += !loop_scheduler_is_current(s->l);
}

TEST a_task_may_run_another_loop(void)
{
    static nest n;
    memset((void *)&n, 0, sizeof n);
    ASSERT(make(&on.l, 0));
    ASSERT(make(&n.inner, 0));
    spies_init(&n.s, 1, &n.inner, NULL);
    question_init(&n.q, &on.l, 0);
    on.s[0].act = run_the_inner_one;
    n.s.act = look_both_ways;
    on.s[0].arg = n.s.arg = &n;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(0, n.wrong);
    ASSERT_INT(1, runs(&n.s));
    ASSERT_INT(1, atomic_load(&n.q.asked));
    ASSERT_ENDS_WELL(&n.inner);
    ENDS_WELL();
}

static void hold_and_run_the_inner_one(spy *s)
{
    hold(s);
    run_the_inner_one(s);
}

static void errand_from_within(spy *s)
{
    nest *n = s->arg;
    run_errand(&n->e);
}

/* The outer loop's thread, in a task of an inner one, calls a loop that calls the outer one. */
TEST a_ring_through_a_loop_inside_of_another_is_refused(bool outer_last)
{
    static loop_scheduler third;
    static nest n;
    static errand to_outer;
    memset((void *)&n, 0, sizeof n);
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(make_and_start(&third, 0));
    ASSERT(make(&n.inner, 0));
    on.s[0].act = hold_and_run_the_inner_one;
    on.s[0].arg = &n;
    spies_init(&n.s, 1, &n.inner, NULL);
    n.s.act = errand_from_within;
    n.s.arg = &n;
    n.e = (errand){.to = &third};
    csem_init(&n.e.over, 0);
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT(has_entered(&on.s[0]));
    to_outer = (errand){.to = &on.l};
    ASSERT(send_on_errand(&third, &on.s[1], &to_outer));
    let_go(outer_last ? &on.s[0] : &on.s[1]);
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(outer_last ? &third : &on.l).queued == 1));
    let_go(outer_last ? &on.s[1] : &on.s[0]);
    ASSERT(is_back(&n.e));
    ASSERT(is_back(&to_outer));
    ASSERT_INT(outer_last ? 0 : EDEADLK, n.e.error);
    ASSERT_INT(outer_last ? EDEADLK : 0, to_outer.error);
    ASSERT(EVENTUALLY(runs(&on.s[0]) == 1));
    ASSERT_INT(0, n.wrong);
    ASSERT_ENDS_WELL(&n.inner);
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_ENDS_WELL(&third);
    PASS();
}

TEST a_ring_is_seen_among_loops_that_others_run(void)
{
    memset((void *)&ring, 0, sizeof ring);
    ring.n = 2;
    csem_init(&ring.over, 0);
    for (int i = 0; i < 2; i++) {
        ASSERT(make(&ring.l[i], 0));
        on.c[i] = (caller){.l = &ring.l[i], .call = RUN};
        start_call(&on.c[i]);
    }
    spies_init(&on.s[0], 1, &ring.l[0], NULL);
    on.s[0].act = go_round_from_a_task;
    on.s[0].arg = &ring;
    ASSERT_INT(0, loop_scheduler_post(&ring.l[0], &on.s[0].task));
    ASSERT_INT(0, csem_acquire_for(&ring.over, PLIM_S(PATIENCE_S)));
    ASSERT(EVENTUALLY(runs(&on.s[0]) == 1));
    ASSERT_INT(0, ring.error[0]);
    ASSERT_INT(EDEADLK, ring.error[1]);
    CHECK_CALL(knot_ends_well(&ring));
    for (int i = 0; i < 2; i++) {
        ASSERT(finished(&on.c[i]));
        ASSERT_INT(0, on.c[i].error);
    }
    PASS();
}

SUITE(waits_that_could_never_end_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TESTp(a_ring_of_calls_is_refused_where_it_would_close, 2, false);
    RUN_TESTp(a_ring_of_calls_is_refused_where_it_would_close, 2, true);
    RUN_TESTp(a_ring_of_calls_is_refused_where_it_would_close, 3, false);
    RUN_TESTp(a_ring_of_calls_is_refused_where_it_would_close, 3, true);
    RUN_TESTp(of_a_ring_of_loops_that_call_each_other_one_is_told, 2);
    RUN_TESTp(of_a_ring_of_loops_that_call_each_other_one_is_told, 3);
    RUN_TEST(calls_that_form_no_ring_are_never_refused);
    RUN_TEST(what_is_over_makes_no_ring);
    RUN_TEST(of_two_loops_that_wait_for_room_in_each_other_one_is_told);
    RUN_TEST(a_wait_for_room_that_closes_a_ring_is_refused);
    RUN_TEST(a_close_that_closes_a_ring_is_refused_and_changes_nothing);
    RUN_TEST(a_loop_may_close_another_one_which_may_not_call_it_then);
    RUN_TESTp(a_wait_for_a_thread_to_stop_that_closes_a_ring_is_refused, hold_and_start_the_other);
    RUN_TESTp(a_wait_for_a_thread_to_stop_that_closes_a_ring_is_refused,
              hold_and_destroy_the_other);
    RUN_TESTp(what_a_task_would_wait_for_in_vain_is_refused, false);
    RUN_TESTp(what_a_task_would_wait_for_in_vain_is_refused, true);
    RUN_TEST(a_task_may_run_another_loop);
    RUN_TESTp(a_ring_through_a_loop_inside_of_another_is_refused, false);
    RUN_TESTp(a_ring_through_a_loop_inside_of_another_is_refused, true);
    RUN_TEST(a_ring_is_seen_among_loops_that_others_run);
}
