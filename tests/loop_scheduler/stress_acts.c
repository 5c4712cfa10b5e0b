/* SPDX-License-Identifier: MIT
 *
 * What threads and callbacks do to loops.
 */

static item *new_item(life *l, item_kind kind, bool forgotten)
{
    item *it = NULL;
    if (forgotten) {
        it = malloc(sizeof *it);
        memset((void *)it, 0, sizeof *it);
        count(&l->sent);
    } else if (counted(&l->next) < ITEMS) {
        int i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed);
        it = i < ITEMS ? &l->items[i] : NULL;
    }
    if (it != NULL) {
        it->in = l;
        it->kind = kind;
        it->forgotten = forgotten;
        it->random = roll(l) | 1;
        it->result = (int)(it->random % 1000);
    }
    return it;
}

/* It was offered, and that is the answer. If it was accepted and forgotten it may be gone by now. */
static void offered(life *l, item *it, bool forgotten, int error)
{
    if (error == 0 && !forgotten) {
        count(&it->accepted);
        atomic_store_explicit(&it->open, 1, memory_order_release);
    } else if (error != 0 && forgotten) {
        atomic_fetch_sub_explicit(&l->sent, 1, memory_order_relaxed);
        free(it);
    }
}

static void note_post(life *l, int error)
{
    count(error == 0 ? &l->least : error == EDEADLK ? &l->unclear : &l->refused);
}

static void prepare_task(life *l, item *it)
{
    it->task.run = run_task;
    it->task.arg = it;
    it->steps = (int)(it->random % 4);
    it->begin = tick(l);
    stand_in_line(l, &it->producer, &it->number);
}

static void post(life *l, uint64_t random)
{
    bool forgotten = random % 4 == 0;
    item *it = new_item(l, random % 16 < 3 ? AGAIN : TASK, forgotten);
    if (it == NULL) {
        return;
    }
    bool waits = random % 5 == 0;
    prepare_task(l, it);
    int error = !waits ? loop_scheduler_post(&l->loop, &it->task)
                : random % 35 == 0
                    ? loop_scheduler_post_for(&l->loop, &it->task, PLIM_FOREVER)
                    : loop_scheduler_post_for(&l->loop, &it->task, some_time(random) - 999);
    CHECK(may_refuse(l, error, waits ? LATE | CIRCLE : FULL));
    note_post(l, error);
    if (error == 0 && !forgotten) {
        it->end = tick(l);
    }
    offered(l, it, forgotten, error);
}

/* A post that takes the visit of its poster with it; says whether it did. */
static bool say_farewell(life *l)
{
    item *it = new_item(l, TASK, true);
    prepare_task(l, it);
    it->task.run = run_farewell;
    int error = loop_scheduler_post(&l->loop, &it->task);
    if (error == 0) {
        return true; /* neither it nor the loop may be there any more */
    }
    CHECK(may_refuse(l, error, FULL));
    note_post(l, error);
    offered(l, it, true, error);
    return false;
}

static void start_timer(life *l, uint64_t random)
{
    bool forgotten = random % 4 == 0;
    item *it = new_item(l, TIMER, forgotten);
    if (it == NULL) {
        return;
    }
    it->timer.run = run_timer;
    it->timer.arg = it;
    it->delay = random % 16 == 0 ? PLIM_S(100) : some_time(random);
    it->period = random % 5 < 2 ? PLIM_US(20) + some_time(random >> 4) : 0;
    it->since = plim_now_();
    int error = loop_scheduler_timer_start(&l->loop, &it->timer, it->delay, it->period);
    CHECK(may_be(error, atomic_load(&l->closing) != 0 ? CLOSED : 0));
    offered(l, it, forgotten, error);
}

/* One of those that were accepted, or NULL. */
static item *any(life *l, uint64_t random)
{
    int n = counted(&l->next);
    item *it = n > 0 ? &l->items[random % (uint64_t)(n < ITEMS ? n : ITEMS)] : NULL;
    return it != NULL && atomic_load_explicit(&it->open, memory_order_acquire) != 0 ? it : NULL;
}

