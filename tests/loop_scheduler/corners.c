/* SPDX-License-Identifier: MIT
 *
 * Corners of loop_scheduler.h that no user should come to, and those that need Linux to get there.
 */
#undef NDEBUG
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

/* Misuse ends the program, but where a test asks for it. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static bool misuse_is_noted;
static const char *misuse;

static void note_misuse(const char *text)
{
    if (!misuse_is_noted) {
        printf("misuse: %s\n", text);
        abort();
    }
    misuse = text;
}
#define PLIM_ASSERT(condition, text) ((condition) ? (void)0 : note_misuse(text))

#include "../../loop_scheduler.h"

#include "../greatest.h"
#include "../support.h"

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

static int ran, told;

static void count(loop_scheduler_task *task, int status)
{
    (void)task;
    ++*(status == 0 ? &ran : &told);
}

static void tick(loop_scheduler_timer *timer, int status)
{
    (void)timer;
    ++*(status == 0 ? &ran : &told);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int refuse(void *ctx, void (*run)(void *), void *arg)
{
    (void)run, (void)arg;
    return *(int *)ctx;
}

static int64_t hands; /* of the clock */

static int64_t read_hands(void *user)
{
    (void)user;
    return hands;
}

static const loop_scheduler_options clocked = {.clock = read_hands};

TEST null_is_a_bad_argument(void)
{
    int code = EAGAIN;
    loop_scheduler l;
    plim_executor executor = {refuse, &code}, none = {NULL, NULL};
    loop_scheduler_work work = {.work = nothing}, lazy = {.work = NULL};
    loop_scheduler_coroutine co = {.run = NULL};
    ASSERT_EQ(EINVAL, loop_scheduler_init(NULL, NULL));
    ASSERT_EQ(0, loop_scheduler_init(&l, NULL));
    ASSERT_EQ(EINVAL, loop_scheduler_post(&l, NULL));
    ASSERT_EQ(EINVAL, loop_scheduler_post_for(&l, NULL, 0));
    ASSERT_EQ(EINVAL, loop_scheduler_timer_start(&l, NULL, 0, 0));
    ASSERT_EQ(EINVAL, loop_scheduler_offload(&l, NULL, &work));
    ASSERT_EQ(EINVAL, loop_scheduler_offload(&l, &none, &work));
    ASSERT_EQ(EINVAL, loop_scheduler_offload(&l, &executor, NULL));
    ASSERT_EQ(EINVAL, loop_scheduler_offload(&l, &executor, &lazy));
    ASSERT_EQ(EAGAIN, loop_scheduler_offload(&l, &executor, &work));
    ASSERT_EQ(EINVAL, loop_scheduler_spawn(&l, NULL));
    ASSERT_EQ(EINVAL, loop_scheduler_spawn(&l, &co));
    ASSERT_EQ(0, loop_scheduler_snapshot(&l).posted);
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    PASS();
}

/* A look ahead does not look at all of them: it may return too short a time, never too long. */
TEST a_crowd_of_timers_in_one_far_slot_is_on_time(void)
{
    enum { CROWD = 100 };
    static loop_scheduler_timer timers[CROWD];
    loop_scheduler l;
    hands = 1;
    ASSERT_EQ(0, loop_scheduler_init(&l, &clocked));
    for (int i = 0; i < CROWD; i++) {
        timers[i] = (loop_scheduler_timer){.run = tick};
        ASSERT_EQ(0, loop_scheduler_timer_start(&l, &timers[i], PLIM_S(10) + i, 0));
    }
    int looks = 0;
    while (ran == 0) {
        int64_t next = loop_scheduler_next_timeout(&l);
        ASSERT(next > 0 && hands + next <= 1 + PLIM_S(10));
        hands += next;
        loop_scheduler_poll(&l);
        ASSERT(looks++ < 20);
    }
    ASSERT_EQ(1 + PLIM_S(10), hands);
    ASSERT_EQ(1, ran);
    hands += CROWD;
    while (loop_scheduler_poll(&l) == 0) {
        continue;
    }
    ASSERT_EQ(CROWD, ran);
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    PASS();
}

