/* SPDX-License-Identifier: MIT
 *
 * Closing a loop, in both ways, whichever thread runs it and whatever others do in the meantime.
 */

TEST a_drain_runs_what_is_queued_and_what_that_posts(int kind)
{
    ASSERT(make(&on.l, 3));
    ASSERT(set_running(&on.l, &on.r, kind));
    if (kind != NOBODY) {
        ASSERT(occupy(&on.l, &on.gate));
    }
    on.b[0].d = NULL;
    on.s[0].act = post_two; /* the third and the fourth */
    on.s[0].arg = on.s;
    on.s[3].act = post_another;
    on.s[3].arg = &on.s[4];
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(3600), PLIM_S(1)));
    start_close(&on.c[0], LOOP_SCHEDULER_DRAIN);
    if (kind != NOBODY) {
        ASSERT(EVENTUALLY(is_closed(&on.l)));
        ASSERT(waits(&on.c[0]));
        ASSERT_INT(ESHUTDOWN,
                   loop_scheduler_post(&on.l, &on.s[5].task)); /* not ours, while it drains */
        let_go(&on.gate);
        ASSERT(finished(&on.c[0]));
    } else {
        ASSERT(finished(&on.c[0]));
        ASSERT(on.s[0].thread == on.c[0].self); /* whoever closes runs it */
        ASSERT(on.s[4].thread == on.c[0].self);
    }
    ASSERT_INT(0, on.c[0].error);
    ASSERT_STR_EQ("1 2 3 4 5", story(&on.d));
    ASSERT(on.s[0].current);
    ASSERT_INT(0, on.s[0].error);
    ASSERT_INT(0, on.s[3].error);
    ASSERT_INT(1, atomic_load(&on.b[0].cancels)); /* timers do not hold it up */
    ASSERT_INT(0, rings(&on.b[0]));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_post(&on.l, &on.s[5].task));
    ASSERT(has_run(&on.r));
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(5, atomic_load(&on.d.count));
    PASS();
}

static void post_again_when_told(loop_scheduler_task *task, int status)
{
    spy *s = task->arg;
    s->error = loop_scheduler_post(s->l, &((spy *)s->arg)->task);
    run_spy(task, status);
}

TEST close_now_tells_what_is_queued_in_order(int kind)
{
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    if (kind != NOBODY) {
        ASSERT(occupy(&on.l, &on.gate));
    }
    on.b[0].d = NULL;
    on.s[2].task.run = post_again_when_told;
    on.s[2].arg = &on.s[4];
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_cancel(&on.l, &on.s[1].task)); /* told once all the same */
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(3600), 0));
    start_close(&on.c[0], LOOP_SCHEDULER_NOW);
    if (kind != NOBODY) {
        ASSERT(EVENTUALLY(is_closed(&on.l)));
        ASSERT(waits(&on.c[0])); /* what runs is waited for */
        ASSERT_INT(0, atomic_load(&on.d.count));
        let_go(&on.gate);
        ASSERT(finished(&on.c[0]));
        ASSERT_INT(1, runs(&on.gate));
        for (int i = 0; i < 4; i++) {
            ASSERT(on.s[i].thread == on.gate.thread); /* never elsewhere */
        }
    } else {
        ASSERT(finished(&on.c[0]));
        ASSERT(on.s[0].thread == on.c[0].self);
    }
    ASSERT_INT(0, on.c[0].error);
    ASSERT_STR_EQ("x1 x2 x3 x4", story(&on.d));
    ASSERT(on.s[0].current);
    ASSERT_INT(ESHUTDOWN, on.s[2].error);
    ASSERT_INT(1, atomic_load(&on.b[0].cancels));
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

static void start_a_timer(spy *s)
{
    bell *b = s->arg;
    s->error = loop_scheduler_timer_start(s->l, &b->timer, PLIM_S(3600), 0);
}

TEST timers_are_not_started_while_the_loop_drains(void)
{
    ASSERT(make(&on.l, 0));
    on.s[0].act = start_a_timer;
    on.s[0].arg = &on.b[0];
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, runs(&on.s[0]));
    ASSERT_INT(ESHUTDOWN, on.s[0].error);
    ASSERT_INT(0, atomic_load(&on.b[0].cancels));
    ENDS_WELL();
}

