/* SPDX-License-Identifier: MIT
 *
 * What semaphore.h promises to processes that share a csem (PLIM_PROCESS_SHARED): one that is
 * killed or stopped while it waits takes nothing with it.
 *
 * A child is killed only while the test holds every permit, so it cannot have one. A waiter has
 * most to leave behind when it wakes up and finds nothing. To make that happen, children run only
 * when no other process wants the CPU (SCHED_IDLE), on the test's own CPU.
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define PLIM_PROCESS_SHARED
#define PLIM_WANTS_THREADS_
#include "../../semaphore.h"
#include "../support.h"
#include "../greatest.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 8 };

static struct shared {
    csem s;
    atomic_int got[CHILDREN]; /* permits that each child took */
} * shared;

static pid_t children[CHILDREN];

#ifdef __linux__
static cpu_set_t everywhere;
#endif

/* On one CPU, where a child runs only when we sleep. Without the right to do so the claims hold as
 * well, they are just rarely put to the test. */
static void bind_to_one_cpu(void)
{
#ifdef __linux__
    cpu_set_t one;
    size_t first = 0;
    while (!CPU_ISSET(first, &everywhere)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof one, &one);
#endif
}

static void set_up(void *arg)
{
    (void)arg;
#ifdef __linux__
    sched_getaffinity(0, sizeof everywhere, &everywhere);
#endif
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        abort();
    }
    csem_init(&shared->s, 0);
}

static void end_child(int i)
{
    if (children[i] != 0) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
        children[i] = 0;
    }
}

static void tear_down(void *arg)
{
    (void)arg;
    for (int i = 0; i < CHILDREN; i++) {
        end_child(i);
    }
    munmap(shared, sizeof *shared);
#ifdef __linux__
    sched_setaffinity(0, sizeof everywhere, &everywhere);
#endif
}

/* A child that takes a permit and keeps it, or gives each back (for as long as it is left alive). */
static void start_child(int i, bool idle, bool gives_back)
{
    pid_t child = fork();
    if (child < 0) {
        abort();
    }
    if (child > 0) {
        children[i] = child;
        return;
    }
#ifdef SCHED_IDLE
    struct sched_param none = {0};
    if (idle) {
        sched_setscheduler(0, SCHED_IDLE, &none);
    }
#else
    (void)idle;
#endif
    do {
        if (csem_acquire(&shared->s) != 0) {
            _exit(1);
        }
        atomic_fetch_add(&shared->got[i], 1);
        if (gives_back) {
            csem_release(&shared->s);
        }
    } while (gives_back);
    _exit(0);
}

/* Does that child sleep? Asked of the kernel, since no count of ours can tell. */
static bool sleeps(int i)
{
    char name[64], line[512];
    snprintf(name, sizeof name, "/proc/%ld/stat", (long)children[i]);
    FILE *file = fopen(name, "r");
    if (file == NULL) {
        return true; /* no such file system: the test is weaker */
    }
    bool read = fgets(line, sizeof line, file) != NULL;
    const char *name_end = read ? strrchr(line, ')') : NULL;
    fclose(file);
    return name_end == NULL || name_end[2] == 'S';
}

/* Shows the waiters a permit and takes it back; true if we have it, false if it was slow. */
static bool flash_a_permit(void)
{
    csem_release(&shared->s);
    return csem_try_acquire(&shared->s) == 0 ||
           csem_acquire_for(&shared->s, PLIM_S(PATIENCE_S)) == 0;
}

TEST processes_can_share_one(void)
{
    enum { ROUNDS = 500 };
    struct {
        csem ping, pong;
    } *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT(both != MAP_FAILED);
    csem_init(&both->ping, 0);
    csem_init(&both->pong, 0);
    pid_t child = fork();
    ASSERT(child >= 0);
    if (child == 0) {
        for (int i = 0; i < ROUNDS; i++) {
            csem_acquire(&both->ping);
            if (i % 50 == 0) {
                rest(PLIM_MS(1)); /* so that the other side really sleeps now and then */
            }
            csem_release(&both->pong);
        }
        _exit(0);
    }
    int failures = 0, status;
    for (int i = 0; i < ROUNDS && failures == 0; i++) {
        csem_release(&both->ping);
        failures += csem_acquire_for(&both->pong, PLIM_S(PATIENCE_S)) != 0;
    }
    ASSERT_EQ_FMT(0, failures, "%d");
    waitpid(child, &status, 0);
    ASSERT_EQ_FMT(0, status, "%d");
    munmap(both, 4096);
    PASS();
}