TEST a_clock_that_steps_back_does_no_harm(void)
{
    loop_scheduler l;
    loop_scheduler_timer timer = {.run = tick};
    hands = PLIM_S(1000);
    ASSERT_EQ(0, loop_scheduler_init(&l, &clocked));
    ASSERT_EQ(EAGAIN, loop_scheduler_poll(&l));
    hands = PLIM_S(500);
    ASSERT_EQ(0, loop_scheduler_timer_start(&l, &timer, PLIM_S(1), 0));
    hands = PLIM_S(1001);
    ASSERT_EQ(0, loop_scheduler_poll(&l));
    ASSERT_EQ(1, ran);
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    PASS();
}

static loop_scheduler *stopped;

static void stop_at_64(loop_scheduler_task *task, int status)
{
    count(task, status);
    if (ran == 64) {
        loop_scheduler_stop(stopped);
    }
}

TEST a_stop_at_the_end_of_a_round_is_seen(void)
{
    static loop_scheduler_task tasks[100];
    loop_scheduler l;
    stopped = &l;
    ASSERT_EQ(0, loop_scheduler_init(&l, NULL));
    for (int i = 0; i < 100; i++) {
        tasks[i] = (loop_scheduler_task){.run = stop_at_64};
        ASSERT_EQ(0, loop_scheduler_post(&l, &tasks[i]));
    }
    ASSERT_EQ(0, loop_scheduler_run(&l));
    ASSERT_EQ(64, ran);
    ASSERT_EQ(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_EQ(100, ran);
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    PASS();
}

/* ---- when all is over, but the loop's thread has not left ---- */

typedef struct late {
    loop_scheduler l;
    loop_scheduler_task task;
    loop_scheduler_work work;
    plim_executor executor;
    int code, posted, offloaded;
    atomic_bool runs;
} late;

/* The clock of the loop: what its thread still calls then. */
static int64_t use_it_at_the_end(void *arg)
{
    late *at = arg;
    if (loop_scheduler_is_current(&at->l)) {
        atomic_store(&at->runs, true);
        if (loop_scheduler_stage_(&at->l) == PLIM_OVER_) {
            at->posted = loop_scheduler_post(&at->l, &at->task);
            at->offloaded = loop_scheduler_offload(&at->l, &at->executor, &at->work);
        }
    }
    return plim_now_();
}

static plim_thread_result close_late(void *arg)
{
    late *at = arg;
    while (!atomic_load(&at->runs)) {
        plim_thread_yield_();
    }
    loop_scheduler_close(&at->l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S));
    return 0;
}

TEST a_loop_that_is_over_accepts_nothing(void)
{
    static late at;
    plim_thread closer;
    at.code = EAGAIN;
    at.executor = (plim_executor){refuse, &at.code};
    at.task = (loop_scheduler_task){.run = count};
    at.work = (loop_scheduler_work){.work = nothing};
    loop_scheduler_options options = {.clock = use_it_at_the_end, .user = &at};
    ASSERT_EQ(0, loop_scheduler_init(&at.l, &options));
    start(&closer, close_late, &at);
    ASSERT_EQ(0, loop_scheduler_run(&at.l));
    join(closer);
    ASSERT_EQ(ESHUTDOWN, at.posted);
    ASSERT_EQ(ESHUTDOWN, at.offloaded);
    ASSERT_EQ(0, loop_scheduler_destroy(&at.l));
    PASS();
}

/* ---- in a child after fork: posix_fork.c does it really, here one is made to believe it ---- */

TEST a_loop_of_another_process_is_left_alone(void)
{
    static loop_scheduler l, before;
    loop_scheduler_task task = {.run = count};
    ASSERT_EQ(0, loop_scheduler_init(&l, NULL));
    ASSERT_EQ(0, loop_scheduler_post(&l, &task));
    l.fixed_.process++;
    memcpy((void *)&before, (void *)&l, sizeof l);
    ASSERT_EQ(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_FOREVER));
    ASSERT_EQ(EINVAL, loop_scheduler_close(&l, 2, PLIM_FOREVER));
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    ASSERT_EQ(0, memcmp((void *)&before, (void *)&l, sizeof l));
    ASSERT_EQ(0, told);
    l.fixed_.process--;
    ASSERT_EQ(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_FOREVER));
    ASSERT_EQ(1, told);
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    PASS();
}

