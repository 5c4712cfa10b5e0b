/* SPDX-License-Identifier: MIT
 *
 * What a scenario is. Included by each test after its `struct bench`: what the threads play with.
 */
#ifndef PLIM_TESTS_RELACY_SCENARIO_H
#define PLIM_TESTS_RELACY_SCENARIO_H

/* Flags of a scenario. Without TIME no timer goes off, so whoever sleeps must be woken; with it,
 * each execution picks whose timers go off, besides those that the scenario cannot do without. */
enum {
    TIMER_OF_1 = 1 << 1,
    TIMER_OF_2 = 1 << 2,
    TIME = 1 << 8,
    OWN = 1 << 9, /* this one and those above have a meaning in the test alone */
};

enum { ALL = -1 };

struct scenario {
    const char *name;
    rl::thread_id_t threads;
    uint32_t start; /* with how much it starts: a test has a use for that, or has none */
    unsigned flags;
    int bound; /* exhaustive search with up to so many forced switches, or ALL; 0: none */
    void (*thread)(bench &b, unsigned me);
    void (*after)(bench &b);
};

static const scenario *current;

#endif
