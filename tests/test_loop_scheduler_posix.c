/* SPDX-License-Identifier: MIT
 *
 * loop_scheduler.h and what only a POSIX system has: signals, descriptors, the names of threads.
 *
 * The environment variable TEST_SCALE=n makes the long loops n times shorter (valgrind).
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

#include "../loop_scheduler.h"
#undef write
#include "../semaphore.h"
#include "support.h"
#include "greatest.h"

static ssize_t write_slowly(int fd, const void *data, size_t size)
{
    atomic_fetch_add(&writers, 1);
    ssize_t written = write(fd, data, size);
    int saved = errno;
    if (atomic_load(&lingering_us) > 0) {
        rest(PLIM_US(atomic_load(&lingering_us)));
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

enum { LONG_S = 2 }; /* a long loop ends early after this, where others want the CPU as well */

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

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static greatest_test_res ends_well(loop_scheduler *l)
{
    ASSERT_INT(0, loop_scheduler_close(l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    loop_scheduler_stats s = loop_scheduler_snapshot(l);
    ASSERT(s.posted == s.ran + s.cancelled);
    ASSERT_INT(0, loop_scheduler_destroy(l));
    PASS();
}

#define ASSERT_ENDS_WELL(l) CHECK_CALL(ends_well(l))

/* ---- the loop's own thread ---- */

typedef struct look {
    char name[32];
    int blocked[NSIG]; /* 1 blocked, 0 not, -1 unknown signal */
} look;

static int look_around(void *arg)
{
    look *seen = arg;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int s = 1; s < NSIG; s++) {
        seen->blocked[s] = sigismember(&mask, s);
    }
#ifdef __linux__
    pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
#endif
    return 0;
}

static look look_from_a_call(const char *name)
{
    loop_scheduler l;
    loop_scheduler_options options = {.name = name};
    look seen;
    memset(&seen, 0, sizeof seen);
    loop_scheduler_init(&l, &options);
    loop_scheduler_start(&l);
    loop_scheduler_call(&l, look_around, &seen, NULL);
    loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER);
    loop_scheduler_destroy(&l);
    return seen;
}

TEST its_thread_carries_its_name(const char *name, const char *expected)
{
#ifdef __linux__
    look seen = look_from_a_call(name);
    ASSERT_STR_EQ(expected, seen.name);
    PASS();
#else
    (void)name, (void)expected;
    SKIPm("names of threads are read on Linux only");
#endif
}

