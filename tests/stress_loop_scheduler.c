/* SPDX-License-Identifier: MIT
 *
 * Threads do random things to a few loops, all that a caller may do, while others make these loops,
 * run them in one way or another, close and destroy them, again and again: posts of all kinds,
 * calls also from loop to loop, timers, work elsewhere, coroutines, cancels of all of it, start,
 * stop, run, and close by several at once. What runs on the loops does the same things.
 *
 * When a loop has come to its end the books are checked. Everything that was accepted had exactly
 * one outcome, on the loop's thread and not beside another one; what was posted ran in the order of
 * the posts, as far as anybody could tell; nothing is left. Then its memory is overwritten and
 * freed at once, and that of tasks as soon as they run, so that a late touch is noticed.
 *
 *   stress_loop_scheduler [SECONDS] [SEED]
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* poll */
#endif
#include "../loop_scheduler.h"
#include "support.h"

#include <inttypes.h>

#if defined(__unix__) || defined(__APPLE__)
#include <poll.h>
#define HAS_POLL
#endif

/* The clock of the posts must not order anything for ThreadSanitizer, or it would not see what is
 * missing in the header. */
#if defined(__SANITIZE_THREAD__)
#define TICK_ORDER memory_order_relaxed
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TICK_ORDER memory_order_relaxed
#endif
#endif
#ifndef TICK_ORDER
#define TICK_ORDER memory_order_seq_cst
#endif

enum { MOST_MEMBERS = 4, MOST_SLOTS = 3, POOL = 2, LIVES = 8, ITEMS = 160, EVENTS = 3 };

/* Who posts: threads by their number, and what runs on the loop itself. The own threads of loops
 * have no number when they post to another loop. */
enum { NOBODY, OWN, FIRST, PRODUCERS = FIRST + MOST_MEMBERS + 2 * MOST_SLOTS + POOL };
static _Thread_local int me;
static _Thread_local int level; /* callbacks on this thread's stack */

typedef struct life life;
typedef struct promise promise;
typedef enum item_kind { TASK, AGAIN, TIMER, WILD, WORK, COROUTINE, PROMISE } item_kind;

/*
 * Something that is given to a loop. Either it stays until the loop is gone, and may be cancelled
 * by anybody; or it is forgotten: in memory of its own, which is freed in its outcome.
 *
 * AGAIN posts itself, or (retried) its owner gives it to the loop again, whatever has become of it.
 * A WILD timer is started and cancelled by anybody at any time.
 */
typedef struct item {
    union {
        loop_scheduler_task task;
        loop_scheduler_timer timer;
        loop_scheduler_work work;
        loop_scheduler_coroutine co;
    };
    life *in;
    item_kind kind;
    bool forgotten, retried;
    uint64_t random;
    int producer; /* where it stands in line */
    uint64_t number, begin, end, position;
    struct item *follows;         /* in a list of posts */
    int64_t since, delay, period; /* of a timer */
    int steps;                    /* that are left: of a coroutine, or of one that posts itself */
    int result;                   /* what it shall be */
    atomic_int open;              /* it was accepted: now it may be cancelled */
    atomic_int accepted, cancels; /* so often; cancels that said yes */
    atomic_int ran, told;         /* outcomes: 0, ECANCELED */
    atomic_int worked, ended;     /* of a work, on the executor; of a coroutine */
    atomic_int fate;              /* of a promise: see there */
} item;

typedef struct slot {
    plim_mutex mutex;
    life *at;
    int index;
    uint64_t random;
    plim_thread thread;
} slot;

/* Who runs the loop: a thread of its own, a driver that calls the function, or nobody but those who
 * do random things. */
typedef enum run_mode { THREAD, RUN, UNTIL, ONCE, POLL, DESCRIPTOR, MEMBERS, MODES } run_mode;

