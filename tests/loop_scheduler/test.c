/* SPDX-License-Identifier: MIT
 *
 * What loop_scheduler.h promises, claim by claim. Built as it ships, with PLIM_PARK_CND, with POSIX
 * threads, and with PLIM_SPIN=0.
 *
 * Most tests run the loop on their own thread, turn by turn, with a clock of their own: nothing is
 * left to chance then. Where other threads matter, tasks that a test must hold open wait at a gate,
 * a csem of their own. Nothing here waits for time to pass, except to see that something does not
 * happen, or not too early.
 *
 * Each topic has a file. What most tests need stands on a stage, see stage.h.
 *
 * TEST_SCALE and TEST_LONG in the environment change how long some tests run: see support.h.
 */
#undef NDEBUG

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "../counted_memory.h"
#include "../../loop_scheduler.h"
#include "../../bulkhead.h"
#include "../../semaphore.h"
#include "../support.h"
#include "../crowd.h"
#include "../greatest.h"

#include <inttypes.h>
#include <string.h>

#include "pieces.h"
#include "works.h"
#include "stage.h"

#include "options.c"
#include "post.c"
#include "order.c"
#include "limits.c"
#include "cancel.c"
#include "call.c"
#include "deadlock.c"
#include "timers.c"
#include "timers_end.c"
#include "periods.c"
#include "run.c"
#include "close.c"
#include "destroy.c"
#include "offload.c"
#include "coroutines.c"
#include "coroutines_end.c"
#include "health.c"
#include "refusals.c"
#include "lifetimes.c"
#include "promises.c"

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(options_suite);
    RUN_SUITE(posting_suite);
    RUN_SUITE(order_and_turns_suite);
    RUN_SUITE(limits_suite);
    RUN_SUITE(cancel_suite);
    RUN_SUITE(calls_suite);
    RUN_SUITE(waits_that_could_never_end_suite);
    RUN_SUITE(timers_suite);
    RUN_SUITE(ends_of_timers_suite);
    RUN_SUITE(periods_suite);
    RUN_SUITE(running_suite);
    RUN_SUITE(close_suite);
    RUN_SUITE(destroy_suite);
    RUN_SUITE(work_elsewhere_suite);
    RUN_SUITE(coroutines_suite);
    RUN_SUITE(ends_of_coroutines_suite);
    RUN_SUITE(health_suite);
    RUN_SUITE(refusals_suite);
    RUN_SUITE(lifetimes_suite);
    RUN_SUITE(what_is_promised_throughout_suite);
    GREATEST_MAIN_END();
}
