/* SPDX-License-Identifier: MIT
 *
 * Scenarios for weighted_sem.h. mutants.txt has the faults that they must find. Most are searched
 * with a bounded number of preemptions. A critical section has many steps at which other threads
 * could run, but those would only wait for the lock.
 */
#include <stddef.h>
#include <stdint.h>

static void *world_memory(size_t size);
#define PLIM_MALLOC(size) world_memory(size)
#define PLIM_FREE(memory) ((void)(memory))
#define PLIM_PLATFORM "platform.h"
#define PLIM_SPIN 1 /* one look before sleeping: more of the same would only cost states */
#ifndef PLIM_HEADER
#define PLIM_HEADER "../../weighted_sem.h"
#endif
#include PLIM_HEADER
#include "../../src/core/operations.h" /* threads tell each other something by counters */

#include <stdio.h>

static struct world {
    weighted_sem w;
    uint64_t inside, limit;  /* weight held now, and at most */
    weighted_sem_job job[3]; /* of the threads */
    bool began[3], ended[3]; /* likewise */
    bool saw_heavy_wait;     /* when the light one came */
    int runs, deadlocks, errors;
    plim_counter tasks;  /* of an executor; or who has come to a meeting, */
    plim_counter second; /* and who else */
    void (*run[4])(void *);
    void *arg[4];
    int tasks_in, tasks_out;
    void *slot[EXPLORE_THREADS + 2];
    size_t used;
    PLIM_ALIGN8_ char memory[2048];
} world;

void *explore_thread_slot(void)
{
    return &world.slot[explore_thread_id()];
}

static void *world_memory(size_t size)
{
    void *at = &world.memory[world.used];
    world.used += (size + 15) / 16 * 16;
    explore_check(world.used <= sizeof world.memory);
    return at;
}

/* ---- what must hold for the word ---- */

const char *explore_bad_step(const uint64_t *word, uint64_t before, uint64_t after)
{
    const uint64_t owned = PLIM_HELD_ | PLIM_WATCHED_;
    if (word != &world.w.gate.word || world.w.total == 0) {
        return NULL;
    }
    int64_t used = (int64_t)world.w.total - weighted_sem_free_(after);
    uint32_t jobs = weighted_sem_jobs_(after);
    if ((before & WEIGHTED_SEM_CLOSED_) != 0 && (after & WEIGHTED_SEM_CLOSED_) == 0) {
        return "closed is for ever";
    }
    if ((before & owned) != 0 && world.w.gate.lock == 0) {
        return "while it is held or watched, only the holder of the lock changes the word";
    }
    if ((after & PLIM_HELD_) != 0) {
        return NULL;
    }
    if (used < (int64_t)jobs) {
        return "each job has some of the weight";
    }
    if (weighted_sem_free_(after) < weighted_sem_free_(before) && (before & owned) == 0 &&
        weighted_sem_free_(after) < 0) {
        return "nobody takes what is not there";
    }
    return NULL;
}

const char *explore_bad_rest(uint64_t word)
{
    weighted_sem *w = &world.w;
    weighted_sem_sleeper_ *first = (weighted_sem_sleeper_ *)(void *)w->queue.first;
    bool watched = first != NULL || w->quiet.first != NULL || w->drains.first != NULL;
    uint32_t left = 0;
    for (plim_node_ *at = w->drains.first; at != NULL; at = at->next) {
        left += ((weighted_sem_sleeper_ *)(void *)at)->left;
    }
    if (w->gate.lock != 0 || (word & PLIM_HELD_) != 0) {
        return "everybody sleeps, and the lock is held";
    }
    if (left > weighted_sem_jobs_(word)) {
        return "D1: drains wait for more jobs than there are";
    }
    if (watched != ((word & PLIM_WATCHED_) != 0)) {
        return "watched if and only if somebody waits";
    }
    if (first != NULL && weighted_sem_fits_(word, first->weight, first->job)) {
        return "lost wake-up: the first in the queue fits, and sleeps";
    }
    if (first != NULL && (word & WEIGHTED_SEM_CLOSED_) != 0) {
        return "closed, and somebody waits on";
    }
    if (w->quiet.first != NULL && weighted_sem_free_(word) == (int64_t)w->total && first == NULL) {
        return "lost wake-up: all weight is free, nobody waits, and drain_all sleeps";
    }
    if (w->drains.first != NULL && ((weighted_sem_sleeper_ *)(void *)w->drains.first)->left == 0) {
        return "lost wake-up: all jobs of a drain have ended, and it sleeps";
    }
    if (w->ready > w->idle || w->idle > w->crew.threads) {
        return "B1: more tasks are ready than workers idle";
    }
    if (w->ready != 0) {
        return "B2: a task is ready, and no worker is on its way";
    }
    return NULL;
}