/* A loop, from its beginning to its end. */
struct life {
    loop_scheduler loop;
    slot *home;
    run_mode mode;
    int users;   /* under the slot's mutex */
    bool drains; /* all who close it have patience: what nobody cancels is not cancelled */
    int target;  /* operations until it ends */
    plim_thread driver;
    atomic_int operations, closing, stopped;
    uint64_t seed;
    atomic_uint_least64_t holder, tick, visits, rolls;
    atomic_int refused, unclear; /* posts and calls; those that may or may not count as refused */
    atomic_int least, fires;     /* what must be counted as posted at least; calls of timers */
    atomic_int sent, ended;      /* forgotten ones */
    atomic_int slow;
    /* On the loop only, and without a lock: */
    int depth;
    uint64_t plain, position, seen[PRODUCERS];
    /* Each by its producer only: */
    uint64_t numbers[PRODUCERS];
    item *mine[PRODUCERS][3];
    atomic_int next;
    item items[ITEMS];
};

static slot slots[MOST_SLOTS];
static int slots_used;
static loop_scheduler_event events[EVENTS];
static atomic_int keepers_left, odd, first_odd;
static atomic_uint_least64_t operations, loops;

static void check_at(bool right, int line)
{
    if (!right && atomic_fetch_add(&odd, 1) == 0) {
        atomic_store(&first_odd, line);
    }
}
#define CHECK(right) check_at((right), __LINE__)

