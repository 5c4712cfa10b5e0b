/* SPDX-License-Identifier: MIT
 *
 * Scenarios for loop_scheduler.h. mutants.txt has the faults that they must find.
 */
#include <stddef.h>
#include <stdint.h>

__attribute__((noinline)) static void *world_memory(size_t size);
#define PLIM_MALLOC(size) world_memory(size)
#define PLIM_FREE(memory) ((void)(memory))
#define PLIM_PLATFORM "platform.h"
#define PLIM_SPIN 1
#ifndef PLIM_HEADER
#define PLIM_HEADER "../../loop_scheduler.h"
#endif
#include PLIM_HEADER

#include <stdio.h>

enum { TASKS = 4, LOOPS = 2, SLOTS = EXPLORE_THREADS + 2 };

static struct world {
    loop_scheduler l[LOOPS];
    bool destroyed[LOOPS];
    loop_scheduler_task task[TASKS];
    int posted[TASKS];           /* 1 + what post returned */
    int ran[TASKS], told[TASKS]; /* calls of run with 0, and with ECANCELED */
    int order[TASKS], orders;    /* in which they ran */
    int inside;
    loop_scheduler_timer timer;
    int fired, timer_told;
    loop_scheduler_work work;
    int worked, then, then_told;
    loop_scheduler_coroutine co;
    loop_scheduler_event event;
    int co_status[3], co_done;
    int answer[3]; /* 1 + what a call returned */
    int deadlocks;
    int left; /* threads that have not come to their end */
    plim_counter gate;
    void *slot[SLOTS];
    size_t used;
    PLIM_ALIGN8_ char memory[256];
} world;

static void *world_memory(size_t size)
{
    void *at = &world.memory[world.used];
    if (size > sizeof world.memory - world.used) {
        explore_fail(__FILE__, __LINE__, "no memory");
        return NULL;
    }
    world.used += (size + 15) / 16 * 16;
    return at;
}

void *explore_thread_slot(void)
{
    return &world.slot[explore_thread_id()];
}

/* ---- what must hold for the word ---- */

const char *explore_bad_step(const uint64_t *word, uint64_t before, uint64_t after)
{
    const uint64_t sleeps = LOOP_SCHEDULER_ASLEEP_ | LOOP_SCHEDULER_WATCHED_;
    if (word != &world.l[0].word_.word && word != &world.l[1].word_.word) {
        return NULL;
    }
    if ((before & LOOP_SCHEDULER_CLOSED_) != 0 && (after & LOOP_SCHEDULER_CLOSED_) == 0) {
        return "closed is for ever";
    }
    if (loop_scheduler_newest_(after) != NULL && (after & sleeps) != 0) {
        return "the loop sleeps on a task";
    }
    return NULL;
}

const char *explore_bad_rest(uint64_t word)
{
    (void)word;
    for (int i = 0; i < LOOPS; i++) {
        loop_scheduler *l = &world.l[i];
        if (world.destroyed[i] || l->fixed_.name[0] == 0) {
            continue;
        }
        if (l->place_.goal.lock != 0) {
            return "everybody sleeps, and the lock is held";
        }
        if (l->place_.goal.thread != 0 && l->place_.goal.awaits == NULL &&
            l->what_ == LOOP_SCHEDULER_NOTHING_ &&
            (loop_scheduler_newest_(l->word_.word) != NULL || l->queue_.count != 0)) {
            return "lost wake-up: the loop sleeps, and a task waits";
        }
    }
    return NULL;
}

void explore_print_word(const uint64_t *word, uint64_t value)
{
    if (word == &world.l[0].word_.word || word == &world.l[1].word_.word) {
        loop_scheduler_task *newest = loop_scheduler_newest_(value);
        bool known = newest >= world.task && newest < world.task + TASKS;
        printf("word: %s%d%s%s", newest == NULL ? "none " : "task ",
               known ? (int)(newest - world.task) : -1,
               (value & LOOP_SCHEDULER_ASLEEP_) != 0 ? ", asleep" : "",
               (value & LOOP_SCHEDULER_CLOSED_) != 0 ? ", closed" : "");
    } else if (word == &world.l[0].place_.goal.lock || word == &world.l[1].place_.goal.lock) {
        printf("lock: %d", (int)value);
    } else {
        printf("other: %llx", (unsigned long long)value);
    }
}

/* ---- pieces ---- */

#define L (&world.l[0])

static void note(loop_scheduler_task *task, int status)
{
    int i = (int)(task - world.task);
    explore_check(loop_scheduler_is_current(L) && world.inside++ == 0);
    ++*(status == 0 ? &world.ran[i] : &world.told[i]);
    world.order[world.orders++ % TASKS] = i;
    explore_check(--world.inside == 0);
}