/* A waiter is woken for nothing until it has become as old as a waiter can, and is then lost. */
TEST one_that_dies_or_stops_while_it_waits_takes_no_permit(int signal)
{
    bind_to_one_cpu();
    start_child(0, true, true);
    ASSERT(EVENTUALLY(csem_waiters(&shared->s) == 1 && sleeps(0)));
    for (int i = 0; i < 10; i++) {
        ASSERT(flash_a_permit());
        rest(PLIM_MS(1)); /* it gets older: its patience is a time */
        ASSERT(EVENTUALLY(sleeps(0)));
    }
    kill(children[0], signal);
    int status;
    waitpid(children[0], &status, WUNTRACED);
    children[0] = signal == SIGKILL ? 0 : children[0];
    csem_release(&shared->s);
    ASSERT_EQ_FMT(1, csem_available(&shared->s), "%d");
    ASSERT_EQ_FMT(0, csem_try_acquire(&shared->s), "%d");
    csem_release(&shared->s);
    ASSERT_EQ_FMT(0, csem_acquire_for(&shared->s, PLIM_S(PATIENCE_S)), "%d");
    /* nor does it keep another waiter from it */
    start_child(1, false, false);
    ASSERT(EVENTUALLY(csem_waiters(&shared->s) == 2));
    csem_release(&shared->s);
    ASSERT(EVENTUALLY(atomic_load(&shared->got[1]) == 1));
    PASS();
}

/* The first of two sleepers is called, and lost before it can act on that. */
TEST one_that_dies_or_stops_when_it_is_woken_leaves_the_permit_to_others(int signal)
{
    bind_to_one_cpu();
    start_child(0, true, false);
    ASSERT(EVENTUALLY(csem_waiters(&shared->s) == 1 && sleeps(0)));
    start_child(1, true, false);
    ASSERT(EVENTUALLY(csem_waiters(&shared->s) == 2 && sleeps(1)));
    csem_release(&shared->s);
    kill(children[0], signal);
    int status;
    waitpid(children[0], &status, WUNTRACED);
    children[0] = signal == SIGKILL ? 0 : children[0];
    /* It may have been fast enough, and has taken the permit with it: then there is another. */
    if (csem_available(&shared->s) == 0 && atomic_load(&shared->got[1]) == 0) {
        csem_release(&shared->s);
    }
    ASSERT(EVENTUALLY(atomic_load(&shared->got[1]) == 1));
    PASS();
}

/* A lock among processes that are killed one after the other while they wait for it. */
TEST thousands_of_deaths_cost_no_permit(bool one_cpu)
{
    const int kills = scaled(1000);
    const int64_t until = plim_now_() + PLIM_MS(is_slow() ? 2000 : 700) * factor("TEST_LONG");
    uint64_t random = 20261118;
    if (one_cpu) {
        bind_to_one_cpu();
    }
    for (int i = 0; i < CHILDREN; i++) {
        start_child(i, one_cpu, true);
    }
    for (int i = 0; i < kills && plim_now_() < until; i++) {
        int victim = (int)(next_random(&random) % CHILDREN);
        if (next_random(&random) % 4 == 0) {
            rest(PLIM_US(next_random(&random) % 200)); /* with all of them asleep, or on the way */
        }
        end_child(victim);
        start_child(victim, one_cpu, true);
        for (uint64_t n = next_random(&random) % 4; n > 0; n--) {
            ASSERT(flash_a_permit());
        }
        ASSERT_EQ_FMT(0, csem_available(&shared->s), "%d");
    }
    for (int i = 0; i < CHILDREN; i++) {
        end_child(i);
    }
    csem_release(&shared->s);
    ASSERT_EQ_FMT(0, csem_try_acquire(&shared->s), "%d");
    PASS();
}

