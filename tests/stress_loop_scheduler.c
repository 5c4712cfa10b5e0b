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

/* The clock of the posts must not be what orders them for ThreadSanitizer, or it would see nothing
 * that is missing in the header. */
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

enum { MOST_MEMBERS = 4, MOST_SLOTS = 3, POOL = 2, LIVES = 4, ITEMS = 160, EVENTS = 3 };

/* Who posts: threads by their number, and what runs on the loop itself. The own threads of loops
 * have no number when they post to another one. */
enum { NOBODY, OWN, FIRST, PRODUCERS = FIRST + MOST_MEMBERS + 2 * MOST_SLOTS + POOL };
static _Thread_local int me;
static _Thread_local int level; /* how many callbacks are on this thread's stack */

typedef struct life life;

typedef enum kind { TASK, AGAIN, TIMER, WILD, WORK, COROUTINE, PROMISE } kind;

/* Something that was given to a loop. It is one of the loop's own, and may be cancelled by anybody,
 * or forgotten: in memory of its own, which is freed in its outcome. */
typedef struct item {
    union {
        loop_scheduler_task task;
        loop_scheduler_timer timer;
        loop_scheduler_work work;
        loop_scheduler_coroutine co;
    };
    life *in;
    kind kind;
    bool forgotten;
    bool retried; /* given to the loop again by its owner, whatever has become of it */
    uint64_t random;
    int producer; /* where it stands in line */
    uint64_t number, begin, end, position;
    struct item *follows;   /* in a list of posts */
    int64_t since, delay, period; /* of a timer */
    bool periodic;                /* of a wild one: was it ever? */
    int steps;                    /* of a coroutine, that are left */
    struct promise *promise;
    atomic_int open;     /* it was accepted: now it may be cancelled */
    atomic_int accepted; /* so often */
    atomic_int cancels;  /* that said yes */
    atomic_int ran, told, runs, ended;
} item;

/* A coroutine and the event that it awaits, in one block that is freed by the coroutine as soon as
 * it goes on: so whoever sets the event must not touch it after that. If the coroutine is cancelled
 * the last of both frees it. */
typedef struct promise {
    loop_scheduler_coroutine co;
    loop_scheduler_event event;
    item *of;
} promise;

enum { PENDING, KEPT, DROPPED, SET }; /* a promise's fate, in item.ended */

typedef struct slot {
    plim_mutex mutex;
    life *at;
    int index;
    uint64_t random;
    plim_thread thread;
} slot;

typedef enum mode { THREAD, RUN, UNTIL, ONCE, POLL_, DESCRIPTOR, MEMBERS, MODES } mode;

struct life {
    loop_scheduler loop;
    slot *home;
    mode mode;
    int users; /* under the slot's mutex */
    uint64_t random;
    bool drains; /* all who close it are patient: nothing is cancelled that nobody cancels */
    bool bounded;
    int target; /* operations */
    atomic_int operations, closing, descriptor;
    atomic_uint_least64_t holder;       /* the thread whose callbacks are on the stack */
    atomic_uint_least64_t tick, visits; /* */
    atomic_int refused, unclear; /* posts and calls; likewise, if that may count as one */
    atomic_int least;            /* posts that must be counted at least */
    atomic_int sent, ended;      /* forgotten ones */
    atomic_int fires;
    /* Touched on the loop only, without a lock: */
    int depth;
    uint64_t plain, position, seen[PRODUCERS];
    /* By the producer only: */
    uint64_t numbers[PRODUCERS];
    item *mine[PRODUCERS][3];
    atomic_int next;
    item items[ITEMS];
};

static slot slots[MOST_SLOTS];
static int slots_used;
static loop_scheduler_event events[EVENTS];
static atomic_int keepers_left;
static atomic_int odd, first_odd;
static atomic_uint_least64_t operations, lives;

static void check_at(bool right, int line)
{
    if (!right && atomic_fetch_add(&odd, 1) == 0) {
        atomic_store(&first_odd, line);
    }
}
#define CHECK(right) check_at((right), __LINE__)

static void count(atomic_int *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static uint64_t tick(life *l)
{
    return atomic_fetch_add_explicit(&l->tick, 1, TICK_ORDER) + 1;
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

/* The same for something that was offered to that loop: it may be closed only if somebody does so,
 * and not yet to its own tasks while it drains; and a circle takes a loop's thread. */
static bool may_answer(life *l, int error, int answers)
{
    if (error == ESHUTDOWN) {
        return atomic_load(&l->closing) != 0 &&
               !(l->drains && loop_scheduler_is_current(&l->loop));
    }
    return may_be(error, answers) && !(error == EDEADLK && level == 0);
}

/* ---- Visits: nobody destroys a loop that is visited ---- */

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

/* ---- What runs on a loop ---- */

static void come_in(life *l)
{
    uint64_t self = plim_thread_id_();
    uint64_t holder = atomic_load_explicit(&l->holder, memory_order_relaxed);
    CHECK(loop_scheduler_is_current(&l->loop));
    CHECK(holder == (l->depth == 0 ? 0 : self)); /* else another one is inside */
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

/* A place in line, and the look whether it was kept. */
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

static void note_outcome(item *it, int status)
{
    CHECK(status == 0 || status == ECANCELED);
    count(status == 0 ? &it->ran : &it->told);
}

/* Gives the memory of a forgotten one back: nobody may touch it now. */
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
    uint64_t random = it->random;
    come_in(l);
    check_line(l, it->producer, it->number);
    note_outcome(it, status);
    it->position = ++l->position;
    if (random % 8 == 0) {
        loop_scheduler_task *stalled = NULL;
        CHECK(loop_scheduler_stall(&l->loop, &stalled, NULL) == 0 && stalled == task);
    }
    if (it->kind == AGAIN && !it->retried && it->steps-- > 0) {
        stand_in_line(l, &it->producer, &it->number);
        int error = loop_scheduler_post(&l->loop, task);
        CHECK(may_answer(l, error, FULL));
        count(error == 0 ? &it->accepted : &l->refused);
    } else {
        forget(it);
    }
    act(l, random >> 8);
    go_out(l);
}

/* Its poster has handed the loop over to it. */
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
    uint64_t random = it->random;
    come_in(l);
    if (it->kind == TIMER) {
        int64_t fired = atomic_load_explicit(&it->ran, memory_order_relaxed);
        CHECK(atomic_load_explicit(&it->told, memory_order_relaxed) == 0);
        CHECK(status != 0 || plim_now_() >= it->since + it->delay + fired * it->period);
    }
    note_outcome(it, status);
    if (status == 0) {
        count(&l->fires);
    }
    if (it->kind == WILD) {
        if (status != 0 && random % 4 == 0) {
            int error = loop_scheduler_timer_start(&l->loop, timer, it->delay, 0);
            CHECK(may_be(error, CLOSED));
            atomic_fetch_add(&it->accepted, error == 0);
        }
    } else if (status != 0 || it->period == 0) {
        forget(it);
    } else if (it->forgotten && fired_enough(it)) {
        int error = loop_scheduler_timer_cancel(&l->loop, timer);
        CHECK(error == 0 || (error == ENOENT && atomic_load(&l->closing) != 0));
    }
    act(l, random >> 8);
    go_out(l);
}
