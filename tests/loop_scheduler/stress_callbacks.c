/* SPDX-License-Identifier: MIT
 *
 * What runs on the loops and beside them: callbacks, an executor, coroutines.
 */

/* What a callback does besides: mostly little. */
static void act_inside(life *l, uint64_t random)
{
    if (random % 3 == 0) {
        act(l, random / 3);
    } else {
        dawdle(random / 3);
    }
}

static void note_outcome(item *it, int status)
{
    CHECK(status == 0 || status == ECANCELED);
    count(status == 0 ? &it->ran : &it->told);
}

/* The memory of a forgotten one: from now on nobody may touch it. */
static void forget(item *it)
{
    if (it->forgotten) {
        count(&it->in->ended);
        memset((void *)it, 0xa5, sizeof *it);
        free(it);
    }
}

static void run_task(loop_scheduler_task *task, int status)
{
    item *it = task->arg;
    life *l = it->in;
    uint64_t random = roll(l);
    come_in(l);
    check_line(l, it->producer, it->number);
    note_outcome(it, status);
    it->position = ++l->position;
    if (random % 8 == 0) {
        loop_scheduler_task *stalled = NULL;
        CHECK(loop_scheduler_stall(&l->loop, &stalled, NULL) == 0 && stalled == task);
    }
    bool again = it->kind == AGAIN && !it->retried && it->steps-- > 0;
    if (again) {
        stand_in_line(l, &it->producer, &it->number);
        int error = loop_scheduler_post(&l->loop, task);
        CHECK(may_refuse(l, error, FULL));
        count(error == 0 ? &it->accepted : &l->refused);
        again = error == 0;
    }
    if (!again) {
        forget(it);
    }
    act_inside(l, random >> 8);
    go_out(l);
}

/* The poster has handed its visit over: as soon as it is ended here the loop may be gone, even if
 * the post has not returned yet. */
static void run_farewell(loop_scheduler_task *task, int status)
{
    item *it = task->arg;
    life *l = it->in;
    come_in(l);
    check_line(l, it->producer, it->number);
    note_outcome(it, status);
    ++l->position;
    forget(it);
    go_out(l);
    part(l);
}

static void run_timer(loop_scheduler_timer *timer, int status)
{
    item *it = timer->arg;
    life *l = it->in;
    uint64_t random = roll(l);
    come_in(l);
    if (it->kind == TIMER) {
        CHECK(counted(&it->told) == 0);
        CHECK(status != 0 || plim_now_() >= it->since + it->delay + counted(&it->ran) * it->period);
    }
    note_outcome(it, status);
    if (status == 0) {
        count(&l->fires);
    }
    if (it->kind == WILD) {
        if (random % 4 == 0) {
            int error = loop_scheduler_timer_start(&l->loop, timer, it->delay, 0);
            CHECK(may_be(error, atomic_load(&l->closing) != 0 ? CLOSED : 0));
            if (error == 0) {
                count(&it->accepted);
            }
        }
    } else if (status != 0 || it->period == 0) {
        forget(it);
    } else if (it->forgotten && counted(&it->ran) == 3) {
        int error = loop_scheduler_timer_cancel(&l->loop, timer);
        CHECK(may_be(error, atomic_load(&l->closing) != 0 ? UNKNOWN : 0)); /* close was faster */
    }
    act_inside(l, random >> 8);
    go_out(l);
}

static int do_work(void *arg)
{
    item *it = arg;
    count(&it->worked);
    level++;
    act_inside(it->in, roll(it->in)); /* it is not back, so the loop is still there */
    level--;
    return it->result;
}

static void work_then(loop_scheduler_work *work, int status)
{
    item *it = work->arg;
    life *l = it->in;
    uint64_t random = roll(l);
    come_in(l);
    note_outcome(it, status);
    if (!it->retried) { /* else it may be away again */
        CHECK(status != 0 || (counted(&it->worked) == 1 && work->result == it->result));
        forget(it);
    }
    act_inside(l, random >> 16);
    go_out(l);
}

