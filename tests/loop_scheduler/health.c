/* SPDX-License-Identifier: MIT
 *
 * Slow tasks, stalls and figures.
 */

static void note_slow(void *user, loop_scheduler_task *task, int64_t elapsed_ns)
{
    world *w = user;
    w->slow++;
    w->slow_task = task;
    w->slow_ns = elapsed_ns;
}

static void take_a_while(spy *s)
{
    pass_time(s->arg, s->number);
}

static bool make_watched(loop_scheduler *l, world *w, int64_t slow_ns)
{
    loop_scheduler_options options = {
        .slow_ns = slow_ns, .clock = tell_time, .on_slow = note_slow, .user = w};
    tell_bells(w);
    return make_as(l, &options) == 0;
}

TEST a_slow_task_is_told_with_its_duration(void)
{
    ASSERT(make_watched(&on.l, &on.w, 100));
    const int durations[] = {99, 100, 5, 250};
    const int told[] = {0, 1, 1, 2};
    for (int i = 0; i < 4; i++) {
        on.s[i].act = take_a_while;
        on.s[i].arg = &on.w;
        on.s[i].number = durations[i];
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
        ASSERT_INT(1, run_dry(&on.l));
        ASSERT_INT(told[i], on.w.slow);
        if (durations[i] >= 100) {
            ASSERT(on.w.slow_task == &on.s[i].task);
            ASSERT_I64(durations[i], on.w.slow_ns);
        }
    }
    ASSERT_I64(250, loop_scheduler_snapshot(&on.l).longest_ns);
    for (int i = 0; i < 4; i++) { /* one after the other in one turn */
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(4, on.w.slow);
    ASSERT_I64(250, on.w.slow_ns);
    ENDS_WELL();
}

static void take_a_while_on_time(bell *b)
{
    pass_time(b->w, b->ns);
}

static int take_a_while_in_a_call(void *arg)
{
    pass_time(arg, 300);
    return 0;
}

TEST a_slow_timer_or_call_is_told_without_a_task(void)
{
    ASSERT(make_watched(&on.l, &on.w, 100));
    on.b[0].act = take_a_while_on_time;
    on.b[0].ns = 200;
    on.w.slow_task = (loop_scheduler_task *)(void *)&on.b[0];
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 0, 0));
    run_dry(&on.l);
    ASSERT_INT(1, on.w.slow);
    ASSERT(on.w.slow_task == NULL);
    ASSERT_I64(200, on.w.slow_ns);
    on.w.slow_task = (loop_scheduler_task *)(void *)&on.b[0];
    on.c[0] = (caller){.l = &on.l, .call = CALL, .fn = take_a_while_in_a_call, .arg = &on.w};
    start_call(&on.c[0]);
    ASSERT(EVENTUALLY(loop_scheduler_poll(&on.l) == 0));
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(2, on.w.slow);
    ASSERT(on.w.slow_task == NULL);
    ASSERT_I64(300, on.w.slow_ns);
    ENDS_WELL();
}

TEST a_slow_task_needs_nobody_to_be_told(void)
{
    loop_scheduler_options options = {.slow_ns = 10, .clock = tell_time, .user = &on.w};
    ASSERT_INT(0, make_as(&on.l, &options));
    on.s[0].act = take_a_while;
    on.s[0].arg = &on.w;
    on.s[0].number = 70;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_I64(70, loop_scheduler_snapshot(&on.l).longest_ns);
    ENDS_WELL();
}

TEST stall_tells_what_runs_and_for_how_long(void)
{
    loop_scheduler_task *task = NULL;
    int64_t elapsed_ns = -1;
    ASSERT(make_watched(&on.l, &on.w, PLIM_S(1)));
    ASSERT_INT(ENOENT, loop_scheduler_stall(&on.l, &task, &elapsed_ns)); /* nobody runs it */
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    ASSERT(serves(&on.l));
    ASSERT(
        EVENTUALLY(loop_scheduler_stall(&on.l, NULL, NULL) == ENOENT)); /* it has nothing to do */
    ASSERT(occupy(&on.l, &on.gate));
    for (int64_t i = 1; i <= 3; i++) {
        pass_time(&on.w, 500);
        ASSERT_INT(0, loop_scheduler_stall(&on.l, &task, &elapsed_ns));
        ASSERT(task == &on.gate.task);
        ASSERT_I64(500 * i, elapsed_ns);
    }
    ASSERT_INT(0, loop_scheduler_stall(&on.l, NULL, &elapsed_ns));
    ASSERT_INT(0, loop_scheduler_stall(&on.l, &task, NULL));
    ASSERT_INT(0, loop_scheduler_stall(&on.l, NULL, NULL));
    let_go(&on.gate);
    ASSERT(EVENTUALLY(loop_scheduler_stall(&on.l, &task, &elapsed_ns) == ENOENT));
    question_init(&on.q[0], &on.l, 0);
    on.c[0] = (caller){.l = &on.l, .call = CALL, .fn = ask_and_hold, .arg = &on.q[0]};
    start_call(&on.c[0]);
    ASSERT_INT(0, csem_acquire_for(&on.q[0].entered, PLIM_S(PATIENCE_S)));
    pass_time(&on.w, 40);
    ASSERT_INT(0, loop_scheduler_stall(&on.l, &task, &elapsed_ns));
    ASSERT(task == NULL); /* it is no task */
    ASSERT_I64(40, elapsed_ns);
    csem_release(&on.q[0].exit);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.w.slow);
    ENDS_WELL();
}