static void made(uint32_t max_queue)
{
    loop_scheduler_options options = {.max_queue = max_queue};
    explore_check(loop_scheduler_init(L, &options) == 0);
    for (int i = 0; i < TASKS; i++) {
        world.task[i].run = note;
    }
    plim_init_(&world.gate, 0);
    world.left = 2;
}

static void open_loop(void)
{
    made(0);
}

static void queue_of_1(void)
{
    made(1);
}

/* Unless those who close it come first. */
static void run_it(void)
{
    int error = loop_scheduler_run(L);
    explore_check(error == 0 || error == ESHUTDOWN || error == EBUSY);
}

static void post(int i)
{
    world.posted[i] = 1 + loop_scheduler_post(L, &world.task[i]);
}

static void closed(int how)
{
    explore_check(loop_scheduler_close(L, how, PLIM_FOREVER) == 0);
    explore_check(L->place_.goal.thread == 0);
}

static void ended(void)
{
    world.destroyed[0] = true;
    explore_check(loop_scheduler_destroy(L) == 0);
    explore_free(L, sizeof *L);
}

/* The last of those that have something to post closes it. */
static void leave_and_close(int how)
{
    if (--world.left == 0) {
        closed(how);
    }
}

static void post_0_1(void)
{
    post(0);
    post(1);
    leave_and_close(LOOP_SCHEDULER_DRAIN);
}

static void post_2(void)
{
    post(2);
    leave_and_close(LOOP_SCHEDULER_DRAIN);
}

static void accounted(void)
{
    uint64_t ran = 0, told = 0, accepted = 0;
    for (int i = 0; i < TASKS; i++) {
        int outcomes = world.ran[i] + world.told[i];
        explore_check(outcomes == (world.posted[i] == 1));
        accepted += world.posted[i] == 1;
        ran += (uint64_t)world.ran[i];
        told += (uint64_t)world.told[i];
    }
    explore_check(ran + told == accepted);
}

static void all_ran(void)
{
    accounted();
    for (int i = 0; i < 3; i++) {
        explore_check(world.posted[i] == 1 && world.ran[i] == 1);
    }
    int zero = 0, one = 0;
    for (int i = 0; i < 3; i++) {
        zero = world.order[i] == 0 ? i : zero;
        one = world.order[i] == 1 ? i : one;
    }
    explore_check(zero < one);
}

#define BODIES(...) \
    { \
        __VA_ARGS__ \
    }
#define SCENARIO(NAME, CLAIM, SETUP, CHECK, THREADS, ...) \
    static const explore_scenario NAME = {.name = CLAIM, \
                                          .world = &world, \
                                          .world_size = sizeof world, \
                                          .setup = SETUP, \
                                          .body = THREADS, \
                                          .check = CHECK, \
                                          .words = {&world.l[0].word_.word}, \
                                          __VA_ARGS__}

static void close_drain(void)
{
    closed(LOOP_SCHEDULER_DRAIN);
}

static void close_now(void)
{
    closed(LOOP_SCHEDULER_NOW);
}

static void only_post_0(void)
{
    post(0);
}

static int called(void *arg)
{
    explore_check(loop_scheduler_is_current(L) && world.inside++ == 0);
    world.inside--;
    ++*(int *)arg;
    return 7;
}

static void both_ran(void)
{
    accounted();
    explore_check(world.ran[0] == 1 && world.ran[1] == 1);
}

#include "explore_posts.c"
#include "explore_later.c"
#include "explore_ends.c"

const explore_scenario *const explore_scenarios[] = {&two_posters,
                                                     &drain_races,
                                                     &now_races,
                                                     &nobody_runs,
                                                     &causal_order,
                                                     &own_post_before,
                                                     &own_posts_drain,
                                                     &own_posts_now,
                                                     &cancel_races,
                                                     &call_races_close,
                                                     &call_gives_up,
                                                     &call_gives_up_in_line,
                                                     &room,
                                                     &room_races_close,
                                                     &stop_races,
                                                     &stop_and_close,
                                                     &timer_wakes,
                                                     &timer_cancel_races,
                                                     &timer_races_close,
                                                     &period_cancel_races,
                                                     &drain_without_time,
                                                     &clean_up_waits,
                                                     &clean_up_has_a_limit,
                                                     &work_races_drain,
                                                     &work_races_close,
                                                     &work_is_refused,
                                                     &work_cancel_races,
                                                     &event_wakes,
                                                     &event_races_timeout,
                                                     &event_races_close,
                                                     &nobody_sets,
                                                     &circle,
                                                     &no_circle,
                                                     &call_back_at_once,
                                                     &last_touch,
                                                     &own_thread,
                                                     &restart,
                                                     &start_races_close,
                                                     &two_closers,
                                                     &two_closers_of_a_thread,
                                                     &stop_races_close,
                                                     &drain_has_an_end,
                                                     &looks,
                                                     NULL};