static plim_thread_result run_errands(void *arg)
{
    me = FIRST + MOST_MEMBERS + 2 * MOST_SLOTS + (int)((plim_thread *)arg - pool.threads);
    plim_mutex_lock_(&pool.mutex);
    while (!pool.ends || pool.first != NULL) {
        errand *e = pool.first;
        if (e == NULL) {
            plim_cond_wait_(&pool.cond, &pool.mutex, PLIM_FOREVER);
            continue;
        }
        pool.first = e->next;
        plim_mutex_unlock_(&pool.mutex);
        e->run(e->arg);
        free(e);
        plim_mutex_lock_(&pool.mutex);
    }
    plim_mutex_unlock_(&pool.mutex);
    return 0;
}

static int execute(void *ctx, void (*run)(void *), void *arg)
{
    static atomic_int calls;
    int call = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    (void)ctx;
    if (call % 11 == 0) {
        return EAGAIN;
    }
    if (call % 7 == 0) {
        rest(PLIM_US(call % 100));
        return EAGAIN;
    }
    if (call % 17 == 0) {
        run(arg);
        return 0;
    }
    errand *e = malloc(sizeof *e);
    *e = (errand){NULL, run, arg};
    plim_mutex_lock_(&pool.mutex);
    *(pool.first != NULL ? &pool.last->next : &pool.first) = e;
    pool.last = e;
    plim_cond_signal_(&pool.cond);
    plim_mutex_unlock_(&pool.mutex);
    return 0;
}

static int do_errand(void *arg)
{
    dawdle(*(uint64_t *)arg);
    return 77;
}

static void check_status(life *l, int status, int answers)
{
    CHECK(may_be(status, answers | (atomic_load(&l->closing) != 0 ? ENDED : 0)));
}

static void stroll_on(loop_scheduler_coroutine *co)
{
    item *it = co->arg;
    life *l = it->in;
    loop_scheduler_event *event = &events[(it->random >> 8) % EVENTS];
    int64_t time = some_time(it->random);
    LOOP_BEGIN(co);
    check_line(l, it->producer, it->number);
    it->steps = (int)(it->random % 8);
    while (it->steps-- > 0 && (co->status != ECANCELED || it->random % 4 == 0)) {
        next_random(&it->random);
        if (it->random % 16 < 2) {
            LOOP_AWAIT(co, event);
            check_status(l, co->status, 0);
        } else if (it->random % 16 < 5) {
            LOOP_AWAIT_FOR(co, event, time);
            check_status(l, co->status, LATE);
        } else if (it->random % 16 < 8) {
            LOOP_SLEEP(co, time);
            check_status(l, co->status, 0);
        } else if (it->random % 16 < 10) {
            LOOP_YIELD(co);
            check_status(l, co->status, 0);
        } else if (it->random % 16 < 13) {
            LOOP_OFFLOAD(co, &executor, do_errand, &it->random);
            check_status(l, co->status, FULL);
            CHECK(co->status != 0 || co->result == 77);
        } else if (it->random % 16 < 15) {
            act_inside(l, roll(l));
        } else if (it->retried) {
            count(&it->ended);
            LOOP_EXIT(co);
        } else {
            LOOP_EXIT(co);
        }
    }
    if (it->retried) {
        count(&it->ended);
    }
    LOOP_END(co);
}

static void stroll(loop_scheduler_coroutine *co)
{
    item *it = co->arg;
    life *l = it->in;
    come_in(l);
    stroll_on(co);
    go_out(l);
}

static void stroll_done(loop_scheduler_coroutine *co)
{
    item *it = co->arg;
    life *l = it->in;
    come_in(l);
    count(&it->ended);
    forget(it);
    go_out(l);
}

static void free_promise(promise *p)
{
    memset((void *)p, 0xa5, sizeof *p);
    free(p);
}

static void await_promise_on(loop_scheduler_coroutine *co)
{
    promise *p = co->arg;
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, &p->event);
    check_status(p->of->in, co->status, 0);
    LOOP_END(co);
}

static void await_promise(loop_scheduler_coroutine *co)
{
    life *l = ((promise *)co->arg)->of->in;
    come_in(l);
    await_promise_on(co);
    go_out(l);
}

static void promise_done(loop_scheduler_coroutine *co)
{
    promise *p = co->arg;
    item *it = p->of;
    life *l = it->in;
    come_in(l);
    note_outcome(it, co->status);
    if (co->status == 0) {
        free_promise(p);
        atomic_store(&it->fate, KEPT);
    } else if (atomic_exchange(&it->fate, DROPPED) == SET) {
        free_promise(p);
    }
    go_out(l);
}
