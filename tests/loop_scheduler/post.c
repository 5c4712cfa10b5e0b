/* SPDX-License-Identifier: MIT
 *
 * Tasks: posting them, refusals, and whose memory they are.
 */

TEST a_task_runs_once_with_0_on_the_thread_that_runs_the_loop(void)
{
    ASSERT(make(&on.l, 0));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, runs(&on.s[0]));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(1, runs(&on.s[0]));
    ASSERT(on.s[0].current);
    ASSERT(on.s[0].thread == this_thread());
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    ASSERT_INT(1, runs(&on.s[0]));
    ASSERT_INT(0, cancels(&on.s[0]));
    ASSERT_INT(0, atomic_load(&on.s[0].odd));
    ENDS_WELL();
}

TEST a_started_loop_has_one_thread_of_its_own(void)
{
    enum { N = 50 };
    static spy s[N];
    ASSERT(make_and_start(&on.l, 0));
    spies_init(s, N, &on.l, NULL);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &s[i].task));
        if (i % 2 == 0) {
            ASSERT(EVENTUALLY(runs(&s[i]) == 1));
        }
    }
    ASSERT(EVENTUALLY(runs(&s[N - 1]) == 1));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(1, runs(&s[i]));
        ASSERT(s[i].thread != this_thread());
        ASSERT(s[i].thread == s[0].thread);
        ASSERT(s[i].current);
    }
    ENDS_WELL();
}

TEST a_task_without_a_function_is_refused_and_nothing_changes(void)
{
    ASSERT(make(&on.l, 0));
    on.s[1].task.run = NULL;
    ASSERT_INT(EINVAL, loop_scheduler_post(&on.l, &on.s[1].task));
    ASSERT_INT(EINVAL, loop_scheduler_post_for(&on.l, &on.s[1].task, PLIM_FOREVER));
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).queued);
    ASSERT_U64(0, loop_scheduler_snapshot(&on.l).posted);
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    on.s[1].task.run = run_spy;
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("1 2 3", story(&on.d));
    ENDS_WELL();
}

TEST a_queued_task_is_not_taken_again(void)
{
    ASSERT(make(&on.l, 0));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(EALREADY, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(EALREADY, loop_scheduler_post_for(&on.l, &on.s[0].task, PLIM_MS(1)));
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).queued);
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_STR_EQ("1", story(&on.d));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task)); /* it is not queued now */
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_STR_EQ("1 2 1", story(&on.d));
    ENDS_WELL();
}

static void post_itself_again(spy *s)
{
    if (--s->number > 0) {
        s->error = loop_scheduler_post(s->l, &s->task);
        s->result = loop_scheduler_post(s->l, &s->task);
    }
}

TEST a_task_may_be_posted_again_as_soon_as_it_runs(void)
{
    ASSERT(make(&on.l, 0));
    on.s[0].act = post_itself_again;
    on.s[0].number = 3;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(1, runs(&on.s[0])); /* what it posts waits for the next turn */
    ASSERT_INT(0, on.s[0].error);
    ASSERT_INT(EALREADY, on.s[0].result);
    ASSERT_INT(2, run_dry(&on.l));
    ASSERT_INT(3, runs(&on.s[0]));
    ENDS_WELL();
}

typedef struct parcel {
    loop_scheduler_task task;
    int content;
    atomic_int *opened, *wrong;
} parcel;

static void open_parcel(loop_scheduler_task *task, int status)
{
    parcel *p = task->arg;
    if (p->content != 42) {
        atomic_fetch_add(p->wrong, 1);
    }
    atomic_int *opened = p->opened;
    memset((void *)p, 0xa5, sizeof *p);
    free(p);
    (void)status;
    atomic_fetch_add(opened, 1);
}

typedef struct parcels {
    atomic_int opened, wrong;
} parcels;

static plim_thread_result send_parcels(void *arg)
{
    crowd *c = ((member *)arg)->crowd;
    parcels *shop = c->arg;
    wait_for_go(c);
    for (int i = 0; i < c->rounds; i++) {
        parcel *p = calloc(1, sizeof *p);
        if (p == NULL) {
            break;
        }
        p->task.run = open_parcel;
        p->task.arg = p;
        p->content = 42;
        p->opened = &shop->opened;
        p->wrong = &shop->wrong;
        if (loop_scheduler_post(c->l, &p->task) == 0) {
            atomic_fetch_add(&c->accepted, 1);
        } else {
            free(p);
        }
    }
    return 0;
}

TEST run_may_free_its_task_and_sees_what_was_done_before_the_post(void)
{
    enum { N = 4 };
    member m[N];
    static parcels shop;
    memset((void *)&shop, 0, sizeof shop);
    ASSERT(make_and_start(&on.l, 0));
    crowd c = {.l = &on.l, .rounds = scaled(20000), .arg = &shop};
    start_crowd(&c, m, N, send_parcels);
    join_crowd(m, N);
    ASSERT_INT(N * c.rounds, atomic_load(&c.accepted));
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(N * c.rounds, atomic_load(&shop.opened));
    ASSERT_INT(0, atomic_load(&shop.wrong));
    PASS();
}

/* Its thread makes a loop, runs it until a task ends that, and frees it at once. */
typedef struct mayfly {
    _Atomic(loop_scheduler *) l;
    csem born;
    int made, ran, destroyed;
} mayfly;

static plim_thread_result live_and_die(void *arg)
{
    mayfly *f = arg;
    loop_scheduler *l = malloc(sizeof *l);
    f->made = l != NULL ? loop_scheduler_init(l, NULL) : ENOMEM;
    atomic_store(&f->l, l);
    csem_release(&f->born);
    f->ran = loop_scheduler_run(l);
    f->destroyed = loop_scheduler_destroy(l);
    memset((void *)l, 0xa5, sizeof *l);
    free(l);
    return 0;
}

static void stop_it(loop_scheduler_task *task, int status)
{
    (void)status;
    loop_scheduler_stop(task->arg);
}

TEST a_task_may_end_its_loop_and_free_it_before_post_has_returned(void)
{
    uint64_t random = 1;
    int64_t end = plim_now_() + race_ns();
    for (int round = scaled(3000); round > 0 && plim_now_() < end; round--) {
        mayfly f = {.l = NULL};
        plim_thread thread;
        csem_init(&f.born, 0);
        start(&thread, live_and_die, &f);
        ASSERT_INT(0, csem_acquire_for(&f.born, PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, f.made);
        loop_scheduler *l = atomic_load(&f.l);
        loop_scheduler_task task = {.run = stop_it, .arg = l};
        dawdle(next_random(&random)); /* sometimes it sleeps by now */
        ASSERT_INT(0, loop_scheduler_post(l, &task));
        join(thread);
        ASSERT_INT(0, f.ran);
        ASSERT_INT(0, f.destroyed);
    }
    PASS();
}

SUITE(posting_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(a_task_runs_once_with_0_on_the_thread_that_runs_the_loop);
    RUN_TEST(a_started_loop_has_one_thread_of_its_own);
    RUN_TEST(a_task_without_a_function_is_refused_and_nothing_changes);
    RUN_TEST(a_queued_task_is_not_taken_again);
    RUN_TEST(a_task_may_be_posted_again_as_soon_as_it_runs);
    RUN_TEST(run_may_free_its_task_and_sees_what_was_done_before_the_post);
    RUN_TEST(a_task_may_end_its_loop_and_free_it_before_post_has_returned);
}
