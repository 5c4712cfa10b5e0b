/* SPDX-License-Identifier: MIT
 *
 * The order in which tasks run, turns of tasks and timers, and wake-ups.
 */

TEST what_a_task_posts_runs_later_and_behind_what_is_queued(void)
{
    ASSERT(make(&on.l, 0));
    on.s[0].act = post_another;
    on.s[0].arg = &on.s[3];
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    ASSERT_INT(2, run_dry(&on.l));
    ASSERT_INT(0, on.s[0].error);
    ASSERT_INT(0, on.s[0].result); /* not inside of post */
    ASSERT_STR_EQ("1 2 3 4", story(&on.d));
    ENDS_WELL();
}

enum { POSTERS = 50, POSTS = 100 };

typedef struct ticket {
    loop_scheduler_task task;
    struct ledger *ledger;
    int poster, number;
} ticket;

typedef struct ledger {
    loop_scheduler *l;
    ticket tickets[POSTERS][POSTS];
    int next[POSTERS];           /* on the loop, without a lock: the number to come */
    int inside, overlaps, wrong; /* likewise */
    const void *thread;
    atomic_int ran;
} ledger;

static void punch(loop_scheduler_task *task, int status)
{
    ticket *t = task->arg;
    ledger *k = t->ledger;
    k->overlaps += k->inside++ != 0;
    k->wrong += status != 0 || k->next[t->poster] != t->number;
    k->wrong += k->thread != NULL && k->thread != this_thread();
    k->thread = this_thread();
    k->next[t->poster] = t->number + 1;
    k->inside--;
    atomic_fetch_add(&k->ran, 1);
}

static plim_thread_result post_tickets(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    ledger *k = c->arg;
    uint64_t random = (uint64_t)m->number + 1;
    wait_for_go(c);
    for (int i = 0; i < POSTS; i++) {
        int error = loop_scheduler_post(c->l, &k->tickets[m->number][i].task);
        atomic_fetch_add(error == 0 ? &c->accepted : &c->odd, 1);
        dawdle(next_random(&random));
    }
    return 0;
}

TEST fifty_threads_post_and_each_keeps_its_order_and_none_overlap(void)
{
    static member m[POSTERS];
    ledger *k = calloc(1, sizeof *k);
    ASSERT(k != NULL);
    ASSERT(make_and_start(&on.l, 0));
    for (int i = 0; i < POSTERS; i++) {
        for (int j = 0; j < POSTS; j++) {
            k->tickets[i][j] = (ticket){.task = {.run = punch, .arg = &k->tickets[i][j]},
                                        .ledger = k,
                                        .poster = i,
                                        .number = j};
        }
    }
    crowd c = {.l = &on.l, .arg = k};
    start_crowd(&c, m, POSTERS, post_tickets);
    join_crowd(m, POSTERS);
    ASSERT_INT(POSTERS * POSTS, atomic_load(&c.accepted));
    ASSERT(EVENTUALLY(atomic_load(&k->ran) == POSTERS * POSTS));
    ASSERT_U64(POSTERS * POSTS, loop_scheduler_snapshot(&on.l).posted);
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(0, k->wrong);
    ASSERT_INT(0, k->overlaps);
    ASSERT_INT(POSTERS * POSTS, atomic_load(&k->ran));
    free(k);
    PASS();
}

/* A second thread, which posts when it is told, and says so. */
typedef struct relay {
    loop_scheduler *l;
    csem go, gone;
    spy *remote;
    int rounds, odd;
    atomic_bool quit;
    plim_thread thread;
} relay;

static plim_thread_result post_when_told(void *arg)
{
    relay *r = arg;
    for (int i = 0; i < r->rounds && !atomic_load(&r->quit); i++) {
        r->odd += csem_acquire_for(&r->go, PLIM_S(PATIENCE_S)) != 0;
        r->odd += loop_scheduler_post(r->l, &r->remote->task) != 0;
        csem_release(&r->gone);
    }
    return 0;
}

