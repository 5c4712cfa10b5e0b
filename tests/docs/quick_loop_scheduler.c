/* The program around the quick start of loop_scheduler.h: see tests/docs.sh */
#include "loop_scheduler.h"

struct message {
    int length;
    loop_scheduler_task task;
};

static int transcript;

static void append(int *to, void *m, int status)
{
    *to += status == 0 ? ((struct message *)m)->length : 0;
}

/* the block */

int main(void)
{
    struct message m[2] = {{.length = 1}, {.length = 2}};
    return loop_scheduler_init(&room, NULL) != 0 || loop_scheduler_start(&room) != 0 ||
           say(&m[0]) != 0 || say(&m[1]) != 0 ||
           loop_scheduler_close(&room, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) != 0 ||
           transcript != 3 || say(&m[0]) != ESHUTDOWN || loop_scheduler_destroy(&room) != 0;
}
