/* SPDX-License-Identifier: MIT
 *
 * The headers together. Each is the executor of another; waits go from one to the other and come
 * back. There are three layers of limits, and the end of all that, in every order.
 *
 * What a test must hold open waits at a gate. Closes run on threads of their own. A test takes its
 * next step when it sees that a close has begun, so the order is what the test says.
 *
 * TEST_SCALE and TEST_LONG in the environment change how long some tests run: see support.h.
 */
#undef NDEBUG
/* The loop first: so what all headers share is in it, and its coverage has what bulkheads do there. */
#include "../../loop_scheduler.h"

#include "../../bulkhead.h"
#include "../../semaphore.h"
#include "../../weighted_sem.h"

#include "../greatest.h"
#include "../support.h"

#include <inttypes.h>
#include <string.h>

#include "pieces.h"

#include "waits.c"
#include "coroutines.c"
#include "coroutines_end.c"
#include "coroutine_jobs.c"
#include "offload.c"
#include "executors.c"
#include "ends.c"
#include "layers.c"

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(composition_waits);
    RUN_SUITE(composition_coroutines);
    RUN_SUITE(composition_coroutines_end);
    RUN_SUITE(composition_coroutine_jobs);
    RUN_SUITE(composition_offload);
    RUN_SUITE(composition_executors);
    RUN_SUITE(composition_ends);
    RUN_SUITE(composition_layers);
    GREATEST_MAIN_END();
}
