/* SPDX-License-Identifier: MIT
 *
 * Scenarios for semaphore.h and the counter under it. Each is small enough to be searched through
 * all schedules, unless it says otherwise; mutants.txt lists the faults that they
 * must find. Built a second time with EXPLORE_TIGHT, for the limits of the word's small fields, and a
 * third time with PLIM_PROCESS_SHARED, where threads, as processes do, may vanish.
 */
#ifdef EXPLORE_TIGHT
#define PLIM_STARVING_MAX_ 1u
#define PLIM_TOKENS_MAX_ 1u
#endif
#define PLIM_PLATFORM "platform.h"
#define PLIM_SPIN 1 /* one look before sleeping: more of the same would only cost states */
#ifndef PLIM_HEADER
#define PLIM_HEADER "../../semaphore.h"
#endif
#include PLIM_HEADER

#include <stdio.h>

#define WORD (&world.s.counter_.word)

static struct world {
    csem s;
    int inside; /* threads between acquire and release */
    int got;    /* permits so far, where that matters */
    int reduce; /* a thread reduces: a permit may vanish from under a starving waiter */
    int has[EXPLORE_THREADS]; /* permits that each thread took and did not give */
    csem_pool pool;           /* of the scenarios for pools: see explore_pool.c */
    csem_pool_link links[2];
    int owned[2];
} world;

/* ---- what must hold for a counter's word ---- */

const char *explore_bad_step(const uint64_t *word, uint64_t before, uint64_t after)
{
    if (word != WORD && word != &world.pool.turns_.counter_.word) {
        return NULL; /* of a pool: its scenarios check it */
    }
    if (explore_thread_id() > 1) {
        world.has[explore_thread_id() - 2] += plim_available_(before) - plim_available_(after);
    }
    if (PLIM_SHARED_ && (plim_tokens_(after) != 0 || plim_starving_(after) != 0)) {
        return "nothing is kept that only a waiter can take back";
    }
    uint32_t normal = plim_waiters_(after) - plim_starving_(after);
    bool starving_leaves = plim_starving_(after) < plim_starving_(before);
    if (plim_starving_(after) > plim_waiters_(after) || plim_tokens_(after) > normal) {
        return "I4: no more starving waiters, or tokens, than waiters";
    }
    if ((after & PLIM_CLOSED_BITS_) != 0 && (after & PLIM_CLOSED_BITS_) != PLIM_CLOSED_BITS_) {
        return "I4: both closed bits agree";
    }
    if (plim_closed_(before) && !plim_closed_(after)) {
        return "closed is for ever";
    }
    if (!PLIM_SHARED_ && !plim_closed_(after) && plim_tokens_(after) < PLIM_TOKENS_MAX_ &&
        plim_free_(after) > (int32_t)plim_tokens_(after) && normal > plim_tokens_(after)) {
        return "I1: a token for each normal waiter for whom a permit is free";
    }
    if (plim_available_(after) < plim_available_(before) && plim_free_(after) < 0 &&
        !starving_leaves && world.reduce == 0) {
        return "a permit owed to a starving waiter goes to nobody else";
    }
    if (plim_waiters_(after) < plim_waiters_(before) && !plim_closed_(before) &&
        plim_available_(after) == plim_available_(before) &&
        (starving_leaves ? plim_available_(before) : plim_free_(before)) > 0) {
        return "nobody gives up while there is a permit for him";
    }
    return NULL;
}

const char *explore_bad_rest(uint64_t w)
{
    if (PLIM_SHARED_ && (explore_dead() > 0 || plim_waiters_(w) + 1 >= PLIM_WAITERS_MAX)) {
        return NULL; /* the dead are counted still, and a call that went to one may be missing */
    }
    if (plim_waiters_(w) == 0) {
        return plim_tokens_(w) != 0 || plim_starving_(w) != 0 ? "something is left behind" : NULL;
    }
    if (plim_closed_(w)) {
        return "closed, and a waiter sleeps on";
    }
    if (plim_free_(w) > 0 && plim_waiters_(w) > plim_starving_(w)) {
        return "lost wake-up: a permit is free, and a normal waiter sleeps";
    }
    if (plim_available_(w) > 0 && plim_starving_(w) > 0) {
        return "lost wake-up: a permit is there, and a starving waiter sleeps";
    }
    if (plim_tokens_(w) != 0) {
        return "I2: a token is out, and every waiter sleeps";
    }
    return NULL;
}

