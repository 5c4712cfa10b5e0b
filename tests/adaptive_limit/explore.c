/* SPDX-License-Identifier: MIT
 *
 * Scenarios for adaptive_limit.h: threads that tell of calls while others end a window. What they
 * must find is in mutants.txt. A look at a window is a step for each of its 129 words, at which
 * others could run; so the preemptions are few.
 */
#include <stddef.h>
#include <stdint.h>

#define PLIM_PLATFORM "platform.h"
#ifndef PLIM_HEADER
#define PLIM_HEADER "../../adaptive_limit.h"
#endif
#include PLIM_HEADER

#include <stdio.h>

enum { BEFORE = 10 };               /* calls that were told of */
#define USUAL ((int64_t)1 << 20)    /* how long a call takes; */
#define LONGER (USUAL + USUAL / 16) /* or that, which is in the same cell */

static struct world {
    adaptive_limit a;
    void *slot[EXPLORE_THREADS + 2];
} world;

void *explore_thread_slot(void)
{
    return &world.slot[explore_thread_id()];
}

const char *explore_bad_step(const uint64_t *word, uint64_t before, uint64_t after)
{
    (void)word, (void)before, (void)after;
    return NULL;
}

const char *explore_bad_rest(uint64_t word)
{
    (void)word;
    return NULL; /* nobody ever sleeps */
}

void explore_print_word(const uint64_t *word, uint64_t value)
{
    const char *name = word == &world.a.until   ? "until"
                       : word == &world.a.limit ? "limit"
                       : word == &world.a.peak  ? "peak"
                                                : "a word";
    printf("%s: %llx", name, (unsigned long long)value);
}

/* A window with ten calls, which ends at 1 ms. */
static void almost_over(void)
{
    explore_check(adaptive_limit_init(&world.a, NULL) == 0);
    world.a.settles = false;
    world.a.since = 0;
    world.a.length = PLIM_MS(1);
    plim_store_relaxed_(&world.a.until, (uint64_t)PLIM_MS(1));
    for (int i = 0; i < BEFORE; i++) {
        adaptive_limit_sample(&world.a, i, USUAL, 4, ADAPTIVE_OK);
    }
}

static void nothing_told(void)
{
    explore_check(adaptive_limit_init(&world.a, NULL) == 0);
}

static void end(void)
{
    const uint32_t limit = adaptive_limit_sample(&world.a, PLIM_MS(2), USUAL, 4, ADAPTIVE_OK);
    explore_check(limit == 4 || limit == 2);
}

static void tell(void)
{
    const uint32_t limit = adaptive_limit_sample(&world.a, PLIM_US(5), LONGER, 4, ADAPTIVE_OK);
    explore_check(limit == 4 || limit == 2);
}

static void tell_and_read(void)
{
    const adaptive_limit_state before = adaptive_limit_read(&world.a);
    tell();
    const adaptive_limit_state after = adaptive_limit_read(&world.a);
    explore_check(before.limit == 4 || before.limit == 2);
    explore_check(after.windows[ADAPTIVE_PROBED] >= before.windows[ADAPTIVE_PROBED]);
}

static uint64_t left(void)
{
    uint64_t calls = 0;
    for (int i = 0; i < ADAPTIVE_CELLS_; i++) {
        calls += world.a.cells[i] & ADAPTIVE_COUNT_MASK_;
    }
    return calls;
}

/* One window has ended. Which calls it saw is told by their mean: all that it did not see are there
 * for the next. */
static void ended_once(void)
{
    const adaptive_limit *a = &world.a;
    explore_check(a->until != ADAPTIVE_TURN_ && a->until > (uint64_t)PLIM_MS(2));
    explore_check(adaptive_limit_read(a).limit == 2);
    explore_check(a->windows[ADAPTIVE_PROBED] == 1);
    explore_check(left() <= 2 && world.a.wasted == 0);
}

static void one_was_told(void)
{
    ended_once();
    explore_check((world.a.sample_ns > (uint64_t)USUAL) == (left() == 0));
}

/* The first window has begun, and has not ended: it has all calls. */
static void begun_once(void)
{
    explore_check(world.a.until == (uint64_t)(PLIM_US(5) + PLIM_MS(100)));
    explore_check(left() == 2);
}

#define SCENARIO(id, text, first, last, ...) \
    static const explore_scenario id = {.name = text, \
                                        .world = &world, \
                                        .world_size = sizeof world, \
                                        .words = {&world.a.until}, \
                                        .setup = first, \
                                        .check = last, \
                                        __VA_ARGS__}
#define BODIES(...) .body = {__VA_ARGS__}

SCENARIO(told_meanwhile, "a call is told of while a window ends", almost_over, one_was_told,
         BODIES(end, tell_and_read), .preemptions = 2);
SCENARIO(two_enders, "two threads end a window at once", almost_over, ended_once, BODIES(end, end),
         .preemptions = 2);
SCENARIO(three, "two end a window at once, and a third tells of a call", almost_over, ended_once,
         BODIES(end, end, tell), .preemptions = 1);

SCENARIO(two_first, "two threads tell of the first calls", nothing_told, begun_once,
         BODIES(tell, tell), .preemptions = 2);

const explore_scenario *const explore_scenarios[] = {&told_meanwhile, &two_enders, &three,
                                                     &two_first, NULL};
