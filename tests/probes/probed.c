/* SPDX-License-Identifier: MIT
 *
 * A program that comes by every probe. Built with PLIM_USDT and without; see run.sh.
 */
#undef NDEBUG
#include "../../bulkhead.h"
#include "../../loop_scheduler.h"
#include "../../semaphore.h"
#include "../../weighted_sem.h"

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int run_nothing(bulkhead_job *job)
{
    (void)job;
    return 0;
}

static void task_nothing(loop_scheduler_task *task, int status)
{
    (void)task, (void)status;
}

int main(void)
{
    csem slots = CSEM_INIT(0);
    int wrong = csem_acquire_for(&slots, PLIM_MS(1)) != ETIMEDOUT;

    weighted_sem w;
    wrong += weighted_sem_init(&w, &(weighted_sem_options){.total = 4});
    wrong += weighted_sem_complete(&w, 4, nothing, NULL, NULL);
    wrong += weighted_sem_acquire(&w, 4);
    wrong += weighted_sem_acquire_for(&w, 1, PLIM_MS(1)) != ETIMEDOUT;
    wrong += weighted_sem_release(&w, 4);
    wrong += weighted_sem_resize(&w, 8);
    wrong += weighted_sem_destroy(&w);

    bulkhead b;
    bulkhead_job job = {.run = run_nothing};
    wrong += bulkhead_init(&b, &(bulkhead_options){.type = BULKHEAD_ASYNC, .permits = 1});
    wrong += bulkhead_submit(&b, &job);
    wrong += bulkhead_wait(&job, PLIM_FOREVER);
    wrong += bulkhead_resize(&b, 2, PLIM_KEEP);
    wrong += bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_FOREVER);
    wrong += bulkhead_enter(&b) != ESHUTDOWN;
    wrong += bulkhead_destroy(&b);

    loop_scheduler l;
    loop_scheduler_task task = {.run = task_nothing};
    wrong += loop_scheduler_init(&l, NULL);
    wrong += loop_scheduler_close(&l, LOOP_SCHEDULER_NOW, PLIM_FOREVER);
    wrong += loop_scheduler_post(&l, &task) != ESHUTDOWN;
    wrong += loop_scheduler_destroy(&l);
    return wrong != 0;
}
