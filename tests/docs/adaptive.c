/* The program around the blocks of docs/adaptive.md: see tests/docs.sh */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include "semaphore.h"
#include "weighted_sem.h"
#include "bulkhead.h"
#include "adaptive_limit.h"

/* the block */

int main(void)
{
    example();
}
