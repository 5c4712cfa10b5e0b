/* SPDX-License-Identifier: MIT
 *
 * loop_scheduler.h when threads, memory or descriptors run out, when a compare-exchange fails for
 * no reason, and when a task ends the thread that runs it. Also when signals come thick and fast:
 * in the middle of a sleep, and with a handler that posts. And that it allocates nothing.
 *
 * TEST_SCALE and TEST_LONG in the environment change how long some tests run: see support.h.
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../flaky_cas.h"
#include "../scarcity.h"

/* Something that happens once when a thread is about to be created, or refused. */
static _Atomic(deed) before_creating;

__attribute__((unused)) static int create_c11_late(thrd_t *t, int (*run)(void *), void *arg)
{
    do_once(&before_creating);
    return create_c11(t, run, arg);
}

__attribute__((unused)) static int create_posix_late(pthread_t *t, const pthread_attr_t *a,
                                                     void *(*run)(void *), void *arg)
{
    do_once(&before_creating);
    return create_posix(t, a, run, arg);
}

#undef thrd_create
#undef pthread_create
#define thrd_create create_c11_late
#define pthread_create create_posix_late

#include "../../loop_scheduler.h"
#include "../../semaphore.h"
#include "../support.h"
#include "../greatest.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

/* What was called how often, and on which thread last. */
typedef struct tally {
    atomic_int ran, told;
    atomic_uint_least64_t thread;
} tally;

static void note(tally *t, int status)
{
    atomic_fetch_add(status == 0 ? &t->ran : &t->told, 1);
    atomic_store(&t->thread, plim_thread_id_());
}

static void note_task(loop_scheduler_task *task, int status)
{
    note(task->arg, status);
}

static void note_timer(loop_scheduler_timer *timer, int status)
{
    note(timer->arg, status);
}

static void note_work(loop_scheduler_work *work, int status)
{
    note(work->arg, status);
}

static bool is_tally(tally *t, int ran, int told)
{
    return atomic_load(&t->ran) == ran && atomic_load(&t->told) == told;
}

static int five(void *arg)
{
    (void)arg;
    return 5;
}

static bool answers_calls(loop_scheduler *l)
{
    int result = 0;
    return loop_scheduler_call(l, five, NULL, &result) == 0 && result == 5;
}

/* The stage of a test: its loop, and what most tests give to it. The loop may have a thread of its
 * own, so nothing of this is on a stack. */
static struct stage {
    loop_scheduler l;
    bool alive; /* made, and not yet unmade */
    tally tasks, timers;
    loop_scheduler_task task;
    loop_scheduler_timer timer;
    csem gate; /* for one of its tasks */
} on;

static void init_loop(loop_scheduler *l, uint32_t max_queue)
{
    loop_scheduler_options options = {.max_queue = max_queue};
    plenty();
    if (loop_scheduler_init(l, &options) != 0) {
        fprintf(stderr, "cannot init\n");
        abort();
    }
    on.alive = on.alive || l == &on.l;
}

/* Like loop_scheduler_destroy. */
static int unmake(loop_scheduler *l)
{
    int error = loop_scheduler_destroy(l);
    on.alive = on.alive && (l != &on.l || error != 0);
    return error;
}

/* Ended, with nothing left behind. */
static bool comes_to_an_end(loop_scheduler *l)
{
    plenty();
    return loop_scheduler_close(l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)) == 0 &&
           unmake(l) == 0 && atomic_load(&blocks) == 0;
}

/* The last line of a test with the loop of the stage. */
#define ENDS() \
    do { \
        ASSERT(comes_to_an_end(&on.l)); \
        PASS(); \
    } while (0)

static void set_stage(void *data)
{
    (void)data;
    memset((void *)&on, 0, sizeof on);
    on.task = (loop_scheduler_task){.run = note_task, .arg = &on.tasks};
    on.timer = (loop_scheduler_timer){.run = note_timer, .arg = &on.timers};
    csem_init(&on.gate, 0);
    plenty();
}

/* If the test has ended well there is nothing to do. */
static void clear_stage(void *data)
{
    struct itimerval off = {{0, 0}, {0, 0}};
    (void)data;
    setitimer(ITIMER_REAL, &off, NULL);
    atomic_store(&fail_every, 0);
    while_allocating = once_created = before_creating = NULL;
    plenty();
    csem_release(&on.gate);
    if (on.alive && (loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)) != 0 ||
                     unmake(&on.l) != 0)) {
        printf("\nA test has failed, and its loop cannot be closed.\n");
        fflush(stdout);
        abort(); /* its threads must not run on beside the next test */
    }
}

/* Another thread that closes a loop. */
typedef struct closer {
    loop_scheduler *loop;
    int how, answer;
    plim_thread thread;
} closer;

static plim_thread_result close_loop(void *arg)
{
    closer *c = arg;
    c->answer = loop_scheduler_close(c->loop, c->how, PLIM_S(PATIENCE_S));
    return 0;
}

static bool has_closer(loop_scheduler *l)
{
    loop_scheduler_lock_(l);
    bool has = l->waiters_.first != NULL;
    loop_scheduler_unlock_(l);
    return has;
}

static void sleep_and_await(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_SLEEP(co, 1);
    LOOP_AWAIT(co, (loop_scheduler_event *)co->arg);
    LOOP_YIELD(co);
    LOOP_END(co);
}

static int run_at_once(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    run(arg);
    return 0;
}

/* What the task had posted before is not lost, in its order. */
typedef struct legacy {
    loop_scheduler *loop;
    loop_scheduler_task tasks[3];
    int order[3];
    int count, refused;
} legacy;

static void inherit(loop_scheduler_task *task, int status)
{
    legacy *of = task->arg;
    of->order[of->count++] = status != 0 ? -1 : (int)(task - of->tasks);
}

/* Without SA_RESTART: so a system call that sleeps ends with EINTR. */
static void on_signal(int number, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    if (sigaction(number, &action, NULL) != 0) {
        abort();
    }
}

#include "failures_scarcity.c"
#include "failures_ended.c"
#include "failures_cas.c"
#include "failures_sleeps.c"
#include "failures_handlers.c"

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(scarcity_suite);
    RUN_SUITE(ended_threads_suite);
    RUN_SUITE(compare_exchange_suite);
    RUN_SUITE(interrupted_sleeps_suite);
    RUN_SUITE(posting_handlers_suite);
    GREATEST_MAIN_END();
}
