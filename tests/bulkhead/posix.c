/* SPDX-License-Identifier: MIT
 *
 * bulkhead.h and what only a POSIX system has: signals, names and stacks of threads, and fork.
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef PLIM_USE_PTHREADS
#define PLIM_USE_PTHREADS
#endif
#include "../../bulkhead.h"
#include "../support.h"
#include "../posix.h"
#include "../greatest.h"

#include <sys/wait.h>
#include <unistd.h>

static int look_from_inside(bulkhead_job *job)
{
    return look_around(job->arg);
}

static look look_from_a_job(const char *name)
{
    bulkhead b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .name = name};
    look l;
    memset(&l, 0, sizeof l);
    bulkhead_job job = {.run = look_from_inside, .arg = &l};
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

#ifdef __linux__
enum { CROWD = 11 }; /* the last of them has two digits */

typedef struct crowd {
    bulkhead_job job;
    look l;
    atomic_int *came;
    bool all; /* were there when it ended */
} crowd;

static int look_when_all_are_there(bulkhead_job *job)
{
    crowd *c = job->arg;
    atomic_fetch_add(c->came, 1);
    c->all = EVENTUALLY(atomic_load(c->came) == CROWD);
    return look_around(&c->l);
}

TEST each_worker_carries_its_own_number(void)
{
    bulkhead b;
    atomic_int came;
    crowd c[CROWD];
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = CROWD, .name = "db"};
    memset((void *)c, 0, sizeof c);
    atomic_init(&came, 0);
    ASSERT_EQ_FMT(0, bulkhead_init(&b, &options), "%d");
    for (int i = 0; i < CROWD; i++) {
        c[i].job = (bulkhead_job){.run = look_when_all_are_there, .arg = &c[i]};
        c[i].came = &came;
        ASSERT_EQ_FMT(0, bulkhead_submit(&b, &c[i].job), "%d");
    }
    ASSERT_EQ_FMT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(0, bulkhead_destroy(&b), "%d");
    for (int i = 0; i < CROWD; i++) {
        char expected[16];
        snprintf(expected, sizeof expected, "db-%u", c[i].job.worker);
        ASSERT(c[i].all && c[i].job.worker < CROWD);
        ASSERT_STR_EQ(expected, c[i].l.name);
        for (int j = 0; j < i; j++) {
            ASSERT(c[i].job.worker != c[j].job.worker);
        }
    }
    PASS();
}
#endif

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
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_job late = {.run = count_later, .arg = &runs, .delay_ns = PLIM_MS(10)};
    ASSERT_EQ_FMT(0, bulkhead_init(&b, &options), "%d");
    set_alarms(200);
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
    set_alarms(0);
    ASSERT_EQ_FMT(2001, atomic_load(&runs), "%d");
    ASSERT(atomic_load(&alarms) > 0);
    ASSERT_EQ_FMT(0, bulkhead_destroy(&b), "%d");
    PASS();
}

static int measure_stack(bulkhead_job *job)
{
    pthread_attr_t attributes;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &size);
        pthread_attr_destroy(&attributes);
    }
    *(size_t *)job->arg = size;
    return 0;
}

TEST workers_have_the_stack_they_are_given(size_t wanted)
{
    bulkhead b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .stack_size = wanted};
    size_t size = 0;
    bulkhead_job job = {.run = measure_stack, .arg = &size};
    ASSERT_EQ_FMT(0, bulkhead_init(&b, &options), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &job), "%d");
    ASSERT_EQ_FMT(0, bulkhead_wait(&job, PLIM_FOREVER), "%d");
    ASSERT(size >= wanted);
    ASSERT(wanted == 0 || size <= wanted + ((size_t)1 << 20));
    ASSERT_EQ_FMT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(0, bulkhead_destroy(&b), "%d");
    PASS();
}

/* ---- fork ---- */

enum { NEVER_USED, IDLE, BUSY, LOCKED };

static int wait_for_byte(bulkhead_job *job)
{
    char c;
    return (int)read(*(int *)job->arg, &c, 1) < 0;
}

/* What a child does with the bulkhead that it got; its exit status. */
static int in_the_child(bulkhead *b, int how)
{
    alarm(PATIENCE_S); /* instead of a hang */
    if (bulkhead_close(b, how, PLIM_FOREVER) != 0 || bulkhead_close(b, how, 0) != 0 ||
        bulkhead_destroy(b) != 0) {
        return 1;
    }
#ifdef __SANITIZE_THREAD__ /* it lets a child start no threads */
    return bulkhead_init(b, NULL) != 0 || bulkhead_destroy(b) != 0 ? 2 : 0;
#else
    /* A new one, in the same place. */
    bulkhead_options options = {.type = BULKHEAD_ASYNC};
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_job job = {.run = count_later, .arg = &runs};
    return bulkhead_init(b, &options) != 0 || bulkhead_submit(b, &job) != 0 ||
                   bulkhead_wait(&job, PLIM_FOREVER) != 0 || atomic_load(&runs) != 1 ||
                   bulkhead_close(b, BULKHEAD_DRAIN, PLIM_FOREVER) != 0 || bulkhead_destroy(b) != 0
               ? 2
               : 0;
#endif
}