static void start_wild_timer(life *l, uint64_t random)
{
    item *it = any(l, random >> 8);
    if (it == NULL || it->kind != WILD) {
        it = new_item(l, WILD, false);
        if (it == NULL) {
            return;
        }
        it->timer.run = run_timer;
        it->timer.arg = it;
        it->delay = some_time(random);
        it->period = random % 2 == 0 ? PLIM_US(20) + it->delay : 0; /* if it is periodic at times */
        atomic_store_explicit(&it->open, 1, memory_order_release);
    }
    int error = loop_scheduler_timer_start(&l->loop, &it->timer, some_time(random),
                                           random % 4 == 0 ? it->period : 0);
    CHECK(may_be(error, atomic_load(&l->closing) != 0 ? CLOSED : 0));
    if (error == 0) {
        count(&it->accepted);
    }
}

static void prepare_work(item *it)
{
    it->work.work = do_work;
    it->work.then = work_then;
    it->work.arg = it;
}

static void offload(life *l, uint64_t random)
{
    bool forgotten = random % 4 == 0;
    item *it = new_item(l, WORK, forgotten);
    if (it == NULL) {
        return;
    }
    prepare_work(it);
    /* To be done by another loop, sometimes; always one behind, so that no two wait for each other
     * in a way that is not seen. */
    int index = l->home->index + 1;
    life *other = random % 8 == 0 && index < slots_used ? visit(&slots[index]) : NULL;
    int error;
    if (other != NULL) {
        plim_executor by_loop = loop_scheduler_executor(&other->loop);
        error = loop_scheduler_offload(&l->loop, &by_loop, &it->work);
        CHECK(may_be(error, FULL | CLOSED));
        if (error != 0) {
            count(&other->unclear);
        }
        part(other);
    } else {
        error = loop_scheduler_offload(&l->loop, &executor, &it->work);
        CHECK(may_refuse(l, error, FULL));
    }
    offered(l, it, forgotten, error);
}

static void spawn(life *l, uint64_t random)
{
    bool forgotten = random % 4 == 0;
    item *it = new_item(l, COROUTINE, forgotten);
    if (it == NULL) {
        return;
    }
    it->co.run = stroll;
    it->co.arg = it;
    it->co.done = stroll_done;
    stand_in_line(l, &it->producer, &it->number);
    int error = loop_scheduler_spawn(&l->loop, &it->co);
    CHECK(may_refuse(l, error, 0));
    note_post(l, error);
    offered(l, it, forgotten, error);
}

static void make_promise(life *l, uint64_t random)
{
    item *it = new_item(l, PROMISE, false);
    if (it == NULL) {
        return;
    }
    promise *p = malloc(sizeof *p);
    memset((void *)p, 0, sizeof *p);
    p->of = it;
    p->co.run = await_promise;
    p->co.arg = p;
    p->co.done = promise_done;
    int error = loop_scheduler_spawn(&l->loop, &p->co);
    CHECK(may_refuse(l, error, 0));
    note_post(l, error);
    offered(l, it, false, error);
    if (error == 0) {
        dawdle(random);
        loop_scheduler_event_set(&p->event);
    }
    if (error != 0 || atomic_exchange(&it->fate, SET) == DROPPED) {
        free_promise(p);
    }
}

/* Gives the same thing to the loop that this thread gave it before, which may have had its outcome
 * since or not. */
static void retry(life *l, uint64_t random)
{
    static const item_kind kinds[3] = {AGAIN, WORK, COROUTINE};
    item **mine = &l->mine[me][random % 3], *it = *mine;
    int error;
    if (me == NOBODY || (it == NULL && (it = new_item(l, kinds[random % 3], false)) == NULL)) {
        return;
    }
    bool first = *mine == NULL;
    *mine = it;
    if (first) {
        it->retried = true;
    }
    switch (it->kind) {
    case WORK:
        if (first) {
            prepare_work(it);
        }
        error = loop_scheduler_offload(&l->loop, &executor, &it->work);
        CHECK(may_refuse(l, error, TWICE | FULL));
        if (random % 4 < 2) {
            int cancelled = loop_scheduler_work_cancel(&l->loop, &it->work);
            CHECK(may_be(cancelled, TWICE | UNKNOWN));
            if (cancelled == 0) {
                count(&it->cancels);
            }
        }
        break;
    case COROUTINE:
        if (first) {
            it->co.run = stroll;
            it->co.arg = it;
        }
        error = loop_scheduler_spawn(&l->loop, &it->co);
        CHECK(may_refuse(l, error, TWICE));
        break;
    default:
        if (first) {
            it->task.run = run_task;
            it->task.arg = it;
        }
        error = loop_scheduler_post(&l->loop, &it->task);
        CHECK(may_refuse(l, error, TWICE | FULL));
    }
    if (error == 0) {
        count(&it->accepted);
    }
    if (it->kind != WORK && error != EALREADY) {
        note_post(l, error);
    }
}