/* As if this thread ran first l, then a job, and in that something else, when it was forked. */
TEST a_loop_that_is_made_anew_is_run_by_nobody(void)
{
    static loop_scheduler l;
    plim_place_ job, inner;
    plim_place_ **here = plim_here_();
    ASSERT_EQ(0, loop_scheduler_init(&l, NULL));
    memset((void *)&job, 0, sizeof job);
    memset((void *)&inner, 0, sizeof inner);
    l.place_.outer = *here;
    job.outer = &l.place_;
    inner.outer = &job;
    inner.serves = &inner;
    *here = &inner;
    bool served = plim_serves_(&l);
    int error = loop_scheduler_init(&l, NULL);
    bool serves = plim_serves_(&l);
    plim_place_ *outer = job.outer;
    *here = job.outer;
    ASSERT(served && !serves);
    ASSERT_EQ(0, error);
    ASSERT(outer == NULL);
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    PASS();
}

/* ---- a coroutine with a switch of its own ---- */

typedef struct chooser {
    uint64_t choice; /* over an int it would not compile: see tests/compile/matrix.sh */
    int before, after, done, status;
} chooser;

static void choose(loop_scheduler_coroutine *co)
{
    chooser *c = co->arg;
    LOOP_BEGIN(co);
    c->before++;
    switch (c->choice) {
    case 7:
        LOOP_YIELD(co);
        break;
    default:
        break;
    }
    c->after++;
    LOOP_END(co);
}

static void has_chosen(loop_scheduler_coroutine *co)
{
    chooser *c = co->arg;
    c->done++;
    c->status = co->status;
}

TEST a_macro_inside_a_switch_is_loud(void)
{
    loop_scheduler l;
    chooser c = {.choice = 7};
    loop_scheduler_coroutine co = {.run = choose, .arg = &c, .done = has_chosen};
    ASSERT_EQ(0, loop_scheduler_init(&l, NULL));
    ASSERT_EQ(0, loop_scheduler_spawn(&l, &co));
    ASSERT_EQ(0, loop_scheduler_poll(&l));
    ASSERT_EQ(1, c.before);
    misuse_is_noted = true;
    misuse = NULL;
    ASSERT_EQ(0, loop_scheduler_poll(&l));
    misuse_is_noted = false;
    ASSERT(misuse != NULL && strstr(misuse, "inside a switch of yours") != NULL);
    /* Where misuse is not even noted, it has an end, which says what it was. */
    ASSERT_EQ(1, c.done);
    ASSERT_EQ(EINVAL, c.status);
    ASSERT_EQ(1, c.before);
    ASSERT_EQ(0, c.after);
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    PASS();
}

/* ---- coroutines that do not listen ---- */

typedef struct deaf {
    loop_scheduler_coroutine co;
    plim_executor executor;
    int code, refused;
    int told; /* that the loop is being closed, or may not sleep any more */
    atomic_bool enough;
} deaf;

static void sleep_for_ever(loop_scheduler_coroutine *co)
{
    deaf *d = co->arg;
    LOOP_BEGIN(co);
    while (!atomic_load(&d->enough)) {
        give_way();
        LOOP_SLEEP(co, PLIM_MS(1));
        d->told += co->status == ECANCELED;
    }
    LOOP_END(co);
}

/* A thread that runs it itself tells it some more times, and then leaves it to the next one. */
TEST who_closes_does_not_wait_for_one_that_never_ends(bool own_thread)
{
    static loop_scheduler l;
    static deaf d;
    d = (deaf){.co = {.run = sleep_for_ever, .arg = &d}};
    ASSERT_EQ(0, loop_scheduler_init(&l, NULL));
    ASSERT_EQ(0, loop_scheduler_spawn(&l, &d.co));
    ASSERT_EQ(0, loop_scheduler_poll(&l)); /* it has begun */
    if (own_thread) {
        ASSERT_EQ(0, loop_scheduler_start(&l));
    }
    int64_t from = plim_now_();
    ASSERT_EQ(ETIMEDOUT, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_MS(1)));
    ASSERT(plim_now_() - from >= PLIM_MS(1));
    if (!own_thread) {
        ASSERT(d.told >= 2 && d.told <= 200);
    }
    atomic_store(&d.enough, true);
    ASSERT_EQ(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    PASS();
}

static void offload_twice(loop_scheduler_coroutine *co)
{
    deaf *d = co->arg;
    LOOP_BEGIN(co);
    LOOP_OFFLOAD(co, &d->executor, nothing, NULL);
    d->refused = co->status;
    LOOP_SLEEP(co, PLIM_S(1000));
    LOOP_OFFLOAD(co, &d->executor, nothing, NULL);
    LOOP_END(co);
}

