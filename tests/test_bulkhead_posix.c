/* SPDX-License-Identifier: MIT
 *
 * bulkhead.h and what only a POSIX system has: signals, and the names of threads.
 */
#undef NDEBUG
#define _GNU_SOURCE
#ifndef PLIM_USE_PTHREADS
#define PLIM_USE_PTHREADS
#endif
#include "../bulkhead.h"
#include "support.h"
#include "greatest.h"

#include <signal.h>
#include <sys/time.h>

typedef struct look {
    char name[32];
    int blocked[NSIG]; /* 1 blocked, 0 not, -1 unknown signal */
} look;

static int look_around(bulkhead_job *job)
{
    look *l = job->arg;
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
    bulkhead b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .name = name};
    look l;
    memset(&l, 0, sizeof l);
    bulkhead_job job = {.run = look_around, .arg = &l};
    bulkhead_init(&b, &options);
    bulkhead_submit(&b, &job);
    bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_FOREVER);
    bulkhead_destroy(&b);
    return l;
}

TEST workers_carry_the_name_and_their_number(const char *name, const char *expected)
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
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    look l = look_from_a_job(NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    ASSERT_EQ_FMT(0, l.blocked[SIGSEGV], "%d");
    ASSERT_EQ_FMT(0, l.blocked[SIGABRT], "%d");
    ASSERT_EQ_FMT(1, l.blocked[SIGINT], "%d");
    ASSERT_EQ_FMT(1, l.blocked[SIGTERM], "%d");
    ASSERT_EQ_FMT(1, l.blocked[SIGCHLD], "%d");
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

static int count_later(bulkhead_job *job)
{
    return count(job->arg);
}

TEST signals_end_no_wait(void)
{
    bulkhead b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC};
    struct sigaction action;
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_job late = {.run = count_later, .arg = &runs, .delay_ns = PLIM_MS(10)};
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm; /* without SA_RESTART: system calls fail with EINTR */
    ASSERT_EQ_FMT(0, bulkhead_init(&b, &options), "%d");
    sigaction(SIGALRM, &action, NULL); /* for good: the last alarm may come late */
    setitimer(ITIMER_REAL, &often, NULL);
    int64_t before = plim_now_();
    ASSERT_EQ_FMT(0, bulkhead_enter(&b), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, bulkhead_enter_for(&b, PLIM_MS(20)), "%d");
    ASSERT_EQ_FMT(0, bulkhead_leave(&b), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &late), "%d");
    ASSERT_EQ_FMT(0, bulkhead_wait(&late, PLIM_FOREVER), "%d");
    ASSERT(plim_now_() - before >= PLIM_MS(30));
    for (int i = 0; i < 2000; i++) {
        ASSERT_EQ_FMT(0, bulkhead_invoke(&b, count, &runs, NULL), "%d");
    }
    ASSERT_EQ_FMT(0, bulkhead_wait_idle(&b, PLIM_FOREVER), "%d");
    setitimer(ITIMER_REAL, &never, NULL);
    ASSERT_EQ_FMT(2001, atomic_load(&runs), "%d");
    ASSERT(atomic_load(&alarms) > 0);
    ASSERT_EQ_FMT(0, bulkhead_destroy(&b), "%d");
    PASS();
}

SUITE(bulkhead_posix)
{
    RUN_TESTp(workers_carry_the_name_and_their_number, NULL, "bulkhead-0");
    RUN_TESTp(workers_carry_the_name_and_their_number, "db", "db-0");
    RUN_TESTp(workers_carry_the_name_and_their_number, "a name that is too long",
              "a name that i-0");
    RUN_TEST(jobs_run_with_signals_blocked_except_faults);
    RUN_TEST(signals_end_no_wait);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(bulkhead_posix);
    GREATEST_MAIN_END();
}
