/* SPDX-License-Identifier: MIT
 *
 * Work that executors do for a loop, and the loop as an executor.
 */

TEST work_runs_elsewhere_and_comes_back_to_the_loop(void)
{
    enum { N = 20 };
    static chore c[N];
    ASSERT(make_and_start(&on.l, 1));
    chores_init(c, N, &on.l, NULL);
    for (int i = 0; i < N; i++) {
        plim_executor executor = {execute_on_a_thread, &on.crew};
        ASSERT_INT(0, loop_scheduler_offload(&on.l, &executor, &c[i].work));
        memset((void *)&executor, 0xa5, sizeof executor); /* it is needed no longer */
    }
    for (int i = 0; i < N; i++) {
        ASSERT(EVENTUALLY(atomic_load(&c[i].thens) == 1));
        ASSERT_INT(1, atomic_load(&c[i].works));
        ASSERT_INT(i + 1, c[i].result);
        ASSERT_INT(1001 + i, c[i].found);
        ASSERT(c[i].current);
        ASSERT(c[i].worker != c[i].home);
        ASSERT(c[i].worker != this_thread());
    }
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).offloaded);
    ASSERT_ENDS_WELL(&on.l);
    join_crew(&on.crew);
    PASS();
}

typedef struct offloader {
    spy s;
    chore c;
    plim_executor executor;
} offloader;

static void offload_from_a_task(spy *s)
{
    offloader *o = s->arg;
    s->error = loop_scheduler_offload(s->l, &o->executor, &o->c.work);
    s->result = atomic_load(&o->c.works) * 10 + atomic_load(&o->c.thens);
}

TEST then_is_always_a_task_of_its_own(void)
{
    static offloader o;
    ASSERT(make(&on.l, 0));
    spies_init(&o.s, 1, &on.l, &on.d);
    on.s[0].number = 2;
    chores_init(&o.c, 1, &on.l, &on.d);
    o.c.number = 3;
    o.executor = (plim_executor){execute_here, NULL};
    o.s.act = offload_from_a_task;
    o.s.arg = &o;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &o.s.task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(0, o.s.error);
    ASSERT_INT(10, o.s.result); /* worked on the spot, but `then` was not called there */
    ASSERT_STR_EQ("1 2", story(&on.d));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_STR_EQ("1 2 3", story(&on.d));
    ASSERT_INT(3, o.c.result);
    ENDS_WELL();
}

TEST what_the_executor_refuses_is_told_and_never_comes_back(int error)
{
    plim_executor nobody = {refuse, &error};
    ASSERT(make(&on.l, 0));
    ASSERT_INT(error, loop_scheduler_offload(&on.l, &nobody, &on.k[0].work));
    ASSERT_INT(0, run_dry(&on.l));
    ASSERT_INT(0, atomic_load(&on.k[0].works) + atomic_load(&on.k[0].thens) +
                      atomic_load(&on.k[0].cancels));
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).offloaded);
    ASSERT_INT(ENOENT, loop_scheduler_work_cancel(&on.l, &on.k[0].work));
    ASSERT_INT(0, loop_scheduler_offload(&on.l, &on_the_spot, &on.k[0].work));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, atomic_load(&on.k[0].thens));
    ENDS_WELL();
}

static void offload_again(chore *c)
{
    c->act = NULL;
    c->error = loop_scheduler_offload(c->l, c->executor, &c->work);
}

TEST work_that_is_not_back_is_not_taken_again(void)
{
    loop_scheduler_work nothing = {.work = NULL};
    ASSERT(make(&on.l, 0));
    ASSERT_INT(EINVAL, loop_scheduler_offload(&on.l, &later, &nothing));
    ASSERT_INT(0, on.sh.used);
    on.k[0].act = offload_again;
    on.k[0].executor = &later;
    ASSERT_INT(0, loop_scheduler_offload(&on.l, &later, &on.k[0].work));
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).offloaded);
    ASSERT_INT(EALREADY, loop_scheduler_offload(&on.l, &later, &on.k[0].work));
    ASSERT(take_down(&on.sh));
    ASSERT_INT(EALREADY,
               loop_scheduler_offload(&on.l, &later, &on.k[0].work)); /* done, but not back */
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, atomic_load(&on.k[0].thens));
    ASSERT_INT(0, on.k[0].error); /* in `then` it is */
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).offloaded);
    ASSERT(take_down(&on.sh));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(2, atomic_load(&on.k[0].thens));
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_offload(&on.l, &later, &on.k[0].work));
    ASSERT_INT(2, on.sh.used);
    ENDS_WELL();
}

