/* SPDX-License-Identifier: MIT
 *
 * Compare-exchange that fails for no reason, as on ARM and RISC-V: every fail_every-th attempt
 * fails, and changes nothing. And something that happens just before the compare-exchange of one
 * word, as if another thread did it. Include it before the header under test.
 */
#ifndef PLIM_TEST_FLAKY_CAS_H
#define PLIM_TEST_FLAKY_CAS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static atomic_uint_least64_t cas_attempts, fail_every; /* 0: never */

/* Done once, by the next thread that is about to change this word. A test that sets it is the only
 * thread, or the only one that changes the word. */
static const volatile void *moment_of;
static void (*in_that_moment)(void);

static bool fails(const volatile void *word)
{
    if (moment_of != NULL && word == moment_of) {
        moment_of = NULL;
        in_that_moment();
    }
    uint64_t every = atomic_load(&fail_every);
    return every != 0 && atomic_fetch_add(&cas_attempts, 1) % every == 0;
}

#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit(p, seen, v, success, failure) \
    (fails(p) ? (*(seen) = atomic_load_explicit((p), (failure)), false) \
              : atomic_compare_exchange_strong_explicit((p), (seen), (v), (success), (failure)))

#endif
