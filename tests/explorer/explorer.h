/* SPDX-License-Identifier: MIT
 *
 * The schedule explorer. It runs a scenario of a few logical threads over the shipped headers again
 * and again, under every schedule it can tell apart, or under many random ones.
 *
 * A scenario is some shared memory (`world`), a function that sets it up, a body for each thread
 * and a check for the end. Bodies call the headers' functions; what they share must be in `world`.
 * A body may not keep anything in static variables or decide by the address of something.
 *
 * Between two steps of a thread any other thread may run. Sleeping threads may be woken for no
 * reason (`spurious` times in a run). A sleep with a deadline may end by it at any moment, four
 * times in a run and whenever no thread can run. The virtual clock then jumps there. Where a
 * scenario allows it, a thread vanishes before any of its steps or in its sleep, as with its
 * process.
 */
#ifndef PLIM_EXPLORE_H
#define PLIM_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXPLORE_THREADS = 6 };

typedef struct explore_scenario {
    const char *name;  /* a claim */
    void *world;       /* zeroed before every run */
    size_t world_size; /* */
    void (*setup)(void);
    void (*body[EXPLORE_THREADS])(void);
    void (*check)(void); /* after all threads have ended */
    uint64_t *words[2];  /* counter words in the world, for the invariants */
    int spurious;        /* wake-ups for no reason in a run */
    int deaths;          /* threads that vanish in a run, */
    bool (*mortal)(int); /* of those for whose number this is true at that moment */
    int spare;           /* threads that bodies may spawn */
    int preemptions;     /* 0: every schedule; else: those with at most so many */
    int64_t tick;        /* what the clock moves by when a sleeper is woken, for a reason or none */
    bool random_only;    /* too large to search exhaustively */
} explore_scenario;

extern const explore_scenario *const explore_scenarios[]; /* ends with NULL */

extern int explore_fault; /* the seeded fault that is on (switch.awk); 0: none */

/* For scenarios. A failed check ends the run and is reported with its schedule. */
#define explore_check(condition) \
    ((condition) ? (void)0 : explore_fail(__FILE__, __LINE__, #condition))
void explore_fail(const char *file, int line, const char *what);

/* This memory is gone: from now on only a blind wake-up may name it. */
void explore_free(const void *memory, size_t size);

/* How often a thread was taken from its sleep by a wake-up call, so far in this run. */
int explore_woken(void);

/* How many threads have vanished, so far in this run. */
int explore_dead(void);

/* For the platform. */
uint64_t explore_load(const uint64_t *p);
void explore_store(uint64_t *p, uint64_t v);
bool explore_cas(uint64_t *p, uint64_t *seen, uint64_t v);
uint64_t explore_add(uint64_t *p, uint64_t v);
int64_t explore_now(void);
void explore_park(const void *word, int lane, uint32_t half, int64_t deadline);
void explore_unpark(const void *word, int lane, uint32_t count);
void explore_nap(int64_t until);
void explore_wait_while(const uint64_t *p, uint64_t value); /* until it changes */

uint64_t explore_thread_id(void);
void *explore_thread_slot(void); /* of the scenario: a pointer in its world for each thread */
int explore_spawn(int (*run)(void *), void *arg); /* its number, or -1 if there is no spare one */
void explore_join(int thread);

/* What the module under test says about a step of a word from one value to another, and about one
 * of the scenario's words when all threads sleep; NULL is fine. */
const char *explore_bad_step(const uint64_t *word, uint64_t before, uint64_t after);
const char *explore_bad_rest(uint64_t word);
void explore_print_word(const uint64_t *word, uint64_t value);

#endif