static void cancel(life *l, uint64_t random)
{
    item *it = any(l, random);
    int error = EALREADY;
    if (it == NULL) {
        return;
    }
    switch (it->kind) {
    case TASK:
        error = loop_scheduler_cancel(&l->loop, &it->task);
        CHECK(may_be(error, TWICE));
        break;
    case TIMER:
    case WILD:
        error = loop_scheduler_timer_cancel(&l->loop, &it->timer);
        CHECK(may_be(error, TWICE | UNKNOWN | BUSY));
        error = error == EBUSY ? 0 : error; /* cancelled, too */
        break;
    case WORK:
        error = loop_scheduler_work_cancel(&l->loop, &it->work);
        CHECK(may_be(error, TWICE));
        break;
    default: /* not one that posts itself: its next post might be under way */
        break;
    }
    if (error == 0) {
        count(&it->cancels);
    }
}

typedef struct request {
    life *in;
    uint64_t random, number;
    int producer;
} request;

static int answer(void *arg)
{
    request *r = arg;
    come_in(r->in);
    check_line(r->in, r->producer, r->number);
    act_inside(r->in, r->random >> 8);
    go_out(r->in);
    return (int)(r->random % 1000);
}

static void call(life *l, uint64_t random)
{
    request r = {.in = l, .random = roll(l)};
    bool at_once = loop_scheduler_is_current(&l->loop), timed = random % 2 == 0;
    int result = -1;
    if (!at_once) {
        stand_in_line(l, &r.producer, &r.number);
    }
    int error = timed ? loop_scheduler_call_for(&l->loop, answer, &r, &result, some_time(random))
                      : loop_scheduler_call(&l->loop, answer, &r, &result);
    CHECK(may_refuse(l, error, CIRCLE | ENDED | (timed ? LATE : 0)));
    CHECK(result == (error == 0 ? (int)(r.random % 1000) : -1));
    CHECK(!(at_once && error != 0) && !(error == ECANCELED && l->drains));
    if (error == 0 ? !at_once : error == ESHUTDOWN || error == EDEADLK) {
        note_post(l, error);
    }
}

static void look(life *l)
{
    loop_scheduler_stats s = loop_scheduler_snapshot(&l->loop);
    int64_t elapsed = 0;
    CHECK(s.posted == s.ran + s.cancelled + s.queued && s.peak_queued >= s.queued);
    CHECK(s.busy_ns >= 0 && s.idle_ns >= 0 && s.longest_ns >= 0);
    CHECK(may_be(loop_scheduler_stall(&l->loop, NULL, &elapsed), UNKNOWN) && elapsed >= 0);
    CHECK(loop_scheduler_next_timeout(&l->loop) >= 0);
}

static int run_somehow(life *l, run_mode mode, uint64_t random)
{
    int error;
    switch (mode) {
    case RUN:
        error = loop_scheduler_run(&l->loop);
        CHECK(may_be(error, BUSY | CLOSED | CIRCLE));
        break;
    case UNTIL:
        do { /* until it has had enough */
            error = loop_scheduler_run_once(&l->loop, some_time(random) * 4 - 999);
        } while (error == 0 && roll(l) % 8 != 0);
        CHECK(may_be(error, BUSY | CLOSED | CIRCLE | LATE));
        break;
    case ONCE:
        error = loop_scheduler_run_once(&l->loop, some_time(random) - 999);
        CHECK(may_be(error, BUSY | CLOSED | CIRCLE | LATE));
        break;
    default:
        error = loop_scheduler_poll(&l->loop);
        CHECK(may_be(error, BUSY | CLOSED | CIRCLE | FULL));
    }
    CHECK(error != EDEADLK || loop_scheduler_is_current(&l->loop));
    return error;
}

