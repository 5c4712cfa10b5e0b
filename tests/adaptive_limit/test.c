/* SPDX-License-Identifier: MIT
 *
 * What adaptive_limit.h promises, claim by claim, in virtual time. (How well it does is tested by
 * tests/simulate.)
 */
#undef NDEBUG
#define PLIM_WANTS_THREADS_
#include <math.h>
#include "../../semaphore.h"
#include "../../adaptive_limit.h"
#include "../support.h"
#include "../greatest.h"

#include "pieces.h"

#include "limits.c"
#include "rules.c"
#include "samples.c"

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(adaptive_limits);
    RUN_SUITE(adaptive_rules);
    RUN_SUITE(adaptive_samples);
    GREATEST_MAIN_END();
}