TEST nothing_need_be_called_when_work_is_done(void)
{
    ASSERT(make(&on.l, 0));
    on.k[0].work.then = NULL;
    ASSERT_INT(0, loop_scheduler_offload(&on.l, &on_the_spot, &on.k[0].work));
    run_dry(&on.l);
    ASSERT_INT(1, atomic_load(&on.k[0].works));
    ASSERT_INT(1, on.k[0].work.result);
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).offloaded);
    ENDS_WELL();
}

TEST work_that_has_not_begun_can_be_cancelled(void)
{
    ASSERT(make(&on.l, 0));
    ASSERT_INT(ENOENT, loop_scheduler_work_cancel(&on.l, &on.k[0].work));
    ASSERT_INT(0, loop_scheduler_offload(&on.l, &later, &on.k[0].work));
    ASSERT_INT(0, loop_scheduler_work_cancel(&on.l, &on.k[0].work));
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&on.l, &on.k[0].work));
    ASSERT_INT(0, run_dry(&on.l));
    ASSERT_INT(0, atomic_load(&on.k[0].cancels)); /* told when the executor would have run it */
    ASSERT_INT(1, loop_scheduler_snapshot(&on.l).offloaded);
    ASSERT(take_down(&on.sh));
    ASSERT_INT(0, atomic_load(&on.k[0].cancels)); /* on the loop */
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, atomic_load(&on.k[0].cancels));
    ASSERT_INT(0, atomic_load(&on.k[0].works));
    ASSERT_INT(0, atomic_load(&on.k[0].thens));
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&on.l, &on.k[0].work));
    ASSERT_INT(0, loop_scheduler_offload(&on.l, &later, &on.k[0].work)); /* again */
    ASSERT(take_down(&on.sh));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, atomic_load(&on.k[0].thens));
    ENDS_WELL();
}

TEST work_that_runs_or_has_run_cannot_be_cancelled(void)
{
    ASSERT(make(&on.l, 0));
    on.k[0].held = true;
    ASSERT_INT(0, loop_scheduler_offload(&on.l, &on_threads, &on.k[0].work));
    ASSERT_INT(0, csem_acquire_for(&on.k[0].entered, PLIM_S(PATIENCE_S)));
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&on.l, &on.k[0].work));
    csem_release(&on.k[0].exit);
    join_crew(&on.crew);
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&on.l, &on.k[0].work));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, atomic_load(&on.k[0].thens));
    ASSERT_INT(0, atomic_load(&on.k[0].cancels));
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&on.l, &on.k[0].work));
    ENDS_WELL();
}

/* An executor with one thread that looks for work all the time. */
typedef struct hasty {
    _Atomic(void *) arg;
    void (*run)(void *);
    atomic_bool quit;
} hasty;

static int execute_hastily(void *ctx, void (*run)(void *), void *arg)
{
    hasty *h = ctx;
    h->run = run;
    atomic_store(&h->arg, arg);
    return 0;
}

static plim_thread_result be_hasty(void *arg)
{
    hasty *h = arg;
    while (!atomic_load(&h->quit)) {
        void *work = atomic_exchange(&h->arg, NULL);
        if (work != NULL) {
            h->run(work);
        } else {
            plim_thread_yield_();
        }
    }
    return 0;
}

static void end_work_race(loop_scheduler_work *work, int status)
{
    race *r = work->arg;
    r->status = status;
    csem_release(&r->over);
}

static int work_in_a_race(void *arg)
{
    race *r = arg;
    r->status = 1;
    return 0;
}