TEST its_thread_blocks_all_signals_but_faults(void)
{
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    look seen = look_from_a_call(NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    ASSERT_INT(0, seen.blocked[SIGSEGV]);
    ASSERT_INT(0, seen.blocked[SIGBUS]);
    ASSERT_INT(0, seen.blocked[SIGFPE]);
    ASSERT_INT(0, seen.blocked[SIGILL]);
    ASSERT_INT(1, seen.blocked[SIGINT]);
    ASSERT_INT(1, seen.blocked[SIGTERM]);
    ASSERT_INT(1, seen.blocked[SIGCHLD]);
    ASSERT_INT(1, seen.blocked[SIGALRM]);
    for (int s = 1; s < NSIG; s++) { /* ours are as they were */
        ASSERT_INT(sigismember(&before, s), sigismember(&after, s));
    }
    PASS();
}

TEST a_thread_that_runs_a_loop_keeps_its_signals(void)
{
    loop_scheduler l;
    sigset_t before, after;
    ASSERT_INT(0, loop_scheduler_init(&l, NULL));
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&l, PLIM_MS(1)));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < NSIG; s++) {
        ASSERT_INT(sigismember(&before, s), sigismember(&after, s));
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static pthread_key_t of_the_thread;

static void say_good_bye(void *arg)
{
    rest(PLIM_MS(20)); /* its thread has not ended before this */
    atomic_fetch_add((atomic_int *)arg, 1);
}

static int stay_in_mind(void *arg)
{
    return pthread_setspecific(of_the_thread, arg);
}

TEST its_thread_has_ended_when_close_or_the_next_start_returns(bool closes)
{
    loop_scheduler l;
    atomic_int ended = 0;
    int result = -1;
    ASSERT_INT(0, pthread_key_create(&of_the_thread, say_good_bye));
    ASSERT_INT(0, loop_scheduler_init(&l, NULL));
    ASSERT_INT(0, loop_scheduler_start(&l));
    ASSERT_INT(0, loop_scheduler_call(&l, stay_in_mind, &ended, &result));
    ASSERT_INT(0, result);
    if (closes) {
        ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    } else {
        loop_scheduler_stop(&l);
        ASSERT_INT(0, loop_scheduler_start(&l));
    }
    ASSERT_INT(1, atomic_load(&ended));
    ASSERT_ENDS_WELL(&l);
    pthread_key_delete(of_the_thread);
    PASS();
}

TEST start_says_when_there_is_no_thread(void)
{
#if defined(__GLIBC__)
    if (SLOWER > 1) {
        SKIPm("the sanitizers give threads stacks of their own");
    }
    loop_scheduler l;
    pthread_attr_t usual, huge;
    atomic_int ran = 0;
    loop_scheduler_task task = {.run = count_task, .arg = &ran};
    ASSERT_INT(0, pthread_getattr_default_np(&usual));
    ASSERT_INT(0, pthread_getattr_default_np(&huge));
    ASSERT_INT(0, pthread_attr_setstacksize(&huge, SIZE_MAX / 4 / 65536 * 65536));
    ASSERT_INT(0, loop_scheduler_init(&l, NULL));
    ASSERT_INT(0, loop_scheduler_post(&l, &task));
    ASSERT_INT(0, pthread_setattr_default_np(&huge));
    int error = loop_scheduler_start(&l);
    ASSERT_INT(0, pthread_setattr_default_np(&usual));
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&huge);
    if (error == 0 || error == EINVAL) {
        ASSERT_ENDS_WELL(&l);
        SKIPm("such a stack is no question of memory here, as under valgrind");
    }
    ASSERT(error == EAGAIN || error == ENOMEM);
    ASSERT_INT(0, atomic_load(&ran));
    ASSERT_INT(0, loop_scheduler_start(&l)); /* nothing has changed */
    ASSERT(EVENTUALLY(atomic_load(&ran) == 1));
    ASSERT_ENDS_WELL(&l);
    PASS();
#else
    SKIPm("the stacks of threads are made too large with glibc only");
#endif
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

TEST posts_make_a_system_call_only_if_the_loop_sleeps(bool bounded)
{
#if defined(__linux__) && !defined(PLIM_PARK_CND)
    enum { N = 20 };
    loop_scheduler l;
    loop_scheduler_options options = {.max_queue = bounded ? N + 1 : 0};
    loop_scheduler_task tasks[N];
    atomic_int ran = 0;
    gate g = {.task = {.run = hold, .arg = &g}};
    csem_init(&g.entered, 0);
    csem_init(&g.exit, 0);
    memset((void *)tasks, 0, sizeof tasks);
    ASSERT_INT(0, loop_scheduler_init(&l, &options));
    ASSERT_INT(0, loop_scheduler_start(&l));
    int woken = 0, expected = 0;
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    for (int round = 0; woken < 20; round++) {
        ASSERT(plim_now_() < give_up);
        uint64_t wakes = loop_scheduler_snapshot(&l).wakes;
        int before = system_calls;
        ASSERT_INT(0, loop_scheduler_post(&l, &g.task));
        int made = system_calls - before;
        ASSERT(made <= 1);
        ASSERT_INT(0, csem_acquire_for(&g.entered, PLIM_S(PATIENCE_S)));
        ASSERT_INT(made, loop_scheduler_snapshot(&l).wakes - wakes);
        woken += made;
        before = system_calls;
        for (int i = 0; i < N; i++) { /* it is awake */
            tasks[i].run = count_task;
            tasks[i].arg = &ran;
            ASSERT_INT(0, loop_scheduler_post(&l, &tasks[i]));
        }
        ASSERT_INT(before, system_calls);
        expected += N;
        csem_release(&g.exit);
        ASSERT(EVENTUALLY(atomic_load(&ran) == expected));
        rest(PLIM_US(100 * (1 + round % 10))); /* time to fall asleep */
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
#else
    (void)bounded, (void)hold;
    SKIPm("calls of futex are counted");
#endif
}

/* ---- signals ---- */

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

static void on_alarm(int signal)
{
    (void)signal;
    atomic_fetch_add(&alarms, 1);
}

TEST signals_end_no_wait(void)
{
    loop_scheduler l;
    loop_scheduler_options options = {.max_queue = 1};
    atomic_int ran = 0, called = 0, fired = 0;
    loop_scheduler_task tasks[2] = {{.run = count_task, .arg = &ran},
                                    {.run = count_task, .arg = &ran}};
    loop_scheduler_timer timer = {.run = count_timer, .arg = &fired};
    int unused;
    ASSERT_INT(0, loop_scheduler_init(&l, &options));
    atomic_store(&alarms, 0);
    set_alarm(on_alarm, 200);
    int64_t from = plim_now_();
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&l, PLIM_MS(10)));
    ASSERT(plim_now_() - from >= PLIM_MS(10));
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_until(&l, never, NULL, PLIM_MS(10)));
    ASSERT(plim_now_() - from >= PLIM_MS(20));
    ASSERT_INT(0, loop_scheduler_timer_start(&l, &timer, PLIM_MS(10), 0));
    ASSERT_INT(0, loop_scheduler_run_once(&l, PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, atomic_load(&fired));
    ASSERT(plim_now_() - from >= PLIM_MS(30));
    ASSERT_INT(0, loop_scheduler_post(&l, &tasks[0]));
    ASSERT_INT(ETIMEDOUT, loop_scheduler_post_for(&l, &tasks[1], PLIM_MS(10)));
    ASSERT(plim_now_() - from >= PLIM_MS(40));
    ASSERT_INT(ETIMEDOUT, loop_scheduler_call_for(&l, count_call, &called, &unused, PLIM_MS(10)));
    ASSERT(plim_now_() - from >= PLIM_MS(50));
    ASSERT_INT(0, loop_scheduler_start(&l));
    for (int i = 0; i < 2000; i++) {
        ASSERT_INT(0, loop_scheduler_call(&l, count_call, &called, &unused));
        ASSERT_INT(i, unused);
    }
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    clear_alarm();
    ASSERT_INT(1, atomic_load(&ran));
    ASSERT(atomic_load(&alarms) > 0);
    ASSERT_INT(0, loop_scheduler_destroy(&l));
    PASS();
}

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

