/* The program around the blocks of docs/choosing.md: see tests/docs.sh */
#include <stdio.h>
#include <string.h>
#include "semaphore.h"
#include "weighted_sem.h"
#include "bulkhead.h"
#include "metrics.h"

/* the block */

int main(void)
{
    example();
}