/* Half a million deaths, as if: the count is full, and nobody is turned away for it. */
TEST a_full_count_of_waiters_turns_nobody_away(void)
{
    plim_store_relaxed_(&shared->s.counter_.word, PLIM_WAITERS_MAX * PLIM_WAITERS_ONE_);
    ASSERT_EQ_FMT(ETIMEDOUT, csem_acquire_for(&shared->s, PLIM_MS(1)), "%d");
    ASSERT_EQ_FMT(PLIM_WAITERS_MAX, csem_waiters(&shared->s), "%u");
    start_child(0, false, false);
    ASSERT(EVENTUALLY(sleeps(0)));
    csem_release(&shared->s);
    ASSERT(EVENTUALLY(atomic_load(&shared->got[0]) == 1));
    ASSERT_EQ_FMT(PLIM_WAITERS_MAX, csem_waiters(&shared->s), "%u");
    ASSERT_EQ_FMT(0, csem_available(&shared->s), "%d");
    PASS();
}

/* One that is counted as waiting, and is dead, does not keep others from looking before they
 * sleep: the csem learns from their looks. */
TEST the_dead_do_not_end_spinning(void)
{
    plim_store_relaxed_(&shared->s.counter_.word, PLIM_WAITERS_ONE_);
    ASSERT_EQ_FMT(ETIMEDOUT, csem_acquire_for(&shared->s, PLIM_MS(1)), "%d");
    uint64_t w = plim_load_relaxed_(&shared->s.counter_.word);
    ASSERT_EQ_FMT(PLIM_SPIN > 0 ? 1u : 0u, plim_shy_(w), "%u");
    ASSERT_EQ_FMT(1u, csem_waiters(&shared->s), "%u");
    PASS();
}

TEST close_ends_waits_in_other_processes(void)
{
    int status;
    start_child(0, false, false);
    start_child(1, false, false);
    ASSERT(EVENTUALLY(csem_waiters(&shared->s) == 2 && sleeps(0) && sleeps(1)));
    csem_close(&shared->s);
    for (int i = 0; i < 2; i++) {
        waitpid(children[i], &status, 0);
        children[i] = 0;
        ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    }
    ASSERT_EQ_FMT(0u, csem_waiters(&shared->s), "%u");
    PASS();
}

/* A sleep of a second is looked through more than once, and ends when it should. */
TEST long_waits_end_on_time(void)
{
    int64_t before = plim_now_();
    ASSERT_EQ_FMT(ETIMEDOUT, csem_acquire_for(&shared->s, PLIM_SHARED_NAP_NS_ + PLIM_MS(20)), "%d");
    ASSERT(plim_now_() - before >= PLIM_SHARED_NAP_NS_ + PLIM_MS(20));
    ASSERT_EQ_FMT(0u, csem_waiters(&shared->s), "%u");
    PASS();
}

SUITE(semaphore_processes)
{
    SET_SETUP(set_up, NULL);
    SET_TEARDOWN(tear_down, NULL);
    RUN_TEST(processes_can_share_one);
    RUN_TESTp(one_that_dies_or_stops_while_it_waits_takes_no_permit, SIGKILL);
    RUN_TESTp(one_that_dies_or_stops_while_it_waits_takes_no_permit, SIGSTOP);
    RUN_TESTp(one_that_dies_or_stops_when_it_is_woken_leaves_the_permit_to_others, SIGKILL);
    RUN_TESTp(one_that_dies_or_stops_when_it_is_woken_leaves_the_permit_to_others, SIGSTOP);
    RUN_TESTp(thousands_of_deaths_cost_no_permit, true);
    RUN_TESTp(thousands_of_deaths_cost_no_permit, false);
    RUN_TEST(a_full_count_of_waiters_turns_nobody_away);
    RUN_TEST(the_dead_do_not_end_spinning);
    RUN_TEST(close_ends_waits_in_other_processes);
    RUN_TEST(long_waits_end_on_time);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(semaphore_processes);
    GREATEST_MAIN_END();
}