TEST a_handler_may_post_whatever_it_interrupts(uint32_t limit)
{
    if (!HANDLERS_MAY_POST) {
        SKIPm("not with PLIM_PARK_CND");
    }
    enum { N = 16 };
    loop_scheduler l;
    loop_scheduler_options options = {.max_queue = limit};
    loop_scheduler_task tasks[N];
    loop_scheduler_timer timer;
    atomic_int ran = 0, fired = 0, called = 0;
    int accepted = 0, wrong = 0, rounds = scaled(200000);
    ASSERT_INT(0, loop_scheduler_init(&l, &options));
    ASSERT_INT(0, loop_scheduler_start(&l));
    memset((void *)tasks, 0, sizeof tasks);
    for (int i = 0; i < N; i++) {
        tasks[i].run = count_task;
        tasks[i].arg = &ran;
    }
    timer = (loop_scheduler_timer){.run = count_timer, .arg = &fired};
    flares_init(&l, 0);
    set_alarm(on_alarm_post, 100);
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    for (int i = 0; i < rounds && plim_now_() < end; i++) {
        loop_scheduler_task *task = &tasks[i % N];
        int error = loop_scheduler_post(&l, task);
        accepted += error == 0;
        wrong += error != 0 && error != EALREADY && error != EAGAIN;
        switch (i % 64) {
        case 0:
            wrong += loop_scheduler_call(&l, count_call, &called, NULL) != 0;
            break;
        case 8:
            wrong += loop_scheduler_timer_start(&l, &timer, PLIM_US(20), 0) != 0;
            break;
        case 16:
            loop_scheduler_timer_cancel(&l, &timer);
            break;
        case 24:
            loop_scheduler_snapshot(&l);
            break;
        case 32:
            loop_scheduler_cancel(&l, task);
            break;
        default:
            break;
        }
    }
    clear_alarm();
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, wrong);
    ASSERT_INT(0, atomic_load(&flares.odd));
    ASSERT(atomic_load(&flares.accepted) > 0);
    ASSERT_INT(atomic_load(&flares.accepted), atomic_load(&flares.ran));
    ASSERT_INT(accepted, atomic_load(&ran));
    ASSERT_FALSE(atomic_load(&flares.changed_errno));
    ASSERT_ENDS_WELL(&l);
    PASS();
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

/* The handler runs on the thread that runs the loop, between two of its steps. */
TEST a_handler_may_post_and_stop_on_the_thread_that_runs_the_loop(bool busy)
{
    if (!HANDLERS_MAY_POST) {
        SKIPm("not with PLIM_PARK_CND");
    }
    loop_scheduler l;
    again a;
    int stops = 0;
    ASSERT_INT(0, loop_scheduler_init(&l, NULL));
    memset((void *)&a, 0, sizeof a);
    a.task.run = post_again;
    a.task.arg = &a;
    a.timer.run = count_timer;
    a.timer.arg = &a.fired;
    a.l = &l;
    a.left = busy ? 1 << 30 : 0;
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    ASSERT_INT(0, loop_scheduler_post(&l, &a.task));
    for (; stops < scaled(400) && plim_now_() < end; stops++) {
        flares_init(&l, 3);
        set_alarm(on_alarm_post, 100);
        int error = loop_scheduler_run(&l);
        clear_alarm();
        ASSERT_INT(0, error);
        /* What is left runs; and a stop that came late ends the next one. */
        int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
        while (atomic_load(&flares.ran) < atomic_load(&flares.accepted) && plim_now_() < give_up) {
            loop_scheduler_run_once(&l, 0);
        }
        ASSERT_INT(atomic_load(&flares.accepted), atomic_load(&flares.ran));
        ASSERT_INT(0, atomic_load(&flares.odd));
        ASSERT_FALSE(atomic_load(&flares.changed_errno));
    }
    ASSERT(stops > 0);
    a.left = 0;
    ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, a.wrong);
    ASSERT(!busy || a.runs > stops);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static atomic_bool rung;
