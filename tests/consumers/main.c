/* main.c - a program of several source files, and perhaps a library, that share their objects
 * SPDX-License-Identifier: MIT
 */
#include <semaphore.h> /* POSIX's, wherever ours is */
#include <stdio.h>
#include "dock.h"

static int posix_works(void)
{
    sem_t sem;
    int value = 0;
    int wrong = sem_init(&sem, 0, 3) != 0;
    wrong += sem_getvalue(&sem, &value) != 0 || value != 3;
    wrong += sem_destroy(&sem) != 0;
    return wrong;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* A job of the library's bulkhead, which has one permit, wants another one. */
static int waits_for_itself(bulkhead_job *job)
{
    return bulkhead_invoke(&((dock *)job->arg)->crane, nothing, NULL, NULL);
}

static int calls_the_crew(void *loop)
{
    return crew_calls_back((loop_scheduler *)loop);
}

int main(void)
{
    loop_scheduler loop;
    int wrong = posix_works();
    if (loop_scheduler_init(&loop, NULL) != 0 || loop_scheduler_start(&loop) != 0) {
        return 1;
    }
    dock *d = dock_open();
    if (d == NULL) {
        return 1;
    }
    wrong += crew_works(d);

    bulkhead_job job = {.run = waits_for_itself, .arg = d};
    int result = dock_submit(&job);
    if (result == 0 && bulkhead_wait(&job, PLIM_S(10)) == 0) {
        result = job.result;
    }
    if (result != EDEADLK) {
        printf("error: a job that waits for its own permit: %d, not EDEADLK\n", result);
        wrong++;
    }

    /* Our loop waits for that of the crew, which calls ours: another source file, but the same
     * program, so it is seen. */
    result = 0;
    wrong += loop_scheduler_call(&loop, calls_the_crew, &loop, &result) != 0;
    if (result != EDEADLK) {
        printf("error: two loops that wait for each other: %d, not EDEADLK\n", result);
        wrong++;
    }

    wrong += loop_scheduler_close(&loop, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) != 0;
    wrong += loop_scheduler_destroy(&loop) != 0;
    wrong += dock_close();
    if (wrong != 0) {
        printf("error: %d wrong answers\n", wrong);
    }
    return wrong != 0;
}
