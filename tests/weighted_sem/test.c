/* SPDX-License-Identifier: MIT
 *
 * What weighted_sem.h promises, claim by claim. Built as it ships, with PLIM_PARK_CND, with POSIX
 * threads, and with PLIM_SPIN=0.
 *
 * Jobs that a test must hold open wait at a gate, a csem of their own. Nothing here waits for time
 * to pass, except to see that something does not happen.
 */
#undef NDEBUG
#define WEIGHTED_SEM_IDLE_NS atomic_load(&idle_ns)

#include <stdatomic.h>
#include <stdint.h>
static _Atomic(int64_t) idle_ns = 60000000000; /* as long as no test shortens it */

#include "../../weighted_sem.h"
#include "../../semaphore.h"
#include "../support.h"
#include "../greatest.h"

#include <string.h>

#include "pieces.h"

#include "arguments.c"
#include "refusals.c"
#include "jobs.c"
#include "drain.c"
#include "bare.c"
#include "figures.c"
#include "order.c"
#include "close.c"
#include "lifetimes.c"
#include "inside.c"
#include "executors.c"
#include "by_hand.c"

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(weighted_sem_arguments);
    RUN_SUITE(weighted_sem_refusals);
    RUN_SUITE(weighted_sem_jobs);
    RUN_SUITE(weighted_sem_drains);
    RUN_SUITE(weighted_sem_bare);
    RUN_SUITE(weighted_sem_figures);
    RUN_SUITE(weighted_sem_order);
    RUN_SUITE(weighted_sem_ends);
    RUN_SUITE(weighted_sem_lifetimes);
    RUN_SUITE(weighted_sem_inside);
    RUN_SUITE(weighted_sem_executors);
    RUN_SUITE(weighted_sem_by_hand);
    GREATEST_MAIN_END();
}