TEST a_drain_waits_for_a_slow_task_and_those_behind_it(void)
{
    ASSERT(make_and_start(&on.l, 0));
    on.s[0].act = rest_a_while;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(1, on.s[0].result);
    ASSERT_INT(1, runs(&on.s[1]));
    ASSERT_INT(0, unmake(&on.l));
    PASS();
}

TEST a_drain_that_would_never_end_becomes_now_when_its_time_is_over(int kind)
{
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    for (int i = 0; i < 2; i++) {
        on.s[i].act = post_again_for_ever;
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    if (kind != NOBODY) {
        ASSERT(EVENTUALLY(runs(&on.s[0]) > 0 && runs(&on.s[1]) > 0));
    }
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_MS(3)));
    ASSERT(plim_now_() - from >= PLIM_MS(3));
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < 2; i++) {
        ASSERT(cancels(&on.s[i]) == 1 ||
               on.s[i].error == ESHUTDOWN); /* posted, or refused at last */
        ASSERT(cancels(&on.s[i]) <= 1);
    }
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

TEST a_task_that_does_not_return_can_be_waited_for_again(int how)
{
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(occupy(&on.l, &on.gate));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_close(&on.l, how, PLIM_MS(3)));
    ASSERT(plim_now_() - from >= PLIM_MS(3));
    ASSERT(plim_now_() - from < PLIM_S(PATIENCE_S));
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    start_close(&on.c[0], how);
    ASSERT(waits(&on.c[0]));
    let_go(&on.gate);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(1, runs(&on.gate));
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, runs(&on.s[i])); /* it had become NOW */
        ASSERT_INT(1, cancels(&on.s[i]));
    }
    ENDS_WELL();
}

TEST without_time_a_drain_begins_and_what_was_accepted_runs(int kind, int64_t none)
{
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    if (kind != NOBODY) {
        ASSERT(occupy(&on.l, &on.gate));
    }
    on.s[0].act = post_another; /* the loop's own posts are still accepted */
    on.s[0].arg = &on.s[3];
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    int first = loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, none);
    int second = loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, none);
    ASSERT_INT(ETIMEDOUT, first);
    ASSERT_INT(ETIMEDOUT, second);
    ASSERT_INT(0, atomic_load(&on.d.count)); /* not even here, if nobody runs it */
    ASSERT_INT(ESHUTDOWN, loop_scheduler_post(&on.l, &on.s[4].task));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 0, 0));
    ASSERT_INT(ESHUTDOWN, loop_scheduler_start(&on.l));
    if (kind == NOBODY) {
        ASSERT_INT(2, run_dry(&on.l));
    } else {
        let_go(&on.gate);
        ASSERT(EVENTUALLY(loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, none) == 0));
    }
    ASSERT_STR_EQ("1 2 3 4", story(&on.d));
    ASSERT_INT(0, on.s[0].error);
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, none));
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

/* Who runs a loop whose drain has begun while nobody ran it. */
enum { BY_RUN, BY_RUN_ONCE, BY_CLOSE, BY_CLOSE_NOW };

TEST a_drain_that_nobody_runs_is_resumed_by_whoever_runs_the_loop(int by)
{
    ASSERT(make(&on.l, 0));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(3600), 0));
    on.b[0].number = 9;
    int begun = loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0);
    ASSERT_INT(ETIMEDOUT, begun);
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l)); /* nothing is lost */
    ASSERT_I64(0, loop_scheduler_next_timeout(&on.l));
    int error = by == BY_RUN        ? loop_scheduler_run(&on.l)
                : by == BY_RUN_ONCE ? loop_scheduler_run_once(&on.l, PLIM_S(PATIENCE_S))
                : by == BY_CLOSE
                    ? loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S))
                    : loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, 0);
    ASSERT_INT(0, error);
    ASSERT_STR_EQ(by == BY_CLOSE_NOW ? "x9 x1" : "x9 1", story(&on.d));
    ENDS_WELL();
}

TEST a_drain_without_time_may_be_given_a_limit_later(void)
{
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(occupy(&on.l, &on.gate));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    int begun = loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0);
    int late = loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_MS(3));
    ASSERT_INT(ETIMEDOUT, begun);
    ASSERT_INT(ETIMEDOUT, late);
    let_go(&on.gate);
    ASSERT(EVENTUALLY(loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0) == 0));
    ASSERT_INT(1, runs(&on.gate));
    ASSERT_STR_EQ("x1", story(&on.d));
    ENDS_WELL();
}