TEST a_cancel_races_with_the_work_and_one_of_them_wins(void)
{
    static race r;
    hasty h = {.run = NULL};
    plim_executor executor = {execute_hastily, &h};
    plim_thread thread;
    uint64_t random = 13;
    r = (race){.status = -1};
    csem_init(&r.over, 0);
    ASSERT(make_and_start(&on.l, 0));
    start(&thread, be_hasty, &h);
    int wrong = 0;
    int64_t end = plim_now_() + race_ns();
    for (int round = scaled(20000); round > 0 && plim_now_() < end && wrong == 0; round--) {
        r.work = (loop_scheduler_work){
            .work = work_in_a_race, .then = end_work_race, .arg = &r, .result = -1};
        r.status = -1;
        wrong += loop_scheduler_offload(&on.l, &executor, &r.work) != 0;
        for (uint64_t i = next_random(&random) % 256; i > 0; i--) {
            plim_pause_();
        }
        int error = loop_scheduler_work_cancel(&on.l, &r.work);
        wrong += csem_acquire_for(&r.over, PLIM_S(PATIENCE_S)) != 0;
        wrong += r.status != (error == 0 ? ECANCELED : 0);
        wrong += r.work.result != (error == 0 ? -ECANCELED : 0); /* it worked, or it did not */
        wrong += error != 0 && error != EALREADY;
    }
    atomic_store(&h.quit, true);
    join(thread);
    ASSERT_INT(0, wrong);
    ENDS_WELL();
}

/* 1 ns has passed before the closer looks for the first time. */
TEST close_waits_for_work_and_tells_it(int how, bool running, int64_t timeout_ns)
{
    ASSERT(make(&on.l, 0));
    if (running) {
        ASSERT_INT(0, loop_scheduler_start(&on.l));
    }
    for (int i = 0; i < 2; i++) {
        on.k[i].held = true;
        ASSERT_INT(0, loop_scheduler_offload(&on.l, &on_threads, &on.k[i].work));
        ASSERT_INT(0, csem_acquire_for(&on.k[i].entered, PLIM_S(PATIENCE_S)));
    }
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_close(&on.l, how, timeout_ns));
    ASSERT(plim_now_() - from >= timeout_ns);
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    ASSERT_INT(2, loop_scheduler_snapshot(&on.l).offloaded);
    start_close(&on.c[0], how);
    csem_release(&on.k[0].exit);
    ASSERT(EVENTUALLY(loop_scheduler_snapshot(&on.l).offloaded == 1));
    ASSERT(waits(&on.c[0]));
    csem_release(&on.k[1].exit);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(1, atomic_load(&on.k[i].works));
        ASSERT_INT(1, atomic_load(&on.k[i].thens) + atomic_load(&on.k[i].cancels));
        ASSERT_INT(1, atomic_load(&on.k[i].cancels)); /* its time was over: it had become NOW */
        ASSERT(on.k[i].current);
    }
    join_crew(&on.crew);
    ENDS_WELL();
}

TEST a_drain_brings_back_what_its_tasks_offload(int kind)
{
    static offloader o;
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    spies_init(&o.s, 1, &on.l, NULL);
    chores_init(&o.c, 1, &on.l, NULL);
    o.executor = (plim_executor){execute_on_a_thread, &on.crew};
    o.s.act = offload_from_a_task;
    o.s.arg = &o;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.gate.task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &o.s.task));
    start_close(&on.c[0], LOOP_SCHEDULER_DRAIN);
    ASSERT(has_entered(&on.gate));
    ASSERT(EVENTUALLY(is_closed(&on.l)));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_offload(&on.l, &o.executor, &on.k[0].work));
    let_go(&on.gate);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(0, o.s.error);
    ASSERT_INT(1, atomic_load(&o.c.thens));
    ASSERT_INT(1, o.c.result);
    ASSERT_INT(0, atomic_load(&on.k[0].works));
    join_crew(&on.crew);
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

/* An executor that takes its time to refuse: until the gate of a question is open. */
static int refuse_at_last(void *ctx, void (*run)(void *), void *arg)
{
    question *q = ctx;
    (void)run;
    (void)arg;
    csem_release(&q->entered);
    csem_acquire_for(&q->exit, PLIM_S(PATIENCE_S));
    return ENOSPC;
}

typedef struct applicant {
    chore *c;
    plim_executor executor;
    int error;
    plim_thread thread;
} applicant;

static void join_applicant(void *arg)
{
    join(((applicant *)arg)->thread);
    on.undo = NULL;
}

static plim_thread_result apply(void *arg)
{
    applicant *a = arg;
    a->error = loop_scheduler_offload(a->c->l, &a->executor, &a->c->work);
    return 0;
}