static void join_relay(relay *r)
{
    join(r->thread);
    on.undo = NULL;
}

/* Before its rounds are over. */
static void end_relay(void *arg)
{
    relay *r = arg;
    atomic_store(&r->quit, true);
    csem_release(&r->go);
    join_relay(r);
    csem_release(&r->gone); /* for a task that still waits for its post */
}

static void start_relay(relay *r)
{
    csem_init(&r->go, 0);
    csem_init(&r->gone, 0);
    start(&r->thread, post_when_told, r);
    on.undo = end_relay;
    on.undo_arg = r;
}

static bool let_the_other_post(relay *r)
{
    csem_release(&r->go);
    return csem_acquire_for(&r->gone, PLIM_S(PATIENCE_S)) == 0;
}

typedef struct scene {
    loop_scheduler *l;
    spy s[4];
    relay r;
    int next; /* on the loop */
    int place[4];
    csem over;
    int odd;
} scene;

static void take_place(spy *s)
{
    scene *k = s->arg;
    k->place[s->number - 1] = k->next++;
    if (s->number == 3) {
        csem_release(&k->over);
    }
}

static void post_around_the_other(spy *s)
{
    scene *k = s->arg;
    k->odd += loop_scheduler_post(k->l, &k->s[0].task) != 0;
    k->odd += !let_the_other_post(&k->r); /* the second */
    k->odd += loop_scheduler_post(k->l, &k->s[2].task) != 0;
}

/* The loop's thread posts, tells another thread, which posts, and tells the loop's thread, which
 * posts again: they run in this order. With from_outside, the first thread is not the loop's. */
TEST posts_run_in_the_order_in_which_they_can_have_known_of_each_other(bool from_outside)
{
    static scene k;
    memset((void *)&k, 0, sizeof k);
    k.l = &on.l;
    csem_init(&k.over, 0);
    ASSERT(make_and_start(&on.l, 0));
    spies_init(k.s, 4, &on.l, NULL);
    for (int i = 0; i < 3; i++) {
        k.s[i].act = take_place;
        k.s[i].arg = &k;
    }
    k.s[3].act = post_around_the_other;
    k.s[3].arg = &k;
    k.r = (relay){.l = &on.l, .remote = &k.s[1], .rounds = scaled(4000)};
    start_relay(&k.r);
    int wrong = 0;
    for (int i = 0; i < k.r.rounds; i++) {
        if (from_outside) {
            post_around_the_other(&k.s[3]);
        } else {
            ASSERT_INT(0, loop_scheduler_post(&on.l, &k.s[3].task));
        }
        ASSERT_INT(0, csem_acquire_for(&k.over, PLIM_S(PATIENCE_S)));
        wrong += k.place[0] != 3 * i || k.place[1] != 3 * i + 1 || k.place[2] != 3 * i + 2;
    }
    join_relay(&k.r);
    ASSERT_INT(0, k.odd + k.r.odd);
    ASSERT_INT(0, wrong);
    ENDS_WELL();
}

enum { REPOSTS = 1000 };

static void go_on_for_ever(spy *s)
{
    scene *k = s->arg;
    k->next++;
    if (k->next == REPOSTS) {
        k->odd += !let_the_other_post(&k->r);
    }
    if (k->next < 2 * REPOSTS) {
        k->odd += loop_scheduler_post(s->l, &s->task) != 0;
    } else {
        csem_release(&k->over);
    }
}

static void see_how_far(spy *s)
{
    scene *k = s->arg;
    k->place[0] = k->next;
}

