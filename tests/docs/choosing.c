/* The program around the blocks of docs/choosing.md: see tests/docs.sh */
#include <stdio.h>
#include "semaphore.h"
#include "weighted_sem.h"
#include "bulkhead.h"

/* the block */

int main(void)
{
    example();
}