TEST a_loop_that_is_closed_ends_when_the_last_work_is_refused(int how, int kind)
{
    static applicant a;
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    a = (applicant){.c = &on.k[0], .executor = {refuse_at_last, &on.q[0]}};
    start(&a.thread, apply, &a);
    on.undo = join_applicant;
    on.undo_arg = &a;
    ASSERT_INT(0, csem_acquire_for(&on.q[0].entered, PLIM_S(PATIENCE_S)));
    start_close(&on.c[0], how);
    ASSERT(waits(&on.c[0])); /* it may come back yet, so the loop sleeps */
    csem_release(&on.q[0].exit);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    join_applicant(&a);
    ASSERT_INT(ENOSPC, a.error);
    ASSERT_INT(0, atomic_load(&on.k[0].works) + atomic_load(&on.k[0].thens) +
                      atomic_load(&on.k[0].cancels));
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

static void free_work(loop_scheduler_work *work, int status)
{
    atomic_int *freed = work->arg;
    (void)status;
    memset((void *)work, 0xa5, sizeof *work);
    free(work);
    atomic_fetch_add(freed, 1);
}

TEST work_may_be_freed_when_it_is_back(void)
{
    enum { N = 40 };
    static atomic_int freed;
    atomic_store(&freed, 0);
    ASSERT(make_and_start(&on.l, 0));
    for (int i = 0; i < N; i++) {
        loop_scheduler_work *work = calloc(1, sizeof *work);
        ASSERT(work != NULL);
        work->work = no_work;
        work->then = free_work;
        work->arg = &freed;
        ASSERT_INT(0, loop_scheduler_offload(&on.l, &on_threads, work));
    }
    ASSERT(EVENTUALLY(atomic_load(&freed) == N));
    ASSERT_ENDS_WELL(&on.l);
    join_crew(&on.crew);
    PASS();
}

TEST a_bulkhead_does_the_work_of_a_loop(void)
{
    enum { N = 200 };
    bulkhead b;
    static chore c[N];
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    ASSERT(make_and_start(&on.l, 0));
    plim_executor executor = bulkhead_executor(&b);
    chores_init(c, N, &on.l, NULL);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_offload(&on.l, &executor, &c[i].work));
    }
    for (int i = 0; i < N; i++) {
        ASSERT(EVENTUALLY(atomic_load(&c[i].thens) == 1));
        ASSERT_INT(i + 1, c[i].result);
    }
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_destroy(&b));
    ENDS_WELL();
}

TEST a_loop_is_an_executor_for_others(int how)
{
    static favour f;
    memset((void *)&f, 0, sizeof f);
    f.l = &on.l;
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(occupy(&on.l, &on.gate));
    plim_executor executor = loop_scheduler_executor(&on.l);
    for (int i = 0; i < 10; i++) {
        ASSERT_INT(0, executor.execute(executor.ctx, do_favour, &f));
    }
    ASSERT_INT(0, atomic_load(&f.done));
    start_close(&on.c[0], how);
    ASSERT(EVENTUALLY(is_closed(&on.l)));
    ASSERT_INT(ESHUTDOWN, executor.execute(executor.ctx, do_favour, &f));
    let_go(&on.gate);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(10, atomic_load(&f.done)); /* all that was accepted, whatever happens */
    ASSERT_INT(0, atomic_load(&f.elsewhere));
    ENDS_WELL();
}

TEST as_an_executor_a_loop_refuses_as_post_does(void)
{
    static favour f;
    memset((void *)&f, 0, sizeof f);
    f.l = &on.l;
    ASSERT(make(&on.l, 2));
    plim_executor executor = loop_scheduler_executor(&on.l);
    atomic_store(&memory_is_out, true);
    int error = executor.execute(executor.ctx, do_favour, &f);
    atomic_store(&memory_is_out, false);
    ASSERT_INT(ENOMEM, error);
    ASSERT_INT(0, loop_scheduler_snapshot(&on.l).queued);
    ASSERT_INT(0, executor.execute(executor.ctx, do_favour, &f));
    ASSERT_INT(0, executor.execute(executor.ctx, do_favour, &f));
    ASSERT_INT(EAGAIN, executor.execute(executor.ctx, do_favour, &f));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(2, atomic_load(&f.done));
    ASSERT_INT(0, executor.execute(executor.ctx, do_favour, &f));
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(3, atomic_load(&f.done));
    PASS();
}

