/* The program around the quick start of loop_scheduler.h: see tests/docs.sh */
#include "loop_scheduler.h"

struct message {
    int refused;
    loop_scheduler_task task;
};

static int transcript;

static void append(int *to, struct message *m)
{
    *to += 1 + m->refused;
}

/* the block */

int main(void)
{
    struct message m[2] = {{0}};
    return chat(m, 2) != 0 || transcript != 2;
}
