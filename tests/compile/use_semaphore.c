/* tests/compile/use_semaphore.c - uses every name of semaphore.h, as C11 and as C++11
 * SPDX-License-Identifier: MIT
 *
 * The scripts in this directory include it after semaphore.h, which they include in ways of their
 * own; then USE_ONLY is defined. Each header has such a file; it defines
 *
 *   use_NAME_c, use_NAME_cxx     calls every public function and macro once, and returns how many
 *                                answered wrongly; works on objects that both languages share
 *   USE_NAME_LAYOUT(ROW)         ROW(type) for every public type
 *
 * and nothing that does not begin with use_: whatever else an object file has is the header's.
 */
#ifndef USE_ONLY
#include "../../semaphore.h"
#endif

#ifdef __cplusplus
#define USE_SEMAPHORE use_semaphore_cxx
extern "C" {
#else
#define USE_SEMAPHORE use_semaphore_c
#endif

extern csem use_semaphore_shared;
int USE_SEMAPHORE(void);

#ifndef PLIM_PARK_CND
#ifdef __cplusplus
static_assert(sizeof(csem) == 8, "a csem has 8 bytes");
static_assert(alignof(csem) == 8, "aligned, or the processor cannot do it in one step");
#else
_Static_assert(sizeof(csem) == 8, "a csem has 8 bytes");
_Static_assert(_Alignof(csem) == 8, "aligned, or the processor cannot do it in one step");
#endif
#endif

#define USE_SEMAPHORE_LAYOUT(ROW) ROW(csem) ROW(csem_pool) ROW(csem_pool_link)

#ifndef __cplusplus
csem use_semaphore_shared = CSEM_INIT(1);
#endif

int USE_SEMAPHORE(void)
{
    /* In C++ this must not need a constructor at run time: the script looks. */
    static csem use_static = CSEM_INIT(CSEM_MAX);
    csem *s = &use_semaphore_shared;
    csem own;
    csem_pool pool;
    csem_pool_link links[2];
    uint32_t first = 0, second = 0;
    int entered = 0;
    int wrong = 0;

    wrong += csem_acquire(s) != 0;
    wrong += csem_try_acquire(s) != EAGAIN;
    wrong += csem_acquire_for(s, PLIM_US(1)) != ETIMEDOUT;
    wrong += csem_acquire_for(s, 0) != ETIMEDOUT;
    wrong += csem_release(s) != 0;
    wrong += csem_acquire_for(s, PLIM_FOREVER) != 0;
    wrong += csem_release_n(s, 1) != 0;
    CSEM_SCOPE (s) {
        entered++;
        wrong += csem_available(s) != 0;
    }
    wrong += entered != 1;
    wrong += csem_available(s) != 1;

    wrong += csem_init(&own, CSEM_MAX + 1) != EINVAL;
    wrong += csem_init(&own, 3) != 0;
    wrong += csem_try_acquire_n(&own, 2) != 0;
    wrong += csem_reduce(&own, 3) != 0;
    wrong += csem_available(&own) != -2;
    wrong += csem_release_n(&own, 4) != 0;
    wrong += csem_drain(&own) != 2;
    wrong += csem_waiters(&own) != 0;
    wrong += csem_close(&own) != 0;
    wrong += csem_acquire_for(&own, PLIM_MS(1) + PLIM_S(1)) != ESHUTDOWN;
    CSEM_SCOPE (&own) {
        wrong++;
    }

    wrong += csem_pool_init(&pool, links, CSEM_POOL_MAX + 1) != EINVAL;
    wrong += csem_pool_init(&pool, links, 2) != 0;
    wrong += csem_pool_take(&pool, &first) != 0;
    wrong += csem_pool_try_take(&pool, &second) != 0;
    wrong += first > 1 || second > 1 || first == second;
    wrong += csem_pool_take_for(&pool, &first, PLIM_US(1)) != ETIMEDOUT;
    wrong += csem_pool_put(&pool, second) != 0;
    wrong += csem_pool_close(&pool) != 0;

    /* Taken and given back: the function may be called again. */
    wrong += csem_release(&use_static) != EOVERFLOW;
    wrong += csem_try_acquire(&use_static) != 0;
    wrong += csem_release(&use_static) != 0;
    return wrong;
}

#ifdef __cplusplus
}
#endif
#undef USE_SEMAPHORE