void explore_print_word(const uint64_t *word, uint64_t w)
{
    (void)word;
    printf("available %d, waiters %u, starving %u, tokens %u%s", (int)plim_available_(w),
           (unsigned)plim_waiters_(w), (unsigned)plim_starving_(w), (unsigned)plim_tokens_(w),
           plim_closed_(w) ? ", closed" : "");
}

/* ---- pieces ---- */

/* Up to two sleepers are woken for nothing, long after they came: that is how waiters starve. */
#define AGEING .spurious = 2, .tick = 4 * PLIM_PATIENCE_NS_

static void permits_0(void)
{
    csem_init(&world.s, 0);
}

static void permits_1(void)
{
    csem_init(&world.s, 1);
}

static void permits_2(void)
{
    csem_init(&world.s, 2);
}

/* Holds a permit for a step, in which others may run. */
static void hold(int most)
{
    world.inside++;
    explore_check(world.inside <= most);
    (void)csem_waiters(&world.s);
    world.inside--;
}

static void enter_and_leave(void)
{
    explore_check(csem_acquire(&world.s) == 0);
    hold(1);
    explore_check(csem_release(&world.s) == 0);
}

static void enter_and_leave_timed(void)
{
    int error = csem_acquire_for(&world.s, PLIM_US(100));
    explore_check(error == 0 || error == ETIMEDOUT);
    if (error == 0) {
        hold(1);
        csem_release(&world.s);
    }
}

static void enter_and_leave_unless_closed(void)
{
    int error = csem_acquire(&world.s);
    explore_check(error == 0 || error == ESHUTDOWN);
    if (error == 0) {
        hold(1);
        csem_release(&world.s);
    }
}

static void acquire(void)
{
    explore_check(csem_acquire(&world.s) == 0);
}

static void release(void)
{
    explore_check(csem_release(&world.s) == 0);
}

static void release_two(void)
{
    explore_check(csem_release_n(&world.s, 2) == 0);
}

static void close_it(void)
{
    explore_check(csem_close(&world.s) == 0);
}

/* At the end nothing is left in the word but the permits, and perhaps the closed bits. */
static void left(int32_t available)
{
    uint64_t w = *WORD & ~(PLIM_CLOSED_BITS_ | PLIM_SPIN_BITS_);
    explore_check(plim_available_(w) == available);
    explore_check((uint32_t)w == 0);
}

static void left_0(void)
{
    left(0);
}

static void left_1(void)
{
    left(1);
}

static void left_2(void)
{
    left(2);
}

#define SCENARIO(id, text, first, last, ...) \
    static const explore_scenario id = {.name = text, \
                                        .world = &world, \
                                        .world_size = sizeof world, \
                                        .words = {WORD}, \
                                        .setup = first, \
                                        .check = last, \
                                        __VA_ARGS__}
#define BODIES(...) .body = {__VA_ARGS__}

/* ---- scenarios ---- */

SCENARIO(two_on_one, "two acquirers, one permit", permits_1, left_1,
         BODIES(enter_and_leave, enter_and_leave), .spurious = 1);

SCENARIO(two_on_one_slowly, "two acquirers, one permit, slow wake-ups", permits_1, left_1,
         BODIES(enter_and_leave, enter_and_leave), .spurious = 1, .tick = PLIM_US(20));

SCENARIO(three_on_one, "three acquirers, one permit", permits_1, left_1,
         BODIES(enter_and_leave, enter_and_leave, enter_and_leave), .preemptions = 3);

SCENARIO(two_releases, "two waiters, two releases", permits_0, left_0,
         BODIES(acquire, acquire, release, release), .tick = PLIM_US(20), .preemptions = 3);

SCENARIO(release_races_timeout, "a release races a timeout", permits_0, left_1,
         BODIES(enter_and_leave_timed, release), .spurious = 1);

