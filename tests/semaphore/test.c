/* SPDX-License-Identifier: MIT
 *
 * What semaphore.h promises, claim by claim. Built three times: as it ships, with PLIM_PARK_CND
 * (the same claims, except where it says otherwise), and with PLIM_SPIN=0.
 *
 * Tests that measure time accept no lower bound but the exact one, and an upper one only where a
 * failure would mean minutes.
 */
#undef NDEBUG
#define PLIM_WANTS_THREADS_
#include "../../semaphore.h"
#include "../support.h"
#include "../greatest.h"

#include <string.h>

#include "pieces.h"

#include "permits.c"
#include "waiting.c"
#include "fairness.c"
#include "pool.c"

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(semaphore_permits);
    RUN_SUITE(semaphore_waiting);
    RUN_SUITE(semaphore_fairness);
    RUN_SUITE(semaphore_pool);
    GREATEST_MAIN_END();
}
