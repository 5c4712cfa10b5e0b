/* SPDX-License-Identifier: MIT
 *
 * What semaphore.h promises about signals, fork, cancellation, affinity and unmapped memory; between
 * processes: processes.c.
 * The parts that PLIM_PARK_CND does not promise are not here.
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define PLIM_WANTS_THREADS_
#include "../../semaphore.h"
#include "../support.h"
#include "../greatest.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/seccomp.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif
#endif

static csem shared;
static atomic_int handled;
static int errno_before, errno_after;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
}

static void on_signal_release(int number)
{
    (void)number;
    errno_before = errno;
    csem_release(&shared);
    errno_after = errno;
    atomic_fetch_add(&handled, 1);
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler; /* without SA_RESTART: the kernel returns EINTR */
    sigaction(number, &action, NULL);
}

typedef struct waiter {
    pthread_t thread;
    int error;
    int64_t timeout_ns;
    atomic_bool done;
} waiter;

static void *wait_on_shared(void *arg)
{
    waiter *w = arg;
    w->error = csem_acquire_for(&shared, w->timeout_ns);
    atomic_store(&w->done, true);
    return NULL;
}

TEST a_signal_does_not_end_a_wait(void)
{
    waiter w = {.timeout_ns = PLIM_FOREVER};
    csem_init(&shared, 0);
    atomic_store(&handled, 0);
    handle(SIGUSR1, on_signal);
    pthread_create(&w.thread, NULL, wait_on_shared, &w);
    ASSERT(EVENTUALLY(csem_waiters(&shared) == 1));
    for (int i = 1; i <= 20; i++) {
        pthread_kill(w.thread, SIGUSR1);
        ASSERT(EVENTUALLY(atomic_load(&handled) == i));
        rest(PLIM_US(500)); /* before and after the wait has become a starving one */
    }
    ASSERT_FALSE(atomic_load(&w.done));
    csem_release(&shared);
    pthread_join(w.thread, NULL);
    ASSERT_EQ_FMT(0, w.error, "%d");
    PASS();
}

TEST signals_do_not_stretch_a_timeout(void)
{
    waiter w = {.timeout_ns = PLIM_MS(50)};
    csem_init(&shared, 0);
    handle(SIGUSR1, on_signal);
    int64_t before = plim_now_();
    pthread_create(&w.thread, NULL, wait_on_shared, &w);
    while (!atomic_load(&w.done) && plim_now_() - before < PLIM_S(PATIENCE_S)) {
        pthread_kill(w.thread, SIGUSR1);
        rest(PLIM_MS(1)); /* a wait that began anew after each signal would never end */
    }
    int64_t took = plim_now_() - before;
    pthread_join(w.thread, NULL);
    ASSERT_EQ_FMT(ETIMEDOUT, w.error, "%d");
    ASSERT(took >= PLIM_MS(50));
    ASSERT(took < PLIM_S(PATIENCE_S));
    PASS();
}

TEST a_signal_handler_may_release(void)
{
    waiter w = {.timeout_ns = PLIM_FOREVER};
    csem_init(&shared, 0);
    atomic_store(&handled, 0);
    handle(SIGUSR1, on_signal_release);
    pthread_create(&w.thread, NULL, wait_on_shared, &w);
    ASSERT(EVENTUALLY(csem_waiters(&shared) == 1));
    errno = 4321;
    raise(SIGUSR1);
    ASSERT_EQ_FMT(4321, errno, "%d");
    ASSERT_EQ_FMT(errno_before, errno_after, "%d");
    pthread_join(w.thread, NULL);
    ASSERT_EQ_FMT(0, w.error, "%d");

    /* even in the thread that waits: it lets itself in */
    memset(&w, 0, sizeof w);
    w.timeout_ns = PLIM_FOREVER;
    pthread_create(&w.thread, NULL, wait_on_shared, &w);
    ASSERT(EVENTUALLY(csem_waiters(&shared) == 1));
    pthread_kill(w.thread, SIGUSR1);
    pthread_join(w.thread, NULL);
    ASSERT_EQ_FMT(0, w.error, "%d");
    PASS();
}

static atomic_bool stop;

static void *acquire_and_release(void *arg)
{
    uint64_t *rounds = arg;
    while (!atomic_load(&stop)) {
        csem_acquire(&shared);
        csem_release(&shared);
        ++*rounds;
    }
    return NULL;
}