SCENARIO(timeout_hands_on, "a waiter that gives up hands its wake-up on", permits_0, left_1,
         BODIES(enter_and_leave_timed, enter_and_leave, release), .tick = PLIM_US(20),
         .preemptions = 3);

SCENARIO(release_races_close, "a release races a close", permits_0, left_1,
         BODIES(enter_and_leave_unless_closed, release, close_it), .spurious = 1);

SCENARIO(close_wakes_all, "close wakes the waiters of both lanes", permits_0, left_0,
         BODIES(enter_and_leave_unless_closed, enter_and_leave_unless_closed, close_it), AGEING);

static void close_and_be_refused(void)
{
    world.reduce = 1;
    csem_close(&world.s);
    explore_check(csem_acquire(&world.s) == ESHUTDOWN);
    explore_check(csem_reduce(&world.s, 1) == 0);
    explore_check(csem_release(&world.s) == 0);
    explore_check(csem_try_acquire(&world.s) == ESHUTDOWN);
}

SCENARIO(two_closers, "closed is for ever, and for everybody", permits_0, left_0,
         BODIES(enter_and_leave_unless_closed, close_and_be_refused, close_it));

SCENARIO(release_n_mixed, "release_n serves plain and timed waiters", permits_0, left_1,
         BODIES(acquire, enter_and_leave_timed, release_two));

static void barge_twice(void)
{
    for (int i = 0; i < 2; i++) {
        if (csem_try_acquire(&world.s) == 0) {
            hold(1);
            csem_release(&world.s);
        }
    }
}

SCENARIO(starving_and_barger, "a starving waiter is served although others barge", permits_1,
         left_1, BODIES(enter_and_leave, enter_and_leave, barge_twice), .preemptions = 3, AGEING);

SCENARIO(woken_and_starving, "a woken waiter that starves instead hands its token on", permits_1,
         left_1, BODIES(enter_and_leave, enter_and_leave, barge_twice), .preemptions = 3,
         .tick = 4 * PLIM_PATIENCE_NS_);

SCENARIO(starving_pair, "two waiters, starving or not, and two permits at once", permits_0, left_0,
         BODIES(acquire, acquire, release_two), AGEING);

/* Longer than the patience of a waiter: it may starve first and give up then. */
static void enter_and_leave_patiently(void)
{
    int error = csem_acquire_for(&world.s, 4 * PLIM_PATIENCE_NS_);
    explore_check(error == 0 || error == ETIMEDOUT);
    if (error == 0) {
        csem_release(&world.s);
    }
}

SCENARIO(starving_timeout, "a starving waiter that gives up leaves nothing behind", permits_0,
         left_0, BODIES(enter_and_leave_patiently, acquire, release), AGEING);

static void reduce_and_restore(void)
{
    world.reduce = 1;
    explore_check(csem_reduce(&world.s, 1) == 0);
    explore_check(csem_release(&world.s) == 0);
}

SCENARIO(reduce_and_waiters, "a reduction into debt, paid back, strands nobody", permits_1, left_1,
         BODIES(enter_and_leave, enter_and_leave, reduce_and_restore), .preemptions = 4, AGEING);

static void drain_and_restore(void)
{
    uint32_t n = csem_drain(&world.s);
    explore_check(n <= 2);
    explore_check(csem_release_n(&world.s, n) == 0);
}

SCENARIO(drain_and_waiters, "a drain, given back, strands nobody", permits_1, left_1,
         BODIES(enter_and_leave, enter_and_leave, drain_and_restore), .preemptions = 4, AGEING);

static void nothing(void)
{
}

static void acquire_and_free(void)
{
    explore_check(csem_acquire(&world.s) == 0);
    explore_free(&world.s, sizeof world.s);
}

SCENARIO(destroy, "whoever acquires may free the semaphore", permits_0, nothing,
         BODIES(acquire_and_free, release), .spurious = 1);

static void acquire_and_the_last_frees(void)
{
    explore_check(csem_acquire(&world.s) == 0);
    if (++world.got == 2) {
        explore_free(&world.s, sizeof world.s);
    }
}