/* Relaxed, like all that is counted here: see TICK_ORDER. */
static void count(atomic_int *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static int counted(atomic_int *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static uint64_t tick(life *l)
{
    return atomic_fetch_add_explicit(&l->tick, 1, TICK_ORDER) + 1;
}

/* Fresh dice for what happens on the loop. */
static uint64_t roll(life *l)
{
    uint64_t x = l->seed + atomic_fetch_add_explicit(&l->rolls, 1, memory_order_relaxed);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int64_t some_time(uint64_t random)
{
    return (int64_t)(random >> 16) % PLIM_US(200);
}

/* Answers that a call may give, besides 0. */
enum {
    FULL = 1,     /* EAGAIN */
    LATE = 2,     /* ETIMEDOUT */
    CLOSED = 4,   /* ESHUTDOWN */
    CIRCLE = 8,   /* EDEADLK */
    BUSY = 16,    /* EBUSY */
    TWICE = 32,   /* EALREADY */
    UNKNOWN = 64, /* ENOENT */
    ENDED = 128   /* ECANCELED */
};

static bool may_be(int error, int answers)
{
    int answer = error == EAGAIN      ? FULL
                 : error == ETIMEDOUT ? LATE
                 : error == ESHUTDOWN ? CLOSED
                 : error == EDEADLK   ? CIRCLE
                 : error == EBUSY     ? BUSY
                 : error == EALREADY  ? TWICE
                 : error == ENOENT    ? UNKNOWN
                 : error == ECANCELED ? ENDED
                                      : 0;
    return error == 0 || (answer & answers) != 0;
}

/* The same for what was offered to a loop: it is closed only if somebody has closed it, not even
 * then to its own tasks while it drains; and a circle needs somebody who is on a loop. */
static bool may_refuse(life *l, int error, int answers)
{
    if (error == ESHUTDOWN) {
        return atomic_load(&l->closing) != 0 && !(l->drains && loop_scheduler_is_current(&l->loop));
    }
    return may_be(error, answers) && !(error == EDEADLK && level == 0);
}

/* ---- Visits: nobody destroys a loop that is being visited ---- */

static life *visit(slot *s)
{
    plim_mutex_lock_(&s->mutex);
    life *l = s->at;
    if (l != NULL) {
        l->users++;
    }
    plim_mutex_unlock_(&s->mutex);
    return l;
}

static void part(life *l)
{
    slot *s = l->home;
    plim_mutex_lock_(&s->mutex);
    l->users--;
    plim_mutex_unlock_(&s->mutex);
}

/* ---- On the loop ---- */

static void come_in(life *l)
{
    uint64_t self = plim_thread_id_();
    CHECK(loop_scheduler_is_current(&l->loop));
    /* Another one inside is seen here, by what both of them write without a lock, or by a sanitizer
     * that sees them do so. */
    CHECK(atomic_load_explicit(&l->holder, memory_order_relaxed) == (l->depth == 0 ? 0 : self));
    atomic_store_explicit(&l->holder, self, memory_order_relaxed);
    l->depth++;
    l->plain++;
    atomic_fetch_add_explicit(&l->visits, 1, memory_order_relaxed);
    level++;
}

static void go_out(life *l)
{
    level--;
    if (--l->depth == 0) {
        atomic_store_explicit(&l->holder, 0, memory_order_relaxed);
    }
}

static void stand_in_line(life *l, int *producer, uint64_t *number)
{
    *producer = loop_scheduler_is_current(&l->loop) ? OWN : me;
    *number = *producer == NOBODY ? 0 : ++l->numbers[*producer];
}

static void check_line(life *l, int producer, uint64_t number)
{
    if (number != 0) {
        CHECK(number > l->seen[producer]);
        l->seen[producer] = number;
    }
}

static void act(life *l, uint64_t random);

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
        CHECK(loop_scheduler_timer_cancel(&l->loop, timer) == 0);
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

/* ---- An executor: a few threads, or the caller's at once, or a refusal, now or late ---- */

typedef struct errand {
    struct errand *next;
    void (*run)(void *);
    void *arg;
} errand;

static struct {
    plim_mutex mutex;
    plim_cond cond;
    errand *first, *last;
    bool ends;
    plim_thread threads[POOL];
} pool;

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

static const plim_executor executor = {execute, NULL};

/* ---- Coroutines ---- */

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

/*
 * A coroutine and the event that it awaits, in one block, which the coroutine frees as soon as the
 * event is set: so the setter must not touch it then. If the coroutine is cancelled instead, the
 * last of the two frees it.
 */
struct promise {
    loop_scheduler_coroutine co;
    loop_scheduler_event event;
    item *of;
};

enum { PENDING, KEPT, DROPPED, SET };

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

/* ---- What threads and callbacks do ---- */

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

static void post_list(life *l, uint64_t random)
{
    item *its[4];
    loop_scheduler_task *tasks[4];
    size_t n = 0;
    uint64_t end = 0;
    while (n < 2 + random % 3 && (its[n] = new_item(l, TASK, false)) != NULL) {
        prepare_task(l, its[n]);
        its[n]->begin = its[0]->begin;
        its[n]->follows = n > 0 ? its[n - 1] : NULL;
        tasks[n] = &its[n]->task;
        n++;
    }
    int error = loop_scheduler_post_list(&l->loop, tasks, n);
    if (n > 0) {
        CHECK(may_refuse(l, error, FULL));
        note_post(l, error);
        end = tick(l);
    }
    for (size_t i = 0; i < n; i++) {
        its[i]->end = end;
        offered(l, its[i], false, error);
    }
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
    it->timer.policy = (int)(random % 3);
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
        it->timer.policy = (int)(random % 3);
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
        CHECK(may_be(error, TWICE | UNKNOWN));
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

static bool has_enough(void *arg)
{
    return roll(arg) % 8 == 0;
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
        error = loop_scheduler_run_until(&l->loop, has_enough, l, some_time(random) * 4 - 999);
        CHECK(may_be(error, BUSY | CLOSED | CIRCLE | LATE | ENDED));
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
    CHECK(loop_scheduler_close(&l->loop, LOOP_SCHEDULER_DRAIN, 0) == EDEADLK);
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
    case 10:
    case 11:
        post_list(l, more);
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

/* ---- Threads ---- */

typedef struct member {
    int number;
    uint64_t random;
    plim_thread thread;
} member;

static member members[MOST_MEMBERS];

static plim_thread_result take_part(void *arg)
{
    member *m = arg;
    me = FIRST + m->number;
    while (atomic_load(&keepers_left) > 0) {
        uint64_t random = next_random(&m->random);
        life *l = visit(&slots[random % (uint64_t)slots_used]);
        if (l == NULL) {
            plim_thread_yield_();
            continue;
        }
        /* A loop that is being closed refuses most things, and others need the CPU more. */
        bool leaves = atomic_load(&l->closing) != 0 && (random >> 4) % 16 != 0;
        for (uint64_t i = leaves ? 0 : random >> 8 & 7; i > 0; i--) {
            act(l, next_random(&m->random) >> 4);
        }
        if (l->mode == MEMBERS && (random >> 20) % 4 == 0) {
            run_somehow(l, ONCE, random >> 4);
        }
        if ((random >> 16) % 4 != 0 || !say_farewell(l)) {
            part(l);
        }
        if (leaves) {
            plim_thread_yield_();
        }
    }
    return 0;
}

#ifdef HAS_POLL
/* Whether the descriptor gets readable, since there is something to do and nobody else to do it. */
static void check_descriptor(life *l, struct pollfd *fd)
{
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    while (loop_scheduler_snapshot(&l->loop).queued > 0 && atomic_load(&l->closing) == 0 &&
           poll(fd, 1, 1) == 0) {
        if (plim_now_() > give_up) {
            CHECK(false);
            return;
        }
    }
}
#endif

static void drive_by_descriptor(life *l)
{
#ifdef HAS_POLL
    int64_t next = loop_scheduler_next_timeout(&l->loop);
    struct pollfd fd = {.fd = loop_scheduler_fd(&l->loop), .events = POLLIN};
    /* Not until it is readable: one who closes it might read that away. */
    if (poll(&fd, 1, next < PLIM_MS(2) ? (int)((next + 999999) / PLIM_MS(1)) : 2) == 0) {
        check_descriptor(l, &fd);
    }
#else
    (void)l;
#endif
}

static plim_thread_result drive(void *arg)
{
    life *l = arg;
    uint64_t random = (uint64_t)l->target + 1;
    int error = 0;
    me = FIRST + MOST_MEMBERS + MOST_SLOTS + l->home->index;
    while (error != ESHUTDOWN) {
        next_random(&random);
        if (l->mode == DESCRIPTOR) {
            drive_by_descriptor(l);
        }
        error = run_somehow(l, l->mode, random);
        if (error == EBUSY) {
            rest(PLIM_US(20));
        }
    }
    return 0;
}

/* ---- The life of a loop ---- */

static int64_t other_clock(void *user)
{
    (void)user;
    return plim_now_() + PLIM_S(1000);
}

static void on_slow(void *user, loop_scheduler_task *task, int64_t elapsed_ns)
{
    life *l = user;
    (void)task;
    CHECK(loop_scheduler_is_current(&l->loop) && elapsed_ns >= PLIM_US(50));
    count(&l->slow);
}

static life *begin_life(slot *s)
{
    uint64_t random = next_random(&s->random);
    life *l = malloc(sizeof *l);
    memset((void *)l, 0, sizeof *l);
    l->home = s;
    l->seed = next_random(&s->random);
    l->mode = (run_mode)(random % MODES);
    l->drains = random >> 8 & 1;
    l->target = 20 + (int)((random >> 16) % 200);
    loop_scheduler_options options = {.user = l};
    options.max_queue = (random >> 9 & 1) != 0 ? 1 + (uint32_t)((random >> 28) % 16) : 0;
    options.slow_ns = (random >> 32) % 4 == 0 ? PLIM_US(50) : 0;
    options.on_slow = on_slow;
    options.clock = (random >> 34) % 4 == 0 ? other_clock : NULL;
    CHECK(loop_scheduler_init(&l->loop, &options) == 0);
    if (l->mode == THREAD) {
        CHECK(loop_scheduler_start(&l->loop) == 0);
    } else if (l->mode != MEMBERS) {
        start(&l->driver, drive, l);
    }
    plim_mutex_lock_(&s->mutex);
    s->at = l;
    plim_mutex_unlock_(&s->mutex);
    return l;
}

static void hide(slot *s)
{
    plim_mutex_lock_(&s->mutex);
    s->at = NULL;
    plim_mutex_unlock_(&s->mutex);
}

static bool is_deserted(life *l)
{
    plim_mutex_lock_(&l->home->mutex);
    bool deserted = l->users == 0;
    plim_mutex_unlock_(&l->home->mutex);
    return deserted;
}

/* Whatever shall run soon has run; or nobody runs the loop any more. */
static bool has_settled(life *l)
{
    loop_scheduler_stats s = loop_scheduler_snapshot(&l->loop);
    bool settled = s.queued == 0 && s.offloaded == 0;
    if (l->mode == MEMBERS || (l->mode == THREAD && atomic_load(&l->stopped) != 0)) {
        return true;
    }
    for (int i = 0; i < ITEMS && settled; i++) {
        item *it = &l->items[i];
        settled = atomic_load_explicit(&it->open, memory_order_acquire) == 0 || it->kind != TIMER ||
                  it->period != 0 || it->delay > PLIM_S(1) ||
                  counted(&it->ran) + counted(&it->told) != 0;
    }
    return settled;
}

static int by_position(const void *a, const void *b)
{
    uint64_t x = (*(item *const *)a)->position, y = (*(item *const *)b)->position;
    return (x > y) - (x < y);
}

/* No task ran before one whose post had returned when its own was called. */
static void check_order(life *l, int n)
{
    item *tasks[ITEMS];
    size_t found = 0;
    uint64_t first_end = UINT64_MAX;
    for (int i = 0; i < n; i++) {
        item *it = &l->items[i];
        if (it->kind == TASK && it->position != 0) {
            CHECK(it->follows == NULL || it->position == it->follows->position + 1);
            tasks[found++] = it;
        }
    }
    qsort(tasks, found, sizeof *tasks, by_position);
    while (found-- > 0) {
        CHECK(tasks[found]->begin < first_end);
        first_end = tasks[found]->end < first_end ? tasks[found]->end : first_end;
    }
}

static void check_item(life *l, item *it)
{
    int accepted = counted(&it->accepted), cancels = counted(&it->cancels);
    int ran = counted(&it->ran), told = counted(&it->told), ended = counted(&it->ended);
    switch (it->kind) {
    case TASK:
        CHECK(ran + told == accepted && cancels <= told && (!l->drains || told == cancels));
        break;
    case AGAIN:
        CHECK(ran + told == accepted && (!l->drains || told == 0));
        break;
    case TIMER:
        CHECK(cancels <= told && (it->period != 0 ? told == accepted : ran + told == accepted));
        break;
    case WILD:
        CHECK(told <= cancels + 1 && (accepted == 0 || ran + told > 0));
        CHECK(it->period != 0 || ran + told <= accepted);
        break;
    case WORK:
        CHECK(ran + told == accepted && cancels <= told && (!l->drains || told == cancels));
        CHECK(counted(&it->worked) >= ran && counted(&it->worked) <= accepted - cancels);
        break;
    case COROUTINE: /* without `done` nobody hears of one that was closed before it began */
        CHECK(it->retried && !l->drains ? ended <= accepted : ended == accepted);
        break;
    case PROMISE:
        CHECK(ran + told == accepted);
        break;
    }
}

static void check_books(life *l)
{
    loop_scheduler_stats s = loop_scheduler_snapshot(&l->loop);
    int n = counted(&l->next) < ITEMS ? counted(&l->next) : ITEMS;
    CHECK(s.posted == s.ran + s.cancelled && s.queued == 0 && s.timers == 0);
    CHECK(s.offloaded == 0 && s.suspended == 0);
    CHECK(s.posted >= (uint64_t)counted(&l->least) && s.fired >= (uint64_t)counted(&l->fires));
    uint64_t refused = (uint64_t)counted(&l->refused), unclear = (uint64_t)counted(&l->unclear);
    CHECK(s.rejected >= refused && s.rejected <= refused + unclear);
    CHECK(l->depth == 0 && l->plain == atomic_load(&l->visits));
    CHECK(counted(&l->sent) == counted(&l->ended));
    for (int i = 0; i < n; i++) {
        check_item(l, &l->items[i]);
    }
    check_order(l, n);
}

static void end_life(life *l)
{
    slot *s = l->home;
    uint64_t random = next_random(&s->random);
    bool gone = false, hidden = (random >> 8) % 2 == 0;
    if (hidden) {
        hide(s);
    }
    /* Sometimes nobody comes any more: the loop must get on with all that it has even so. */
    int64_t patience = plim_now_() + PLIM_MS(2);
    while (hidden && random >> 12 & 1 && !is_deserted(l) && plim_now_() < patience) {
        rest(PLIM_US(50));
    }
    if (hidden && random >> 12 & 1 && is_deserted(l)) {
        CHECK(EVENTUALLY(has_settled(l)));
    }
    if (hidden && (l->mode == THREAD || l->mode == MEMBERS) && is_deserted(l)) {
        loop_scheduler_stop(&l->loop); /* perhaps there is nothing left, and no need to close it */
        int error = loop_scheduler_destroy(&l->loop);
        CHECK(may_be(error, BUSY));
        gone = error == 0;
    }
    if (!gone) {
        atomic_store(&l->closing, 1);
        int64_t time = random % 4 == 0 ? PLIM_FOREVER : some_time(random) - 999;
        int how = random % 3 == 0 ? LOOP_SCHEDULER_NOW : LOOP_SCHEDULER_DRAIN;
        if (l->drains) {
            CHECK(loop_scheduler_close(&l->loop, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) == 0);
        } else {
            CHECK(may_be(loop_scheduler_close(&l->loop, how, time), LATE));
            CHECK(loop_scheduler_close(&l->loop, LOOP_SCHEDULER_NOW, PLIM_FOREVER) == 0);
        }
    }
    if (!hidden) {
        hide(s);
    }
    if (!EVENTUALLY(is_deserted(l))) {
        fprintf(stderr, "a thread does not return from a loop that was closed\n");
        abort();
    }
    if (l->mode != THREAD && l->mode != MEMBERS) {
        join(l->driver);
    }
    check_books(l);
    CHECK(gone || loop_scheduler_destroy(&l->loop) == 0);
    memset((void *)l, 0xa5, sizeof *l);
    free(l);
    atomic_fetch_add(&loops, 1);
}

static plim_thread_result keep(void *arg)
{
    slot *s = arg;
    me = FIRST + MOST_MEMBERS + s->index;
    for (int i = 0; i < LIVES && atomic_load(&odd) == 0; i++) {
        life *l = begin_life(s);
        int64_t end = plim_now_() + PLIM_MS(10); /* even if all are busy elsewhere */
        while (counted(&l->operations) < l->target && plim_now_() < end) {
            rest(PLIM_US(50));
        }
        end_life(l);
    }
    atomic_fetch_sub(&keepers_left, 1);
    return 0;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)plim_now_();
    int64_t end = plim_now_() + (int64_t)(seconds * 1e9);
    uint64_t random = seed | 1;
    int rounds = 0, failed = 0;
    printf("stress_loop_scheduler: seed %" PRIu64 "\n", seed);
    fflush(stdout); /* if it hangs, that is known */
    failed += plim_mutex_init_(&pool.mutex) != 0 || plim_cond_init_(&pool.cond) != 0;
    for (int i = 0; i < MOST_SLOTS; i++) {
        slots[i].index = i;
        failed += plim_mutex_init_(&slots[i].mutex) != 0;
    }
    for (int i = 0; i < POOL && failed == 0; i++) {
        start(&pool.threads[i], run_errands, &pool.threads[i]);
    }
    while (plim_now_() < end && failed == 0) {
        slots_used = 1 + (int)(next_random(&random) % MOST_SLOTS);
        int threads = 1 + (int)(next_random(&random) % MOST_MEMBERS);
        atomic_store(&keepers_left, slots_used);
        for (int i = 0; i < slots_used; i++) {
            slots[i].random = next_random(&random);
            start(&slots[i].thread, keep, &slots[i]);
        }
        for (int i = 0; i < threads; i++) {
            members[i].number = i;
            members[i].random = next_random(&random);
            start(&members[i].thread, take_part, &members[i]);
        }
        for (int i = 0; i < slots_used; i++) {
            join(slots[i].thread);
        }
        for (int i = 0; i < threads; i++) {
            join(members[i].thread);
        }
        rounds++;
        failed += atomic_load(&odd) != 0;
        if (failed != 0) {
            printf("round %d, %d threads, %d loops: %d odd answers, the first one at line %d\n",
                   rounds, threads, slots_used, atomic_load(&odd), atomic_load(&first_odd));
        }
    }
    plim_mutex_lock_(&pool.mutex);
    pool.ends = true;
    for (int i = 0; i < POOL; i++) {
        plim_cond_signal_(&pool.cond);
    }
    plim_mutex_unlock_(&pool.mutex);
    for (int i = 0; i < POOL; i++) {
        join(pool.threads[i]);
    }
    printf("%d rounds, %" PRIu64 " loops, %" PRIu64 " operations\n", rounds, atomic_load(&loops),
           atomic_load(&operations));
    printf("%d passed, %d failed\n", failed == 0, failed != 0);
    return failed != 0;
}