TEST a_release_in_a_handler_may_interrupt_a_release(void)
{
    enum { SIGNALS = 2000 };
    pthread_t thread;
    uint64_t rounds = 0;
    csem_init(&shared, 1);
    atomic_store(&handled, 0);
    atomic_store(&stop, false);
    handle(SIGUSR1, on_signal_release);
    pthread_create(&thread, NULL, acquire_and_release, &rounds);
    for (int i = 1; i <= SIGNALS; i++) {
        pthread_kill(thread, SIGUSR1);
        while (atomic_load(&handled) < i) {
            sched_yield();
        }
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    ASSERT_EQ_FMT(1 + SIGNALS, csem_available(&shared), "%d");
    ASSERT_EQ_FMT(0u, csem_waiters(&shared), "%u");
    PASS();
}

TEST a_wait_is_no_point_of_cancellation(void)
{
    waiter w = {.timeout_ns = PLIM_FOREVER};
    csem_init(&shared, 0);
    pthread_create(&w.thread, NULL, wait_on_shared, &w);
    ASSERT(EVENTUALLY(csem_waiters(&shared) == 1));
    pthread_cancel(w.thread);
    rest(PLIM_MS(5)); /* in which the wait would end, were it a point of cancellation */
    ASSERT_EQ_FMT(1u, csem_waiters(&shared), "%u");
    csem_release(&shared);
    pthread_join(w.thread, NULL);
    ASSERT(atomic_load(&w.done));
    ASSERT_EQ_FMT(0u, csem_waiters(&shared), "%u");
    ASSERT_EQ_FMT(0, csem_available(&shared), "%d");
    PASS();
}

TEST a_child_initialises_anew_what_it_inherited(void)
{
    waiter w = {.timeout_ns = PLIM_FOREVER};
    csem_init(&shared, 0);
    pthread_create(&w.thread, NULL, wait_on_shared, &w);
    ASSERT(EVENTUALLY(csem_waiters(&shared) == 1));
    pid_t child = fork();
    if (child == 0) {
        csem_init(&shared, 1);
        _exit(csem_acquire(&shared) != 0 || csem_acquire_for(&shared, PLIM_MS(1)) != ETIMEDOUT ||
              csem_waiters(&shared) != 0);
    }
    int status;
    waitpid(child, &status, 0);
    ASSERT_EQ_FMT(0, status, "%d");
    csem_release(&shared);
    pthread_join(w.thread, NULL);
    PASS();
}

/* The semaphore is alone on a page, which the acquirer unmaps as soon as acquire returns, while
 * the releaser may still be on its way out. A late touch is a crash. */
static void *release_arg(void *arg)
{
    csem_release(arg);
    return NULL;
}

TEST the_last_acquirer_may_unmap_it(void)
{
    for (int i = 0; i < 3000; i++) {
        csem *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_t thread;
        ASSERT(s != MAP_FAILED);
        csem_init(s, 0);
        pthread_create(&thread, NULL, release_arg, s);
        if (i % 3 == 0) {
            sched_yield();
        }
        csem_acquire(s);
        munmap(s, 4096);
        pthread_join(thread, NULL);
    }
    PASS();
}

TEST one_cpu_is_not_many(void)
{
#ifdef __linux__
    cpu_set_t all, one;
    CPU_ZERO(&one);
    ASSERT_EQ_FMT(0, sched_getaffinity(0, sizeof all, &all), "%d");
    size_t first = 0;
    while (!CPU_ISSET(first, &all)) {
        first++;
    }
    CPU_SET(first, &one);
    ASSERT_EQ_FMT(0, sched_setaffinity(0, sizeof one, &one), "%d");
    bool alone = !plim_many_cpus_();
    csem s = CSEM_INIT(0);
    int error = csem_acquire_for(&s, PLIM_MS(1));
    sched_setaffinity(0, sizeof all, &all);
    ASSERT(alone);
    ASSERT_EQ_FMT(ETIMEDOUT, error, "%d");
    ASSERT_EQ_FMT((int)(CPU_COUNT(&all) > 1), (int)plim_many_cpus_(), "%d");
    PASS();
#else
    SKIPm("affinity is asked on Linux only");
#endif
}

/* In a child, one thread may call futex and nothing else, and the kernel kills the process otherwise. */
#if defined(SECCOMP_RET_KILL_PROCESS) && defined(SYS_futex) && UINTPTR_MAX > UINT32_MAX
static void *release_when_awaited(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++) {
        while (csem_waiters(&shared) == 0) {
            rest(PLIM_US(20)); /* not at once: the waiter may be asleep by then, or not */
        }
        csem_release(&shared);
    }
    return NULL;
}

static int wait_with_futex_only(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof rules[0], rules};
    pthread_t other;
    csem_init(&shared, 0);
    if (pthread_create(&other, NULL, release_when_awaited, NULL) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        _exit(77);
    }
    int wrong = 0;
    for (int i = 0; i < 200; i++) {
        wrong += (i % 2 == 0 ? csem_acquire(&shared) : csem_acquire_for(&shared, PLIM_S(60))) != 0;
    }
    wrong += csem_acquire_for(&shared, PLIM_MS(1)) != ETIMEDOUT;
    return wrong;
}

TEST a_wait_calls_futex_and_nothing_else(void)
{
    if (is_slow()) {
        SKIPm("a sanitizer, valgrind or an emulator makes calls of its own");
    }
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        _exit(wait_with_futex_only());
    }
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        SKIPm("this system has no filter of system calls");
    }
    ASSERT(WIFEXITED(status));
    ASSERT_EQ_FMT(0, WEXITSTATUS(status), "%d");
    PASS();
}
#else
TEST a_wait_calls_futex_and_nothing_else(void)
{
    SKIPm("there is no filter of system calls, or futex has two names");
}
#endif

SUITE(semaphore_posix)
{
    RUN_TEST(a_signal_does_not_end_a_wait);
    RUN_TEST(signals_do_not_stretch_a_timeout);
    RUN_TEST(a_signal_handler_may_release);
    RUN_TEST(a_release_in_a_handler_may_interrupt_a_release);
    RUN_TEST(a_wait_is_no_point_of_cancellation);
    RUN_TEST(a_child_initialises_anew_what_it_inherited);
    RUN_TEST(the_last_acquirer_may_unmap_it);
    RUN_TEST(one_cpu_is_not_many);
    RUN_TEST(a_wait_calls_futex_and_nothing_else);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(semaphore_posix);
    GREATEST_MAIN_END();
}
