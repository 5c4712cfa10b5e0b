/* dock.c - owns the objects; compiled into the program, or into a shared library beside it
 * SPDX-License-Identifier: MIT
 */
#include "dock.h"

static dock the_dock;

static void note_jobs(void *user, const bulkhead_event *event)
{
    ((dock *)user)->jobs += event->type == BULKHEAD_EVENT_ACCEPTED && event->job != NULL;
}

dock *dock_open(void)
{
    weighted_sem_options quay = {.total = 8};
    bulkhead_options crane = {.type = BULKHEAD_ASYNC, .permits = 1, .queue = 4};
    crane.on_event = note_jobs;
    crane.user = &the_dock;
    csem_init(&the_dock.berths, 2);
    if (weighted_sem_init(&the_dock.quay, &quay) != 0 ||
        bulkhead_init(&the_dock.crane, &crane) != 0 ||
        loop_scheduler_init(&the_dock.office, NULL) != 0 ||
        loop_scheduler_start(&the_dock.office) != 0) {
        return NULL;
    }
    return &the_dock;
}

int dock_submit(bulkhead_job *job)
{
    return bulkhead_submit(&the_dock.crane, job);
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
