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
    wrong += cargo != 7;
    return wrong;
}