TEST one_loop_does_the_work_of_another(int how)
{
    enum { N = 50 };
    static loop_scheduler back;
    static chore c[N];
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(make_and_start(&back, 0));
    plim_executor executor = loop_scheduler_executor(&back);
    chores_init(c, N, &on.l, NULL);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, loop_scheduler_offload(&on.l, &executor, &c[i].work));
    }
    ASSERT_INT(0, loop_scheduler_close(&on.l, how, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < N; i++) {
        ASSERT_INT(1, atomic_load(&c[i].thens) + atomic_load(&c[i].cancels));
        ASSERT(how == LOOP_SCHEDULER_NOW || atomic_load(&c[i].thens) == 1);
        ASSERT(c[i].current);
    }
    ASSERT_INT(0, unmake(&on.l));
    ASSERT_ENDS_WELL(&back);
    PASS();
}

/* Code that has the loop as its executor can ask whether it is on the thread that would run it. */
static void ask_whom_it_serves(void *arg)
{
    plim_executor *executor = arg;
    atomic_fetch_add(&on.k[0].works, plim_serves_(executor->ctx) ? 1 : 100);
}

TEST an_executors_thread_knows_whom_it_serves(bool own_thread)
{
    ASSERT(make(&on.l, 0));
    plim_executor executor = loop_scheduler_executor(&on.l);
    ASSERT(executor.ctx == &on.l);
    ASSERT(!plim_serves_(executor.ctx));
    ASSERT_INT(0, executor.execute(executor.ctx, ask_whom_it_serves, &executor));
    if (own_thread) {
        ASSERT_INT(0, loop_scheduler_start(&on.l));
    }
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, atomic_load(&on.k[0].works));
    ASSERT(!plim_serves_(executor.ctx));
    ENDS_WELL();
}

SUITE(work_elsewhere_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(work_runs_elsewhere_and_comes_back_to_the_loop);
    RUN_TEST(then_is_always_a_task_of_its_own);
    RUN_TESTp(what_the_executor_refuses_is_told_and_never_comes_back, EAGAIN);
    RUN_TESTp(what_the_executor_refuses_is_told_and_never_comes_back, ENOSPC);
    RUN_TEST(work_that_is_not_back_is_not_taken_again);
    RUN_TEST(nothing_need_be_called_when_work_is_done);
    RUN_TEST(work_that_has_not_begun_can_be_cancelled);
    RUN_TEST(work_that_runs_or_has_run_cannot_be_cancelled);
    RUN_TEST(a_cancel_races_with_the_work_and_one_of_them_wins);
    for (int64_t timeout_ns = 1; timeout_ns <= PLIM_MS(3); timeout_ns *= 3000000) {
        RUN_TESTp(close_waits_for_work_and_tells_it, LOOP_SCHEDULER_DRAIN, false, timeout_ns);
        RUN_TESTp(close_waits_for_work_and_tells_it, LOOP_SCHEDULER_DRAIN, true, timeout_ns);
        RUN_TESTp(close_waits_for_work_and_tells_it, LOOP_SCHEDULER_NOW, false, timeout_ns);
        RUN_TESTp(close_waits_for_work_and_tells_it, LOOP_SCHEDULER_NOW, true, timeout_ns);
    }
    RUN_TESTp(a_drain_brings_back_what_its_tasks_offload, NOBODY);
    RUN_TESTp(a_drain_brings_back_what_its_tasks_offload, OWN_THREAD);
    RUN_TESTp(a_loop_that_is_closed_ends_when_the_last_work_is_refused, LOOP_SCHEDULER_DRAIN,
              NOBODY);
    RUN_TESTp(a_loop_that_is_closed_ends_when_the_last_work_is_refused, LOOP_SCHEDULER_DRAIN,
              OWN_THREAD);
    RUN_TESTp(a_loop_that_is_closed_ends_when_the_last_work_is_refused, LOOP_SCHEDULER_NOW,
              OWN_THREAD);
    RUN_TEST(work_may_be_freed_when_it_is_back);
    RUN_TEST(a_bulkhead_does_the_work_of_a_loop);
    RUN_TESTp(a_loop_is_an_executor_for_others, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(a_loop_is_an_executor_for_others, LOOP_SCHEDULER_NOW);
    RUN_TEST(as_an_executor_a_loop_refuses_as_post_does);
    RUN_TESTp(one_loop_does_the_work_of_another, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(one_loop_does_the_work_of_another, LOOP_SCHEDULER_NOW);
    RUN_TESTp(an_executors_thread_knows_whom_it_serves, false);
    RUN_TESTp(an_executors_thread_knows_whom_it_serves, true);
}