TEST without_time_now_does_not_wait_but_tells_what_is_queued(int kind)
{
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    if (kind != NOBODY) {
        ASSERT(occupy(&on.l, &on.gate));
    }
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    int error = loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, 0);
    if (kind == NOBODY) {
        ASSERT_INT(0, error);
        ASSERT(on.s[0].thread == this_thread());
    } else {
        ASSERT_INT(ETIMEDOUT, error);
        ASSERT_INT(0, atomic_load(&on.d.count)); /* that is for its own thread */
        let_go(&on.gate);
        ASSERT(EVENTUALLY(loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, INT64_MIN) == 0));
    }
    ASSERT_STR_EQ("x1 x2 x3", story(&on.d));
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

TEST now_without_time_does_not_wait_for_work(void)
{
    ASSERT(make(&on.l, 0));
    ASSERT_INT(0, loop_scheduler_offload(&on.l, &later, &on.k[0].work));
    int first = loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, 0);
    ASSERT_INT(ETIMEDOUT, first);
    ASSERT(take_down(&on.sh));
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, 0));
    ASSERT_INT(1, atomic_load(&on.k[0].cancels));
    ENDS_WELL();
}

typedef struct way_out {
    int how, waits, again;
} way_out;

static void close_own_loop(spy *s)
{
    way_out *w = s->arg;
    w->waits = loop_scheduler_close(s->l, w->how, PLIM_FOREVER);
    s->error = loop_scheduler_close(s->l, w->how, 0);
    w->again = loop_scheduler_close(s->l, w->how, 1);
}

TEST a_task_may_begin_the_end_of_its_own_loop(int kind, int how)
{
    static way_out w;
    w = (way_out){.how = how};
    ASSERT(make(&on.l, 0));
    on.s[0].act = close_own_loop;
    on.s[0].arg = &w;
    ASSERT(set_running(&on.l, &on.r, kind));
    if (kind != NOBODY) {
        ASSERT(occupy(&on.l, &on.gate));
    }
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
    if (kind == NOBODY) {
        ASSERT_INT(1, run_dry(&on.l));
    } else {
        let_go(&on.gate);
    }
    ASSERT(EVENTUALLY(loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0) == 0));
    ASSERT_INT(EDEADLK, w.waits); /* and has changed nothing */
    ASSERT_INT(ETIMEDOUT, on.s[0].error);
    ASSERT_INT(EDEADLK, w.again);
    ASSERT_STR_EQ(how == LOOP_SCHEDULER_DRAIN ? "1 2" : "1 x2", story(&on.d));
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

TEST without_time_an_idle_loop_with_a_thread_ends_soon(int how)
{
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(serves(&on.l));
    int first = loop_scheduler_close(&on.l, how, 0);
    ASSERT(first == 0 || first == ETIMEDOUT); /* its thread has to leave */
    ASSERT(EVENTUALLY(loop_scheduler_close(&on.l, how, 0) == 0));
    ASSERT_INT(0, unmake(&on.l));
    PASS();
}

TEST closing_an_idle_loop_is_immediate_and_may_be_repeated(int how)
{
    ASSERT(make(&on.l, 0));
    ASSERT_INT(0, loop_scheduler_close(&on.l, how, 0));
    ASSERT_INT(0, loop_scheduler_close(&on.l, how, PLIM_FOREVER));
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, INT64_MIN));
    ASSERT_INT(0, unmake(&on.l));
    PASS();
}

TEST close_refuses_what_it_does_not_know(int how)
{
    ASSERT(make(&on.l, 0));
    ASSERT_INT(EINVAL, loop_scheduler_close(&on.l, how, PLIM_FOREVER));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(1, run_dry(&on.l));
    ENDS_WELL();
}