TEST stall_grows_while_a_task_is_stuck_on_the_real_clock(void)
{
    loop_scheduler_task *task = NULL;
    int64_t first = -1, second = -1;
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(occupy(&on.l, &on.gate));
    ASSERT_INT(0, loop_scheduler_stall(&on.l, &task, &first));
    ASSERT(task == &on.gate.task);
    ASSERT(first >= 0);
    rest(PLIM_MS(2)); /* it is stuck on the real clock, for at least so long */
    ASSERT_INT(0, loop_scheduler_stall(&on.l, &task, &second));
    ASSERT(second - first >= PLIM_MS(2));
    let_go(&on.gate);
    ENDS_WELL();
}

typedef struct mirror {
    loop_scheduler_stats figures;
    loop_scheduler_task *task;
    int error;
} mirror;

static void look_at_oneself(spy *s)
{
    mirror *m = s->arg;
    m->figures = loop_scheduler_snapshot(s->l);
    m->error = loop_scheduler_stall(s->l, &m->task, NULL);
}

TEST figures_agree_with_what_happened(void)
{
    static mirror m;
    ASSERT(make_with_clock(&on.l, &on.w, 6));
    loop_scheduler_stats f = loop_scheduler_snapshot(&on.l);
    ASSERT_U64(0, f.posted + f.ran + f.cancelled + f.rejected + f.wakes + f.sleeps + f.fired);
    ASSERT_U64(0, f.queued + f.peak_queued + f.timers + f.offloaded + f.suspended);
    ASSERT_I64(0, f.busy_ns + f.idle_ns + f.longest_ns);
    on.s[1].act = look_at_oneself;
    on.s[1].arg = &m;
    for (int i = 0; i < 6; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    ASSERT_INT(EAGAIN, loop_scheduler_post(&on.l, &on.s[6].task));
    ASSERT_INT(EAGAIN, loop_scheduler_post(&on.l, &on.s[6].task));
    ASSERT_INT(0, loop_scheduler_cancel(&on.l, &on.s[5].task));
    f = loop_scheduler_snapshot(&on.l);
    ASSERT_U64(6, f.posted);
    ASSERT_INT(6, f.queued); /* the cancelled one waits for its turn */
    ASSERT_U64(0, f.ran + f.cancelled);
    ASSERT_U64(2, f.rejected);
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_U64(6, m.figures.posted); /* in the second of them */
    ASSERT_U64(2, m.figures.ran);    /* it runs, so it is called */
    ASSERT_INT(4, m.figures.queued);
    ASSERT_INT(0, m.error);
    ASSERT(m.task == &on.s[1].task);
    f = loop_scheduler_snapshot(&on.l);
    ASSERT_U64(5, f.ran);
    ASSERT_U64(1, f.cancelled);
    ASSERT_INT(0, f.queued);
    ASSERT_INT(6, f.peak_queued);
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 10, 10));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[1].timer, 10, 0));
    pass_time(&on.w, 10);
    ASSERT_INT(1, run_dry(&on.l));
    f = loop_scheduler_snapshot(&on.l);
    ASSERT_U64(2, f.fired);
    ASSERT_INT(1, f.timers);
    ASSERT_INT(6, f.peak_queued);
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_post(&on.l, &on.s[6].task));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_call(&on.l, give, NULL, NULL));
    f = loop_scheduler_snapshot(&on.l);
    ASSERT_U64(4, f.rejected);
    ASSERT_U64(2, f.cancelled); /* and the timer that was armed */
    ASSERT_U64(6, f.ran);
    ASSERT_U64(8, f.posted);
    ENDS_WELL();
}