TEST a_forked_child_may_close_and_destroy_at_once(int state, int how)
{
    bulkhead b;
    int pipes[2], status = -1;
    atomic_int runs;
    atomic_init(&runs, 0);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 1, .flags = BULKHEAD_TIMINGS};
    bulkhead_job job = {.run = count_later, .arg = &runs}, waits = {.run = count_later};
    bulkhead_job blocks = {.run = wait_for_byte, .arg = &pipes[0], .run_timeout_ns = PLIM_S(1000)};
    waits.arg = &runs;
    ASSERT_EQ_FMT(0, pipe(pipes), "%d");
    ASSERT_EQ_FMT(0, bulkhead_init(&b, &options), "%d");
    if (state != NEVER_USED) {
        ASSERT_EQ_FMT(0, bulkhead_submit(&b, &job), "%d");
        ASSERT_EQ_FMT(0, bulkhead_wait(&job, PLIM_FOREVER), "%d");
    }
    if (state == BUSY) {
        ASSERT_EQ_FMT(0, bulkhead_submit(&b, &blocks), "%d"); /* with a supervisor */
        ASSERT_EQ_FMT(0, bulkhead_submit(&b, &waits), "%d");
    }
    bulkhead_section_ s;
    if (state == LOCKED) { /* as if another thread were in the middle of something */
        s = bulkhead_lock_(&b);
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(in_the_child(&b, how));
    }
    if (state == LOCKED) {
        bulkhead_unlock_(&b, &s);
    }
    ASSERT(child > 0);
    ASSERT_EQ_FMT(child, waitpid(child, &status, 0), "%d");
    ASSERT_EQ_FMT(0, status, "%d");
    ASSERT_EQ_FMT((ssize_t)1, write(pipes[1], "x", 1), "%zd"); /* the parent's goes on */
    ASSERT_EQ_FMT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(0, bulkhead_destroy(&b), "%d");
    close(pipes[0]);
    close(pipes[1]);
    PASS();
}

/* What a thread runs is noted on its stack. Destructors of thread-local data come after that. */
static pthread_key_t at_end;

static void note_that_it_runs_nothing(void *note)
{
    atomic_store((atomic_int *)note, *plim_here_() == NULL);
}

static void have_an_end(bulkhead_job *job)
{
    pthread_setspecific(at_end, job->arg);
}

TEST the_supervisor_runs_nothing_when_it_ends(void)
{
    bulkhead b;
    atomic_int note;
    int pipes[2];
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 1};
    bulkhead_job blocks = {.run = wait_for_byte, .arg = &pipes[0]};
    bulkhead_job expires = {.start_within_ns = 1, .run = wait_for_byte, .done = have_an_end};
    atomic_init(&note, -1);
    expires.arg = &note;
    ASSERT_EQ_FMT(0, pthread_key_create(&at_end, note_that_it_runs_nothing), "%d");
    ASSERT_EQ_FMT(0, pipe(pipes), "%d");
    ASSERT_EQ_FMT(0, bulkhead_init(&b, &options), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &blocks), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &expires), "%d");
    ASSERT_EQ_FMT(0, bulkhead_wait(&expires, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(BULKHEAD_EXPIRED, expires.outcome, "%d");
    ASSERT_EQ_FMT((ssize_t)1, write(pipes[1], "x", 1), "%zd");
    ASSERT_EQ_FMT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(0, bulkhead_destroy(&b), "%d");
    ASSERT_EQ_FMT(1, atomic_load(&note), "%d");
    ASSERT_EQ_FMT(0, pthread_key_delete(at_end), "%d");
    close(pipes[0]);
    close(pipes[1]);
    PASS();
}

static int have_an_end_too(bulkhead_job *job)
{
    have_an_end(job);
    return 0;
}

TEST a_worker_runs_nothing_when_it_ends(void)
{
    bulkhead b;
    atomic_int note;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 1};
    bulkhead_job job = {.run = have_an_end_too, .arg = &note};
    atomic_init(&note, -1);
    ASSERT_EQ_FMT(0, pthread_key_create(&at_end, note_that_it_runs_nothing), "%d");
    ASSERT_EQ_FMT(0, bulkhead_init(&b, &options), "%d");
    ASSERT_EQ_FMT(0, bulkhead_submit(&b, &job), "%d");
    ASSERT_EQ_FMT(0, bulkhead_wait(&job, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(0, bulkhead_destroy(&b), "%d"); /* which joins it */
    ASSERT_EQ_FMT(1, atomic_load(&note), "%d");
    ASSERT_EQ_FMT(0, pthread_key_delete(at_end), "%d");
    PASS();
}

SUITE(bulkhead_posix)
{
    RUN_TESTp(workers_carry_the_name_and_their_number, NULL, "bulkhead-0");
    RUN_TESTp(workers_carry_the_name_and_their_number, "db", "db-0");
    RUN_TESTp(workers_carry_the_name_and_their_number, "a name that is too long",
              "a name that i-0");
#ifdef __linux__
    RUN_TEST(each_worker_carries_its_own_number);
#endif
    RUN_TEST(jobs_run_with_signals_blocked_except_faults);
    RUN_TEST(signals_end_no_wait);
    RUN_TESTp(workers_have_the_stack_they_are_given, 0);
    RUN_TESTp(workers_have_the_stack_they_are_given, 1);
    RUN_TESTp(workers_have_the_stack_they_are_given, 100000);
    RUN_TESTp(workers_have_the_stack_they_are_given, (size_t)20 << 20);
    RUN_TEST(the_supervisor_runs_nothing_when_it_ends);
    RUN_TEST(a_worker_runs_nothing_when_it_ends);
    for (int state = NEVER_USED; state <= LOCKED; state++) {
        RUN_TESTp(a_forked_child_may_close_and_destroy_at_once, state, BULKHEAD_DRAIN);
        RUN_TESTp(a_forked_child_may_close_and_destroy_at_once, state, BULKHEAD_ABORT);
    }
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(bulkhead_posix);
    GREATEST_MAIN_END();
}
