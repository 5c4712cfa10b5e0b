/* SPDX-License-Identifier: MIT
 *
 * weighted_sem.h and what only a POSIX system has: signals, and the names of threads.
 */
#undef NDEBUG
#define _GNU_SOURCE
#ifndef PLIM_USE_PTHREADS
#define PLIM_USE_PTHREADS
#endif
#include "../weighted_sem.h"
#include "../semaphore.h"
#include "support.h"
#include "greatest.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>

typedef struct look {
    char name[32];
    int blocked[NSIG]; /* 1 blocked, 0 not, -1 unknown signal */
} look;

static int look_around(void *arg)
{
    look *l = arg;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int s = 1; s < NSIG; s++) {
        l->blocked[s] = sigismember(&mask, s);
    }
#ifdef __linux__
    pthread_getname_np(pthread_self(), l->name, sizeof l->name);
#endif
    return 0;
}

static look look_from_a_job(const char *name)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 1, .name = name};
    look l;
    memset(&l, 0, sizeof l);
    weighted_sem_init(&w, &options);
    weighted_sem_start(&w, 1, look_around, &l);
    weighted_sem_destroy(&w);
    return l;
}

TEST threads_carry_the_name(const char *name, const char *expected)
{
#ifdef __linux__
    look l = look_from_a_job(name);
    ASSERT_STR_EQ(expected, l.name);
    PASS();
#else
    (void)name, (void)expected;
    SKIPm("names of threads are read on Linux only");
#endif
}

TEST jobs_run_with_signals_blocked_except_faults(void)
{
    static const int faults[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
    static const int others[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1, SIGUSR2,  SIGPIPE,
                                 SIGALRM, SIGTERM, SIGCHLD, SIGURG,  SIGWINCH, SIGPROF};
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    look l = look_from_a_job(NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        ASSERT_EQ_FMT(0, l.blocked[faults[i]], "%d");
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ASSERT_EQ_FMT(1, l.blocked[others[i]], "%d");
    }
    for (int s = 1; s < NSIG; s++) { /* ours are as they were */
        ASSERT_EQ_FMT(sigismember(&before, s), sigismember(&after, s), "%d");
    }
    PASS();
}

static atomic_int alarms;

static void on_alarm(int signal)
{
    (void)signal;
    atomic_fetch_add(&alarms, 1);
}

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

TEST signals_end_no_wait(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 1};
    struct sigaction action;
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    atomic_int runs;
    atomic_init(&runs, 0);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm; /* without SA_RESTART: system calls fail with EINTR */
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    sigaction(SIGALRM, &action, NULL); /* for good: the last alarm may come late */
    setitimer(ITIMER_REAL, &often, NULL);
    int64_t before = plim_now_();
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_acquire_for(&w, 1, PLIM_MS(20)), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain(&w, PLIM_MS(20)), "%d");
    ASSERT(plim_now_() - before >= PLIM_MS(40));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    for (int i = 0; i < 2000; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
    }
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    setitimer(ITIMER_REAL, &never, NULL);
    ASSERT_EQ_FMT(2000, atomic_load(&runs), "%d");
    ASSERT(atomic_load(&alarms) > 0);
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    PASS();
}

SUITE(weighted_posix)
{
    RUN_TESTp(threads_carry_the_name, NULL, "weighted_sem");
    RUN_TESTp(threads_carry_the_name, "trainer", "trainer");
    RUN_TESTp(threads_carry_the_name, "a name that is too long", "a name that is ");
    RUN_TEST(jobs_run_with_signals_blocked_except_faults);
    RUN_TEST(signals_end_no_wait);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(weighted_posix);
    GREATEST_MAIN_END();
}
