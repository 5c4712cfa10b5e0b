/* A small user of all of it: a loop with its own thread, tasks, a timer, a call. */
#include "../../loop_scheduler.h"

int serve(loop_scheduler_task *task, loop_scheduler_timer *timer, int (*fn)(void *), int *result);
int serve(loop_scheduler_task *task, loop_scheduler_timer *timer, int (*fn)(void *), int *result)
{
    loop_scheduler l;
    int error = loop_scheduler_init(&l, NULL);
    if (error == 0) {
        loop_scheduler_start(&l);
        loop_scheduler_post(&l, task);
        loop_scheduler_timer_start(&l, timer, PLIM_MS(1), 0);
        error = loop_scheduler_call(&l, fn, NULL, result);
        loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_S(30));
        loop_scheduler_destroy(&l);
    }
    return error;
}