/* By a thread that is on no loop, or on another one; who must not wait for ever then, since works
 * of that loop may be in the queue of its own. */
static void close_it(life *l, uint64_t random)
{
    bool patient = l->drains || (level == 0 && random % 4 == 0);
    if (counted(&l->operations) < l->target / 2 || (l->drains && level != 0)) {
        return;
    }
    atomic_store(&l->closing, 1);
    int how = l->drains || random % 3 != 0 ? LOOP_SCHEDULER_DRAIN : LOOP_SCHEDULER_NOW;
    int error =
        loop_scheduler_close(&l->loop, how, patient ? PLIM_FOREVER : some_time(random) - 999);
    CHECK(may_be(error, (l->drains ? 0 : LATE) | (level != 0 ? CIRCLE : 0)));
}

static void try_what_is_a_circle(life *l)
{
    CHECK(loop_scheduler_close(&l->loop, LOOP_SCHEDULER_DRAIN, 1) == EDEADLK);
    CHECK(loop_scheduler_destroy(&l->loop) == EDEADLK);
    CHECK(loop_scheduler_run(&l->loop) == EDEADLK);
    CHECK(loop_scheduler_poll(&l->loop) == EDEADLK);
    CHECK(loop_scheduler_start(&l->loop) == EBUSY);
}

static void play_with_events(uint64_t random)
{
    loop_scheduler_event *event = &events[random / 8 % EVENTS];
    if (random % 8 < 3) {
        loop_scheduler_event_set(event);
    } else if (random % 8 < 6) {
        loop_scheduler_event_reset(event);
    } else {
        (void)loop_scheduler_event_is_set(event);
    }
}

static void act_on(life *l, uint64_t random)
{
    bool inside = loop_scheduler_is_current(&l->loop);
    uint64_t more = random >> 8;
    count(&l->operations);
    switch (random % 40) {
    default:
        post(l, more);
        break;
    case 12:
    case 13:
    case 14:
        start_timer(l, more);
        break;
    case 15:
    case 16:
        start_wild_timer(l, more);
        break;
    case 17:
    case 18:
        offload(l, more);
        break;
    case 19:
    case 20:
        spawn(l, more);
        break;
    case 21:
        make_promise(l, more);
        break;
    case 22:
    case 23:
    case 24:
        retry(l, more);
        break;
    case 25:
    case 26:
    case 27:
    case 28:
        cancel(l, more);
        break;
    case 29:
    case 30:
    case 31:
        call(l, more);
        break;
    case 32:
    case 33:
        play_with_events(more);
        break;
    case 34:
        look(l);
        break;
    case 35:
        if (inside) {
            try_what_is_a_circle(l);
        } else if (l->mode != DESCRIPTOR) { /* there the driver must be alone */
            run_somehow(l, level > 0 ? POLL : (run_mode)(RUN + more % 4), more >> 8);
        }
        break;
    case 36:
        if (more % 4 == 0) {
            atomic_store(&l->stopped, 1);
            loop_scheduler_stop(&l->loop);
        }
        break;
    case 37:
        if (!inside && l->mode != DESCRIPTOR) {
            CHECK(may_be(loop_scheduler_start(&l->loop), BUSY | CLOSED | (level > 0 ? CIRCLE : 0)));
        }
        break;
    case 38:
        if (more % 4 == 0 && !inside) {
            close_it(l, more >> 8);
        }
        break;
    case 39:
#ifdef HAS_POLL
        CHECK(more % 8 != 0 || loop_scheduler_fd(&l->loop) >= 0);
#endif
        break;
    }
}

static void act(life *l, uint64_t random)
{
    atomic_fetch_add_explicit(&operations, 1, memory_order_relaxed);
    if (level > 3) {
        dawdle(random);
    } else if (level > 0 && random % 4 == 0) { /* from here to another one */
        life *other = visit(&slots[(random >> 4) % (uint64_t)slots_used]);
        if (other != NULL) {
            act_on(other, random >> 8);
            part(other);
        }
    } else {
        act_on(l, random >> 2);
    }
}