/* The executor's own ESHUTDOWN is its answer; the loop's is ECANCELED. */
TEST a_coroutine_can_tell_who_is_closed(void)
{
    loop_scheduler l;
    deaf d = {.co = {.run = offload_twice}, .code = ESHUTDOWN};
    d.co.arg = &d;
    d.executor = (plim_executor){refuse, &d.code};
    ASSERT_EQ(0, loop_scheduler_init(&l, NULL));
    ASSERT_EQ(0, loop_scheduler_spawn(&l, &d.co));
    ASSERT_EQ(0, loop_scheduler_poll(&l));
    ASSERT_EQ(ESHUTDOWN, d.refused);
    ASSERT_EQ(-ESHUTDOWN, d.co.result);
    ASSERT_EQ(0, loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_FOREVER));
    ASSERT_EQ(ECANCELED, d.co.status);
    ASSERT_EQ(-ECANCELED, d.co.result);
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    PASS();
}

#ifdef __linux__

/* ---- one CPU ---- */

TEST a_loop_on_the_only_cpu_sleeps_at_once(void)
{
    cpu_set_t before, one;
    loop_scheduler l;
    ASSERT_EQ(0, sched_getaffinity(0, sizeof before, &before));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
            break;
        }
    }
    ASSERT_EQ(0, sched_setaffinity(0, sizeof one, &one));
    ASSERT_EQ(0, loop_scheduler_init(&l, NULL));
    /* Where it takes too long to get there, once more, for longer. */
    for (int64_t time = PLIM_MS(5); loop_scheduler_snapshot(&l).sleeps == 0 && time < PLIM_S(5);
         time *= 4) {
        ASSERT_EQ(ETIMEDOUT, loop_scheduler_run_once(&l, time));
    }
    ASSERT_EQ(0, sched_setaffinity(0, sizeof before, &before));
    ASSERT_EQ(1, loop_scheduler_snapshot(&l).sleeps);
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    PASS();
}

/* ---- a timer that ends the loop's thread ---- */

static void end_thread(loop_scheduler_timer *timer, int status)
{
    tick(timer, status);
    if (status == 0) {
        pthread_exit(NULL);
    }
}

TEST a_timer_that_ends_the_thread_is_still_told(void)
{
    loop_scheduler l;
    loop_scheduler_timer timer = {.run = end_thread};
    ASSERT_EQ(0, loop_scheduler_init(&l, NULL));
    ASSERT_EQ(0, loop_scheduler_timer_start(&l, &timer, 0, PLIM_S(1000)));
    ASSERT_EQ(0, loop_scheduler_start(&l));
    while (loop_scheduler_snapshot(&l).fired == 0 || loop_scheduler_stall(&l, NULL, NULL) == 0) {
        plim_thread_yield_();
    }
    ASSERT_EQ(0, loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(1, ran);
    ASSERT_EQ(1, told);
    ASSERT_EQ(0, loop_scheduler_destroy(&l));
    PASS();
}

#endif

static void set_counts(void *data)
{
    (void)data;
    ran = told = 0;
    hands = 0;
}

SUITE(loop_scheduler_corners)
{
    SET_SETUP(set_counts, NULL);
    RUN_TEST(null_is_a_bad_argument);
    RUN_TEST(a_crowd_of_timers_in_one_far_slot_is_on_time);
    RUN_TEST(a_clock_that_steps_back_does_no_harm);
    RUN_TEST(a_stop_at_the_end_of_a_round_is_seen);
    RUN_TEST(a_loop_that_is_over_accepts_nothing);
    RUN_TEST(a_loop_of_another_process_is_left_alone);
    RUN_TEST(a_loop_that_is_made_anew_is_run_by_nobody);
    RUN_TEST(a_macro_inside_a_switch_is_loud);
    RUN_TESTp(who_closes_does_not_wait_for_one_that_never_ends, false);
    RUN_TESTp(who_closes_does_not_wait_for_one_that_never_ends, true);
    RUN_TEST(a_coroutine_can_tell_who_is_closed);
#ifdef __linux__
    RUN_TEST(a_loop_on_the_only_cpu_sleeps_at_once);
    RUN_TEST(a_timer_that_ends_the_thread_is_still_told);
#endif
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(loop_scheduler_corners);
    GREATEST_MAIN_END();
}