SCENARIO(destroy_with_two, "the last of two acquirers may free the semaphore", permits_0, nothing,
         BODIES(acquire_and_the_last_frees, acquire_and_the_last_frees, release_two));

/* At most one runs and at most one waits; who comes on top is turned away. */
static void be_admitted(void)
{
    int error = plim_acquire_(&world.s.counter_, 1, PLIM_FOREVER);
    explore_check(error == 0 || error == EAGAIN);
    if (error == 0) {
        hold(1);
        csem_release(&world.s);
    }
    explore_check(csem_waiters(&world.s) <= 1);
}

SCENARIO(admission, "one decision: run, wait, or be turned away", permits_1, left_1,
         BODIES(be_admitted, be_admitted, be_admitted));

static void take_both(void)
{
    if (csem_try_acquire_n(&world.s, 2) == 0) {
        world.inside += 2;
        explore_check(world.inside <= 2);
        (void)csem_waiters(&world.s);
        world.inside -= 2;
        csem_release_n(&world.s, 2);
    }
}

SCENARIO(all_or_none, "try_acquire_n takes all or none", permits_2, left_2,
         BODIES(take_both, take_both, enter_and_leave));

static void no_herd(void)
{
    explore_check(explore_woken() <= 2);
    left(1);
}

SCENARIO(exact_wakes, "a permit wakes one sleeper, not all", permits_0, no_herd,
         BODIES(enter_and_leave, enter_and_leave, release));

static void all_sorts(void)
{
    for (int i = 0; i < 2; i++) {
        explore_check(csem_acquire(&world.s) == 0);
        hold(2);
        explore_check(csem_release(&world.s) == 0);
        if (csem_acquire_for(&world.s, PLIM_US(100) * (i + 1)) == 0) {
            hold(2);
            explore_check(csem_release(&world.s) == 0);
        }
    }
}

SCENARIO(five_threads, "five threads do everything at once", permits_2, left_2,
         BODIES(all_sorts, all_sorts, all_sorts, reduce_and_restore, take_both), .spurious = 2,
         .random_only = true);

SCENARIO(five_threads_slowly, "five threads do everything, with slow wake-ups", permits_2, left_2,
         BODIES(all_sorts, all_sorts, all_sorts, reduce_and_restore, drain_and_restore),
         .random_only = true, AGEING);

#include "explore_pool.c"

/* ---- deaths ---- */

#ifdef PLIM_PROCESS_SHARED
/* The first thread may vanish while it has no permit; one that has takes it along. */
static bool first_without_permit(int thread)
{
    return thread == 0 && world.has[0] == 0;
}

static bool first_two_without_permit(int thread)
{
    return thread < 2 && world.has[thread] == 0;
}

/* Between giving a permit and calling whoever waits for it. */
static bool giver(int thread)
{
    return world.has[thread] < 0;
}

/* All permits are there, and nobody is counted who did not vanish. */
static void left_1_by_the_living(void)
{
    uint64_t w = *WORD & ~(PLIM_CLOSED_BITS_ | PLIM_SPIN_BITS_);
    explore_check(plim_available_(w) == 1);
    explore_check(plim_waiters_(w) <= (uint32_t)explore_dead());
    explore_check(csem_try_acquire(&world.s) == (plim_closed_(*WORD) ? ESHUTDOWN : 0));
}

SCENARIO(death_among_two, "one of two vanishes without a permit", permits_1, left_1_by_the_living,
         BODIES(enter_and_leave, enter_and_leave), .spurious = 1, .deaths = 1,
         .mortal = first_without_permit);

SCENARIO(death_among_three, "one of three vanishes without a permit", permits_1,
         left_1_by_the_living, BODIES(enter_and_leave, enter_and_leave, enter_and_leave),
         .preemptions = 2, .deaths = 1, .mortal = first_without_permit);

SCENARIO(death_when_woken, "the woken one vanishes, and the permit goes to another", permits_0,
         left_1_by_the_living, BODIES(enter_and_leave, enter_and_leave, release), .preemptions = 3,
         .deaths = 1, .mortal = first_without_permit);

