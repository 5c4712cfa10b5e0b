/* The program around a block of README.md: see tests/docs.sh */
#include "loop_scheduler.h"

static struct {
    loop_scheduler_task task;
    int heard;
} message;

static void said(loop_scheduler_task *task, int status)
{
    message.heard += status == 0 && task->arg == &message;
}

static int count_guests(void *arg)
{
    (void)arg;
    return 2 + message.heard; /* it stands behind the post */
}

int main(void)
{
    loop_scheduler room;
    int guests = 0;
    /* the block */
    return guests != 3 || loop_scheduler_close(&room, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) != 0 ||
           loop_scheduler_destroy(&room) != 0;
}
