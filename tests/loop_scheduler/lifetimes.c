/* SPDX-License-Identifier: MIT
 *
 * Memory that is yours again when its function is called. The tests free it at once, or give it to
 * another loop that frees it, before that function has returned. The loop must not touch it any
 * more; that is for AddressSanitizer to see.
 */

/* One of each, in memory of its own, and what is to become of it. */
typedef struct firefly {
    loop_scheduler_task task;
    loop_scheduler_timer timer;
    loop_scheduler_work work;
    loop_scheduler_coroutine co;
    loop_scheduler *elsewhere; /* goes there before it ends, and is waited for; or NULL */
    bool has_moved;            /* it is there */
    int kind;
} firefly;

enum { FLY_TASK, FLY_TIMER, FLY_WORK, FLY_COROUTINE, FLY_KINDS };

static csem firefly_gone, firefly_gone_elsewhere;
static atomic_int firefly_slow, firefly_odd;
static const void *firefly_last; /* for comparison only */

static int give_firefly(loop_scheduler *l, firefly *m)
{
    switch (m->kind) {
    case FLY_TASK:
        return loop_scheduler_post(l, &m->task);
    case FLY_TIMER:
        return loop_scheduler_timer_start(l, &m->timer, 0, 0);
    case FLY_WORK:
        return loop_scheduler_offload(l, &on_the_spot, &m->work);
    default:
        return loop_scheduler_spawn(l, &m->co);
    }
}

/* Its function has been called: from here on it is ours. */
static void end_firefly(firefly *m)
{
    loop_scheduler *elsewhere = m->elsewhere;
    int seven = 7;
    if (elsewhere == NULL) {
        csem *gone = m->has_moved ? &firefly_gone_elsewhere : &firefly_gone;
        memset((void *)m, 0xa5, sizeof *m);
        free(m);
        csem_release(gone);
        return;
    }
    m->elsewhere = NULL;
    m->has_moved = true;
    atomic_fetch_add(&firefly_odd, give_firefly(elsewhere, m) != 0);
    /* It ends there; and a wait in here must not find it named anywhere. */
    atomic_fetch_add(&firefly_odd,
                     csem_acquire_for(&firefly_gone_elsewhere, PLIM_S(PATIENCE_S)) != 0);
    atomic_fetch_add(&firefly_odd, loop_scheduler_call(elsewhere, give, &seven, NULL) != 0);
    csem_release(&firefly_gone);
}

static void end_task(loop_scheduler_task *task, int status)
{
    (void)status;
    firefly_last = task;
    end_firefly(task->arg);
}

static void end_timer(loop_scheduler_timer *timer, int status)
{
    (void)status;
    end_firefly(timer->arg);
}

static void end_work(loop_scheduler_work *work, int status)
{
    (void)status;
    end_firefly(work->arg);
}

static void end_coroutine(loop_scheduler_coroutine *co)
{
    end_firefly(co->arg);
}

static firefly *hatch(int kind, loop_scheduler *elsewhere)
{
    firefly *m = calloc(1, sizeof *m);
    if (m != NULL) {
        m->kind = kind;
        m->elsewhere = elsewhere;
        m->task.run = end_task;
        m->timer.run = end_timer;
        m->work.work = no_work;
        m->work.then = end_work;
        m->co.run = play_nothing;
        m->co.done = end_coroutine;
        m->task.arg = m->timer.arg = m->work.arg = m->co.arg = m;
    }
    return m;
}

static void note_slow_firefly(void *user, loop_scheduler_task *task, int64_t elapsed_ns)
{
    (void)user, (void)elapsed_ns;
    atomic_fetch_add(&firefly_slow, 1);
    atomic_fetch_add(&firefly_odd, task != NULL && task != firefly_last);
}

static bool make_slow(loop_scheduler *l)
{
    loop_scheduler_options options = {.slow_ns = 1, .on_slow = note_slow_firefly};
    csem_init(&firefly_gone, 0);
    csem_init(&firefly_gone_elsewhere, 0);
    atomic_store(&firefly_slow, 0);
    atomic_store(&firefly_odd, 0);
    return make_as(l, &options) == 0;
}

TEST what_is_called_may_be_gone_before_it_returns(int kind, bool elsewhere)
{
    static loop_scheduler other;
    ASSERT(make_slow(&on.l));
    ASSERT(make_and_start(&other, 0));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    for (int i = 0; i < 100; i++) {
        firefly *m = hatch(kind, elsewhere ? &other : NULL);
        ASSERT(m != NULL);
        ASSERT_INT(0, give_firefly(&on.l, m));
        ASSERT_INT(0, csem_acquire_for(&firefly_gone, PLIM_S(PATIENCE_S)));
    }
    ASSERT(serves(&on.l));
    ASSERT_INT(0, atomic_load(&firefly_odd));
    ASSERT_ENDS_WELL(&other);
    ENDS_WELL();
}

TEST what_is_told_of_the_end_may_be_gone_before_it_returns(int kind, int how)
{
    ASSERT(make_slow(&on.l));
    firefly *m = hatch(kind, NULL);
    ASSERT(m != NULL);
    if (kind == FLY_TIMER) {
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &m->timer, PLIM_S(3600), PLIM_S(1)));
    } else {
        ASSERT_INT(0, give_firefly(&on.l, m));
    }
    ASSERT_INT(0, loop_scheduler_close(&on.l, how, PLIM_FOREVER));
    ASSERT_INT(0, csem_try_acquire(&firefly_gone));
    ASSERT_INT(0, atomic_load(&firefly_odd));
    ENDS_WELL();
}

/* Cancels itself when it is called, and is freed when that is told. */
static void cancel_then_end(loop_scheduler_timer *timer, int status)
{
    firefly *m = timer->arg;
    if (status == 0) {
        int how = m->timer.missed == 0 ? LOOP_SCHEDULER_DRAIN : LOOP_SCHEDULER_NOW;
        int error = m->kind == FLY_TIMER ? loop_scheduler_timer_cancel(&on.l, timer)
                                         : loop_scheduler_close(&on.l, how, 0);
        atomic_fetch_add(&firefly_odd, error != (m->kind == FLY_TIMER ? 0 : ETIMEDOUT));
    } else {
        end_firefly(m);
    }
}

TEST a_periodic_timer_may_be_gone_once_it_is_told(bool closes)
{
    ASSERT(make_slow(&on.l));
    firefly *m = hatch(closes ? FLY_TASK : FLY_TIMER, NULL);
    ASSERT(m != NULL);
    m->timer.run = cancel_then_end;
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &m->timer, 0, PLIM_S(3600)));
    run_dry(&on.l);
    ASSERT_INT(0, csem_try_acquire(&firefly_gone));
    ASSERT_INT(0, atomic_load(&firefly_odd));
    ENDS_WELL();
}

SUITE(lifetimes_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    for (int kind = FLY_TASK; kind < FLY_KINDS; kind++) {
        RUN_TESTp(what_is_called_may_be_gone_before_it_returns, kind, false);
        RUN_TESTp(what_is_called_may_be_gone_before_it_returns, kind, true);
        RUN_TESTp(what_is_told_of_the_end_may_be_gone_before_it_returns, kind,
                  LOOP_SCHEDULER_DRAIN);
        RUN_TESTp(what_is_told_of_the_end_may_be_gone_before_it_returns, kind, LOOP_SCHEDULER_NOW);
    }
    RUN_TESTp(a_periodic_timer_may_be_gone_once_it_is_told, false);
    RUN_TESTp(a_periodic_timer_may_be_gone_once_it_is_told, true);
}
