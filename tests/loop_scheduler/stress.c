/* SPDX-License-Identifier: MIT
 *
 * Threads do random things to a few loops, all that a caller may do. Others make these loops, run
 * them in one way or another, close and destroy them, again and again. There are posts of all
 * kinds, calls also from loop to loop, timers, work elsewhere, coroutines, and cancels of all of
 * it. There are start, stop, run, and close by several at once. Callbacks on the loops do the same
 * things.
 *
 * When a loop has come to its end the books are checked. Everything that was accepted had exactly
 * one outcome, on the loop's thread and not beside another one. Tasks ran in the order of their
 * posts, as far as any thread could tell. Nothing is left. Then its memory is overwritten and freed
 * at once, and that of tasks as soon as they run, so that a late touch is noticed.
 *
 *   stress [SECONDS] [SEED]
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* poll */
#endif
#include "../../loop_scheduler.h"
#include "../support.h"

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
static _Atomic(const char *) first_file;
static atomic_uint_least64_t operations, loops;

static void check_at(bool right, const char *file, int line)
{
    if (!right && atomic_fetch_add(&odd, 1) == 0) {
        atomic_store(&first_odd, line);
        atomic_store(&first_file, file);
    }
}
#define CHECK(right) check_at((right), __FILE__, __LINE__)

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

typedef struct member {
    int number;
    uint64_t random;
    plim_thread thread;
} member;

static member members[MOST_MEMBERS];

/* What one of the files below needs of another. */
static void act_inside(life *l, uint64_t random);
static void run_task(loop_scheduler_task *task, int status);
static void run_farewell(loop_scheduler_task *task, int status);
static void run_timer(loop_scheduler_timer *timer, int status);
static int do_work(void *arg);
static void work_then(loop_scheduler_work *work, int status);
static plim_thread_result run_errands(void *arg);
static int execute(void *ctx, void (*run)(void *), void *arg);
static void stroll(loop_scheduler_coroutine *co);
static void stroll_done(loop_scheduler_coroutine *co);
static void free_promise(promise *p);
static void await_promise(loop_scheduler_coroutine *co);
static void promise_done(loop_scheduler_coroutine *co);
static bool say_farewell(life *l);
static int run_somehow(life *l, run_mode mode, uint64_t random);
static void act(life *l, uint64_t random);
static plim_thread_result take_part(void *arg);
static plim_thread_result keep(void *arg);

static const plim_executor executor = {execute, NULL};

#include "stress_callbacks.c"
#include "stress_acts.c"
#include "stress_lives.c"

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)plim_now_();
    int64_t end = plim_now_() + (int64_t)(seconds * 1e9);
    uint64_t random = seed | 1;
    int rounds = 0, failed = 0;
    printf("loop_scheduler/stress: seed %" PRIu64 "\n", seed);
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
            printf("round %d, %d threads, %d loops: %d odd answers, the first one at %s:%d\n",
                   rounds, threads, slots_used, atomic_load(&odd), atomic_load(&first_file),
                   atomic_load(&first_odd));
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