TEST a_task_that_posts_itself_keeps_nobody_waiting(void)
{
    static scene k;
    memset((void *)&k, 0, sizeof k);
    csem_init(&k.over, 0);
    ASSERT(make_and_start(&on.l, 0));
    spies_init(k.s, 2, &on.l, NULL);
    k.s[0].act = go_on_for_ever;
    k.s[1].act = see_how_far;
    k.s[0].arg = k.s[1].arg = &k;
    k.r = (relay){.l = &on.l, .remote = &k.s[1], .rounds = 1};
    start_relay(&k.r);
    ASSERT_INT(0, loop_scheduler_post(&on.l, &k.s[0].task));
    ASSERT_INT(0, csem_acquire_for(&k.over, PLIM_S(PATIENCE_S)));
    join_relay(&k.r);
    ASSERT_INT(0, k.odd + k.r.odd);
    ASSERT_INT(REPOSTS, k.place[0]); /* posted in its run 1000, it ran before 1001 */
    ENDS_WELL();
}

TEST a_turn_runs_what_was_queued_when_it_began(void)
{
    ASSERT(make(&on.l, 0));
    for (int i = 0; i < 3; i++) {
        on.s[i].act = post_another;
        on.s[i].arg = &on.s[i + 3];
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("1 2 3", story(&on.d));
    ASSERT_INT(3, loop_scheduler_snapshot(&on.l).queued);
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("1 2 3 4 5 6", story(&on.d));
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    ENDS_WELL();
}

TEST timers_and_tasks_take_turns_by_64(void)
{
    enum { N = 300 };
    static spy s[N];
    static bell b[N];
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    spies_init(s, N, &on.l, &on.d);
    bells_init(b, N, &on.l, &on.w, &on.d);
    for (int i = 0; i < N; i++) {
        s[i].number = 1;
        b[i].number = 2;
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &b[i].timer, 1000 + i, 0));
    }
    run_dry(&on.l); /* now the loop knows them */
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &s[i].task));
    }
    pass_time(&on.w, 2000);
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(2 * N, atomic_load(&on.d.count)); /* all of it in one turn */
    int in_a_row = 0, seen[3] = {0, 0, 0};
    for (int i = 0; i < 2 * N; i++) {
        in_a_row = i > 0 && on.d.number[i] == on.d.number[i - 1] ? in_a_row + 1 : 1;
        seen[on.d.number[i]]++;
        ASSERT(in_a_row <= 64 || seen[3 - on.d.number[i]] == N);
    }
    ASSERT_INT(N, seen[1]);
    ENDS_WELL();
}

static void pass_some_time(spy *s)
{
    pass_time(s->arg, 10);
}

TEST a_long_turn_calls_the_timers_that_become_due_meanwhile(void)
{
    enum { N = 300, AT = 100 };
    static spy s[N];
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    spies_init(s, N, &on.l, &on.d);
    on.b[0].number = 0;
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 0));
    s[AT].act = pass_some_time;
    s[AT].arg = &on.w;
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(N + 1, atomic_load(&on.d.count));
    int place = 0;
    while (on.d.number[place] != 0) {
        place++;
    }
    ASSERT(place > AT);
    ASSERT(place <= AT + 64);
    ENDS_WELL();
}

static void start_again_at_once(bell *b)
{
    b->error = loop_scheduler_timer_start(b->l, &b->timer, b->ns, 0);
}

TEST a_timer_without_delay_that_starts_itself_runs_once_a_turn(int64_t delay_ns)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    on.s[0].number = 2;
    on.b[0].act = start_again_at_once;
    on.b[0].ns = delay_ns;
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, delay_ns, 0));
    for (int i = 1; i <= 10; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
        ASSERT_INT(0, loop_scheduler_poll(&on.l));
        ASSERT_INT(i, rings(&on.b[0]));
        ASSERT_INT(i, runs(&on.s[0]));
        ASSERT_INT(0, on.b[0].error);
    }
    ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ENDS_WELL();
}

TEST a_flood_of_posts_does_not_hold_up_a_timer(void)
{
    static spy s[100];
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    spies_init(s, 100, &on.l, NULL);
    for (int i = 0; i < 100; i++) {
        s[i].act = post_again_for_ever;
        ASSERT_INT(0, loop_scheduler_post(&on.l, &s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 10));
    for (int i = 1; i <= 20; i++) {
        pass_time(&on.w, 10);
        ASSERT_INT(0, loop_scheduler_poll(&on.l));
        ASSERT_INT(i, rings(&on.b[0]));
        ASSERT_INT(i, runs(&s[99]));
    }
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < 100; i++) {
        ASSERT_INT(20, runs(&s[i]));
        ASSERT_INT(1, cancels(&s[i]));
    }
    ENDS_WELL();
}

