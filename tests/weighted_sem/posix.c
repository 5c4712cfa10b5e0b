/* SPDX-License-Identifier: MIT
 *
 * weighted_sem.h and what only a POSIX system has: signals, names and stacks of threads, and fork.
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef PLIM_USE_PTHREADS
#define PLIM_USE_PTHREADS
#endif
#include "../../weighted_sem.h"
#include "../../semaphore.h"
#include "../support.h"
#include "../posix.h"
#include "../greatest.h"

#include <sys/wait.h>
#include <unistd.h>

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

static int note_stack_size(void *arg)
{
#ifdef __linux__
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstacksize(&attributes, arg);
        pthread_attr_destroy(&attributes);
    }
#else
    (void)arg;
#endif
    return 0;
}

static size_t stack_size_of_a_job(size_t asked)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 1, .stack_size = asked};
    size_t size = 0;
    weighted_sem_init(&w, &options);
    weighted_sem_start(&w, 1, note_stack_size, &size);
    weighted_sem_destroy(&w);
    return size;
}

TEST threads_have_the_stack_that_was_asked_for(void)
{
#ifdef __linux__
    const size_t mib = (size_t)1 << 20, usual = stack_size_of_a_job(0);
    ASSERT(usual > 0);
    ASSERT(stack_size_of_a_job(usual + 3 * mib) >= usual + 3 * mib);
    size_t small = stack_size_of_a_job(1); /* too small for any system: the least that works */
    ASSERT(small > 0 && small <= usual);
    PASS();
#else
    SKIPm("sizes of stacks are read on Linux only");
#endif
}

TEST a_stack_that_no_system_has_is_refused(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 1, .stack_size = SIZE_MAX};
    size_t size = 0;
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    weighted_sem_stats before = weighted_sem_snapshot(&w);
    int error = weighted_sem_start(&w, 1, note_stack_size, &size);
    ASSERT(error == EAGAIN || error == ENOMEM);
    weighted_sem_stats after = weighted_sem_snapshot(&w);
    ASSERT_EQ(0, memcmp(&before, &after, sizeof before));
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    ASSERT_EQ(0, size);
    PASS();
}

/* ---- fork ---- */

static int wait_at(void *arg)
{
    return csem_acquire((csem *)arg);
}

static int seven(void *arg)
{
    (void)arg;
    return 7;
}

/* What the child does with what it has inherited; 0 if all is well. */
static int use_in_child(weighted_sem *w)
{
    weighted_sem_options options = {.total = 3};
    weighted_sem_error error;
    int result = 0, failed = 0;
    alarm(60); /* ends a child that hangs */
    failed += weighted_sem_close(w) != 0;
    failed += weighted_sem_close(w) != 0;
    failed += weighted_sem_destroy(w) != 0;
    failed += weighted_sem_init(w, &options) != 0;
    failed += weighted_sem_complete(w, 3, seven, NULL, &result) != 0 || result != 7;
#ifndef __SANITIZE_THREAD__ /* it knows no threads in a child */
    failed += weighted_sem_start(w, 3, seven, NULL) != 0;
    failed += weighted_sem_drain(w, PLIM_FOREVER) != 0;
    failed += weighted_sem_extract_errors(w, &error, 1) != 1 || error.code != 7;
#else
    (void)error;
#endif
    failed += weighted_sem_destroy(w) != 0;
    return failed;
}

static int in_child(weighted_sem *w)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        _exit(use_in_child(w));
    }
    if (child > 0) {
        waitpid(child, &status, 0);
    }
    return status;
}

TEST a_child_closes_and_destroys_what_is_its_parents(void)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 10};
    csem gate = CSEM_INIT(0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    ASSERT_EQ_FMT(0, in_child(&w), "%d"); /* idle */
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 2, wait_at, &gate), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_start(&w, 3, wait_at, &gate), "%d");
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 4), "%d");
    ASSERT_EQ_FMT(0, in_child(&w), "%d"); /* jobs run */
    weighted_sem_section_ s = weighted_sem_lock_(&w);
    int locked = in_child(&w); /* some thread is inside, for ever as the child sees it */
    weighted_sem_unlock_(&w, &s);
    ASSERT_EQ_FMT(0, locked, "%d");
    ASSERT_EQ_FMT(2u, weighted_sem_executing(&w), "%u"); /* and here nothing has changed */
    ASSERT_EQ(1, weighted_sem_available(&w));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 4), "%d");
    csem_release_n(&gate, 2);
    ASSERT_EQ_FMT(0, weighted_sem_drain_all(&w, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(0, in_child(&w), "%d"); /* its threads are idle */
    ASSERT_EQ_FMT(0, weighted_sem_destroy(&w), "%d");
    PASS();
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
    atomic_int runs;
    atomic_init(&runs, 0);
    ASSERT_EQ_FMT(0, weighted_sem_init(&w, &options), "%d");
    set_alarms(200);
    int64_t before = plim_now_();
    ASSERT_EQ_FMT(0, weighted_sem_acquire(&w, 1), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_acquire_for(&w, 1, PLIM_MS(20)), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, weighted_sem_drain_all(&w, PLIM_MS(20)), "%d");
    ASSERT(plim_now_() - before >= PLIM_MS(40));
    ASSERT_EQ_FMT(0, weighted_sem_release(&w, 1), "%d");
    for (int i = 0; i < 2000; i++) {
        ASSERT_EQ_FMT(0, weighted_sem_start(&w, 1, count, &runs), "%d");
    }
    ASSERT_EQ_FMT(0, weighted_sem_drain(&w, PLIM_FOREVER), "%d");
    set_alarms(0);
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
    RUN_TEST(threads_have_the_stack_that_was_asked_for);
    RUN_TEST(a_stack_that_no_system_has_is_refused);
    RUN_TEST(a_child_closes_and_destroys_what_is_its_parents);
    RUN_TEST(signals_end_no_wait);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(weighted_posix);
    GREATEST_MAIN_END();
}
