/* The program around the blocks of docs/deadlocks.md: see tests/docs.sh */
#include <stdio.h>
#include "semaphore.h"
#include "weighted_sem.h"
#include "bulkhead.h"
#include "loop_scheduler.h"

static void show(const char *call, int error)
{
    printf("%s: %s\n", call,
           error == 0           ? "0"
           : error == EDEADLK   ? "EDEADLK"
           : error == ETIMEDOUT ? "ETIMEDOUT"
                                : "another error");
}

/* the block */

int main(void)
{
    example();
}
