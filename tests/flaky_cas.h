/* SPDX-License-Identifier: MIT
 *
 * Compare-exchange that fails for no reason, as on ARM and RISC-V: every fail_every-th attempt
 * fails, and changes nothing. Include it before the header under test.
 */
#ifndef PLIM_TEST_FLAKY_CAS_H
#define PLIM_TEST_FLAKY_CAS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static atomic_uint_least64_t cas_attempts, fail_every; /* 0: never */

static bool fails(void)
{
    uint64_t every = atomic_load(&fail_every);
    return every != 0 && atomic_fetch_add(&cas_attempts, 1) % every == 0;
}

#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit(p, seen, v, success, failure) \
    (fails() ? (*(seen) = atomic_load_explicit((p), (failure)), false) \
             : atomic_compare_exchange_strong_explicit((p), (seen), (v), (success), (failure)))

#endif