SCENARIO(death_of_old_waiters, "waiters vanish after long waits in vain", permits_1,
         left_1_by_the_living, BODIES(enter_and_leave, enter_and_leave, barge_twice),
         .preemptions = 2, .deaths = 2, .mortal = first_two_without_permit, AGEING);

SCENARIO(death_of_a_giver, "a giver vanishes before it has called anybody", permits_0,
         left_1_by_the_living, BODIES(enter_and_leave, enter_and_leave, release), .preemptions = 3,
         .deaths = 1, .mortal = giver);

SCENARIO(death_and_timeout, "one vanishes, another gives up", permits_0, left_1_by_the_living,
         BODIES(enter_and_leave, enter_and_leave_timed, release), .preemptions = 3, .deaths = 1,
         .mortal = first_without_permit);

SCENARIO(death_and_close, "one vanishes, and close reaches the other", permits_0, nothing,
         BODIES(enter_and_leave_unless_closed, enter_and_leave_unless_closed, close_it),
         .preemptions = 3, .deaths = 1, .mortal = first_without_permit);

static void full_of_the_dead(void)
{
    csem_init(&world.s, 1);
    *WORD += PLIM_WAITERS_MAX * PLIM_WAITERS_ONE_;
}

static void almost_full_of_the_dead(void)
{
    csem_init(&world.s, 1);
    *WORD += (PLIM_WAITERS_MAX - 1) * PLIM_WAITERS_ONE_;
}

static void still_full_of_the_dead(void)
{
    explore_check(plim_available_(*WORD) == 1);
    explore_check(plim_waiters_(*WORD) == PLIM_WAITERS_MAX);
}

static void left_1_and_the_dead(void)
{
    explore_check(plim_available_(*WORD) == 1);
    explore_check(plim_waiters_(*WORD) >= PLIM_WAITERS_MAX - 1);
}

SCENARIO(death_of_too_many, "more have vanished than can be counted", full_of_the_dead,
         still_full_of_the_dead, BODIES(enter_and_leave, enter_and_leave, enter_and_leave_timed),
         .preemptions = 2);

SCENARIO(death_of_almost_too_many, "as many have vanished as can be counted",
         almost_full_of_the_dead, left_1_and_the_dead, BODIES(enter_and_leave, enter_and_leave),
         .preemptions = 3);

SCENARIO(deaths_at_random, "five threads, of which two vanish", permits_2, nothing,
         BODIES(all_sorts, all_sorts, all_sorts, all_sorts, take_both), .spurious = 2, .deaths = 2,
         .mortal = first_two_without_permit, .random_only = true);
#endif

const explore_scenario *const explore_scenarios[] = {&two_on_one,
                                                     &two_on_one_slowly,
                                                     &three_on_one,
                                                     &two_releases,
                                                     &release_races_timeout,
                                                     &timeout_hands_on,
                                                     &release_races_close,
                                                     &close_wakes_all,
                                                     &two_closers,
                                                     &release_n_mixed,
                                                     &starving_and_barger,
                                                     &woken_and_starving,
                                                     &starving_pair,
                                                     &starving_timeout,
                                                     &reduce_and_waiters,
                                                     &drain_and_waiters,
                                                     &destroy,
                                                     &destroy_with_two,
                                                     &admission,
                                                     &all_or_none,
                                                     &exact_wakes,
                                                     &five_threads,
                                                     &five_threads_slowly,
                                                     &pool_two_on_one,
                                                     &pool_three_on_one,
                                                     &pool_held_up,
                                                     &pool_three_on_two,
                                                     &pool_timeout,
                                                     &pool_timeout_of_one,
                                                     &pool_close,
                                                     &pool_close_and_timeout,
#ifdef PLIM_PROCESS_SHARED
                                                     &death_among_two,
                                                     &death_among_three,
                                                     &death_when_woken,
                                                     &death_of_old_waiters,
                                                     &death_of_a_giver,
                                                     &death_and_timeout,
                                                     &death_and_close,
                                                     &death_of_too_many,
                                                     &death_of_almost_too_many,
                                                     &deaths_at_random,
#endif
                                                     NULL};
