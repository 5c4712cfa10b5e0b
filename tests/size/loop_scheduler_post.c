/* A file that only posts, and cancels. */
#include "../../loop_scheduler.h"

int hand_over(loop_scheduler *l, loop_scheduler_task *task);
int hand_over(loop_scheduler *l, loop_scheduler_task *task)
{
    int error = loop_scheduler_post(l, task);
    return error != 0 ? error : loop_scheduler_cancel(l, task);
}