TEST several_may_close_and_all_see_the_same_end(int kind, bool mixed_ways)
{
    enum { N = 4 };
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.gate.task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    for (int i = 0; i < N; i++) {
        on.c[i] = (caller){.l = &on.l,
                           .call = CLOSE,
                           .how = mixed_ways && i == 1 ? LOOP_SCHEDULER_NOW : LOOP_SCHEDULER_DRAIN,
                           .timeout_ns = PLIM_S(PATIENCE_S)};
        start_call(&on.c[i]);
        if (i == 0) {
            ASSERT(has_entered(&on.gate)); /* runs now, at the latest by the first who closes */
        }
    }
    for (int i = 0; i < N; i++) {
        ASSERT(waits(&on.c[i]));
    }
    let_go(&on.gate);
    for (int i = 0; i < N; i++) {
        ASSERT(finished(&on.c[i]));
        ASSERT_INT(0, on.c[i].error);
    }
    ASSERT_INT(1, runs(&on.s[0]) + cancels(&on.s[0]));
    ASSERT(mixed_ways || runs(&on.s[0]) == 1);
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

TEST a_loop_that_drains_is_not_stopped(int kind)
{
    ASSERT(make(&on.l, 0));
    ASSERT(set_running(&on.l, &on.r, kind));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.gate.task));
    on.s[0].act = stop_own_loop;
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    start_close(&on.c[0], LOOP_SCHEDULER_DRAIN);
    ASSERT(has_entered(&on.gate));
    ASSERT(EVENTUALLY(is_closed(&on.l)));
    loop_scheduler_stop(&on.l);
    let_go(&on.gate);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(1, runs(&on.s[2]));
    ASSERT(has_run(&on.r));
    ENDS_WELL();
}

TEST close_takes_over_from_a_loop_that_was_stopped(bool before)
{
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(serves(&on.l));
    if (before) {
        loop_scheduler_stop(&on.l);
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    } else {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
        loop_scheduler_stop(&on.l);
    }
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, runs(&on.s[0]));
    ENDS_WELL();
}

/* Everything that can be given to a loop, by threads that go on until it is closed. */
enum { CLOSERS = 4, OWN_TASKS = 16 };

typedef struct storm {
    loop_scheduler l;
    atomic_int accepted, outcomes, cancelled, odd, refused;
    plim_executor here;
} storm;

typedef struct drop {
    loop_scheduler_task task;
    storm *storm;
} drop;

static void splash(loop_scheduler_task *task, int status)
{
    storm *st = ((drop *)task->arg)->storm;
    atomic_fetch_add(&st->cancelled, status == ECANCELED);
    atomic_fetch_add(&st->odd, status != 0 && status != ECANCELED);
    atomic_fetch_add(&st->outcomes, 1);
}

static void splash_then(loop_scheduler_work *work, int status)
{
    storm *st = work->arg;
    atomic_fetch_add(&st->odd, status != 0 && status != ECANCELED);
    atomic_fetch_add(&st->outcomes, 1);
}

static int splash_call(void *arg)
{
    storm *st = arg;
    atomic_fetch_add(&st->outcomes, 1);
    return 0;
}

static void splash_end(loop_scheduler_coroutine *co)
{
    storm *st = co->arg;
    atomic_fetch_add(&st->outcomes, 1);
}

static void splash_twice(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_YIELD(co);
    LOOP_END(co);
}

/* Gives one thing to the loop; false if that is closed. */
static bool rain(storm *st, drop *d, loop_scheduler_work *works, loop_scheduler_coroutine *cos,
                 uint64_t random)
{
    int which = (int)((random >> 32) % OWN_TASKS), error;
    switch (random % 8) {
    case 1:
        error = loop_scheduler_post_for(&st->l, &d[which].task, PLIM_S(PATIENCE_S));
        break;
    case 2:
        error = loop_scheduler_call_for(&st->l, splash_call, st, NULL, PLIM_S(PATIENCE_S));
        if (error == ECANCELED) {
            error = 0;
            splash_call(st);
        }
        break;
    case 3:
        error = loop_scheduler_spawn(&st->l, &cos[which]);
        break;
    case 4:
        error = loop_scheduler_offload(&st->l, &st->here, &works[which]);
        break;
    default:
        error = loop_scheduler_post(&st->l, &d[which].task);
    }
    if (error == 0) {
        atomic_fetch_add(&st->accepted, 1);
    } else if (error == ESHUTDOWN) {
        atomic_fetch_add(&st->refused, 1);
    } else if (error != EALREADY && error != EAGAIN) {
        atomic_fetch_add(&st->odd, 1);
    }
    return error != ESHUTDOWN;
}