static loop_scheduler *to_be_stopped;

static void on_alarm_stop(int signal)
{
    (void)signal;
    atomic_store(&rung, true);
    loop_scheduler_stop(to_be_stopped);
}

TEST a_handler_may_stop_a_loop_that_sleeps(void)
{
    if (!HANDLERS_MAY_POST) {
        SKIPm("not with PLIM_PARK_CND");
    }
    loop_scheduler l;
    ASSERT_INT(0, loop_scheduler_init(&l, NULL));
    to_be_stopped = &l;
    atomic_store(&rung, false);
    set_alarm(on_alarm_stop, 20000);
    int error = loop_scheduler_run_until(&l, never, NULL, PLIM_S(PATIENCE_S));
    clear_alarm();
    ASSERT_INT(ECANCELED, error);
    ASSERT(atomic_load(&rung));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* ---- living inside somebody else's event loop ---- */

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd waits = {.fd = fd, .events = POLLIN};
    int n;
    do {
        n = poll(&waits, 1, timeout_ms);
    } while (n < 0 && errno == EINTR);
    return n == 1 && (waits.revents & POLLIN) != 0;
}

TEST the_descriptor_is_readable_while_there_is_something_to_do(void)
{
    loop_scheduler l;
    atomic_int ran = 0;
    loop_scheduler_task tasks[3];
    memset((void *)tasks, 0, sizeof tasks);
    ASSERT_INT(0, loop_scheduler_init(&l, NULL));
    for (int i = 0; i < 3; i++) {
        tasks[i].run = count_task;
        tasks[i].arg = &ran;
    }
    ASSERT_INT(0, loop_scheduler_post(&l, &tasks[0])); /* before anybody asks for it */
    int fd = loop_scheduler_fd(&l);
    ASSERT(fd >= 0);
    ASSERT_INT(fd, loop_scheduler_fd(&l));
    ASSERT(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_FALSE(is_readable(fd, 0));
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&l));
    ASSERT_FALSE(is_readable(fd, 0));
    for (int i = 1; i <= 100; i++) {
        for (int j = 0; j < 3; j++) {
            ASSERT_INT(0, loop_scheduler_post(&l, &tasks[j]));
        }
        ASSERT(is_readable(fd, 0));
        ASSERT(loop_scheduler_snapshot(&l).wakes <= (uint64_t)i); /* the first post, no other */
        ASSERT(is_readable(fd, 0));
        ASSERT_INT(0, loop_scheduler_poll(&l));
        ASSERT_FALSE(is_readable(fd, 0));
    }
    ASSERT_INT(301, atomic_load(&ran));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static int execute_here(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    run(arg);
    return 0;
}

static void await_event(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, (loop_scheduler_event *)co->arg);
    LOOP_END(co);
}

static plim_thread_result call_it(void *arg)
{
    loop_scheduler_call((loop_scheduler *)arg, count_call, &alarms, NULL);
    return 0;
}