TEST an_awake_loop_is_not_woken(void)
{
    enum { N = 100 };
    static spy s[N];
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(occupy(&on.l, &on.gate));
    loop_scheduler_stats before = loop_scheduler_snapshot(&on.l);
    spies_init(s, N, &on.l, NULL);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &s[i].task));
    }
    loop_scheduler_stats after = loop_scheduler_snapshot(&on.l);
    ASSERT_U64(before.wakes, after.wakes);
    ASSERT_U64(before.sleeps, after.sleeps);
    let_go(&on.gate);
    ASSERT(EVENTUALLY(runs(&s[N - 1]) == 1));
    ENDS_WELL();
}

TEST a_loop_that_nobody_runs_is_not_woken(void)
{
    static spy s[10];
    ASSERT(make(&on.l, 0));
    spies_init(s, 10, &on.l, NULL);
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_run_once(&on.l, PLIM_S(PATIENCE_S)));
    ASSERT_U64(0, loop_scheduler_snapshot(&on.l).wakes);
    ASSERT_U64(0, loop_scheduler_snapshot(&on.l).sleeps);
    ENDS_WELL();
}

TEST a_sleeping_loop_is_woken_once(void)
{
    ASSERT(make_and_start(&on.l, 0));
    int woken = 0;
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    while (woken < 20) {
        ASSERT(plim_now_() < give_up); /* it never sleeps, or sleeping is not counted */
        static spy more[3];
        uint64_t before = loop_scheduler_snapshot(&on.l).wakes;
        uint64_t sleeps = loop_scheduler_snapshot(&on.l).sleeps;
        ASSERT(occupy(&on.l, &on.gate));
        spies_init(more, 3, &on.l, NULL);
        for (int i = 0; i < 3; i++) {
            ASSERT_INT(0, loop_scheduler_post(&on.l, &more[i].task));
        }
        let_go(&on.gate);
        ASSERT(EVENTUALLY(runs(&more[2]) == 1 && runs(&on.gate) == 1));
        loop_scheduler_stats s = loop_scheduler_snapshot(&on.l);
        ASSERT(s.wakes - before <= 1);
        ASSERT(s.wakes <= s.sleeps);
        woken += s.wakes - before == 1;
        ASSERT(falls_asleep(&on.l, sleeps));
    }
    ENDS_WELL();
}

SUITE(order_and_turns_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(what_a_task_posts_runs_later_and_behind_what_is_queued);
    RUN_TEST(fifty_threads_post_and_each_keeps_its_order_and_none_overlap);
    RUN_TESTp(posts_run_in_the_order_in_which_they_can_have_known_of_each_other, false);
    RUN_TESTp(posts_run_in_the_order_in_which_they_can_have_known_of_each_other, true);
    RUN_TEST(a_task_that_posts_itself_keeps_nobody_waiting);
    RUN_TEST(a_turn_runs_what_was_queued_when_it_began);
    RUN_TEST(timers_and_tasks_take_turns_by_64);
    RUN_TEST(a_long_turn_calls_the_timers_that_become_due_meanwhile);
    RUN_TESTp(a_timer_without_delay_that_starts_itself_runs_once_a_turn, 0);
    RUN_TESTp(a_timer_without_delay_that_starts_itself_runs_once_a_turn, -5);
    RUN_TEST(a_flood_of_posts_does_not_hold_up_a_timer);
    RUN_TEST(an_awake_loop_is_not_woken);
    RUN_TEST(a_loop_that_nobody_runs_is_not_woken);
    RUN_TEST(a_sleeping_loop_is_woken_once);
}