static plim_thread_result rain_until_closed(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    storm *st = c->arg;
    uint64_t random = (uint64_t)m->number * 7 + 3;
    drop d[OWN_TASKS];
    loop_scheduler_work works[OWN_TASKS];
    loop_scheduler_coroutine cos[OWN_TASKS];
    memset((void *)works, 0, sizeof works);
    memset((void *)cos, 0, sizeof cos);
    memset((void *)d, 0, sizeof d);
    for (int i = 0; i < OWN_TASKS; i++) {
        d[i] = (drop){.task = {.run = splash, .arg = &d[i]}, .storm = st};
        works[i].work = no_work;
        works[i].then = splash_then;
        works[i].arg = st;
        cos[i].run = splash_twice;
        cos[i].done = splash_end;
        cos[i].arg = st;
    }
    wait_for_go(c);
    while (rain(st, d, works, cos, next_random(&random))) {
        dawdle(next_random(&random));
    }
    /* What was accepted is on this stack. */
    while (!atomic_load(&c->leave)) {
        plim_thread_yield_();
    }
    return 0;
}

TEST close_races_with_all_that_others_do_and_each_has_one_outcome(int how, int kind, uint32_t limit)
{
    static storm st;
    member m[CLOSERS];
    uint64_t random = 5;
    int64_t end = plim_now_() + race_ns();
    for (int round = scaled(200); round > 0 && plim_now_() < end; round--) {
        memset((void *)&st, 0, sizeof st);
        st.here = (plim_executor){execute_here, NULL};
        ASSERT(make(&st.l, limit));
        ASSERT(set_running(&st.l, &on.r, kind));
        crowd c = {.l = &st.l, .arg = &st};
        start_crowd(&c, m, CLOSERS, rain_until_closed);
        rest((int64_t)(next_random(&random) % 300000)); /* each close finds another moment */
        int error = loop_scheduler_close(&st.l, how, PLIM_S(PATIENCE_S));
        int outcomes = atomic_load(&st.outcomes);
        bool all_refused = EVENTUALLY(atomic_load(&st.refused) == CLOSERS);
        loop_scheduler_stats s = loop_scheduler_snapshot(&st.l);
        int destroyed = unmake(&st.l);
        atomic_store(&c.leave, true);
        join_crowd(m, CLOSERS);
        ASSERT_INT(0, error);
        ASSERT(all_refused);
        ASSERT_INT(0, destroyed);
        ASSERT_INT(0, atomic_load(&st.odd));
        ASSERT_INT(atomic_load(&st.accepted), atomic_load(&st.outcomes));
        /* Callers count themselves, when they have returned: up to one each after the end. */
        ASSERT_IN_RANGE(outcomes, atomic_load(&st.outcomes), CLOSERS);
        ASSERT_U64(s.posted, s.ran + s.cancelled);
        ASSERT_INT(0, s.queued + s.timers + s.offloaded + s.suspended);
        ASSERT(how == LOOP_SCHEDULER_NOW || atomic_load(&st.cancelled) == 0);
        ASSERT(has_run(&on.r));
    }
    PASS();
}

typedef struct busy {
    spy s[8];
    atomic_int refused;
} busy;

static void go_on_posting(spy *s)
{
    busy *b = s->arg;
    s->error = loop_scheduler_post(s->l, &s->task);
    if (s->error != 0) {
        atomic_fetch_add(&b->refused, 1);
    }
}

TEST a_loop_whose_tasks_run_and_post_can_be_closed_at_any_time(void)
{
    static busy b;
    uint64_t random = 9;
    for (int round = scaled(300); round > 0; round--) {
        memset((void *)&b, 0, sizeof b);
        ASSERT(make_and_start(&on.l, 0));
        spies_init(b.s, 8, &on.l, NULL);
        for (int i = 0; i < 8; i++) {
            b.s[i].act = go_on_posting;
            b.s[i].arg = &b;
            ASSERT_INT(0, loop_scheduler_post(&on.l, &b.s[i].task));
        }
        dawdle(next_random(&random));
        ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)));
        for (int i = 0; i < 8; i++) {
            ASSERT(cancels(&b.s[i]) == 1 || b.s[i].error == ESHUTDOWN);
        }
        ASSERT_ENDS_WELL(&on.l);
    }
    PASS();
}