void explore_print_word(const uint64_t *word, uint64_t value)
{
    if (word == &world.w.gate.word) {
        printf("word: free %d, jobs %u%s%s%s", (int)weighted_sem_free_(value),
               (unsigned)weighted_sem_jobs_(value),
               (value & WEIGHTED_SEM_CLOSED_) != 0 ? ", closed" : "",
               (value & PLIM_WATCHED_) != 0 ? ", watched" : "",
               (value & PLIM_HELD_) != 0 ? ", held" : "");
    } else if (word == &world.w.gate.lock) {
        printf("lock: %s", value != 0 ? "held" : "free");
    } else {
        printf("other: %llx", (unsigned long long)value);
    }
}

/* ---- pieces ---- */

static void total_of(uint64_t total, uint32_t window, uint32_t budget)
{
    weighted_sem_options options = {.total = total, .expected_jobs = 2, .error_capacity = 2};
    options.bypass_window = window;
    options.bypass_budget = budget;
    explore_check(weighted_sem_init(&world.w, &options) == 0);
    world.limit = total;
}

static void total_1(void)
{
    total_of(1, 0, 0);
}

static void total_2(void)
{
    total_of(2, 0, 0);
}

static void bypass_2(void)
{
    total_of(2, 1, 1);
}

static void hold(uint64_t weight)
{
    world.inside += weight;
    explore_check(world.inside <= world.limit);
    (void)weighted_sem_executing(&world.w); /* a step, at which others may run */
    world.inside -= weight;
}

static void enter_and_leave(uint64_t weight, int64_t timeout_ns)
{
    int error = weighted_sem_acquire_for(&world.w, weight, timeout_ns);
    explore_check(error == 0 || error == ESHUTDOWN || error == ERANGE || error == ETIMEDOUT);
    explore_check(error != ETIMEDOUT || timeout_ns != PLIM_FOREVER);
    if (error == 0) {
        hold(weight);
        explore_check(weighted_sem_release(&world.w, weight) == 0);
    }
}

static void one(void)
{
    enter_and_leave(1, PLIM_FOREVER);
}

static void two(void)
{
    enter_and_leave(2, PLIM_FOREVER);
}

static void two_for_a_while(void)
{
    enter_and_leave(2, PLIM_US(100));
}

static void one_for_a_while(void)
{
    enter_and_leave(1, PLIM_US(100));
}

static void begin_and_finish(int i, uint64_t weight, int error)
{
    explore_check(weighted_sem_begin(&world.w, weight, &world.job[i]) == 0);
    world.began[i] = true;
    hold(weight);
    world.ended[i] = true;
    explore_check(weighted_sem_finish(&world.job[i], error) == 0);
}

/* Nothing is left behind. */
static void all_given_back(void)
{
    weighted_sem *w = &world.w;
    explore_check(weighted_sem_available(w) == weighted_sem_total(w));
    explore_check(weighted_sem_executing(w) == 0 && weighted_sem_waiting(w) == 0);
    explore_check((w->gate.word & (PLIM_HELD_ | PLIM_WATCHED_)) == 0);
    explore_check(w->gate.lock == 0 && w->queue.first == NULL);
    explore_check(w->drains.first == NULL && w->ready == 0 && w->crew.searching == 0);
    explore_check(w->idle == w->crew.threads);
}

#define SCENARIO(id, text, first, last, ...) \
    static const explore_scenario id = {.name = text, \
                                        .world = &world, \
                                        .world_size = sizeof world, \
                                        .words = {&world.w.gate.word}, \
                                        .setup = first, \
                                        .check = last, \
                                        __VA_ARGS__}
#define BODIES(...) .body = {__VA_ARGS__}

#include "explore_callers.c"
#include "explore_jobs.c"

const explore_scenario *const explore_scenarios[] = {&two_on_one,
                                                     &heavy_head,
                                                     &head_times_out,
                                                     &timeout_lets_in,
                                                     &resize_lets_in,
                                                     &all_time_out,
                                                     &resize_races,
                                                     &close_races,
                                                     &close_lets_go,
                                                     &bypass,
                                                     &tries,
                                                     &drain_races_start,
                                                     &two_drains,
                                                     &drain_times_out,
                                                     &drain_all_races,
                                                     &bare_pieces,
                                                     &drain_and_bare_weight,
                                                     &drain_beside_bare_weight,
                                                     &drain_all_and_bare_weight,
                                                     &too_much,
                                                     &own_workers,
                                                     &own_worker,
                                                     &destroy_and_hire,
                                                     &two_starters,
                                                     &starter_and_caller,
                                                     &meetings,
                                                     &too_few_threads,
                                                     &greedy_jobs,
                                                     &executor,
                                                     &nested_jobs,
                                                     &errors,
                                                     &drained_errors,
                                                     &destroy,
                                                     NULL};
