/* SPDX-License-Identifier: MIT
 *
 * loop_scheduler.h and what only a POSIX system has: signals, descriptors, the names and stacks of
 * threads, fork.
 *
 * TEST_SCALE and TEST_LONG in the environment change how long some tests run: see support.h.
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef PLIM_USE_PTHREADS
#define PLIM_USE_PTHREADS
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/epoll.h>
#include <sys/syscall.h>

/* Counts what the header asks of the system, for each thread. */
static _Thread_local int system_calls;
#define syscall(...) (system_calls++, syscall(__VA_ARGS__))
#endif

/* Writes to a descriptor, and lingers there if it is told to. */
static atomic_int writers, lingering_us;
static ssize_t write_slowly(int fd, const void *data, size_t size);
#define write(fd, data, size) write_slowly(fd, data, size)

#include "../../loop_scheduler.h"
#undef write
#include "../../semaphore.h"
#include "../support.h"
#include "../posix.h"
#include "../greatest.h"

static ssize_t write_slowly(int fd, const void *data, size_t size)
{
    atomic_fetch_add(&writers, 1);
    ssize_t written = write(fd, data, size);
    int saved = errno;
    if (atomic_load(&lingering_us) > 0) {
        rest(PLIM_US(atomic_load(&lingering_us))); /* others go on while it is in there */
    }
    errno = saved;
    atomic_fetch_sub(&writers, 1);
    return written;
}

#ifdef PLIM_PARK_CND
enum { HANDLERS_MAY_POST = 0 };
#else
enum { HANDLERS_MAY_POST = 1 };
#endif

static void count_task(loop_scheduler_task *task, int status)
{
    (void)status;
    atomic_fetch_add((atomic_int *)task->arg, 1);
}

static void count_timer(loop_scheduler_timer *timer, int status)
{
    atomic_fetch_add((atomic_int *)timer->arg, status == 0 ? 1 : 1000);
}

static int count_call(void *arg)
{
    return atomic_fetch_add((atomic_int *)arg, 1);
}

/* A slow program must not be kept from getting on by its alarms. */
static int often_us(int us)
{
    return is_slow() ? us : us / 4;
}

static void set_alarm(void (*handler)(int), int every_us)
{
    struct sigaction action;
    struct itimerval often = {{0, every_us}, {0, every_us}};
    memset(&action, 0, sizeof action);
    action.sa_handler = handler; /* without SA_RESTART: system calls fail with EINTR */
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

static void clear_alarm(void)
{
    struct sigaction action;
    struct itimerval off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &off, NULL);
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_IGN; /* the last one may come late */
    sigaction(SIGALRM, &action, NULL);
}

static atomic_int alarms;

/* What the handler posts, to which loop, and what became of it. */
enum { FLARES = 64 };
static struct {
    loop_scheduler *l;
    loop_scheduler_task tasks[FLARES];
    atomic_int next, accepted, refused, odd, ran;
    atomic_bool changed_errno;
    int stop_after; /* 0: never */
} flares;

static void on_alarm_post(int signal)
{
    (void)signal;
    int before = errno;
    int i = atomic_fetch_add(&flares.next, 1);
    int error = loop_scheduler_post(flares.l, &flares.tasks[i % FLARES]);
    atomic_fetch_add(error == 0                             ? &flares.accepted
                     : error == EALREADY || error == EAGAIN ? &flares.refused
                                                            : &flares.odd,
                     1);
    if (flares.stop_after > 0 && i >= flares.stop_after) {
        loop_scheduler_stop(flares.l);
    }
    if (errno != before) {
        atomic_store(&flares.changed_errno, true);
    }
}

static void flares_init(loop_scheduler *l, int stop_after)
{
    memset((void *)&flares, 0, sizeof flares);
    flares.l = l;
    flares.stop_after = stop_after;
    for (int i = 0; i < FLARES; i++) {
        flares.tasks[i] = (loop_scheduler_task){.run = count_task, .arg = &flares.ran};
    }
}

typedef struct again {
    loop_scheduler_task task;
    loop_scheduler *l;
    loop_scheduler_timer timer;
    atomic_int fired;
    int left, runs, wrong;
} again;

static void post_again(loop_scheduler_task *task, int status)
{
    again *a = task->arg;
    a->runs++;
    if (status == 0 && a->left-- > 0) {
        a->wrong += loop_scheduler_post(a->l, task) != 0;
        if (a->left % 8 == 0) {
            a->wrong += loop_scheduler_timer_start(a->l, &a->timer, 0, 0) != 0;
        }
    }
}

typedef struct gate {
    loop_scheduler_task task;
    csem entered, exit;
} gate;

static void hold(loop_scheduler_task *task, int status)
{
    gate *g = task->arg;
    (void)status;
    csem_release(&g->entered);
    csem_acquire_for(&g->exit, PLIM_S(PATIENCE_S));
}

/* The stage of a test: its loop, and what most tests give to it. Most loops run on threads of their
 * own, so nothing of this is on a stack. */
static struct stage {
    loop_scheduler l;
    bool alive; /* made, and not yet unmade */
    loop_scheduler_task tasks[20];
    loop_scheduler_timer timer;
    gate g;
    atomic_int ran, fired, called, worked; /* tasks; timers; calls; works */
    atomic_int ended;                      /* threads */
} on;

/* Like loop_scheduler_init and loop_scheduler_destroy. */
static int make(const loop_scheduler_options *options)
{
    int error = loop_scheduler_init(&on.l, options);
    on.alive = error == 0;
    return error;
}

static int unmake(void)
{
    int error = loop_scheduler_destroy(&on.l);
    on.alive = on.alive && error != 0;
    return error;
}

static void set_stage(void *data)
{
    (void)data;
    memset((void *)&on, 0, sizeof on);
    for (int i = 0; i < 20; i++) {
        on.tasks[i] = (loop_scheduler_task){.run = count_task, .arg = &on.ran};
    }
    on.timer = (loop_scheduler_timer){.run = count_timer, .arg = &on.fired};
    on.g = (gate){.task = {.run = hold, .arg = &on.g}};
    csem_init(&on.g.entered, 0);
    csem_init(&on.g.exit, 0);
}

/* If the test has ended well there is nothing to do. */
static void clear_stage(void *data)
{
    (void)data;
    clear_alarm();
    csem_release(&on.g.exit);
    if (on.alive && (loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)) != 0 ||
                     unmake() != 0)) {
        printf("\nA test has failed, and its loop cannot be closed.\n");
        fflush(stdout);
        abort(); /* its threads must not run on beside the next test */
    }
}

static greatest_test_res ends_well(loop_scheduler *l)
{
    ASSERT_INT(0, loop_scheduler_close(l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    loop_scheduler_stats s = loop_scheduler_snapshot(l);
    ASSERT(s.posted == s.ran + s.cancelled);
    ASSERT_INT(0, l == &on.l ? unmake() : loop_scheduler_destroy(l));
    PASS();
}

#define ASSERT_ENDS_WELL(l) CHECK_CALL(ends_well(l))

/* The last line of a test with the loop of the stage. */
#define ENDS_WELL() return ends_well(&on.l)

#include "posix_thread.c"
#include "posix_signals.c"
#include "posix_host.c"
#include "posix_fork.c"

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(own_thread_suite);
    RUN_SUITE(signals_suite);
    RUN_SUITE(embedding_suite);
    RUN_SUITE(fork_suite);
    GREATEST_MAIN_END();
}