TEST time_in_tasks_is_busy(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    on.s[0].act = take_a_while;
    on.s[0].arg = &on.w;
    on.s[0].number = 400;
    for (int i = 0; i < 3; i++) {
        pass_time(&on.w, 10000); /* nobody runs it now */
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
        ASSERT_INT(0, loop_scheduler_poll(&on.l));
    }
    loop_scheduler_stats f = loop_scheduler_snapshot(&on.l);
    ASSERT_I64(1200, f.busy_ns);
    ASSERT_I64(0, f.idle_ns);
    ASSERT_I64(400, f.longest_ns);
    ENDS_WELL();
}

TEST time_asleep_is_idle(void)
{
    ASSERT(make(&on.l, 0));
    on.s[0].act = rest_a_while;
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&on.l, PLIM_MS(20)));
    int64_t slept = plim_now_() - from;
    loop_scheduler_stats f = loop_scheduler_snapshot(&on.l);
    ASSERT(f.sleeps >= 1);
    ASSERT_U64(0, f.wakes);
    ASSERT(f.idle_ns >= PLIM_MS(10));
    ASSERT(f.idle_ns + f.busy_ns >= PLIM_MS(19));
    ASSERT(f.idle_ns + f.busy_ns <= slept);
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_run_once(&on.l, 0));
    loop_scheduler_stats after = loop_scheduler_snapshot(&on.l);
    ASSERT_I64(f.idle_ns, after.idle_ns);
    ASSERT(after.busy_ns - f.busy_ns >= PLIM_MS(4));
    ASSERT(after.longest_ns >= PLIM_MS(4));
    ENDS_WELL();
}

typedef struct observer {
    loop_scheduler *l;
    atomic_bool quit;
    int looks, wrong;
    plim_thread thread;
} observer;

static plim_thread_result observe(void *arg)
{
    observer *o = arg;
    uint64_t posted = 0, ended = 0;
    do {
        loop_scheduler_stats s = loop_scheduler_snapshot(o->l);
        o->wrong += s.posted != s.ran + s.cancelled + s.queued;
        o->wrong += s.posted < posted || s.ran + s.cancelled < ended;
        o->wrong += s.wakes > s.sleeps;
        posted = s.posted;
        ended = s.ran + s.cancelled;
        loop_scheduler_stall(o->l, NULL, NULL);
        o->looks++;
        rest(PLIM_US(20)); /* the others want the lock, too */
    } while (!atomic_load(&o->quit));
    return 0;
}

static plim_thread_result post_and_cancel(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    spy s[8];
    uint64_t random = (uint64_t)m->number + 77;
    spies_init(s, 8, c->l, NULL);
    wait_for_go(c);
    int accepted = 0;
    for (int i = 0; i < c->rounds && plim_now_() < c->end; i++) {
        spy *one = &s[next_random(&random) % 8];
        accepted += loop_scheduler_post(c->l, &one->task) == 0;
        if (next_random(&random) % 4 == 0) {
            loop_scheduler_cancel(c->l, &one->task);
        }
        dawdle(next_random(&random));
    }
    atomic_fetch_add(&c->accepted, accepted);
    for (bool over = false; !over; plim_thread_yield_()) { /* they are on this stack */
        int ended = 0;
        for (int i = 0; i < 8; i++) {
            ended += runs(&s[i]) + cancels(&s[i]);
        }
        over = ended == accepted;
    }
    return 0;
}

TEST figures_are_of_one_instant(uint32_t limit)
{
    enum { N = 4 };
    member m[N];
    ASSERT(make_and_start(&on.l, limit));
    observer o = {.l = &on.l};
    crowd c = {.l = &on.l, .rounds = scaled(20000), .end = plim_now_() + race_ns()};
    start(&o.thread, observe, &o);
    start_crowd(&c, m, N, post_and_cancel);
    join_crowd(m, N);
    bool dry = EVENTUALLY(loop_scheduler_snapshot(&on.l).queued == 0);
    atomic_store(&o.quit, true);
    join(o.thread);
    ASSERT(dry);
    ASSERT_INT(0, o.wrong);
    ASSERT(o.looks > 0);
    ASSERT_U64(atomic_load(&c.accepted), loop_scheduler_snapshot(&on.l).posted);
    ENDS_WELL();
}

SUITE(health_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(a_slow_task_is_told_with_its_duration);
    RUN_TEST(a_slow_timer_or_call_is_told_without_a_task);
    RUN_TEST(a_slow_task_needs_nobody_to_be_told);
    RUN_TEST(stall_tells_what_runs_and_for_how_long);
    RUN_TEST(stall_grows_while_a_task_is_stuck_on_the_real_clock);
    RUN_TEST(figures_agree_with_what_happened);
    RUN_TEST(time_in_tasks_is_busy);
    RUN_TEST(time_asleep_is_idle);
    RUN_TESTp(figures_are_of_one_instant, 0);
    RUN_TESTp(figures_are_of_one_instant, 4);
}