SUITE(close_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TESTp(a_drain_runs_what_is_queued_and_what_that_posts, NOBODY);
    RUN_TESTp(a_drain_runs_what_is_queued_and_what_that_posts, OWN_THREAD);
    RUN_TESTp(a_drain_runs_what_is_queued_and_what_that_posts, ANOTHER_THREAD);
    RUN_TESTp(close_now_tells_what_is_queued_in_order, NOBODY);
    RUN_TESTp(close_now_tells_what_is_queued_in_order, OWN_THREAD);
    RUN_TESTp(close_now_tells_what_is_queued_in_order, ANOTHER_THREAD);
    RUN_TEST(timers_are_not_started_while_the_loop_drains);
    RUN_TEST(a_drain_waits_for_a_slow_task_and_those_behind_it);
    RUN_TESTp(a_drain_that_would_never_end_becomes_now_when_its_time_is_over, NOBODY);
    RUN_TESTp(a_drain_that_would_never_end_becomes_now_when_its_time_is_over, OWN_THREAD);
    RUN_TESTp(a_drain_that_would_never_end_becomes_now_when_its_time_is_over, ANOTHER_THREAD);
    RUN_TESTp(a_task_that_does_not_return_can_be_waited_for_again, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(a_task_that_does_not_return_can_be_waited_for_again, LOOP_SCHEDULER_NOW);
    for (int kind = NOBODY; kind <= ANOTHER_THREAD; kind++) {
        RUN_TESTp(without_time_a_drain_begins_and_what_was_accepted_runs, kind, 0);
        RUN_TESTp(without_time_a_drain_begins_and_what_was_accepted_runs, kind, INT64_MIN);
        RUN_TESTp(without_time_now_does_not_wait_but_tells_what_is_queued, kind);
        RUN_TESTp(a_task_may_begin_the_end_of_its_own_loop, kind, LOOP_SCHEDULER_DRAIN);
        RUN_TESTp(a_task_may_begin_the_end_of_its_own_loop, kind, LOOP_SCHEDULER_NOW);
    }
    RUN_TESTp(a_drain_that_nobody_runs_is_resumed_by_whoever_runs_the_loop, BY_RUN);
    RUN_TESTp(a_drain_that_nobody_runs_is_resumed_by_whoever_runs_the_loop, BY_RUN_ONCE);
    RUN_TESTp(a_drain_that_nobody_runs_is_resumed_by_whoever_runs_the_loop, BY_CLOSE);
    RUN_TESTp(a_drain_that_nobody_runs_is_resumed_by_whoever_runs_the_loop, BY_CLOSE_NOW);
    RUN_TEST(a_drain_without_time_may_be_given_a_limit_later);
    RUN_TEST(now_without_time_does_not_wait_for_work);
    RUN_TESTp(without_time_an_idle_loop_with_a_thread_ends_soon, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(without_time_an_idle_loop_with_a_thread_ends_soon, LOOP_SCHEDULER_NOW);
    RUN_TESTp(closing_an_idle_loop_is_immediate_and_may_be_repeated, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(closing_an_idle_loop_is_immediate_and_may_be_repeated, LOOP_SCHEDULER_NOW);
    RUN_TESTp(close_refuses_what_it_does_not_know, 2);
    RUN_TESTp(close_refuses_what_it_does_not_know, -1);
    RUN_TESTp(several_may_close_and_all_see_the_same_end, NOBODY, false);
    RUN_TESTp(several_may_close_and_all_see_the_same_end, OWN_THREAD, false);
    RUN_TESTp(several_may_close_and_all_see_the_same_end, ANOTHER_THREAD, false);
    RUN_TESTp(several_may_close_and_all_see_the_same_end, NOBODY, true);
    RUN_TESTp(several_may_close_and_all_see_the_same_end, OWN_THREAD, true);
    RUN_TESTp(a_loop_that_drains_is_not_stopped, NOBODY);
    RUN_TESTp(a_loop_that_drains_is_not_stopped, OWN_THREAD);
    RUN_TESTp(a_loop_that_drains_is_not_stopped, ANOTHER_THREAD);
    RUN_TESTp(close_takes_over_from_a_loop_that_was_stopped, false);
    RUN_TESTp(close_takes_over_from_a_loop_that_was_stopped, true);
    for (int kind = NOBODY; kind <= ANOTHER_THREAD; kind++) {
        RUN_TESTp(close_races_with_all_that_others_do_and_each_has_one_outcome,
                  LOOP_SCHEDULER_DRAIN, kind, 0);
        RUN_TESTp(close_races_with_all_that_others_do_and_each_has_one_outcome, LOOP_SCHEDULER_NOW,
                  kind, 0);
        RUN_TESTp(close_races_with_all_that_others_do_and_each_has_one_outcome, LOOP_SCHEDULER_NOW,
                  kind, 3);
    }
    RUN_TEST(a_loop_whose_tasks_run_and_post_can_be_closed_at_any_time);
}
