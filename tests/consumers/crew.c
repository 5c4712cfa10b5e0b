/* crew.c - another source file that uses what dock.c initialised
 * SPDX-License-Identifier: MIT
 */
#include "dock.h"
#include <plimsoll/semaphore.h> /* once more does no harm */

static int load(void *cargo)
{
    return *(int *)cargo;
}

static int lift(bulkhead_job *job)
{
    ++*(int *)job->arg;
    return 0;
}

static void unload(void *cargo)
{
    --*(int *)cargo;
}

int crew_works(dock *d)
{
    int wrong = 0;
    int cargo = 5;
    int result = 0;
    wrong += csem_try_acquire(&d->berths) != 0 || csem_available(&d->berths) != 1;
    wrong += csem_release(&d->berths) != 0;
    wrong += weighted_sem_complete(&d->quay, 3, load, &cargo, &result) != 0 || result != 5;
    wrong += loop_scheduler_call(&d->office, load, &cargo, &result) != 0 || result != 5;

    bulkhead_job here = {.run = lift, .arg = &cargo};
    bulkhead_job there = {.run = lift, .arg = &cargo};
    wrong += bulkhead_submit(&d->crane, &here) != 0; /* by the code of this file */
    wrong += dock_submit(&there) != 0;               /* by that of the other */
    wrong += bulkhead_wait(&here, PLIM_FOREVER) != 0 || bulkhead_wait(&there, PLIM_FOREVER) != 0;
    wrong += cargo != 7 || d->jobs != 2;

    /* Work for others is no job of the program's, in whichever file it was handed over. */
    plim_executor crane = bulkhead_executor(&d->crane);
    wrong += crane.execute(crane.ctx, unload, &cargo) != 0;
    wrong += bulkhead_wait_idle(&d->crane, PLIM_FOREVER) != 0;
    wrong += cargo != 6 || d->jobs != 2;
    return wrong;
}

static int call_back(void *caller)
{
    /* The limit is for a loop that does not see the circle: it fails, and does not hang. */
    int cargo = 0;
    return loop_scheduler_call_for((loop_scheduler *)caller, load, &cargo, NULL, PLIM_S(10));
}

int crew_calls_back(loop_scheduler *caller)
{
    loop_scheduler mess;
    int result = 0;
    int error = loop_scheduler_init(&mess, NULL);
    error = error != 0 ? error : loop_scheduler_start(&mess);
    if (error != 0) {
        return error;
    }
    error = loop_scheduler_call(&mess, call_back, caller, &result);
    error = error != 0 ? error : result;
    int closed = loop_scheduler_close(&mess, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER);
    closed = closed != 0 ? closed : loop_scheduler_destroy(&mess);
    return closed != 0 ? closed : error;
}
