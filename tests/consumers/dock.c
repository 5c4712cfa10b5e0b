/* dock.c - owns the objects; compiled into the program, or into a shared library beside it
 * SPDX-License-Identifier: MIT
 */
#include "dock.h"

static dock the_dock;

dock *dock_open(const loop_scheduler *kin)
{
    weighted_sem_options quay = {.total = 8};
    bulkhead_options crane = {.type = BULKHEAD_ASYNC, .permits = 1, .queue = 4};
    loop_scheduler_options office = {.kin = kin};
    csem_init(&the_dock.berths, 2);
    if (weighted_sem_init(&the_dock.quay, &quay) != 0 ||
        bulkhead_init(&the_dock.crane, &crane) != 0 ||
        loop_scheduler_init(&the_dock.office, &office) != 0 ||
        loop_scheduler_start(&the_dock.office) != 0) {
        return NULL;
    }
    return &the_dock;
}

int dock_submit(bulkhead_job *job)
{
    return bulkhead_submit(&the_dock.crane, job);
}

static int nothing(void *arg)
{
    return arg == NULL;
}

static int call_back(void *caller)
{
    /* The limit is for a loop that does not see the circle: it fails, and does not hang. */
    return loop_scheduler_call_for((loop_scheduler *)caller, nothing, caller, NULL, PLIM_S(10));
}

int dock_calls_back(loop_scheduler *caller)
{
    int result = 0;
    int error = loop_scheduler_call(&the_dock.office, call_back, caller, &result);
    return error != 0 ? error : result;
}

int dock_close(void)
{
    int wrong = loop_scheduler_close(&the_dock.office, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) != 0;
    wrong += loop_scheduler_destroy(&the_dock.office) != 0;
    wrong += bulkhead_close(&the_dock.crane, BULKHEAD_DRAIN, PLIM_FOREVER) != 0;
    wrong += bulkhead_destroy(&the_dock.crane) != 0;
    wrong += weighted_sem_close(&the_dock.quay) != 0;
    wrong += weighted_sem_destroy(&the_dock.quay) != 0;
    return wrong;
}
