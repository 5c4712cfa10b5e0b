/* The program around the block of docs/choosing.md about a server: see tests/docs.sh */
#include <stdio.h>
#include "semaphore.h"
#include "bulkhead.h"
#include "loop_scheduler.h"

static csem database = CSEM_INIT(0);

/* the block */

int main(void)
{
    example();
}
