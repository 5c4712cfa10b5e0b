/* The program around the block of docs/http-worker.md: see tests/docs.sh */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>
#include "bulkhead.h"
#include "loop_scheduler.h"

/* the block */

int main(void)
{
    example("a single thread", true);
    example("many threads", false);
}
