/* SPDX-License-Identifier: MIT
 *
 * Threads do random things to one semaphore, round after round, with all that a caller may do:
 * plain, timed and tried acquires, bulk releases, reductions, drains, closes. After each round the
 * books are checked: permits conserved, nobody inside too many, nothing left in the word.
 *
 *   stress [SECONDS] [SEED]
 */
#undef NDEBUG
#define PLIM_WANTS_THREADS_
#include "../../semaphore.h"
#include "../support.h"
#include "../stress.h"

#include <inttypes.h>

enum { MOST_THREADS = 12 };

typedef struct round_ {
    csem s;
    atomic_int inside, too_many, odd;
    atomic_uint_least64_t operations;
    int permits, steps;
    bool closes;
} round_;

typedef struct member {
    round_ *r;
    uint64_t random;
    plim_thread thread;
} member;

static void hold(round_ *r, uint64_t random)
{
    int inside = atomic_fetch_add(&r->inside, 1) + 1;
    if (inside > r->permits) {
        atomic_fetch_add(&r->too_many, 1);
    }
    dawdle(random);
    atomic_fetch_sub(&r->inside, 1);
}

static plim_thread_result take_part(void *arg)
{
    member *m = arg;
    round_ *r = m->r;
    for (int i = 0; i < r->steps; i++) {
        uint64_t random = next_random(&m->random);
        uint32_t n = (uint32_t)(random >> 8) % 3 + 1;
        int error = 0;
        switch (random % 16) {
        case 0:
            error = csem_try_acquire(&r->s);
            break;
        case 1:
            error = csem_try_acquire_n(&r->s, n);
            if (error == 0) {
                csem_release_n(&r->s, n);
                continue;
            }
            break;
        case 2:
            csem_reduce(&r->s, n);
            plim_thread_yield_();
            csem_release_n(&r->s, n);
            continue;
        case 3:
            n = csem_drain(&r->s);
            csem_release_n(&r->s, n);
            continue;
        case 4:
        case 5:
        case 6:
        case 7:
            error = csem_acquire_for(&r->s, (int64_t)(random >> 16) % PLIM_US(200));
            break;
        case 8:
            error = csem_acquire_for(&r->s, PLIM_MS(20)); /* long enough to starve */
            break;
        default:
            error = csem_acquire(&r->s);
        }
        if (error == 0) {
            hold(r, random >> 20);
            csem_release(&r->s);
        } else if (error != EAGAIN && error != ETIMEDOUT && !(error == ESHUTDOWN && r->closes)) {
            atomic_fetch_add(&r->odd, 1);
        }
        if (error == ESHUTDOWN) {
            break;
        }
        if (r->closes && i == r->steps / 2 && random % 4 == 0) {
            csem_close(&r->s);
        }
        atomic_fetch_add(&r->operations, 1);
    }
    return 0;
}

int main(int argc, char **argv)
{
    stress run = stress_begin("semaphore/stress", argc, argv);
    while (stress_goes_on(&run)) {
        round_ r = {.steps = 200, .permits = (int)(next_random(&run.random) % 4) + 1};
        member m[MOST_THREADS];
        int threads = (int)(next_random(&run.random) % (MOST_THREADS - 1)) + 2;
        r.closes = next_random(&run.random) % 4 == 0;
        csem_init(&r.s, (uint32_t)r.permits);
        for (int i = 0; i < threads; i++) {
            m[i] = (member){.r = &r, .random = next_random(&run.random)};
            start(&m[i].thread, take_part, &m[i]);
        }
        for (int i = 0; i < threads; i++) {
            join(m[i].thread);
        }
        uint64_t w =
            plim_load_relaxed_(&r.s.counter_.word) & ~(PLIM_CLOSED_BITS_ | PLIM_SPIN_BITS_);
        run.failed += w != (uint64_t)r.permits * PLIM_PERMIT_ONE_;
        run.failed += atomic_load(&r.too_many) != 0 || atomic_load(&r.odd) != 0;
        run.operations += atomic_load(&r.operations);
        run.rounds++;
        if (run.failed != 0) {
            printf("round %d, %d threads, %d permits: word %016" PRIx64 ", %d too many inside, "
                   "%d odd answers\n",
                   run.rounds, threads, r.permits, w, atomic_load(&r.too_many),
                   atomic_load(&r.odd));
        }
    }
    return stress_end(&run);
}