TEST whatever_there_is_to_do_makes_the_descriptor_readable(void)
{
    loop_scheduler l;
    atomic_int fired = 0, worked = 0;
    loop_scheduler_timer timer = {.run = count_timer, .arg = &fired};
    loop_scheduler_work work = {.work = count_call, .arg = &worked};
    loop_scheduler_event event;
    plim_executor on_the_spot = {execute_here, NULL};
    plim_thread thread;
    memset((void *)&event, 0, sizeof event);
    loop_scheduler_coroutine co = {.run = await_event, .arg = &event};
    ASSERT_INT(0, loop_scheduler_init(&l, NULL));
    int fd = loop_scheduler_fd(&l);
    ASSERT(fd >= 0);
    ASSERT_FALSE(is_readable(fd, 0));

    ASSERT_INT(0, loop_scheduler_timer_start(&l, &timer, 0, 0));
    ASSERT(is_readable(fd, 0) || loop_scheduler_next_timeout(&l) == 0);
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_FALSE(is_readable(fd, 0));

    ASSERT_INT(0, loop_scheduler_timer_start(&l, &timer, PLIM_S(3600), 0));
    loop_scheduler_poll(&l);
    ASSERT_FALSE(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_timer_cancel(&l, &timer));
    ASSERT(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_FALSE(is_readable(fd, 0));

    ASSERT_INT(0, loop_scheduler_offload(&l, &on_the_spot, &work));
    ASSERT(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_FALSE(is_readable(fd, 0));

    ASSERT_INT(0, loop_scheduler_spawn(&l, &co));
    ASSERT(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_FALSE(is_readable(fd, 0));
    loop_scheduler_event_set(&event);
    ASSERT(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_FALSE(is_readable(fd, 0));

    start(&thread, call_it, &l);
    bool readable = is_readable(fd, PATIENCE_S * 1000);
    int error = loop_scheduler_poll(&l);
    if (error == 0) {
        join(thread);
    }
    ASSERT(readable);
    ASSERT_INT(0, error);
    ASSERT_FALSE(is_readable(fd, 0));
    ASSERT_INT(1001, atomic_load(&fired));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* What a turn leaves for the next one, too. */
TEST the_descriptor_stays_readable_while_a_turn_leaves_something(void)
{
    loop_scheduler l;
    again a;
    memset((void *)&a, 0, sizeof a);
    a.task.run = post_again;
    a.task.arg = &a;
    a.timer.run = count_timer;
    a.timer.arg = &a.fired;
    a.l = &l;
    a.left = 3;
    ASSERT_INT(0, loop_scheduler_init(&l, NULL));
    int fd = loop_scheduler_fd(&l);
    ASSERT_INT(0, loop_scheduler_post(&l, &a.task));
    for (int i = 1; i <= 4; i++) {
        ASSERT(is_readable(fd, 0) || loop_scheduler_next_timeout(&l) == 0);
        ASSERT_INT(0, loop_scheduler_poll(&l));
        ASSERT_INT(i, a.runs);
    }
    while (loop_scheduler_poll(&l) == 0) {} /* the timer */
    ASSERT_FALSE(is_readable(fd, 0));
    ASSERT(loop_scheduler_next_timeout(&l) == PLIM_FOREVER);
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* Posts, and starts timers, while another thread waits on the descriptor as hosts do. */
typedef struct guest {
    loop_scheduler l;
    loop_scheduler_task tasks[8];
    loop_scheduler_timer timers[8];
    atomic_int ran, fired, accepted, started, early;
    int rounds;
    atomic_bool over;
} guest;

static plim_thread_result disturb(void *arg)
{
    guest *g = arg;
    uint64_t random = 4;
    for (int i = 0; i < g->rounds; i++) {
        if (loop_scheduler_post(&g->l, &g->tasks[i % 8]) == 0) {
            atomic_fetch_add(&g->accepted, 1);
        }
        if (i % 16 == 0) {
            int64_t delay_ns = (int64_t)(next_random(&random) % 300000);
            atomic_fetch_add(&g->started, 1);
            loop_scheduler_timer_start(&g->l, &g->timers[0], delay_ns, 0);
            while (atomic_load(&g->fired) < atomic_load(&g->started)) {
                plim_thread_yield_(); /* the host must come in time by itself */
            }
        }
        dawdle(next_random(&random));
    }
    atomic_store(&g->over, true);
    return 0;
}

static int wait_as_hosts_do(int waiter, int fd, int64_t timeout_ns)
{
    int64_t ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
    int timeout_ms = ms > 1000 ? 1000 : (int)ms; /* to see that it is over */
#ifdef __linux__
    struct epoll_event event;
    (void)fd;
    return epoll_wait(waiter, &event, 1, timeout_ms);
#else
    (void)waiter;
    return is_readable(fd, timeout_ms);
#endif
}

TEST a_loop_lives_inside_another_event_loop(void)
{
    static guest g;
    plim_thread thread;
    memset((void *)&g, 0, sizeof g);
    ASSERT_INT(0, loop_scheduler_init(&g.l, NULL));
    for (int i = 0; i < 8; i++) {
        g.tasks[i].run = count_task;
        g.tasks[i].arg = &g.ran;
        g.timers[i].run = count_timer;
        g.timers[i].arg = &g.fired;
    }
    g.rounds = scaled(10000);
    int fd = loop_scheduler_fd(&g.l), waiter = -1;
    ASSERT(fd >= 0);
#ifdef __linux__
    struct epoll_event event = {.events = EPOLLIN};
    waiter = epoll_create1(EPOLL_CLOEXEC);
    ASSERT(waiter >= 0);
    ASSERT_INT(0, epoll_ctl(waiter, EPOLL_CTL_ADD, fd, &event));
#endif
    start(&thread, disturb, &g);
    int64_t give_up = plim_now_() + PLIM_S(4 * PATIENCE_S), slow = 0;
    while (!atomic_load(&g.over) && plim_now_() < give_up) {
        int64_t timeout_ns = loop_scheduler_next_timeout(&g.l);
        int64_t from = plim_now_();
        wait_as_hosts_do(waiter, fd, timeout_ns);
        slow += plim_now_() - from > PLIM_MS(900); /* only if nobody has posted */
        while (loop_scheduler_poll(&g.l) == 0) {}
    }
    bool over = atomic_load(&g.over);
    if (over) {
        join(thread);
    }
    ASSERT(over);
    while (loop_scheduler_poll(&g.l) == 0) {}
    ASSERT_INT(atomic_load(&g.accepted), atomic_load(&g.ran));
    ASSERT_INT(atomic_load(&g.started), atomic_load(&g.fired));
    ASSERT(slow <= 2); /* a lost wake-up costs a second each */
    ASSERT(loop_scheduler_snapshot(&g.l).wakes <=
           (uint64_t)atomic_load(&g.accepted) + 2 * (uint64_t)atomic_load(&g.started));
    if (waiter >= 0) {
        close(waiter);
    }
    ASSERT_ENDS_WELL(&g.l);
    PASS();
}

TEST a_loop_with_a_descriptor_may_also_run_by_itself(void)
{
    loop_scheduler l;
    atomic_int ran = 0, called = 0;
    loop_scheduler_task task = {.run = count_task, .arg = &ran};
    ASSERT_INT(0, loop_scheduler_init(&l, NULL));
    int fd = loop_scheduler_fd(&l);
    for (int i = 1; i <= 20; i++) {
        ASSERT_INT(0, loop_scheduler_start(&l));
        for (int j = 0; j < 20; j++) {
            ASSERT_INT(0,
                       loop_scheduler_call_for(&l, count_call, &called, NULL, PLIM_S(PATIENCE_S)));
            rest(PLIM_US(10 * j)); /* sometimes it sleeps */
        }
        loop_scheduler_stop(&l);
        ASSERT(EVENTUALLY(loop_scheduler_poll(&l) == EAGAIN));
        ASSERT_FALSE(is_readable(fd, 0));
        ASSERT_INT(0, loop_scheduler_post(&l, &task));
        ASSERT(is_readable(fd, 0));
        ASSERT_INT(0, loop_scheduler_poll(&l));
        ASSERT_INT(i, atomic_load(&ran));
        ASSERT_FALSE(is_readable(fd, 0));
        ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&l, PLIM_US(100)));
    }
    ASSERT_ENDS_WELL(&l);
    PASS();
}

static int lowest_descriptor(void)
{
    int fd = dup(STDERR_FILENO);
    close(fd);
    return fd;
}

TEST the_descriptor_goes_with_the_loop(void)
{
    loop_scheduler l;
    int before = lowest_descriptor();
    for (int i = 0; i < 100; i++) {
        ASSERT_INT(0, loop_scheduler_init(&l, NULL));
        ASSERT_INT(before, lowest_descriptor()); /* it has none until asked for */
        int fd = loop_scheduler_fd(&l);
        ASSERT(fd >= 0);
        ASSERT(fcntl(fd, F_GETFD) != -1);
        if (i % 2 == 0) {
            ASSERT_INT(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)));
        }
        ASSERT_INT(0, loop_scheduler_destroy(&l));
        ASSERT_INT(-1, fcntl(fd, F_GETFD));
        ASSERT_INT(before, lowest_descriptor());
    }
    PASS();
}

TEST without_a_descriptor_to_be_had_there_is_none(void)
{
    loop_scheduler l;
    struct rlimit usual, none;
    atomic_int ran = 0;
    loop_scheduler_task task = {.run = count_task, .arg = &ran};
    ASSERT_INT(0, loop_scheduler_init(&l, NULL));
    ASSERT_INT(0, getrlimit(RLIMIT_NOFILE, &usual));
    none = usual;
    none.rlim_cur = (rlim_t)lowest_descriptor();
    ASSERT_INT(0, setrlimit(RLIMIT_NOFILE, &none));
    errno = 4711;
    int fd = loop_scheduler_fd(&l), kept = errno;
    ASSERT_INT(0, setrlimit(RLIMIT_NOFILE, &usual));
    ASSERT_INT(-1, fd);
    ASSERT_INT(4711, kept);
    ASSERT_INT(0, loop_scheduler_post(&l, &task)); /* it works without */
    ASSERT_INT(0, loop_scheduler_poll(&l));
    ASSERT_INT(1, atomic_load(&ran));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* A host that ends its loop as soon as a task says so, while the poster may still be inside. */
typedef struct host {
    _Atomic(loop_scheduler *) l;
    csem ready;
    int destroyed;
    bool rung, waited, alone;
} host;

static void end_host(loop_scheduler_task *task, int status)
{
    (void)status;
    ((host *)task->arg)->rung = true;
}

static plim_thread_result be_host(void *arg)
{
    host *h = arg;
    loop_scheduler *l = malloc(sizeof *l);
    if (l == NULL || loop_scheduler_init(l, NULL) != 0) {
        abort();
    }
    int fd = loop_scheduler_fd(l);
    loop_scheduler_poll(l);
    atomic_store(&h->l, l);
    csem_release(&h->ready);
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    while (!h->rung && plim_now_() < give_up) {
        h->waited = is_readable(fd, 1000) || h->waited;
        loop_scheduler_poll(l);
    }
    h->destroyed = loop_scheduler_destroy(l);
    h->alone = atomic_load(&writers) == 0; /* nobody writes to what may be another file now */
    memset((void *)l, 0xa5, sizeof *l);
    free(l);
    return 0;
}

TEST a_host_may_free_the_loop_before_post_has_returned(void)
{
    uint64_t random = 6;
    int64_t end = plim_now_() + PLIM_S(LONG_S);
    int before = lowest_descriptor();
    for (int round = scaled(2000); round > 0 && plim_now_() < end; round--) {
        host h = {.l = NULL};
        plim_thread thread;
        csem_init(&h.ready, 0);
        loop_scheduler_task task = {.run = end_host, .arg = &h};
        start(&thread, be_host, &h);
        ASSERT_INT(0, csem_acquire_for(&h.ready, PLIM_S(PATIENCE_S)));
        dawdle(next_random(&random));
        atomic_store(&lingering_us, round % 4 == 0 ? 300 : 0);
        int error = loop_scheduler_post(atomic_load(&h.l), &task);
        atomic_store(&lingering_us, 0);
        join(thread);
        ASSERT_INT(0, error);
        ASSERT(h.alone);
        ASSERT(h.rung);
        ASSERT(h.waited);
        ASSERT_INT(0, h.destroyed);
        ASSERT_INT(before, lowest_descriptor());
    }
    PASS();
}

TEST a_handler_may_post_to_a_loop_with_a_descriptor(void)
{
    if (!HANDLERS_MAY_POST) {
        SKIPm("not with PLIM_PARK_CND");
    }
    loop_scheduler l;
    ASSERT_INT(0, loop_scheduler_init(&l, NULL));
    int fd = loop_scheduler_fd(&l);
    flares_init(&l, 0);
    set_alarm(on_alarm_post, 200);
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    while (atomic_load(&flares.ran) < scaled(2000) && plim_now_() < give_up) {
        struct pollfd waits = {.fd = fd, .events = POLLIN};
        poll(&waits, 1, 1000); /* mostly ended by the signal itself */
        loop_scheduler_poll(&l);
    }
    clear_alarm();
    loop_scheduler_poll(&l);
    ASSERT(atomic_load(&flares.ran) >= scaled(2000));
    ASSERT_INT(atomic_load(&flares.accepted), atomic_load(&flares.ran));
    ASSERT_INT(0, atomic_load(&flares.odd));
    ASSERT_FALSE(atomic_load(&flares.changed_errno));
    ASSERT_ENDS_WELL(&l);
    PASS();
}

/* A thread that has left its loop, but takes long to end: a destructor of its own holds it up. */
static pthread_key_t at_end;
static csem end_began, may_end;

static void end_slowly(void *unused)
{
    (void)unused;
    csem_release(&end_began);
    csem_acquire_for(&may_end, PLIM_S(PATIENCE_S));
}

static int have_a_slow_end(void *arg)
{
    return pthread_setspecific(at_end, arg);
}

static int start_it(void *arg)
{
    return loop_scheduler_start(arg);
}

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

typedef struct pair_of_loops {
    loop_scheduler starter, other;
    int error, result; /* of the call that starts the other */
    int told;          /* what the other's task is told when it calls the starter */
} pair_of_loops;

static plim_thread_result call_start(void *arg)
{
    pair_of_loops *p = arg;
    p->error = loop_scheduler_call(&p->starter, start_it, &p->other, &p->result);
    return 0;
}

static plim_thread_result run_other(void *arg)
{
    pair_of_loops *p = arg;
    loop_scheduler_run(&p->other);
    return 0;
}

static void call_starter(loop_scheduler_task *task, int status)
{
    pair_of_loops *p = task->arg;
    p->told = status == 0
                  ? loop_scheduler_call_for(&p->starter, do_nothing, NULL, NULL, PLIM_S(PATIENCE_S))
                  : -1;
    loop_scheduler_stop(&p->other);
}

/* The starter waits for the end of the old thread, and the other loop, which a third thread runs by
 * then, for the starter: that is no circle. */
TEST who_waits_for_a_thread_that_has_left_a_loop_does_not_wait_for_the_loop(void)
{
    static pair_of_loops p;
    plim_thread starts, runs;
    csem_init(&end_began, 0);
    csem_init(&may_end, 0);
    ASSERT_INT(0, pthread_key_create(&at_end, end_slowly));
    ASSERT_INT(0, loop_scheduler_init(&p.starter, NULL));
    ASSERT_INT(0, loop_scheduler_init(&p.other, NULL));
    ASSERT_INT(0, loop_scheduler_start(&p.starter));
    ASSERT_INT(0, loop_scheduler_start(&p.other));
    ASSERT_INT(0, loop_scheduler_call(&p.other, have_a_slow_end, &p, NULL));
    loop_scheduler_stop(&p.other);
    ASSERT_INT(0, csem_acquire_for(&end_began, PLIM_S(PATIENCE_S)));
    start(&starts, call_start, &p);
    ASSERT(EVENTUALLY(loop_scheduler_stall(&p.starter, NULL, NULL) == 0));
    loop_scheduler_task task = {.run = call_starter, .arg = &p};
    ASSERT_INT(0, loop_scheduler_post(&p.other, &task));
    start(&runs, run_other, &p);
    /* its call has come, or has been refused */
    bool came = EVENTUALLY(loop_scheduler_snapshot(&p.starter).queued == 1 ||
                           loop_scheduler_snapshot(&p.other).ran >= 2);
    csem_release(&may_end);
    join(runs);
    join(starts);
    ASSERT(came);
    ASSERT_INT(0, p.told);
    ASSERT_INT(0, p.error);
    ASSERT_INT(EBUSY, p.result); /* the third thread ran it */
    ASSERT_INT(0, loop_scheduler_close(&p.other, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(0, loop_scheduler_close(&p.starter, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(0, loop_scheduler_destroy(&p.other));
    ASSERT_INT(0, loop_scheduler_destroy(&p.starter));
    ASSERT_INT(0, pthread_key_delete(at_end));
    PASS();
}

SUITE(own_thread_suite)
{
    RUN_TEST(who_waits_for_a_thread_that_has_left_a_loop_does_not_wait_for_the_loop);
    RUN_TESTp(its_thread_carries_its_name, NULL, "loop");
    RUN_TESTp(its_thread_carries_its_name, "chat", "chat");
    RUN_TESTp(its_thread_carries_its_name, "a name that is too long", "a name that is ");
    RUN_TEST(its_thread_blocks_all_signals_but_faults);
    RUN_TEST(a_thread_that_runs_a_loop_keeps_its_signals);
    RUN_TESTp(its_thread_has_ended_when_close_or_the_next_start_returns, false);
    RUN_TESTp(its_thread_has_ended_when_close_or_the_next_start_returns, true);
    RUN_TEST(start_says_when_there_is_no_thread);
    RUN_TESTp(posts_make_a_system_call_only_if_the_loop_sleeps, false);
    RUN_TESTp(posts_make_a_system_call_only_if_the_loop_sleeps, true);
}

SUITE(signals_suite)
{
    RUN_TEST(signals_end_no_wait);
    RUN_TESTp(a_handler_may_post_whatever_it_interrupts, 0);
    RUN_TESTp(a_handler_may_post_whatever_it_interrupts, 4);
    RUN_TESTp(a_handler_may_post_and_stop_on_the_thread_that_runs_the_loop, false);
    RUN_TESTp(a_handler_may_post_and_stop_on_the_thread_that_runs_the_loop, true);
    RUN_TEST(a_handler_may_stop_a_loop_that_sleeps);
}

SUITE(embedding_suite)
{
    RUN_TEST(the_descriptor_is_readable_while_there_is_something_to_do);
    RUN_TEST(whatever_there_is_to_do_makes_the_descriptor_readable);
    RUN_TEST(the_descriptor_stays_readable_while_a_turn_leaves_something);
    RUN_TEST(a_loop_lives_inside_another_event_loop);
    RUN_TEST(a_loop_with_a_descriptor_may_also_run_by_itself);
    RUN_TEST(the_descriptor_goes_with_the_loop);
    RUN_TEST(without_a_descriptor_to_be_had_there_is_none);
    RUN_TEST(a_host_may_free_the_loop_before_post_has_returned);
    RUN_TEST(a_handler_may_post_to_a_loop_with_a_descriptor);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(own_thread_suite);
    RUN_SUITE(signals_suite);
    RUN_SUITE(embedding_suite);
    GREATEST_MAIN_END();
}
