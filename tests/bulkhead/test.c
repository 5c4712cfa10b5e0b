/* SPDX-License-Identifier: MIT
 *
 * What bulkhead.h promises, claim by claim. Built as it ships, with PLIM_PARK_CND, with POSIX
 * threads, and with PLIM_SPIN=0.
 *
 * Jobs that a test must hold open wait at a gate, a csem of their own. Nothing here waits for time
 * to pass, except to see that something does not happen, or not too early. Figures that the lock
 * protects are read through bulkhead_snapshot.
 *
 * TEST_SCALE and TEST_LONG in the environment change how long some tests run: see support.h.
 */
#undef NDEBUG
#if !defined(_WIN32) && !defined(_GNU_SOURCE) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* setenv */
#endif

#include "pieces.h"

#include "options.c"
#include "admission.c"
#include "order.c"
#include "timeouts.c"
#include "enter.c"
#include "submit.c"
#include "inbox.c"
#include "deadlock.c"
#include "blocked.c"
#include "shrink.c"
#include "cancel.c"
#include "delays.c"
#include "retries.c"
#include "run_timeouts.c"
#include "workers.c"
#include "executors.c"
#include "later.c"
#include "later_kinds.c"
#include "refusals.c"
#include "resize.c"
#include "limiter.c"
#include "close.c"
#include "figures.c"
#include "events.c"
#include "sync.c"
#include "promises.c"
#include "races.c"

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(options_suite);
    RUN_SUITE(admission_suite);
    RUN_SUITE(order_suite);
    RUN_SUITE(timeouts_suite);
    RUN_SUITE(enter_suite);
    RUN_SUITE(submit_suite);
    RUN_SUITE(inbox_suite);
    RUN_SUITE(deadlock_suite);
    RUN_SUITE(blocked_suite);
    RUN_SUITE(shrink_suite);
    RUN_SUITE(cancel_suite);
    RUN_SUITE(delays_suite);
    RUN_SUITE(retries_suite);
    RUN_SUITE(run_timeouts_suite);
    RUN_SUITE(workers_suite);
    RUN_SUITE(executors_suite);
    RUN_SUITE(later_suite);
    RUN_SUITE(later_kinds_suite);
    RUN_SUITE(refusals_suite);
    RUN_SUITE(resize_suite);
    RUN_SUITE(limiter_suite);
    RUN_SUITE(close_suite);
    RUN_SUITE(figures_suite);
    RUN_SUITE(events_suite);
    RUN_SUITE(sync_suite);
    RUN_SUITE(promises_suite);
    RUN_SUITE(races_suite);
    GREATEST_MAIN_END();
}
